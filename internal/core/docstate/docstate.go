// Package docstate is the life cycle of a document: from the bytes that came in to chunks that search finds. It is
// pure: a state and an event in, a state out, or a refusal.
//
// An ingestion goes through stages. A worker claims the document, with a lease, and reports the end of each stage. What
// fails for a while is tried again, at most [MaxAttempts] times a stage; then, or after its deadline, the ingestion has
// failed. So each ends, whatever becomes of workers and endpoints. A document that was ready stays ready when a later
// ingestion fails.
//
// It must not know files, formats, models, indexes or stores. It imports the standard library.
package docstate

import (
	"errors"
	"time"
)

// Status is what clients are shown of a document's life.
type Status string

// The statuses.
const (
	Pending    Status = "pending" // accepted; no worker has begun
	Processing Status = "processing"
	Ready      Status = "ready"
	Failed     Status = "failed"
)

// Stage is a part of an ingestion.
type Stage string

// The stages, in order. Only what comes from an address is fetched.
const (
	Fetching   Stage = "fetching"
	Extracting Stage = "extracting"
	Chunking   Stage = "chunking"
	Embedding  Stage = "embedding"
	Indexing   Stage = "indexing"
)

// Code says why an ingestion failed.
type Code string

// The codes.
const (
	Unreadable           Code = "unreadable"
	Empty                Code = "empty"
	Encrypted            Code = "encrypted"
	TooLarge             Code = "too_large"
	Unsupported          Code = "unsupported_type"
	FetchFailed          Code = "fetch_failed"
	URLForbidden         Code = "url_forbidden"
	EmbeddingUnavailable Code = "embedding_unavailable"
	OverBudget           Code = "over_budget" // clients are told embedding_unavailable, and whose budget it is
	PastDeadline         Code = "deadline"
	Internal             Code = "internal"
)

// Failure says why an ingestion failed, for a person.
type Failure struct {
	Stage   Stage     `json:"stage"`
	Code    Code      `json:"error_code"`
	Message string    `json:"error"`
	At      time.Time `json:"at"`
	Quiet   bool      `json:"quiet,omitzero"` // of a quiet ingestion, after which the text is that of the bytes
}

// Lease says which worker has the document, and until when.
type Lease struct {
	Claim     string    `json:"claim,omitzero"` // the id of the worker's claim
	ProcessID string    `json:"process_id,omitzero"`
	Until     time.Time `json:"until,omitzero"`
}

// State is what the life cycle knows of a document.
type State struct {
	Status Status `json:"status"`
	Stage  Stage  `json:"stage,omitzero"` // the present one, or the one that failed; empty when the document is ready
	// Build is the number of the ingestion, from 1. What an ingestion makes is named by it, so that none touches what
	// another made.
	Build    int       `json:"build"`
	Version  int       `json:"version"`       // how many ingestions made the document ready
	Attempts int       `json:"attempts"`      // of the present stage
	Done     int       `json:"done,omitzero"` // chunks of the present stage
	Total    int       `json:"total,omitzero"`
	Lease    Lease     `json:"lease,omitzero"`
	Asked    time.Time `json:"asked_at"`          // when the ingestion was asked for
	Begun    time.Time `json:"begun_at,omitzero"` // when a worker first had it
	Due      time.Time `json:"due_at,omitzero"`   // when to go on with it, or its lease ends; zero: it has ended
	Look     time.Time `json:"look_at,omitzero"`  // a wake-up message is under way; the sweeper comes then
	ReadyAt  time.Time `json:"ready_at,omitzero"`
	Failure  *Failure  `json:"failure,omitzero"` // of the last ingestion, if it failed
	// Quiet says that clients are shown a ready document meanwhile: what they sent is not read anew, only indexed anew.
	Quiet bool `json:"quiet,omitzero"`
	// Counted is set where the ingestion is counted while it is under way. Earlier versions counted none.
	Counted bool `json:"counted,omitzero"`
}

