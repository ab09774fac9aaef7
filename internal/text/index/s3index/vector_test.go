package s3index_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/text/index"
	"agentplatform/internal/text/index/s3index"
)

// All terms of a small document are in the one chunk of its put. Terms of its title get space first, then terms that
// few chunks of the collection's sample have.
func TestTheMostDistinctiveTermsFindAPlace(t *testing.T) {
	x, _ := open(t, s3index.Options{})
	found := func(word string) int {
		r, err := x.Query(t.Context(), index.Query{Collections: []string{"c"}, Terms: [][]string{{word}}, Limit: 10})
		require.NoError(t, err)
		return len(r.Candidates)
	}
	for d := range 20 {
		title, only := fmt.Sprint("title", d), fmt.Sprint("only", d)
		c := index.Chunk{Vector: []float32{1, 0}, Length: 400,
			Terms: []index.Term{{Text: title, Weight: 8}, {Text: only, Weight: 1}}}
		for i := range 330 {
			c.Terms = append(c.Terms, index.Term{Text: fmt.Sprint("common", i), Weight: 1})
		}
		v := index.Version{Collection: "c", Document: fmt.Sprint(d), Number: 1}
		require.NoError(t, x.Put(t.Context(), v, 2, []index.Chunk{c}))
		assert.Equal(t, 1, found(title), title)
		if d > 0 { // there is a sample, of the search before
			assert.Equal(t, 1, found(only), only)
		}
	}
}
