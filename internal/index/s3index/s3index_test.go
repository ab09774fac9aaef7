package s3index_test

import (
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3vectors"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/index"
	"agentplatform/internal/index/indextest"
	"agentplatform/internal/index/memindex"
	"agentplatform/internal/index/s3index"
	"agentplatform/internal/index/s3index/vectorserver"
)

// bucket is an empty vector bucket, with a client.
func bucket(t *testing.T) *s3vectors.Client {
	t.Helper()
	server := httptest.NewServer(&vectorserver.Server{})
	t.Cleanup(server.Close)
	client := s3vectors.New(s3vectors.Options{
		Region: "eu-central-1", BaseEndpoint: aws.String(server.URL),
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
	_, err := client.CreateVectorBucket(t.Context(),
		&s3vectors.CreateVectorBucketInput{VectorBucketName: aws.String("vectors")})
	require.NoError(t, err)
	return client
}

// aging is an index whose samples the test makes old.
type aging struct {
	*s3index.Index

	now *time.Time
}

func harness() indextest.Harness {
	return indextest.Harness{
		Open: func(t *testing.T) index.Index {
			now := time.Unix(0, 0)
			return aging{s3index.New(bucket(t), "vectors", s3index.Options{Now: func() time.Time { return now }}), &now}
		},
		Settle: func(_ *testing.T, x index.Index) { *x.(aging).now = x.(aging).now.Add(time.Hour) },
	}
}

func TestContract(t *testing.T) { indextest.Run(t, harness()) }

func TestItFindsWhatTheExactIndexFinds(t *testing.T) {
	exact := indextest.Harness{Open: func(*testing.T) index.Index { return &memindex.Index{} }}
	indextest.Agree(t, harness(), exact)
}

// A collection of which the sample has only a part: what is found is as exact, what is counted is about right.
func TestALargeCollectionIsSampled(t *testing.T) {
	const chunks = 6000
	x := s3index.New(bucket(t), "vectors", s3index.Options{})
	v := index.Version{Collection: "c", Document: "d", Number: 1}
	for start := 0; start < chunks; start += 1000 {
		var some []index.Chunk
		for i := start; i < start+1000; i++ {
			c := index.Chunk{Index: i, Vector: []float32{1, 0}, Length: 100}
			c.Terms = append(c.Terms, index.Term{Text: "all", Weight: 1})
			if i%10 == 0 {
				c.Terms = append(c.Terms, index.Term{Text: "tenth", Weight: 1})
			}
			if i == 4321 {
				c.Terms = append(c.Terms, index.Term{Text: "once", Weight: 1})
			}
			for n := range 60 { // as much as a chunk has
				c.Terms = append(c.Terms, index.Term{Text: fmt.Sprint(i%97, " ", n), Weight: 1})
			}
			some = append(some, c)
		}
		require.NoError(t, x.Put(t.Context(), v, 2, some))
	}
	q := index.Query{Collections: []string{"c"}, Terms: []string{"all", "tenth", "once"}, Limit: 20, Chunks: chunks}
	r, err := x.Query(t.Context(), q)
	require.NoError(t, err)
	require.NotEmpty(t, r.Candidates)
	assert.Equal(t, 4321, r.Candidates[0].Index, "the only one with the rarest word")
	assert.Len(t, r.Candidates, 20)
	assert.InDelta(t, chunks, r.Statistics.Chunks, chunks/10)
	assert.InDelta(t, 100, r.Statistics.Length, 1)
	assert.InDelta(t, chunks, r.Statistics.Frequencies[0], chunks/10)
	assert.InDelta(t, chunks/10, r.Statistics.Frequencies[1], chunks/25)
	assert.Less(t, r.Statistics.Frequencies[2], 60)

	require.NoError(t, x.Remove(t.Context(), v), "more than a call takes")
	r, err = x.Query(t.Context(), q)
	require.NoError(t, err)
	assert.Empty(t, r.Candidates)
}

// A chunk with more terms than the service takes is found by its rare ones, and all its weights are known.
func TestTermsWithoutPlaceAreCounted(t *testing.T) {
	lost := 0
	x := s3index.New(bucket(t), "vectors", s3index.Options{OnLost: func(n int) { lost += n }})
	rich := index.Chunk{Index: 0, Vector: []float32{1, 0}, Length: 900}
	poor := index.Chunk{Index: 1, Vector: []float32{1, 0}, Length: 10}
	for i := range index.MaxChunkTerms {
		rich.Terms = append(rich.Terms, index.Term{Text: fmt.Sprint("w", i), Weight: 1 + i%100})
		if i >= 100 {
			poor.Terms = append(poor.Terms, index.Term{Text: fmt.Sprint("w", i), Weight: 1})
		}
	}
	poor.Terms = poor.Terms[:200]
	v := index.Version{Collection: "c", Document: "d", Number: 1}
	require.NoError(t, x.Put(t.Context(), v, 2, []index.Chunk{rich, poor}))
	assert.Greater(t, lost, 3000)
	assert.Less(t, lost, index.MaxChunkTerms)
	r, err := x.Query(t.Context(), index.Query{
		Collections: []string{"c"}, Terms: []string{"w150", "w4000"}, Vector: []float32{1, 0}, Limit: 10,
	})
	require.NoError(t, err)
	require.Len(t, r.Candidates, 2)
	for _, c := range r.Candidates {
		if c.Index == 0 {
			assert.Equal(t, []int{51, 1}, c.Weights)
		} else {
			assert.Equal(t, []int{1, 0}, c.Weights)
		}
	}
}
