package s3index_test

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3vectors"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/proof/memindex"
	"agentplatform/internal/proof/vectorserver"
	"agentplatform/internal/text/index"
	"agentplatform/internal/text/index/indextest"
	"agentplatform/internal/text/index/s3index"
)

// service is the stand-in for S3 Vectors. It counts its calls, and may give other answers.
type service struct {
	vectorserver.Server

	mu    sync.Mutex
	calls map[string]int                                     // by operation
	fail  func(operation string, w http.ResponseWriter) bool // whether it has answered instead; nil: it has not
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	operation := strings.TrimPrefix(r.URL.Path, "/")
	s.mu.Lock()
	s.calls[operation]++
	failed := s.fail != nil && s.fail(operation, w)
	s.mu.Unlock()
	if !failed {
		s.Server.ServeHTTP(w, r)
	}
}

// counted returns the calls since it was last asked.
func (s *service) counted() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.calls
	s.calls = map[string]int{}
	return calls
}

// refuse answers with an error of the service.
func refuse(w http.ResponseWriter, status int, kind string) bool {
	w.Header().Set("X-Amzn-Errortype", kind)
	w.WriteHeader(status)
	_, _ = w.Write([]byte(`{"message": "refused by the test"}`))
	return true
}

// serve is a service with the empty vector bucket "vectors", and its client.
func serve(t *testing.T) (*service, *s3vectors.Client) {
	t.Helper()
	s := &service{calls: map[string]int{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	client := s3index.Client(aws.Config{
		Region: "eu-central-1", BaseEndpoint: aws.String(server.URL),
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
	_, err := client.CreateVectorBucket(t.Context(),
		&s3vectors.CreateVectorBucketInput{VectorBucketName: aws.String("vectors")})
	require.NoError(t, err)
	return s, client
}

// open is an index over an empty bucket.
func open(t *testing.T, o s3index.Options) (*s3index.Index, *service) {
	t.Helper()
	s, client := serve(t)
	return s3index.New(client, "vectors", o), s
}

// fill puts chunks of two dimensions, a thousand to a document. words returns the words of chunk n.
func fill(t *testing.T, x index.Index, chunks int, words func(n int) []string) {
	t.Helper()
	for start := 0; start < chunks; start += 1000 {
		var some []index.Chunk
		for n := start; n < min(start+1000, chunks); n++ {
			angle := float64(n%997) / 997
			c := index.Chunk{Index: n - start, Length: 100,
				Vector: []float32{float32(math.Cos(angle)), float32(math.Sin(angle))}}
			for _, w := range words(n) {
				c.Terms = append(c.Terms, index.Term{Text: w, Weight: 1})
			}
			some = append(some, c)
		}
		v := index.Version{Collection: "c", Document: fmt.Sprint("d", start/1000), Number: 1}
		require.NoError(t, x.Put(t.Context(), v, 2, some))
	}
}

// aging is an index whose samples the test ages.
type aging struct {
	*s3index.Index

	now *time.Time
}

func harness() indextest.Harness {
	return indextest.Harness{
		Open: func(t *testing.T) index.Index {
			now := time.Unix(0, 0)
			x, _ := open(t, s3index.Options{
				Now:  func() time.Time { return now },
				Wait: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
			})
			return aging{x, &now}
		},
		Settle: func(_ *testing.T, x index.Index) { *x.(aging).now = x.(aging).now.Add(time.Hour) },
	}
}

func TestContract(t *testing.T) { indextest.Run(t, harness()) }

func TestItFindsWhatTheExactIndexFinds(t *testing.T) {
	exact := indextest.Harness{Open: func(*testing.T) index.Index { return &memindex.Index{} }}
	indextest.Agree(t, harness(), exact)
}

// A chunk with more terms than the service takes is found by its rare terms, and all its weights are known.
func TestTermsWithoutPlaceAreCounted(t *testing.T) {
	lost := 0
	x, _ := open(t, s3index.Options{OnLost: func(n int) { lost += n }})
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
		Collections: []string{"c"}, Terms: [][]string{{"w150"}, {"w4000"}}, Vector: []float32{1, 0}, Limit: 10,
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
