// Package worker executes runs: it claims a run, drives the agent loop, renews the lease and settles the run.
//
// A nudge only triggers it, or a process that starts what it accepts (see [Starter]); what it does follows from the
// run's state and the clock. Every write is fenced by the number of the attempt. The worker stops calling models and
// tools when its lease may have ended by either of its own clocks.
//
// It imports transition, record, lifecycle, agent, stream, view, reader, extract for its errors, problem, host and
// trace, and the ports model, tool and blob.
package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"agentplatform/internal/agent"
	"agentplatform/internal/catalog"
	"agentplatform/internal/citation"
	"agentplatform/internal/host"
	"agentplatform/internal/lifecycle"
	"agentplatform/internal/model"
	"agentplatform/internal/problem"
	"agentplatform/internal/reader"
	"agentplatform/internal/record"
	"agentplatform/internal/stream"
	"agentplatform/internal/tool"
	"agentplatform/internal/trace"
	"agentplatform/internal/transition"
	"agentplatform/internal/view"
)

// Worker executes runs. Its methods are safe for concurrent use.
type Worker struct {
	Executor *transition.Executor
	Store    *record.Store
	// Known reads from the same store, or from one whose answers may be some seconds old: versions of agents come
	// from it.
	Known record.Known
	Hub   *stream.Hub
	Loop  *agent.Loop
	Tools Tools
	// MayReach returns a function that reports whether the sender of a run, a user with an API key, may reach an
	// agent.
	MayReach func(ctx context.Context, organization, user, key string) func(agent string) (bool, error)
	// Reads returns what tells which documents the sender of a run may not read now.
	Reads func(organization, user, key string) citation.Reader
	// TextOf reads the files of messages.
	TextOf reader.Text
	// Search searches an agent's knowledge bases for the sender of a run; see [agent.Task]. nil: there are none.
	Search func(
		ctx context.Context, organization, user, key string, spec catalog.AgentSpec, query string,
	) ([]record.Source, record.Embeddings, error)

	Host  host.Host
	Log   *slog.Logger
	Lease time.Duration
	// PauseExpiry is how long humans have to decide the interrupts of a pause.
	PauseExpiry time.Duration
	// Tick is the interval at which a running run is polled for a cancel. A notification triggers a poll at once.
	Tick time.Duration
	// Drain is how long running calls may take to end when no further step may begin.
	Drain time.Duration
	// HandOverAfter is how long an attempt may last in this process before it hands the run over; 0: no limit.
	HandOverAfter time.Duration
}

// Tools opens the tools of an agent's toolkits. An error is temporary: the run is retried.
type Tools interface {
	Open(ctx context.Context, organization string, toolkits []string) ([]tool.Offer, error)
}

// Errors that end an attempt without ending the run.
var (
	errLost     = errors.New("worker: the run is no longer ours")
	errHandOver = errors.New("worker: the process is stopping")
	errCancel   = errors.New("worker: the run was cancelled")
	errAlone    = errors.New("worker: what must go on beside the work has ended")
)

// Handle reconciles a run: it applies the event that is due, or claims and executes the run, or does nothing. It
// returns when the attempt has ended. If ctx ends, the run is handed over at the next step, or after Drain.
//
// It returns nil if the run is gone or another process was faster. An error is one of the store, the queue of nudges,
// the toolkits, or the agent loop: the run has not ended, and will be executed again.
func (w *Worker) Handle(ctx context.Context, id string) error {
	e, err := w.Store.Run(ctx, record.System(), id)
	if isGone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	todo, err := w.Executor.Next(ctx, e.Value.Run, w.Executor.AtWork)
	if err != nil {
		return err
	}
	if todo.Event != nil {
		e, _, err = w.Executor.From(ctx, e, func(record.Run, *record.Tx) (transition.Change, error) {
			return transition.Change{Event: todo.Event}, nil
		})
		if err != nil {
			return ignoreRefusal(err)
		}
		todo = lifecycle.Next(e.Value.Run, w.Host.Now(), w.Executor.ProcessID) // one whose deadline was moved begins
	}
	switch {
	case todo.Execute:
		return w.execute(ctx, e)
	default:
		return nil
	}
}

