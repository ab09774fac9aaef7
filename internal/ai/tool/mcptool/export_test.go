package mcptool

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
