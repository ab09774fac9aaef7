package s3index

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3vectors"
	"golang.org/x/sync/errgroup"
)

// sample is what is known of the chunks of a collection. S3 Vectors counts nothing; a listing in segments gives some
// chunks of each segment, a megabyte of them at most: all of a small collection, about 2,000 chunks of a large one.
// How often a term occurs in these is about how often it does in all. How many there are is for the caller of a query
// to say.
//
// Functions do not know of each other's changes, so a sample grows old.
type sample struct {
	dimensions int
	chunks     int
	length     int // of all of them, in words
	has        map[term]int32
	whole      bool // these are all chunks
	taken      time.Time
}

const (
	segments    = 4
	life        = 5 * time.Minute
	doubtful    = 20 * time.Second // the age from which a sample is doubted that does not fit what the caller knows
	mostSamples = 64               // kept at once; the oldest goes
)

// sample returns the sample of a collection, nil where there is no such collection. An older one than its life, or than
// the given age, is taken anew.
func (x *Index) sample(ctx context.Context, collection string, age time.Duration) (*sample, error) {
	now := x.options.Now()
	x.mu.Lock()
	s := x.samples[collection]
	x.mu.Unlock()
	if s != nil && now.Sub(s.taken) <= min(life, age) {
		return s, nil
	}
	s, err := x.take(ctx, collection)
	if err != nil || s == nil {
		x.forget(collection)
		return nil, ignoreMissing(err)
	}
	s.taken = now
	x.keep(collection, s)
	return s, nil
}

func (x *Index) keep(collection string, s *sample) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.samples[collection] = s
	if len(x.samples) <= mostSamples {
		return
	}
	oldest := collection
	for name, other := range x.samples {
		if other.taken.Before(x.samples[oldest].taken) {
			oldest = name
		}
	}
	delete(x.samples, oldest)
}

func (x *Index) forget(collection string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.samples, collection)
}

// take asks for a sample.
func (x *Index) take(ctx context.Context, collection string) (*sample, error) {
	dimensions, err := x.dimensions(ctx, collection)
	if err != nil || dimensions == 0 {
		return nil, err
	}
	var parts [segments][]packed
	var more atomic.Bool
	group, ctx := errgroup.WithContext(ctx)
	for i := range parts {
		group.Go(func() error {
			out, err := x.client.ListVectors(ctx, &s3vectors.ListVectorsInput{
				VectorBucketName: &x.bucket, IndexName: nameOf(collection), ReturnMetadata: true,
				SegmentCount: aws.Int32(segments), SegmentIndex: int32(i), //nolint:gosec // below segments
				MaxResults: aws.Int32(1000),
			})
			if err != nil {
				return err
			}
			if aws.ToString(out.NextToken) != "" {
				more.Store(true)
			}
			for _, v := range out.Vectors {
				p, err := decode(collection, v.Metadata)
				if err != nil {
					return err
				}
				parts[i] = append(parts[i], p)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	s := &sample{dimensions: dimensions, has: map[term]int32{}, whole: !more.Load()}
	for _, part := range parts {
		for _, p := range part {
			s.chunks++
			s.length += p.length
			for _, t := range p.terms {
				s.has[t.term]++
			}
		}
	}
	return s, nil
}

// frequency is about how many of so many chunks have a term.
func (s *sample) frequency(t term, chunks int) int {
	if s.whole {
		return int(s.has[t])
	}
	return max(1, int(s.has[t])*chunks/max(s.chunks, 1))
}
