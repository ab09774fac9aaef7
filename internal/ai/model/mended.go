package model

import (
	"encoding/json"
	"slices"
	"sync"

	"agentplatform/internal/platform/schema"
)

// maxMended limits the bytes that one [mended] remembers.
const maxMended = 4 << 20

// mended caches mended schemas, by their texts: each call of a model sends all tools of its agent again.
type mended struct {
	mu    sync.Mutex
	known map[string]json.RawMessage
	size  int // bytes of known
}

var portable, plainNames mended

// of returns the schema that mend makes of another. When there are too many schemas, all are forgotten.
func (m *mended) of(raw json.RawMessage, mend func(json.RawMessage) json.RawMessage) json.RawMessage {
	if len(raw) > schema.MaxSize {
		return mend(raw)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if known, there := m.known[string(raw)]; there {
		return known
	}
	made := slices.Clone(mend(raw))
	m.size += len(raw) + len(made)
	if m.known == nil || m.size > maxMended {
		m.known, m.size = map[string]json.RawMessage{}, len(raw)+len(made)
	}
	m.known[string(raw)] = made
	return made
}
