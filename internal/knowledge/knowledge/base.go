package knowledge

import (
	"context"
	"strings"

	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
)

// The bounds of chunks, in words of text.
const (
	defaultSize    = 220
	defaultOverlap = 40
	minSize        = 50
	maxSize        = 1000
)

// BaseEdit is a client's edit of a knowledge base; nil leaves a field as it is.
type BaseEdit struct {
	Name, Description *string
	Embedding         *catalog.EmbeddingModel // without prefixes, which are the deployment's
	Read              *catalog.EmbeddingModel // as an answer has it, with its prefixes; nil: they were not sent
	Size, Overlap     *int
	Language          *string
	GroupIDs          *[]string
}

// apply checks an edit as far as it can be checked by itself, and makes it.
func (e BaseEdit) apply(b *catalog.KnowledgeBase) error {
	set(&b.Name, e.Name)
	set(&b.Description, e.Description)
	set(&b.Chunking.Size, e.Size)
	set(&b.Chunking.Overlap, e.Overlap)
	if e.GroupIDs != nil {
		b.GroupIDs = sorted(*e.GroupIDs)
	}
	if e.Language != nil {
		var err error
		if b.Language, err = spoken("body.language", *e.Language); err != nil {
			return err
		}
	}
	if err := checkLength("body.name", b.Name, 1, maxName); err != nil {
		return err
	}
	if err := checkLength("body.description", b.Description, 0, maxDescription); err != nil {
		return err
	}
	if b.Chunking.Size < minSize || b.Chunking.Size > maxSize {
		return problem.InvalidField("body.chunking.size", "must be between %d and %d words", minSize, maxSize)
	}
	if b.Chunking.Overlap < 0 || 2*b.Chunking.Overlap >= b.Chunking.Size {
		return problem.InvalidField("body.chunking.overlap", "must be at least 0 and less than half of size")
	}
	return nil
}

// set sets a field that an edit names.
func set[T any](to, named *T) {
	if named != nil {
		*to = *named
	}
}

// CreateBase creates a knowledge base. It returns a problem of kind Invalid that names the field. This includes an
// embedding model that its provider refuses, with the reason, and one base too many. It returns a problem of kind
// Unavailable (embedding_unavailable) when the model cannot be reached.
func (k *Knowledge) CreateBase(
	ctx context.Context, p tenant.Principal, edit BaseEdit,
) (record.Entity[catalog.KnowledgeBase], error) {
	now, organization := k.now(), p.Organization
	b := catalog.KnowledgeBase{
		ID: k.Host.NewID(), Organization: organization, GroupIDs: []string{}, CreatedAt: now, UpdatedAt: now,
		Chunking: catalog.Chunking{Size: defaultSize, Overlap: defaultOverlap},
	}
	none := record.Entity[catalog.KnowledgeBase]{}
	if err := edit.apply(&b); err != nil {
		return none, err
	}
	if err := k.Tenants.CheckGroups(ctx, organization, "body.group_ids", nil, b.GroupIDs); err != nil {
		return none, err
	}
	there, err := k.Store.Counts(ctx, catalog.BasesOf(organization))
	if err != nil {
		return none, err
	}
	if there["bases"] >= MaxBases {
		return none, problem.InvalidField("body", "an organization has at most %d knowledge bases", MaxBases)
	}
	if b.Embedding, err = k.Models.choose(ctx, edit.Embedding, b.Embedding); err != nil {
		return none, err
	}
	b.Collection, b.Index = b.ID, k.IndexID
	return record.DespiteConflicts(ctx, k.Store, func() (record.Entity[catalog.KnowledgeBase], error) {
		tx := k.Store.Begin(b.ID)
		e := record.PutResource(tx, record.Fresh(b))
		tx.Count(ctx, organization, catalog.BasesOf(organization), b.ID, map[string]int64{"bases": 1})
		return e, tx.Commit(ctx)
	})
}

