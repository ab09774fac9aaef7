package builtinembedding_test

import (
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/embedding"
	"agentplatform/internal/ai/embedding/builtinembedding"
	"agentplatform/internal/ai/embedding/embeddingtest"
)

func TestContract(t *testing.T) {
	for _, dimensions := range []int{64, 300, 512, 4096} {
		t.Run(fmt.Sprint(dimensions), func(t *testing.T) {
			embeddingtest.Run(t, embeddingtest.Harness{
				Model: builtinembedding.New(), Name: builtinembedding.Name, Dimensions: dimensions,
			})
		})
	}
}

func vectors(t testing.TB, texts ...string) [][]float32 {
	t.Helper()
	r := embedding.Request{Name: builtinembedding.Name, Texts: texts}
	reply, err := builtinembedding.New().Embed(t.Context(), r)
	require.NoError(t, err)
	embeddingtest.Sound(t, r, reply)
	return reply.Vectors
}

// Vectors are stored. Later versions of the program and other machines compare theirs with them. A change to the
// vectors must change the model's name.
func TestVectorsStayAsTheyAre(t *testing.T) {
	for text, want := range map[string]uint64{
		"": 0xab8fecac6a6ed4d4, "a": 0xf2fa3a91ba2eaa1, natural: 0x24dcfb9255e4fa08, chunk: 0xd0aca2156da9c365,
		"Überraschung im Straßenverkehr, 1.234 €": 0x93b594e09ddaa7a8, "境界層方程式の近似解": 0x8407cdcfe9215320,
		"หลักการ и принципы": 0x5c26f4e4774859b9,
	} {
		h := fnv.New64a()
		for _, x := range vectors(t, text)[0] { // the last bits may differ between processors
			_, _ = fmt.Fprintf(h, "%d ", int(math.Round(float64(x)*1e4)))
		}
		assert.Equal(t, want, h.Sum64(), "%.30s", text)
	}
}

func TestEqualTextsHaveEqualVectors(t *testing.T) {
	for _, text := range []string{natural, chunk} {
		for range 20 {
			v := vectors(t, text, text)
			assert.Equal(t, v[0], v[1])
		}
	}
}

// In each list, every text is more like the first one than the texts after it.
func TestTextsAreAlikeBySpelling(t *testing.T) {
	for _, texts := range [][]string{
		{"How are invoices paid?", "how are INVOICES paid", "An invoice was paid.", "We pay for everything.",
			"The weather is fine today."},
		{"Kündigungsfrist", "Kundigungsfrist", "Kündigungsfristen", "Frist der Kündigung", "Wetterbericht"},
		{"électricité", "electricite", "électrique", "fromage"},
		{"水管破裂", "水管", "天气"},
		{"the retrieval of documents", "document retrieval", "retrieving", "the the the"},
	} {
		v := vectors(t, texts...)
		var cosines []float64
		for i := range texts {
			cosines = append(cosines, -embeddingtest.Cosine(v[0], v[i]))
		}
		assert.True(t, slices.IsSorted(cosines), "%v %v", texts, cosines)
	}
}

// The model is lexical: synonyms have different vectors.
func TestSynonymsAreNotAlike(t *testing.T) {
	v := vectors(t, "automobile repair", "fixing a car")
	assert.Less(t, embeddingtest.Cosine(v[0], v[1]), 0.1)
}

func TestOtherNamesAreUnknown(t *testing.T) {
	_, err := builtinembedding.New().Embed(t.Context(), embedding.Request{Name: "lexical-0", Texts: []string{"x"}})
	assert.Equal(t, embedding.BadRequest, embedding.KindOf(err))
	_, err = builtinembedding.New().Embed(t.Context(),
		embedding.Request{Name: builtinembedding.Name, Dimensions: 63, Texts: []string{"x"}})
	assert.Equal(t, embedding.BadRequest, embedding.KindOf(err))
}

// A word costs a few allocations at most, however often it occurs.
func TestAChunkCostsFewAllocations(t *testing.T) {
	r := embedding.Request{Name: builtinembedding.Name, Texts: []string{natural}}
	assert.LessOrEqual(t, testing.AllocsPerRun(20, func() {
		_, _ = builtinembedding.New().Embed(t.Context(), r)
	}), 60.0)
}

func FuzzEmbed(f *testing.F) {
	for _, text := range []string{"", " ", "\xff\xfe", "a\u0300\u0301", "İI", "\u1160", strings.Repeat("x", 300),
		natural} {
		f.Add(text, 512)
	}
	f.Fuzz(func(t *testing.T, text string, dimensions int) {
		r := embedding.Request{Name: builtinembedding.Name, Dimensions: dimensions, Texts: []string{text, text + "x"}}
		reply, err := builtinembedding.New().Embed(t.Context(), r)
		if err != nil {
			assert.Equal(t, embedding.BadRequest, embedding.KindOf(err))
			return
		}
		embeddingtest.Sound(t, r, reply)
	})
}
