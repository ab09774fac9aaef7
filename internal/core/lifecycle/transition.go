package lifecycle

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"
)

// Event is an event of a run. Its fields have the values that the transition needs: times, ids, choices.
type Event interface {
	apply(o *Outcome, now time.Time) error
}

// Transition is a row of the transition table.
type Transition struct {
	Name  string
	Event Event // of the type that requests it
	From  []Status
	To    []Status // the possible results; one that is also in From means that the status may not change
	When  string   // a description for people
}

// Transitions is the transition table. It has the rows that clients see (specification, States and transitions), and
// those of workers.
func Transitions() []Transition {
	active := []Status{Queued, Running, AwaitingInput}
	return []Transition{
		{"claim", Claim{}, []Status{Queued, Running}, []Status{Running},
			"a worker starts a queued run, or takes over one whose lease has lapsed"},
		{"beat", Renew{}, []Status{Running}, []Status{Running}, "the worker confirms its lease and its active time"},
		{"step", Step{}, []Status{Running}, []Status{Running}, "a model reply or tool result is journalled"},
		{"hand_over", Release{}, []Status{Running}, []Status{Running},
			"the worker releases its lease at the end of a step; another continues"},
		{"crash", Crash{}, []Status{Running}, []Status{Running, Failed, Cancelled},
			"the worker's program failed at the run; another attempt begins, a few times"},
		{"pause", Pause{}, []Status{Running}, []Status{AwaitingInput, Cancelled}, "the agent needs a human decision"},
		{"complete", Complete{}, []Status{Running}, []Status{Completed, Cancelled}, "the worker finishes with success"},
		{"fail", Fail{}, []Status{Running}, []Status{Failed, Cancelled}, "the worker finishes with failure"},
		{"time_out", TimeOut{}, []Status{Running}, []Status{TimedOut, Cancelled},
			"the active-execution limit is reached"},
		{"recover", Recover{}, []Status{Running}, []Status{Failed, Cancelled, TimedOut},
			"the lease has lapsed and the run must not go on"},
		{"unstartable", Unstartable{}, []Status{Queued}, []Status{Failed},
			"no worker started the run before its start deadline"},
		{"resume", Resume{}, []Status{AwaitingInput}, []Status{Queued}, "exactly the pending interrupts are decided"},
		{"answer", AnswerMessage{}, []Status{AwaitingInput}, []Status{Queued},
			"a message answers the one pending clarification"},
		{"expire", Expire{}, []Status{AwaitingInput}, []Status{Cancelled}, "the pause was not decided in time"},
		{"cancel", Cancel{}, active, []Status{Cancelled, Running},
			"immediately when queued, paused or without a live worker; otherwise the worker is notified"},
		{"park", Park{}, active, active, "a message waits for the run's end"},
		{"withdraw", Withdraw{}, active, active, "a parked message is withdrawn"},
		{"postpone", Postpone{}, active, active, "the sweeper will look again later; a start deadline may move"},
		{"remove", Remove{}, active, []Status{Cancelled, Running},
			"as a cancel: the chat, its user or its organisation is deleted"},
	}
}

var transitions = func() map[reflect.Type]Transition {
	byEvent := map[reflect.Type]Transition{}
	for _, m := range Transitions() {
		byEvent[reflect.TypeOf(m.Event)] = m
	}
	return byEvent
}()

// NameOf is the name of the transition that an event requests.
func NameOf(e Event) string { return transitions[reflect.TypeOf(e)].Name }

// Outcome is a completed transition: the run before and after it, and its consequences. One commit must write all of it
// with the run, except Wake, Arm and Disarm. These are sent after the commit and may be lost. If the run has ended in
// After, the commit also writes a ledger entry.
type Outcome struct {
	Before, After Run

	Announce bool   // store a webhook delivery of the status; its sequence number is that of the transition
	Promote  string // the parked message whose run gets the chat's lock; empty at the end of a run: the lock is free

	Wake   bool // send a wakeup for the run, or for the promoted run
	Arm    bool // start the timer of the pause
	Disarm bool // stop the timer of the pause, which ended before its time
}

// ErrRefused matches every [Refusal].
var ErrRefused = errors.New("the transition is not possible")

// Refusal is the error of a transition that is not possible. The run has not changed.
type Refusal struct {
	Reason Reason
	Status Status
	Detail string
}

// Reason is why a transition was refused.
type Reason string

