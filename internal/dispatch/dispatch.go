// Package dispatch receives nudges from a queue and handles them, a limited number in parallel.
//
// It imports the queue port and host.
package dispatch

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"agentplatform/internal/host"
	"agentplatform/internal/queue"
)

// Handler handles a nudge, given the id of its item. It returns after how long the nudge is to be delivered again, 0
// for never; after an error it is delivered again soon.
type Handler func(ctx context.Context, id string) (again time.Duration, err error)

// retryAfterError is the pause after a failed receive, and the delay of a nudge whose handler failed. The sweeper
// would send such a nudge again, too.
const retryAfterError = 2 * time.Second

// maxReceives bounds how often a failing nudge is delivered again; after that only the sweeper sends it.
const maxReceives = 5

// kept is how many goroutines stay for the next nudge when they have handled one: their stacks have grown, which a run
// of a millisecond would otherwise pay for each time.
const kept = 64

// Run receives and handles nudges, width in parallel, until ctx ends. It returns when all handlers have returned. The
// context of the handlers ends with ctx. Errors and panics are logged and do not end Run.
func Run(ctx context.Context, source queue.Source, width int, log *slog.Logger, handle Handler) {
	var begun sync.WaitGroup
	defer begun.Wait()
	slots := make(chan struct{}, width)
	staying, next := make(chan struct{}, kept), make(chan queue.Delivery)
	work := func(d queue.Delivery) {
		defer func() { <-slots }()
		if died := host.Catch(func() { handleOne(ctx, source, d, log, handle) }); died != nil {
			log.Error("the queue panicked", "panic", died.Value, "stack", string(died.Stack))
		}
	}
	stay := func(d queue.Delivery) {
		for work(d); ; work(d) {
			select {
			case staying <- struct{}{}:
			default:
				return
			}
			select {
			case d = <-next:
				<-staying
			case <-ctx.Done():
				return
			}
		}
	}
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		var d queue.Delivery
		var err error
		if died := host.Catch(func() { d, err = source.Receive(ctx) }); died != nil {
			log.Error("the queue panicked", "panic", died.Value, "stack", string(died.Stack))
			err = died
		}
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			<-slots
			log.Error("the queue could not be read", "error", err)
			pause(ctx)
			continue
		}
		select {
		case next <- d:
		default:
			begun.Go(func() { stay(d) })
		}
	}
}

// pause waits for retryAfterError, or until ctx ends.
func pause(ctx context.Context) {
	select {
	case <-time.After(retryAfterError):
	case <-ctx.Done():
	}
}

func handleOne(ctx context.Context, source queue.Source, d queue.Delivery, log *slog.Logger, handle Handler) {
	again, err := Guarded(ctx, d, log, handle)
	if err != nil {
		log.Error("a nudge could not be handled", "kind", d.Nudge.Kind, "id", d.Nudge.ID, "receives", d.Receives,
			"error", err)
		if d.Receives < maxReceives {
			again = retryAfterError
		}
	}
	answering := context.WithoutCancel(ctx)
	if again > 0 {
		err = source.Retry(answering, d, again)
	} else {
		err = source.Ack(answering, d)
	}
	if err != nil {
		log.Warn("a nudge could not be answered", "kind", d.Nudge.Kind, "id", d.Nudge.ID, "error", err)
	}
}

// Guarded calls handle and returns its result and its error. If it panics, Guarded logs the stack and returns 0 and
// nil, so that one bad item does not end the process; the sweeper sends its nudge again.
func Guarded(ctx context.Context, d queue.Delivery, log *slog.Logger, handle Handler) (again time.Duration, err error) {
	died := host.Catch(func() { again, err = handle(ctx, d.Nudge.ID) })
	if died != nil {
		log.Error("a handler panicked", "kind", d.Nudge.Kind, "id", d.Nudge.ID, "panic", died.Value, "stack",
			string(died.Stack))
		return 0, nil
	}
	return again, err
}
