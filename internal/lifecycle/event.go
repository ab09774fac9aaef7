package lifecycle

import (
	"fmt"
	"slices"
	"time"
)

// Claim is a worker asking for a run.
type Claim struct {
	Holder string
	Boot   string // not empty: the asking process is the only one (see Lease.Lapsed)
	Until  time.Time
}

// Move names the move.
func (Claim) Move() string { return "claim" }

func (e Claim) apply(o *Outcome, now time.Time) error {
	r := &o.After
	if r.Status == Running {
		switch {
		case !r.Lease.Lapsed(now, e.Boot):
			return o.refuse(LeaseHeld)
		case mustEnd(o.Before) != nil:
			return o.refuse(Ended)
		case r.Lease.Holder != "":
			r.Crashes++
		}
	} else {
		if !now.Before(r.StartBy) {
			return o.refuse(TooEarly) // too late, rather: the run is to be failed, see Pending
		}
		o.enter(Running, now)
		r.StartBy = time.Time{} // it has started
	}
	r.Attempt++
	r.Lease = Lease(e)
	if r.StartedAt.IsZero() {
		r.StartedAt = now
	}
	return nil
}

// Work is what every report of a worker carries: which attempt it is, and what has been consumed.
type Work struct {
	Attempt int
	Active  time.Duration // active time of the whole run so far, by the worker's monotonic clock
	Usage   Usage         // of the whole run so far
	Steps   int           // journalled so far
	Until   time.Time     // the lease's new end, for reports that go on
}

func (w Work) report(o *Outcome) error {
	r := &o.After
	if r.Attempt != w.Attempt || r.Lease.Holder == "" {
		return o.refuse(LeaseLost)
	}
	// Totals rather than increments: a report that is made twice, because the first answer was lost, counts once.
	r.ActiveMS = max(r.ActiveMS, w.Active.Milliseconds())
	r.Usage, r.Steps = w.Usage, w.Steps
	if !w.Until.IsZero() {
		r.Lease.Until = w.Until
	}
	return nil
}

// Beat keeps the lease alive.
type Beat struct{ Work }

// Move names the move.
func (Beat) Move() string { return "beat" }

func (e Beat) apply(o *Outcome, _ time.Time) error { return e.report(o) }

// Step journals a step. A journalled step is progress: the count of crashes begins anew.
type Step struct{ Work }

// Move names the move.
func (Step) Move() string { return "step" }

func (e Step) apply(o *Outcome, _ time.Time) error {
	o.After.Crashes = 0
	return e.report(o)
}

// HandOver ends a worker's part without ending the run.
type HandOver struct{ Work }

// Move names the move.
func (HandOver) Move() string { return "hand_over" }

func (e HandOver) apply(o *Outcome, now time.Time) error {
	if err := e.report(o); err != nil {
		return err
	}
	r := &o.After
	r.Lease = Lease{}
	r.Hops++
	r.Due = now.Add(DispatchGrace)
	o.Nudge = true
	return nil
}

// Crash ends a worker's part that failed inside: its program panicked. Another attempt begins, until there were too many
// since the last journalled step.
type Crash struct{ Work }

// Move names the move.
func (Crash) Move() string { return "crash" }

func (e Crash) apply(o *Outcome, now time.Time) error {
	r := &o.After
	if r.Crashes++; r.Crashes >= MaxCrashes {
		return e.finish(o, Failed, fmt.Sprintf("the agent's work failed inside the service %d times without finishing a step", r.Crashes), now)
	}
	if err := e.report(o); err != nil {
		return err
	}
	if r.CancelRequested {
		o.enter(Cancelled, now)
		return nil
	}
	r.Lease = Lease{}
	r.Due = now.Add(DispatchGrace)
	o.Nudge = true
	return nil
}

// Pause stops the run until humans have decided.
type Pause struct {
	Work
	Interrupts   []Pending
	ExpiresAt    time.Time
	AgentVersion int // the newest one, published or not
}

// Move names the move.
func (Pause) Move() string { return "pause" }

func (e Pause) apply(o *Outcome, now time.Time) error {
	if err := e.report(o); err != nil {
		return err
	}
	r := &o.After
	if r.CancelRequested {
		o.enter(Cancelled, now)
		return nil
	}
	o.enter(AwaitingInput, now)
	r.Pause++
	r.Interrupts, r.PausedAt, r.ExpiresAt, r.Due, r.Crashes = e.Interrupts, now, e.ExpiresAt, e.ExpiresAt, 0
	r.PausedAgentVersion = e.AgentVersion
	row := PausedRow(r.ID())
	r.Slots = Slots{User: row, Organization: row}
	o.Arm = &Alarm{Pause: r.Pause, At: e.ExpiresAt}
	return nil
}

