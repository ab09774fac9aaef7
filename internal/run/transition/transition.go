// Package transition makes transitions of runs. It is the imperative shell around the pure lifecycle: load, decide,
// commit everything together, then send the messages that may be lost.
//
// One commit has everything that a transition writes: run, chat, slots, journal, ledger, webhook delivery, and the run
// of the next parked message. It has the condition that the run still has the version that was read. After a conflict
// the transition is decided again. Wakeups and timers are sent after the commit; the sweeper replaces lost ones.
//
// The package must not know HTTP, models or tools. It imports lifecycle, record, events, problem, host, trace and the
// queue and timer ports.
package transition

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	oteltrace "go.opentelemetry.io/otel/trace"

	"agentplatform/events"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/platform/trace"
	"agentplatform/internal/store/queue"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/timer"
)

// Notifier notifies waiters in this process. They wait for a name: a run's id, [record.EndOf], [record.InboxOf].
type Notifier interface {
	Notify(what string)
	// NotifyEnd is Notify of [record.EndOf] of a run. It also passes the stored run to the waiters.
	NotifyEnd(run record.RunEntity)
}

// Caps returns the caps on concurrent runs of a user and of its organization.
type Caps func(ctx context.Context, organization, user string) (ofUser, ofOrganization int, err error)

// Executor makes transitions. It is safe for concurrent use.
type Executor struct {
	Store         *record.Store
	Queue         queue.Queue
	Timer         timer.Timer // nil: the sweeper is frequent enough to find expired pauses
	Notifier      Notifier
	Host          host.Host
	Log           *slog.Logger
	Caps          Caps
	StartDeadline time.Duration
	// ProcessID is the process id if only one process runs: the leases of other process ids are then void. Else it is
	// empty.
	ProcessID string
	// Starter lets workers of this process execute runs as soon as they are accepted; nil: each run waits for its
	// wakeup.
	Starter Starter
	// OnTransition is called after the commit of every transition, also of those that make a run. It may be nil.
	OnTransition func(Move)
}

// Next is [lifecycle.Next] with one difference: a queued run whose start deadline has passed does not always fail.
// atWork reports whether a worker executes a run of the organization. If so, those runs delay this one, and its
// deadline is moved. The error is that of atWork.
func (x *Executor) Next(
	ctx context.Context, r lifecycle.Run, atWork func(ctx context.Context, organization string) (bool, error),
) (lifecycle.PendingWork, error) {
	now := x.Host.Now()
	todo := lifecycle.Next(r, now, x.ProcessID)
	if _, fails := todo.Event.(lifecycle.Unstartable); !fails {
		return todo, nil
	}
	later, err := x.Postponed(ctx, r, now.Add(lifecycle.DispatchGrace), atWork)
	if !later.StartBy.IsZero() {
		todo.Event = later
	}
	return todo, err
}

// Postponed returns the event after which the sweeper looks at a run again when it is due. It also moves the start
// deadline of a queued run while a worker executes a run of the organization. The error is that of atWork.
func (x *Executor) Postponed(
	ctx context.Context, r lifecycle.Run, due time.Time,
	atWork func(ctx context.Context, organization string) (bool, error),
) (lifecycle.Postpone, error) {
	later := lifecycle.Postpone{Due: due}
	if now := x.Host.Now(); r.Extendable(now) {
		held, err := atWork(ctx, r.Organization)
		if err != nil {
			return later, err
		}
		if held {
			later.StartBy = now.Add(x.StartDeadline)
		}
	}
	return later, nil
}

// AtWork reports whether a worker executes a run of the organization. The error is one of the store.
func (x *Executor) AtWork(ctx context.Context, organization string) (bool, error) {
	return x.Store.AtWork(ctx, organization, x.Host.Now(), x.ProcessID)
}

