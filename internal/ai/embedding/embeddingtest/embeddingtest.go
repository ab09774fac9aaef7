// Package embeddingtest is the conformance suite of the embedding port. Every adapter runs Run. Adapters of endpoints
// also run RunEndpoint, against a server of the suite. The server speaks their protocol and misbehaves as each test
// asks.
//
// It imports the port, recording and testify.
package embeddingtest

import (
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/embedding"
)

// Harness is a model under test.
type Harness struct {
	Model      embedding.Model
	Name       string // of a model that it has
	Dimensions int    // that this model may be asked for, besides 0
}

func (h Harness) request(texts ...string) embedding.Request {
	return embedding.Request{Name: h.Name, Dimensions: h.Dimensions, Purpose: embedding.ForDocument, Texts: texts}
}

// Texts are so many texts, all different.
func Texts(count int) []string {
	texts := make([]string, count)
	for i := range texts {
		texts[i] = fmt.Sprintf("Text %d is about matter %d.", i, i*i)
	}
	return texts
}

// Run checks what every model guarantees.
func Run(t *testing.T, h Harness) {
	t.Run("texts have vectors of the asked dimensions and of unit length", func(t *testing.T) {
		for _, dimensions := range []int{0, h.Dimensions} {
			r := h.request(Texts(3)...)
			r.Dimensions = dimensions
			reply, err := h.Model.Embed(t.Context(), r)
			require.NoError(t, err)
			Sound(t, r, reply)
		}
	})
	t.Run("many texts have their vectors in order", func(t *testing.T) {
		r := h.request(Texts(250)...)
		reply, err := h.Model.Embed(t.Context(), r)
		require.NoError(t, err)
		Sound(t, r, reply)
		for _, i := range []int{0, 1, 95, 96, 97, 249} {
			alone, err := h.Model.Embed(t.Context(), h.request(r.Texts[i]))
			require.NoError(t, err)
			assert.InDelta(t, 1, Cosine(alone.Vectors[0], reply.Vectors[i]), 1e-5, "text %d", i)
		}
		assert.Less(t, Cosine(reply.Vectors[0], reply.Vectors[249]), 0.99, "other texts have other vectors")
	})
	t.Run("a long text is cut and not refused", func(t *testing.T) {
		r := h.request(strings.Repeat("Länge ", 100_000), "short")
		reply, err := h.Model.Embed(t.Context(), r)
		require.NoError(t, err)
		Sound(t, r, reply)
	})
	t.Run("no texts have no vectors", func(t *testing.T) {
		reply, err := h.Model.Embed(t.Context(), h.request())
		require.NoError(t, err)
		assert.Empty(t, reply.Vectors)
		assert.Zero(t, reply.Tokens)
	})
	t.Run("queries and documents are both embedded", func(t *testing.T) {
		r := h.request("What is it?")
		r.Purpose = embedding.ForQuery
		reply, err := h.Model.Embed(t.Context(), r)
		require.NoError(t, err)
		Sound(t, r, reply)
	})
	t.Run("dimensions that no model has are refused", func(t *testing.T) {
		for _, dimensions := range []int{-1, embedding.MaxDimensions + 1} {
			r := h.request("x")
			r.Dimensions = dimensions
			_, err := h.Model.Embed(t.Context(), r)
			assert.Equal(t, embedding.BadRequest, embedding.KindOf(err), "%v", err)
		}
	})
	t.Run("a context that has ended ends the call", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := h.Model.Embed(ctx, h.request(Texts(10)...))
		require.ErrorIs(t, err, context.Canceled)
	})
	t.Run("it is safe for concurrent use", func(t *testing.T) {
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				r := h.request(Texts(20)[i:]...)
				reply, err := h.Model.Embed(t.Context(), r)
				if assert.NoError(t, err) {
					Sound(t, r, reply)
				}
			})
		}
		all.Wait()
	})
}

// Sound checks what holds for every reply.
func Sound(t testing.TB, r embedding.Request, reply embedding.Reply) {
	t.Helper()
	assert.Len(t, reply.Vectors, len(r.Texts))
	for _, v := range reply.Vectors {
		if r.Dimensions > 0 {
			assert.Len(t, v, r.Dimensions)
		}
		assert.Len(t, v, len(reply.Vectors[0]), "vectors of one reply can be compared")
		assert.InDelta(t, 1, Cosine(v, v), 1e-5, "a vector is of unit length, so its numbers are finite")
	}
	most := 0
	for _, text := range r.Texts {
		most += len(text) + 16
	}
	assert.GreaterOrEqual(t, reply.Tokens, int64(0))
	assert.LessOrEqual(t, reply.Tokens, int64(most), "a token stands for a byte at least")
}

// Cosine returns the cosine of the angle between vectors of unit length.
func Cosine(a, b []float32) (sum float64) {
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

// VectorOf is the vector that the suite's server has for a text. Its length is not 1, as with many models.
func VectorOf(text string, dimensions int) []float32 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	random := rand.New(rand.NewPCG(h.Sum64(), 1))
	v := make([]float32, dimensions)
	for i := range v {
		v[i] = float32(3 * random.NormFloat64())
	}
	return v
}

// Wants checks that a vector is the server's for a text, of unit length.
func Wants(t testing.TB, text string, got []float32) {
	t.Helper()
	want := VectorOf(text, len(got))
	length := math.Sqrt(Cosine(want, want))
	assert.InDelta(t, length, Cosine(want, got), 1e-4, "the vector is not that of %.40q", text)
}