// PausedRow is the row that a paused run has among the slots, where it counts for nothing.
func PausedRow(run string) string { return "paused/" + run }

// Complete ends the run with its answer.
type Complete struct{ Work }

// Move names the move.
func (Complete) Move() string { return "complete" }

func (e Complete) apply(o *Outcome, now time.Time) error {
	return e.finish(o, Completed, "", now)
}

// Fail ends the run with an error.
type Fail struct {
	Work
	Error string
}

// Move names the move.
func (Fail) Move() string { return "fail" }

func (e Fail) apply(o *Outcome, now time.Time) error { return e.finish(o, Failed, e.Error, now) }

// TimeOut ends the run at its active-execution limit.
type TimeOut struct{ Work }

// Move names the move.
func (TimeOut) Move() string { return "time_out" }

func (e TimeOut) apply(o *Outcome, now time.Time) error {
	return e.finish(o, TimedOut, limitReached(o.Before), now)
}

func limitReached(r Run) string {
	return fmt.Sprintf("the run reached its active-execution limit of %s", r.ActiveLimit())
}

// finish ends a running run. An acknowledged cancel wins over whatever the worker brings.
func (w Work) finish(o *Outcome, s Status, reason string, now time.Time) error {
	if err := w.report(o); err != nil {
		return err
	}
	if o.After.CancelRequested {
		o.enter(Cancelled, now)
		return nil
	}
	o.After.Error = reason
	o.enter(s, now)
	return nil
}

// Recover ends a run that its worker left and that must not be executed again.
type Recover struct{ Boot string }

// Move names the move.
func (Recover) Move() string { return "recover" }

func (e Recover) apply(o *Outcome, now time.Time) error {
	if !o.Before.Lease.Lapsed(now, e.Boot) {
		return o.refuse(LeaseHeld)
	}
	end := mustEnd(o.Before)
	if end == nil {
		return o.refuse(TooEarly)
	}
	o.After.Error = end.reason
	o.enter(end.status, now)
	return nil
}

type ending struct {
	status Status
	reason string
}

// mustEnd says how a run without a live worker must end, nil when it may go on.
func mustEnd(r Run) *ending {
	crashes := r.Crashes
	if r.Lease.Holder != "" {
		crashes++ // the lapse that is being looked at
	}
	switch {
	case r.CancelRequested:
		return &ending{Cancelled, ""}
	case crashes >= MaxCrashes:
		return &ending{Failed, fmt.Sprintf("the worker was lost %d times without finishing a step", crashes)}
	case r.Hops >= MaxHops:
		return &ending{Failed, fmt.Sprintf("the run was handed over %d times", r.Hops)}
	case r.LimitMS > 0 && r.ActiveMS >= r.LimitMS:
		return &ending{TimedOut, limitReached(r)}
	default:
		return nil
	}
}

// Unstartable fails a run that waited too long for a worker.
type Unstartable struct{}

// Move names the move.
func (Unstartable) Move() string { return "unstartable" }

func (Unstartable) apply(o *Outcome, now time.Time) error {
	r := &o.After
	if now.Before(r.StartBy) {
		return o.refuse(TooEarly)
	}
	r.Error = fmt.Sprintf("the run could not be started within %s", r.StartBy.Sub(r.QueuedAt))
	o.enter(Failed, now)
	return nil
}

// Decision is what a human decided about one interrupt.
type Decision struct {
	InterruptID string
	Verb        Verb
}

// Verb is what a decision says.
type Verb string

// The verbs.
const (
	Approve Verb = "approve"
	Reject  Verb = "reject"
	Edit    Verb = "edit"
	Answer  Verb = "answer"
)

func (v Verb) fits(k InterruptKind) bool { return (v == Answer) == (k == Clarification) }

// Resume decides exactly the pending interrupts.
type Resume struct {
	Decisions []Decision
	By        string
	Slots     Slots
	StartBy   time.Time
}

// Move names the move.
func (Resume) Move() string { return "resume" }

func (e Resume) apply(o *Outcome, now time.Time) error {
	r := &o.After
	kinds := map[string]InterruptKind{}
	for _, p := range r.Interrupts {
		kinds[p.ID] = p.Kind
	}
	decided := map[string]bool{}
	for _, d := range e.Decisions {
		if _, ok := kinds[d.InterruptID]; !ok || decided[d.InterruptID] {
			return o.refuse(Mismatch)
		}
		decided[d.InterruptID] = true
	}
	if len(decided) != len(kinds) {
		return o.refuse(Mismatch)
	}
	for i, d := range e.Decisions {
		if !d.Verb.fits(kinds[d.InterruptID]) {
			return &Refusal{
				Reason: WrongKind, Status: r.Status,
				Detail: fmt.Sprintf("decisions[%d]: %s does not fit the %s", i, d.Verb, kinds[d.InterruptID]),
			}
		}
	}
	r.DecidedBy = e.By
	o.requeue(e.Slots, e.StartBy, now)
	return nil
}