// Change is a transition to make, with the data that is stored with the run. The decide function adds all other writes
// to the unit of work.
type Change struct {
	Event      lifecycle.Event
	Steps      []record.Step         // journal entries
	Spare      []record.Step         // further ones, which Result has: stored unless the run completes
	Interrupts []record.Interrupt    // of a pause
	Decisions  *record.Decisions     // the decisions that end a pause
	Result     json.RawMessage       // of a completed run
	Chat       func(*lifecycle.Chat) // an edit of the chat, made when the run releases it
	Callback   bool                  // the run has webhooks from now on, if it had none
}

// attempts bounds the decisions of a transition after conflicts. In each round another write succeeded, so that many in
// a row mean heavy contention. The caller then gets an error that asks for a later retry.
const attempts = 24

// Do loads a run, calls decide for the transition and makes it. After a conflict it does so again, with the same write
// id. The writes that decide adds to the unit of work are committed with the transition. Do returns the run after the
// transition.
//
// It returns:
//
//   - the errors of reading the run in the scope (a problem of kind NotFound or Forbidden) and of decide
//   - lifecycle.ErrRefused if the transition is not allowed
//   - a problem of kind Unavailable after 24 conflicts
//   - the context's error if it ends between two attempts
//   - the errors of [record.Tx.Commit] except record.ErrConflict
func (x *Executor) Do(
	ctx context.Context, scope record.Scope, id string,
	decide func(r record.Run, tx *record.Tx) (Change, error),
) (record.Run, error) {
	e, err := x.Store.Run(ctx, scope, id)
	if err == nil {
		e, err = x.From(ctx, e, decide)
	}
	return e.Value, err
}

// From is Do for a run that the caller has already read.
func (x *Executor) From(
	ctx context.Context, e record.RunEntity, decide func(r record.Run, tx *record.Tx) (Change, error),
) (record.RunEntity, error) {
	writeID := x.Host.NewID()
	var known texts
	for attempt := range attempts {
		tx := x.Store.Begin(writeID)
		c, err := decide(e.Value, tx)
		if err == nil {
			err = tx.Err()
		}
		if err != nil {
			return e, err
		}
		after, err := x.apply(ctx, e, tx, c, &known)
		if !errors.Is(err, record.ErrConflict) {
			return after, err
		}
		if err := x.Pause(ctx, attempt); err != nil {
			return e, err
		}
		if e, err = x.Store.Run(ctx, record.System(), e.Value.ID()); err != nil {
			return e, err
		}
		if e.WrittenBy(writeID) { // an earlier attempt was committed after all
			x.notify(e, false) // its chat may have been deleted since
			return e, nil
		}
	}
	return e, problem.Retry(fmt.Errorf("run %s changed %d times during one transition", e.Value.ID(), attempts))
}

// IgnoreRace returns nil for an error that means that another process was faster: a conflict, or a transition that is
// no longer allowed. It returns any other error unchanged.
func IgnoreRace(err error) error {
	if errors.Is(err, record.ErrConflict) || errors.Is(err, lifecycle.ErrRefused) {
		return nil
	}
	return err
}

// Write commits the writes that fill adds to a unit of work, without a transition. It also returns nil if another
// process was faster; else the error of [record.Tx.Commit].
func (x *Executor) Write(ctx context.Context, fill func(tx *record.Tx)) error {
	tx := x.Store.Begin(x.Host.NewID())
	fill(tx)
	return IgnoreRace(tx.Commit(ctx))
}

// Pause waits before the next attempt after a conflict: with jitter, at most 1 ms, doubled with each try up to 50 ms.
// It returns the context's error.
func (x *Executor) Pause(ctx context.Context, attempt int) error {
	return x.Host.Sleep(ctx, host.Jitter(x.Host, min(time.Millisecond<<min(attempt, 6), 50*time.Millisecond)))
}