// EditBase changes a knowledge base. Other settings of its index begin a rebuild, in place of one that is under way.
//
// It returns a problem of one of these kinds:
//   - NotFound or Forbidden
//   - PreconditionFailed, when match is not the base's version
//   - Invalid, which names the field
//   - Unavailable (embedding_unavailable), when its new model cannot be reached
func (k *Knowledge) EditBase(
	ctx context.Context, p tenant.Principal, id string, match record.Match, edit BaseEdit,
) (record.Entity[catalog.KnowledgeBase], error) {
	return record.Change(ctx, k.Store, p.Scope(), id, match, func(b *catalog.KnowledgeBase, tx *record.Tx) error {
		if err := p.MayOpen("knowledge base", b.GroupIDs); err != nil {
			return err
		}
		before := *b
		b.UpdatedAt = k.now()
		if err := edit.apply(b); err != nil {
			return err
		}
		if err := k.Tenants.CheckGroups(ctx, b.Organization, "body.group_ids", before.GroupIDs,
			b.GroupIDs); err != nil {
			return err
		}
		failed := before.Rebuild != nil && before.Building() == ""
		if asRead := edit.Read != nil && *edit.Read == before.Embedding; edit.Embedding != nil && (failed || !asRead) {
			now := before.Embedding
			if failed {
				now = catalog.EmbeddingModel{} // the model is checked again
			}
			chosen, err := k.Models.choose(ctx, edit.Embedding, now)
			if err != nil {
				return err
			}
			b.Embedding = chosen
		}
		if b.Wanted() != before.Wanted() || failed && edit.namesSettings() {
			return k.changeSettings(ctx, tx, b, before.InForce())
		}
		return nil
	})
}

// namesSettings reports whether an edit names settings of the index.
func (e BaseEdit) namesSettings() bool {
	return e.Embedding != nil || e.Size != nil || e.Overlap != nil || e.Language != nil
}

// RemoveBase deletes a knowledge base with its documents. From then on they cannot be found or read. A background job,
// whose id is returned, removes them. It returns a problem of kind NotFound or Forbidden.
func (k *Knowledge) RemoveBase(ctx context.Context, p tenant.Principal, id string) (job string, err error) {
	_, err = record.Remove(ctx, k.Store, p.Scope(), id, func(
		e record.Entity[catalog.KnowledgeBase], tx *record.Tx,
	) error {
		if err := p.MayOpen("knowledge base", e.Value.GroupIDs); err != nil {
			return err
		}
		organization := e.Value.Organization
		tx.Count(ctx, organization, catalog.BasesOf(organization), id, map[string]int64{"bases": -1})
		job = k.Host.NewID()
		tx.PutJob(record.Fresh(record.Job{
			ID: job, Organization: organization, Kind: record.RemoveBase, Subject: id,
			Cursor: strings.Join(e.Value.Collections(), ","), Due: k.now(),
		}))
		return nil
	})
	return job, err
}

// Bases lists the knowledge bases that the principal may read, newest first. after is Page.Next of the page before; a
// page may be short and have a next one.
func (k *Knowledge) Bases(
	ctx context.Context, p tenant.Principal, after string, limit int,
) (record.Page[record.Entity[catalog.KnowledgeBase]], error) {
	return record.Filter(ctx, after, limit, filterRows(limit), func(
		ctx context.Context, after string, limit int,
	) (record.Page[record.Entity[catalog.KnowledgeBase]], error) {
		return record.Resources[catalog.KnowledgeBase](ctx, k.Store, p.Scope(), after, limit)
	}, func(e record.Entity[catalog.KnowledgeBase]) (record.Entity[catalog.KnowledgeBase], bool, error) {
		return e, p.MayOpen("knowledge base", e.Value.GroupIDs) == nil, nil
	})
}

// filterRows bounds how many rows of a listing are read for one page of wanted rows.
func filterRows(limit int) int { return 20 * max(limit, 50) }

// Counted has the numbers of a base's documents by status, and the numbers of their chunks and bytes.
type Counted struct {
	Documents, Chunks, Bytes           int64
	Pending, Processing, Ready, Failed int64

	Found int64            // documents that search finds
	Built map[string]int64 // of these, how many a rebuild has made again, by collection
}

// CountedIn reads the counts of a base.
func (k *Knowledge) CountedIn(ctx context.Context, base string) (Counted, error) {
	n, err := k.Store.Counts(ctx, catalog.DocumentsOf(base))
	c := Counted{
		Documents: n["documents"], Chunks: n["chunks"], Bytes: n["bytes"], Pending: n["pending"],
		Processing: n["processing"], Ready: n["ready"], Failed: n["failed"], Found: foundIn(n),
		Built: map[string]int64{},
	}
	for what, by := range n {
		if collection, is := strings.CutPrefix(what, built("")); is {
			c.Built[collection] = by
		}
	}
	return c, err
}
