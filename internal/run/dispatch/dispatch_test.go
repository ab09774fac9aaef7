package dispatch_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"agentplatform/events"
	"agentplatform/internal/platform/share"
	"agentplatform/internal/run/dispatch"
	"agentplatform/internal/store/queue"
	"agentplatform/internal/store/queue/localqueue"
)

// troubled is a queue whose every call may fail or panic.
type troubled struct {
	mu       sync.Mutex
	receive  func(n int) error
	received int
	answered []string
	answer   func()
}

func (q *troubled) Receive(ctx context.Context) (queue.Delivery, error) {
	q.mu.Lock()
	q.received++
	n := q.received
	q.mu.Unlock()
	if n > 20 {
		<-ctx.Done()
		return queue.Delivery{}, ctx.Err()
	}
	return queue.Delivery{Receives: 1}, q.receive(n)
}

func (q *troubled) note(what string) error {
	q.mu.Lock()
	q.answered = append(q.answered, what)
	q.mu.Unlock()
	if q.answer != nil {
		q.answer()
	}
	return nil
}

func (q *troubled) Ack(context.Context, queue.Delivery) error { return q.note("ack") }

func (q *troubled) Retry(context.Context, queue.Delivery, time.Duration) error {
	return q.note("retry")
}

func TestPanicsDoNotEndTheDispatcher(t *testing.T) {
	fine := func(int) error { return nil }
	everyOther := func(n int) error {
		if n%2 == 0 {
			panic("oops")
		}
		return nil
	}
	oops := func(context.Context, string) (time.Duration, error) { panic("oops") }
	quiet := func(context.Context, string) (time.Duration, error) { return 0, nil }
	for name, c := range map[string]struct {
		queue  *troubled
		handle dispatch.Handler
	}{
		"a handler":           {&troubled{receive: fine}, oops},
		"the queue's answer":  {&troubled{receive: fine, answer: func() { panic("oops") }}, quiet},
		"the queue's receive": {&troubled{receive: everyOther}, quiet},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var b bytes.Buffer
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					dispatch.Run(ctx, c.queue, 2, slog.New(slog.NewTextHandler(&b, nil)), c.handle)
				}()
				time.Sleep(time.Hour)
				cancel()
				<-ended
				assert.GreaterOrEqual(t, len(c.queue.answered), 10)
				assert.Contains(t, b.String(), "oops")
				assert.Contains(t, b.String(), "dispatch_test.go")
			})
		})
	}
}

func TestUnreadableQueueIsRetriedWithAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &troubled{receive: func(int) error { return errors.New("down") }}
		ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second) // between two retries
		defer cancel()
		dispatch.Run(ctx, q, 2, slog.New(slog.DiscardHandler), nil)
		assert.LessOrEqual(t, q.received, 6) // every two seconds, and perhaps once at the end
	})
}

// pooled runs the pool of a queue of two workers until the test stops it. Its handler waits until it is released. send
// sends a wakeup for a user of one organization.
func pooled(t *testing.T) (p *dispatch.Pool, send func(user string), release chan struct{}, stop func()) {
	t.Helper()
	q, release := localqueue.Shared(share.Limits{All: 2}), make(chan struct{})
	p = dispatch.NewPool(q, 2, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	ended.Go(func() {
		p.Run(ctx, func(context.Context, string) (time.Duration, error) {
			<-release
			return 0, nil
		})
	})
	synctest.Wait()
	send = func(user string) {
		assert.NoError(t, q.Send(ctx, queue.Message{Wakeup: events.Wakeup{ID: user}, Group: "o", User: user}))
		synctest.Wait()
	}
	return p, send, release, func() {
		cancel()
		ended.Wait()
	}
}

func TestWakeupsAndReservedWorkShareTheWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, send, release, stop := pooled(t)
		begin := p.Reserve("o", "u")
		assert.NotNil(t, begin)
		send("u")
		assert.Nil(t, p.Reserve("o", "u"), "the other one handles a nudge")
		release <- struct{}{}
		synctest.Wait()
		begin(nil)
		again, other := p.Reserve("o", "u"), p.Reserve("o", "u")
		assert.NotNil(t, again, "it was given back")
		assert.NotNil(t, other, "the nudge was answered")
		done := false
		again(func(context.Context) { done = true })
		synctest.Wait()
		assert.True(t, done)
		last := p.Reserve("o", "u")
		assert.NotNil(t, last, "it is free when its work is done")
		last(nil)
		other(nil)
		stop()
	})
}

// A worker that becomes free goes to a wakeup that waits for one.
func TestNoWorkerIsReservedWhileANudgeWaitsForOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, send, release, stop := pooled(t)
		begin := p.Reserve("o", "u")
		assert.NotNil(t, begin)
		send("a")
		send("b") // both are busy; it waits
		begin(nil)
		assert.Nil(t, p.Reserve("o", "u"))
		release <- struct{}{}
		release <- struct{}{}
		stop()
	})
}

func TestAPoolEndsWhenWhatWasReservedHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _, _, stop := pooled(t)
		begin := p.Reserve("o", "u")
		ended := false
		go func() {
			stop()
			ended = true
		}()
		synctest.Wait()
		assert.False(t, ended, "a worker is still reserved")
		assert.Nil(t, p.Reserve("o", "u"), "none is reserved any more")
		leave := make(chan struct{})
		var late error
		begin(func(ctx context.Context) {
			<-leave
			late = ctx.Err()
		})
		synctest.Wait()
		assert.False(t, ended, "its work goes on")
		close(leave)
		synctest.Wait()
		assert.True(t, ended)
		assert.ErrorIs(t, late, context.Canceled, "it is told to end")
	})
}

func TestAPanicOfReservedWorkFreesItsWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _, _, stop := pooled(t)
		for range 3 {
			begin := p.Reserve("o", "u")
			if assert.NotNil(t, begin) {
				begin(func(context.Context) { panic("oops") })
			}
			synctest.Wait()
		}
		stop()
	})
}

func TestNothingIsReservedBeforeAPoolRuns(t *testing.T) {
	q := localqueue.Shared(share.Limits{All: 2})
	assert.Nil(t, dispatch.NewPool(q, 2, slog.New(slog.DiscardHandler)).Reserve("o", "u"))
}
