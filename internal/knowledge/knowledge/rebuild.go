package knowledge

import (
	"context"
	"errors"
	"strings"
	"time"

	"agentplatform/internal/core/docstate"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
)

// Bounds of a rebuild.
const (
	// RebuildTime is how long a rebuild may take.
	RebuildTime = 24 * time.Hour
	atOnce      = 50 // documents that are rebuilt at a time, so that others get their turns
	atLeast     = 2  // the same while half of what an organization may have is in ingestion
	rebuildTick = time.Second
	pageSize    = 50
	pages       = 10 // of documents that one piece of a job reads
)

// late, before the cursor of a job, marks a job that is done except for late writes of a stalled ingester.
const late = "late:"

// Jobs are the background jobs of this package, in the form that package removal takes.
func (k *Knowledge) Jobs() map[record.JobKind]func(context.Context, *record.Job) (time.Duration, error) {
	return map[record.JobKind]func(context.Context, *record.Job) (time.Duration, error){
		record.RebuildBase: k.rebuild, record.RemoveCollection: k.removeCollection,
	}
}

// changeSettings adds the rebuild that new wanted settings need, in place of an earlier one. There is none when the
// wanted settings are in force, or when search finds no document that must be made again.
func (k *Knowledge) changeSettings(
	ctx context.Context, tx *record.Tx, b *catalog.KnowledgeBase, force catalog.Settings,
) error {
	k.discard(tx, *b, b.Building())
	b.Rebuild = nil
	if b.Wanted() == force {
		return nil
	}
	next := k.Host.NewID() // all vectors of a collection have the same dimensions
	n := tx.Counts(ctx, catalog.DocumentsOf(b.ID))
	if foundIn(n) == 0 {
		k.discard(tx, *b, b.Collection)
		b.Collection = next
		return tx.Err()
	}
	b.Rebuild = &catalog.Rebuild{Collection: next, InForce: force, BegunAt: k.now()}
	tx.PutJob(record.Fresh(record.Job{
		ID: next, Organization: b.Organization, Kind: record.RebuildBase, Subject: b.ID, Due: k.now(),
	}))
	return tx.Err()
}

// discard adds the job that removes a collection that the base does not name any more. An empty collection needs none.
func (k *Knowledge) discard(tx *record.Tx, b catalog.KnowledgeBase, collection string) {
	if collection == "" {
		return
	}
	tx.PutJob(record.Fresh(record.Job{
		ID: k.Host.NewID(), Organization: b.Organization, Kind: record.RemoveCollection, Subject: b.ID,
		Cursor: collection + " ", Due: k.now(),
	}))
}

// CancelRebuild makes the settings in force the wanted ones. It cancels a rebuild that is under way or has failed.
// Without one it does nothing. It returns a problem of kind NotFound or Forbidden.
func (k *Knowledge) CancelRebuild(ctx context.Context, p tenant.Principal, id string) error {
	_, err := record.Change(ctx, k.Store, p.Scope(), id, 0, func(b *catalog.KnowledgeBase, tx *record.Tx) error {
		if err := p.MayOpen("knowledge base", b.GroupIDs); err != nil {
			return err
		}
		if b.Rebuild == nil {
			return errNothing
		}
		force := b.InForce()
		b.Embedding, b.Chunking, b.Language = force.Embedding, force.Chunking, force.Language
		b.UpdatedAt = k.now()
		return k.changeSettings(ctx, tx, b, force)
	})
	return unless(err, errNothing)
}

// errNothing means that a change has nothing to change.
var errNothing = errors.New("knowledge: nothing to change")

// unless returns err, or nil where err is the given one.
func unless(err, none error) error {
	if errors.Is(err, none) {
		return nil
	}
	return err
}

// FailRebuild adds the failure of a collection's rebuild; why is for a person. The collection in force stays.
func (k *Knowledge) FailRebuild(ctx context.Context, tx *record.Tx, base, collection, why string) error {
	e, err := record.Resource[catalog.KnowledgeBase](ctx, k.Store, record.System(), base)
	if problem.Is(err, "not_found") || err == nil && e.Value.Building() != collection {
		return nil
	}
	if err != nil {
		return err
	}
	failed := *e.Value.Rebuild
	failed.Error = why + "; search continues with the previous settings. To try again, send embedding_model, " +
		"chunking or language again; to go back, DELETE /knowledge-bases/{id}/rebuild"
	e.Value.Rebuild = &failed
	record.PutResource(tx, e)
	k.discard(tx, e.Value, collection)
	return nil
}

