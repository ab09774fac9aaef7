// Package ingest takes documents through the stages of their ingestion: it fetches, extracts, cuts, embeds and indexes
// them.
//
// An ingester claims a document with a lease. Each stage ends in one commit, which names the data that the stage has
// stored. The loss of an ingester costs no more than the stage under way. A failed stage is tried again, a limited
// number of times (package docstate).
//
// An index that was lost is filled again from the data that the stages have stored (Recover); nothing is embedded for
// that.
//
// It must not know HTTP or runs. It imports knowledge, whose documents it works on, extract, chunking, words, the ports
// embedding, index and blob, catalog, record, docstate, egress, problem, host and trace.
package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	oteltrace "go.opentelemetry.io/otel/trace"

	"agentplatform/internal/core/docstate"
	"agentplatform/internal/knowledge/knowledge"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/platform/share"
	"agentplatform/internal/platform/trace"
	"agentplatform/internal/store/queue"
	"agentplatform/internal/store/record"
	"agentplatform/internal/text/document"
	"agentplatform/internal/text/extract"
)

// Ingester takes documents through their stages. It is safe for concurrent use.
type Ingester struct {
	*knowledge.Knowledge

	Fetch    Fetch
	Log      *slog.Logger
	Deadline time.Duration // of an ingestion
	// ProcessID is the process id where only one process runs: claims of other process ids are void then. In all other
	// deployments it is empty.
	ProcessID string
	// Extract reads the text of a file; it is [extract.Document].
	Extract func(ctx context.Context, group string, f extract.File) (document.Text, error)
	// Waits reports whether another message waits for a slot of the queue; nil: none does.
	Waits func(at queue.Message) bool
	// OnMove is called with each committed change of a document's ingestion; it may be nil.
	OnMove func(Move)
}

// Move is a change of a document's ingestion.
type Move struct {
	Before, After docstate.State
	// Failure is the failure that ended the ingestion at this move; nil: it did not fail. It is also set for a failed
	// rebuild, which the document's own state does not show.
	Failure *docstate.Failure
}

// lease is how long an ingester without a renewal keeps a document.
const lease = 30 * time.Second

// errLost means that another ingester has the document by now, or that it was deleted.
var errLost = errors.New("ingest: the document was lost to another ingester")

// Handle goes on with the ingestion of a document, as far as it can. It returns the wait until the next call. The wait
// is 0 if the ingestion has ended, another ingester has the document, or it was deleted. An error is one of the store;
// then the sweeper tries again.
func (g *Ingester) Handle(ctx context.Context, id string) (again time.Duration, err error) {
	e, err := record.Resource[catalog.Document](ctx, g.Store, record.System(), id)
	if problem.Is(err, "not_found") {
		return 0, nil
	}
	now := g.Host.Now()
	state := e.Value.Ingestion
	switch {
	case err != nil || !state.Active() || state.Held(now, g.ProcessID):
		return 0, err
	case !state.Claimable(now, g.ProcessID):
		return state.Due.Sub(now), nil
	}
	w := &work{Ingester: g, claim: g.Host.NewID()}
	w.d, err = w.move(ctx, id, docstate.Claim{
		Lease:    docstate.Lease{Claim: w.claim, ProcessID: g.ProcessID, Until: now.Add(lease)},
		Deadline: g.Deadline,
	}, nil)
	switch {
	case errors.Is(err, errLost):
		return 0, nil
	case err != nil:
		return 0, err
	case !w.d.Ingestion.Active(): // the claim ended it
		return 0, nil
	}
	return w.run(ctx)
}

// work is an ingester's lease of one document, with its data.
type work struct {
	*Ingester

	claim string
	d     catalog.Document
	base  catalog.KnowledgeBase // with the settings of the collection that the work is for

	language string // in which the words are indexed

	// Results of the stages during this lease, so that the next stage need not read them again.
	text   *document.Text
	chunks []document.Chunk
	large  *share.Part // the slot for a large text

	unpaid int64 // tokens of embeddings that are not charged yet
}

