package knowledge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	oteltrace "go.opentelemetry.io/otel/trace"

	"agentplatform/internal/ai/embedding"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/platform/trace"
	"agentplatform/internal/store/citation"
	"agentplatform/internal/store/record"
	"agentplatform/internal/text/document"
	"agentplatform/internal/text/index"
	"agentplatform/internal/text/ranking"
	"agentplatform/internal/text/words"
)

// Question is a search: the query, its filters and its limits.
type Question struct {
	Query string   // 1 to 4,000 characters
	Bases []string // nil: all that may be read
	// Phrases: words in quotation marks must stand so in a chunk, its heading or its title. The mode semantic ignores
	// it. A run does not set it: its question is a message, which may quote anything.
	Phrases bool
	// OnlyReadable leaves out named bases that are gone or may not be read, instead of refusing them.
	OnlyReadable bool
	Mode         ranking.Mode
	Limit        int // hits
	Filter       Filter
	MinScore     float64
	Floor        bool // leaves out hits that match next to nothing, neither by words nor by meaning
	PerDocument  int  // hits of one document; 0: any number
	Distinct     bool // leaves out near-duplicates of better hits; see [sketch]
	// OwnBudgets makes the asker's budgets refuse the question when their tokens are used up and an embedding model is
	// needed. A run does not set it: the run's budgets are checked between its steps.
	OwnBudgets bool
}

// Limits of a search.
const (
	maxQuery   = 4000
	maxBases   = 20 // bases that a question names
	maxLimit   = 50
	embedTime  = 2 * time.Second
	firstLimit = 50 // candidates of the first query, at least
	maxRounds  = 5
	// mostPieces limits the pieces that are read to look for phrases. moreTexts limits the texts that are read to find
	// distinct hits, beyond the wanted hits.
	mostPieces = 100
	moreTexts  = 24
	// The floor: a hit has at least one of these scores, or every word of the query that the base has. In a base of a
	// few documents, or where all of them have a word, no word is rare, so that each score is low.
	leastKeyword = 0.02
	leastCosine  = 0.15
)

// Hit is a chunk that was found, with its document as it is now.
type Hit struct {
	Document   catalog.Document
	Chunk      document.Chunk
	Score      float64
	Keyword    float64
	Semantic   float64
	Highlights [][2]int // characters of the chunk's text
	Quote      [2]int   // of these, the best for a citation of the query
}

// Found is the answer to a question.
type Found struct {
	Hits     []Hit // best first
	Mode     ranking.Mode
	Degraded []catalog.EmbeddingModel // those that did not answer, so that their bases were searched by words alone
	Models   int                      // of the bases that were searched
	// Paid has the tokens that embedding models used. It includes models that did not answer, and is also set with an
	// error. The caller charges it: to the asker ([Knowledge.ChargeSearch]) or to a run.
	Paid record.Embeddings
}

// Outcome is how a search ended, for metrics.
type Outcome string

// The outcomes.
const (
	Whole    Outcome = "whole"
	Degraded Outcome = "degraded" // without an embedding model that did not answer
	Failed   Outcome = "failed"
	Refused  Outcome = "refused" // as it stands
)

// OutcomeOf is the outcome of [Knowledge.Search].
func OutcomeOf(f Found, err error) Outcome {
	refused, is := problem.As(err)
	switch {
	case is && refused.Kind != problem.Unavailable:
		return Refused
	case err != nil:
		return Failed
	case len(f.Degraded) > 0:
		return Degraded
	}
	return Whole
}

func (q Question) check() error {
	if err := checkLength("body.query", strings.TrimSpace(q.Query), 1, maxQuery); err != nil {
		return err
	}
	if len(q.Bases) > maxBases {
		return problem.InvalidField("body.knowledge_base_ids", "must name at most %d knowledge bases", maxBases)
	}
	if q.Limit < 1 || q.Limit > maxLimit {
		return problem.InvalidField("body.limit", "must be between 1 and %d", maxLimit)
	}
	if err := checkIDs("body.knowledge_base_ids", q.Bases); err != nil {
		return err
	}
	return q.Filter.check()
}

