package knowledge

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"agentplatform/internal/blob"
	"agentplatform/internal/catalog"
	"agentplatform/internal/document"
	"agentplatform/internal/problem"
	"agentplatform/internal/record"
	"agentplatform/internal/tenant"
)

// Content opens the bytes that came in. disposition says what the answer of a presigned address has as
// Content-Disposition. It returns a problem of kind NotFound, also for bytes that have not been fetched yet, or
// Forbidden.
func (k *Knowledge) Content(
	ctx context.Context, p tenant.Principal, base, id string, disposition func(catalog.Document) string,
) (catalog.Document, blob.Content, error) {
	e, err := k.Document(ctx, p, base, id)
	d := e.Value
	if err != nil {
		return d, blob.Content{}, err
	}
	content, err := k.open(ctx, "the content of document "+id, d.Bytes, disposition(d), d.ContentType)
	return d, content, err
}

// open opens a blob of a document for a client, who may read the document; what is not there has no key.
func (k *Knowledge) open(ctx context.Context, what, key, disposition, contentType string) (blob.Content, error) {
	if key == "" {
		return blob.Content{}, problem.Missing(what)
	}
	content, err := blob.Open(ctx, k.Store.Blobs(), key, disposition, contentType)
	if errors.Is(err, blob.ErrMissing) {
		err = problem.Missing(what)
	}
	return content, err
}

// shownBuild is what clients are shown of a document: what search finds, or what the first ingestion has made so far.
func shownBuild(d catalog.Document) catalog.Build {
	if d.Ready.Number > 0 {
		return d.Ready
	}
	return d.Work
}

// Text reads the text that was extracted from a document. It returns a problem of kind NotFound, also while there is
// none, or Forbidden.
func (k *Knowledge) Text(ctx context.Context, p tenant.Principal, base, id string) (document.Text, error) {
	var text document.Text
	e, err := k.Document(ctx, p, base, id)
	if err == nil && shownBuild(e.Value).Text == "" {
		err = problem.Missing("the text of document " + id)
	}
	if err != nil {
		return text, err
	}
	err = k.Read(ctx, shownBuild(e.Value).Text, &text)
	if errors.Is(err, record.ErrConflict) {
		err = problem.Missing("the text of document " + id)
	}
	return text, err
}

// Chunks lists the chunks of a document from a number on, at most limit. more says that there are further ones. It
// returns a problem of kind NotFound or Forbidden.
func (k *Knowledge) Chunks(
	ctx context.Context, p tenant.Principal, base, id string, from, limit int,
) (chunks []document.Chunk, more bool, err error) {
	e, err := k.Document(ctx, p, base, id)
	if err != nil {
		return nil, false, err
	}
	b := shownBuild(e.Value)
	for from < b.Count && len(chunks) < limit {
		piece, err := k.Piece(ctx, b, from/perPiece)
		if errors.Is(err, record.ErrConflict) {
			err = problem.Missing("the chunks of document " + id)
		}
		if err != nil {
			return nil, false, err
		}
		rest := piece[min(from%perPiece, len(piece)):]
		if len(rest) == 0 {
			break
		}
		rest = rest[:min(len(rest), limit-len(chunks))]
		chunks, from = append(chunks, rest...), from+len(rest)
	}
	return chunks, from < b.Count, nil
}

// pollEvery is how often a document is looked at for whoever waits for it.
const pollEvery = 100 * time.Millisecond

// Await reads a document, when its status or stage has changed, or it rests, or the time is over. Its errors are those
// of [Knowledge.Document].
func (k *Knowledge) Await(
	ctx context.Context, p tenant.Principal, base, id string, most time.Duration,
) (record.Entity[catalog.Document], error) {
	began := k.Host.Elapsed()
	first, err := k.Document(ctx, p, base, id)
	e := first
	for err == nil && e.Value.Ingestion.Active() && !e.Value.Ingestion.Quiet && k.Host.Elapsed()-began < most &&
		e.Value.Ingestion.Status == first.Value.Ingestion.Status &&
		e.Value.Ingestion.Stage == first.Value.Ingestion.Stage {
		if k.Host.Sleep(ctx, pollEvery) != nil {
			break
		}
		e, err = k.Document(ctx, p, base, id)
	}
	return e, err
}

// Read reads what a stage has stored as JSON. It returns [record.ErrConflict] when the document names another one by
// now.
func (k *Knowledge) Read(ctx context.Context, key string, into any) error {
	b, err := k.Store.Blob(ctx, key)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, into)
}

// Piece reads the chunks of one piece of a build. It returns [record.ErrConflict] when the document has another build
// by now.
func (k *Knowledge) Piece(ctx context.Context, b catalog.Build, n int) ([]document.Chunk, error) {
	raw, err := k.Store.Piece(ctx, b.Chunks, n)
	if err != nil {
		return nil, err
	}
	var chunks []document.Chunk
	return chunks, json.Unmarshal(raw, &chunks)
}
