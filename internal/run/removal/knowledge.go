package removal

import (
	"context"
	"errors"
	"strings"
	"time"

	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
	"agentplatform/internal/text/index"
)

// Search finds removed knowledge no longer. But an ingester that stalled may write after the removal, so blobs and
// index are cleared once more after [record.LateWrites]. The prefix late of a cursor marks this last time.
const late = "late:"

// waitsForLateWrites reports whether a job is done except for late writes.
func waitsForLateWrites(j record.Job) bool {
	return j.Kind == record.RemoveBody || strings.HasPrefix(j.Cursor, late)
}

// again returns the wait of a job: [record.LateWrites] after its first time, done after its second.
func again(j *record.Job) time.Duration {
	if strings.HasPrefix(j.Cursor, late) {
		return done
	}
	j.Cursor = late + j.Cursor
	return record.LateWrites
}

// blob deletes a value of the blob store, or a prefix with its values.
func (r *Remover) blob(ctx context.Context, j *record.Job) (time.Duration, error) {
	if err := r.Store.EraseBlob(ctx, j.Organization, j.Subject); err != nil {
		return 0, err
	}
	if !strings.HasSuffix(j.Subject, "/") {
		return done, nil // a value is stored once
	}
	return again(j), nil
}

// document clears the data of a deleted document.
func (r *Remover) document(ctx context.Context, j *record.Job) (time.Duration, error) {
	if err := r.unindex(ctx, j); err != nil {
		return 0, err
	}
	if err := record.EraseBlobs[catalog.Document](ctx, r.Store, j.Organization, j.Subject); err != nil {
		return 0, err
	}
	return again(j), nil
}

// build removes a build of a document from the index.
func (r *Remover) build(ctx context.Context, j *record.Job) (time.Duration, error) {
	if err := r.unindex(ctx, j); err != nil {
		return 0, err
	}
	return again(j), nil
}

// unindex removes the builds of the cursor from the index.
func (r *Remover) unindex(ctx context.Context, j *record.Job) error {
	for _, build := range strings.Fields(strings.TrimPrefix(j.Cursor, late)) {
		collection, number, ok := catalog.ParseIndexed(build)
		if !ok {
			continue
		}
		err := r.Index.Remove(ctx, index.Version{Collection: collection, Document: j.Subject, Number: number})
		if err != nil {
			return err
		}
	}
	return nil
}

// base deletes the documents of a deleted knowledge base, and its part of the index. The cursor of its last time has
// the names of the collections, with commas.
func (r *Remover) base(ctx context.Context, j *record.Job) (time.Duration, error) {
	if strings.HasPrefix(j.Cursor, late) {
		return done, r.dropCollections(ctx, strings.Split(strings.TrimPrefix(j.Cursor, late), ","))
	}
	collections, cursor, _ := strings.Cut(j.Cursor, " ")
	j.Cursor = cursor
	wait, err := r.pass(j, func(after string) (string, error) {
		return r.dropDocuments(ctx, j.Subject, after)
	})
	if err != nil {
		return 0, err
	}
	if wait != done {
		j.Cursor = collections + " " + j.Cursor
		return wait, nil
	}
	if err := r.Store.EraseCounts(ctx, catalog.DocumentsOf(j.Subject)); err != nil {
		return 0, err
	}
	if err := r.dropCollections(ctx, strings.Split(collections, ",")); err != nil {
		return 0, err
	}
	j.Cursor = collections
	return again(j), nil
}

func (r *Remover) dropCollections(ctx context.Context, names []string) error {
	for _, name := range names {
		if err := r.Index.Drop(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// dropDocuments deletes a page of the documents of a base, and returns the start of the next page. The index has them
// until their collection is dropped.
func (r *Remover) dropDocuments(ctx context.Context, base, after string) (next string, err error) {
	page, err := record.ResourcesWithin[catalog.Document](ctx, r.Store, record.System(), base, after, pageSize)
	return walk(page, err, func(e record.Entity[catalog.Document]) error {
		d := e.Value
		if d.Content != "" {
			reservation := catalog.Content{ID: d.Content, Organization: d.Organization}
			if err := record.EraseResource(ctx, r.Store, reservation, r.Host.NewID()); err != nil {
				return err
			}
		}
		if err := r.clearLate(ctx, d); err != nil {
			return err
		}
		if err := r.uncount(ctx, d); err != nil {
			return err
		}
		return record.EraseResource(ctx, r.Store, d, r.Host.NewID())
	})
}

// uncount ends the count of a document among those in ingestion, before the document is deleted.
func (r *Remover) uncount(ctx context.Context, seen catalog.Document) error {
	if seen.InIngestion() == nil {
		return nil
	}
	_, err := record.Change(ctx, r.Store, record.System(), seen.ID, 0, func(d *catalog.Document, tx *record.Tx) error {
		less := d.InIngestion()
		for what := range less {
			less[what] = -1
		}
		d.Ingestion.Counted = false
		tx.Count(ctx, d.Organization, catalog.IngestingOf(d.Organization), d.ID, less)
		return nil
	})
	if problem.Is(err, "not_found") {
		return nil
	}
	return err
}

// clearLate stores the job that clears a document's blobs once more, if an ingester may still work on it.
func (r *Remover) clearLate(ctx context.Context, d catalog.Document) error {
	now := r.Host.Now()
	if !d.Ingestion.Active() && now.Sub(d.Ingestion.RequestedAt) > 2*record.LateWrites {
		return nil
	}
	tx := r.Store.Begin(r.Host.NewID())
	tx.PutJob(record.Fresh(record.Job{
		ID: r.Host.NewID(), Organization: d.Organization, Kind: record.RemoveDocument, Subject: d.ID, Cursor: late,
		Due: now.Add(record.LateWrites),
	}))
	return tx.Commit(ctx)
}

// dropBases deletes an organization's knowledge bases with all their data.
func (r *Remover) dropBases(ctx context.Context, scope record.Scope) error {
	err := each(ctx, r, scope, func(e record.Entity[catalog.KnowledgeBase]) error {
		for after := ""; ; {
			next, err := r.dropDocuments(ctx, e.Value.ID, after)
			if err != nil {
				return err
			}
			if after = next; after == "" {
				break
			}
		}
		if err := r.Store.EraseCounts(ctx, catalog.DocumentsOf(e.Value.ID)); err != nil {
			return err
		}
		if err := r.dropCollections(ctx, e.Value.Collections()); err != nil {
			return err
		}
		return r.Executor.Write(ctx, func(tx *record.Tx) { record.DeleteResource(tx, e) })
	})
	if err != nil {
		return err
	}
	err = r.Store.EraseCounts(ctx, catalog.IngestingOf(scope.Organization()))
	return errors.Join(err, r.Store.EraseCounts(ctx, catalog.BasesOf(scope.Organization())))
}
