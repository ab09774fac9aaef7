package s3index

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3vectors"
	"github.com/aws/aws-sdk-go-v2/service/s3vectors/types"

	"agentplatform/internal/text/index"
)

// Put implements [index.Index].
func (x *Index) Put(ctx context.Context, v index.Version, dimensions int, chunks []index.Chunk) error {
	if err := cmp.Or(ctx.Err(), index.CheckPut(v, dimensions, chunks)); err != nil {
		return err
	}
	vectors, lost := encode(v, dimensions, chunks, x.common(v.Collection))
	if lost > 0 {
		x.options.OnLost(lost)
	}
	ofCall := max(1, min(vectorsOfCall, bytesOfCall/(dimensions*bytesOfNumber+mostMetadata)))
	for some := range slices.Chunk(vectors, ofCall) {
		if err := x.put(ctx, v.Collection, dimensions, some); err != nil {
			return err
		}
	}
	return nil
}

const (
	bytesOfNumber = 14 // at most what a component of a vector takes as JSON
	// A put into a collection that others drop is retried, after waits that double: 6 s in all.
	maxAttempts = 8
	firstWait   = 50 * time.Millisecond
)

// common returns the number of chunks of a collection's sample with a term. Without a sample, all terms are as rare.
func (x *Index) common(collection string) func(term) int {
	x.mu.Lock()
	s := x.samples[collection]
	x.mu.Unlock()
	return func(t term) int {
		if s == nil {
			return 0
		}
		return len(s.has[t])
	}
}

func (x *Index) put(ctx context.Context, collection string, dimensions int, vectors []types.PutInputVector) error {
	in := &s3vectors.PutVectorsInput{VectorBucketName: &x.bucket, IndexName: nameOf(collection), Vectors: vectors}
	_, err := x.client.PutVectors(ctx, in)
	for attempt := 0; isMissing(err) && attempt < maxAttempts; attempt++ {
		if attempt > 0 { // it was made, and is missing: it is being dropped
			if err := x.options.Wait(ctx, firstWait<<(attempt-1)); err != nil {
				return err
			}
		}
		if err := x.create(ctx, collection, dimensions); err != nil {
			return err
		}
		_, err = x.client.PutVectors(ctx, in)
	}
	if isInvalid(err) {
		x.forget(collection)
		has, bad := x.dimensionsOf(ctx, collection)
		if bad == nil && has != 0 && has != dimensions {
			return index.OtherDimensions(has, dimensions)
		}
	}
	return err
}

// create makes the index of a collection, unless it is there.
func (x *Index) create(ctx context.Context, collection string, dimensions int) error {
	_, err := x.client.CreateIndex(ctx, &s3vectors.CreateIndexInput{
		VectorBucketName: &x.bucket, IndexName: nameOf(collection), DataType: types.DataTypeFloat32,
		Dimension: aws.Int32(int32(dimensions)), DistanceMetric: types.DistanceMetricCosine, //nolint:gosec // checked
		MetadataConfiguration: &types.MetadataConfiguration{NonFilterableMetadataKeys: []string{keyOfChunk}},
	})
	if _, is := errors.AsType[*types.ConflictException](err); is {
		return nil
	}
	return err
}