// run does the stages, one after the other, while another goroutine renews the lease. At the deadline of the ingestion
// it ends them.
func (w *work) run(ctx context.Context) (again time.Duration, err error) {
	ctx = share.With(ctx, share.Holder{Organization: w.d.Organization, User: w.d.UserID})
	ctx, span := trace.StartOf(ctx, w.d.ID, oteltrace.SpanKindConsumer, "ingest", "document")
	defer span.End()
	span.SetAttributes(attribute.String("agentplatform.document.id", w.d.ID),
		attribute.String("agentplatform.knowledge_base.id", w.d.KnowledgeBase),
		trace.OrganizationID.String(w.d.Organization),
		attribute.Int("agentplatform.document.attempt", w.d.Ingestion.Attempts))
	working, cancel := context.WithCancelCause(ctx)
	id := w.d.ID
	wait := w.Host.Go(func() { w.renew(working, id, cancel) })
	var failed error
	limited, stop := w.Host.WithTimeout(working, w.d.Ingestion.Begun.Add(w.Deadline).Sub(w.Host.Now()))
	defer stop()
	if died := host.Catch(func() { failed = w.stages(limited) }); died != nil {
		w.Log.Error("an ingestion panicked", "document_id", w.d.ID, "panic", died.Value, "stack", string(died.Stack))
		failed = &trouble{code: docstate.Internal, message: "the service failed to ingest the document"}
	}
	w.leave()
	lost := errors.Is(context.Cause(working), errLost)
	if failed != nil && !errors.Is(failed, errLost) && host.OutOfTime(limited, working) {
		failed = final(docstate.PastDeadline, "%s", docstate.Late(w.Deadline))
	}
	cancel(nil)
	wait()
	switch {
	case lost || errors.Is(failed, errLost):
		return 0, w.lost(ctx)
	case failed != nil:
		trace.Fail(span, string(codeOf(failed)))
		return w.conclude(ctx, failed)
	case w.d.Ingestion.Active(): // its end has begun another one, or it was given back
		return queue.Now, nil
	}
	return 0, nil
}

// renew makes the lease longer, as long as the work goes on. It reads nothing of the work that the stages write.
func (w *work) renew(ctx context.Context, id string, cancel context.CancelCauseFunc) {
	last := w.Host.Elapsed()
	for w.Host.Sleep(ctx, lease/3) == nil {
		_, err := w.move(ctx, id, docstate.Renew{Claim: w.claim, Until: w.Host.Now().Add(lease)}, nil)
		now := w.Host.Elapsed()
		if err == nil {
			last = now
		}
		if errors.Is(err, errLost) || now-last > host.Trusted(lease) {
			cancel(errLost)
			return
		}
	}
}

// trouble is an attempt that failed, with a message for people.
type trouble struct {
	code    docstate.Code
	message string
	final   bool          // another attempt would fail in the same way
	after   time.Duration // as the other side requested
	cause   error
}

func (t *trouble) Error() string { return fmt.Sprintf("%s: %s", t.code, t.message) }

func (t *trouble) Unwrap() error { return t.cause }

func final(code docstate.Code, format string, args ...any) error {
	return &trouble{code: code, message: fmt.Sprintf(format, args...), final: true}
}

// codeOf returns the code for the reason of a failed attempt.
func codeOf(failed error) docstate.Code {
	if t, is := errors.AsType[*trouble](failed); is {
		return t.code
	}
	return docstate.Internal
}

// conclude stores that an attempt failed.
func (w *work) conclude(ctx context.Context, failed error) (again time.Duration, err error) {
	stopped := ctx.Err() != nil
	ctx = context.WithoutCancel(ctx)
	var t *trouble
	if !errors.As(failed, &t) {
		t = &trouble{code: docstate.Internal, message: "the service failed to ingest the document; reprocess it later"}
		w.Log.Warn("a stage of an ingestion failed", "document_id", w.d.ID, "stage", w.d.Ingestion.Stage, "error",
			failed)
		if record.IsFull(failed) {
			t.message, t.after = "the disk was full; reprocess the document later", time.Minute
		}
	}
	var event docstate.Event = docstate.Retry{Claim: w.claim, Code: t.code, Message: t.message, After: t.after}
	switch {
	case stopped:
		event = docstate.Release{Claim: w.claim}
	case t.final:
		event = docstate.Fail{Claim: w.claim, Code: t.code, Message: t.message}
	}
	d, err := w.move(ctx, w.d.ID, event, w.charged(ctx))
	if errors.Is(err, errLost) {
		return 0, w.lost(ctx)
	}
	w.Log.Info("an attempt of an ingestion ended", "document_id", w.d.ID, "stage", w.d.Ingestion.Stage,
		"status", d.Ingestion.Status, "attempts", d.Ingestion.Attempts, "why", t.code)
	if err != nil || stopped || !d.Ingestion.Active() {
		return 0, err
	}
	return max(time.Millisecond, d.Ingestion.Due.Sub(w.Host.Now())), nil
}

