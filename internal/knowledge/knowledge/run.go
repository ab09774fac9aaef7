package knowledge

import (
	"context"

	"agentplatform/internal/org/catalog"
	"agentplatform/internal/store/record"
	"agentplatform/internal/text/ranking"
)

// SearchForRun searches an agent's knowledge bases with the agent's settings, for the sender of a run. The sender is
// the user with the key that sent the run, both with their present rights. Bases that are gone or that the sender may
// not read are left out. It returns the passages, best first and without numbers, and the tokens that embedding models
// used. Its errors are those of [Knowledge.Search].
func (k *Knowledge) SearchForRun(
	ctx context.Context, organization, user, key string, spec catalog.AgentSpec, query string,
) ([]record.Source, record.Embeddings, error) {
	p, err := k.Tenants.Sender(ctx, organization, user, key)
	if err != nil {
		return nil, nil, err
	}
	how := spec.Knowledge.OrDefault()
	least := 0.0
	if how.MinScore != nil {
		least = *how.MinScore
	}
	found, err := k.Search(ctx, p, Question{
		Query: query, Bases: append([]string{}, spec.KnowledgeBaseIDs...), OnlyReadable: true,
		Mode: ranking.Mode(how.Mode), Limit: how.Limit, MinScore: least, Floor: how.MinScore == nil,
		PerDocument: how.MaxPerDocument, Distinct: true,
	})
	sources := make([]record.Source, 0, len(found.Hits))
	for _, h := range found.Hits {
		sources = append(sources, record.Source{
			Document: h.Document.ID, KnowledgeBase: h.Document.KnowledgeBase, Title: h.Document.Title,
			Text: h.Chunk.Text, Heading: h.Chunk.Heading, Context: h.Chunk.Above(), Score: h.Score,
			Quote: h.Quote,
			Chunk: record.Passage{
				Index: h.Chunk.Index, PageFrom: h.Chunk.PageFrom, PageTo: h.Chunk.PageTo, Start: h.Chunk.Start,
				End: h.Chunk.End,
			},
		})
	}
	return sources, found.Paid, err
}
