package knowledge

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
	"time"

	"agentplatform/internal/core/docstate"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/platform/trace"
	"agentplatform/internal/store/blob"
	"agentplatform/internal/store/record"
	"agentplatform/internal/text/document"
)

// NewDocument describes a document before its ingestion.
type NewDocument struct {
	Title       string // empty: that of the document or its source
	Source      catalog.Source
	ContentType string
	Language    string // Auto, or as ISO 639-1 has it; empty: Auto
	Metadata    map[string]json.RawMessage
	GroupIDs    []string
}

// check returns a problem of kind Invalid that names the field. prefix is that of the field, like "body.".
func (n NewDocument) check(prefix string) error {
	if err := checkLength(prefix+"title", n.Title, 0, MaxTitle); err != nil {
		return err
	}
	if _, err := spoken(prefix+"language", cmp.Or(n.Language, Auto)); err != nil {
		return err
	}
	if len(n.GroupIDs) > maxNarrowing {
		return problem.InvalidField(prefix+"group_ids", "must name at most %d groups", maxNarrowing)
	}
	return checkMetadata(prefix+"metadata", n.Metadata)
}

// Check returns nil if a document with this description may be added to a base. It is called before the document's
// bytes arrive. prefix is that of the fields, like "body.". It returns the base, or a problem of kind NotFound,
// Forbidden, Invalid that names the field, or Limited (budget_exhausted) when the budget for its embeddings is used up.
func (k *Knowledge) Check(
	ctx context.Context, p tenant.Principal, base, prefix string, n NewDocument,
) (catalog.KnowledgeBase, error) {
	b, err := k.Base(ctx, p, base)
	if err == nil {
		err = n.check(prefix)
	}
	if err == nil {
		err = k.Tenants.CheckGroups(ctx, b.Value.Organization, prefix+"group_ids", nil, n.GroupIDs)
	}
	if err == nil && n.Source.Kind == catalog.FromURL {
		err = k.CheckURL(n.Source.URL)
	}
	if err == nil {
		err = k.MayEmbed(ctx, b.Value.InForce().Embedding, p.Organization, p.User)
	}
	if err != nil {
		return b.Value, err
	}
	there, err := k.Store.Counts(ctx, catalog.DocumentsOf(base))
	if err == nil && there["documents"] >= int64(k.Documents) {
		err = problem.InvalidField("body", "a knowledge base has at most %d documents", k.Documents)
	}
	return b.Value, err
}

// Received are bytes that a client sent for a document. [Knowledge.Discard] deletes them when no document has them.
type Received struct {
	id     string // of the document
	stored record.Stored
	sum    hash.Hash
	added  bool // a document has them, or may have them
}

// Receive stores bytes for a document of an organization; without an id it is a new one. It returns a problem of kind
// TooLarge above [MaxBytes], or the error of reading the bytes.
func (k *Knowledge) Receive(ctx context.Context, organization, id string, bytes io.Reader) (*Received, error) {
	r := &Received{id: id, sum: sha256.New()}
	if id == "" {
		r.id = k.Host.NewID()
	}
	var err error
	r.stored, err = k.Store.StoreBlob(ctx, catalog.Document{ID: r.id, Organization: organization}, "source",
		io.TeeReader(bytes, r.sum), MaxBytes)
	if errors.Is(err, blob.ErrTooLarge) {
		err = problem.New(problem.TooLarge, "payload_too_large",
			"the document has more than the limit of %d bytes", MaxBytes)
	}
	return r, err
}

func (r *Received) hash() string { return hex.EncodeToString(r.sum.Sum(nil)) }

// Discard deletes bytes that no document has. Where it fails, a job deletes them after a while.
func (k *Knowledge) Discard(ctx context.Context, list ...*Received) {
	for _, r := range list {
		if r != nil && !r.added {
			_ = k.Store.Discard(context.WithoutCancel(ctx), r.stored)
		}
	}
}

