package stream

import "context"

// Topics returns the number of runs with readers.
func (h *Hub) Topics() int {
	h.broadcaster.mu.Lock()
	defer h.broadcaster.mu.Unlock()
	return len(h.broadcaster.sources)
}

// Watch stores a watch row without an id to acknowledge.
func (h *Hub) Watch(ctx context.Context, run string) error { return h.frames.watch(ctx, run, "") }

// Notifier returns the notifier of the hub.
func (h *Hub) Notifier() Notifier { return h.frames.notifier }
