// Package diskindex is the index port over files in one folder, for local use.
//
// Each collection has one file, to which changes are appended. A file is rewritten when more than half of it is dead. A
// file with a mark has words of removed chunks; [Index.Tidy] overwrites them. A change is appended, synced and visible
// to queries before its call returns. Changes of a collection take turns. A half written record at the end of a file,
// as a kill leaves it, is cut off when the file is read again.
//
// A collection is read once, by the first query or change. Memory then has its words (as lists of chunks), and one bit
// for each dimension of its vectors. When there are too many collections, those used longest ago are unloaded. All of a
// collection's words and vectors are in the one file, so they cannot disagree.
//
// It must not know what a collection is for. It imports its port.
package diskindex

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"sync"

	"agentplatform/internal/platform/share"
	"agentplatform/internal/text/index"
)

// ErrClosed is returned after Close.
var ErrClosed = errors.New("diskindex: the index is closed")

// Bounds of the collections in memory that no call uses.
const (
	maxChunks = 1_000_000 // in memory; one takes about 400 bytes (of 512 dimensions and 120 words)
	maxOpen   = 256       // collections; each is an open file
)

// Index is an open index. It must be closed.
type Index struct {
	dir       string
	identity  string
	maxChunks int

	mu          sync.Mutex
	collections map[string]*collection
	uses        uint64

	turns *share.Pool // of parallel queries

	tidying sync.Mutex
	seen    map[string]int // how many calls of Tidy have seen each mark

	calls  sync.RWMutex // held for reading by each call, so that Close can wait for the last
	closed bool
}

var _ index.Index = (*Index)(nil)

// Open opens the index in a folder, and makes an empty one if there is none. The folder must be open only once. The
// caller holds the lock of the data folder that it is part of. The error is one of the file system.
func Open(dir string) (*Index, error) {
	identity, err := identify(dir)
	if err != nil {
		return nil, err
	}
	return &Index{
		dir: dir, identity: identity, maxChunks: maxChunks, collections: map[string]*collection{},
		turns: share.New(limitsOfQueries(runtime.GOMAXPROCS(0))), seen: waited(dir),
	}, nil
}

// Identity names the contents of the folder. It changes when the folder was lost and made again. A caller that stored
// the former one then puts everything again.
func (x *Index) Identity() string { return x.identity }

// Close waits for the calls that have begun, and closes the files. Calls that begin later return [ErrClosed].
func (x *Index) Close() {
	x.calls.Lock()
	defer x.calls.Unlock()
	x.closed = true
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, c := range x.collections {
		x.forget(c)
	}
}

// Put implements [index.Index].
func (x *Index) Put(ctx context.Context, v index.Version, dimensions int, chunks []index.Chunk) error {
	if err := cmp.Or(ctx.Err(), index.CheckPut(v, dimensions, chunks)); err != nil {
		return err
	}
	r := newRotation(dimensions)
	entries := make([]*entry, len(chunks))
	for i, c := range chunks {
		entries[i] = &entry{quantised: r.quantise(c.Vector), document: v.Document, number: v.Number, index: c.Index,
			length: c.Length}
	}
	return x.change(ctx, v.Collection, func(c *collection) error { return c.put(dimensions, entries, chunks) })
}

// Remove implements [index.Index].
func (x *Index) Remove(ctx context.Context, v index.Version) error {
	if err := cmp.Or(ctx.Err(), v.Check()); err != nil {
		return err
	}
	return x.change(ctx, v.Collection, func(c *collection) error { return c.remove(v) })
}

// Drop implements [index.Index].
func (x *Index) Drop(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return x.change(ctx, name, (*collection).drop)
}

// change makes a change of a collection, after earlier waiting ones. The error may be that of the context.
func (x *Index) change(ctx context.Context, name string, do func(*collection) error) error {
	x.calls.RLock()
	defer x.calls.RUnlock()
	if x.closed {
		return ErrClosed
	}
	c := x.acquire(name)
	defer x.release(c)
	c.changing.Lock()
	defer c.changing.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	err := do(c)
	_ = c.compact(ctx) // what is dead stays until the next change, should this fail
	return err
}
