// Package localtimer is the timer port inside one process. It is empty after a restart; the sweeper then handles what
// is due.
package localtimer

import (
	"context"
	"sync"
	"time"

	"agentplatform/internal/store/queue"
)

// Timer sends its nudges to a queue.
type Timer struct {
	queue queue.Queue

	mu     sync.Mutex
	alarms map[string]*time.Timer
}

// New makes a timer without alarms.
func New(q queue.Queue) *Timer { return &Timer{queue: q, alarms: map[string]*time.Timer{}} }

// At implements timer.Timer. The error is always nil.
func (t *Timer) At(_ context.Context, name string, at time.Time, m queue.Message) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, there := t.alarms[name]; there {
		return nil
	}
	t.alarms[name] = time.AfterFunc(time.Until(at), func() {
		t.mu.Lock()
		delete(t.alarms, name)
		t.mu.Unlock()
		_ = t.queue.Send(context.Background(), m) // lost if the queue is full; the sweeper handles what is overdue
	})
	return nil
}

// Stop implements timer.Timer. The error is always nil.
func (t *Timer) Stop(_ context.Context, name string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a, there := t.alarms[name]; there {
		a.Stop()
		delete(t.alarms, name)
	}
	return nil
}

// Close removes all alarms.
func (t *Timer) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, a := range t.alarms {
		a.Stop()
	}
	clear(t.alarms)
}
