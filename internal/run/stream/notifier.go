package stream

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"agentplatform/internal/platform/host"
	"agentplatform/internal/store/record"
)

// Notifier notifies those who wait for changes of a run or of its frames. A notification means only that something may
// have changed; it may be lost.
type Notifier interface {
	// Notify notifies the subscriptions to a name: a run's id, [record.EndOf], [record.InboxOf], or the partition of a
	// run's frames.
	Notify(what string)
	// NotifyEnd is Notify of [record.EndOf] of a run that has ended or waits for a human, and hands the run, as it is
	// stored, to the subscriptions. They share it: nobody may change it.
	NotifyEnd(run record.RunEntity)
	// Subscribe subscribes to any of the names. The caller must close the subscription.
	Subscribe(what ...string) Subscription
	// OnNotify calls f at each notification of any of the names, until stop is called. f must not wait, and must not
	// call the notifier.
	OnNotify(f func(), what ...string) (stop func())
	// Interval is 0 where each change causes a notification. Elsewhere changes are looked for, and it is the shortest
	// time between two looks.
	Interval() time.Duration
}

// Subscription is a subscription to notifications.
type Subscription interface {
	// Wait returns true if there was a notification or a Ring since the last Wait (or since Subscribe), false after d,
	// and ctx's error if that ends first.
	Wait(ctx context.Context, d time.Duration) (notified bool, err error)
	// Ring notifies this subscription alone.
	Ring()
	// Ended is the run of the last NotifyEnd, nil where there was none. It may have changed since.
	Ended() *record.RunEntity
	// Close ends the subscription.
	Close()
}

// LocalNotifier notifies within one process.
type LocalNotifier struct {
	mu        sync.Mutex
	listeners map[string][]*localSubscription
}

// NewLocalNotifier makes a notifier without subscriptions.
func NewLocalNotifier() *LocalNotifier {
	return &LocalNotifier{listeners: map[string][]*localSubscription{}}
}

// Notify notifies the subscriptions.
func (b *LocalNotifier) Notify(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	notify(b.listeners[what])
}

// NotifyEnd hands the subscriptions the run and notifies them.
func (b *LocalNotifier) NotifyEnd(run record.RunEntity) {
	b.mu.Lock()
	defer b.mu.Unlock()
	listeners := b.listeners[record.EndOf(run.Value.ID())]
	if len(listeners) == 0 {
		return
	}
	shared := new(run)
	for _, l := range listeners {
		l.ended.Store(shared)
	}
	notify(listeners)
}

func notify(listeners []*localSubscription) {
	for _, l := range listeners {
		l.Ring()
	}
}

// Subscribe subscribes to notifications.
func (b *LocalNotifier) Subscribe(what ...string) Subscription {
	return b.listen(&localSubscription{what: what, notified: make(chan struct{}, 1)})
}

// OnNotify calls f at each notification.
func (b *LocalNotifier) OnNotify(f func(), what ...string) (stop func()) {
	return b.listen(&localSubscription{what: what, call: f}).Close
}

func (b *LocalNotifier) listen(l *localSubscription) Subscription {
	l.notifier = b
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range l.what {
		b.listeners[w] = append(b.listeners[w], l)
	}
	return l
}

// Interval is 0: every change in this process notifies.
func (b *LocalNotifier) Interval() time.Duration { return 0 }

type localSubscription struct {
	notifier *LocalNotifier
	what     []string
	call     func() // in place of waits; may be nil
	notified chan struct{}
	ended    atomic.Pointer[record.RunEntity]
}

func (l *localSubscription) Ring() {
	if l.call != nil {
		l.call()
		return
	}
	select {
	case l.notified <- struct{}{}:
	default: // the last notification has not been received yet
	}
}

func (l *localSubscription) Ended() *record.RunEntity { return l.ended.Load() }

func (l *localSubscription) Wait(ctx context.Context, d time.Duration) (bool, error) {
	if d <= 0 {
		select {
		case <-l.notified:
			return true, nil
		default:
			return false, ctx.Err()
		}
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-l.notified:
		return true, nil
	case <-t.C:
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

func (l *localSubscription) Close() {
	b := l.notifier
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range l.what {
		left := slices.DeleteFunc(b.listeners[w], func(other *localSubscription) bool { return other == l })
		if len(left) == 0 {
			delete(b.listeners, w)
		} else {
			b.listeners[w] = left
		}
	}
}

// Polling is the notifier for deployments without notifications: its subscribers poll, the less often the longer
// nothing changes (see pace).
type Polling struct {
	Host  host.Host
	Every time.Duration // the shortest interval
}

// Notify does nothing.
func (Polling) Notify(string) {}

// NotifyEnd does nothing.
func (Polling) NotifyEnd(record.RunEntity) {}

// Subscribe returns a subscription that only waits, and that only Ring notifies.
func (p Polling) Subscribe(...string) Subscription { return &pollingSubscription{host: p.Host} }

// OnNotify does nothing.
func (Polling) OnNotify(func(), ...string) (stop func()) { return func() {} }

// Interval is Every.
func (p Polling) Interval() time.Duration { return p.Every }

// pace is how long to wait before polling without a notification, if nothing was new for the time quiet. Where nothing
// notifies it is an eighth of that time, at least the notifier's interval, and at most eight times that: a change is
// seen after an eighth more of the time that it took, and a wait of a minute costs 48 polls. Elsewhere polls are hardly
// needed.
func pace(n Notifier, quiet time.Duration) time.Duration {
	if every := n.Interval(); every > 0 {
		return min(max(quiet/8, every), 8*every)
	}
	return watchLife / 2
}

type pollingSubscription struct {
	host host.Host

	mu   sync.Mutex
	rung bool
	wake context.CancelFunc // ends the wait; nil: there is none
}

func (s *pollingSubscription) Ring() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rung = true; s.wake != nil {
		s.wake()
	}
}

func (s *pollingSubscription) Wait(ctx context.Context, d time.Duration) (bool, error) {
	early, cancel := context.WithCancel(ctx)
	defer cancel()
	s.mu.Lock()
	if s.wake = cancel; s.rung {
		d = 0
	}
	s.mu.Unlock()
	_ = s.host.Sleep(early, d) // ctx is checked below
	s.mu.Lock()
	defer s.mu.Unlock()
	rung := s.rung
	s.rung, s.wake = false, nil
	return rung, ctx.Err()
}

func (*pollingSubscription) Ended() *record.RunEntity { return nil }

func (*pollingSubscription) Close() {}
