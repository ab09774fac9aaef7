package mcptool

import "agentplatform/internal/ai/tool"

// Held is how many questions wait in a session until it is known which call they belong to.
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
	k.programs.most, k.connections.most = programs, connections
}

// Open is how many programs and connections of a kind are open.
func Open(k *Kind) (programs, connections int) {
	k.programs.mu.Lock()
	defer k.programs.mu.Unlock()
	k.connections.mu.Lock()
	defer k.connections.mu.Unlock()
	return k.programs.open, k.connections.open
}
