// Package localqueue is the queue port inside one process: fair between groups, and empty after a restart (the
// sweeper then sends the nudges again).
//
// It imports its port.
package localqueue

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"agentplatform/internal/queue"
)

// limit bounds the memory. A nudge for a full queue is refused, and sent again by the sweeper.
const limit = 100_000

// ErrFull is returned by Send, and by Retry without delay, if the queue has its maximal length.
var ErrFull = errors.New("localqueue: full")

// Queue is a queue in memory. It implements [queue.Queue] and [queue.Source].
type Queue struct {
	share int // maximal unanswered deliveries of a group; 0: no limit

	mu     sync.Mutex
	groups map[string][]entry // waiting, by group
	turn   []string           // groups with waiting messages, in the order of their turns
	held   map[string]int     // deliveries not answered yet, by group
	size   int
	wake   chan struct{} // has a token while a message may be waiting
	timers map[*time.Timer]struct{}
}

type entry struct {
	queue.Message
	receives int
}

// New makes an empty queue.
func New() *Queue { return Shared(0) }

// Shared makes an empty queue that delivers at most share messages of a group at once, so that a group whose messages
// take long to handle does not occupy all receivers. 0 means no limit.
func Shared(share int) *Queue {
	return &Queue{share: share, groups: map[string][]entry{}, held: map[string]int{}, wake: make(chan struct{}, 1),
		timers: map[*time.Timer]struct{}{}}
}

// Send adds a message. The error is [ErrFull].
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

// Receive waits for a message; groups take turns. The error is ctx's.
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

// Ack makes room for another message of the group; the message itself was removed by Receive. The error is always
// nil.
func (q *Queue) Ack(_ context.Context, d queue.Delivery) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.held[d.Group]--; q.held[d.Group] <= 0 {
		delete(q.held, d.Group)
	}
	q.signal()
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
	q.mu.Lock()
	defer q.mu.Unlock()
	var t *time.Timer
	t = time.AfterFunc(after, func() {
		q.mu.Lock()
		_, live := q.timers[t]
		delete(q.timers, t)
		q.mu.Unlock()
		if live {
			_ = q.push(e) // if the queue is full, the sweeper sends it again
		}
	})
	q.timers[t] = struct{}{}
	return nil
}

// Close stops the timers of delayed messages, which are lost.
func (q *Queue) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for t := range q.timers {
		t.Stop()
	}
	clear(q.timers)
}
