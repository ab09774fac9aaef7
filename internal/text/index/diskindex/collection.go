package diskindex

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// collection is a collection in use or used lately. Its state is changed under both locks, except when it is loaded.
type collection struct {
	name string
	path string

	changing sync.Mutex // held by the change under way
	marked   bool       // by this process; guarded by changing

	mu     sync.RWMutex
	loaded bool
	state  *state // nil: there are no chunks

	// guarded by the index's lock
	users  int
	used   uint64 // when it was used last, counted in uses
	chunks int    // that it has in memory, also dead ones
}

// acquire returns a collection, perhaps not loaded. It must be released.
func (x *Index) acquire(name string) *collection {
	x.mu.Lock()
	defer x.mu.Unlock()
	c := x.collections[name]
	if c == nil {
		sum := sha256.Sum256([]byte(name))
		c = &collection{name: name, path: filepath.Join(x.dir, hex.EncodeToString(sum[:16])+suffix)}
		x.collections[name] = c
	}
	c.users++
	x.uses++
	c.used = x.uses
	return c
}

func (c *collection) load() error {
	c.mu.RLock()
	loaded := c.loaded
	c.mu.RUnlock()
	if loaded {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.loaded {
		return nil
	}
	s, err := load(c.path, c.name)
	c.state, c.loaded = s, err == nil
	return err
}

// release gives a collection back, and forgets those that were used longest ago while there are too many.
func (x *Index) release(c *collection) {
	c.mu.RLock()
	chunks, empty := 0, c.state == nil
	if !empty {
		chunks = len(c.state.at)
	}
	c.mu.RUnlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	c.users--
	c.chunks = chunks
	if empty && c.users == 0 {
		x.forget(c)
	}
	x.evict()
}

func (x *Index) evict() {
	chunks := 0
	for _, c := range x.collections {
		chunks += c.chunks
	}
	if chunks <= x.maxChunks && len(x.collections) <= maxOpen {
		return
	}
	idle := make([]*collection, 0, len(x.collections))
	for _, c := range x.collections {
		if c.users == 0 {
			idle = append(idle, c)
		}
	}
	slices.SortFunc(idle, func(a, b *collection) int { return cmp.Compare(a.used, b.used) })
	for _, c := range idle {
		if chunks <= x.maxChunks && len(x.collections) <= maxOpen {
			return
		}
		chunks -= c.chunks
		x.forget(c)
	}
}

// forget closes a collection that nobody uses. All writes are durable, so closing loses nothing.
func (x *Index) forget(c *collection) {
	c.unload()
	delete(x.collections, c.name)
}

// unload drops the state; the next user of the collection loads it.
func (c *collection) unload() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != nil {
		_ = c.state.file.Close()
	}
	c.state, c.loaded = nil, false
}

// drop removes the collection's file, also one that cannot be read.
func (c *collection) drop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := os.Remove(c.path)
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	if err = errors.Join(err, syncFolder(filepath.Dir(c.path))); err != nil {
		return fmt.Errorf("diskindex: %w", err)
	}
	if c.state != nil {
		_ = c.state.file.Close()
	}
	c.state, c.loaded = nil, true
	return nil
}
