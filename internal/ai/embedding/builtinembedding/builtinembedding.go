// Package builtinembedding implements the embedding port without a model, network, file or setting. The vector of a
// text is made of hashes of its words and of pieces of them. The model is lexical: texts are alike if they share words
// or words of like spelling. It knows no synonyms and no word order. Every deployment can search with it, and tests
// need no provider.
//
// It must not know documents or indexes. It imports its port and Unicode's normal forms.
package builtinembedding

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"

	"agentplatform/internal/ai/embedding"
)

// Name is the only model there is. Vectors of different names cannot be compared. A change to how vectors are made must
// change the name.
const Name = "lexical-1"

// Dimensions is the number of a vector's dimensions, unless the request has another one.
const Dimensions = 512

// maxCharacters limits the text of a vector; the rest is cut.
const maxCharacters = 100_000

// Model makes vectors of hashes. The zero value is ready.
type Model struct{}

// New makes the model.
func New() Model { return Model{} }

// Embed makes the vectors. It counts no tokens, because nobody pays for them.
func (Model) Embed(ctx context.Context, r embedding.Request) (embedding.Reply, error) {
	dimensions := cmp.Or(r.Dimensions, Dimensions)
	switch {
	case r.Name != Name:
		return embedding.Reply{}, embedding.Fail(embedding.BadRequest, "the only model of builtin is %s", Name)
	case dimensions < embedding.LeastDimensions || dimensions > embedding.MaxDimensions:
		return embedding.Reply{}, embedding.Fail(embedding.BadRequest, "%s has %d to %d dimensions, not %d", Name,
			embedding.LeastDimensions, embedding.MaxDimensions, dimensions)
	}
	vectors := make([][]float32, 0, len(r.Texts))
	for _, text := range r.Texts {
		if err := ctx.Err(); err != nil {
			return embedding.Reply{}, err
		}
		vectors = append(vectors, vector(embedding.Cut(text, maxCharacters), dimensions))
	}
	return embedding.Reply{Vectors: vectors}, nil
}

// Weights of features, where a long word weighs 1. Pieces of words find other forms of them. Short words are mostly
// those that every text of their language has.
const (
	pieceWeight = 0.2
	shortWeight = 0.3
)

// vector adds up the words of a text, each by the logarithm of how often it occurs, and their pieces. The words are in
// order, so that equal texts have equal vectors to the last bit.
func vector(text string, dimensions int) []float32 {
	counts := map[string]int{}
	for _, w := range words(text) {
		counts[w]++
	}
	v := make([]float32, dimensions)
	var pieces []uint64
	for _, w := range slices.Sorted(maps.Keys(counts)) {
		weight := 1 + math.Log(float64(counts[w]))
		if isShort(w) {
			weight *= shortWeight
		}
		add(v, hash(wholeWord, w), weight)
		pieces = appendPieces(pieces[:0], w)
		for _, p := range pieces {
			add(v, p, weight*pieceWeight)
		}
	}
	if !embedding.Unit(v) { // no letter and no digit, or features that cancel each other out
		v[hash(wholeWord, "")%uint64(dimensions)] = 1
	}
	return v
}

// add adds a feature at the position and with the sign that its hash gives.
func add(v []float32, h uint64, weight float64) {
	if h>>63 != 0 {
		weight = -weight
	}
	v[h%uint64(len(v))] += float32(weight)
}
