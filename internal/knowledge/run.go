package knowledge

import (
	"context"

	"agentplatform/internal/catalog"
	"agentplatform/internal/ranking"
	"agentplatform/internal/record"
	"agentplatform/internal/tenant"
)

// SearchFor searches an agent's knowledge bases as the agent is set, for a principal who has sent it a message. Bases
// that are gone or that the principal may not read are left out. It returns the passages, best first and without
// numbers, and how many tokens of an embedding model that took. Its errors are those of [Knowledge.Search].
func (k *Knowledge) SearchFor(
	ctx context.Context, p tenant.Principal, spec catalog.AgentSpec, query string,
) ([]record.Source, int64, error) {
	how := spec.Knowledge.OrDefault()
	found, err := k.Search(ctx, p, Question{
		Query: query, Bases: append([]string{}, spec.KnowledgeBaseIDs...), OnlyReadable: true,
		Mode: ranking.Mode(how.Mode), Limit: how.Limit,
	})
	sources := make([]record.Source, 0, len(found.Hits))
	for _, h := range found.Hits {
		sources = append(sources, record.Source{
			Document: h.Document.ID, KnowledgeBase: h.Document.KnowledgeBase, Title: h.Document.Title,
			Text: h.Chunk.Text, Heading: h.Chunk.Heading, Score: h.Score,
			Chunk: record.Passage{
				Index: h.Chunk.Index, PageFrom: h.Chunk.PageFrom, PageTo: h.Chunk.PageTo, Start: h.Chunk.Start,
				End: h.Chunk.End,
			},
		})
	}
	return sources, found.Tokens, err
}
