package feed

import (
	"context"
	"slices"
	"sync"
	"time"

	"agentplatform/internal/host"
)

// Bell wakes whoever waits for a run, or for its frames. A ring says only that something may have changed.
type Bell interface {
	Ring(what string)
	// Listen begins to hear the rings for any of these; close the listener.
	Listen(what ...string) Listener
	// Pace is after how long to look for something new although nothing rang, when nothing was new for the time quiet.
	Pace(quiet time.Duration) time.Duration
	// Gather is for how long frames are held back after one was stored: no longer than readers would notice.
	Gather() time.Duration
}

// Listener hears the rings of one run.
type Listener interface {
	// Wait returns true when the bell has rung since the last Wait (or since Listen), false after d; ctx's error when that
	// ends.
	Wait(ctx context.Context, d time.Duration) (rung bool, err error)
	Close()
}

// LocalBell is a bell within one process.
type LocalBell struct {
	mu        sync.Mutex
	listeners map[string][]*localListener
}

// NewLocalBell makes a bell.
func NewLocalBell() *LocalBell { return &LocalBell{listeners: map[string][]*localListener{}} }

// Ring wakes the listeners.
func (b *LocalBell) Ring(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.listeners[what] {
		select {
		case l.rung <- struct{}{}:
		default: // it has not heard the last ring yet
		}
	}
}

// Listen begins to hear rings.
func (b *LocalBell) Listen(what ...string) Listener {
	l := &localListener{bell: b, what: what, rung: make(chan struct{}, 1)}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range what {
		b.listeners[w] = append(b.listeners[w], l)
	}
	return l
}

// Pace is slow: what happens in this process rings.
func (b *LocalBell) Pace(time.Duration) time.Duration { return watchLife / 2 }

// Gather is nothing: a frame costs little here, and is read at once.
func (b *LocalBell) Gather() time.Duration { return 0 }

type localListener struct {
	bell *LocalBell
	what []string
	rung chan struct{}
}

func (l *localListener) Wait(ctx context.Context, d time.Duration) (bool, error) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-l.rung:
		return true, nil
	case <-t.C:
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

func (l *localListener) Close() {
	b := l.bell
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range l.what {
		left := slices.DeleteFunc(b.listeners[w], func(other *localListener) bool { return other == l })
		if len(left) == 0 {
			delete(b.listeners, w)
		} else {
			b.listeners[w] = left
		}
	}
}

// Polling is the bell of a world without one: nothing is heard, and who wants to know looks, often at first and seldom
// when nothing happens.
type Polling struct {
	Host  host.Host
	Every time.Duration // the fastest pace
}

// Ring does nothing.
func (Polling) Ring(string) {}

// Listen makes a listener that only waits.
func (p Polling) Listen(...string) Listener { return p }

// Pace is Every for half a minute, twice that for some minutes, and eight times in the end: as for a run that waits for a
// human.
func (p Polling) Pace(quiet time.Duration) time.Duration {
	switch {
	case quiet < 30*time.Second:
		return p.Every
	case quiet < 3*time.Minute:
		return 2 * p.Every
	default:
		return 8 * p.Every
	}
}

// Gather is Every: nobody looks more often, and each frame stored is a write.
func (p Polling) Gather() time.Duration { return p.Every }

// Wait waits for d.
func (p Polling) Wait(ctx context.Context, d time.Duration) (bool, error) {
	return false, p.Host.Sleep(ctx, d)
}

// Close does nothing.
func (Polling) Close() {}
