package indextest

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"agentplatform/internal/text/index"
)

// runConcurrent runs writers and readers concurrently. Each writer has its own documents, so it knows what must be
// found.
func runConcurrent(t *testing.T, h Harness) {
	t.Run("each caller finds what it put, and not what it removed", func(t *testing.T) {
		x := h.Open(t)
		var group sync.WaitGroup
		for writer := range 4 {
			group.Go(func() { write(t, x, writer) })
		}
		for range 2 {
			group.Go(func() {
				for range 30 {
					q := words("w0", "all")
					q.Vector = axis(0)
					whole(t, x, q)
				}
			})
		}
		group.Wait()
		h.settle(t, x)
		q := words("all")
		assert.Len(t, query(t, x, q).Candidates, 4*5)
		assert.Equal(t, 4*5, query(t, x, q).Statistics.Chunks)
	})
	t.Run("a collection is dropped while others put", func(t *testing.T) { runSame(t, h) })
	t.Run("collections come and go", func(t *testing.T) {
		x := h.Open(t)
		put(t, x, version("a", "stays", 1), chunk(0, axis(0), "all"))
		var group sync.WaitGroup
		for writer := range 4 {
			group.Go(func() {
				own := fmt.Sprint("own", writer)
				q := index.Query{Collections: []string{"a", own}, Terms: single("all"), Vector: axis(0), Limit: 10}
				for range 10 {
					c := []index.Chunk{chunk(0, axis(0), "all")}
					assert.NoError(t, x.Put(t.Context(), version(own, "d", 1), dimensions, c))
					whole(t, x, q, "a/stays.1#0", own+"/d.1#0")
					assert.NoError(t, x.Drop(t.Context(), own))
					whole(t, x, q, "a/stays.1#0")
				}
			})
		}
		group.Wait()
	})
}

// runSame makes callers put into a collection that others drop.
func runSame(t *testing.T, h Harness) {
	x := h.Open(t)
	var group sync.WaitGroup
	for writer := range 4 {
		group.Go(func() {
			v := version("a", fmt.Sprint(writer), 1)
			for i := range 15 {
				if writer%2 == 0 && i%3 == 2 {
					assert.NoError(t, x.Drop(t.Context(), "a"))
				}
				c := []index.Chunk{chunk(0, axis(0), "all"), chunk(1, axis(0), "all")}
				assert.NoError(t, x.Put(t.Context(), v, dimensions, c))
			}
		})
	}
	group.Wait()
	assert.NoError(t, x.Drop(t.Context(), "a"))
	put(t, x, version("a", "last", 1), chunk(0, axis(0), "all"))
	assertFound(t, x, words("all"), "a/last.1#0")
}

// write puts ten documents and removes every other one.
func write(t *testing.T, x index.Index, writer int) {
	word := fmt.Sprint("w", writer)
	for i := range 10 {
		v := version("a", fmt.Sprintf("%d-%d", writer, i), 1)
		chunks := []index.Chunk{chunk(0, axis(i), "all", word, fmt.Sprint(word, "-", i))}
		if !assert.NoError(t, x.Put(t.Context(), v, dimensions, chunks)) {
			return
		}
		own := words(fmt.Sprint(word, "-", i))
		whole(t, x, own, name(v, 0))
		if i%2 == 1 {
			assert.NoError(t, x.Remove(t.Context(), v))
			whole(t, x, own)
		}
	}
}

// whole runs a query, and checks that no candidate is half of a chunk. want is exactly the candidates to find. It is
// not checked if it is empty and the query has a vector or several words.
func whole(t *testing.T, x index.Index, q index.Query, want ...string) {
	r, err := x.Query(t.Context(), q)
	if !assert.NoError(t, err) {
		return
	}
	for _, c := range r.Candidates {
		assert.NotZero(t, c.Length)
		assert.Len(t, c.Weights, len(q.Terms))
	}
	if len(want) > 0 || len(q.Vector) == 0 && len(q.Terms) == 1 {
		assert.ElementsMatch(t, want, names(r))
	}
}