func isGone(err error) bool { return problem.Is(err, "not_found") }

// ignoreRefusal returns nil for errors that only mean that another process was faster, or that the run is gone.
func ignoreRefusal(err error) error {
	if errors.Is(err, lifecycle.ErrRefused) || isGone(err) {
		return nil
	}
	return err
}

func (w *Worker) execute(ctx context.Context, e record.RunEntity) error {
	if ctx.Err() != nil {
		return nil // the process stops: the sweeper of the next one sends another nudge
	}
	a := w.newAttempt()
	claimed, _, err := w.Executor.From(ctx, e, func(r record.Run, _ *record.Tx) (transition.Change, error) {
		if a.holds(r) {
			return transition.Change{}, errLost // our claim was committed, but its response was lost
		}
		return transition.Change{Event: a.claim()}, nil
	})
	if errors.Is(err, errLost) {
		claimed, err = w.Store.Run(ctx, record.System(), e.Value.ID())
	}
	if err != nil {
		return ignoreRefusal(err)
	}
	a.begin(claimed)
	return a.run(ctx)
}

// trusted is the part of a lease that its holder relies on. If clocks differ by more than the rest, a call that may
// be repeated can be made twice. Stored state is fenced by the attempt and does not depend on clocks.
func (w *Worker) trusted() time.Duration { return host.Trusted(w.Lease) }

// attempt is one claim of a run.
type attempt struct {
	*Worker

	holder  string
	id      string
	number  int
	base    time.Duration // active time of the earlier attempts
	claimed time.Duration // monotonic clock after the claim: start of the active time
	stop    context.CancelCauseFunc
	others  []func()    // wait for the goroutines of the attempt
	leaving atomic.Bool // no further step may begin
	unsure  bool        // it is unknown whether the last steps are journalled; only the work's goroutine uses it

	mu       sync.Mutex // guards the fields below; never held during a call of a port
	entity   record.RunEntity
	usage    lifecycle.Usage
	steps    int
	renewed  time.Duration // monotonic clock before the last write that renewed the lease
	leaseEnd time.Time     // end of the trusted part of the lease, by the wall clock
}

func (w *Worker) newAttempt() *attempt { return &attempt{Worker: w, holder: w.Host.NewID()} }

// claim is the attempt's claim of a run. The lease is counted from now, before it is stored.
func (a *attempt) claim() lifecycle.Claim {
	a.renewed = a.Host.Elapsed()
	now := a.Host.Now()
	a.leaseEnd = now.Add(a.trusted())
	return lifecycle.Claim{Holder: a.holder, ProcessID: a.Executor.ProcessID, Until: now.Add(a.Lease)}
}

func (a *attempt) begin(e record.RunEntity) {
	r := e.Value
	a.entity, a.id, a.number, a.usage, a.steps = e, r.ID(), r.Attempt, r.Usage, r.Steps
	a.base = time.Duration(r.ActiveMS) * time.Millisecond
	a.claimed = a.Host.Elapsed()
}

// holds reports whether this attempt holds the run. Holder ids are unique; a run that is not running, or was handed
// over, has no holder.
func (a *attempt) holds(r record.Run) bool { return r.Lease.Holder == a.holder }

func (a *attempt) active() time.Duration { return a.base + a.Host.Elapsed() - a.claimed }

// run executes the attempt and reports its end. A panic in any of its goroutines is reported as a crash, so that the
// lease is always released.
func (a *attempt) run(ctx context.Context) (err error) {
	ctx, span := a.span(ctx)
	defer func() { a.endSpan(span, err) }()
	reporting := context.WithoutCancel(ctx)
	died := host.Catch(func() { err = a.conclude(reporting, a.perform(ctx)) })
	if died != nil {
		a.log().Error("run attempt panicked", "panic", died.Value, "stack", string(died.Stack))
		err = a.report(reporting,
			func(w lifecycle.Work) transition.Change { return transition.Change{Event: lifecycle.Crash{Work: w}} })
	}
	if errors.Is(err, errLost) {
		a.log().Info("run attempt stopped: another worker took the run over, or it ended")
		return nil
	}
	return ignoreRefusal(err)
}

