package mcptool

import (
	"agentplatform/internal/ai/tool"
	"agentplatform/internal/platform/share"
)

// Held is the number of questions in a session that wait until their call is known.
func Held(s tool.Session) int {
	own := s.(*session)
	own.mu.Lock()
	defer own.mu.Unlock()
	if own.line == nil {
		return 0
	}
	own.line.asks.mu.Lock()
	defer own.line.asks.mu.Unlock()
	return own.line.asks.held
}

// Bound bounds the programs and the connections of a kind.
func Bound(k *Kind, programs, connections int) {
	Divide(k, share.Limits{All: int64(programs)}, share.Limits{All: int64(connections)})
}

// Divide sets the limits of a kind.
func Divide(k *Kind, programs, connections share.Limits) {
	k.programs.once.Do(func() { k.programs.shared = share.New(programs) })
	k.connections.once.Do(func() { k.connections.shared = share.New(connections) })
}

// Open is how many programs and connections of a kind are open.
func Open(k *Kind) (programs, connections int) {
	return k.programs.held(), k.connections.held()
}

func (p *pool) held() int {
	if p.shared == nil {
		return 0
	}
	return int(p.shared.Held())
}

// Waiting is how many calls wait for a program.
func Waiting(k *Kind) int { return k.programs.shared.Waiting() }