// AnswerMessage answers the one pending clarification.
type AnswerMessage struct {
	By      string
	Slots   Slots
	StartBy time.Time
}

// Move names the move.
func (AnswerMessage) Move() string { return "answer" }

func (e AnswerMessage) apply(o *Outcome, now time.Time) error {
	if !o.Before.Answerable() {
		return o.refuse(NotAnswerable)
	}
	o.After.DecidedBy = e.By
	o.requeue(e.Slots, e.StartBy, now)
	return nil
}

// Expire ends a pause that nobody decided. It is fenced by the pause's number and by the stored instant.
type Expire struct{ Pause int }

// Move names the move.
func (Expire) Move() string { return "expire" }

func (e Expire) apply(o *Outcome, now time.Time) error {
	r := &o.After
	if r.Pause != e.Pause {
		return o.refuse(StalePause)
	}
	if now.Before(r.ExpiresAt) {
		return o.refuse(TooEarly)
	}
	r.CancelReason = "nobody decided before the pause expired"
	o.enter(Cancelled, now)
	return nil
}

// Cancel stops the run: at once where no worker is at it, else by a flag the worker sees.
type Cancel struct {
	Reason string
	Boot   string
}

// Move names the move.
func (Cancel) Move() string { return "cancel" }

func (e Cancel) apply(o *Outcome, now time.Time) error {
	r := &o.After
	if r.CancelRequested && !r.Lease.Lapsed(now, e.Boot) {
		return o.refuse(AlreadyFlagged)
	}
	if !r.CancelRequested {
		r.CancelRequested, r.CancelReason = true, e.Reason
	}
	if r.Status == Running && !r.Lease.Lapsed(now, e.Boot) {
		return nil
	}
	o.enter(Cancelled, now)
	return nil
}

// Park keeps a message for the time after the run. Its id is the id that its own run will have.
type Park struct{ ID string }

// Move names the move.
func (Park) Move() string { return "park" }

func (e Park) apply(o *Outcome, _ time.Time) error {
	if len(o.After.Parked) >= MaxParked {
		return o.refuse(ParkedFull)
	}
	o.After.Parked = append(o.After.Parked, e.ID)
	return nil
}

// Withdraw takes a parked message back.
type Withdraw struct{ ID string }

// Move names the move.
func (Withdraw) Move() string { return "withdraw" }

func (e Withdraw) apply(o *Outcome, _ time.Time) error {
	at := slices.Index(o.After.Parked, e.ID)
	if at < 0 {
		return o.refuse(NotParked)
	}
	o.After.Parked = slices.Delete(o.After.Parked, at, at+1)
	return nil
}

// Postpone says when the sweeper will look again.
type Postpone struct{ Due time.Time }

// Move names the move.
func (Postpone) Move() string { return "postpone" }

func (e Postpone) apply(o *Outcome, _ time.Time) error {
	o.After.Due = e.Due
	return nil
}

// Remove ends a run whose chat, user or organisation is deleted: no push, and nothing parked goes on, unless KeepParked
// says that the chat stays.
type Remove struct{ KeepParked bool }

// Move names the move.
func (Remove) Move() string { return "remove" }

func (e Remove) apply(o *Outcome, now time.Time) error {
	if !e.KeepParked {
		o.After.Parked = nil
	}
	o.After.CancelReason = "deleted"
	o.enter(Cancelled, now)
	o.Announce = nil
	return nil
}

// PendingWork says what a run asks for at this time: the event to apply, or that a worker should execute it. Both are zero
// when nothing is to be done before Again. The sweeper, a nudge and a timer all come to the same answer by it.
type PendingWork struct {
	Execute bool
	Event   Event
	Again   time.Time // when to look again; zero for a run that has ended
}

// Look works out what a run asks for now.
func Look(r Run, now time.Time, boot string) PendingWork {
	switch r.Status {
	case Queued:
		if !now.Before(r.StartBy) {
			return PendingWork{Event: Unstartable{}}
		}
		return PendingWork{Execute: true, Again: r.StartBy}
	case Running:
		if !r.Lease.Lapsed(now, boot) {
			return PendingWork{Again: r.Lease.Until}
		}
		if mustEnd(r) != nil {
			return PendingWork{Event: Recover{Boot: boot}}
		}
		return PendingWork{Execute: true, Again: now.Add(DispatchGrace)}
	case AwaitingInput:
		if !now.Before(r.ExpiresAt) {
			return PendingWork{Event: Expire{Pause: r.Pause}}
		}
		return PendingWork{Again: r.ExpiresAt}
	default:
		return PendingWork{}
	}
}
