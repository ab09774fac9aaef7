package ingest

import (
	"context"
	"errors"
	"time"

	"agentplatform/internal/knowledge/knowledge"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
	"agentplatform/internal/text/index"
)

// Bounds of a piece of the restoration of an index.
const (
	restoredDocuments = 50
	restoredChunks    = 2000
)

// Jobs are the pieces of work that go on in the background, as the package removal takes them.
func (g *Ingester) Jobs() map[record.JobKind]func(context.Context, *record.Job) (time.Duration, error) {
	jobs := g.Knowledge.Jobs()
	jobs[record.RestoreIndex], jobs[record.RestoreBase] = g.restoreIndex, g.restoreBase
	return jobs
}

// Recover begins to put into the index what it lacks because it was lost. It is called after a start. The errors are
// those of a commit.
func (g *Ingester) Recover(ctx context.Context) error {
	if g.IndexID == "" {
		return nil
	}
	return g.putJob(ctx, record.Job{
		ID: record.DerivedID("restore", g.IndexID), Organization: record.NoOrganization, Kind: record.RestoreIndex,
		Subject: g.IndexID,
	})
}

// Refill marks all knowledge bases as missing in the index, and begins to restore them. It is for an index that was
// emptied and has the same id, so that Recover does not notice the loss. It may be called again after an error, which
// is one of the store.
func (g *Ingester) Refill(ctx context.Context) error {
	for after := ""; ; {
		scopes, next, err := g.scopes(ctx, after)
		if err != nil {
			return err
		}
		for _, scope := range scopes {
			if err := g.bases(ctx, scope, g.miss); err != nil {
				return err
			}
		}
		if after = next; after == "" {
			return g.Recover(ctx)
		}
	}
}

// miss marks a knowledge base as missing in the index.
func (g *Ingester) miss(ctx context.Context, b catalog.KnowledgeBase) error {
	_, err := record.Change(ctx, g.Store, record.System(), b.ID, 0, func(b *catalog.KnowledgeBase, _ *record.Tx) error {
		b.Index = ""
		return nil
	})
	if problem.Is(err, "not_found") {
		return nil
	}
	return err
}

// scopes are some of those that have knowledge bases; that of none is the first.
func (g *Ingester) scopes(ctx context.Context, after string) (scopes []record.Scope, next string, err error) {
	if after == "" {
		scopes = append(scopes, record.Of(record.NoOrganization))
	}
	page, err := record.Resources[catalog.Organization](ctx, g.Store, record.System(), after, restoredDocuments)
	for _, e := range page.Rows {
		scopes = append(scopes, record.Of(e.Value.ID))
	}
	return scopes, page.Next, err
}

// bases calls do with each knowledge base of a scope.
func (g *Ingester) bases(
	ctx context.Context, scope record.Scope, do func(context.Context, catalog.KnowledgeBase) error,
) error {
	for e, err := range record.All[catalog.KnowledgeBase](ctx, g.Store, scope, restoredDocuments) {
		if err != nil {
			return err
		}
		if err := do(ctx, e.Value); err != nil {
			return err
		}
	}
	return nil
}

// putJob stores a job, unless it is there.
func (g *Ingester) putJob(ctx context.Context, j record.Job) error {
	j.Due = g.Host.Now()
	tx := g.Store.Begin(g.Host.NewID())
	tx.PutJob(record.Fresh(j))
	if err := tx.Commit(ctx); !errors.Is(err, record.ErrConflict) {
		return err
	}
	return nil
}

// restoreIndex looks at all knowledge bases, and stores the jobs that restore those that lack something. The cursor is
// the organization where it goes on.
func (g *Ingester) restoreIndex(ctx context.Context, j *record.Job) (time.Duration, error) {
	if j.Subject != g.IndexID {
		return record.JobDone, nil // it was lost once more
	}
	scopes, next, err := g.scopes(ctx, j.Cursor)
	if err != nil {
		return 0, err
	}
	for _, scope := range scopes {
		if err := g.bases(ctx, scope, g.beginRestore); err != nil {
			return 0, err
		}
	}
	if j.Cursor = next; j.Cursor == "" {
		return record.JobDone, nil
	}
	return time.Millisecond, nil
}

// beginRestore stores the job that restores a knowledge base, if the index lacks it.
func (g *Ingester) beginRestore(ctx context.Context, b catalog.KnowledgeBase) error {
	if !g.Lost(b) {
		return nil
	}
	return g.putJob(ctx, record.Job{
		ID: g.RestoreJob(b.ID), Organization: b.Organization, Kind: record.RestoreBase, Subject: b.ID,
	})
}

// restoreBase puts some documents of a base into the index again, from their stored data and without a model. After the
// last one, the base names the index again.
func (g *Ingester) restoreBase(ctx context.Context, j *record.Job) (time.Duration, error) {
	b, err := record.Resource[catalog.KnowledgeBase](ctx, g.Store, record.System(), j.Subject)
	switch {
	case problem.Is(err, "not_found"), err == nil && (!g.Lost(b.Value) || j.ID != g.RestoreJob(j.Subject)):
		return record.JobDone, nil
	case err != nil:
		return 0, err
	}
	done, after := knowledge.Restored(*j)
	page, err := record.ResourcesWithin[catalog.Document](ctx, g.Store, record.System(), j.Subject, after,
		restoredDocuments)
	if err != nil {
		return 0, err
	}
	for i, chunks := 0, 0; i < len(page.Rows); i++ {
		d := page.Rows[i].Value
		if chunks > restoredChunks {
			knowledge.SetRestored(j, done, page.Rows[i-1].Value.ID)
			return time.Millisecond, nil
		}
		if d.Ready.Number == 0 {
			continue
		}
		for _, build := range []catalog.Build{d.Ready, d.Next} {
			if err := g.restore(ctx, b.Value, d, build); err != nil {
				return 0, err
			}
			chunks += build.Count
		}
		done++
	}
	if knowledge.SetRestored(j, done, page.Next); page.Next != "" {
		return time.Millisecond, nil
	}
	_, err = record.Change(ctx, g.Store, record.System(), j.Subject, 0, func(
		b *catalog.KnowledgeBase, _ *record.Tx,
	) error {
		b.Index = g.IndexID
		return nil
	})
	if err != nil && !problem.Is(err, "not_found") {
		return 0, err
	}
	return record.JobDone, nil
}

// restore puts a build of a document into the index again. If the build is replaced or deleted meanwhile, its job
// removes it: the job runs once more after [record.LateWrites].
func (g *Ingester) restore(
	ctx context.Context, b catalog.KnowledgeBase, d catalog.Document, build catalog.Build,
) error {
	if _, has := b.SettingsOf(build.Collection); !has {
		return nil
	}
	d.Work = build
	w := &work{Ingester: g, d: d, base: b, language: build.Words}
	var err error
	if w.language == "" { // it was indexed by an earlier version
		w.language, err = w.spoken(ctx)
	}
	if err == nil {
		err = w.put(ctx)
	}
	if errors.Is(err, record.ErrConflict) || errors.Is(err, index.ErrInvalid) {
		g.Log.Error("a document could not be put into the index again; reprocess it", "document_id", d.ID, "error", err)
		return nil
	}
	return err
}
