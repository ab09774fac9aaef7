// Package memindex is the index port in memory, for the simulator and for tests: exact, and as simple as possible. It
// reads every chunk of the requested collections.
//
// It imports its port.
package memindex

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"agentplatform/internal/text/index"
)

// Index keeps chunks in maps. The zero value is ready.
type Index struct {
	mu          sync.Mutex
	collections map[string]*collection
}

type collection struct {
	dimensions int
	chunks     map[key]index.Chunk
}

type key struct {
	document string
	number   int
	chunk    int
}

var _ index.Index = (*Index)(nil)

// Put implements [index.Index].
func (x *Index) Put(ctx context.Context, v index.Version, dimensions int, chunks []index.Chunk) error {
	if err := cmp.Or(ctx.Err(), index.CheckPut(v, dimensions, chunks)); err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.collections == nil {
		x.collections = map[string]*collection{}
	}
	c := x.collections[v.Collection]
	if c == nil {
		c = &collection{dimensions: dimensions, chunks: map[key]index.Chunk{}}
		x.collections[v.Collection] = c
	}
	if c.dimensions != dimensions {
		return index.OtherDimensions(c.dimensions, dimensions)
	}
	for _, chunk := range chunks {
		chunk.Terms, chunk.Vector = slices.Clone(chunk.Terms), slices.Clone(chunk.Vector)
		c.chunks[key{v.Document, v.Number, chunk.Index}] = chunk
	}
	return nil
}

// Remove implements [index.Index].
func (x *Index) Remove(ctx context.Context, v index.Version) error {
	if err := cmp.Or(ctx.Err(), v.Check()); err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if c := x.collections[v.Collection]; c != nil {
		maps.DeleteFunc(c.chunks, func(k key, _ index.Chunk) bool {
			return k.document == v.Document && k.number == v.Number
		})
	}
	return nil
}

// Drop implements [index.Index].
func (x *Index) Drop(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.collections, name)
	return nil
}

// Query implements [index.Index].
func (x *Index) Query(ctx context.Context, q index.Query) (index.Result, error) {
	if err := cmp.Or(ctx.Err(), q.Check()); err != nil {
		return index.Result{}, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	byWords, byVector, statistics := x.scan(q)
	return index.Result{
		Candidates: index.Both(byWords, byVector, q.Limit, statistics), Statistics: statistics,
		More: len(byWords) > q.Limit || len(byVector) > q.Limit,
	}, nil
}

// scan returns the chunks that have a word of the query, those that have a vector like the query's, and the statistics
// of all chunks.
func (x *Index) scan(q index.Query) (byWords, byVector []index.Candidate, s index.Statistics) {
	s.Frequencies = make([]int, len(q.Terms))
	length := 0
	for _, name := range slices.Compact(slices.Sorted(slices.Values(q.Collections))) {
		c := x.collections[name]
		if c == nil {
			continue
		}
		for k, chunk := range c.chunks {
			s.Chunks++
			length += chunk.Length
			found := candidate(index.Version{Collection: name, Document: k.document, Number: k.number}, chunk, q)
			for i, w := range found.Weights {
				s.Frequencies[i] += min(w, 1)
			}
			if len(q.Documents) > 0 && !slices.Contains(q.Documents, k.document) {
				continue
			}
			if len(q.Terms) > 0 && slices.Max(found.Weights) > 0 {
				byWords = append(byWords, found)
			}
			if len(q.Vector) == c.dimensions {
				byVector = append(byVector, found)
			}
		}
	}
	if s.Chunks > 0 {
		s.Length = float64(length) / float64(s.Chunks)
	}
	return byWords, byVector, s
}

func candidate(v index.Version, chunk index.Chunk, q index.Query) index.Candidate {
	c := index.Candidate{Version: v, Index: chunk.Index, Length: chunk.Length, Weights: make([]int, len(q.Terms))}
	for _, t := range chunk.Terms {
		for i, variants := range q.Terms {
			if slices.Contains(variants, t.Text) {
				c.Weights[i] = max(c.Weights[i], t.Weight)
			}
		}
	}
	if len(q.Vector) == len(chunk.Vector) {
		for i, v := range chunk.Vector {
			c.Cosine += float64(v) * float64(q.Vector[i])
		}
	}
	return c
}

// Versions returns the versions that have chunks, in order.
func (x *Index) Versions() []index.Version {
	x.mu.Lock()
	defer x.mu.Unlock()
	there := map[index.Version]bool{}
	for name, c := range x.collections {
		for k := range c.chunks {
			there[index.Version{Collection: name, Document: k.document, Number: k.number}] = true
		}
	}
	return slices.SortedFunc(maps.Keys(there), func(a, b index.Version) int {
		return cmp.Or(cmp.Compare(a.Collection, b.Collection), cmp.Compare(a.Document, b.Document),
			cmp.Compare(a.Number, b.Number))
	})
}