// checkIDs returns a problem of kind Invalid that names the first text that is not an identifier.
func checkIDs(field string, ids []string) error {
	for i, id := range ids {
		if !host.ValidID(id) {
			return problem.InvalidField(fmt.Sprintf("%s[%d]", field, i),
				"%q is not an identifier", document.Cut(id, 50))
		}
	}
	return nil
}

// Search finds chunks of documents that the principal may read, by the present documents and rights.
//
// It returns a problem of one of these kinds:
//   - Invalid, which names the field
//   - NotFound or Forbidden, for a base that the question names
//   - Unavailable (embedding_unavailable), when no embedding model was reached for a semantic search
//   - Limited (budget_exhausted), see Question.OwnBudgets
func (k *Knowledge) Search(ctx context.Context, p tenant.Principal, q Question) (found Found, err error) {
	began := k.Host.Elapsed()
	ctx, span := trace.Start(ctx, oteltrace.SpanKindInternal, "retrieval", "")
	span.SetAttributes(attribute.String("gen_ai.operation.name", "retrieval"),
		trace.OrganizationID.String(p.Organization))
	defer func() {
		span.SetAttributes(attribute.Int("agentplatform.search.hits", len(found.Hits)))
		if err != nil {
			trace.Fail(span, problem.Code(err))
		}
		span.End()
		if k.OnSearch != nil {
			k.OnSearch(found, k.Host.Elapsed()-began, err)
		}
	}()
	if err := q.check(); err != nil {
		return Found{Hits: []Hit{}, Mode: q.Mode}, err
	}
	var before Found
	for range maxRounds {
		var moved bool
		found, moved, err = k.search(ctx, p, q)
		found.Paid = before.Paid.With(found.Paid...)
		if before = found; err != nil || !moved {
			break
		}
	}
	return found, err
}

// search is one attempt. moved reports that its data has changed meanwhile: a document was replaced or deleted before
// its chunks were read, or a rebuild has ended. Another attempt finds the present data.
func (k *Knowledge) search(ctx context.Context, p tenant.Principal, q Question) (found Found, moved bool, err error) {
	found = Found{Hits: []Hit{}, Mode: q.Mode}
	bases, err := k.searchedBases(ctx, p, q.Bases, q.OnlyReadable)
	if err != nil || len(bases) == 0 || q.Filter.DocumentIDs != nil && len(q.Filter.DocumentIDs) == 0 {
		return found, false, err
	}
	s := &search{Knowledge: k, p: p, q: q, bases: bases, wanted: q.Limit, seen: map[string]*catalog.Document{},
		replaced: map[index.Version]bool{}, pieces: map[piece][]document.Chunk{}, gone: map[string]int{}}
	if err := s.prepare(ctx, &found); err != nil {
		return found, false, err
	}
	hits, err := s.hits(ctx)
	if err != nil {
		return found, false, err
	}
	if found.Hits, err = s.shown(ctx, hits); err != nil {
		return found, false, err
	}
	moved, err = s.moved(ctx)
	return found, moved, err
}

// moved reports whether a base has another collection by now, or a document whose chunks were gone has another build. A
// deleted document is left out: another attempt would not find it.
func (s *search) moved(ctx context.Context) (bool, error) {
	bases, err := record.Several[catalog.KnowledgeBase](
		ctx, s.Store, s.p.Scope(), slices.Sorted(maps.Keys(s.bases)))
	if err != nil {
		return false, err
	}
	for id, b := range bases {
		if b.Value.Collection != s.bases[id].Collection {
			return true, nil
		}
	}
	if len(s.gone) == 0 {
		return false, nil
	}
	documents, err := record.Several[catalog.Document](ctx, s.Store, s.p.Scope(), slices.Sorted(maps.Keys(s.gone)))
	for _, d := range documents {
		now := d.Value.In(s.bases[d.Value.KnowledgeBase].Collection)
		if now.Ready.Number != s.gone[d.Value.ID] {
			return true, nil
		}
	}
	return false, err
}

