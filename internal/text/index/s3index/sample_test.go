package s3index_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/text/index"
	"agentplatform/internal/text/index/s3index"
)

// lists is how often samples were listed.
func lists(s *service) int { return s.counted()["ListVectors"] }

const listsOfSample = 4

// clocked is an index with a clock that the test moves.
func clocked(t *testing.T) (x *s3index.Index, s *service, now *time.Time) {
	t.Helper()
	clock := time.Unix(0, 0)
	x, s = open(t, s3index.Options{Now: func() time.Time { return clock }})
	return x, s, &clock
}

func ask(t *testing.T, x *s3index.Index, q index.Query) index.Result {
	t.Helper()
	q.Limit = 50
	if q.Collections == nil {
		q.Collections = []string{"c"}
	}
	r, err := x.Query(t.Context(), q)
	require.NoError(t, err)
	return r
}

func TestQueryWithoutWordsTakesNoSample(t *testing.T) {
	x, s, _ := clocked(t)
	put(t, x, removed, 0, 3)
	s.counted()
	ask(t, x, index.Query{Vector: []float32{1, 0}})
	assert.Equal(t, map[string]int{"GetIndex": 1, "QueryVectors": 1}, s.counted())
	ask(t, x, index.Query{Vector: []float32{1, 0}})
	assert.Equal(t, map[string]int{"QueryVectors": 1}, s.counted(), "dimensions are known")
}

func TestQueriesAtTheSameTimeTakeOneSample(t *testing.T) {
	x, s, _ := clocked(t)
	put(t, x, removed, 0, 100)
	s.counted()
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			r, err := x.Query(t.Context(), index.Query{Collections: []string{"c"}, Terms: [][]string{{"w"}}, Limit: 50})
			assert.NoError(t, err)
			assert.Equal(t, 100, r.Statistics.Chunks)
		})
	}
	group.Wait()
	assert.Equal(t, listsOfSample, lists(s))
}

// Samples that do not fit the caller's count are taken again after a while: there may be chunks that the caller does
// not count.
func TestDoubtfulSamples(t *testing.T) {
	x, s, now := clocked(t)
	put(t, x, removed, 0, 100)
	ask(t, x, index.Query{Terms: [][]string{{"w"}}, Chunks: 100})
	other := removed
	other.Number = 2
	put(t, x, other, 0, 100)
	s.counted()
	for _, row := range []struct {
		after  time.Duration
		chunks int
		lists  int
	}{
		{10 * time.Second, 200, 0},             // it is too young to be doubted
		{15 * time.Second, 100, 0},             // it fits
		{0, 200, listsOfSample},                // taken again, it fits
		{25 * time.Second, 100, listsOfSample}, // taken again, it does not fit
		{10 * time.Second, 100, 0},
		{15 * time.Second, 100, listsOfSample},
		{4 * time.Minute, 200, 0},             // it fits
		{2 * time.Minute, 200, listsOfSample}, // old
	} {
		*now = now.Add(row.after)
		ask(t, x, index.Query{Terms: [][]string{{"w"}}, Chunks: row.chunks})
		assert.Equal(t, row.lists, lists(s), "%+v", row)
	}
}

// The calls of a search of many collections are bounded, after any other searches.
func TestManyCollectionsAreNotSampled(t *testing.T) {
	x, s, _ := clocked(t)
	q := index.Query{Terms: [][]string{{"w"}}, Vector: []float32{1, 0}, Chunks: 100}
	for i := range 100 {
		v := removed
		v.Collection = fmt.Sprint("c", i)
		put(t, x, v, 0, 1)
		q.Collections = append(q.Collections, v.Collection)
	}
	s.counted()
	r := ask(t, x, q)
	assert.Equal(t, map[string]int{"GetIndex": 100, "QueryVectors": 200}, s.counted())
	assert.Len(t, r.Candidates, 50)
	assert.Equal(t, index.Statistics{Chunks: 100, Length: 1, Frequencies: []int{100}}, r.Statistics)
	ask(t, x, q)
	assert.Equal(t, map[string]int{"QueryVectors": 200}, s.counted())

	q.Collections = q.Collections[:20] // as many as a search may name
	q.Chunks = 20
	ask(t, x, q)
	assert.Equal(t, map[string]int{"ListVectors": 20 * listsOfSample, "QueryVectors": 40}, s.counted())
	ask(t, x, q)
	assert.Equal(t, map[string]int{"QueryVectors": 40}, s.counted())
}
