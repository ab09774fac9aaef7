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

// Content opens the document's original bytes. disposition returns the Content-Disposition that the answer of a
// presigned address has. Content returns a problem of kind Forbidden or NotFound. Bytes that have not been fetched yet
// are not found.
func (k *Knowledge) Content(
	ctx context.Context, p tenant.Principal, base, id string, disposition func(catalog.Document) string,
) (catalog.Document, blob.Content, error) {
	var d catalog.Document
	var content blob.Content
	err := k.reading(ctx, p, base, id, "the content", func(read catalog.Document) (err error) {
		d = read
		content, err = k.open(ctx, d.Bytes, disposition(d), d.ContentType)
		return err
	})
	return d, content, err
}

// reading reads some data of a document. If the data is gone and the document has changed meanwhile, it reads the
// document again, at most maxRounds times. It returns a problem of kind NotFound or Forbidden.
func (k *Knowledge) reading(
	ctx context.Context, p tenant.Principal, base, id, what string, read func(catalog.Document) error,
) error {
	missing := problem.Missing(what + " of document " + id)
	version := int64(0)
	for range maxRounds {
		e, err := k.Document(ctx, p, base, id)
		switch {
		case err != nil:
			return err
		case e.Version() == version:
			return missing
		}
		version = e.Version()
		if err = read(e.Value); !errors.Is(err, blob.ErrMissing) && !errors.Is(err, record.ErrConflict) {
			return err
		}
	}
	return missing
}

// open opens a blob of a document for a client, who may read the document. It returns [blob.ErrMissing] for a missing
// blob, also for an empty key.
func (k *Knowledge) open(ctx context.Context, key, disposition, contentType string) (blob.Content, error) {
	if key == "" {
		return blob.Content{}, blob.ErrMissing
	}
	return blob.Open(ctx, k.Store.Blobs(), key, disposition, contentType)
}

// shownBuild is the build that clients read: the one that search finds, or the one of the first ingestion so far.
func shownBuild(d catalog.Document) catalog.Build {
	if d.Ready.Number > 0 {
		return d.Ready
	}
	return d.Work
}

// TextType is the content type of the text that was extracted from a document.
const TextType = "text/plain; charset=utf-8"

// Text opens the text that was extracted from a document. size is its length in bytes. It returns a problem of kind
// NotFound, also while there is no text, or Forbidden.
func (k *Knowledge) Text(
	ctx context.Context, p tenant.Principal, base, id string,
) (content blob.Content, size int64, err error) {
	err = k.reading(ctx, p, base, id, "the text", func(d catalog.Document) error {
		b := shownBuild(d)
		if size = b.TextSize; b.Text == "" || b.Structure != "" {
			content, err = k.open(ctx, b.Text, "", TextType)
			return err
		}
		text, err := k.Extracted(ctx, b)
		content, size = blob.Content{Bytes: io.NopCloser(strings.NewReader(text.Body))}, int64(len(text.Body))
		return err
	})
	return content, size, err
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

// Chunks lists the chunks of a document from a number on, at most limit. more reports that there are further ones. It
// returns a problem of kind NotFound or Forbidden.
func (k *Knowledge) Chunks(
	ctx context.Context, p tenant.Principal, base, id string, from, limit int,
) (chunks []document.Chunk, more bool, err error) {
	err = k.reading(ctx, p, base, id, "the chunks", func(d catalog.Document) error {
		chunks, more, err = k.chunks(ctx, shownBuild(d), from, limit)
		return err
	})
	return chunks, more, err
}

// chunks lists the chunks of a build. It returns [record.ErrConflict] when the document has another build by now.
func (k *Knowledge) chunks(
	ctx context.Context, b catalog.Build, from, limit int,
) (chunks []document.Chunk, more bool, err error) {
	for from < b.Count && len(chunks) < limit {
		piece, err := k.Piece(ctx, b, from/perPiece)
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

// Await reads a document until its status or stage changes, or no visible ingestion is under way. It also returns when
// most has passed, or when the request may not wait for longer (package waiting). Its errors are those of
// [Knowledge.Document].
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
