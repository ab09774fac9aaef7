// Package localqueue is the queue port inside one process: fair between groups, the users of a group and the bases of a
// user, and empty after a restart (the sweeper then sends all again).
//
// It imports its port, and share.
package localqueue

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"agentplatform/internal/platform/share"
	"agentplatform/internal/store/queue"
)

// capacity bounds the memory. The sweeper sends again what is refused.
var capacity = share.Limits{All: 100_000, Reserve: 25_000, Organization: 50_000, User: 40_000}

// ErrFull is returned by Send, and by Retry without delay, if the queue has no capacity left for the sender.
var ErrFull = errors.New("localqueue: full")

// Queue is a queue in memory. It implements [queue.Queue] and [queue.Source]. A delivery that is not answered holds a
// unit of what the queue shares out. So does a place that [Queue.Reserve] has given.
type Queue struct {
	shared, entries *share.Pool

	mu     sync.Mutex
	line   share.Line[entry]      // by group, user and base
	all    map[queue.Message]bool // the waiting messages
	wake   chan struct{}          // has a token while a message may be delivered
	closed atomic.Bool
}

type entry struct {
	queue.Message
	receives int
	unit     *share.Part
}

// New makes an empty queue that delivers every message to who receives it.
func New() *Queue { return Shared(share.Limits{All: math.MaxInt64}) }

// Shared makes an empty queue with so many units for unanswered deliveries and reserved places. The messages of a user
// or group that may have no further unit wait, and others pass them.
func Shared(limits share.Limits) *Queue {
	return &Queue{
		shared: share.New(limits), entries: share.New(capacity), all: map[queue.Message]bool{},
		wake: make(chan struct{}, 1),
	}
}

// Send adds a message, unless an equal one waits: a sweeper repeats the nudges of what waits for long. The error
// is [ErrFull].
func (q *Queue) Send(_ context.Context, m queue.Message) error {
	return q.push(entry{Message: m})
}

func (q *Queue) push(e entry) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.all[e.Message] {
		return nil
	}
	e.unit = q.entries.Part(share.Holder{Organization: e.Group, User: e.User})
	if e.unit.Take(1) != nil {
		return ErrFull
	}
	q.line.Push(e, e.Group, e.User, e.Base)
	q.all[e.Message] = true
	q.signal()
	return nil
}

func (q *Queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// Receive waits for a message that may be delivered. Groups take turns, and so do the users of a group and the bases of
// a user. Who may not have one now keeps its turn. The error is ctx's.
func (q *Queue) Receive(ctx context.Context) (queue.Delivery, error) {
	for {
		if d, ok := q.pop(); ok {
			return d, nil
		}
		select {
		case <-ctx.Done():
			return queue.Delivery{}, ctx.Err()
		case <-q.wake:
		}
	}
}

// next takes a unit for the first message that may be delivered, and finds it in the line; nil: there is none. A user
// it passes over holds a unit, so it passes over no more users than there are units.
func (q *Queue) next() (part *share.Part) {
	if len(q.all) == 0 || q.shared.Full(1) {
		return nil
	}
	q.line.First(func(path []string) bool {
		switch len(path) {
		case 1:
			return q.shared.Admits(path[0], 1)
		case 2: //nolint:mnd // the group and the user
			part = q.take(path[0], path[1])
			return part != nil
		default: // all messages of a user are alike
			return true
		}
	})
	return part
}

func (q *Queue) pop() (queue.Delivery, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	part := q.next()
	if part == nil {
		return queue.Delivery{}, false
	}
	e := q.line.Pop()
	e.unit.Give()
	delete(q.all, e.Message)
	if len(q.all) > 0 {
		q.signal() // for the next receiver
	}
	return queue.Delivery{Message: e.Message, Receives: e.receives + 1, Handle: part}, true
}

// take takes a unit for a user; nil: the user may have none.
func (q *Queue) take(group, user string) *share.Part {
	part := q.shared.Part(share.Holder{Organization: group, User: user})
	if part.Take(1) != nil {
		return nil
	}
	return part
}

// Reserve takes a place for work that comes without a message. It returns nil if the user of the group may have none
// now, or if a waiting message could be delivered: that comes first. The caller must call free once.
func (q *Queue) Reserve(group, user string) (free func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if part := q.next(); part != nil {
		part.Give()
		return nil
	}
	part := q.take(group, user)
	if part == nil {
		return nil
	}
	return func() { q.giveBack(part) }
}

// giveBack gives back a unit, which may be for a message that waits.
func (q *Queue) giveBack(part *share.Part) {
	q.mu.Lock()
	defer q.mu.Unlock()
	part.Give()
	if len(q.all) > 0 {
		q.signal()
	}
}

// Ack gives back what the delivery holds. Receive has removed the message itself. The error is always nil.
func (q *Queue) Ack(_ context.Context, d queue.Delivery) error {
	if part, is := d.Handle.(*share.Part); is {
		q.giveBack(part)
	}
	return nil
}

// Retry delivers the message again after a delay. The error is [ErrFull], only if after is not positive.
func (q *Queue) Retry(ctx context.Context, d queue.Delivery, after time.Duration) error {
	if err := q.Ack(ctx, d); err != nil {
		return err
	}
	e := entry{Message: d.Message, receives: d.Receives}
	if after <= 0 {
		return q.push(e)
	}
	time.AfterFunc(after, func() {
		if !q.closed.Load() {
			_ = q.push(e) // if the queue is full, the sweeper sends it again
		}
	})
	return nil
}

// Close drops the delayed messages.
func (q *Queue) Close() { q.closed.Store(true) }