// Apply makes one transition of a run that was read. It adds the transition to the unit of work and commits that. It
// returns lifecycle.ErrRefused if the transition is not allowed, record.ErrConflict if the run, its chat or a slot has
// changed, or the error of [record.Tx.Commit].
func (x *Executor) Apply(
	ctx context.Context, e record.RunEntity, tx *record.Tx, c Change,
) (record.RunEntity, error) {
	return x.apply(ctx, e, tx, c, &texts{})
}

// apply is Apply with the known texts of the run. An end needs no space: on a full disk the run keeps no text, and the
// body of its webhook is in the row. Only a completed run needs space, for its result.
func (x *Executor) apply(
	ctx context.Context, e record.RunEntity, tx *record.Tx, c Change, known *texts,
) (record.RunEntity, error) {
	o, err := lifecycle.Apply(e.Value.Run, c.Event, x.Host.Now())
	if err != nil {
		return e, err
	}
	begun := *tx
	after, err := x.commit(ctx, e, tx, o, c, known)
	ends := o.After.Status.Terminal() && o.After.Status != lifecycle.Completed
	if !ends || known.noRoom || !record.IsFull(err) {
		return after, err
	}
	known.noRoom = true
	return x.commit(ctx, e, &begun, o, c, known)
}

// commit adds an outcome to the unit of work and commits it.
func (x *Executor) commit(
	ctx context.Context, e record.RunEntity, tx *record.Tx, o lifecycle.Outcome, c Change, known *texts,
) (_ record.RunEntity, err error) {
	after := e.Value
	after.Run = o.After
	after.Callback = after.Callback || c.Callback
	if err := x.beside(ctx, tx, &after, o, c, known); err != nil {
		return e, err
	}
	holder := o.After // the run that has the slots after the commit
	var promoted *record.Run
	if o.After.Status.Terminal() || c.Chat != nil {
		if promoted, err = x.leaveChat(ctx, tx, o, c.Chat); err != nil {
			return e, err
		}
		if promoted != nil {
			holder = promoted.Run
		}
	}
	tx.MoveSlots(o.Before, holder)
	if o.After.Status.Terminal() {
		after.PassedOn, after.Parked = after.Parked, nil // the others now wait for the promoted run
		if o.Promote == "" {
			after.Dropped = o.Before.Parked
		}
	}
	written := e
	written.Value = after
	written = tx.PutRun(written)
	if err := tx.Commit(ctx); err != nil {
		return e, err
	}
	if parked, is := c.Event.(lifecycle.Park); is {
		trace.Root(ctx, parked.ID) // the request belongs to the run that its message becomes later
	}
	trace.Join(ctx, o.After.ID())
	x.follow(ctx, lifecycle.NameOf(c.Event), o, promoted)
	x.notify(written, c.Chat == nil && !o.After.Deleted) // a deleted chat has no runs for waiters
	return written, nil
}

// beside writes the data that is stored next to the run's head.
func (x *Executor) beside(
	ctx context.Context, tx *record.Tx, after *record.Run, o lifecycle.Outcome, c Change, known *texts,
) error {
	if after.Status != lifecycle.Completed {
		c.Steps = slices.Concat(c.Steps, c.Spare)
	}
	for _, step := range c.Steps {
		tx.PutStep(ctx, *after, step)
	}
	if after.Status == lifecycle.AwaitingInput && c.Interrupts != nil {
		tx.PutPause(ctx, *after, after.Pause, c.Interrupts)
	}
	if c.Decisions != nil {
		tx.PutDecisions(ctx, *after, after.Pause, *c.Decisions)
		tx.AuditDecisions(ctx, *after, *c.Decisions)
	}
	if after.Status == lifecycle.Completed {
		tx.SetOutput(ctx, after, c.Result)
	}
	partial, err := x.partial(ctx, *after, o.Before.Steps, c, known)
	if err != nil {
		return err
	}
	if partial != nil {
		raw, _ := json.Marshal(partial) // texts can always be encoded
		tx.SetOutput(ctx, after, raw)
	}
	if after.Status.Terminal() {
		tx.PutCharge(after.Run)
	}
	tx.CountTokens(ctx, &after.Run)
	if o.Announce && tx.Err() == nil {
		if err := x.announce(ctx, tx, *after, c, partial, known.noRoom); err != nil {
			return err
		}
	}
	return tx.Err()
}

