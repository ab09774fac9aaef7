// Package localqueue is the queue port inside one process. It is fair between groups, the users of a group and the
// bases of a user. It is empty after a restart; the sweeper then sends all messages again.
//
// It imports its port, and share.
package localqueue

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"agentplatform/internal/platform/share"
	"agentplatform/internal/store/queue"
)

// capacity bounds the memory. The sweeper sends refused messages again.
var capacity = share.Limits{All: 100_000, Reserve: 25_000, Organization: 50_000, User: 40_000}

// ErrFull is returned by Send, and by Retry without a delay, if the queue has no capacity left for the sender.
var ErrFull = errors.New("localqueue: full")

// Queue is a queue in memory. It implements [queue.Queue] and [queue.Source]. An unanswered delivery holds one of the
// shared units. So does a place that [Queue.Reserve] has given.
type Queue struct {
	shared, entries *share.Pool

	mu     sync.Mutex
	line   share.Line[entry]             // by group, user and base
	all    map[queue.Message]bool        // the waiting messages
	work   map[queue.Message]*share.Part // the units of deliveries that are not answered
	wake   chan struct{}                 // has a token while a message may be delivered
	closed atomic.Bool
}

type entry struct {
	queue.Message
	receives int
	unit     *share.Part
}

// New makes an empty queue that delivers every message to any receiver.
func New() *Queue { return Shared(share.Limits{All: math.MaxInt64}) }

// Shared makes an empty queue with so many units for unanswered deliveries and reserved places. A user or group that
// may have no further unit keeps its messages waiting, and others pass them.
func Shared(limits share.Limits) *Queue {
	return &Queue{
		shared: share.New(limits), entries: share.New(capacity), all: map[queue.Message]bool{},
		work: map[queue.Message]*share.Part{}, wake: make(chan struct{}, 1),
	}
}

// Send adds a message, unless an equal one waits: a sweeper repeats the wakeups of runs and jobs that wait for long.
// The error is [ErrFull].
func (q *Queue) Send(_ context.Context, m queue.Message) error {
	return q.push(entry{Message: m})
}

func (q *Queue) push(e entry) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.add(e)
}

func (q *Queue) add(e entry) error {
	if q.all[e.Message] {
		return nil
	}
	e.unit = q.entries.Part(share.Holder{Organization: e.Group, User: e.User})
	if e.unit.Take(1) != nil {
		return ErrFull
	}
	add := q.line.Push
	if e.Base != "" && e.receives > 0 { // of the documents of a base, those that were begun come first
		add = q.line.Return
	}
	add(e, e.Group, e.User, e.Base)
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
// a user. A group, user or base that may not have a message now keeps its turn. The error is ctx's.
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

// next takes a unit for the first message that may be delivered, and finds it in the line; nil: there is none. Each
// user that it passes over holds a unit. So it passes over at most as many users as there are units.
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
	q.work[e.Message] = part
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
// now. It also returns nil if a waiting message could be delivered: the message comes first. The caller must call free
// once.
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
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.give(part)
	}
}

// give returns a unit. A waiting message may then get it.
func (q *Queue) give(part *share.Part) {
	part.Give()
	if len(q.all) > 0 {
		q.signal()
	}
}

// Waits reports whether a message of another base, user or group would have the unit of a message at work.
func (q *Queue) Waits(at queue.Message) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	part := q.work[at]
	return part != nil && part.WantedBy(func(may func(path []string) bool) bool {
		return q.line.First(func(path []string) bool {
			return may(path) && !slices.Equal(path, []string{at.Group, at.User, at.Base})
		})
	})
}

// Ack returns the unit that the delivery holds. Receive has removed the message itself. The error is always nil.
func (q *Queue) Ack(_ context.Context, d queue.Delivery) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.answered(d)
	return nil
}

// answered gives back the unit of a delivery.
func (q *Queue) answered(d queue.Delivery) {
	part, is := d.Handle.(*share.Part)
	if !is {
		return
	}
	if q.work[d.Message] == part {
		delete(q.work, d.Message)
	}
	q.give(part)
}

// Retry delivers the message again after a delay. A message of a document comes before the others of its base. Without
// a delay it waits before its unit is returned, and all other waiting messages have their turn first. The error is
// [ErrFull], only if after is [queue.Now] or less.
func (q *Queue) Retry(ctx context.Context, d queue.Delivery, after time.Duration) error {
	e := entry{Message: d.Message, receives: d.Receives}
	if after <= queue.Now {
		q.mu.Lock()
		defer q.mu.Unlock()
		defer q.answered(d)
		defer q.line.Yield(e.Group, e.User, e.Base)
		return q.add(e)
	}
	if err := q.Ack(ctx, d); err != nil {
		return err
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
