// Package docstate is the life cycle of a document, from its bytes to chunks that search finds. It is pure. The input
// is a state and an event; the result is the next state, or a refusal.
//
// An ingestion goes through stages. A worker claims the document with a lease, and reports the end of each stage. A
// temporary failure is tried again, at most [MaxAttempts] times a stage. After the last attempt, or after the deadline,
// the ingestion has failed. So each ingestion ends, also when workers are lost or endpoints do not answer. A document
// that was ready stays ready when a later ingestion fails.
//
// The package must not know files, formats, models, indexes or stores. It imports the standard library.
package docstate

import (
	"errors"
	"time"
)

// Status is the state of a document as clients see it.
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

// The stages, in order. Only a document from an address has the stage Fetching.
const (
	Fetching   Stage = "fetching"
	Extracting Stage = "extracting"
	Chunking   Stage = "chunking"
	Embedding  Stage = "embedding"
	Indexing   Stage = "indexing"
)

// Code is the reason of a failed ingestion, for programs.
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
	OverBudget           Code = "over_budget" // clients get embedding_unavailable, and the owner of the budget
	PastDeadline         Code = "deadline"
	Internal             Code = "internal"
)

// Failure is the reason of a failed ingestion, for a person.
type Failure struct {
	Stage   Stage     `json:"stage"`
	Code    Code      `json:"error_code"`
	Message string    `json:"error"`
	At      time.Time `json:"at"`
	Quiet   bool      `json:"quiet,omitzero"` // the ingestion was quiet: the text is still that of the bytes
}

// Lease names the worker that has the document, and the end of its right.
type Lease struct {
	Claim     string    `json:"claim,omitzero"` // the id of the worker's claim
	ProcessID string    `json:"process_id,omitzero"`
	Until     time.Time `json:"until,omitzero"`
}

// State is the stored state of a document's life cycle.
type State struct {
	Status Status `json:"status"`
	Stage  Stage  `json:"stage,omitzero"` // the present or the failed stage; empty when the document is ready
	// Build is the number of the ingestion, from 1. Everything that an ingestion writes has this number in its name, so
	// that no ingestion changes the data of another.
	Build       int       `json:"build"`
	Version     int       `json:"version"`       // how many ingestions made the document ready
	Attempts    int       `json:"attempts"`      // of the present stage
	Done        int       `json:"done,omitzero"` // chunks of the present stage
	Total       int       `json:"total,omitzero"`
	Lease       Lease     `json:"lease,omitzero"`
	RequestedAt time.Time `json:"asked_at"`          // when the ingestion was requested
	Begun       time.Time `json:"begun_at,omitzero"` // when a worker first claimed it
	Due         time.Time `json:"due_at,omitzero"`   // when to continue, or when the lease ends; zero: it has ended
	CheckAt     time.Time `json:"look_at,omitzero"`  // a wakeup is under way; the sweeper looks at this time
	ReadyAt     time.Time `json:"ready_at,omitzero"`
	Failure     *Failure  `json:"failure,omitzero"` // of the last ingestion, if it failed
	// Quiet means that clients see a ready document during the ingestion. Its bytes are not read again, only indexed
	// again.
	Quiet bool `json:"quiet,omitzero"`
	// Counted is set if the ingestion counts among those under way. Earlier versions counted none.
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

// ErrRefused is returned for an event that does not fit the state. The worker has lost the document to another, or
// there is no work.
var ErrRefused = errors.New("ingestion: refused")

// Event is something that happens to a document.
type Event interface {
	apply(s State, now time.Time) (State, error)
}

// Apply returns the state after an event. The error is [ErrRefused].
func Apply(s State, now time.Time, e Event) (State, error) { return e.apply(s, now) }

// Active reports whether an ingestion is under way.
func (s State) Active() bool { return !s.Due.IsZero() }

// Claimable reports whether a worker may claim the document now. processID is as for [State.Held].
func (s State) Claimable(now time.Time, processID string) bool {
	if s.Lease.Claim != "" {
		return !s.Held(now, processID)
	}
	return s.Active() && !s.Due.After(now)
}

// Held reports whether a worker has the document. Where only one process runs, processID is its id, and the leases of
// other processes are void. Elsewhere processID is empty.
func (s State) Held(now time.Time, processID string) bool {
	return s.Lease.Claim != "" && s.Lease.Until.After(now) && (processID == "" || s.Lease.ProcessID == processID)
}

// Begin requests an ingestion, starting at a stage. It is the first ingestion of a document, or a later one. It may
// come at any time. An ingestion that is under way loses its worker.
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
	s.Lease, s.RequestedAt, s.Begun, s.Due, s.CheckAt = Lease{}, now, time.Time{}, now, time.Time{}
	return s, nil
}