// maxPartial is the number of bytes of text that a cancelled run keeps: a long text must not prevent its end.
const maxPartial = 8 << 20

// texts are the journalled model steps of a run that is cancelled. They are read again only after a conflict with a
// write that has journalled more.
type texts struct {
	read bool
	of   int // steps that the run had
	all  []record.Step
	err  error

	noRoom bool // the disk has no space for the rest of them
}

// partial returns the text that a cancelled run keeps instead of a result; nil: none. A run that is removed keeps none.
// Nor does a run whose journal cannot be read, or whose text does not fit on the disk, as it must still end. The error
// is that of ctx.
func (x *Executor) partial(
	ctx context.Context, r record.Run, journalled int, c Change, known *texts,
) (*events.Partial, error) {
	removed := r.Deleted || r.CancelReason == lifecycle.ReasonRemoved
	if removed || known.noRoom || r.Status != lifecycle.Cancelled || r.Steps == 0 {
		return nil, nil
	}
	if !known.read || known.of != journalled {
		known.read, known.of = true, journalled
		if known.all, known.err = x.Store.ModelSteps(ctx, r.ID()); known.err != nil && ctx.Err() == nil {
			x.Log.Warn("the text of a cancelled run is lost: its journal cannot be read", "run_id", r.ID(),
				"error", known.err)
		}
	}
	if err := ctx.Err(); err != nil && known.err != nil {
		return nil, err
	}
	if known.err != nil {
		return nil, nil //nolint:nilerr // it is logged, and the run ends
	}
	text := record.TextOf(slices.Concat(known.all, c.Steps), r.Status)
	if text == "" {
		return nil, nil
	}
	text = strings.ToValidUTF8(text[:min(len(text), maxPartial)], "")
	return &events.Partial{Answer: text, FinishReason: string(lifecycle.Cancelled)}, nil
}

// announce writes the webhook delivery of a status. The body has its final bytes, except for quotes in a result. On a
// full disk the body is in the delivery's row: metadata and error, which fit into a row.
func (x *Executor) announce(
	ctx context.Context, tx *record.Tx, r record.Run, c Change, partial *events.Partial, noRoom bool,
) error {
	in, err := x.Store.Input(ctx, r)
	if err != nil {
		return err
	}
	var push record.PushEntity
	if in.CallbackURL == "" {
		if push, _, err = x.Store.Push(ctx, r.ID()); err != nil {
			return err
		}
	}
	h := record.Delivery{
		DeliveryID: record.DeliveryID(r.ID(), r.Transition), Organization: r.Organization,
		User: r.User, Owner: r.Owner(), RunID: r.ID(), Sequence: r.Transition,
		Event: events.WebhookTerminal, Status: string(r.Status), CallbackURL: in.CallbackURL,
		PushedTo: push.Value.URL, State: record.DeliveryPending,
		NextAttempt: x.Host.Now(), CheckAt: x.Host.Now().Add(lifecycle.DispatchGrace),
	}
	body := events.Webhook{
		Version: 1, DeliveryID: h.DeliveryID, RunID: r.ID(), ChatID: r.Chat, AgentID: r.Agent, Status: h.Status,
		Interrupts: json.RawMessage("[]"), Metadata: in.Metadata, OccurredAt: events.Time(r.UpdatedAt),
		Sequence: r.Transition,
	}
	if body.Metadata == nil {
		body.Metadata = map[string]string{}
	}
	if r.Status == lifecycle.AwaitingInput {
		h.Event = events.WebhookAwaitingInput
		if body.Interrupts, err = json.Marshal(record.Public(c.Interrupts)); err != nil {
			return err
		}
	}
	if r.Status == lifecycle.Completed {
		billed := "billed"
		body.UsageStatus, body.Result = &billed, c.Result
	}
	body.Partial = partial
	if r.Error != "" {
		body.Error = &r.Error
	}
	body.Event = h.Event
	final, err := json.Marshal(body)
	if err != nil {
		return err
	}
	h.Body = string(final)
	if noRoom {
		tx.PutDelivery(record.Fresh(h))
	} else {
		tx.NewDelivery(ctx, h)
	}
	return nil
}

