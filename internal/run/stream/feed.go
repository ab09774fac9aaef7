package stream

import (
	"context"
	"slices"
	"sync"
	"time"

	"agentplatform/internal/platform/host"
	"agentplatform/internal/store/record"
)

// feed is a value that is read once for all its followers. Each read has its own goroutine, because it needs a large
// stack. The stack is freed after the read.
type feed[T any] struct {
	frames *frameTable
	fetch  func(ctx context.Context, known T) (fresh T, news bool, err error)
	rest   time.Duration // the shortest time between two reads
	ctx    context.Context
	cancel context.CancelFunc
	deafen func() // ends the notifications

	mu        sync.Mutex
	wanted    bool          // a follower waits for a read that has not begun
	reading   bool          // the goroutine reads or rests
	wait      func()        // waits for the last goroutine
	begun     int           // reads so far
	ended     int           // number of the last read with a result
	readAt    time.Duration // when the last read ended, or a poll read something
	changed   time.Duration // when something new was found last
	value     T             // of the last read without an error
	err       error         // of the last read
	followers []*follower[T]
}

// begin subscribes to notifications of the names. Each starts a read of the feed. The caller must call end.
func (f *feed[T]) begin(ctx context.Context, names ...string) {
	f.ctx, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
	f.readAt = f.frames.host.Elapsed()
	f.changed = f.readAt
	f.deafen = f.frames.notifier.OnNotify(func(*record.RunEntity) { f.ring() }, names...)
}

// end ends the reads.
func (f *feed[T]) end() {
	f.deafen()
	f.mu.Lock()
	f.cancel()
	wait := f.wait
	f.mu.Unlock()
	if wait != nil {
		wait()
	}
}

// ring starts a read, or another one after a read under way, which may have missed the change.
func (f *feed[T]) ring() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.want()
}

// want is ring, with the lock held.
func (f *feed[T]) want() {
	if f.wanted = true; !f.reading && f.ctx.Err() == nil {
		f.reading, f.wait = true, f.frames.host.Go(f.readAll)
	}
}

// readAll reads while a follower waits for a read.
func (f *feed[T]) readAll() {
	for f.next() {
		f.read()
		if f.rest > 0 {
			_ = f.frames.host.Sleep(f.ctx, f.rest) // next sees that ctx has ended
		}
	}
}

func (f *feed[T]) next() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reading, f.wanted = f.wanted && f.ctx.Err() == nil, false
	if f.reading {
		f.begun++
	}
	return f.reading
}

// read reads once. After a panic one of the followers panics, and the feed is read again for the others.
func (f *feed[T]) read() {
	f.mu.Lock()
	known := f.value
	f.mu.Unlock()
	var fresh T
	var news bool
	var err error
	died := host.Catch(func() { fresh, news, err = f.fetch(f.ctx, known) })
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ctx.Err() != nil {
		return // the error has no meaning
	}
	f.found(news)
	at := slices.IndexFunc(f.followers, func(x *follower[T]) bool { return x.died == nil && x.since < f.begun })
	switch {
	case died != nil && at >= 0:
		f.followers[at].died, f.wanted = died, true
		f.followers[at].Ring()
		return
	case died == nil && err == nil:
		f.value, f.err = fresh, nil
	case died == nil:
		f.err = err
	}
	f.ended = f.begun
	f.publish()
}

// found records that the feed was read, and whether there was news. The caller holds the lock.
func (f *feed[T]) found(news bool) {
	f.readAt = f.frames.host.Elapsed()
	if news {
		f.changed = f.readAt
	}
}

// publish wakes the followers. The caller holds the lock.
func (f *feed[T]) publish() {
	for _, x := range f.followers {
		x.Ring()
	}
}

// isDue reports whether to read the feed without a notification, now rather than at the next tick.
func (f *feed[T]) isDue(now, tick time.Duration) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.begun == f.ended && now+tick/2 > f.readAt+f.frames.pace(f.readAt-f.changed)
}

// known is the last value.
func (f *feed[T]) known() T {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.value
}

// follower waits for the values of a feed.
type follower[T any] struct {
	Subscription // which the feed rings

	feed  *feed[T]
	since int         // reads that began before it followed
	died  *host.Panic // the panic of a read, to repeat in this follower; guarded by the feed's mutex
}

// follow adds a follower and starts a read. The caller must call leave.
func (f *feed[T]) follow() *follower[T] {
	x := &follower[T]{Subscription: Subscription{host: f.frames.host}, feed: f}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.followers, x.since = append(f.followers, x), f.begun
	f.want()
	return x
}

func (x *follower[T]) leave() {
	f := x.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	f.followers = slices.DeleteFunc(f.followers, func(other *follower[T]) bool { return other == x })
}

// latest returns the last value and error. fresh reports whether they are of a read that began after [feed.follow].
// latest panics if a read did.
func (x *follower[T]) latest() (value T, fresh bool, err error) {
	f := x.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	x.died.Again()
	return f.value, f.ended > x.since, f.err
}
