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
	// Pace is how long to wait before polling without a notification, if nothing was new for the time quiet.
	Pace(quiet time.Duration) time.Duration
	// Gather is how long frames are held back after one was stored. It is 0 only where each change causes a
	// notification; elsewhere changes are looked for.
	Gather() time.Duration
}

// Subscription is a subscription to notifications.
type Subscription interface {
	// Wait returns true if there was a notification since the last Wait (or since Subscribe), false after d, and ctx's
	// error if that ends first.
	Wait(ctx context.Context, d time.Duration) (notified bool, err error)
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
		select {
		case l.notified <- struct{}{}:
		default: // the last notification has not been received yet
		}
	}
}

// Subscribe subscribes to notifications.
func (b *LocalNotifier) Subscribe(what ...string) Subscription {
	l := &localSubscription{notifier: b, what: what, notified: make(chan struct{}, 1)}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range what {
		b.listeners[w] = append(b.listeners[w], l)
	}
	return l
}

// Pace is half the life of a watch row: every change in this process notifies, so that polling is hardly needed.
func (b *LocalNotifier) Pace(time.Duration) time.Duration { return watchLife / 2 }

// Gather is 0: a frame is cheap here, and is read at once.
func (b *LocalNotifier) Gather() time.Duration { return 0 }

type localSubscription struct {
	notifier *LocalNotifier
	what     []string
	notified chan struct{}
	ended    atomic.Pointer[record.RunEntity]
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
// nothing changes. A change is seen after an eighth more of the time that it took, or Every, if that is longer. A wait
// of a minute costs 48 polls.
type Polling struct {
	Host  host.Host
	Every time.Duration // the shortest interval
}

// Notify does nothing.
func (Polling) Notify(string) {}

// NotifyEnd does nothing.
func (Polling) NotifyEnd(record.RunEntity) {}

// Subscribe returns a subscription that only waits.
func (p Polling) Subscribe(...string) Subscription { return p }

// Pace is an eighth of the time without changes, at least Every, and at most eight times that.
func (p Polling) Pace(quiet time.Duration) time.Duration {
	return min(max(quiet/8, p.Every), 8*p.Every)
}

// Gather is Every: readers do not poll more often, and each stored frame costs a write.
func (p Polling) Gather() time.Duration { return p.Every }

// Wait waits for d and returns false. If ctx ends before, the error is ctx's.
func (p Polling) Wait(ctx context.Context, d time.Duration) (bool, error) {
	return false, p.Host.Sleep(ctx, d)
}

// Ended returns nil.
func (Polling) Ended() *record.RunEntity { return nil }

// Close does nothing.
func (Polling) Close() {}
