// Package localqueue is the queue port inside one process: fair between groups, empty after a restart (the sweeper
// refills it from the store).
package localqueue

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"agentplatform/internal/queue"
)

// limit bounds the memory. A nudge that finds the queue full is refused, and the sweeper sends it later.
const limit = 100_000

// ErrFull says that the queue holds as much as it may.
var ErrFull = errors.New("localqueue: full")

// Queue is a queue in memory.
type Queue struct {
	share int // of a group, at once; 0: as many as there are

	mu     sync.Mutex
	groups map[string][]entry // waiting, by group
	turn   []string           // the groups that have something, in the order of their turns
	held   map[string]int     // received and not answered yet, by group
	size   int
	wake   chan struct{} // holds a token while something may be waiting
	timers map[*time.Timer]struct{}
}

type entry struct {
	queue.Message
	receives int
}

// New makes an empty queue.
func New() *Queue { return Shared(0) }

// Shared makes a queue of which no group has more than its share in hand at once: one whose messages take long to handle
// must not take up all who could handle those of others.
func Shared(share int) *Queue {
	return &Queue{share: share, groups: map[string][]entry{}, held: map[string]int{}, wake: make(chan struct{}, 1), timers: map[*time.Timer]struct{}{}}
}

// Send hands a message over.
func (q *Queue) Send(_ context.Context, m queue.Message) error {
	return q.push(entry{Message: m})
}

func (q *Queue) push(e entry) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.size >= limit {
		return ErrFull
	}
	if len(q.groups[e.Group]) == 0 {
		q.turn = append(q.turn, e.Group)
	}
	q.groups[e.Group] = append(q.groups[e.Group], e)
	q.size++
	q.signal()
	return nil
}

func (q *Queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// Receive waits for a message, one group after another.
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

func (q *Queue) pop() (queue.Delivery, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	next := slices.IndexFunc(q.turn, func(group string) bool { return q.share == 0 || q.held[group] < q.share })
	if next < 0 {
		return queue.Delivery{}, false
	}
	group := q.turn[next]
	q.turn = slices.Delete(q.turn, next, next+1)
	waiting := q.groups[group]
	e := waiting[0]
	if len(waiting) > 1 {
		q.groups[group] = waiting[1:]
		q.turn = append(q.turn, group)
	} else {
		delete(q.groups, group)
	}
	q.size--
	q.held[group]++
	if q.size > 0 {
		q.signal() // for the next receiver
	}
	return queue.Delivery{Message: e.Message, Receives: e.receives + 1}, true
}

// Ack forgets the message, which receiving it already did; its group may have another one.
func (q *Queue) Ack(_ context.Context, d queue.Delivery) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.held[d.Group]--; q.held[d.Group] <= 0 {
		delete(q.held, d.Group)
	}
	q.signal()
	return nil
}

// Retry puts the message back after a while.
func (q *Queue) Retry(ctx context.Context, d queue.Delivery, after time.Duration) error {
	if err := q.Ack(ctx, d); err != nil {
		return err
	}
	e := entry{Message: d.Message, receives: d.Receives}
	if after <= 0 {
		return q.push(e)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	var t *time.Timer
	t = time.AfterFunc(after, func() {
		q.mu.Lock()
		_, live := q.timers[t]
		delete(q.timers, t)
		q.mu.Unlock()
		if live {
			_ = q.push(e) // when full, the sweeper will see to it
		}
	})
	q.timers[t] = struct{}{}
	return nil
}

// Close stops the timers of delayed messages.
func (q *Queue) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for t := range q.timers {
		t.Stop()
	}
	clear(q.timers)
}
