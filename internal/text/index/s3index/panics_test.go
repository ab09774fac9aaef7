package s3index_test

import (
	"context"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3vectors"
	"github.com/aws/smithy-go/middleware"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/platform/host"
	"agentplatform/internal/text/index"
	"agentplatform/internal/text/index/s3index"
)

// A panic on a goroutine that the index has started becomes a panic of the caller, and of all callers that wait for the
// same sample. The process goes on.
func TestAPanicOfACallIsTheCallers(t *testing.T) {
	_, client := serve(t)
	operation := ""
	options := client.Options()
	options.APIOptions = append(options.APIOptions, func(s *middleware.Stack) error {
		return s.Initialize.Add(middleware.InitializeMiddlewareFunc("dies", func(
			ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler,
		) (middleware.InitializeOutput, middleware.Metadata, error) {
			if middleware.GetOperationName(ctx) == operation {
				panic("oops")
			}
			return next.HandleInitialize(ctx, in)
		}), middleware.After)
	})
	dies := s3vectors.New(options)
	x := s3index.New(dies, "vectors", s3index.Options{})
	fill(t, x, 10, func(int) []string { return []string{"word"} })
	query := index.Query{
		Collections: []string{"c"}, Terms: [][]string{{"word"}}, Vector: []float32{1, 0}, Limit: 3,
	}
	for _, operation = range []string{"GetIndex", "ListVectors", "QueryVectors"} {
		fresh := s3index.New(dies, "vectors", s3index.Options{})
		var queries sync.WaitGroup
		for range 4 {
			queries.Go(func() {
				died := host.Catch(func() { _, _ = fresh.Query(t.Context(), query) })
				if assert.NotNil(t, died, operation) {
					assert.Equal(t, "oops", died.Value)
					assert.Contains(t, string(died.Stack), "TestAPanicOfACallIsTheCallers")
				}
			})
		}
		queries.Wait()
	}
	operation = ""
	_, err := s3index.New(dies, "vectors", s3index.Options{}).Query(t.Context(), query)
	require.NoError(t, err)
}
