// Package dispatch receives wakeups from a queue and handles them, a limited number in parallel. If the queue shares
// out its workers, a caller can reserve a free worker for work without a wakeup.
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

// Handler handles a wakeup. id is the id of its item. It returns the delay until the next delivery of the wakeup; 0
// means never. After an error the wakeup is delivered again soon.
type Handler func(ctx context.Context, id string) (again time.Duration, err error)

// retryAfterError is the pause after a failed receive, and the delay of a wakeup whose handler failed. The sweeper
// would also send such a wakeup again.
const retryAfterError = 2 * time.Second

// maxReceives bounds the deliveries of a failing wakeup. After that only the sweeper sends it.
const maxReceives = 5

// Run receives and handles wakeups, width in parallel, until ctx ends. It returns after all handlers have returned. The
// context of the handlers ends with ctx. Errors and panics are logged and do not end Run.
func Run(ctx context.Context, source queue.Source, width int, log *slog.Logger, handle Handler) {
	newPool(source, width, log).Run(ctx, handle)
}

// Shared is a queue that shares out its workers. They limit the sum of its unanswered deliveries and reservations.
type Shared interface {
	queue.Source
	// Reserve takes a worker for a user of a group. It returns nil if the user may have no worker now, or if a message
	// has precedence. free returns the worker; the caller calls it once.
	Reserve(group, user string) (free func())
}

// Pool is the workers that a queue shares out. They handle wakeups, or reserved work without a wakeup. It is safe for
// concurrent use.
type Pool struct {
	log    *slog.Logger
	source queue.Source
	shared Shared        // the source, if it shares out the workers
	taken  chan struct{} // one entry for each wakeup in work, and one for the receive that waits
	begun  sync.WaitGroup

	mu  sync.Mutex
	ctx context.Context // of Run; nil: Run has not begun, or ends
}

// NewPool makes a pool of width workers. The queue must share out the same number.
func NewPool(source Shared, width int, log *slog.Logger) *Pool {
	p := newPool(source, width, log)
	p.shared = source
	return p
}

func newPool(source queue.Source, width int, log *slog.Logger) *Pool {
	return &Pool{log: log, source: source, taken: make(chan struct{}, width)}
}

// Run receives and handles wakeups until ctx ends. It may be called once; see [Run].
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

// Reserve reserves a worker for work without a wakeup, for a user of a group. It returns nil if the queue gives no
// worker, or if Run is not running. The caller must call begin once, with nil to return the worker. begin does not wait
// for the work. The context of the work ends with that of Run.
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

// begin starts work on a worker that is taken.
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
		log.Error("a nudge could not be handled", "kind", d.Wakeup.Kind, "id", d.Wakeup.ID, "receives", d.Receives,
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
		log.Warn("a nudge could not be answered", "kind", d.Wakeup.Kind, "id", d.Wakeup.ID, "error", err)
	}
}

// Guarded calls handle and returns its result and its error. If handle panics, Guarded logs the stack and returns 0 and
// nil, so that one bad item does not end the process. The sweeper sends its wakeup again.
func Guarded(ctx context.Context, d queue.Delivery, log *slog.Logger, handle Handler) (again time.Duration, err error) {
	died := host.Catch(func() { again, err = handle(ctx, d.Wakeup.ID) })
	if died != nil {
		log.Error("a handler panicked", "kind", d.Wakeup.Kind, "id", d.Wakeup.ID, "panic", died.Value, "stack",
			string(died.Stack))
		return 0, nil
	}
	return again, err
}