// Add adds a document to a base that [Knowledge.Check] has returned, and starts its ingestion. bytes is nil for a
// document that is fetched.
//
// The base may already have the same bytes for the same groups, in a document that the principal may read. Then Add
// returns that document, and duplicate is true. If that one had failed, it is ingested again. Add returns a problem of
// kind Limited (share_exceeded) where too many documents are in ingestion.
func (k *Knowledge) Add(
	ctx context.Context, p tenant.Principal, b catalog.KnowledgeBase, n NewDocument, bytes *Received,
) (e record.Entity[catalog.Document], duplicate bool, err error) {
	d := k.newDocument(p, b, n, bytes)
	e, err = record.DespiteConflicts(ctx, k.Store, func() (record.Entity[catalog.Document], error) {
		if _, err := k.Base(ctx, p, b.ID); err != nil { // it may have been deleted while the bytes came
			return record.Entity[catalog.Document]{}, err
		}
		var other record.Entity[catalog.Document]
		if other, duplicate, err = k.same(ctx, p, b, &d); err != nil || duplicate {
			return other, err
		}
		if err := k.mayIngest(ctx, catalog.Document{Organization: d.Organization, UserID: d.UserID}); err != nil {
			return other, err
		}
		tx := k.Store.Begin(d.ID)
		created := record.PutResource(tx, record.Fresh(d))
		if bytes != nil {
			tx.NameBlob(bytes.stored)
		}
		k.reserve(tx, d)
		Count(ctx, tx, nil, &d)
		return created, tx.Commit(ctx)
	})
	if _, refused := problem.As(err); bytes != nil {
		bytes.added = !refused && !duplicate
	}
	switch {
	case err != nil:
		return e, false, err
	case duplicate && e.Value.Ingestion.Status == docstate.Failed:
		e, err = k.Reprocess(ctx, p, b.ID, e.Value.ID)
	case !duplicate:
		trace.Root(ctx, e.Value.ID)
		k.wake(ctx, e.Value)
	}
	return e, duplicate, err
}

func (k *Knowledge) newDocument(
	p tenant.Principal, b catalog.KnowledgeBase, n NewDocument, bytes *Received,
) catalog.Document {
	now := k.now()
	d := catalog.Document{
		Organization: b.Organization, KnowledgeBase: b.ID, UserID: p.User, Title: n.Title,
		Titled: n.Title != "", Source: n.Source, ContentType: n.ContentType, Metadata: n.Metadata,
		GroupIDs: sorted(n.GroupIDs), CreatedAt: now, UpdatedAt: now,
	}
	if n.Language != Auto {
		d.Language = n.Language
	}
	nameBySource(&d)
	if bytes == nil {
		d.ID = k.Host.NewID()
	} else {
		d.ID, d.Bytes, d.Size, d.SHA256 = bytes.id, bytes.stored.Key, bytes.stored.Size, bytes.hash()
		d.Content = contentID(d)
	}
	d.Ingestion, _ = docstate.Apply(d.Ingestion, now, docstate.Begin{From: firstStage(d)}) // never refused
	return d
}

// nameBySource gives a document without a title one by its source. Its text may have a better one.
func nameBySource(d *catalog.Document) {
	if !d.Titled {
		d.Title = document.Cut(cmp.Or(d.Source.Name, d.Source.URL, "Untitled"), MaxTitle)
	}
}

func firstStage(d catalog.Document) docstate.Stage {
	if d.Source.Kind == catalog.FromURL {
		return docstate.Fetching
	}
	return docstate.Extracting
}

// contentID is the id of the reservation of a document's bytes: of the same bytes for the same groups in the same base.
func contentID(d catalog.Document) string {
	if d.SHA256 == "" {
		return ""
	}
	return record.DerivedID("content", fmt.Sprintf("%s/%s/%s", d.KnowledgeBase, d.SHA256,
		strings.Join(sorted(d.GroupIDs), ",")))
}