// rebuild is a piece of a rebuild: it rebuilds some documents at a time, until the new collection is complete. Then
// that collection is in force.
func (k *Knowledge) rebuild(ctx context.Context, j *record.Job) (time.Duration, error) {
	e, err := record.Resource[catalog.KnowledgeBase](ctx, k.Store, record.System(), j.Subject)
	b := e.Value
	switch {
	case problem.Is(err, "not_found"), err == nil && b.Building() != j.ID:
		return record.JobDone, nil // replaced, cancelled, or done
	case err != nil:
		return 0, err
	case k.now().Sub(b.Rebuild.BegunAt) >= RebuildTime:
		return k.outOfTime(ctx, j)
	}
	n, err := k.Store.Counts(ctx, catalog.DocumentsOf(b.ID))
	if err != nil {
		return 0, err
	}
	if n[built(j.ID)] >= foundIn(n) && !k.Lost(b) {
		err := k.switchOver(ctx, j)
		if err == nil {
			return record.JobDone, nil
		}
		return rebuildTick, unless(err, errNothing)
	}
	return rebuildTick, k.feed(ctx, b, j, int(n[building(j.ID)]))
}

func (k *Knowledge) outOfTime(ctx context.Context, j *record.Job) (time.Duration, error) {
	_, err := record.DespiteConflicts(ctx, k.Store, func() (none struct{}, err error) {
		tx := k.Store.Begin(k.Host.NewID())
		if err = k.FailRebuild(ctx, tx, j.Subject, j.ID, "the rebuild took longer than a day"); err == nil {
			err = tx.Commit(ctx)
		}
		return none, err
	})
	return record.JobDone, err
}

// switchOver makes the new collection the one in force. The same commit checks that it has all documents that search
// finds. It returns errNothing when it has not.
func (k *Knowledge) switchOver(ctx context.Context, j *record.Job) error {
	_, err := record.Change(ctx, k.Store, record.System(), j.Subject, 0, func(
		b *catalog.KnowledgeBase, tx *record.Tx,
	) error {
		n := tx.Counts(ctx, catalog.DocumentsOf(b.ID))
		if tx.Err() != nil {
			return tx.Err()
		}
		if b.Building() != j.ID || n[built(j.ID)] != foundIn(n) {
			return errNothing
		}
		k.discard(tx, *b, b.Collection)
		b.Collection, b.Rebuild = j.ID, nil
		return nil
	})
	return err
}

// feed goes through the documents and begins to rebuild as many as there is room for. The cursor is the document where
// it has stopped.
func (k *Knowledge) feed(ctx context.Context, b catalog.KnowledgeBase, j *record.Job, busy int) error {
	if j.Cursor == "" && busy > atOnce/2 {
		return nil // the rest is under way
	}
	n, err := k.Store.Counts(ctx, catalog.IngestingOf(b.Organization))
	if err != nil {
		return err
	}
	most := atOnce
	if k.Ingesting > 0 {
		most = min(atOnce, max(atLeast, busy+k.Ingesting/2-int(n[""])))
	}
	for range pages {
		page, err := record.ResourcesWithin[catalog.Document](ctx, k.Store, record.System(), b.ID, j.Cursor, pageSize)
		if err != nil {
			return err
		}
		for _, e := range page.Rows {
			if busy >= most {
				return nil
			}
			begun, err := k.makeAnew(ctx, b, e.Value)
			if err != nil {
				return err
			}
			if begun {
				busy++
			}
			j.Cursor = e.Value.ID
		}
		if j.Cursor = page.Next; j.Cursor == "" {
			return nil
		}
	}
	return nil
}

// makeAnew begins to rebuild a document, if it must be; base and document are as they were read before.
func (k *Knowledge) makeAnew(ctx context.Context, b catalog.KnowledgeBase, seen catalog.Document) (bool, error) {
	if !mustBeAnew(seen, b) {
		return false, nil
	}
	e, err := record.Change(ctx, k.Store, record.System(), seen.ID, 0, func(d *catalog.Document, tx *record.Tx) error {
		before := *d
		now, err := record.Resource[catalog.KnowledgeBase](ctx, k.Store, record.System(), b.ID)
		if err != nil {
			return err
		}
		record.Unchanged(tx, now) // the rebuild may have been replaced since it was read
		begun, err := k.Anew(tx, d, now.Value)
		if err == nil && !begun {
			err = errNothing
		}
		Count(ctx, tx, &before, d)
		return err
	})
	if errors.Is(err, errNothing) || problem.Is(err, "not_found") {
		return false, nil
	}
	if err == nil {
		k.wake(ctx, e.Value)
	}
	return err == nil, err
}

// mustBeAnew reports whether a document must be made again for the rebuild of its base, and can be now. A document in
// ingestion is rebuilt after that.
func mustBeAnew(d catalog.Document, b catalog.KnowledgeBase) bool {
	d = d.In(b.Collection)
	old := d.Work.Anew && d.Work.Collection != b.Building() // of a rebuild that was replaced
	return b.Building() != "" && d.Ready.Number > 0 && d.Next.Collection != b.Building() &&
		(!d.Ingestion.Active() || old)
}