// move applies an event to a document, in one commit with the changes of more. If the ingestion ends, everything that
// it made and that search does not find is dropped. If it was part of a rebuild and fails, the rebuild fails, and the
// document's own state stays as it was. move returns the document after the commit, or errLost.
func (g *Ingester) move(
	ctx context.Context, id string, event docstate.Event, more func(d *catalog.Document, tx *record.Tx) error,
) (catalog.Document, error) {
	var made Move
	e, err := record.Change(ctx, g.Store, record.System(), id, 0, func(d *catalog.Document, tx *record.Tx) error {
		before := *d
		made = Move{Before: d.Ingestion}
		after, err := docstate.Apply(d.Ingestion, g.Host.Now(), event)
		if err != nil {
			return err
		}
		if after.Failure != made.Before.Failure {
			made.Failure = after.Failure
		}
		if !d.Work.Anew && (after.Status != before.Ingestion.Status || after.Stage != before.Ingestion.Stage) {
			d.UpdatedAt = g.Host.Now()
		}
		if d.Work.Anew && !after.Active() {
			if err := g.endAnew(ctx, tx, before, &after); err != nil {
				return err
			}
		} else if was := before.Ingestion; was.Quiet && was.Failure != nil && !was.Failure.Quiet && !after.Active() {
			after.Failure = was.Failure // the old text was indexed again; the new bytes still could not be ingested
		}
		d.Ingestion = after
		if more != nil {
			if err := more(d, tx); err != nil {
				return err
			}
		}
		if !d.Ingestion.Active() {
			g.Abandon(tx, *d)
			d.Work = catalog.Build{}
		}
		if !d.Ingestion.Active() && d.Ingestion.Failure != nil {
			// Search does not find the fetched bytes, so the next fetch must return them again.
			d.Source.ETag, d.Source.Modified = "", ""
		}
		knowledge.Count(ctx, tx, &before, d)
		return nil
	})
	if errors.Is(err, docstate.ErrRefused) || problem.Is(err, "not_found") {
		return e.Value, errLost
	}
	if err == nil && g.OnMove != nil {
		made.After = e.Value.Ingestion
		g.OnMove(made)
	}
	return e.Value, err
}

// endAnew ends the part of a rebuild for one document. The document's life cycle is then as it was before.
func (g *Ingester) endAnew(ctx context.Context, tx *record.Tx, d catalog.Document, after *docstate.State) error {
	failure := after.Failure
	after.Failure = d.Ingestion.Failure
	if failure == nil || failure == d.Ingestion.Failure {
		return nil
	}
	why, _, _ := strings.Cut(failure.Message, ";") // after the semicolon stands advice for a failed document
	return g.FailRebuild(ctx, tx, d.KnowledgeBase, d.Work.Collection,
		fmt.Sprintf("the document %s could not be indexed again: %s", d.ID, why))
}

// step is move for the document at work.
func (w *work) step(
	ctx context.Context, event docstate.Event, more func(d *catalog.Document, tx *record.Tx) error,
) error {
	d, err := w.move(ctx, w.d.ID, event, more)
	if err == nil {
		w.d = d
	}
	return err
}

// stages does the stages that are left. It returns nil when the ingestion has ended or was released.
func (w *work) stages(ctx context.Context) error {
	if err := w.aim(ctx); err != nil {
		return err
	}
	for w.d.Ingestion.Lease.Claim == w.claim {
		do := map[docstate.Stage]func(context.Context) error{
			docstate.Fetching: w.fetch, docstate.Extracting: w.extract, docstate.Chunking: w.chunk,
			docstate.Embedding: w.embed, docstate.Indexing: w.index,
		}[w.d.Ingestion.Stage]
		if do == nil {
			return fmt.Errorf("ingest: stage %q of a newer version", w.d.Ingestion.Stage)
		}
		staged, span := trace.Start(ctx, oteltrace.SpanKindInternal, string(w.d.Ingestion.Stage), "document")
		err := do(staged)
		if err != nil && !errors.Is(err, errMoved) {
			trace.Fail(span, string(codeOf(err)))
		}
		span.End()
		if errors.Is(err, errMoved) {
			err = w.aim(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// errMoved means that the base no longer has the collection that the work is for.
var errMoved = errors.New("ingest: the knowledge base has another collection by now")

// readBase reads the base as it is now.
func (w *work) readBase(ctx context.Context) (record.Entity[catalog.KnowledgeBase], error) {
	b, err := record.Resource[catalog.KnowledgeBase](ctx, w.Store, record.System(), w.d.KnowledgeBase)
	if problem.Is(err, "not_found") {
		err = errLost // its documents are being deleted
	}
	return b, err
}

// aim sets the settings of the collection that the work is for. While the base has the collection for which the work
// was begun, it stays. Otherwise the document is cut again for the collection in force, or, if the work was for a
// rebuild, the ingestion ends.
func (w *work) aim(ctx context.Context) error {
	b, err := w.readBase(ctx)
	if err != nil {
		return err
	}
	w.base = b.Value
	at := w.d.Work.Collection
	settings, has := w.base.SettingsOf(at)
	switch {
	case has:
	case at == "":
		settings = w.base.InForce()
	case w.d.Work.Anew:
		return w.step(ctx, docstate.Unchanged{Claim: w.claim}, nil)
	default:
		settings = w.base.InForce()
		err = w.step(ctx, docstate.Advance{Claim: w.claim, To: docstate.Chunking}, w.cutAnew)
	}
	w.base.Embedding, w.base.Chunking, w.base.Language = settings.Embedding, settings.Chunking, settings.Language
	return err
}

// cutAnew drops everything that was made except the text.
func (w *work) cutAnew(d *catalog.Document, tx *record.Tx) error {
	kept := d.Work.Extracted()
	kept.Number = d.Work.Number
	w.Abandon(tx, *d, kept)
	d.Work = kept
	return nil
}