// searched returns the bases that a question searches, by id.
func (k *Knowledge) searchedBases(
	ctx context.Context, p tenant.Principal, ids []string, onlyReadable bool,
) (map[string]catalog.KnowledgeBase, error) {
	bases := map[string]catalog.KnowledgeBase{}
	for _, id := range ids {
		b, err := k.Base(ctx, p, id)
		if onlyReadable && (problem.Is(err, "not_found") || problem.Is(err, "insufficient_permission")) {
			continue
		}
		if err != nil {
			return nil, err
		}
		bases[id] = b.Value
	}
	if ids != nil {
		return bases, nil
	}
	all := func(after string) (record.Page[record.Entity[catalog.KnowledgeBase]], error) {
		return k.Bases(ctx, p, after, 100)
	}
	for b, err := range record.Rows(all) {
		if err != nil {
			return nil, err
		}
		bases[b.Value.ID] = b.Value
	}
	return bases, nil
}

// search is the state of one question.
type search struct {
	*Knowledge

	p     tenant.Principal
	q     Question
	bases map[string]catalog.KnowledgeBase // by id
	terms [][]string
	// phrases must stand in the text of what is found.
	phrases [][]string
	rarity  []float64                  // of the terms
	pieces  map[piece][]document.Chunk // that were read; nil: gone
	gone    map[string]int             // the builds whose chunks were gone, by their documents
	// language is the query's; empty: unknown.
	language string
	wanted   int // hits: as many as the documents can have
	asks     []*ask
	seen     map[string]*catalog.Document // by id; nil: not to be shown
	worth    int                          // candidates above the floor, readable or not
	stale    bool                         // the index answered with builds that may have been replaced meanwhile
	// replaced are builds that the index still has. Another query finds nothing in their place, but further candidates.
	replaced map[index.Version]bool
}

// ask is one query of the index: the collections whose vectors are of one model, with the query's vector, if the model
// has answered.
type ask struct {
	model       catalog.EmbeddingModel
	collections []string
	chunks      int           // of them, where it was counted
	trust       ranking.Trust // zero: the vector would have no weight, so there is none
	vector      []float32
	tokens      int64
}

// prepare analyses the query and calls the embedding models for its vectors.
func (s *search) prepare(ctx context.Context, found *Found) error {
	byModel := map[catalog.EmbeddingModel]*ask{}
	for _, id := range slices.Sorted(maps.Keys(s.bases)) {
		b := s.bases[id]
		model := b.InForce().Embedding
		if byModel[model] == nil {
			byModel[model] = &ask{model: model}
			s.asks = append(s.asks, byModel[model])
		}
		byModel[model].collections = append(byModel[model].collections, b.Collection)
	}
	found.Models = len(s.asks)
	if s.q.Mode != ranking.Semantic {
		languages, chunks, documents, err := s.counted(ctx)
		if err != nil {
			return err
		}
		if s.q.PerDocument > 0 {
			s.wanted = min(s.wanted, s.q.PerDocument*documents)
		}
		for id, b := range s.bases {
			byModel[b.InForce().Embedding].chunks += chunks[id]
		}
		s.terms = words.QueryTerms(s.q.Query, languages)
		s.language = words.QueryLanguage(s.q.Query, languages)
		if s.q.Phrases {
			s.phrases = words.Phrases(s.q.Query)
		}
	}
	if s.q.Mode == ranking.Keyword {
		return nil
	}
	for _, a := range s.asks {
		a.trust = s.trusted(a.model)
	}
	if err := s.mayAsk(ctx); err != nil {
		return err
	}
	s.vectors(ctx)
	for _, a := range s.asks {
		found.Paid = found.Paid.With(record.Embedded{Model: a.model.FullName(), Tokens: a.tokens})
		if a.vector == nil && a.trust != (ranking.Trust{}) {
			found.Degraded, a.trust = append(found.Degraded, a.model), ranking.Trust{}
		}
	}
	if s.q.Mode == ranking.Semantic && len(found.Degraded) == len(s.asks) {
		return problem.New(problem.Unavailable, "embedding_unavailable",
			"the embedding model cannot be reached; use mode hybrid or keyword, which work without it")
	}
	return nil
}