// The reasons.
const (
	WrongState     Reason = "wrong_state"     // the transition does not begin in the run's status
	Ended          Reason = "ended"           // the run has ended
	LeaseHeld      Reason = "lease_held"      // a live worker holds the lease
	LeaseLost      Reason = "lease_lost"      // the reporting worker no longer holds the lease
	TooEarly       Reason = "too_early"       // the deadline has not come, or (claim) has passed
	Mismatch       Reason = "mismatch"        // the decided ids are not the pending ones
	WrongKind      Reason = "wrong_kind"      // a decision does not fit its interrupt
	NotAnswerable  Reason = "not_answerable"  // not exactly one clarification is pending
	ParkedFull     Reason = "parked_full"     // MaxParked messages are parked
	NotParked      Reason = "not_parked"      // no such message is parked on this run
	AlreadyFlagged Reason = "already_flagged" // a cancel was requested before
	StalePause     Reason = "stale_pause"     // the event is about an earlier pause
)

func (r *Refusal) Error() string {
	if r.Detail != "" {
		return fmt.Sprintf("%s (%s): %s", r.Reason, r.Status, r.Detail)
	}
	return fmt.Sprintf("%s (%s)", r.Reason, r.Status)
}

// Is makes errors.Is match every refusal with [ErrRefused].
func (*Refusal) Is(target error) bool { return target == ErrRefused }

// RefusedFor reports whether err is a [Refusal] with this reason.
func RefusedFor(err error, reason Reason) bool {
	var r *Refusal
	return errors.As(err, &r) && r.Reason == reason
}

func (o *Outcome) refuse(reason Reason) error {
	return &Refusal{Reason: reason, Status: o.Before.Status}
}

// Apply makes a transition. It returns the changed run with the consequences. The error is a [Refusal]. Its reason is
// [Ended] or [WrongState] if the transition does not begin in the run's status; other reasons come from the event.
// Apply panics if the event's transition is not in the table, or leads to a status that its row does not list.
func Apply(r Run, e Event, now time.Time) (Outcome, error) {
	m, ok := transitions[reflect.TypeOf(e)]
	if !ok {
		panic(fmt.Sprintf("lifecycle: no transition is asked for by %T", e))
	}
	o := Outcome{Before: r, After: r}
	if !slices.Contains(m.From, r.Status) {
		if r.Status.Terminal() {
			return Outcome{}, o.refuse(Ended)
		}
		return Outcome{}, o.refuse(WrongState)
	}
	o.After.Interrupts = slices.Clone(r.Interrupts)
	o.After.Parked = slices.Clone(r.Parked)
	if err := e.apply(&o, now); err != nil {
		return Outcome{}, err
	}
	if !slices.Contains(m.To, o.After.Status) {
		panic(fmt.Sprintf("lifecycle: %s led from %s to %s, which its row does not list", m.Name, r.Status,
			o.After.Status))
	}
	o.After.UpdatedAt = now
	return o, nil
}

// enter puts the run into a status and sets the consequences.
func (o *Outcome) enter(s Status, now time.Time) {
	r := &o.After
	if r.Status == Queued {
		r.QueueMS += max(0, now.Sub(r.QueuedAt).Milliseconds()) // a clock may be set back
	}
	r.Status = s
	r.Transition++
	if s != Running {
		r.Lease = Lease{}
	}
	if s != AwaitingInput {
		// At its time a timer ends by itself. It may have sent the wakeup for this transition and still be running.
		o.Disarm = o.Before.Status == AwaitingInput && now.Before(o.Before.ExpiresAt)
		r.Interrupts, r.ExpiresAt = nil, time.Time{}
	}
	if r.Callback && s.EndedOrWaiting() {
		o.Announce = true
	}
	if s.Terminal() {
		o.settle(now)
	}
}

func (o *Outcome) settle(now time.Time) {
	r := &o.After
	r.FinishedAt, r.Due, r.Crashes = now, time.Time{}, 0
	r.Slots = Slots{}
	r.count()
	if r.Deleted {
		r.Parked = nil
	}
	if len(r.Parked) > 0 {
		o.Promote, o.Wake = r.Parked[0], true
	}
}

// count starts the count of the run's tokens in its budgets. The tokens used before are included.
func (r *Run) count() {
	if len(r.Budgets) > 0 {
		r.Counting.Budgets, r.Budgets = r.Budgets, nil
	}
}

// Inherit is the position of the promoted run in the chat of a user: the next turn, with the other parked messages. It
// panics if no message was parked.
func (o Outcome) Inherit(slots Slots, user string) ChatPosition {
	r := o.Before
	return ChatPosition{User: user, Epoch: r.Epoch, Turn: r.Turn + 1, Previous: r.ID(),
		Parked: slices.Clone(o.After.Parked[1:]), Slots: slots}
}

// requeue queues a paused run again, with a new start deadline.
func (o *Outcome) requeue(slots Slots, startBy, now time.Time) {
	o.enter(Queued, now)
	r := &o.After
	r.Slots, r.QueuedAt, r.StartBy, r.PausedAt = slots, now, startBy, time.Time{}
	r.Due, r.Crashes = dispatchDue(now, startBy), 0
	o.Wake = true
}