// same returns the document that has the same bytes, when the principal may read it. When another one has them, the
// new document makes no reservation.
func (k *Knowledge) same(
	ctx context.Context, p tenant.Principal, b catalog.KnowledgeBase, d *catalog.Document,
) (e record.Entity[catalog.Document], there bool, err error) {
	if d.Content == "" {
		return e, false, nil
	}
	c, err := record.Resource[catalog.Content](ctx, k.Store, p.Scope(), d.Content)
	if problem.Is(err, "not_found") {
		return e, false, nil
	}
	if err != nil || c.Value.Document == d.ID { // an earlier attempt was done
		return e, false, err
	}
	e, err = record.Resource[catalog.Document](ctx, k.Store, p.Scope(), c.Value.Document)
	switch {
	case problem.Is(err, "not_found"):
		return e, false, record.ErrConflict // both go in one commit: it went in between
	case err != nil:
		return e, false, err
	case mayOpen(p, b, e.Value) == nil:
		return e, true, nil
	}
	d.Content = ""
	return e, false, nil
}

// reserve adds the reservation of a document's bytes.
func (k *Knowledge) reserve(tx *record.Tx, d catalog.Document) {
	if d.Content != "" {
		record.PutResource(tx, record.Fresh(catalog.Content{
			ID: d.Content, Organization: d.Organization, Document: d.ID,
		}))
	}
}

// release adds the end of the reservation of a document's bytes.
func (k *Knowledge) release(ctx context.Context, tx *record.Tx, d catalog.Document) error {
	if d.Content == "" {
		return nil
	}
	c, err := record.Resource[catalog.Content](ctx, k.Store, record.System(), d.Content)
	if problem.Is(err, "not_found") {
		return nil
	}
	if err == nil && c.Value.Document == d.ID {
		record.DeleteResource(tx, c)
	}
	return err
}

// moveReservation reserves a document's bytes again, after an edit of its groups or new bytes. Where another document
// has them, this one has no reservation.
func (k *Knowledge) moveReservation(ctx context.Context, tx *record.Tx, d *catalog.Document) error {
	now := contentID(*d)
	if now == d.Content {
		return nil
	}
	if err := k.release(ctx, tx, *d); err != nil {
		return err
	}
	d.Content = ""
	if now == "" {
		return nil
	}
	there, err := record.Existing[catalog.Content](ctx, k.Store, record.System(), []string{now})
	if err != nil || len(there) > 0 {
		return err
	}
	d.Content = now
	k.reserve(tx, *d)
	return nil
}

// DocumentEdit is a client's edit of a document; nil leaves a field as it is. The title or language that the document
// shows also changes nothing: a client may send it back as it was read.
type DocumentEdit struct {
	Title    *string
	Language *string
	Metadata func(map[string]json.RawMessage) (map[string]json.RawMessage, error)
	GroupIDs *[]string
}

// EditDocument changes a document. Search follows the change from the answer on, except that a new title or language is
// indexed in the background.
//
// It returns a problem of one of these kinds:
//   - NotFound or Forbidden
//   - PreconditionFailed, when match is not the document's version
//   - Invalid, which names the field
//   - Limited (share_exceeded), when the document must be indexed again and too many documents are in ingestion
func (k *Knowledge) EditDocument(
	ctx context.Context, p tenant.Principal, base, id string, match record.Match, edit DocumentEdit,
) (record.Entity[catalog.Document], error) {
	seen, err := k.Document(ctx, p, base, id)
	if err != nil {
		return record.Entity[catalog.Document]{}, err
	}
	e, err := record.Change(ctx, k.Store, p.Scope(), id, match, func(d *catalog.Document, tx *record.Tx) error {
		if err := p.MayOpen("document", d.GroupIDs); err != nil {
			return err
		}
		before, edit := *d, edit
		if edit.Title != nil && *edit.Title == d.Title {
			edit.Title = nil
		}
		if edit.Language != nil && d.Language == seen.Value.Language && *edit.Language == seen.Value.Shown() {
			edit.Language = nil
		}
		if err := k.applyEdit(ctx, tx, d, edit); err != nil {
			return err
		}
		d.UpdatedAt = k.now()
		// An ingestion under way takes the new title and language, but one for a rebuild does not change the ready
		// build.
		same := d.Title == before.Title && d.Language == before.Language
		if same || d.Ready.Number == 0 || d.Ingestion.Active() && !d.Work.Anew {
			return nil
		}
		if err := k.mayIngest(ctx, *d); err != nil {
			return err
		}
		if err := k.Begin(tx, d, docstate.Begin{From: docstate.Indexing, Quiet: true}); err != nil {
			return err
		}
		Count(ctx, tx, &before, d)
		return nil
	})
	if err == nil && e.Value.Ingestion.Active() {
		k.wake(ctx, e.Value)
	}
	return e, err
}

