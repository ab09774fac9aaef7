package lifecycle

import (
	"fmt"
	"slices"
	"time"
)

// Claim is sent by a worker that wants to execute a run. The run is queued, or its lease has lapsed.
type Claim struct {
	Holder    string
	ProcessID string // if not empty, the claiming process is the only one (see Lease.Lapsed)
	Until     time.Time
}

func (e Claim) apply(o *Outcome, now time.Time) error {
	r := &o.After
	if r.Status == Running {
		switch {
		case !r.Lease.Lapsed(now, e.ProcessID):
			return o.refuse(LeaseHeld)
		case mustEnd(o.Before) != nil:
			return o.refuse(Ended)
		case r.Lease.Holder != "":
			r.Crashes++
		}
	} else {
		if !now.Before(r.StartBy) {
			return o.refuse(TooEarly) // the start deadline has passed: Unstartable must fail the run first
		}
		o.enter(Running, now)
		r.StartBy = time.Time{} // the start deadline no longer applies
	}
	r.Attempt++
	r.Lease = Lease(e)
	r.count()
	if r.StartedAt.IsZero() {
		r.StartedAt = now
	}
	return nil
}

// Work is part of every report of a worker. It has the number of the attempt and the consumption of the run.
type Work struct {
	Attempt int
	Active  time.Duration // total active time of the run, by the worker's monotonic clock
	Usage   Usage         // total of the run
	Steps   int           // total of journalled steps
	Until   time.Time     // the new end of the lease; zero leaves it as it is
}

func (w Work) report(o *Outcome) error {
	r := &o.After
	if r.Attempt != w.Attempt || r.Lease.Holder == "" {
		return o.refuse(LeaseLost)
	}
	// Totals, not increments: if the first answer is lost and the report repeated, it counts once.
	r.ActiveMS = max(r.ActiveMS, w.Active.Milliseconds())
	r.Usage, r.Steps = w.Usage, w.Steps
	if !w.Until.IsZero() {
		r.Lease.Until = w.Until
	}
	return nil
}

// Renew is the heartbeat. It renews the lease.
type Renew struct{ Work }

func (e Renew) apply(o *Outcome, _ time.Time) error { return e.report(o) }

// Step journals steps. A journalled step is progress, so it sets the count of crashes to 0.
type Step struct{ Work }

func (e Step) apply(o *Outcome, _ time.Time) error {
	o.After.Crashes = 0
	return e.report(o)
}

// Release gives up the lease without ending the run. Another worker continues the run.
type Release struct{ Work }

func (e Release) apply(o *Outcome, now time.Time) error {
	if err := e.report(o); err != nil {
		return err
	}
	r := &o.After
	r.Lease = Lease{}
	r.Hops++
	r.Due = now.Add(DispatchGrace)
	o.Wake = true
	return nil
}

// Crash reports that an attempt panicked. Another attempt begins. The run fails instead when [MaxCrashes] attempts were
// lost since the last journalled step.
type Crash struct{ Work }

func (e Crash) apply(o *Outcome, now time.Time) error {
	r := &o.After
	if r.Crashes++; r.Crashes >= MaxCrashes {
		return e.finish(o, Failed,
			fmt.Sprintf("the agent's work failed inside the service %d times without finishing a step", r.Crashes), now)
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
	o.Wake = true
	return nil
}

// Pause stops the run until people have decided its interrupts, or until ExpiresAt.
type Pause struct {
	Work
	Interrupts   []Pending
	ExpiresAt    time.Time
	AgentVersion int // the published version of the agent
}

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
	row := PausedSlot(now, r.ID())
	r.Slots = Slots{User: row, Organization: row}
	o.Arm = true
	return nil
}

// PausedSlot is the sort key of the slot of a run that paused at a time. It does not count against the caps. The runs
// that have waited longest sort first. Slots of earlier versions have neither the t nor a time, and sort before them.
func PausedSlot(at time.Time, run string) string {
	return fmt.Sprintf("paused/t%012x/%s", at.UnixMilli(), run)
}

