package stream

import "context"

// Groups returns the number of runs with readers.
func (h *Hub) Groups() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.groups)
}

// Watch stores a watch row without an id to acknowledge.
func (h *Hub) Watch(ctx context.Context, run string) error { return h.watch(ctx, run, "") }
