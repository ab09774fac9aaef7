package s3index

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3vectors"

	"agentplatform/internal/text/index"
)

const (
	vectorsOfGet = 100
	// mostRounds limits the searches of a removal. Each finds up to 10,000 chunks behind a gap in their numbers.
	// Without a gap, the first finds nothing.
	mostRounds = 100
)

// Remove implements [index.Index]. An approximate search that finds nothing does not prove that nothing is left. But
// the keys of chunks follow from their numbers. They are fetched in order, until a call finds none after the last known
// chunk. Then a search shows whether others are left.
func (x *Index) Remove(ctx context.Context, v index.Version) error {
	if err := cmp.Or(ctx.Err(), v.Check()); err != nil {
		return err
	}
	dimensions, err := x.dimensionsOf(ctx, v.Collection)
	if err != nil || dimensions == 0 {
		return err
	}
	r := removal{Index: x, version: v, last: -1}
	more := true
	for round := 0; err == nil && more; round++ {
		if round == mostRounds {
			return fmt.Errorf("s3index: a version has chunks left after %d searches", round)
		}
		if err = r.probe(ctx); err == nil {
			more, err = r.search(ctx, dimensions)
		}
	}
	if isMissing(err) || isInvalid(err) {
		x.forget(v.Collection)
	}
	return x.ignoreMissing(ctx, err)
}

// removal is the removal of a version under way.
type removal struct {
	*Index

	version index.Version
	next    int // the first number that was not asked for
	last    int // the highest number that was found
}

// probe deletes the chunks that have the next numbers.
func (r *removal) probe(ctx context.Context) error {
	for {
		keys := make([]string, vectorsOfGet)
		for i := range keys {
			keys[i] = keyOf(r.version, r.next+i)
		}
		out, err := r.client.GetVectors(ctx, &s3vectors.GetVectorsInput{
			VectorBucketName: &r.bucket, IndexName: nameOf(r.version.Collection), Keys: keys,
		})
		if err != nil {
			return err
		}
		r.next += len(keys)
		found := make([]string, 0, len(out.Vectors))
		for _, v := range out.Vectors {
			found = append(found, aws.ToString(v.Key))
		}
		if err := r.delete(ctx, found); err != nil {
			return err
		}
		if len(found) == 0 && r.next > r.last {
			return nil
		}
	}
}

// search deletes the vectors that a search finds; more reports that there were some. It returns an error if they were
// deleted before.
func (r *removal) search(ctx context.Context, dimensions int) (more bool, err error) {
	found, err := r.query(ctx, r.version.Collection, axis(dimensions), mostFound, ofVersion(r.version), false)
	if err != nil || len(found) == 0 {
		return false, err
	}
	before, keys := r.last, make([]string, 0, len(found))
	for _, f := range found {
		key := aws.ToString(f.Key)
		number, err := strconv.Atoi(key[strings.LastIndexByte(key, '.')+1:])
		if err != nil {
			return false, fmt.Errorf("%w: its key is %q", errPacked, key)
		}
		keys, r.last = append(keys, key), max(r.last, number)
	}
	if r.last == before {
		return false, fmt.Errorf("s3index: %d vectors that were deleted are still there", len(found))
	}
	return true, r.delete(ctx, keys)
}

func (r *removal) delete(ctx context.Context, keys []string) error {
	for some := range slices.Chunk(keys, vectorsOfCall) {
		_, err := r.client.DeleteVectors(ctx, &s3vectors.DeleteVectorsInput{
			VectorBucketName: &r.bucket, IndexName: nameOf(r.version.Collection), Keys: some,
		})
		if err != nil {
			return err
		}
	}
	return nil
}
