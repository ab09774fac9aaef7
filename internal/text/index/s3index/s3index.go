// Package s3index is the index port over Amazon S3 Vectors, a store of vectors with metadata by which queries can be
// filtered. It has no search by words. Words are found in it as follows.
//
// The metadata of a chunk's vector holds hashes of the chunk's terms, for filters, and a packed chunk. A query by words
// fetches the vectors that have one of the rarest terms, or several of the others, and ranks them by BM25 (words.go).
// The statistics are estimated from a sample (sample.go) or, for many collections, from the vectors that are found.
//
// Each collection is an index of S3 Vectors, made with the first chunk; a bucket has at most 10,000. S3 Vectors is
// strongly consistent, and its search is approximate. A filter that admits few may find fewer than there are. A chunk
// with more terms than its metadata takes is not found by the most common of them.
//
// A caller needs these permissions:
//   - to search: GetIndex, ListVectors, QueryVectors, GetVectors (for filters and metadata), GetVectorBucket
//   - to put: PutVectors, CreateIndex, GetIndex
//   - to remove: GetIndex, GetVectors, DeleteVectors, QueryVectors, GetVectorBucket
//   - to drop: DeleteIndex, GetVectorBucket
//
// It imports its port, host and the SDK.
package s3index

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/s3vectors"
	"github.com/aws/aws-sdk-go-v2/service/s3vectors/types"
	"golang.org/x/sync/singleflight"

	"agentplatform/internal/platform/host"
	"agentplatform/internal/text/index"
)

// Index is the vector bucket of a deployment. It implements [index.Index].
type Index struct {
	client  *s3vectors.Client
	bucket  string
	options Options

	hasBucket atomic.Bool        // it is known that the bucket exists
	flights   singleflight.Group // of samples that are being taken, by collection

	mu         sync.Mutex
	samples    map[string]*sample // by collection
	dimensions map[string]int     // by collection
}

// Options are what an index needs besides its bucket.
type Options struct {
	// Now is the clock for the age of samples; nil: the system's.
	Now func() time.Time
	// Wait waits, or returns the error of the context; nil: a timer does.
	Wait func(ctx context.Context, d time.Duration) error
	// OnLost is called with the number of terms of a put for which the metadata had no space; it may be nil.
	OnLost func(terms int)
}

var _ index.Index = (*Index)(nil)

// attempts is the number of attempts of a call. An index takes 1,000 calls that write and 2,500 vectors a second, so a
// call may be refused for a while. Each call may be repeated without harm.
const attempts = 8

// Client makes the client of an account that an index needs. It retries calls that were refused for their number, after
// waits that grow.
func Client(account aws.Config) *s3vectors.Client {
	return s3vectors.NewFromConfig(account, func(o *s3vectors.Options) {
		o.Retryer = retry.NewStandard(func(s *retry.StandardOptions) { s.MaxAttempts = attempts })
		o.RetryMaxAttempts = attempts // else the account's counts
	})
}

// New makes the index over a client (see Client). The bucket must exist.
func New(client *s3vectors.Client, bucket string, o Options) *Index {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Wait == nil {
		o.Wait = host.System().Sleep
	}
	if o.OnLost == nil {
		o.OnLost = func(int) {}
	}
	return &Index{client: client, bucket: bucket, options: o, samples: map[string]*sample{},
		dimensions: map[string]int{}}
}

// Bounds of S3 Vectors.
const (
	vectorsOfCall = 500      // of a put or a delete
	bytesOfCall   = 16 << 20 // of a put, as we estimate them; the service takes 20 MiB
	mostFound     = 10_000   // of a query
	mostIndexes   = 10_000   // of a bucket
)

// nameOf is the name of a collection's index: 3 to 63 lower-case letters, digits and hyphens.
func nameOf(collection string) *string {
	sum := sha256.Sum256([]byte(collection))
	return aws.String("c-" + hex.EncodeToString(sum[:16]))
}

// Drop implements [index.Index].
func (x *Index) Drop(ctx context.Context, collection string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	x.forget(collection)
	_, err := x.client.DeleteIndex(ctx,
		&s3vectors.DeleteIndexInput{VectorBucketName: &x.bucket, IndexName: nameOf(collection)})
	return x.ignoreMissing(ctx, err)
}

// isMissing is true for errors of a missing index.
func isMissing(err error) bool {
	_, is := errors.AsType[*types.NotFoundException](err)
	return is
}

// ignoreMissing is nil for the error of a missing index. A missing bucket gives the same error, so the bucket is
// checked until it was seen once.
func (x *Index) ignoreMissing(ctx context.Context, err error) error {
	if !isMissing(err) {
		return err
	}
	if x.hasBucket.Load() {
		return nil
	}
	_, err = x.client.GetVectorBucket(ctx, &s3vectors.GetVectorBucketInput{VectorBucketName: &x.bucket})
	if err != nil {
		return fmt.Errorf("the vector bucket %s: %w", x.bucket, err)
	}
	x.hasBucket.Store(true)
	return nil
}

func isInvalid(err error) bool {
	_, is := errors.AsType[*types.ValidationException](err)
	return is
}

// axis is a unit vector, for uses where any vector will do.
func axis(dimensions int) []float32 {
	v := make([]float32, dimensions)
	v[0] = 1
	return v
}