// mayAsk returns an error when the asker's budgets do not allow calls of embedding models.
func (s *search) mayAsk(ctx context.Context) error {
	paid := slices.IndexFunc(s.asks, func(a *ask) bool {
		return a.model.Provider != embedding.Builtin && a.trust != ranking.Trust{}
	})
	if paid < 0 || !s.q.OwnBudgets {
		return nil
	}
	return s.MayEmbed(ctx, s.asks[paid].model, s.p.Organization, s.p.User)
}

// vectors calls concurrently each model whose vectors count, for the vector of the query. A model that does not answer
// in time has none.
func (s *search) vectors(ctx context.Context) {
	ctx, cancel := s.Host.WithTimeout(ctx, embedTime)
	defer cancel()
	waits := make([]func(), 0, len(s.asks))
	for _, a := range s.asks {
		if a.trust == (ranking.Trust{}) {
			continue
		}
		waits = append(waits, s.Host.Go(func() {
			reply, err := s.Models.Embed(ctx, a.model, embedding.ForQuery, []string{s.q.Query})
			a.tokens = reply.Tokens
			if err == nil {
				a.vector = reply.Vectors[0]
			}
		}))
	}
	host.Wait(waits...)
}

// counted returns all languages of the documents of the bases, the most frequent first. It also returns the number of
// chunks of each base, and the number of documents.
func (s *search) counted(
	ctx context.Context,
) (languages []string, chunks map[string]int, documents int, err error) {
	sum := map[string]int64{}
	chunks = map[string]int{}
	for _, id := range slices.Sorted(maps.Keys(s.bases)) {
		n, err := s.Store.Counts(ctx, catalog.DocumentsOf(id))
		if err != nil {
			return nil, nil, 0, err
		}
		documents += int(foundIn(n))
		chunks[id] = int(n["chunks"])
		for what, count := range n {
			if language, is := strings.CutPrefix(what, ofLanguage("")); is && language != "" {
				sum[language] += count
			}
		}
	}
	for language, n := range sum {
		if n > 0 {
			languages = append(languages, language)
		}
	}
	slices.SortFunc(languages, func(a, b string) int { return cmp.Or(cmp.Compare(sum[b], sum[a]), cmp.Compare(a, b)) })
	return languages, chunks, documents, nil
}

// hits queries the index for candidates, drops those that must not be shown, and ranks the others. If too few are left,
// it queries for more. Candidates with too low a score count, too: later ones are not better. If enough were left out
// because their documents have enough hits, one further query finds hits of others.
func (s *search) hits(ctx context.Context) ([]ranking.Hit, error) {
	limit := max(firstLimit, 5*s.q.Limit)
	for round, before := 1, 0; ; round++ {
		s.stale, s.worth = false, 0
		lists, more, err := s.lists(ctx, min(limit, index.MaxLimit))
		if err != nil {
			return nil, err
		}
		s.rarity = ranking.Rarity(lists)
		hits, over, all, err := s.chosen(ctx, s.relevant(ranking.Rank(s.q.Mode, lists)))
		if err != nil {
			return nil, err
		}
		all = all || s.q.Floor && s.worth == before // a further query finds only hits below the floor
		all = all || len(hits) >= s.wanted || round > 1 && len(hits)+over >= s.q.Limit
		if round == maxRounds || !s.stale && (all || !more || limit >= index.MaxLimit) {
			return slices.DeleteFunc(hits, func(h ranking.Hit) bool { return h.Score < s.q.MinScore }), nil
		}
		if s.stale {
			clear(s.seen)
		} else {
			limit, before = limit*4, s.worth
		}
	}
}

