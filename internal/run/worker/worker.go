// Package worker executes runs: it claims a run, drives the agent loop, renews the lease and settles the run.
//
// Its trigger is a wakeup, or a process that starts the runs that it accepts (see [Starter]). Its actions follow from
// the run's state and the clock. Every write is fenced by the number of the attempt. The worker stops calling models
// and tools when its lease may have ended by either of its own clocks.
//
// One claim of a run is an attempt. Its parts: the lease fences and renews, the tally counts usage, the journal stores
// steps, the settler commits the end. The task is the input of the agent loop.
//
// It imports transition, record, lifecycle, agent, stream, view, reader, extract for its errors, problem, host and
// trace, and the ports model, tool and blob.
package worker

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/run/agent"
	"agentplatform/internal/run/stream"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/store/citation"
	"agentplatform/internal/store/record"
	"agentplatform/internal/text/reader"
)

// Worker executes runs. Its methods are safe for concurrent use.
type Worker struct {
	Executor *transition.Executor
	Store    *record.Store
	// CachedReader reads from the same store, or from a cache that may be some seconds old. Versions of agents come
	// from it.
	Cached record.CachedReader
	Hub    *stream.Hub
	Loop   *agent.Loop
	Tools  Tools
	// CanAccess returns a function that reports whether the sender of a run, a user with an API key, may access an
	// agent.
	CanAccess func(ctx context.Context, organization, user, key string) func(lifecycle.Whose) (bool, error)
	// CitationFilter returns a reader that finds the documents which the sender of a run may not read now.
	CitationFilter func(organization, user, key string) citation.Reader
	// TextOf reads the files of messages.
	TextOf reader.Text
	// Search searches an agent's knowledge bases for the sender of a run; see [agent.Task]. nil: there are no knowledge
	// bases.
	Search func(
		ctx context.Context, organization, user, key string, spec catalog.AgentSpec, query string,
	) ([]record.Source, record.Embeddings, error)

	Host  host.Host
	Log   *slog.Logger
	Lease time.Duration
	// PauseExpiry is the time that people have to decide the interrupts of a pause.
	PauseExpiry time.Duration
	// Tick is the interval at which a running run is polled for a cancel. A notification triggers a poll immediately.
	Tick time.Duration
	// Drain is the time for running calls to end once no further step may begin.
	Drain time.Duration
	// ReleaseAfter is the longest time of an attempt in this process before it releases the run; 0: no limit.
	ReleaseAfter time.Duration
}

// Tools opens, or lists, the tools of an agent's toolkits. An error is temporary: the run is retried.
type Tools interface {
	Open(ctx context.Context, organization string, toolkits []string) ([]tool.Offer, error)
	Listed(ctx context.Context, organization string, toolkits []string) ([]tool.Offer, error)
}

// Errors that end an attempt without ending the run.
var (
	errLost    = errors.New("worker: the run is no longer ours")
	errRelease = errors.New("worker: the process is stopping")
	errCancel  = errors.New("worker: the run was cancelled")
	errAlone   = errors.New("worker: what must go on beside the work has ended")
)

// Handle reconciles a run: it applies the event that is due, or claims and executes the run, or does nothing. It
// returns when the attempt has ended. If ctx ends, the run is released at the next step, or after Drain.
//
// It returns nil if the run is gone or another process was faster. An error is one of the store, the queue of wakeups,
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
		e, err = w.Executor.From(ctx, e, func(record.Run, *record.Tx) (transition.Change, error) {
			return transition.Change{Event: todo.Event}, nil
		})
		if err != nil {
			return ignoreRefusal(err)
		}
		todo = lifecycle.Next(e.Value.Run, w.Host.Now(), w.Executor.ProcessID) // a run whose deadline was moved begins
	}
	if !todo.Execute {
		return nil
	}
	return w.execute(ctx, e)
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
		return nil // the process stops: the sweeper of the next one sends another wakeup
	}
	a := w.newAttempt()
	claimed, err := w.Executor.From(ctx, e, func(r record.Run, _ *record.Tx) (transition.Change, error) {
		if a.owns(r) {
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
