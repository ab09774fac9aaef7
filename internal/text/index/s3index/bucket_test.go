package s3index_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3vectors/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/text/index"
	"agentplatform/internal/text/index/s3index"
)

// A missing or misnamed bucket does not count as an empty index.
func TestMissingBucketIsAnError(t *testing.T) {
	s, client := serve(t)
	x := s3index.New(client, "misnamed", s3index.Options{})
	q := index.Query{Collections: []string{"c"}, Terms: [][]string{{"w"}}, Limit: 1}
	chunk := []index.Chunk{{Vector: []float32{1, 0}}}
	for range 2 {
		_, err := x.Query(t.Context(), q)
		for name, err := range map[string]error{
			"query": err, "remove": x.Remove(t.Context(), removed), "drop": x.Drop(t.Context(), "c"),
			"put": x.Put(t.Context(), removed, 2, chunk),
		} {
			var missing *types.NotFoundException
			require.ErrorAs(t, err, &missing, name)
		}
	}
	assert.LessOrEqual(t, s.counted()["CreateIndex"], 2, "a put does not try again")
}

// Whether the bucket is there is asked once.
func TestBucketIsLookedForOnce(t *testing.T) {
	x, s := open(t, s3index.Options{})
	for range 3 {
		assert.Zero(t, left(t, x))
		require.NoError(t, x.Drop(t.Context(), "c"))
		require.NoError(t, x.Remove(t.Context(), removed))
	}
	assert.Equal(t, 1, s.counted()["GetVectorBucket"])
}

// A put into a collection that is being dropped waits longer after each attempt, and no longer than its context.
func TestPutWaitsWhileTheCollectionIsDropped(t *testing.T) {
	var waits []time.Duration
	wait := func(_ context.Context, d time.Duration) error {
		waits = append(waits, d)
		return nil
	}
	s, client := serve(t)
	x := s3index.New(client, "vectors", s3index.Options{Wait: wait})
	s.fail = func(operation string, w http.ResponseWriter) bool {
		switch {
		case operation == "PutVectors" && len(waits) < 3:
			return refuse(w, http.StatusNotFound, "NotFoundException")
		case operation == "CreateIndex" && len(waits) < 3:
			return refuse(w, http.StatusConflict, "ConflictException")
		}
		return false
	}
	put(t, x, removed, 0, 1)
	assert.Len(t, waits, 3)
	assert.IsIncreasing(t, waits)
	assert.Equal(t, 1, left(t, x))

	waits, s.fail = nil, func(operation string, w http.ResponseWriter) bool {
		return operation == "PutVectors" && refuse(w, http.StatusNotFound, "NotFoundException")
	}
	chunk := []index.Chunk{{Vector: []float32{1, 0}}}
	require.Error(t, x.Put(t.Context(), removed, 2, chunk), "at last")
	sum := time.Duration(0)
	for _, d := range waits {
		sum += d
	}
	assert.Less(t, sum, 10*time.Second)

	stopped := errors.New("stopped")
	wait = func(context.Context, time.Duration) error { return stopped }
	x = s3index.New(client, "vectors", s3index.Options{Wait: wait})
	require.ErrorIs(t, x.Put(t.Context(), removed, 2, chunk), stopped)
}

func TestClientTriesThrottledCallsAgain(t *testing.T) {
	o := s3index.Client(aws.Config{Region: "eu-central-1", RetryMaxAttempts: 1}).Options()
	assert.Equal(t, 8, o.Retryer.MaxAttempts())
	assert.True(t, o.Retryer.IsErrorRetryable(&types.TooManyRequestsException{}))
}
