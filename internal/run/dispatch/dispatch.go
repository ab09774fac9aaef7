// Package dispatch receives nudges from a queue and handles them, a limited number in parallel. Where the queue shares
// its workers out, one that is free can be reserved for what comes without a nudge.
//
// It imports the queue port and host.
package dispatch

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"agentplatform/internal/platform/host"
	"agentplatform/internal/store/queue"
)

// Handler handles a nudge, given the id of its item. It returns after how long the nudge is to be delivered again, 0
// for never; after an error it is delivered again soon.
type Handler func(ctx context.Context, id string) (again time.Duration, err error)

// retryAfterError is the pause after a failed receive, and the delay of a nudge whose handler failed. The sweeper
// would send such a nudge again, too.
const retryAfterError = 2 * time.Second

// maxReceives bounds how often a failing nudge is delivered again; after that only the sweeper sends it.
const maxReceives = 5

// Run receives and handles nudges, width in parallel, until ctx ends. It returns when all handlers have returned. The
// context of the handlers ends with ctx. Errors and panics are logged and do not end Run.
func Run(ctx context.Context, source queue.Source, width int, log *slog.Logger, handle Handler) {
	newPool(source, width, log).Run(ctx, handle)
}

// Shared is a queue that shares workers out: its unanswered deliveries and reserved places are as many at most.
type Shared interface {
	queue.Source
	// Reserve takes a worker for a user of a group. It returns nil where the user may have none now, or where a message
	// comes first. free gives the worker back; it is called once.
	Reserve(group, user string) (free func())
}

// Pool is the workers that a queue shares out. They handle nudges, or what is begun without one. It is safe for
// concurrent use.
type Pool struct {
	log    *slog.Logger
	source queue.Source
	shared Shared        // the source, where it shares the workers out
	taken  chan struct{} // has one for each nudge at work, and one for the nudge that is waited for
	begun  sync.WaitGroup

	mu  sync.Mutex
	ctx context.Context // of Run; nil: it has not begun, or ends
}

// NewPool makes a pool of width workers, as many as the queue shares out.
func NewPool(source Shared, width int, log *slog.Logger) *Pool {
	p := newPool(source, width, log)
	p.shared = source
	return p
}

func newPool(source queue.Source, width int, log *slog.Logger) *Pool {
	return &Pool{log: log, source: source, taken: make(chan struct{}, width)}
}

// Run has the workers receive and handle nudges until ctx ends, once; see [Run].
func (p *Pool) Run(ctx context.Context, handle Handler) {
	p.mu.Lock()
	p.ctx = ctx
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.ctx = nil
		p.mu.Unlock()
		p.begun.Wait()
	}()
	for {
		select {
		case p.taken <- struct{}{}:
		case <-ctx.Done():
			return
		}
		var d queue.Delivery
		var err error
		if died := host.Catch(func() { d, err = p.source.Receive(ctx) }); died != nil {
			p.log.Error("the queue panicked", "panic", died.Value, "stack", string(died.Stack))
			err = died
		}
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			<-p.taken
			p.log.Error("the queue could not be read", "error", err)
			_ = host.System().Sleep(ctx, retryAfterError)
			continue
		}
		p.begin(func() {
			defer func() { <-p.taken }()
			handleOne(ctx, p.source, d, p.log, handle)
		})
	}
}

// Reserve reserves a worker for what comes without a nudge for a user of a group. It returns nil where the queue gives
// none, or Run does not run. The caller must call begin once, with nil to give the worker back; it does not wait for
// the work. The context of the work ends with that of Run.
func (p *Pool) Reserve(group, user string) (begin func(work func(ctx context.Context))) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx == nil {
		return nil
	}
	free := p.shared.Reserve(group, user)
	if free == nil {
		return nil
	}
	p.begun.Add(1)
	ctx := p.ctx
	return func(work func(ctx context.Context)) {
		defer p.begun.Done()
		if work == nil {
			free()
			return
		}
		p.begin(func() {
			defer free()
			work(ctx)
		})
	}
}

// begin has a worker that is taken do some work.
func (p *Pool) begin(work func()) {
	p.begun.Go(func() {
		if died := host.Catch(work); died != nil {
			p.log.Error("a worker panicked", "panic", died.Value, "stack", string(died.Stack))
		}
	})
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