func (k *Knowledge) applyEdit(ctx context.Context, tx *record.Tx, d *catalog.Document, edit DocumentEdit) error {
	if edit.Title != nil {
		d.Title, d.Titled = *edit.Title, true
		if err := checkLength("body.title", d.Title, 1, MaxTitle); err != nil {
			return err
		}
	}
	if edit.Language != nil {
		var err error
		if d.Language, err = spoken("body.language", *edit.Language); err != nil {
			return err
		}
	}
	if edit.Metadata != nil {
		metadata, err := edit.Metadata(d.Metadata)
		if err == nil {
			err = checkMetadata("body.metadata", metadata)
		}
		if err != nil {
			return err
		}
		d.Metadata = metadata
	}
	if edit.GroupIDs == nil {
		return nil
	}
	before := d.GroupIDs
	d.GroupIDs = sorted(*edit.GroupIDs)
	if len(d.GroupIDs) > maxNarrowing {
		return problem.InvalidField("body.group_ids", "must name at most %d groups", maxNarrowing)
	}
	if err := k.Tenants.CheckGroups(ctx, d.Organization, "body.group_ids", before, d.GroupIDs); err != nil {
		return err
	}
	return k.moveReservation(ctx, tx, d)
}

// RemoveDocument deletes a document. From then on it cannot be found or read. A background job, whose id is returned,
// removes its data. It returns a problem of kind NotFound or Forbidden.
func (k *Knowledge) RemoveDocument(ctx context.Context, p tenant.Principal, base, id string) (job string, err error) {
	if _, err := k.Document(ctx, p, base, id); err != nil {
		return "", err
	}
	_, err = record.Remove(ctx, k.Store, p.Scope(), id, func(e record.Entity[catalog.Document], tx *record.Tx) error {
		if err := p.MayOpen("document", e.Value.GroupIDs); err != nil {
			return err
		}
		Count(ctx, tx, &e.Value, nil)
		job = k.Host.NewID()
		tx.PutJob(record.Fresh(record.Job{
			ID: job, Organization: e.Value.Organization, Kind: record.RemoveDocument, Subject: id, Due: k.now(),
			Cursor: strings.TrimSpace(e.Value.Ready.Indexed() + " " + e.Value.Next.Indexed() + " " +
				e.Value.Work.Indexed()),
		}))
		return k.release(ctx, tx, e.Value)
	})
	return job, err
}

// Begin begins another ingestion of a document. Data of the previous ingestion that search does not find is dropped.
func (k *Knowledge) Begin(tx *record.Tx, d *catalog.Document, e docstate.Begin) error {
	kept := catalog.Build{}
	if e.From == docstate.Indexing { // from the present text
		kept = d.Ready
	} else if d.Ingestion.Active() && !d.Ingestion.Quiet {
		// Search does not find the fetched bytes, so the next fetch must not answer 304.
		d.Source.ETag, d.Source.Modified = "", ""
	}
	return k.beginWith(tx, d, e, kept)
}

// beginWith is Begin; kept is the data that the ingestion need not make.
func (k *Knowledge) beginWith(tx *record.Tx, d *catalog.Document, e docstate.Begin, kept catalog.Build) error {
	after, err := docstate.Apply(d.Ingestion, k.now(), e)
	if err != nil {
		return err
	}
	kept.Number = after.Build
	k.Abandon(tx, *d, kept)
	d.Ingestion, d.Work = after, kept
	return nil
}

// Abandon adds jobs that remove the data of the present ingestion, except kept builds and the one that search finds.
func (k *Knowledge) Abandon(tx *record.Tx, d catalog.Document, kept ...catalog.Build) {
	drop(tx, d, []catalog.Build{d.Work}, append(kept, d.Ready)...)
	if d.Work.Chunks != "" { // it may have begun to index
		forget(tx, k.Host.NewID(), d, d.Work, k.now())
	}
}