// leaveChat gives the lock of an ended run's chat to the first parked message, or frees it.
func (x *Executor) leaveChat(
	ctx context.Context, tx *record.Tx, o lifecycle.Outcome, edit func(*lifecycle.Chat),
) (promoted *record.Run, err error) {
	chat, found, err := x.Store.ChatOf(ctx, o.Before.RunSpec)
	if err != nil {
		return nil, err
	}
	lost := !found || chat.Value.ActiveRun != o.Before.ID()
	if lost && o.Before.Deleted {
		return nil, nil // its deletion has freed it
	}
	if lost {
		return nil, fmt.Errorf("%w: run %s does not hold its chat", record.ErrConflict, o.Before.ID())
	}
	now := x.Host.Now()
	if o.Promote == "" {
		chat.Value = chat.Value.Release(now)
	} else {
		if promoted, err = x.promote(ctx, tx, o, chat.Value.User, now); err != nil {
			return nil, err
		}
		chat.Value = chat.Value.Begin(promoted.Run, now)
	}
	if edit != nil {
		edit(&chat.Value)
	}
	tx.PutChat(chat)
	return promoted, nil
}

// promote makes a run of the first parked message. The run takes over the slots of the run before it. If those belong
// to another user, or do not count, it takes free ones, or overflow slots: it is accepted work.
func (x *Executor) promote(
	ctx context.Context, tx *record.Tx, o lifecycle.Outcome, chatUser string, now time.Time,
) (*record.Run, error) {
	parked, err := x.Store.StillParked(ctx, o.Promote)
	if err != nil {
		return nil, err
	}
	slots := o.Before.Slots
	paused := o.Before.Status == lifecycle.AwaitingInput
	if paused || parked.Spec.User != o.Before.User {
		fresh, err := x.Slots(ctx, parked.Spec)
		if err != nil {
			return nil, err
		}
		slots.User = fresh.User
		if paused {
			slots.Organization = fresh.Organization
		}
	}
	r := record.Run{Run: lifecycle.Accept(parked.Spec, o.Inherit(slots, chatUser), now, now.Add(x.StartDeadline))}
	r.CreatedAt = parked.At // as its id has it, by which listings sort
	tx.PutRun(record.Fresh(r))
	return &r, nil
}

// Slots finds slots for accepted work: free numbers, or overflow slots if there are none. The errors are those of
// [Executor.Admissions].
func (x *Executor) Slots(ctx context.Context, t lifecycle.RunSpec) (lifecycle.Slots, error) {
	user, organization, err := x.Admissions(ctx, t.Organization, t.User)
	return lifecycle.Slots{User: user.Slot(t.RunID), Organization: organization.Slot(t.RunID)}, err
}

// Admissions reads the slots of a user and of its organization. The errors are those of Caps and of the store.
func (x *Executor) Admissions(
	ctx context.Context, organization, user string,
) (ofUser, ofOrganization record.Admission, err error) {
	userCap, organizationCap, err := x.Caps(ctx, organization, user)
	if err != nil {
		return ofUser, ofOrganization, err
	}
	if ofUser, err = x.Store.Admission(ctx, record.UserSlots(organization, user), userCap); err != nil {
		return ofUser, ofOrganization, err
	}
	ofOrganization, err = x.Store.Admission(ctx, record.OrganizationSlots(organization), organizationCap)
	return ofUser, ofOrganization, err
}

