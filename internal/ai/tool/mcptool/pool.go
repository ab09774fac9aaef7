package mcptool

import (
	"context"
	"slices"
	"sync"
	"time"

	"agentplatform/internal/platform/share"
)

// maxRest is how long a line may rest between two calls.
const maxRest = 5 * time.Minute

// Limits of programs and connections that are open at the same time.
var (
	limitsOfPrograms    = share.Limits{All: 64, Reserve: 16, Organization: 16, User: 12}
	limitsOfConnections = share.Limits{All: 1024, Reserve: 256, Organization: 256, User: 192}
)

// pool divides the lines that are open at the same time. For a call that waits, it ends an idle line whose unit the
// call may have, the one idle for the longest time. Where there is none, calls take turns.
type pool struct {
	once   sync.Once
	shared *share.Pool

	mu      sync.Mutex
	resting []*line // the longest first
}

// enter waits for a free unit, or for the end of ctx.
func (p *pool) enter(ctx context.Context, limits share.Limits) (*share.Part, error) {
	p.once.Do(func() { p.shared = share.New(limits) })
	part := p.shared.Part(share.Of(ctx))
	wait := part.Ask()
	if ended := p.room(); ended != nil {
		ended.end()
	}
	if err := wait(ctx); err != nil {
		return nil, err
	}
	return part, nil
}

// room takes an idle line out of use for a call that waits. The caller ends it; nil: there is none.
func (p *pool) room() *line {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.resting {
		if l.unit.Wanted() {
			p.retire(l)
			return l
		}
	}
	return nil
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

// rest ends a call. A line ends with its last call if it broke or another call waits for its place. Until then its
// other calls go on; the library fails them if nothing can be read from the server any more.
func (p *pool) rest(l *line, broke bool) {
	p.mu.Lock()
	l.busy--
	if broke {
		p.retire(l)
	}
	if l.busy == 0 && !l.retired {
		if l.unit.Wanted() {
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
