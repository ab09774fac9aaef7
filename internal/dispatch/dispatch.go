// Package dispatch takes nudges from a queue and has them handled, so many beside each other.
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

// Handler sees to a nudge. It says after how long to bring it again, 0 for never; an error means soon.
type Handler func(ctx context.Context, id string) (again time.Duration, err error)

// retryAfterError is how long a nudge rests whose handling failed. The sweeper would bring it, too.
const retryAfterError = 2 * time.Second

// maxReceives bounds how often a failing nudge comes back by itself; after that the sweeper decides.
const maxReceives = 5

// Run receives until ctx ends, and returns when all that was begun has come to its end. The handlers' context ends with
// ctx.
func Run(ctx context.Context, source queue.Source, width int, log *slog.Logger, handle Handler) {
	var begun sync.WaitGroup
	defer begun.Wait()
	slots := make(chan struct{}, width)
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
			rest(ctx)
			continue
		}
		begun.Go(func() {
			defer func() { <-slots }()
			if died := host.Catch(func() { one(ctx, source, d, log, handle) }); died != nil {
				log.Error("the queue panicked", "panic", died.Value, "stack", string(died.Stack))
			}
		})
	}
}

// rest is what a queue is given that could not be read.
func rest(ctx context.Context) {
	select {
	case <-time.After(retryAfterError):
	case <-ctx.Done():
	}
}

func one(ctx context.Context, source queue.Source, d queue.Delivery, log *slog.Logger, handle Handler) {
	again, err := Guarded(ctx, d, log, handle)
	if err != nil {
		log.Error("a nudge could not be handled", "kind", d.Nudge.Kind, "id", d.Nudge.ID, "receives", d.Receives, "error", err)
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

// Guarded handles a nudge and keeps one bad item from bringing the process down. Of one that panicked the log has the
// stack, and the sweeper brings it again.
func Guarded(ctx context.Context, d queue.Delivery, log *slog.Logger, handle Handler) (again time.Duration, err error) {
	died := host.Catch(func() { again, err = handle(ctx, d.Nudge.ID) })
	if died != nil {
		log.Error("a handler panicked", "kind", d.Nudge.Kind, "id", d.Nudge.ID, "panic", died.Value, "stack", string(died.Stack))
		return 0, nil
	}
	return again, err
}
