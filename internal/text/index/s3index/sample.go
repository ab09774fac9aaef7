package s3index

import (
	"context"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3vectors"

	"agentplatform/internal/platform/host"
	"agentplatform/internal/text/index"
)

// sample has the words of some of a collection's chunks, as S3 Vectors counts nothing. A listing in segments gives all
// chunks of a small collection, and some hundred to 2,000 of a large one. The caller of a query knows how many there
// are.
//
// A sample ages, as other processes make changes. A query takes it again. A background goroutine cannot do that: a
// function is stopped between its calls.
type sample struct {
	chunks int
	length int               // of all of them, in words
	has    map[term][]uint16 // the chunks, by their numbers in the sample, ascending
	terms  int               // in has, of all chunks together
	whole  bool              // these are all chunks
	taken  time.Time
}

const (
	segments = 4
	life     = 5 * time.Minute
	doubtful = 20 * time.Second // the age from which a sample is doubted that does not fit what the caller knows
	taking   = time.Minute      // at most
	// mostHeld bounds the bytes of the held samples; the oldest are removed. The samples of one query, of as many large
	// collections as are sampled for it, take less.
	mostHeld    = 96 << 20
	bytesOfHeld = 48 // of a term
	bytesOfPost = 4  // of a chunk that has it
)

// sampleOf returns the sample of a collection, nil where there is no such collection. It takes a new sample if the held
// one is older than its life, or is doubted and not new. Concurrent callers wait for the same sample.
func (x *Index) sampleOf(ctx context.Context, collection string, doubted bool) (*sample, error) {
	if s := x.held(collection, doubted); s != nil {
		return s, nil
	}
	taken := x.flights.DoChan(collection, func() (any, error) {
		var s *sample
		var err error
		died := host.Catch(func() {
			s, err = x.anew(context.WithoutCancel(ctx), collection, doubted) // others wait for it, too
		})
		return flight{s, died}, err
	})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case r := <-taken:
		f := r.Val.(flight)
		f.died.Again()
		return f.sample, r.Err
	}
}

// flight is the result of taking a sample. A panic becomes one of each caller that waits for it. If none waits, it is
// lost.
type flight struct {
	sample *sample
	died   *host.Panic
}

// anew takes a sample, unless another goroutine has taken one meanwhile.
func (x *Index) anew(ctx context.Context, collection string, doubted bool) (*sample, error) {
	if s := x.held(collection, doubted); s != nil {
		return s, nil
	}
	ctx, cancel := context.WithTimeout(ctx, taking)
	defer cancel()
	s, err := x.take(ctx, collection)
	if isMissing(err) {
		x.forget(collection)
	}
	if err != nil {
		return nil, x.ignoreMissing(ctx, err)
	}
	x.keep(collection, s)
	return s, nil
}

// held returns a held sample that is still good; nil: there is none.
func (x *Index) held(collection string, doubted bool) *sample {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.samples[collection]
	if s == nil {
		return nil
	}
	age := x.options.Now().Sub(s.taken)
	if age > life || doubted && age > doubtful {
		return nil
	}
	return s
}

func (x *Index) keep(collection string, s *sample) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.samples[collection] = s
	for len(x.samples) > 1 {
		sum, oldest := 0, collection
		for name, other := range x.samples {
			sum += other.bytes()
			if other.taken.Before(x.samples[oldest].taken) {
				oldest = name
			}
		}
		if sum <= mostHeld && len(x.samples) <= mostIndexes {
			return
		}
		delete(x.samples, oldest)
	}
}

// forget removes the data about a collection, which may be gone or another one.
func (x *Index) forget(collection string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.samples, collection)
	delete(x.dimensions, collection)
}

func (x *Index) take(ctx context.Context, collection string) (*sample, error) {
	s := newSample()
	s.taken = x.options.Now()
	parts := make([]*s3vectors.ListVectorsOutput, segments)
	err := host.Each(ctx, len(parts), atOnce, func(ctx context.Context, i int) (err error) {
		parts[i], err = x.client.ListVectors(ctx, &s3vectors.ListVectorsInput{
			VectorBucketName: &x.bucket, IndexName: nameOf(collection), ReturnMetadata: true,
			SegmentCount: aws.Int32(segments), SegmentIndex: int32(i), //nolint:gosec // below segments
			MaxResults: aws.Int32(1000),
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	s.whole = true
	for _, part := range parts {
		s.whole = s.whole && aws.ToString(part.NextToken) == ""
		for _, v := range part.Vectors {
			p, err := decode(collection, v.Metadata, func(t term, _ int) { s.add(t) })
			if err != nil {
				return nil, err
			}
			s.chunks, s.length = s.chunks+1, s.length+p.length
		}
	}
	return s, nil
}

func (s *sample) bytes() int { return bytesOfHeld*len(s.has) + bytesOfPost*s.terms }

func newSample() *sample { return &sample{has: map[term][]uint16{}} }

func (s *sample) add(t term) {
	s.has[t] = append(s.has[t], uint16(s.chunks)) //nolint:gosec // segments of a thousand
	s.terms++
}

// statistics are the statistics of a collection of about so many chunks.
func (s *sample) statistics(words [][]term, chunks int) index.Statistics {
	r := index.Statistics{Chunks: chunks, Frequencies: make([]int, len(words))}
	if s.chunks > 0 {
		r.Length = float64(s.length) / float64(s.chunks)
	}
	for i, variants := range words {
		r.Frequencies[i] = s.frequency(variants, chunks)
	}
	return r
}

// frequency is the approximate number of chunks, of so many, that have one of the variants of a word.
func (s *sample) frequency(variants []term, chunks int) int {
	n := s.count(variants)
	if s.whole {
		return n
	}
	return max(1, n*chunks/max(s.chunks, 1))
}

// count is the number of the sample's chunks that have one of the variants of a word.
func (s *sample) count(variants []term) int {
	var lists [][]uint16
	for _, t := range variants {
		if has := s.has[t]; len(has) > 0 {
			lists = append(lists, has)
		}
	}
	if len(lists) == 1 {
		return len(lists[0])
	}
	return len(slices.Compact(slices.Sorted(slices.Values(slices.Concat(lists...)))))
}