func (a *attempt) log() *slog.Logger { return a.Log.With("run_id", a.id, "attempt", a.number) }

// span begins the span of the attempt: of its agent's invocation, as OpenTelemetry calls it.
func (a *attempt) span(ctx context.Context) (context.Context, *trace.Span) {
	ctx, span := trace.StartOf(ctx, a.id, trace.Consumer, "invoke_agent", "")
	if span == nil {
		return ctx, nil
	}
	run := a.current().Value
	span.Set("gen_ai.operation.name", "invoke_agent")
	span.Set("gen_ai.agent.id", run.Agent)
	span.SetInt("gen_ai.agent.version", int64(run.AgentVersion))
	span.Set("gen_ai.conversation.id", run.Chat)
	span.Set(trace.RunID, a.id)
	span.Set(trace.OrganizationID, run.Organization)
	span.SetInt("agentplatform.run.attempt", int64(a.number))
	span.SetInt("agentplatform.run.queued_ms", a.Host.Now().Sub(run.QueuedAt).Milliseconds())
	return ctx, span
}

// endSpan ends it with the status that the attempt has left the run in.
func (a *attempt) endSpan(span *trace.Span, err error) {
	if span == nil {
		return
	}
	run := a.current().Value
	span.Set("agentplatform.run.status", string(run.Status))
	switch {
	case err != nil:
		span.Fail("retried")
	case run.Status == lifecycle.Failed, run.Status == lifecycle.TimedOut:
		span.Fail(string(run.Status))
	}
	span.End()
}

// performed is how the work of an attempt ended.
type performed struct {
	agent.Result

	err      error
	cause    error // why the work was cancelled; nil if it was not
	timedOut bool
}

// perform does the work. Its other goroutines have ended when it returns or panics: each may hang in a port without
// blocking the others, and the goroutine that renews the lease does nothing else.
func (a *attempt) perform(stopping context.Context) (p performed) {
	run := a.current().Value
	work, stop := context.WithCancelCause(context.WithoutCancel(stopping))
	a.stop = stop
	longest := run.ActiveLimit()
	limited, cancel := a.Host.WithTimeout(work, longest-a.base)
	defer cancel()

	sub := a.Hub.Notifier().Subscribe(a.id) // before the work begins
	defer sub.Close()
	defer func() {
		stop(nil)
		host.Wait(a.others...)
	}()
	a.background(func() { a.keepLease(work) })
	a.background(func() { a.watchCancel(work, sub) })
	a.background(func() { a.handOverInTime(work, stopping, longest) })
	p.Result, p.err = a.work(limited, work, run)
	p.timedOut = p.err != nil && host.OutOfTime(limited, work)
	p.cause = context.Cause(work)
	return p
}

// background starts a goroutine that runs until the work ends. If f returns earlier, the work is cancelled.
func (a *attempt) background(f func()) {
	a.others = append(a.others, a.Host.Go(func() {
		defer a.stop(errAlone)
		f()
	}))
}

// conclude reports how the work ended. It returns nil, errLost, or the error that another attempt must retry after.
func (a *attempt) conclude(ctx context.Context, p performed) error {
	switch {
	case p.timedOut:
		return a.report(ctx,
			func(w lifecycle.Work) transition.Change { return transition.Change{Event: lifecycle.TimeOut{Work: w}} })
	case p.err == nil:
		return a.settle(ctx, p.Result)
	case record.Unstorable(p.err):
		return a.unstorable(ctx)
	case errors.Is(p.err, errCancel), errors.Is(p.cause, errCancel):
		return a.cancelled(ctx)
	case errors.Is(p.err, errLost), errors.Is(p.cause, errLost):
		return errLost
	case a.leaving.Load():
		return a.handOver(ctx, p.Last)
	default:
		a.log().Warn("run attempt failed; another attempt will follow", "error", p.err)
		return p.err
	}
}

// cancelled ends the run after a requested cancel: the core turns the failure into a cancel.
func (a *attempt) cancelled(ctx context.Context) error {
	return a.report(ctx,
		func(w lifecycle.Work) transition.Change { return transition.Change{Event: lifecycle.Fail{Work: w}} })
}