// Claim is the event of a worker that wants to continue with a document.
type Claim struct {
	Lease    Lease
	Deadline time.Duration // for the whole ingestion, from its first claim
}

func (e Claim) apply(s State, now time.Time) (State, error) {
	if !s.Claimable(now, e.Lease.ProcessID) {
		return s, ErrRefused
	}
	s.CheckAt = time.Time{}
	if late, why := s.late(now, e.Deadline); late {
		return s.fail(now, PastDeadline, why), nil
	}
	lost := s.Lease.Claim != "" // the worker was lost, perhaps for reasons other than this document
	switch {
	case s.Attempts >= MaxAttempts && lost && s.Stage == Extracting:
		return s.fail(now, Unreadable, "this file stopped the reader several times; "+
			"save it again, or in another format, and upload that"), nil
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

// late reports whether the ingestion has taken too long, and returns the message for that.
func (s State) late(now time.Time, deadline time.Duration) (bool, string) {
	if s.Begun.IsZero() {
		return now.Sub(s.RequestedAt) >= MaxWait, "no worker was free within a day; reprocess the document"
	}
	return now.Sub(s.Begun) >= deadline, Late(deadline)
}

// Late is the message of an ingestion that took longer than its deadline.
func Late(deadline time.Duration) string {
	return "the ingestion took longer than " + deadline.String() + "; split the document, or reprocess it later"
}

// Renew extends the worker's lease. It may report the progress of the stage.
type Renew struct {
	Claim string
	Until time.Time
	Done  int // chunks; a number below an earlier one is ignored
}

func (e Renew) apply(s State, _ time.Time) (State, error) {
	if s.Lease.Claim != e.Claim {
		return s, ErrRefused
	}
	s.Lease.Until, s.Due, s.Done = e.Until, e.Until, max(s.Done, e.Done)
	return s, nil
}

// Advance ends a stage. The next stage begins with its first attempt.
type Advance struct {
	Claim string
	To    Stage
	Done  int // chunks of the next stage that an earlier ingestion has done
	Total int
}

func (e Advance) apply(s State, _ time.Time) (State, error) {
	if s.Lease.Claim != e.Claim {
		return s, ErrRefused
	}
	s.Stage, s.Attempts, s.Done, s.Total = e.To, 1, e.Done, e.Total
	return s, nil
}

// Finish ends the ingestion with success. Search finds its result from now on.
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

// Unchanged ends an ingestion whose source has not changed.
type Unchanged struct{ Claim string }

func (e Unchanged) apply(s State, _ time.Time) (State, error) {
	if s.Lease.Claim != e.Claim || s.Version == 0 {
		return s, ErrRefused
	}
	return s.end(), nil
}

// end returns the state of a document that is ready, without an ingestion.
func (s State) end() State {
	s.Status, s.Stage, s.Attempts, s.Quiet = Ready, "", 0, false
	s.Lease, s.Due, s.CheckAt, s.Failure = Lease{}, time.Time{}, time.Time{}, nil
	return s
}

// Fail ends the ingestion, because another attempt would fail in the same way.
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
	s.Lease, s.Due, s.CheckAt, s.Status, s.Quiet = Lease{}, time.Time{}, time.Time{}, Failed, false
	if s.Version > 0 { // a document that was ready stays ready
		s.Status, s.Stage, s.Attempts = Ready, "", 0
	}
	return s
}

// Retry returns the document after a temporary failure.
type Retry struct {
	Claim   string
	Code    Code // of the failure, if this was the last attempt
	Message string
	After   time.Duration // as the other side requested; 0: no request
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

// Ended reports whether an event ended an ingestion. The event may have begun another one.
func Ended(before, after State) bool { return !after.Active() || after.Build != before.Build }

// Release returns the document because this worker stops. Another worker continues. It does not count as an attempt.
type Release struct{ Claim string }

func (e Release) apply(s State, now time.Time) (State, error) {
	if s.Lease.Claim != e.Claim {
		return s, ErrRefused
	}
	s.Lease, s.Due = Lease{}, now
	s.Attempts--
	return s, nil
}

// Postpone sets when the sweeper looks again at a document that is due. Until then a wakeup for it is under way.
type Postpone struct{ CheckAt time.Time }

func (e Postpone) apply(s State, _ time.Time) (State, error) {
	if !s.Active() {
		return s, ErrRefused
	}
	s.CheckAt = e.CheckAt
	return s, nil
}