// Acceptance is a new run to store.
type Acceptance struct {
	Spec        lifecycle.RunSpec
	Input       record.Input
	Chat        record.ChatEntity // as it was read; a fresh one for a new chat
	Slots       lifecycle.Slots
	Idempotency *record.Idempotency
	Stale       record.Idempotency // the idempotency record that it replaces, if there is one
}

// Starter lets workers of this process execute runs as soon as they are accepted (in Temporal: eager start). The claim
// is in the commit that accepts the run. A run of an idle process so saves one write, and does not wait for a wakeup.
type Starter interface {
	// Reserve reserves a worker for a run of a user. It returns nil if no worker is free for that user.
	Reserve(organization, user string) Reserved
}

// Reserved is a worker that is reserved for a new run. Claim is called first, then one of the others.
type Reserved interface {
	// Claim returns the worker's claim of the run, as of now.
	Claim() lifecycle.Claim
	// Start starts the execution of the run, which is stored with the claim. It does not wait for the execution.
	Start(e record.RunEntity)
	// StartIfClaimed is Start if it is not known whether the run is stored with the claim: the worker checks that.
	StartIfClaimed(run string)
	// Free returns the worker, as the run is not stored with the claim.
	Free()
}

var errUnfinished = errors.New("transition: accepting a run did not end")

// Accept stores a new run with its chat, its slots and its idempotency record: it adds them to the unit of work and
// commits that. It returns the run as it was accepted, with the stored version, also if a worker has started it by
// then. It returns record.ErrConflict if one of them has changed since it was read, or the error of [record.Tx.Commit].
func (x *Executor) Accept(ctx context.Context, tx *record.Tx, a Acceptance) (accepted record.RunEntity, err error) {
	now := x.Host.Now()
	position := a.Chat.Value.Next()
	position.Slots = a.Slots
	r := record.Run{Run: lifecycle.Accept(a.Spec, position, now, now.Add(x.StartDeadline))}
	if record.FitsHead(a.Input) {
		r.Input = &a.Input
	} else {
		tx.PutInput(ctx, a.Spec, a.Input, now)
	}
	a.Chat.Value = a.Chat.Value.Begin(r.Run, now)
	tx.PutChat(a.Chat)
	tx.MoveSlots(lifecycle.Run{}, r.Run)
	if a.Idempotency != nil {
		tx.PutIdempotency(r.Organization, a.Input.Idempotency, *a.Idempotency, a.Stale)
	}
	e, done := x.withClaim(tx, record.Fresh(r), now)
	err = errUnfinished // if a panic ends the function
	defer func() { done(e, err) }()
	e = tx.NewRun(e)
	accepted = e
	accepted.Value = r
	if err = tx.Commit(ctx); err != nil {
		return accepted, err
	}
	trace.Root(ctx, r.ID())
	begun := e.Value.Status == lifecycle.Running
	x.follow(ctx, Accepted, lifecycle.Outcome{After: r.Run, Wake: !begun}, nil)
	if begun {
		x.follow(ctx, lifecycle.NameOf(lifecycle.Claim{}), lifecycle.Outcome{Before: r.Run, After: e.Value.Run}, nil)
	}
	x.notify(e, false)
	return accepted, nil
}

// withClaim returns a new run with the claim of a free worker, or unchanged if no worker is free. The caller must call
// done with the run to store, and with the error of storing it.
func (x *Executor) withClaim(
	tx *record.Tx, e record.RunEntity, now time.Time,
) (_ record.RunEntity, done func(record.RunEntity, error)) {
	none := func(record.RunEntity, error) {}
	if x.Starter == nil {
		return e, none
	}
	worker := x.Starter.Reserve(e.Value.Organization, e.Value.User)
	if worker == nil {
		return e, none
	}
	o, err := lifecycle.Apply(e.Value.Run, worker.Claim(), now)
	if err != nil { // only if there is no time to start
		worker.Free()
		return e, none
	}
	e.Value.Run = o.After
	return e, func(stored record.RunEntity, err error) {
		_, nothingDone := problem.As(err)
		switch {
		case err == nil:
			worker.Start(stored)
		case errors.Is(err, record.ErrConflict) || nothingDone || tx.Err() != nil:
			worker.Free()
		default:
			worker.StartIfClaimed(stored.Value.ID())
		}
	}
}