// handOver gives the run up and journals the steps that are not journalled yet, so that they are not repeated.
func (a *attempt) handOver(ctx context.Context, last []record.Step) error {
	if !a.unsure && len(last) > 0 {
		switch err := a.journal(ctx, last); {
		case errors.Is(err, errCancel):
			return a.cancelled(ctx)
		case record.Unstorable(err):
			return a.unstorable(ctx)
		case err != nil:
			return err
		}
	}
	return a.report(ctx,
		func(w lifecycle.Work) transition.Change { return transition.Change{Event: lifecycle.HandOver{Work: w}} })
}

// work prepares the agent's task and executes it. Its live output is sent until stopped ends.
func (a *attempt) work(ctx, stopped context.Context, run record.Run) (agent.Result, error) {
	version, failure, err := a.prepare(ctx, run)
	if err != nil || failure != "" {
		return agent.Result{Failure: failure}, err
	}
	t := agent.Task{Run: a.id, Attempt: a.number, Agent: version, Journal: a.journal, Keep: a.keepFile,
		CheckLease: a.mayGo, Log: a.Log}
	budgets := run.Budgets
	t.BudgetExceeded = func(ctx context.Context, tokens int64) (string, error) {
		return a.Store.Overspent(ctx, budgets, tokens)
	}
	if t.Tools, err = a.Tools.Open(ctx, run.Organization, version.Spec.ToolkitIDs); err != nil {
		return agent.Result{}, err
	}
	in, err := a.Store.Input(ctx, run)
	if err != nil {
		return agent.Result{}, err
	}
	left := int64(maxShown)
	if t.Message, err = a.message(ctx, run.Organization, in, &left); err != nil {
		return agent.Result{}, err
	}
	if run.Steps > 0 {
		if t.Steps, err = a.Store.Journal(ctx, a.id); err != nil {
			return agent.Result{}, err
		}
	}
	a.knowledge(run, &t)
	if run.Pause > 0 {
		if t.Pauses, t.Decided, err = a.Store.Pauses(ctx, a.id); err != nil {
			return agent.Result{}, err
		}
		if t.AttachedFiles, err = a.attached(ctx, run.Organization, t.Decided, left); err != nil {
			return agent.Result{}, err
		}
	}
	if t.History, err = a.history(ctx, run); err != nil {
		return agent.Result{}, err
	}
	if in.Context != nil {
		brought(&t, run, *in.Context)
	}
	said, _ := view.Progress(t.Steps)
	live := a.Hub.Writer(a.id, a.number, said, run.Watched)
	a.background(func() { live.Run(stopped, a.Tick) })
	t.Output = live
	return a.Loop.Work(ctx, t)
}

// knowledge lets a task search the agent's knowledge bases, and show the model what the run's sender may read. What a
// model can do something about is told to it; any other failure is for another attempt, or the log.
func (a *attempt) knowledge(run record.Run, t *agent.Task) {
	t.Reads = a.Reads(run.Organization, run.User, run.APIKey)
	if a.Search != nil && len(t.Agent.Spec.KnowledgeBaseIDs) > 0 {
		organization, user, key, spec := run.Organization, run.User, run.APIKey, t.Agent.Spec
		t.Search = func(ctx context.Context, query string) ([]record.Source, record.Embeddings, error) {
			found, used, err := a.Search(ctx, organization, user, key, spec, query)
			if p, is := problem.As(err); is && (p.Kind == problem.Invalid || p.Code == "embedding_unavailable") {
				err = tool.Fail("%s", p.Message)
			}
			return found, used, err
		}
	}
}