// Complete ends the run with its answer.
type Complete struct{ Work }

func (e Complete) apply(o *Outcome, now time.Time) error {
	return e.finish(o, Completed, "", now)
}

// Fail ends the run with an error message.
type Fail struct {
	Work
	Error   string
	Refused bool // the model's provider refuses the content of the run's message
}

func (e Fail) apply(o *Outcome, now time.Time) error {
	err := e.finish(o, Failed, e.Error, now)
	o.After.Refused = err == nil && e.Refused && o.After.Status == Failed
	return err
}

// TimeOut ends the run because it has reached its limit of active time.
type TimeOut struct{ Work }

func (e TimeOut) apply(o *Outcome, now time.Time) error {
	return e.finish(o, TimedOut, limitReached(o.Before), now)
}

func limitReached(r Run) string {
	return fmt.Sprintf("the run reached its active-execution limit of %s", r.ActiveLimit())
}

// finish ends a running run. If a cancel was requested, the run is cancelled, also when the worker reports another end.
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

// Recover ends a run whose worker is lost and that must not be executed again (see mustEnd).
type Recover struct{ ProcessID string }

func (e Recover) apply(o *Outcome, now time.Time) error {
	if !o.Before.Lease.Lapsed(now, e.ProcessID) {
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

// mustEnd returns the end of a run without a live worker, or nil if another attempt may execute it.
func mustEnd(r Run) *ending {
	crashes := r.Crashes
	if r.Lease.Holder != "" {
		crashes++ // the lease that has lapsed now
	}
	switch {
	case r.CancelRequested:
		return &ending{Cancelled, ""}
	case crashes >= MaxCrashes:
		return &ending{Failed, fmt.Sprintf("the worker was lost %d times without finishing a step", crashes)}
	case r.Hops >= MaxHops:
		return &ending{Failed, fmt.Sprintf("the run was released %d times", r.Hops)}
	case r.LimitMS > 0 && r.ActiveMS >= r.LimitMS:
		return &ending{TimedOut, limitReached(r)}
	default:
		return nil
	}
}

// Unstartable fails a run that no worker started before its start deadline.
type Unstartable struct{}

func (Unstartable) apply(o *Outcome, now time.Time) error {
	r := &o.After
	if now.Before(r.StartBy) {
		return o.refuse(TooEarly)
	}
	r.Error = fmt.Sprintf("the run could not be started within %s", r.StartBy.Sub(r.QueuedAt))
	o.enter(Failed, now)
	return nil
}

// Decision is a person's decision about one interrupt.
type Decision struct {
	InterruptID string
	Verb        Verb
}

// Verb is the kind of a decision.
type Verb string

// The verbs. Answer is for clarifications, the others are for approvals.
const (
	Approve Verb = "approve"
	Reject  Verb = "reject"
	Edit    Verb = "edit"
	Answer  Verb = "answer"
)

func (v Verb) fits(k InterruptKind) bool { return (v == Answer) == (k == Clarification) }

// Resume queues a paused run again. It must decide exactly the pending interrupts.
type Resume struct {
	Decisions []Decision
	By        string
	Slots     Slots
	StartBy   time.Time
}

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

// AnswerMessage queues a paused run again. A message answers the run's only pending clarification.
type AnswerMessage struct {
	By      string
	Slots   Slots
	StartBy time.Time
}

func (e AnswerMessage) apply(o *Outcome, now time.Time) error {
	if !o.Before.Answerable() {
		return o.refuse(NotAnswerable)
	}
	o.After.DecidedBy = e.By
	o.requeue(e.Slots, e.StartBy, now)
	return nil
}

// Expire cancels a run whose pause was not decided in time. The number of the pause and the stored end fence it.
type Expire struct{ Pause int }

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

// Cancel cancels the run immediately if no live worker executes it. Otherwise it sets a flag that the worker reads.
type Cancel struct {
	Reason    string
	ProcessID string
}

func (e Cancel) apply(o *Outcome, now time.Time) error {
	r := &o.After
	if r.CancelRequested && !r.Lease.Lapsed(now, e.ProcessID) {
		return o.refuse(AlreadyFlagged)
	}
	if !r.CancelRequested {
		r.CancelRequested, r.CancelReason = true, e.Reason
	}
	if r.Status == Running && !r.Lease.Lapsed(now, e.ProcessID) {
		return nil
	}
	o.enter(Cancelled, now)
	return nil
}

// Park adds a message that waits for the run's end. The message will become the run with this ID.
type Park struct{ ID string }

func (e Park) apply(o *Outcome, _ time.Time) error {
	if o.After.Deleted {
		return o.refuse(Ended)
	}
	if len(o.After.Parked) >= MaxParked {
		return o.refuse(ParkedFull)
	}
	o.After.Parked = append(o.After.Parked, e.ID)
	return nil
}

// Withdraw removes a parked message.
type Withdraw struct{ ID string }

func (e Withdraw) apply(o *Outcome, _ time.Time) error {
	at := slices.Index(o.After.Parked, e.ID)
	if at < 0 {
		return o.refuse(NotParked)
	}
	o.After.Parked = slices.Delete(o.After.Parked, at, at+1)
	return nil
}

// Postpone sets when the sweeper reconciles the run again.
type Postpone struct {
	Due time.Time
	// StartBy, if it is not zero, moves the start deadline of a queued run to a later time. That is for a run whose
	// turn is delayed by other runs of its organization. The deadline is at most MaxQueued after the run was queued.
	StartBy time.Time
}

func (e Postpone) apply(o *Outcome, _ time.Time) error {
	r := &o.After
	r.Due = e.Due
	if r.Status != Queued {
		return nil
	}
	if last := r.QueuedAt.Add(MaxQueued); last.Before(e.StartBy) {
		e.StartBy = last
	}
	if r.StartBy.Before(e.StartBy) {
		r.StartBy = e.StartBy
	}
	if r.StartBy.Before(r.Due) {
		r.Due = r.StartBy
	}
	return nil
}

// ReasonRemoved is the reason of a run that [Remove] has ended, or will end. Such a run keeps no text.
const ReasonRemoved = "its chat, user or organization was deleted"

// Remove ends a run whose chat, user or organization is deleted. It ends it when [Cancel] would, so that what a call
// under way uses is counted. No webhook is sent. KeepParked means that the chat stays. Without it the slots are free
// immediately, and the parked messages are dropped.
type Remove struct {
	KeepParked bool
	ProcessID  string
}

func (e Remove) apply(o *Outcome, now time.Time) error {
	r := &o.After
	r.CancelRequested, r.CancelReason, r.Callback = true, ReasonRemoved, false
	if r.Deleted = r.Deleted || !e.KeepParked; r.Deleted {
		r.Slots = Slots{}
	}
	if r.Status != Running || r.Lease.Lapsed(now, e.ProcessID) {
		o.enter(Cancelled, now)
	}
	return nil
}

// PendingWork is the work that a run needs at a time: an event to apply, or a worker to execute it. Event and Execute
// are both zero if there is no work before Again. The sweeper, the handler of a wakeup and a timer all use it.
type PendingWork struct {
	Execute bool
	Event   Event
	Again   time.Time // when to reconcile the run again; zero if it has ended
}

// Next returns the work that a run needs now. processID is the id of the only living process, or empty (see
// [Lease.Lapsed]).
func Next(r Run, now time.Time, processID string) PendingWork {
	switch r.Status {
	case Queued:
		if !now.Before(r.StartBy) {
			return PendingWork{Event: Unstartable{}}
		}
		return PendingWork{Execute: true, Again: r.StartBy}
	case Running:
		if !r.Lease.Lapsed(now, processID) {
			return PendingWork{Again: r.Lease.Until}
		}
		if mustEnd(r) != nil {
			return PendingWork{Event: Recover{ProcessID: processID}}
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
