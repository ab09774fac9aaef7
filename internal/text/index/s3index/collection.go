package s3index

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3vectors"

	"agentplatform/internal/platform/host"
	"agentplatform/internal/text/index"
)

// collection is a collection of a query, with the facts that are known before the query.
type collection struct {
	name       string
	dimensions int     // 0: there is no such collection
	sample     *sample // nil: there is no such collection, or it is not sampled
	chunks     int     // about how many it has
}

// mostSampled is the number of a query's collections up to which each is sampled, with four calls if no sample is held.
// For more collections, the frequencies of words are estimated from the results of the first queries.
const mostSampled = 20

func (x *Index) known(ctx context.Context, q index.Query) ([]collection, error) {
	list := make([]collection, len(q.Collections))
	err := host.Each(ctx, len(list), atOnce, func(ctx context.Context, i int) (err error) {
		list[i].name = q.Collections[i]
		list[i].dimensions, err = x.dimensionsOf(ctx, list[i].name)
		return err
	})
	if err != nil || len(q.Terms) == 0 {
		return list, err
	}
	if len(list) <= mostSampled {
		if err := x.sampled(ctx, list, q.Chunks); err != nil {
			return nil, err
		}
	}
	share(list, q.Chunks)
	return list, nil
}

// sampled gives collections their samples. If the samples count many fewer or more chunks than the caller, they are
// doubted. There may be chunks that the caller does not count, such as those of builds that are to be removed.
func (x *Index) sampled(ctx context.Context, list []collection, chunks int) error {
	for _, doubted := range []bool{false, true} {
		err := host.Each(ctx, len(list), atOnce, func(ctx context.Context, i int) (err error) {
			if list[i].dimensions != 0 {
				list[i].sample, err = x.sampleOf(ctx, list[i].name, doubted)
			}
			return err
		})
		if err != nil || fit(list, chunks) {
			return err
		}
	}
	return nil
}

// fit reports whether samples have about as many chunks as the caller counts, as far as the samples show it.
func fit(list []collection, chunks int) bool {
	sum := 0
	for _, c := range list {
		if c.sample != nil && !c.sample.whole {
			return true
		}
		if c.sample != nil {
			sum += c.sample.chunks
		}
	}
	return chunks == 0 || max(sum-chunks, chunks-sum) <= chunks/5
}

// isOpen reports whether a collection is there and was not listed to its end.
func (c collection) isOpen() bool { return c.dimensions != 0 && (c.sample == nil || !c.sample.whole) }

// share sets about how many chunks each collection has. chunks is the caller's count for all of them. Chunks that are
// in no sample are divided among the collections that were not listed to their end.
func share(list []collection, chunks int) {
	open := 0
	for i, c := range list {
		if c.isOpen() {
			open++
		}
		if c.sample != nil {
			list[i].chunks = c.sample.chunks
			chunks -= c.sample.chunks
		}
	}
	for i, c := range list {
		if c.isOpen() && chunks > 0 {
			list[i].chunks += chunks / open
		}
	}
}

// dimensionsOf is the number of dimensions of a collection's vectors; 0: there is no such collection. It is requested
// once.
func (x *Index) dimensionsOf(ctx context.Context, collection string) (int, error) {
	x.mu.Lock()
	n := x.dimensions[collection]
	x.mu.Unlock()
	if n > 0 {
		return n, nil
	}
	out, err := x.client.GetIndex(ctx,
		&s3vectors.GetIndexInput{VectorBucketName: &x.bucket, IndexName: nameOf(collection)})
	if err != nil {
		return 0, x.ignoreMissing(ctx, err)
	}
	n = int(aws.ToInt32(out.Index.Dimension))
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.dimensions) >= mostIndexes { // of a bucket; those that are gone may be among them
		clear(x.dimensions)
	}
	x.dimensions[collection] = n
	return n, nil
}
