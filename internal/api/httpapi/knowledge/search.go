package knowledge

import (
	"context"
	"encoding/json"
	"time"

	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/knowledge/knowledge"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/text/ranking"
)

func (h *handlers) searchRoutes() {
	httpapi.SchemaOf[condition](h.Server)
	r := h.routes()
	r.Write = tenant.LevelRead
	httpapi.Route(r, "POST /search", "search", "Find chunks of documents by words and by meaning", h.search)
}

// condition describes the conditions on metadata apart from a single value.
type condition struct {
	In  []json.RawMessage `json:"in,omitempty" nullable:"false" shape:"string|number|boolean"`
	GTE json.RawMessage   `json:"gte,omitempty" shape:"string|number"`
	LTE json.RawMessage   `json:"lte,omitempty" shape:"string|number"`
}

type searchBody struct {
	_ struct{} `json:"-" additionalProperties:"false"`

	Query            string    `json:"query" required:"true" minLength:"1" maxLength:"4000" doc:"hits contain text in \"quotation marks\" exactly, except in mode semantic"`
	KnowledgeBaseIDs *[]string `json:"knowledge_base_ids,omitempty" doc:"at most 20; by default all that the key may read"`
	Mode             string    `json:"mode,omitempty" enum:"hybrid,semantic,keyword" default:"hybrid"`
	Limit            int       `json:"limit,omitempty" minimum:"1" maximum:"50" default:"10"`
	Filter           *struct {
		_ struct{} `json:"-" additionalProperties:"false"`

		DocumentIDs *[]string                  `json:"document_ids,omitempty"`
		Metadata    map[string]json.RawMessage `json:"metadata,omitempty" shape:"string|number|boolean|Condition" doc:"a condition for each name: a value, {in: […]} or {gte, lte}"`
	} `json:"filter,omitempty"`
	MinScore float64 `json:"min_score,omitempty" minimum:"0" maximum:"1"`
}

func (b searchBody) question() (knowledge.Question, error) {
	q := knowledge.Question{Query: b.Query, Mode: ranking.Mode(b.Mode), Limit: b.Limit, MinScore: b.MinScore,
		Phrases: true}
	if b.KnowledgeBaseIDs != nil {
		q.Bases = append([]string{}, *b.KnowledgeBaseIDs...)
	}
	if b.Filter == nil {
		return q, nil
	}
	if b.Filter.DocumentIDs != nil {
		q.Filter.DocumentIDs = append([]string{}, *b.Filter.DocumentIDs...)
	}
	q.Filter.Metadata = map[string]knowledge.Condition{}
	for name, raw := range b.Filter.Metadata {
		c, err := knowledge.ParseCondition("body.filter.metadata."+httpapi.Short(name), raw)
		if err != nil {
			return q, err
		}
		q.Filter.Metadata[name] = c
	}
	return q, nil
}

type scoresView struct {
	Keyword  float64 `json:"keyword"`
	Semantic float64 `json:"semantic"`
}

type placeView struct {
	Index    int     `json:"index"`
	PageFrom *int    `json:"page_from,omitempty"`
	PageTo   *int    `json:"page_to,omitempty"`
	Start    int     `json:"start" doc:"position in the extracted text, in characters"`
	End      int     `json:"end"`
	Heading  *string `json:"heading,omitempty"`
}

type hitView struct {
	Score           float64                    `json:"score" minimum:"0" maximum:"1"`
	Scores          scoresView                 `json:"scores"`
	Context         string                     `json:"context" doc:"the headings and table headers above the text, one per line"`
	Text            string                     `json:"text"`
	Highlights      [][2]int                   `json:"highlights" doc:"[start, end] positions in text, in characters"`
	DocumentID      string                     `json:"document_id"`
	KnowledgeBaseID string                     `json:"knowledge_base_id"`
	Title           string                     `json:"title"`
	Source          sourceView                 `json:"source"`
	Metadata        map[string]json.RawMessage `json:"metadata" shape:"string|number|boolean"`
	Chunk           placeView                  `json:"chunk"`
}

type foundView struct {
	Hits     []hitView `json:"hits" doc:"best first"`
	Mode     string    `json:"mode" enum:"hybrid,semantic,keyword"`
	Degraded any       `json:"degraded" shape:"'semantic'|string[]|null" doc:"null: complete. semantic: no embedding model could be reached. A list: the models that could not be reached"`
	TookMS   int64     `json:"took_ms"`
}

func viewHit(hit knowledge.Hit) hitView {
	c, d := hit.Chunk, hit.Document
	v := hitView{
		Score: hit.Score, Scores: scoresView{hit.Keyword, hit.Semantic}, Context: c.Above(), Text: c.Text,
		Highlights: hit.Highlights, DocumentID: d.ID, KnowledgeBaseID: d.KnowledgeBase, Title: d.Title,
		Source:   viewSource(d.Source),
		Metadata: viewMetadata(d.Metadata),
		Chunk: placeView{
			Index: c.Index, PageFrom: httpapi.Optional(c.PageFrom), PageTo: httpapi.Optional(c.PageTo),
			Start: c.Start, End: c.End, Heading: httpapi.Optional(c.Heading),
		},
	}
	if v.Highlights == nil {
		v.Highlights = [][2]int{}
	}
	return v
}

func (h *handlers) search(
	ctx context.Context, p tenant.Principal, in *struct{ Body searchBody },
) (*answer[foundView], error) {
	began := h.Knowledge.Host.Elapsed()
	q, err := in.Body.question()
	if err != nil {
		return nil, err
	}
	q.OwnBudgets = true
	found, err := h.Knowledge.Search(ctx, p, q)
	h.charge(ctx, p, found)
	if err != nil {
		return nil, err
	}
	v := foundView{Hits: httpapi.Each(found.Hits, viewHit), Mode: string(found.Mode), Degraded: degraded(found)}
	v.TookMS = (h.Knowledge.Host.Elapsed() - began).Round(time.Millisecond).Milliseconds()
	return httpapi.Body(v), nil
}

// charge charges a search's tokens to its user. The hits are returned even when the charge cannot be stored.
func (h *handlers) charge(ctx context.Context, p tenant.Principal, f knowledge.Found) {
	if err := h.Knowledge.ChargeSearch(ctx, p, f.Paid); err != nil {
		h.Log.Error("the tokens of a search could not be charged", "organization_id", p.Organization, "user_id",
			p.User, "tokens", f.Paid.Tokens(), "error", err)
	}
}

// degraded names the models that did not answer.
func degraded(f knowledge.Found) any {
	switch {
	case len(f.Degraded) == 0:
		return nil
	case f.Models == len(f.Degraded):
		return "semantic"
	}
	return httpapi.Each(f.Degraded, catalog.EmbeddingModel.FullName)
}