// Replace makes the build of the present ingestion the one that search finds. It adds the jobs that remove the previous
// build, and the build that a rebuild has made from that.
func (k *Knowledge) Replace(tx *record.Tx, d *catalog.Document) {
	gone := []catalog.Build{d.Ready, d.Next}
	drop(tx, *d, gone, d.Work)
	for _, b := range gone {
		if b.Number > 0 {
			forget(tx, k.Host.NewID(), *d, b, k.now())
		}
	}
	d.Ready, d.Next, d.Work = d.Work, catalog.Build{}, catalog.Build{}
}

// forget adds a job that removes a build from the index.
func forget(tx *record.Tx, job string, d catalog.Document, b catalog.Build, now time.Time) {
	tx.PutJob(record.Fresh(record.Job{
		ID: job, Organization: d.Organization, Kind: record.RemoveBuild, Subject: d.ID, Cursor: b.Indexed(), Due: now,
	}))
}

// drop adds jobs that delete the blobs of builds, except those that a kept build has.
func drop(tx *record.Tx, d catalog.Document, gone []catalog.Build, kept ...catalog.Build) {
	done := map[string]bool{} // builds may share what they have
	for _, b := range kept {
		for _, key := range b.Blobs() {
			done[key] = true
		}
	}
	for _, b := range gone {
		for _, key := range b.Blobs() {
			if !done[key] {
				tx.DropBlob(d, key)
			}
			done[key] = true
		}
	}
}

// Reprocess begins another ingestion of a document. A document from an address is fetched again. An ingestion that is
// under way begins again.
//
// It returns a problem of kind NotFound, Forbidden, or Limited. The code of Limited is budget_exhausted when the budget
// of the document's sender for embeddings is used up. It is share_exceeded where too many documents are in ingestion.
func (k *Knowledge) Reprocess(
	ctx context.Context, p tenant.Principal, base, id string,
) (record.Entity[catalog.Document], error) {
	return k.again(ctx, p, base, id, 0, func(*catalog.Document, *record.Tx) error { return nil })
}

// again changes a document and begins another ingestion of it, in one commit.
func (k *Knowledge) again(
	ctx context.Context, p tenant.Principal, base, id string, match record.Match,
	change func(*catalog.Document, *record.Tx) error,
) (record.Entity[catalog.Document], error) {
	if _, err := k.Document(ctx, p, base, id); err != nil {
		return record.Entity[catalog.Document]{}, err
	}
	e, err := record.Change(ctx, k.Store, p.Scope(), id, match, func(d *catalog.Document, tx *record.Tx) error {
		before := *d
		err := p.MayOpen("document", d.GroupIDs)
		if err == nil {
			err = change(d, tx)
		}
		if err == nil {
			err = k.maySend(ctx, *d)
		}
		if err == nil {
			err = k.mayIngest(ctx, *d)
		}
		if err == nil {
			err = k.Begin(tx, d, docstate.Begin{From: firstStage(*d)})
		}
		if err != nil {
			return err
		}
		d.UpdatedAt = k.now()
		Count(ctx, tx, &before, d)
		return nil
	})
	if err == nil {
		k.wake(ctx, e.Value)
	}
	return e, err
}