// prepare reads the agent's version. A parked message may have lost its user, key or agent since it was sent; its run
// then fails with that reason, so that the next parked message follows. A failure is for the run's result; err is one
// of the store.
func (a *attempt) prepare(ctx context.Context, run record.Run) (version catalog.Agent, failure string, err error) {
	scope := record.Of(run.Organization)
	if run.Waited && run.Attempt == 1 {
		for _, check := range []struct {
			what string
			err  error
		}{
			// of an operator who acted in the organization both belong to another one
			{"the user who sent the message has been deleted",
				second(record.Resource[catalog.User](ctx, a.Store, record.System(), run.User))},
			{"the API key that sent the message has been revoked",
				second(record.Resource[catalog.APIKey](ctx, a.Store, record.System(), run.APIKey))},
			{"the agent has been deleted", second(record.Resource[catalog.Agent](ctx, a.Store, scope, run.Agent))},
		} {
			if isGone(check.err) {
				return version, check.what, nil
			}
			if check.err != nil {
				return version, "", check.err
			}
		}
	}
	version, err = record.Version[catalog.Agent](ctx, a.Known, scope, run.Agent, run.AgentVersion)
	if isGone(err) {
		return version, "the agent has been deleted", nil
	}
	return version, "", err
}

func second[T any](_ T, err error) error { return err }

func (a *attempt) current() record.RunEntity {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.entity
}

// keep stores the newest known version of the run in the attempt.
func (a *attempt) keep(e record.RunEntity) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if e.Version() > a.entity.Version() {
		a.entity = e
	}
}

// mayGo returns nil if a call may begin, errHandOver if the process stops, errLost if the lease may have ended.
func (a *attempt) mayGo() error {
	if a.leaving.Load() {
		return errHandOver
	}
	return a.lost()
}

// lost returns errLost if the lease may have ended by one of our clocks; either may have stood still for a while.
func (a *attempt) lost() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.Host.Elapsed()-a.renewed >= a.trusted() || !a.Host.Now().Before(a.leaseEnd) {
		return errLost
	}
	return nil
}

// report commits an event of the worker, which renews the lease. It returns errLost if the run is gone or another
// attempt holds it, a lifecycle refusal, or an error of the store.
func (a *attempt) report(ctx context.Context, change func(lifecycle.Work) transition.Change) error {
	decide := func(w lifecycle.Work, _ *record.Tx) (transition.Change, error) { return change(w), nil }
	return a.reportBy(ctx, a.Executor, decide)
}

// reportBy is report with a change that may fail, and with the executor to use. change is called again for each retry.
func (a *attempt) reportBy(
	ctx context.Context, executor *transition.Executor,
	change func(lifecycle.Work, *record.Tx) (transition.Change, error),
) error {
	var began time.Duration
	var trusted time.Time
	e, _, err := executor.From(ctx, a.current(), func(r record.Run, tx *record.Tx) (transition.Change, error) {
		now := a.Host.Now()
		began, trusted = a.Host.Elapsed(), now.Add(a.trusted())
		if !a.holds(r) {
			return transition.Change{}, errLost
		}
		a.mu.Lock()
		w := lifecycle.Work{Attempt: a.number, Active: a.active(), Usage: a.usage, Steps: a.steps,
			Until: now.Add(a.Lease)}
		a.mu.Unlock()
		return change(w, tx)
	})
	if isGone(err) {
		return errLost
	}
	if err != nil {
		return err
	}
	a.keep(e)
	a.mu.Lock()
	a.renewed, a.leaseEnd = max(a.renewed, began), trusted
	a.mu.Unlock()
	return nil
}

// journal stores finished steps, so that no later attempt repeats them. It returns errCancel if a cancel was
// requested.
func (a *attempt) journal(ctx context.Context, steps []record.Step) error {
	a.count(steps)
	err := a.report(ctx,
		func(w lifecycle.Work) transition.Change {
			return transition.Change{Event: lifecycle.Step{Work: w}, Steps: steps}
		})
	a.unsure = a.unsure || err != nil
	if err == nil && a.current().Value.CancelRequested {
		a.stop(errCancel)
		return errCancel
	}
	return err
}

func (a *attempt) count(steps []record.Step) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.steps += len(steps)
	for _, s := range steps {
		switch {
		case s.Kind == record.ModelStep:
			a.usage.ModelCalls++
			a.usage.InputTokens += s.InputTokens
			a.usage.OutputTokens += s.OutputTokens
		case s.Kind == record.ToolStep && (s.Outcome == string(model.Succeeded) || s.Outcome == string(model.Failed)):
			a.usage.ToolCalls++
			a.usage.InputTokens += s.InputTokens // of a search: those of its embedding
			a.usage.Embedded = a.usage.Embedded.With(s.Embedded...)
		}
	}
}

