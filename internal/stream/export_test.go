package stream

import "context"

// Groups returns the number of runs with readers.
func (f *Hub) Groups() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.groups)
}

// Watch stores a watch row without an id to acknowledge.
func (f *Hub) Watch(ctx context.Context, run string) error { return f.watch(ctx, run, "") }