// ReplaceContent gives a document other content, and begins its ingestion. n has its source. bytes are nil for a
// document that is fetched, which keeps its bytes until then. Search finds the old text until the new one is ready. The
// same bytes of the same source and type change nothing, unless the last ingestion failed; then same is true.
//
// It returns the problems of [Knowledge.Reprocess]. The kind is Invalid for an address that may not be called, and
// PreconditionFailed when match is not the document's version.
func (k *Knowledge) ReplaceContent(
	ctx context.Context, p tenant.Principal, base, id string, match record.Match, n NewDocument, bytes *Received,
) (e record.Entity[catalog.Document], same bool, err error) {
	if n.Source.Kind == catalog.FromURL {
		if err := k.CheckURL(n.Source.URL); err != nil {
			return e, false, err
		}
	}
	e, err = k.again(ctx, p, base, id, match, func(d *catalog.Document, tx *record.Tx) error {
		if bytes != nil {
			done := d.Bytes == bytes.stored.Key // by an earlier attempt
			same = !done && d.SHA256 == bytes.hash() && d.Source == n.Source && d.ContentType == n.ContentType &&
				d.Ingestion.Failure == nil
			if same || done {
				return errNothing
			}
		}
		d.Source, d.UserID = n.Source, p.User
		nameBySource(d)
		if bytes == nil {
			return nil
		}
		d.ContentType = n.ContentType
		return k.TakeBytes(ctx, tx, d, bytes)
	})
	if errors.Is(err, errNothing) {
		e, err = k.Document(ctx, p, base, id)
	}
	if _, refused := problem.As(err); bytes != nil {
		bytes.added = !refused && !same
	}
	return e, same, err
}

// TakeBytes gives a document bytes in place of those it has.
func (k *Knowledge) TakeBytes(ctx context.Context, tx *record.Tx, d *catalog.Document, bytes *Received) error {
	if d.Bytes != "" {
		tx.DropBlob(*d, d.Bytes)
	}
	tx.NameBlob(bytes.stored)
	d.Bytes, d.Size, d.SHA256 = bytes.stored.Key, bytes.stored.Size, bytes.hash()
	return k.moveReservation(ctx, tx, d)
}

// maySend is MayEmbed for an existing document.
func (k *Knowledge) maySend(ctx context.Context, d catalog.Document) error {
	b, err := record.Resource[catalog.KnowledgeBase](ctx, k.Store, record.System(), d.KnowledgeBase)
	if err != nil {
		return err
	}
	return k.MayEmbed(ctx, b.Value.InForce().Embedding, d.Organization, d.UserID)
}

// ReprocessFailed begins another ingestion of each failed document of a base that the principal may read. It returns
// their number.
func (k *Knowledge) ReprocessFailed(ctx context.Context, p tenant.Principal, base string) (n int, err error) {
	failed := func(after string) (record.Page[record.Entity[catalog.Document]], error) {
		return k.DocumentsOf(ctx, p, base, Wanted{Status: docstate.Failed}, after, 50)
	}
	for e, err := range record.Rows(failed) {
		if err != nil {
			return n, err
		}
		if _, err := k.Reprocess(ctx, p, base, e.Value.ID); err != nil && !problem.Is(err, "not_found") {
			return n, err
		}
		n++
	}
	return n, nil
}

// Wanted filters the documents of a listing.
type Wanted struct {
	Status docstate.Status // empty: any
	Title  string          // a part of the title, in upper or lower case; empty: any
}

// DocumentsOf lists the documents of a base that the principal may read, newest first. after is Page.Next of the page
// before; a page may be short and have a next one. It returns a problem of kind NotFound or Forbidden.
func (k *Knowledge) DocumentsOf(
	ctx context.Context, p tenant.Principal, base string, want Wanted, after string, limit int,
) (record.Page[record.Entity[catalog.Document]], error) {
	b, err := k.Base(ctx, p, base)
	if err != nil {
		return record.Page[record.Entity[catalog.Document]]{}, err
	}
	part := strings.ToLower(want.Title)
	return record.Filter(ctx, after, limit, filterRows(limit), func(
		ctx context.Context, after string, limit int,
	) (record.Page[record.Entity[catalog.Document]], error) {
		page, err := record.ResourcesWithin[catalog.Document](ctx, k.Store, p.Scope(), base, after, limit)
		for i, e := range page.Rows {
			page.Rows[i].Value = e.Value.In(b.Value.Collection)
		}
		return page, err
	}, func(e record.Entity[catalog.Document]) (record.Entity[catalog.Document], bool, error) {
		d := e.Value
		return e, mayOpen(p, b.Value, d) == nil && (want.Status == "" || d.Ingestion.Status == want.Status) &&
			strings.Contains(strings.ToLower(d.Title), part), nil
	})
}
