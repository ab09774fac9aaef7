package mcptool

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Bounds of what is open in a process at the same time, and how long a line may rest between two calls.
const (
	maxPrograms    = 64
	maxConnections = 1024
	maxRest        = 5 * time.Minute
)

// pool bounds the lines that are open at the same time. When it is full, the line that rests the longest ends for a new
// one. Where none rests, calls wait in their order.
type pool struct {
	most int // how many; 0: the default of who enters

	mu      sync.Mutex
	open    int
	resting []*line // the longest first
	queue   []chan struct{}
}

// enter waits for a place, or for the end of ctx.
func (p *pool) enter(ctx context.Context, most int) error {
	if p.most > 0 {
		most = p.most
	}
	p.mu.Lock()
	if p.open < most {
		p.open++
		p.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	p.queue = append(p.queue, turn)
	var longest *line
	if len(p.resting) > 0 {
		longest = p.resting[0]
		p.retire(longest)
	}
	p.mu.Unlock()
	if longest != nil {
		longest.end()
	}
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	at := slices.Index(p.queue, turn)
	if at >= 0 {
		p.queue = slices.Delete(p.queue, at, at+1)
	}
	p.mu.Unlock()
	if at < 0 { // its turn came meanwhile
		p.leave()
	}
	return ctx.Err()
}

// leave passes a place on.
func (p *pool) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue) == 0 {
		p.open--
		return
	}
	close(p.queue[0])
	p.queue = p.queue[1:]
}

// retire takes a line out of use. The caller holds the lock, and ends the line.
func (p *pool) retire(l *line) {
	l.retired = true
	p.resting = slices.DeleteFunc(p.resting, func(one *line) bool { return one == l })
	if l.timer != nil {
		l.timer.Stop()
	}
}

// use begins a call on a line. It returns false for a line that no call may use any more.
func (p *pool) use(l *line) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.retired {
		return false
	}
	if l.busy == 0 {
		p.resting = slices.DeleteFunc(p.resting, func(one *line) bool { return one == l })
		if l.timer != nil {
			l.timer.Stop()
		}
	}
	l.busy++
	l.bounds.more(l.busy == 1)
	return true
}

// rest ends a call. A line that broke, or whose place another call waits for, ends with its last call: where nothing
// can be read from the server any more, the library fails the others.
func (p *pool) rest(l *line, broke bool) {
	p.mu.Lock()
	l.busy--
	if broke {
		p.retire(l)
	}
	if l.busy == 0 && !l.retired {
		if len(p.queue) > 0 {
			p.retire(l)
		} else {
			p.resting = append(p.resting, l)
			l.timer = time.AfterFunc(maxRest, func() { p.expire(l) })
		}
	}
	end := l.retired && l.busy == 0
	p.mu.Unlock()
	if end {
		l.end()
	}
}

// expire ends a line that has rested for too long.
func (p *pool) expire(l *line) {
	p.mu.Lock()
	over := l.busy == 0 && !l.retired
	if over {
		p.retire(l)
	}
	p.mu.Unlock()
	if over {
		l.end()
	}
}