// settle commits the loop's result. If that can never be stored, the run fails instead.
func (a *attempt) settle(ctx context.Context, r agent.Result) error {
	a.count(r.Last)
	var err error
	if r.Answer == nil && len(r.Interrupts) > 0 {
		err = a.pause(ctx, r)
	} else {
		err = a.report(ctx, a.ending(r))
	}
	if record.Unstorable(err) {
		return a.unstorable(ctx)
	}
	return err
}

// pause commits a pause. If one of its interrupts is an approval, the pause records the newest version of the agent,
// which says who may approve, and is committed only while that is the newest: a concurrent edit does not decide who
// may.
func (a *attempt) pause(ctx context.Context, r agent.Result) error {
	approval := slices.ContainsFunc(r.Interrupts,
		func(i record.Interrupt) bool { return i.Kind == string(lifecycle.Approval) })
	return a.reportBy(ctx, a.Executor, func(w lifecycle.Work, tx *record.Tx) (transition.Change, error) {
		e := lifecycle.Pause{Work: w}
		for _, i := range r.Interrupts {
			kind := lifecycle.InterruptKind(i.Kind)
			e.Interrupts = append(e.Interrupts, lifecycle.Pending{
				ID: i.ID, Kind: kind, Call: kind == lifecycle.Clarification && i.Tool != nil,
			})
		}
		c := transition.Change{Steps: r.Last, Interrupts: r.Interrupts}
		if approval {
			run := a.current().Value
			last, err := record.LastVersion[catalog.Agent](ctx, a.Store, record.Of(run.Organization), run.Agent)
			switch {
			case err == nil:
				e.AgentVersion = last.Version
				tx.StillLast(last, last.Version)
			case !isGone(err): // otherwise its organization is being deleted, and the run with it
				return c, err
			}
		}
		e.ExpiresAt = a.Host.Now().Add(a.PauseExpiry)
		c.Event = e
		return c, nil
	})
}

// withoutLast omits a last step that can be restored from the completed run.
func withoutLast(steps []record.Step) []record.Step {
	if n := len(steps); n > 0 && steps[n-1].Reconstructible() {
		return steps[:n-1]
	}
	return steps
}

// unstorable fails the run because its result can never be stored.
func (a *attempt) unstorable(ctx context.Context) error {
	return a.report(ctx, func(w lifecycle.Work) transition.Change {
		return transition.Change{Event: lifecycle.Fail{Work: w,
			Error: "what the agent made is too large, or cannot be stored"}}
	})
}

func (a *attempt) ending(r agent.Result) func(lifecycle.Work) transition.Change {
	switch {
	case r.Answer != nil:
		cites := citation.Cited(r.Answer.Text, r.Answer.Output != nil, citation.All(r.All))
		return func(w lifecycle.Work) transition.Change {
			return transition.Change{Event: lifecycle.Complete{Work: w}, Steps: withoutLast(r.Last),
				Result: a.result(w, *r.Answer, cites, r.All)}
		}
	default:
		return func(w lifecycle.Work) transition.Change {
			return transition.Change{Event: lifecycle.Fail{Work: w, Error: r.Failure}, Steps: r.Last}
		}
	}
}

func (a *attempt) result(
	w lifecycle.Work, answer agent.Answer, cites []citation.Citation, steps []record.Step,
) json.RawMessage {
	r := view.Result{
		RunID: a.id, ChatID: a.current().Value.Chat, Answer: answer.Text, Output: answer.Output,
		Citations: cites, Files: []record.FileRef{},
		Steps: []view.ResultStep{}, FinishReason: answer.Finish,
		Usage: view.UsageOf(lifecycle.Run{Usage: w.Usage, ActiveMS: w.Active.Milliseconds()}),
	}
	for _, s := range steps {
		r.Files = append(r.Files, s.Files...)
		if s.Kind == record.ToolStep && s.Outcome != string(model.Answered) {
			r.Steps = append(r.Steps, view.ResultStep{Name: s.Name, Arguments: s.Arguments, Outcome: s.Outcome,
				Output: s.Output, Found: s.Found})
		}
	}
	b, err := json.Marshal(r)
	if err != nil {
		// every member was validated before it was journalled
		panic("worker: a result cannot be encoded: " + err.Error())
	}
	return b
}

