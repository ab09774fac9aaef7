package builtinembedding_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/embedding"
	"agentplatform/internal/ai/embedding/builtinembedding"
)

// chunk has some 200 words.
var chunk = strings.Repeat("the boundary layer equations for an incompressible laminar flow past a flat plate are "+
	"presented and compared with experimental results, of which the naïve approximation differs by 5 per cent; ", 7)

func BenchmarkChunk(b *testing.B) {
	for name, text := range map[string]string{
		"repetitive": chunk, "natural": natural, "Japanese": strings.Repeat("境界層方程式の近似解と実験結果の比較。", 30),
	} {
		b.Run(name, func(b *testing.B) {
			r := embedding.Request{Name: builtinembedding.Name, Texts: []string{text}}
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				_, err := builtinembedding.New().Embed(b.Context(), r)
				require.NoError(b, err)
			}
		})
	}
}

const natural = `A base holds documents, and documents are cut to chunks, which respect their structure: headings,
paragraphs, list items and rows of tables stay together wherever that can be done, sentences are divided only if one
alone exceeds the size, and neighbouring chunks overlap a little so that whatever stands at a border is found from both
sides. Every chunk is reduced to terms by the rules of its language and to a vector by whichever model the operator
chose; the index stores both beside its number, the version and the collection, but never the passage itself, since an
index may be lost and built anew from what the bucket keeps. Somebody who searches sends a question of several words. It
is analysed in the same manner, candidates come from two lists, one ordered by inverse frequency, another by the cosine
between vectors, and a fusion of ranks decides which of them the person sees first. Before anything is shown, rights are
compared with the table as it stands at this instant: removed files, older versions and folders of foreign groups
disappear without a trace, while the remaining hits receive highlights, page numbers and an excerpt for quotation.
Agents use exactly this path when they answer with citations, hence no assistant quotes what its user could not open.`