// Limits of an ingestion.
const (
	MaxAttempts = 5 // of a stage
	firstRetry  = 2 * time.Second
	lastRetry   = 2 * time.Minute
	// MaxWait is how long a document may wait for its first worker.
	MaxWait = 24 * time.Hour
)

// ErrRefused says that an event does not fit the state: the worker has lost the document to another, or nothing is to
// be done.
var ErrRefused = errors.New("ingestion: refused")

// Event is something that happens to a document.
type Event interface {
	apply(s State, now time.Time) (State, error)
}

// Apply returns the state after an event. The error is [ErrRefused].
func Apply(s State, now time.Time, e Event) (State, error) { return e.apply(s, now) }

// Active says whether an ingestion is under way.
func (s State) Active() bool { return !s.Due.IsZero() }

// Claimable says whether a worker may have the document now; processID as for [State.Held].
func (s State) Claimable(now time.Time, processID string) bool {
	if s.Lease.Claim != "" {
		return !s.Held(now, processID)
	}
	return s.Active() && !s.Due.After(now)
}

// Held says whether a worker has the document. Where only one process runs, processID is its id, and the leases of
// others are void; else it is empty.
func (s State) Held(now time.Time, processID string) bool {
	return s.Lease.Claim != "" && s.Lease.Until.After(now) && (processID == "" || s.Lease.ProcessID == processID)
}

// Begin asks for an ingestion from a stage on: the first, or another one of a document that has had some. It may come
// at any time; one that is under way loses its worker.
type Begin struct {
	From  Stage
	Quiet bool // of a document that is ready; see State
}

func (e Begin) apply(s State, now time.Time) (State, error) { //nolint:unparam // as Event has it
	s.Build++
	s.Counted = true
	s.Quiet = e.Quiet && s.Status == Ready
	if !s.Quiet {
		s.Status, s.Failure = Pending, nil
	}
	s.Stage, s.Attempts, s.Done, s.Total = e.From, 0, 0, 0
	s.Lease, s.Asked, s.Begun, s.Due, s.Look = Lease{}, now, time.Time{}, now, time.Time{}
	return s, nil
}

// Claim is made by a worker that wants to go on with a document.
type Claim struct {
	Lease    Lease
	Deadline time.Duration // for the whole ingestion, from its first claim
}

func (e Claim) apply(s State, now time.Time) (State, error) {
	if !s.Claimable(now, e.Lease.ProcessID) {
		return s, ErrRefused
	}
	s.Look = time.Time{}
	if late, why := s.late(now, e.Deadline); late {
		return s.fail(now, PastDeadline, why), nil
	}
	lost := s.Lease.Claim != "" // with its worker, which may have been killed for other reasons than this document
	switch {
	case s.Attempts >= MaxAttempts && lost && s.Stage == Extracting:
		return s.fail(now, Unreadable, "reading this file ended the reader again and again; "+
			"save it anew, or in another format, and send that"), nil
	case s.Attempts >= MaxAttempts:
		return s.fail(now, Internal, "the worker was lost too often; reprocess the document"), nil
	}
	if s.Begun.IsZero() {
		s.Begun = now
	}
	if !s.Quiet {
		s.Status = Processing
	}
	s.Lease, s.Due = e.Lease, e.Lease.Until
	s.Attempts++
	return s, nil
}

// late says whether the ingestion has taken too long.
func (s State) late(now time.Time, deadline time.Duration) (bool, string) {
	if s.Begun.IsZero() {
		return now.Sub(s.Asked) >= MaxWait, "no worker was free within a day; reprocess the document"
	}
	return now.Sub(s.Begun) >= deadline, Late(deadline)
}

// Late is the message of an ingestion that took longer than its deadline.
func Late(deadline time.Duration) string {
	return "the ingestion took longer than " + deadline.String() + "; split the document, or reprocess it later"
}

// Renew makes the worker's lease longer, and may say how far the stage is.
type Renew struct {
	Claim string
	Until time.Time
	Done  int // chunks; what is less than was said before is not heeded
}