// pollTimeout bounds one poll of the run for a cancel.
const pollTimeout = 5 * time.Second

// keepLease renews the lease until ctx ends. A renewal that hangs is cancelled before the lease ends, and retried. If
// the lease or the run is lost, or a cancel is requested, it cancels the work.
func (a *attempt) keepLease(ctx context.Context) {
	every := a.Lease / 3
	for wait := every; a.Host.Sleep(ctx, wait) == nil; {
		err := a.lost()
		left := a.leaseLeft()
		if wait = left - (a.trusted() - every); err == nil && wait > 0 {
			continue // a journalled step has renewed it
		}
		if err == nil {
			err = a.renew(ctx, min(every, left))
		}
		if errors.Is(err, errLost) || errors.Is(err, errCancel) {
			a.stop(err)
			return
		}
		wait = min(every/10, a.leaseLeft())
	}
}

func (a *attempt) renew(ctx context.Context, within time.Duration) error {
	executor := *a.Executor
	executor.Store = a.Store.Within(within)
	ctx, cancel := a.Host.WithTimeout(ctx, within)
	defer cancel()
	err := a.reportBy(ctx, &executor, func(w lifecycle.Work, _ *record.Tx) (transition.Change, error) {
		return transition.Change{Event: lifecycle.Renew{Work: w}}, nil
	})
	if err != nil {
		return err
	}
	return a.stillOurs()
}

// leaseLeft is how long the lease may still be trusted, by the monotonic clock.
func (a *attempt) leaseLeft() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.trusted() - (a.Host.Elapsed() - a.renewed)
}

// watchCancel polls the run every Tick, and at each notification, and cancels the work if it was lost or cancelled.
func (a *attempt) watchCancel(ctx context.Context, sub stream.Subscription) {
	for {
		if _, err := sub.Wait(ctx, a.Tick); err != nil {
			return
		}
		if err := a.poll(ctx); err != nil {
			a.stop(err)
			return
		}
	}
}

// poll looks whether the run has changed, and reads it only then: a look costs half of a read, and most see nothing.
// One that lags sees the change a moment later; before it is believed that the run is gone, the run is read.
func (a *attempt) poll(ctx context.Context) error {
	limited, cancel := a.Host.WithTimeout(ctx, pollTimeout)
	defer cancel()
	seen, err := a.Store.Versions(limited, a.id)
	if err != nil {
		return nil // if the store is not available, the work goes on until the lease ends
	}
	if seen[0] != 0 && seen[0] <= a.current().Version() {
		return a.stillOurs()
	}
	e, err := a.Store.Run(limited, record.System(), a.id)
	if isGone(err) {
		return errLost
	}
	if err != nil {
		return nil
	}
	a.keep(e)
	return a.stillOurs()
}

// stillOurs returns errLost or errCancel if the last known version of the run requires the work to stop, otherwise
// nil.
func (a *attempt) stillOurs() error {
	r := a.current().Value
	switch {
	case !a.holds(r):
		return errLost
	case r.CancelRequested:
		return errCancel
	default:
		return nil
	}
}

// handOverInTime hands the run over when the process stops or after HandOverAfter: no step begins then, and running
// calls have Drain to end.
func (a *attempt) handOverInTime(work, stopping context.Context, longest time.Duration) {
	stay, cancel := context.WithCancel(work)
	defer cancel()
	defer context.AfterFunc(stopping, cancel)()
	_ = a.Host.Sleep(stay, cmp.Or(a.HandOverAfter, longest))
	if work.Err() != nil {
		return
	}
	a.leaving.Store(true)
	_ = a.Host.Sleep(work, a.Drain) // returning cancels the work
}