// relevant are the hits above the floor, where the question has one.
func (s *search) relevant(ranked []ranking.Hit) []ranking.Hit {
	return slices.DeleteFunc(ranked, func(h ranking.Hit) bool {
		return s.q.Floor && !h.Whole && h.Keyword < leastKeyword && h.Semantic < leastCosine
	})
}

// chosen returns the first hits that the question admits, up to its limit. over is the number of hits that were left
// out because their documents have enough. all is true where the bound of pieces to read left hits out.
func (s *search) chosen(
	ctx context.Context, ranked []ranking.Hit,
) (hits []ranking.Hit, over int, all bool, err error) {
	most, of := mostPieces, map[string]int{}
	if s.q.Distinct {
		most = s.q.Limit + moreTexts
	}
	var sketches []sketch
	for _, h := range ranked {
		_, read := s.pieces[piece{h.Version, h.Index / perPiece}]
		reads := len(s.phrases) > 0 || s.q.Distinct
		switch {
		case len(hits) == s.q.Limit:
			return hits, over, false, nil
		case s.q.PerDocument > 0 && of[h.Document] == s.q.PerDocument:
			over++
			continue
		case reads && !read && len(s.pieces) >= most:
			all = true
			continue
		case reads:
			admitted, err := s.admits(ctx, h, &sketches)
			if err != nil {
				return nil, 0, false, err
			}
			if !admitted {
				continue
			}
		}
		of[h.Document]++
		hits = append(hits, h)
	}
	return hits, over, all, nil
}

// admits reads the text of a hit. It returns whether the text has the phrases of the query. Where hits must be
// distinct, a near-duplicate of a better hit is not admitted. It adds its sketch to theirs.
func (s *search) admits(ctx context.Context, h ranking.Hit, better *[]sketch) (bool, error) {
	c, there, err := s.chunk(ctx, h)
	if err != nil || !there {
		return false, err
	}
	title := s.seen[h.Document].Title
	if slices.ContainsFunc(s.phrases, func(phrase []string) bool {
		return !words.HasPhrase(c.Text, phrase) && !words.HasPhrase(c.Heading, phrase) &&
			!words.HasPhrase(title, phrase)
	}) {
		return false, nil
	}
	if s.q.Distinct {
		own := sketchOf(c)
		if slices.ContainsFunc(*better, own.same) {
			return false, nil
		}
		*better = append(*better, own)
	}
	return true, nil
}

// lists returns the index's result for each query, without candidates that must not be shown. more reports that the
// index may have more.
func (s *search) lists(ctx context.Context, limit int) (lists []ranking.List, more bool, err error) {
	for _, a := range s.asks {
		if a.vector == nil && len(s.terms) == 0 {
			continue
		}
		result, err := s.Index.Query(ctx, index.Query{
			Collections: a.collections, Documents: s.q.Filter.DocumentIDs, Terms: s.terms, Vector: a.vector,
			Limit: limit, Chunks: a.chunks,
		})
		if err != nil {
			return nil, false, err
		}
		more = more || result.More
		if s.q.Floor {
			s.worth += len(s.relevant(ranking.Rank(s.q.Mode, []ranking.List{{Result: result, Trust: a.trust}})))
		}
		if result.Candidates, err = s.visible(ctx, result.Candidates); err != nil {
			return nil, false, err
		}
		lists = append(lists, ranking.List{Result: result, Foreign: s.foreign(), Trust: a.trust})
	}
	return lists, more, nil
}

