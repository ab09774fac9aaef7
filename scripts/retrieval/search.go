package main

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"agentplatform/internal/ai/embedding"
	"agentplatform/internal/text/chunking"
	"agentplatform/internal/text/document"
	"agentplatform/internal/text/index"
	"agentplatform/internal/text/ranking"
	"agentplatform/internal/text/words"
)

// search has the chunks of a collection, and looks at all of them.
type search struct {
	chunks    []chunk
	postings  map[string][]posting // by term
	length    int                  // of all chunks
	languages []string             // of the documents, the most frequent first
	spoken    map[string]string    // their languages, as they were analysed, by document
	trust     ranking.Trust        // in the embedding model; zero: there is none
}

type chunk struct {
	document string
	length   int
	vector   []float32
}

// posting is a chunk that has a term.
type posting struct{ chunk, weight int }

// The defaults of a knowledge base.
const (
	size    = 220
	overlap = 40
)

func newSearch(ctx context.Context, c collection, divided bool) (*search, error) {
	s := &search{postings: map[string][]posting{}, spoken: map[string]string{}}
	counts := map[string]int{}
	for _, a := range c.documents {
		language, sure := words.Language(a.Text)
		if !sure { // as the service does
			language = cmp.Or(majority(counts), language)
		}
		if s.spoken[a.ID] = language; language != "" {
			counts[language]++
		}
		chunks := []document.Chunk{{Text: a.Text}}
		if divided {
			var err error
			if chunks, err = chunking.Split(document.Text{Body: a.Text}, size, overlap); err != nil {
				return nil, err
			}
		}
		if err := s.add(ctx, a, language, chunks); err != nil {
			return nil, err
		}
	}
	s.languages = byFrequency(counts)
	return s, nil
}

// byFrequency are languages, the most frequent first.
func byFrequency(counts map[string]int) []string {
	return slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
}

func majority(counts map[string]int) string {
	if len(counts) == 0 {
		return ""
	}
	return byFrequency(counts)[0]
}

// add indexes the chunks of a document.
func (s *search) add(ctx context.Context, a article, language string, chunks []document.Chunk) error {
	vectors, err := s.embed(ctx, embedding.ForDocument, texts(a.Title, chunks))
	if err != nil {
		return err
	}
	for i, c := range chunks {
		terms, length := words.ChunkTerms(a.Title, language, c)
		for _, t := range terms {
			s.postings[t.Text] = append(s.postings[t.Text], posting{len(s.chunks), t.Weight})
		}
		s.length += length
		s.chunks = append(s.chunks, chunk{a.ID, length, vectors[i]})
	}
	return nil
}

// texts are what is embedded of chunks.
func texts(title string, chunks []document.Chunk) []string {
	list := make([]string, len(chunks))
	for i, c := range chunks {
		list[i] = title + "\n" + c.Text
	}
	return list
}

// embed returns a vector for each text; nil, where there is no model.
func (s *search) embed(ctx context.Context, purpose embedding.Purpose, texts []string) ([][]float32, error) {
	if model.Model == nil || len(texts) == 0 {
		return make([][]float32, len(texts)), nil
	}
	s.trust = model.trust
	reply, err := model.Embed(ctx, embedding.Request{Name: model.name, Purpose: purpose, Texts: texts})
	if err != nil {
		return nil, err
	}
	if len(reply.Vectors) != len(texts) {
		return nil, errors.New("a wrong number of vectors")
	}
	return reply.Vectors, nil
}

// modes are those that can be searched by.
func (s *search) modes() []ranking.Mode {
	if s.trust.Weight == 0 {
		return []ranking.Mode{ranking.Keyword}
	}
	return []ranking.Mode{ranking.Keyword, ranking.Semantic, ranking.Hybrid}
}

// all returns the documents that each query finds, best first: by an index, or, where that is nil, exactly.
func (s *search) all(
	ctx context.Context, queries []question, mode ranking.Mode, by index.Index,
) (map[string][]string, error) {
	found := map[string][]string{}
	for _, q := range queries {
		vectors, err := s.embed(ctx, embedding.ForQuery, []string{q.Text})
		if err != nil {
			return nil, err
		}
		vector, trust := vectors[0], s.trust
		if mode == ranking.Hybrid && words.MostlyUnspaced(q.Text) && trust == ranking.Lexical {
			vector, trust = nil, ranking.Trust{} // as the service does
		}
		result, err := s.query(ctx, mode, words.QueryTerms(q.Text, s.languages), vector, by)
		if err != nil {
			return nil, err
		}
		list := ranking.List{Result: result, Trust: trust, Foreign: s.foreign(words.QueryLanguage(q.Text, s.languages))}
		hits := ranking.Rank(mode, []ranking.List{list})
		seen := map[string]bool{}
		for _, h := range hits {
			if !seen[h.Document] && len(found[q.ID]) < reach {
				seen[h.Document] = true
				found[q.ID] = append(found[q.ID], h.Document)
			}
		}
	}
	return found, nil
}

// foreign are the documents in another language.
func (s *search) foreign(language string) map[string]bool {
	list := map[string]bool{}
	for id, l := range s.spoken {
		if language != "" && l != "" && l != language {
			list[id] = true
		}
	}
	return list
}

// query asks an index as the service does; where there is none, it answers like one without a limit.
func (s *search) query(
	ctx context.Context, mode ranking.Mode, terms [][]string, vector []float32, by index.Index,
) (index.Result, error) {
	if by == nil {
		return s.exact(terms, vector), nil
	}
	q := index.Query{Collections: []string{collectionName}, Limit: candidates, Chunks: len(s.chunks)}
	if mode != ranking.Semantic {
		q.Terms = terms
	}
	if mode != ranking.Keyword {
		q.Vector = vector
	}
	return by.Query(ctx, q)
}

// exact answers like an index without a limit.
func (s *search) exact(terms [][]string, vector []float32) index.Result {
	result := index.Result{Statistics: index.Statistics{
		Chunks: len(s.chunks), Length: float64(s.length) / float64(max(1, len(s.chunks))),
	}}
	weights := map[int][]int{}
	for i, variants := range terms {
		n := 0
		for _, t := range variants {
			for _, p := range s.postings[t] {
				if weights[p.chunk] == nil {
					weights[p.chunk] = make([]int, len(terms))
				}
				if weights[p.chunk][i] == 0 {
					n++
				}
				weights[p.chunk][i] = max(weights[p.chunk][i], p.weight)
			}
		}
		result.Statistics.Frequencies = append(result.Statistics.Frequencies, n)
	}
	for at, c := range s.chunks {
		if weights[at] == nil && vector == nil {
			continue
		}
		result.Candidates = append(result.Candidates, index.Candidate{
			Version: index.Version{Document: c.document}, Index: at, Length: c.length,
			Weights: weights[at], Cosine: cosine(c.vector, vector),
		})
	}
	return result
}

// cosine of two vectors of unit length; 0, where there is none.
func cosine(a, b []float32) float64 {
	sum := 0.0
	for i := range min(len(a), len(b)) {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}