// Anew begins to make a document again for the rebuild of its base, if it must be. The text is kept. The chunks are
// kept where they are cut as before, and the vectors where they are of the same model.
func (k *Knowledge) Anew(tx *record.Tx, d *catalog.Document, b catalog.KnowledgeBase) (begun bool, err error) {
	if !mustBeAnew(*d, b) {
		return false, nil
	}
	takeNext(tx, d, b.Collection)
	dropNext(tx, d)
	kept := d.Ready.Extracted()
	kept.Collection, kept.Anew = b.Building(), true
	from := docstate.Chunking
	if b.Chunking == b.InForce().Chunking {
		kept.Chunks, kept.Count = d.Ready.Chunks, d.Ready.Count
		if b.Embedding == b.InForce().Embedding {
			kept.Vectors, kept.Dimensions, from = d.Ready.Vectors, d.Ready.Dimensions, docstate.Indexing
		}
	}
	return true, k.beginWith(tx, d, docstate.Begin{From: from, Quiet: true}, kept)
}

// takeNext stores the document as [catalog.Document.In] returns it, and drops the previous ready build. The index loses
// that build with its collection.
func takeNext(tx *record.Tx, d *catalog.Document, collection string) {
	before := *d
	if *d = d.In(collection); d.Ready.Number != before.Ready.Number {
		drop(tx, before, []catalog.Build{before.Ready}, d.Ready, d.Work)
	}
}

// dropNext drops the build of a rebuild that was replaced or has failed.
func dropNext(tx *record.Tx, d *catalog.Document) {
	drop(tx, *d, []catalog.Build{d.Next}, d.Ready, d.Work)
	d.Next = catalog.Build{}
}

// removeCollection removes a collection that the base does not name any more, from the documents and from the index,
// and once more after [record.LateWrites]. The cursor has the collection, and the document where it goes on.
func (k *Knowledge) removeCollection(ctx context.Context, j *record.Job) (time.Duration, error) {
	cursor, second := strings.CutPrefix(j.Cursor, late)
	collection, after, _ := strings.Cut(cursor, " ")
	base, err := record.Resource[catalog.KnowledgeBase](ctx, k.Store, record.System(), j.Subject)
	switch {
	case problem.Is(err, "not_found"): // its documents go with it
	case err != nil:
		return 0, err
	default:
		page, err := record.ResourcesWithin[catalog.Document](ctx, k.Store, record.System(), j.Subject, after, pageSize)
		if err != nil {
			return 0, err
		}
		for _, e := range page.Rows {
			if err := k.clear(ctx, base.Value, collection, e.Value); err != nil {
				return 0, err
			}
		}
		if page.Next != "" {
			j.Cursor = strings.TrimSuffix(j.Cursor, after) + page.Next
			return time.Millisecond, nil
		}
	}
	if err := k.Index.Drop(ctx, collection); err != nil {
		return 0, err
	}
	if second {
		return record.JobDone, nil
	}
	j.Cursor = late + collection + " "
	return record.LateWrites, nil
}

// clear takes a collection that the base does not name any more out of a document. seen is the document as it was
// listed. An ingestion for that collection ends by itself.
func (k *Knowledge) clear(
	ctx context.Context, b catalog.KnowledgeBase, collection string, seen catalog.Document,
) error {
	names := func(d catalog.Document) bool {
		return d.Next.Number > 0 && (d.Next.Collection == collection || d.Next.Collection == b.Collection)
	}
	if !names(seen) {
		return nil
	}
	_, err := record.Change(ctx, k.Store, record.System(), seen.ID, 0, func(d *catalog.Document, tx *record.Tx) error {
		before := *d
		if !names(before) {
			return errNothing
		}
		if takeNext(tx, d, b.Collection); d.Next.Number > 0 {
			dropNext(tx, d)
		}
		Count(ctx, tx, &before, d)
		return nil
	})
	if problem.Is(err, "not_found") {
		return nil
	}
	return unless(err, errNothing)
}

// The states of a base's index.
const (
	IndexReady      = "ready"
	IndexRebuilding = "rebuilding"
	IndexFailed     = "failed"
)

// IndexState is the state of a base's index: what search finds, and the progress of a rebuild.
type IndexState struct {
	State       string
	Error       string // of a rebuild that has failed, for a person
	Done, Total int64  // documents
	Settings    catalog.Settings
}

// StateOf returns the state of a base's index. n are the base's counts.
func (k *Knowledge) StateOf(ctx context.Context, b catalog.KnowledgeBase, n Counted) (IndexState, error) {
	s := IndexState{State: IndexReady, Done: n.Found, Total: n.Found, Settings: b.InForce()}
	switch {
	case k.Lost(b):
		j, _, err := k.Store.Job(ctx, k.RestoreJob(b.ID))
		done, _ := Restored(j.Value)
		s.State, s.Done = IndexRebuilding, min(done, n.Found)
		return s, err
	case b.Rebuild == nil:
	case b.Rebuild.Error != "":
		s.State, s.Error, s.Done = IndexFailed, b.Rebuild.Error, n.Built[b.Rebuild.Collection]
	default:
		s.State, s.Done = IndexRebuilding, n.Built[b.Rebuild.Collection]
	}
	return s, nil
}
