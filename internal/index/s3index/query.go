package s3index

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3vectors"
	"github.com/aws/aws-sdk-go-v2/service/s3vectors/document"
	"github.com/aws/aws-sdk-go-v2/service/s3vectors/types"
	"golang.org/x/sync/errgroup"

	"agentplatform/internal/index"
)

const (
	atOnce = 16 // collections that one query asks
	// What is asked for by words is ranked here, so more than the limit is asked for.
	widening, widest = 4, 400
	// mostTerms are the terms of one filter. No limit of them is documented.
	mostTerms = 64
)

// Query implements [index.Index].
func (x *Index) Query(ctx context.Context, q index.Query) (index.Result, error) {
	if err := cmp.Or(ctx.Err(), q.Check()); err != nil {
		return index.Result{}, err
	}
	names := slices.Compact(slices.Sorted(slices.Values(q.Collections)))
	samples, err := x.known(ctx, names, q.Chunks)
	if err != nil {
		return index.Result{}, err
	}
	chunks := sizes(samples, q.Chunks)
	terms := make([]term, len(q.Terms))
	for i, t := range q.Terms {
		terms[i] = hashOf(t)
	}
	parts := make([]part, len(names))
	group, limited := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, name := range names {
		if samples[i] == nil {
			parts[i].frequencies = make([]int, len(terms))
			continue
		}
		group.Go(func() (err error) {
			p := asked{x, name, samples[i], chunks[i], q, terms}
			parts[i], err = p.ask(limited)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return index.Result{}, err
	}
	return merged(parts, len(terms), q.Limit), nil
}

// known returns samples of the collections, nil for one that does not exist. When they are of many fewer or more
// chunks than the caller knows of, they are taken anew.
func (x *Index) known(ctx context.Context, names []string, chunks int) ([]*sample, error) {
	samples := make([]*sample, len(names))
	take := func(age time.Duration) error {
		group, limited := errgroup.WithContext(ctx)
		group.SetLimit(atOnce)
		for i, name := range names {
			group.Go(func() (err error) {
				samples[i], err = x.sample(limited, name, age)
				return err
			})
		}
		return group.Wait()
	}
	if err := take(life); err != nil {
		return nil, err
	}
	sum, whole := 0, true
	for _, s := range samples {
		if s != nil {
			sum, whole = sum+s.chunks, whole && s.whole
		}
	}
	off := max(sum-chunks, chunks-sum)
	if whole && chunks > 0 && off > chunks/5 {
		if err := take(doubtful); err != nil {
			return nil, err
		}
	}
	return samples, nil
}

// sizes is about how many chunks each collection has. chunks is what the caller knows of all of them.
func sizes(samples []*sample, chunks int) []int {
	parts, sizes := 0, make([]int, len(samples))
	for i, s := range samples {
		if s == nil {
			continue
		}
		sizes[i] = s.chunks
		if chunks -= s.chunks; !s.whole {
			parts++
		}
	}
	for i, s := range samples { // what nobody has sampled is in those that were not listed to their end
		if s != nil && !s.whole && chunks > 0 {
			sizes[i] += chunks / parts
		}
	}
	return sizes
}

// asked is one collection of a query.
type asked struct {
	*Index

	name   string
	sample *sample
	chunks int // about how many it has
	q      index.Query
	terms  []term
}

// part is the answer of one collection.
type part struct {
	byWords, byVector []index.Candidate
	chunks            int
	length            float64 // of all chunks, in words
	frequencies       []int
}

func (a asked) ask(ctx context.Context) (part, error) {
	p := part{chunks: a.chunks}
	if a.sample.chunks > 0 {
		p.length = float64(a.sample.length) * float64(a.chunks) / float64(a.sample.chunks)
	}
	for _, t := range a.terms {
		p.frequencies = append(p.frequencies, a.sample.frequency(t, a.chunks))
	}
	like, similar := axis(a.sample.dimensions), false
	if len(a.q.Vector) == a.sample.dimensions {
		similar = true
		if !isZero(a.q.Vector) {
			like = a.q.Vector
		}
	}
	candidates := func(found []types.QueryOutputVector) ([]index.Candidate, error) {
		list := make([]index.Candidate, 0, len(found))
		for _, f := range found {
			chunk, err := decode(a.name, f.Metadata)
			if err != nil {
				return nil, err
			}
			cosine := 0.0
			if similar && !isZero(a.q.Vector) {
				cosine = 1 - float64(aws.ToFloat32(f.Distance))
			}
			list = append(list, chunk.candidate(a.terms, cosine))
		}
		return list, nil
	}
	var only filter
	if len(a.q.Documents) > 0 {
		only = ofDocuments(a.q.Documents)
	}
	if similar {
		found, err := a.query(ctx, a.name, like, a.q.Limit, only, true)
		if err == nil {
			p.byVector, err = candidates(found)
		}
		if err != nil {
			return p, ignoreMissing(err)
		}
	}
	wide := min(max(widening*a.q.Limit, widest), mostFound)
	for _, terms := range a.choices(p.frequencies, wide) {
		found, err := a.query(ctx, a.name, like, wide, both(withAny(terms), only), true)
		if err != nil {
			return p, ignoreMissing(err)
		}
		some, err := candidates(found)
		if err != nil {
			return p, err
		}
		if len(found) < wide && only == nil { // all chunks that have these terms
			count(some, terms, a.terms, p.frequencies)
		}
		for _, c := range some {
			if slices.Max(c.Weights) > 0 { // else another term has the same name
				p.byWords = append(p.byWords, c)
			}
		}
		if len(p.byWords) >= a.q.Limit {
			break
		}
	}
	return p, nil
}

// count corrects the frequencies of terms of which all chunks are at hand.
func count(chunks []index.Candidate, counted, terms []term, frequencies []int) {
	for i, t := range terms {
		if !slices.Contains(counted, t) {
			continue
		}
		frequencies[i] = 0
		for _, c := range chunks {
			frequencies[i] += min(c.Weights[i], 1)
		}
	}
}

// choices are the terms to ask for: first the rare ones, so many that what has them is about as much as is wanted;
// then, for where that is too little, all.
func (a asked) choices(frequencies []int, wide int) [][]term {
	if len(a.terms) == 0 {
		return nil
	}
	order := make([]int, len(a.terms))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(frequencies[i], frequencies[j]) })
	var rare, all []term
	sum := 0
	for n, i := range order[:min(len(order), mostTerms)] {
		if sum += frequencies[i]; n == 0 || sum <= wide {
			rare = append(rare, a.terms[i])
		}
		all = append(all, a.terms[i])
	}
	if len(rare) == len(all) {
		return [][]term{all}
	}
	return [][]term{rare, all}
}

