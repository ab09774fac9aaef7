package s3index

import (
	"cmp"
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3vectors"
	"github.com/aws/aws-sdk-go-v2/service/s3vectors/document"
	"github.com/aws/aws-sdk-go-v2/service/s3vectors/types"

	"agentplatform/internal/platform/host"
	"agentplatform/internal/text/index"
)

const (
	atOnce = 16 // collections that one query asks
	// mostLimit is the highest effective limit of a query. A call returns a hundred vectors, and calls are sequential.
	// So a higher limit would take seconds.
	mostLimit = 800
)

// Query implements [index.Index].
func (x *Index) Query(ctx context.Context, q index.Query) (index.Result, error) {
	if err := cmp.Or(ctx.Err(), q.Check()); err != nil {
		return index.Result{}, err
	}
	more := q.Limit < mostLimit
	q.Limit = min(q.Limit, mostLimit)
	q.Collections = slices.Compact(slices.Sorted(slices.Values(q.Collections)))
	r, err := x.ask(ctx, q)
	if isInvalid(err) { // a collection has other dimensions than were known; they are forgotten
		r, err = x.ask(ctx, q)
	}
	r.More = r.More && more
	return r, err
}

func (x *Index) ask(ctx context.Context, q index.Query) (index.Result, error) {
	list, err := x.known(ctx, q)
	if err != nil {
		return index.Result{}, err
	}
	parts := x.parts(list, q)
	err = host.Each(ctx, len(parts), atOnce, func(ctx context.Context, i int) error { return parts[i].ask(ctx) })
	if err != nil {
		return index.Result{}, err
	}
	return merged(parts, q), nil
}

// part is a part of a query, to one collection about some of its documents, and its result.
type part struct {
	collection

	index     *Index
	q         index.Query
	first     bool   // of its collection: its statistics count
	only      filter // the documents; nil: all
	similar   bool   // the query's vector can be compared with those of the collection
	like      []float32
	words     [][]term       // of the query: the variants of each
	positions map[term][]int // of the variants, in words

	byWords, byVector []index.Candidate
	statistics        index.Statistics
}

// parts divides a query: by collections, and by as many documents as a filter takes.
func (x *Index) parts(list []collection, q index.Query) []*part {
	words, positions := make([][]term, len(q.Terms)), map[term][]int{}
	for i, variants := range q.Terms {
		for _, v := range variants {
			t := hashOf(v)
			words[i], positions[t] = append(words[i], t), append(positions[t], i)
		}
	}
	groups := slices.Collect(slices.Chunk(slices.Compact(slices.Sorted(slices.Values(q.Documents))), mostDocuments))
	if len(groups) == 0 {
		groups = [][]string{nil}
	}
	var parts []*part
	for _, c := range list {
		if c.dimensions == 0 {
			continue
		}
		for i, documents := range groups {
			p := &part{index: x, collection: c, q: q, first: i == 0, only: ofDocuments(documents), words: words,
				positions: positions, similar: len(q.Vector) == c.dimensions, like: axis(c.dimensions)}
			if p.similar && !isZero(q.Vector) {
				p.like = q.Vector
			}
			p.q.Documents = documents
			s := c.sample
			if s == nil {
				s = newSample()
			}
			p.statistics = s.statistics(words, c.chunks)
			parts = append(parts, p)
		}
	}
	return parts
}

// ask asks by vector and by words at the same time.
func (p *part) ask(ctx context.Context) error {
	var asks []func(context.Context) error
	if p.similar {
		asks = append(asks, func(ctx context.Context) (err error) {
			p.byVector, err = p.find(ctx, p.q.Limit, p.only)
			return err
		})
	}
	if len(p.words) > 0 {
		asks = append(asks, p.search)
	}
	err := host.Each(ctx, len(asks), atOnce, func(ctx context.Context, i int) error { return asks[i](ctx) })
	if isMissing(err) || isInvalid(err) {
		p.index.forget(p.name) // it was dropped meanwhile, and perhaps made again with other dimensions
	}
	return p.index.ignoreMissing(ctx, err)
}

// find returns the chunks that a filter admits and that are most like the query, at most so many.
func (p *part) find(ctx context.Context, most int, only filter) ([]index.Candidate, error) {
	found, err := p.index.query(ctx, p.name, p.like, most, only, true)
	if err != nil {
		return nil, err
	}
	list := make([]index.Candidate, 0, len(found))
	for _, f := range found {
		c, err := p.candidate(f)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, nil
}

func (p *part) candidate(v types.QueryOutputVector) (index.Candidate, error) {
	c := index.Candidate{Weights: make([]int, len(p.words))}
	chunk, err := decode(p.name, v.Metadata, func(t term, weight int) {
		for _, i := range p.positions[t] {
			c.Weights[i] = max(c.Weights[i], weight)
		}
	})
	c.Version, c.Index, c.Length = chunk.Version, chunk.Index, chunk.length
	if p.similar && !isZero(p.q.Vector) && !chunk.without {
		c.Cosine = 1 - float64(aws.ToFloat32(v.Distance))
	}
	return c, err
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
		if err != nil {
			return nil, err
		}
		found = append(found, out.Vectors...)
		if in.NextToken = out.NextToken; aws.ToString(in.NextToken) == "" || len(found) >= most {
			return found[:min(len(found), most)], nil
		}
	}
}

func merged(parts []*part, q index.Query) index.Result {
	r := index.Result{Statistics: index.Statistics{Frequencies: make([]int, len(q.Terms))}}
	var byWords, byVector []index.Candidate
	length := 0.0
	for _, p := range parts {
		byWords, byVector = append(byWords, p.byWords...), append(byVector, p.byVector...)
		if !p.first {
			continue
		}
		most := p.statistics.Chunks
		for i, n := range p.statistics.Frequencies {
			r.Statistics.Frequencies[i] += n
			most = max(most, n)
		}
		r.Statistics.Chunks += most
		length += p.statistics.Length * float64(most)
	}
	if r.Statistics.Chunks > 0 {
		r.Statistics.Length = length / float64(r.Statistics.Chunks)
	}
	r.More = len(byWords) >= q.Limit || len(byVector) >= q.Limit
	r.Candidates = index.Both(byWords, byVector, q.Limit, r.Statistics)
	return r
}
