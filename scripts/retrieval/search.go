package main

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"agentplatform/internal/ai/embedding"
	"agentplatform/internal/text/chunking"
	"agentplatform/internal/text/document"
	"agentplatform/internal/text/index"
	"agentplatform/internal/text/ranking"
	"agentplatform/internal/text/words"
)

// search has the chunks of a collection in the form of an index.
type search struct {
	documents map[string][]index.Chunk // by their ids
	chunks    int                      // of all documents
	texts     []string                 // of the chunks
	languages []string                 // of the documents, the most frequent first
	spoken    map[string]string        // their languages, as they were analysed, by document
}

// The defaults of a knowledge base.
const (
	size    = 220
	overlap = 40
)

func newSearch(ctx context.Context, c collection, divided bool) (*search, error) {
	s := &search{documents: map[string][]index.Chunk{}, spoken: map[string]string{}}
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

// byFrequency returns languages, the most frequent first.
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

// add analyses the chunks of a document.
func (s *search) add(ctx context.Context, a article, language string, chunks []document.Chunk) error {
	texts := make([]string, len(chunks))
	for i, c := range chunks {
		texts[i] = a.Title + "\n" + c.Text
	}
	vectors, err := embed(ctx, embedding.ForDocument, texts...)
	if err != nil {
		return err
	}
	for i, c := range chunks {
		terms, length := words.ChunkTerms(a.Title, language, c)
		indexed := index.Chunk{Index: s.chunks, Length: length, Vector: vectors[i]}
		for _, t := range terms[:min(len(terms), index.MaxChunkTerms)] { // a whole document may have more
			indexed.Terms = append(indexed.Terms, index.Term{Text: t.Text, Weight: t.Weight})
		}
		s.chunks++
		s.texts = append(s.texts, c.Text)
		s.documents[a.ID] = append(s.documents[a.ID], indexed)
	}
	return nil
}

// embed returns a vector for each text.
func embed(ctx context.Context, purpose embedding.Purpose, texts ...string) ([][]float32, error) {
	return model.embed(ctx, purpose, texts)
}

// all returns the documents that an index finds for each query, best first. candidates is the number of candidates of
// each kind.
func (s *search) all(
	ctx context.Context, queries []question, mode ranking.Mode, x index.Index, candidates int,
) (map[string][]string, error) {
	found := map[string][]string{}
	for _, query := range queries {
		_, list, err := s.ask(ctx, query, mode, x, candidates)
		if err != nil {
			return nil, err
		}
		seen := map[string]bool{}
		for _, h := range ranking.Rank(mode, []ranking.List{list}) {
			if !seen[h.Document] && len(found[query.ID]) < reach {
				seen[h.Document] = true
				found[query.ID] = append(found[query.ID], h.Document)
			}
		}
	}
	return found, nil
}

// ask returns the candidates of an index for a query.
func (s *search) ask(
	ctx context.Context, query question, mode ranking.Mode, x index.Index, candidates int,
) (terms [][]string, list ranking.List, err error) {
	vectors, err := embed(ctx, embedding.ForQuery, query.Text)
	if err != nil {
		return nil, list, err
	}
	q := index.Query{Collections: []string{collectionName}, Limit: candidates, Chunks: s.chunks}
	if mode != ranking.Semantic {
		q.Terms = words.QueryTerms(query.Text, s.languages)
	}
	list.Foreign = s.foreign(words.QueryLanguage(query.Text, s.languages))
	// as the service does
	trust, blind := model.trust, model.trust == ranking.Lexical && words.MostlyUnspaced(query.Text)
	if mode != ranking.Hybrid {
		trust = ranking.Full
	}
	if mode == ranking.Semantic || mode == ranking.Hybrid && trust.Weight > 0 && !blind {
		q.Vector = vectors[0]
	}
	if mode != ranking.Hybrid || q.Vector != nil {
		list.Trust = trust
	}
	list.Result, err = x.Query(ctx, q)
	return q.Terms, list, err
}

// foreign returns the documents in another language.
func (s *search) foreign(language string) map[string]bool {
	list := map[string]bool{}
	for id, l := range s.spoken {
		if language != "" && l != "" && l != language {
			list[id] = true
		}
	}
	return list
}
