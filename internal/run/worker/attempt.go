package worker

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	oteltrace "go.opentelemetry.io/otel/trace"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/share"
	"agentplatform/internal/platform/trace"
	"agentplatform/internal/run/agent"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/run/view"
	"agentplatform/internal/store/record"
)

// attempt does the work of one claim of a run, and commits its end.
type attempt struct {
	*lease

	journal *journal
	settler *settler
	others  []func() // wait for the goroutines of the attempt
}

func (w *Worker) newAttempt() *attempt {
	l := &lease{Worker: w, holder: w.Host.NewID()}
	j := &journal{lease: l}
	return &attempt{lease: l, journal: j, settler: &settler{lease: l, journal: j}}
}

// run executes the attempt and reports its end. A panic in any of its goroutines is reported as a crash, so that the
// lease is always released.
func (a *attempt) run(ctx context.Context) (err error) {
	of := a.current().Value
	ctx, span := a.span(share.With(ctx, share.Holder{Organization: of.Organization, User: of.User}))
	defer func() { a.endSpan(span, err) }()
	reporting := context.WithoutCancel(ctx)
	died := host.Catch(func() { err = a.settler.conclude(reporting, a.perform(ctx)) })
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

// span begins the span of the attempt. OpenTelemetry calls it the invocation of an agent.
func (a *attempt) span(ctx context.Context) (context.Context, oteltrace.Span) {
	ctx, span := trace.StartOf(ctx, a.runID, oteltrace.SpanKindConsumer, "invoke_agent", "")
	if !span.IsRecording() {
		return ctx, span
	}
	run := a.current().Value
	span.SetAttributes(attribute.String("gen_ai.operation.name", "invoke_agent"),
		attribute.String("gen_ai.agent.id", run.Agent), attribute.Int("gen_ai.agent.version", run.AgentVersion),
		attribute.String("gen_ai.conversation.id", run.Chat),
		trace.RunID.String(a.runID), trace.OrganizationID.String(run.Organization),
		attribute.Int("agentplatform.run.attempt", a.number),
		attribute.Int64("agentplatform.run.queued_ms", a.Host.Now().Sub(run.QueuedAt).Milliseconds()))
	return ctx, span
}

// endSpan ends the span with the status of the run after the attempt.
func (a *attempt) endSpan(span oteltrace.Span, err error) {
	if !span.IsRecording() {
		return
	}
	run := a.current().Value
	span.SetAttributes(attribute.String("agentplatform.run.status", string(run.Status)))
	switch {
	case err != nil:
		trace.Fail(span, "retried")
	case run.Status == lifecycle.Failed, run.Status == lifecycle.TimedOut:
		trace.Fail(span, string(run.Status))
	}
	span.End()
}

// perform does the work. When it returns or panics, its other goroutines have ended. Each may hang in a port without
// blocking the others. The goroutine that renews the lease does nothing else.
func (a *attempt) perform(stopping context.Context) (p performed) {
	run := a.current().Value
	work, stop := context.WithCancelCause(context.WithoutCancel(stopping))
	a.stop = stop
	longest := run.ActiveLimit()
	limited, cancel := a.Host.WithTimeout(work, longest-a.used.before())
	defer cancel()

	sub := a.Hub.Subscribe(a.runID) // before the work begins
	defer sub.Close()
	defer func() {
		stop(nil)
		host.Wait(a.others...)
	}()
	a.background(func() { a.heartbeat(work) })
	a.background(func() { a.watchCancel(work, sub) })
	a.background(func() { a.releaseInTime(work, stopping, longest) })
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

// work executes the agent's task. Its live output is stored until stopped ends.
func (a *attempt) work(ctx, stopped context.Context, run record.Run) (agent.Result, error) {
	t, failure, err := a.task(ctx, run)
	if err != nil || failure != "" {
		return agent.Result{Failure: failure}, err
	}
	defer tool.End(t.Tools, a.Host.Go) // while the lease is held
	t.Attempt, t.Journal, t.Keep, t.CheckLease = a.number, a.journal.add, a.journal.keepFile, a.mayGo
	text, _ := view.Progress(t.Steps, lifecycle.Running)
	live := a.Hub.Writer(a.runID, a.number, text, run.Watched)
	a.background(func() { live.Run(stopped, a.Tick) })
	t.Output = live
	return a.Loop.Work(ctx, t)
}
