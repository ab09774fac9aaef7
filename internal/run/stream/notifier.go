package stream

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"agentplatform/internal/platform/host"
	"agentplatform/internal/store/record"
)

// Notifier notifies listeners of changes of a run or of its frames. A notification means only that something may have
// changed; it may be lost.
type Notifier interface {
	// Notify notifies the listeners of a name: a run's id, [record.EndOf], [record.InboxOf], or the partition of a
	// run's frames.
	Notify(what string)
	// NotifyEnd is Notify of [record.EndOf] of a run that has ended or waits for a person. It passes the stored run to
	// the listeners. They share it and must not change it.
	NotifyEnd(run record.RunEntity)
	// OnNotify calls f at each notification of any of the names, until stop is called. f gets the run of a NotifyEnd,
	// else nil. f must not wait, and must not call the notifier.
	OnNotify(f func(ended *record.RunEntity), what ...string) (stop func())
	// Interval is 0 if each change causes a notification. Otherwise changes must be polled, and it is the shortest time
	// between two polls.
	Interval() time.Duration
}

// Subscription is a subscription to notifications. One goroutine at a time may wait.
type Subscription struct {
	host host.Host
	stop func()

	mu    sync.Mutex
	rung  bool
	wake  context.CancelFunc // ends the last wait; may be nil
	ended *record.RunEntity
}

// subscribe subscribes to any of the names. The caller must close the subscription.
func subscribe(n Notifier, h host.Host, what ...string) *Subscription {
	s := &Subscription{host: h}
	s.stop = n.OnNotify(s.notify, what...)
	return s
}

func (s *Subscription) notify(ended *record.RunEntity) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = cmp.Or(ended, s.ended)
	if s.rung = true; s.wake != nil {
		s.wake()
	}
}

// Ring notifies only this subscription.
func (s *Subscription) Ring() { s.notify(nil) }

// Wait returns true if there was a notification or a Ring since the last Wait (or since the subscription). It returns
// false after d, and ctx's error if ctx ends first.
func (s *Subscription) Wait(ctx context.Context, d time.Duration) (notified bool, err error) {
	early, cancel := context.WithCancel(ctx)
	defer cancel()
	s.mu.Lock()
	if s.wake = cancel; s.rung {
		cancel()
	}
	s.mu.Unlock()
	_ = s.host.Sleep(early, d) // ctx is checked below
	s.mu.Lock()
	defer s.mu.Unlock()
	if notified = s.rung; notified {
		s.rung = false
		return true, nil
	}
	return false, ctx.Err()
}

// Ended is the run of the last NotifyEnd, or nil if there was none. It may have changed since.
func (s *Subscription) Ended() *record.RunEntity {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// Close ends the subscription.
func (s *Subscription) Close() { s.stop() }

// LocalNotifier notifies within one process.
type LocalNotifier struct {
	mu        sync.Mutex
	listeners map[string][]*listener
}

type listener struct{ call func(ended *record.RunEntity) }

// NewLocalNotifier makes a notifier without subscriptions.
func NewLocalNotifier() *LocalNotifier {
	return &LocalNotifier{listeners: map[string][]*listener{}}
}

// Notify calls the listeners.
func (b *LocalNotifier) Notify(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.listeners[what] {
		l.call(nil)
	}
}

// NotifyEnd calls the listeners with the run.
func (b *LocalNotifier) NotifyEnd(run record.RunEntity) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if listeners := b.listeners[record.EndOf(run.Value.ID())]; len(listeners) > 0 {
		shared := new(run)
		for _, l := range listeners {
			l.call(shared)
		}
	}
}

// OnNotify adds a listener.
func (b *LocalNotifier) OnNotify(f func(ended *record.RunEntity), what ...string) (stop func()) {
	l := &listener{f}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range what {
		b.listeners[w] = append(b.listeners[w], l)
	}
	return func() { b.remove(l, what) }
}

func (b *LocalNotifier) remove(l *listener, what []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range what {
		left := slices.DeleteFunc(b.listeners[w], func(other *listener) bool { return other == l })
		if b.listeners[w] = left; len(left) == 0 {
			delete(b.listeners, w)
		}
	}
}

// Interval is 0: every change in this process notifies.
func (b *LocalNotifier) Interval() time.Duration { return 0 }

// Polling is the notifier for deployments without notifications. Its subscribers poll, less often the longer there is
// no change (see pace).
type Polling struct {
	Every time.Duration // the shortest interval
}

// Notify does nothing.
func (Polling) Notify(string) {}

// NotifyEnd does nothing.
func (Polling) NotifyEnd(record.RunEntity) {}

// OnNotify does nothing.
func (Polling) OnNotify(func(*record.RunEntity), ...string) (stop func()) { return func() {} }

// Interval is Every.
func (p Polling) Interval() time.Duration { return p.Every }
