package knowledge

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"

	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/platform/waiting"
	"agentplatform/internal/store/blob"
	"agentplatform/internal/store/record"
	"agentplatform/internal/text/document"
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

// TextType is the content type of the text that was extracted from a document.
const TextType = "text/plain; charset=utf-8"

// Text opens the text that was extracted from a document; size is how many bytes it has. It returns a problem of kind
// NotFound, also while there is none, or Forbidden.
func (k *Knowledge) Text(
	ctx context.Context, p tenant.Principal, base, id string,
) (content blob.Content, size int64, err error) {
	e, err := k.Document(ctx, p, base, id)
	if err != nil {
		return blob.Content{}, 0, err
	}
	what, b := "the text of document "+id, shownBuild(e.Value)
	if b.Text == "" || b.Structure != "" {
		content, err = k.open(ctx, what, b.Text, "", TextType)
		return content, b.TextSize, err
	}
	text, err := k.Extracted(ctx, b)
	if errors.Is(err, record.ErrConflict) {
		err = problem.Missing(what)
	}
	return blob.Content{Bytes: io.NopCloser(strings.NewReader(text.Body))}, int64(len(text.Body)), err
}

// Extracted reads the text that was extracted for a build, with its structure. It returns [record.ErrConflict] when the
// document has another build by now.
func (k *Knowledge) Extracted(ctx context.Context, b catalog.Build) (text document.Text, err error) {
	raw, err := k.Store.Blob(ctx, cmp.Or(b.Structure, b.Text))
	if err == nil {
		err = json.Unmarshal(raw, &text)
	}
	if err != nil || b.Structure == "" {
		return text, err
	}
	raw, err = k.Store.Blob(ctx, b.Text)
	text.Body = string(raw)
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

const defaultPoll = 100 * time.Millisecond

// Await reads a document, when its status or stage has changed, or it rests, or the time is over, or the request may
// not wait for longer (package waiting). Its errors are those of [Knowledge.Document].
func (k *Knowledge) Await(
	ctx context.Context, p tenant.Principal, base, id string, most time.Duration,
) (record.Entity[catalog.Document], error) {
	began := k.Host.Elapsed()
	first, err := k.Document(ctx, p, base, id)
	e := first
	for err == nil && e.Value.Ingestion.Active() && !e.Value.Ingestion.Quiet && k.Host.Elapsed()-began < most &&
		e.Value.Ingestion.Status == first.Value.Ingestion.Status &&
		e.Value.Ingestion.Stage == first.Value.Ingestion.Stage && waiting.Left(ctx, k.Host.Elapsed()-began) > 0 {
		end := waiting.Start(ctx)
		slept := k.Host.Sleep(ctx, cmp.Or(k.Poll, defaultPoll))
		if end(); slept != nil {
			break
		}
		e, err = k.Document(ctx, p, base, id)
	}
	return e, err
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
