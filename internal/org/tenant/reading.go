package tenant

import (
	"context"
	"maps"
	"slices"

	"agentplatform/internal/org/catalog"
	"agentplatform/internal/store/citation"
	"agentplatform/internal/store/record"
)

// CitationFilter returns a function that finds the documents a principal may not read now. At each call it reads the
// documents, their knowledge bases and the principal's level and groups: a stream may call it long after it began.
func (t *Tenants) CitationFilter(p Principal) citation.Reader {
	return func(ctx context.Context, documents []string) (citation.Hidden, error) {
		if p.Level.Covers(LevelOperator) { // its user and key are of another organization
			return t.hidden(ctx, p, documents)
		}
		now, err := t.Sender(ctx, p.Organization, p.User, p.Key)
		if err != nil {
			return nil, err
		}
		now.Level = lower(p.Level, now.Level)
		return t.hidden(ctx, now, documents)
	}
}

// SenderReads is [Tenants.Reads] for the sender of a run. The sender is the user, with the key that the run was sent
// with, as both are at each call.
func (t *Tenants) SenderReads(organization, user, key string) citation.Reader {
	return t.CitationFilter(Principal{Organization: organization, User: user, Key: key, Level: LevelAdmin})
}

// hidden are those of some documents that a principal may not read. A document of a deleted base counts as deleted.
func (t *Tenants) hidden(ctx context.Context, p Principal, documents []string) (citation.Hidden, error) {
	there, err := record.Several[catalog.Document](ctx, t.store, p.Scope(), documents)
	if err != nil {
		return nil, err
	}
	within := map[string]bool{}
	for _, d := range there {
		within[d.Value.KnowledgeBase] = true
	}
	bases, err := record.Several[catalog.KnowledgeBase](ctx, t.store, p.Scope(), slices.Sorted(maps.Keys(within)))
	if err != nil {
		return nil, err
	}
	hidden := citation.Hidden{}
	for _, id := range documents {
		d, found := there[id]
		b, stands := bases[d.Value.KnowledgeBase]
		switch {
		case !found || !stands:
			hidden[id] = citation.Deleted
		case p.MayOpen("knowledge base", b.Value.GroupIDs) != nil, p.MayOpen("document", d.Value.GroupIDs) != nil:
			hidden[id] = citation.Restricted
		}
	}
	return hidden, nil
}
