package s3index_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/text/index"
	"agentplatform/internal/text/index/s3index"
)

var removed = index.Version{Collection: "c", Document: "d", Number: 1}

// put puts chunks of two dimensions with the word w. Their numbers are from the first (inclusive) to the second
// (exclusive).
func put(t *testing.T, x index.Index, v index.Version, from, to int) {
	t.Helper()
	var chunks []index.Chunk
	for i := from; i < to; i++ {
		c := index.Chunk{Index: i, Vector: []float32{1, 0}, Length: 1, Terms: []index.Term{{Text: "w", Weight: 1}}}
		chunks = append(chunks, c)
	}
	require.NoError(t, x.Put(t.Context(), v, 2, chunks))
}

// left is how many chunks are found, of at most 800.
func left(t *testing.T, x index.Index) int {
	t.Helper()
	r, err := x.Query(t.Context(), index.Query{Collections: []string{"c"}, Terms: [][]string{{"w"}}, Limit: 1000})
	require.NoError(t, err)
	return len(r.Candidates)
}

// An approximate search does not return all chunks that must be removed.
func TestRemoveDoesNotTrustTheSearch(t *testing.T) {
	for name, overlooked := range map[string]func(key string) bool{
		"all":  func(string) bool { return true },
		"some": func(key string) bool { return strings.HasSuffix(key, "7") || key < "8" },
		"none": nil,
	} {
		t.Run(name, func(t *testing.T) {
			x, s := open(t, s3index.Options{})
			put(t, x, removed, 0, 350)
			other := removed
			other.Document = "other"
			put(t, x, other, 0, 1)
			s.Overlook(overlooked)
			require.NoError(t, x.Remove(t.Context(), removed))
			s.Overlook(nil)
			assert.Equal(t, 1, left(t, x), "the other document")
		})
	}
}

// Chunks whose numbers are far apart are found by their version.
func TestRemoveFindsWhatIsBehindAGap(t *testing.T) {
	x, s := open(t, s3index.Options{})
	put(t, x, removed, 5, 7)
	put(t, x, removed, 1000, 1350)
	s.Overlook(func(key string) bool { return strings.HasSuffix(key, "7") })
	require.NoError(t, x.Remove(t.Context(), removed))
	s.Overlook(nil)
	assert.Zero(t, left(t, x))
}

func TestRemoveThatRemovesNothingFails(t *testing.T) {
	x, s := open(t, s3index.Options{})
	put(t, x, removed, 500, 510)
	s.counted()
	s.fail = func(operation string, w http.ResponseWriter) bool {
		if operation == "DeleteVectors" {
			_, _ = w.Write([]byte("{}"))
		}
		return operation == "DeleteVectors"
	}
	require.ErrorContains(t, x.Remove(t.Context(), removed), "are still there")
	assert.LessOrEqual(t, s.counted()["QueryVectors"], 2)
}

func TestRemoveOfASmallDocumentIsAFewCalls(t *testing.T) {
	x, s := open(t, s3index.Options{})
	put(t, x, removed, 0, 3)
	s.counted()
	require.NoError(t, x.Remove(t.Context(), removed))
	assert.Equal(t, map[string]int{"GetIndex": 1, "GetVectors": 2, "DeleteVectors": 1, "QueryVectors": 1}, s.counted())
	require.NoError(t, x.Remove(t.Context(), removed))
	assert.Equal(t, map[string]int{"GetVectors": 1, "QueryVectors": 1}, s.counted(), "nothing is there")
}