func (e Renew) apply(s State, _ time.Time) (State, error) {
	if s.Lease.Claim != e.Claim {
		return s, ErrRefused
	}
	s.Lease.Until, s.Due, s.Done = e.Until, e.Until, max(s.Done, e.Done)
	return s, nil
}

// Advance ends a stage; the next one is tried anew.
type Advance struct {
	Claim string
	To    Stage
	Done  int // of the next stage, what an earlier ingestion has done of it
	Total int
}

func (e Advance) apply(s State, _ time.Time) (State, error) {
	if s.Lease.Claim != e.Claim {
		return s, ErrRefused
	}
	s.Stage, s.Attempts, s.Done, s.Total = e.To, 1, e.Done, e.Total
	return s, nil
}

// Finish ends the ingestion: what it made is what search finds from now on.
type Finish struct{ Claim string }

func (e Finish) apply(s State, now time.Time) (State, error) {
	if s.Lease.Claim != e.Claim {
		return s, ErrRefused
	}
	if !s.Quiet {
		s.Version++
		s.ReadyAt = now
	}
	return s.end(), nil
}

// Unchanged ends an ingestion that found nothing new at its source.
type Unchanged struct{ Claim string }

func (e Unchanged) apply(s State, _ time.Time) (State, error) {
	if s.Lease.Claim != e.Claim || s.Version == 0 {
		return s, ErrRefused
	}
	return s.end(), nil
}

// end is the state of a document that is ready and at rest.
func (s State) end() State {
	s.Status, s.Stage, s.Attempts, s.Quiet = Ready, "", 0, false
	s.Lease, s.Due, s.Look, s.Failure = Lease{}, time.Time{}, time.Time{}, nil
	return s
}

// Fail ends the ingestion: another attempt would end in the same way.
type Fail struct {
	Claim   string
	Code    Code
	Message string
}

func (e Fail) apply(s State, now time.Time) (State, error) {
	if s.Lease.Claim != e.Claim {
		return s, ErrRefused
	}
	return s.fail(now, e.Code, e.Message), nil
}

func (s State) fail(now time.Time, code Code, message string) State {
	s.Failure = &Failure{Stage: s.Stage, Code: code, Message: message, At: now, Quiet: s.Quiet}
	s.Lease, s.Due, s.Look, s.Status, s.Quiet = Lease{}, time.Time{}, time.Time{}, Failed, false
	if s.Version > 0 { // what was ready before stays so
		s.Status, s.Stage, s.Attempts = Ready, "", 0
	}
	return s
}

// Retry gives the document back after an attempt that failed for a while.
type Retry struct {
	Claim   string
	Code    Code // should it be the last attempt
	Message string
	After   time.Duration // as the other side asked; 0: not at all
}

func (e Retry) apply(s State, now time.Time) (State, error) {
	if s.Lease.Claim != e.Claim {
		return s, ErrRefused
	}
	if s.Attempts >= MaxAttempts {
		return s.fail(now, e.Code, e.Message), nil
	}
	wait := min(max(firstRetry<<(s.Attempts-1), e.After), lastRetry)
	s.Lease, s.Due = Lease{}, now.Add(wait)
	return s, nil
}

// Ended says whether an event ended an ingestion, perhaps to begin another one.
func Ended(before, after State) bool { return !after.Active() || after.Build != before.Build }

// Release gives the document back for another worker to go on: this one stops. It counts as no attempt.
type Release struct{ Claim string }

func (e Release) apply(s State, now time.Time) (State, error) {
	if s.Lease.Claim != e.Claim {
		return s, ErrRefused
	}
	s.Lease, s.Due = Lease{}, now
	s.Attempts--
	return s, nil
}

// Postpone says when the sweeper looks again at a document that is due: a wake-up message about it is under way.
type Postpone struct{ Look time.Time }

func (e Postpone) apply(s State, _ time.Time) (State, error) {
	if !s.Active() {
		return s, ErrRefused
	}
	s.Look = e.Look
	return s, nil
}