// follow sends the messages of a commit. All of them may be lost: the due index has them, too.
func (x *Executor) follow(ctx context.Context, event string, o lifecycle.Outcome, promoted *record.Run) {
	ctx = context.WithoutCancel(ctx)
	r := o.After
	x.moved(ctx, Move{Event: event, Before: o.Before, After: r})
	if o.Wake {
		next := r
		if promoted != nil {
			next = promoted.Run
		}
		x.send(ctx, queue.Message{
			Wakeup: events.Wakeup{Kind: events.WakeupRun, ID: next.ID()}, Group: next.Organization,
			User: next.User})
	}
	if o.Announce {
		id := record.Delivery{RunID: r.ID(), Sequence: r.Transition}.WakeupID()
		x.send(ctx, queue.Message{Wakeup: events.Wakeup{Kind: events.WakeupWebhook, ID: id}, Group: r.Organization,
			User: r.User})
	}
	if o.Disarm && x.Timer != nil {
		if err := x.Timer.Stop(ctx, alarmName(r.ID(), r.Pause)); err != nil {
			x.Log.Warn("a timer could not be stopped", "run_id", r.ID(), "error", err)
		}
	}
	if o.Arm && x.Timer != nil {
		message := queue.Message{Wakeup: events.Wakeup{Kind: events.WakeupRun, ID: r.ID()}, Group: r.Organization,
			User: r.User}
		if err := x.Timer.At(ctx, alarmName(r.ID(), r.Pause), r.ExpiresAt, message); err != nil {
			x.Log.Warn("a timer could not be set; the sweeper will see to it", "run_id", r.ID(), "error", err)
		}
	}
	if (r.Status == lifecycle.AwaitingInput) != (o.Before.Status == lifecycle.AwaitingInput) {
		x.Notifier.Notify(record.InboxOf(r.Organization))
	}
	if promoted != nil {
		x.Notifier.Notify(promoted.ID())
		waited := lifecycle.Run{RunSpec: promoted.RunSpec, Parked: promoted.Parked}
		x.moved(ctx, Move{Event: Promoted, Before: waited, After: promoted.Run})
	}
}

// notify notifies the waiters for a run. If handed is set, the waiters for its end also get the run; otherwise they
// must read it.
func (x *Executor) notify(e record.RunEntity, handed bool) {
	id := e.Value.ID()
	x.Notifier.Notify(id)
	switch {
	case !e.Value.Status.EndedOrWaiting():
	case handed:
		x.Notifier.NotifyEnd(e)
	default:
		x.Notifier.Notify(record.EndOf(id))
	}
}

func (x *Executor) send(ctx context.Context, m queue.Message) {
	kind := m.Wakeup.Kind
	run, _, _ := strings.Cut(m.Wakeup.ID, "/")
	ctx, span := trace.StartOf(ctx, run, oteltrace.SpanKindProducer, "send", string(kind))
	defer span.End()
	if span.IsRecording() {
		span.SetAttributes(attribute.String("messaging.operation.name", "send"),
			attribute.String("messaging.destination.name", string(kind)),
			trace.RunID.String(run), trace.OrganizationID.String(m.Group))
	}
	err := x.Queue.Send(ctx, m)
	if err != nil {
		trace.Fail(span, "not_sent")
		x.Log.Warn("a nudge could not be sent; the sweeper will see to it", "kind", kind, "run_id", run, "error", err)
	}
}

func alarmName(run string, pause int) string { return run + "-p" + strconv.Itoa(pause) }