// query returns the vectors that are most similar to one, at most so many, among those that the filter admits.
func (x *Index) query(
	ctx context.Context, collection string, like []float32, most int, only filter, withMetadata bool,
) ([]types.QueryOutputVector, error) {
	in := &s3vectors.QueryVectorsInput{
		VectorBucketName: &x.bucket, IndexName: nameOf(collection),
		QueryVector:    &types.VectorDataMemberFloat32{Value: like},
		TopK:           aws.Int32(int32(most)), //nolint:gosec // bounded
		ReturnDistance: withMetadata, ReturnMetadata: withMetadata,
	}
	if only != nil {
		in.Filter = document.NewLazyDocument(map[string]any(only))
	}
	var found []types.QueryOutputVector
	for {
		out, err := x.client.QueryVectors(ctx, in)
		if isInvalid(err) {
			x.forget(collection) // it was dropped meanwhile, and made anew with other dimensions
		}
		if err != nil {
			return nil, err
		}
		found = append(found, out.Vectors...)
		if in.NextToken = out.NextToken; aws.ToString(in.NextToken) == "" || len(found) >= most {
			return found[:min(len(found), most)], nil
		}
	}
}

// merged puts the answers of the collections together.
func merged(parts []part, terms, limit int) index.Result {
	r := index.Result{Statistics: index.Statistics{Frequencies: make([]int, terms)}}
	var byWords, byVector []index.Candidate
	length := 0.0
	for _, p := range parts {
		byWords, byVector = append(byWords, p.byWords...), append(byVector, p.byVector...)
		most := p.chunks
		for i, n := range p.frequencies {
			r.Statistics.Frequencies[i] += n
			most = max(most, n)
		}
		r.Statistics.Chunks += most
		length += p.length
	}
	if r.Statistics.Chunks > 0 {
		r.Statistics.Length = length / float64(r.Statistics.Chunks)
	}
	type place struct {
		index.Version

		index int
	}
	seen := map[place]bool{}
	// A second question of a collection finds again what the first did.
	byWords = slices.DeleteFunc(byWords, func(c index.Candidate) bool {
		at := place{c.Version, c.Index}
		again := seen[at]
		seen[at] = true
		return again
	})
	clear(seen)
	add := func(list []index.Candidate, score func(index.Candidate) float64) {
		for _, c := range index.Best(list, limit, score) {
			if at := (place{c.Version, c.Index}); !seen[at] {
				seen[at] = true
				r.Candidates = append(r.Candidates, c)
			}
		}
	}
	add(byWords, func(c index.Candidate) float64 { return index.BM25(c, r.Statistics) })
	add(byVector, func(c index.Candidate) float64 { return c.Cosine })
	return r
}
