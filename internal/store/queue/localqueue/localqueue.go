// Package localqueue is the queue port inside one process: fair between groups, and between the users of a group, and
// empty after a restart (the sweeper then sends the nudges again).
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

// limit bounds the memory. A nudge for a full queue is refused, and sent again by the sweeper.
const limit = 100_000

// ErrFull is returned by Send, and by Retry without delay, if the queue has its maximal length.
var ErrFull = errors.New("localqueue: full")

// Queue is a queue in memory. It implements [queue.Queue] and [queue.Source]. A delivery that is not answered holds a
// unit of what the queue shares out. So does a place that [Queue.Reserve] has given.
type Queue struct {
	shared *share.Pool

	mu     sync.Mutex
	groups line[line[waiting]]    // groups with waiting messages, and of each its users
	all    map[queue.Message]bool // the waiting messages
	wake   chan struct{}          // has a token while a message may be delivered
	closed atomic.Bool
}

// line is of those who wait, by name, and in the order of their turns.
type line[T any] struct {
	by   map[string]*T
	turn []string
}

// waiting is the messages of a user.
type waiting []entry

type entry struct {
	queue.Message
	receives int
}

// join returns who has a name. If nobody has, a new one comes last.
func (l *line[T]) join(name string) *T {
	if l.by == nil {
		l.by = map[string]*T{}
	}
	if l.by[name] == nil {
		l.by[name] = new(T)
		l.turn = append(l.turn, name)
	}
	return l.by[name]
}

// served ends the turn at a place of the line. Who has more to wait for comes last.
func (l *line[T]) served(at int, more bool) {
	name := l.turn[at]
	l.turn = slices.Delete(l.turn, at, at+1)
	if more {
		l.turn = append(l.turn, name)
	} else {
		delete(l.by, name)
	}
}

// New makes an empty queue that delivers every message to who receives it.
func New() *Queue { return Shared(share.Limits{All: math.MaxInt64}) }

// Shared makes an empty queue with so many units for unanswered deliveries and reserved places. The messages of a user
// or group that may have no further unit wait, and others pass them.
func Shared(limits share.Limits) *Queue {
	return &Queue{shared: share.New(limits), all: map[queue.Message]bool{}, wake: make(chan struct{}, 1)}
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
	if len(q.all) >= limit {
		return ErrFull
	}
	messages := q.groups.join(e.Group).join(e.User)
	*messages = append(*messages, e)
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

// Receive waits for a message that may be delivered. Groups take turns, and so do the users of a group. Who may not
// have one now keeps its turn. The error is ctx's.
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

// next takes a unit for the first message that may be delivered, and finds it by the places of its group and its user;
// nil: there is none. A user it passes over holds a unit, so it passes over no more users than there are units.
func (q *Queue) next() (part *share.Part, group, user int) {
	if len(q.all) == 0 || q.shared.Full(1) {
		return nil, 0, 0
	}
	for group, name := range q.groups.turn {
		if !q.shared.Admits(name, 1) {
			continue
		}
		for user, theirs := range q.groups.by[name].turn {
			if part = q.take(name, theirs); part != nil {
				return part, group, user
			}
		}
	}
	return nil, 0, 0
}

func (q *Queue) pop() (queue.Delivery, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	part, group, user := q.next()
	if part == nil {
		return queue.Delivery{}, false
	}
	users := q.groups.by[q.groups.turn[group]]
	messages := users.by[users.turn[user]]
	e := (*messages)[0]
	(*messages)[0] = entry{}
	*messages = (*messages)[1:]
	users.served(user, len(*messages) > 0)
	q.groups.served(group, len(users.turn) > 0)
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
	if part, _, _ := q.next(); part != nil {
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