// trusted returns the weight of ranks by a model's vectors. Beside words, a lexical model counts nothing in a script
// without spaces, of which it knows nothing. Without words, every model counts.
func (s *search) trusted(model catalog.EmbeddingModel) ranking.Trust {
	trust := s.Models.trust(model)
	switch beside := s.q.Mode == ranking.Hybrid && len(s.terms) > 0; {
	case beside && trust == ranking.Lexical && words.MostlyUnspaced(s.q.Query):
		return ranking.Trust{}
	case !beside && trust.Weight == 0:
		return ranking.Full
	}
	return trust
}

// foreign are the documents that were seen in another language than the query's.
func (s *search) foreign() map[string]bool {
	list := map[string]bool{}
	for id, d := range s.seen {
		if d != nil && s.language != "" && d.Ready.Analysed() != "" && d.Ready.Analysed() != s.language {
			list[id] = true
		}
	}
	return list
}

// visible returns the candidates of present documents that the principal may read and the filter admits.
func (s *search) visible(ctx context.Context, candidates []index.Candidate) ([]index.Candidate, error) {
	var unknown []string
	for _, c := range candidates {
		if _, known := s.seen[c.Document]; !known {
			s.seen[c.Document] = nil
			unknown = append(unknown, c.Document)
		}
	}
	documents, err := record.Several[catalog.Document](ctx, s.Store, s.p.Scope(), unknown)
	if err != nil {
		return nil, err
	}
	for id, e := range documents {
		b, searched := s.bases[e.Value.KnowledgeBase]
		d := e.Value.In(b.Collection)
		if searched && mayOpen(s.p, b, d) == nil && s.q.Filter.admits(d) {
			s.seen[id] = &d
		}
	}
	return slices.DeleteFunc(candidates, func(c index.Candidate) bool {
		d := s.seen[c.Document]
		if d == nil {
			return true
		}
		current := d.Ready.Number == c.Number && d.Ready.Collection == c.Collection &&
			s.bases[d.KnowledgeBase].Collection == c.Collection
		if !current && d.Ready.Number > c.Number && !s.replaced[c.Version] {
			s.stale, s.replaced[c.Version] = true, true
		}
		return !current
	}), nil
}

// shown reads the chunks of the hits. A document that was replaced or deleted since is left out.
func (s *search) shown(ctx context.Context, ranked []ranking.Hit) ([]Hit, error) {
	hits := make([]Hit, 0, len(ranked))
	for _, r := range ranked {
		c, there, err := s.chunk(ctx, r)
		if err != nil {
			return nil, err
		}
		if !there {
			continue
		}
		d := s.seen[r.Document]
		matches := ranking.Matches(c.Text, s.terms, d.Ready.Analysed())
		hits = append(hits, Hit{
			Document: *d, Chunk: c, Score: r.Score, Keyword: r.Keyword, Semantic: r.Semantic,
			Highlights: ranking.Highlights(matches),
			Quote:      ranking.Quote(c.Text, s.q.Query, matches, s.rarity, citation.MaxQuoted),
		})
	}
	return hits, nil
}

// piece names a piece of a build of a document.
type piece struct {
	version index.Version
	number  int
}

// chunk reads the chunk of a hit. It reads the chunk's piece, each piece once. there is false if the document was
// replaced or deleted since.
func (s *search) chunk(ctx context.Context, h ranking.Hit) (c document.Chunk, there bool, err error) {
	at := piece{h.Version, h.Index / perPiece}
	chunks, read := s.pieces[at]
	if !read {
		chunks, err = s.Piece(ctx, s.seen[h.Document].Ready, at.number)
		if err != nil && !errors.Is(err, record.ErrConflict) {
			return c, false, err
		}
		s.pieces[at] = chunks
	}
	if n := h.Index % perPiece; n < len(chunks) {
		return chunks[n], true, nil
	}
	s.gone[h.Document] = h.Number
	return c, false, nil
}
