package ingest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"agentplatform/internal/ai/embedding"
	"agentplatform/internal/core/docstate"
	"agentplatform/internal/knowledge/knowledge"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/platform/share"
	"agentplatform/internal/store/blob"
	"agentplatform/internal/store/queue"
	"agentplatform/internal/store/record"
	"agentplatform/internal/text/chunking"
	"agentplatform/internal/text/document"
	"agentplatform/internal/text/extract"
	"agentplatform/internal/text/index"
	"agentplatform/internal/text/words"
)

// Bounds of what a stage stores, in bytes. An extracted text has at most 20 million characters, and its structure.
const (
	maxTextBlob = 256 << 20
	perPiece    = catalog.ChunksOfPiece
)

// extract reads the text of the bytes that came in.
func (w *work) extract(ctx context.Context) error {
	text, err := w.Extract(ctx, w.d.Organization, extract.File{
		ContentType: w.d.ContentType, Name: w.name(),
		Open: func(ctx context.Context) (io.ReadCloser, error) { return w.Store.Blobs().Get(ctx, w.d.Bytes) },
		Room: w.room,
	})
	if fault, is := errors.AsType[extract.Fault](err); is {
		return final(docstate.Code(fault.Code), "%s", fault.Sentence())
	}
	if err != nil {
		return err
	}
	if strings.TrimSpace(text.Body) == "" {
		return final(docstate.Empty, "%s", extract.Fault{Code: extract.Empty}.Sentence())
	}
	var sure bool
	text.Language, sure = words.Language(text.Body)
	return w.extracted(ctx, text, sure)
}

// extracted ends the stage. The text is stored apart from its structure, as clients read it. sure reports whether the
// text's language is certain.
func (w *work) extracted(ctx context.Context, text document.Text, sure bool) error {
	body, err := w.store(ctx, "text", strings.NewReader(text.Body))
	if err != nil {
		return err
	}
	rest := text
	rest.Body = ""
	b, err := json.Marshal(rest)
	if err != nil {
		return err
	}
	structure, err := w.store(ctx, "structure", bytes.NewReader(b))
	if err != nil {
		return err
	}
	w.text = &text
	return w.step(ctx, docstate.Advance{Claim: w.claim, To: docstate.Chunking},
		func(d *catalog.Document, tx *record.Tx) error {
			tx.NameBlob(body)
			tx.NameBlob(structure)
			d.Work = catalog.Build{
				Number: d.Ingestion.Build, Text: body.Key, TextSize: body.Size, Structure: structure.Key,
				Language: text.Language, Unsure: !sure, PageCount: len(text.Pages),
			}
			for _, warning := range text.Warnings {
				d.Work.Warnings = append(d.Work.Warnings, catalog.Warning(warning))
			}
			if !d.Titled && strings.TrimSpace(text.Title) != "" {
				d.Title = document.Cut(strings.TrimSpace(text.Title), knowledge.MaxTitle)
			}
			return nil
		})
}

// name is the name of the file, for its extension. A text of JSON is plain text.
func (w *work) name() string {
	if w.d.Source.Kind == catalog.FromText {
		return "text.txt"
	}
	return w.d.Source.Name
}

// store stores a part of what was extracted.
func (w *work) store(ctx context.Context, what string, r io.Reader) (record.Stored, error) {
	stored, err := w.Store.StoreBlob(ctx, w.d, what, r, maxTextBlob)
	if errors.Is(err, blob.ErrTooLarge) {
		err = final(docstate.TooLarge, "%s", extract.Fault{Code: extract.TooLarge}.Sentence())
	}
	return stored, err
}

// chunk cuts the text, and makes places for the chunks and for their vectors.
func (w *work) chunk(ctx context.Context) error {
	if w.d.Work.Chunks != "" { // a rebuild that cuts as before
		return w.chunked(ctx, w.d.Work.Count)
	}
	if w.text == nil {
		if w.d.Work.TextSize > extract.LargeText {
			if err := w.room(ctx); err != nil {
				return err
			}
		}
		text, err := w.Extracted(ctx, w.d.Work)
		if err != nil {
			return err
		}
		w.text = &text
	}
	chunks, err := chunking.Split(*w.text, w.base.Chunking.Size, w.base.Chunking.Overlap)
	if errors.Is(err, chunking.ErrTooMany) {
		return final(docstate.TooLarge, "the document has more than %d chunks; split it, or make the chunks of its "+
			"knowledge base larger", chunking.MostChunks)
	}
	if err != nil {
		return err
	}
	if len(chunks) == 0 {
		return final(docstate.Empty, "%s", extract.Fault{Code: extract.Empty}.Sentence())
	}
	prefix, err := w.Store.NewPrefix(ctx, w.d, "chunks")
	if err != nil {
		return err
	}
	for n := 0; n*perPiece < len(chunks); n++ {
		b, err := json.Marshal(chunks[n*perPiece : min((n+1)*perPiece, len(chunks))])
		if err == nil {
			err = w.Store.PutPiece(ctx, w.d.Organization, prefix.Key, n, b)
		}
		if err != nil {
			return err
		}
	}
	if w.d.Work.TextSize <= extract.LargeText {
		w.chunks = chunks
	}
	w.leave()
	return w.chunked(ctx, len(chunks), prefix)
}

// largeTexts has a slot for one large text. A work keeps it from the extraction until the chunks are stored.
var largeTexts = share.New(share.Limits{All: 1})

// room waits for the slot for a large text, unless this work has it.
func (w *work) room(ctx context.Context) error {
	if w.large != nil {
		return nil
	}
	turn := largeTexts.Part(share.Of(ctx))
	if err := turn.Wait(ctx); err != nil {
		return err
	}
	w.large = turn
	return nil
}

// leave releases the slot for a large text.
func (w *work) leave() {
	if w.text = nil; w.large != nil {
		w.large.Give()
		w.large = nil
	}
}

// chunked ends the stage; prefixes are those of the chunks, none where they were there before.
func (w *work) chunked(ctx context.Context, count int, prefixes ...record.Stored) error {
	vectors, err := w.Store.NewPrefix(ctx, w.d, "vectors")
	if err != nil {
		return err
	}
	return w.step(ctx, docstate.Advance{Claim: w.claim, To: docstate.Embedding, Total: count},
		func(d *catalog.Document, tx *record.Tx) error {
			for _, prefix := range prefixes {
				tx.NameBlob(prefix)
				d.Work.Chunks = prefix.Key
			}
			tx.NameBlob(vectors)
			d.Work.Vectors, d.Work.Count = vectors.Key, count
			d.Work.Collection = cmp.Or(d.Work.Collection, w.base.Collection)
			d.Work.Dimensions = w.base.Embedding.Dimensions
			return nil
		})
}

// pieceOf is piece, from memory if the chunks were made during this lease.
func (w *work) pieceOf(ctx context.Context, n int) ([]document.Chunk, error) {
	if w.chunks != nil {
		return w.chunks[n*perPiece : min((n+1)*perPiece, len(w.chunks))], nil
	}
	return w.Piece(ctx, w.d.Work, n)
}

// embed asks for the vectors of the chunks, a piece at a time. A recorded piece is not requested again. Its tokens are
// charged in the commit that records it. After a piece, the document may be released so that another one goes first.
func (w *work) embed(ctx context.Context) error {
	for w.d.Ingestion.Done < w.d.Work.Count {
		n := w.d.Ingestion.Done / perPiece
		chunks, err := w.pieceOf(ctx, n)
		if err != nil {
			return err
		}
		texts := make([]string, 0, len(chunks))
		for _, c := range chunks {
			texts = append(texts, embedded(w.d.Title, c))
		}
		if err := w.mayEmbed(ctx); err != nil {
			return err
		}
		reply, err := w.Models.Embed(ctx, w.base.Embedding, embedding.ForDocument, texts)
		w.unpaid = reply.Tokens
		if err != nil {
			return unavailable(err)
		}
		if err := w.Store.PutPiece(ctx, w.d.Organization, w.d.Work.Vectors, n, packed(reply.Vectors)); err != nil {
			return err
		}
		done := w.d.Ingestion.Done + len(chunks)
		if done >= w.d.Work.Count {
			break
		}
		next := docstate.Renew{Claim: w.claim, Until: w.Host.Now().Add(lease), Done: done}
		if err := w.pay(ctx, next); err != nil {
			return err
		}
		if w.passed() {
			return w.step(ctx, docstate.Release{Claim: w.claim}, nil)
		}
	}
	return w.pay(ctx, docstate.Advance{Claim: w.claim, To: docstate.Indexing, Total: w.d.Work.Count})
}

// passed reports whether a document of another base, user or organization comes first. In the second half of the
// ingestion's time no document does.
func (w *work) passed() bool {
	return w.Waits != nil && w.Host.Now().Sub(w.d.Ingestion.Begun) < w.Deadline/2 &&
		w.Waits(queue.OfDocument(w.d.ID, w.d.Organization, w.d.UserID, w.d.KnowledgeBase))
}

// pay makes a step, which charges the tokens of the last embeddings. If the commit was surely not made, a later one
// charges them: then the error is errLost or a problem. The step is made also where the work has just run out of time.
func (w *work) pay(ctx context.Context, event docstate.Event) error {
	ctx = context.WithoutCancel(ctx)
	err := w.step(ctx, event, w.charged(ctx))
	if _, nothingDone := problem.As(err); !nothingDone && !errors.Is(err, errLost) {
		w.unpaid = 0
	}
	return err
}

// lost charges the tokens of embeddings for a document that was deleted meanwhile, or that another ingester has.
func (w *work) lost(ctx context.Context) error {
	return w.ChargeAlone(ctx, w.d.Organization, w.entry())
}

// mayEmbed fails the ingestion when a budget that its tokens count against is used up.
func (w *work) mayEmbed(ctx context.Context) error {
	err := w.MayEmbed(ctx, w.base.Embedding, w.d.Organization, w.d.UserID)
	if p, is := problem.As(err); is && p.Code == "budget_exhausted" {
		return final(docstate.OverBudget, "%s; reprocess the document when there is "+
			"some left", p.Message)
	}
	return err
}

// charged adds the tokens of embeddings to the commit that records them.
func (w *work) charged(ctx context.Context) func(d *catalog.Document, tx *record.Tx) error {
	return func(d *catalog.Document, tx *record.Tx) error { return w.Charge(ctx, tx, d.Organization, w.entry()) }
}

// entry is the ledger's entry for the tokens of the last embeddings.
func (w *work) entry() record.Entry {
	return record.Entry{
		Kind: record.OfIngestion, UserID: w.d.UserID, DocumentID: w.d.ID, KnowledgeBaseID: w.d.KnowledgeBase,
		Model: w.base.Embedding.FullName(), InputTokens: w.unpaid,
	}
}

// embedded is the text of a chunk as it is sent to the model, after the document's title, its heading and its context.
func embedded(title string, c document.Chunk) string {
	notes := slices.DeleteFunc([]string{title, c.Heading, c.Context}, func(note string) bool {
		return strings.TrimSpace(note) == ""
	})
	return strings.Join(append(notes, c.Text), "\n")
}

// unavailable is the error of an embedding model.
func unavailable(err error) error {
	after, again := embedding.MayRetry(err)
	return &trouble{
		code:    docstate.EmbeddingUnavailable,
		message: fmt.Sprintf("the embedding model could not be used: %s; reprocess the document when it can", err),
		final:   !again, after: after, cause: err,
	}
}

// packed are vectors as they are stored: 32-bit numbers, one vector after the other, little-endian.
func packed(vectors [][]float32) []byte {
	var b []byte
	for _, v := range vectors {
		b, _ = binary.Append(b, binary.LittleEndian, v) // it errs only on other types
	}
	return b
}

// unpacked reads what packed has made.
func unpacked(b []byte, dimensions int) ([][]float32, error) {
	if dimensions <= 0 || len(b)%(4*dimensions) != 0 {
		return nil, fmt.Errorf("ingest: %d bytes are no vectors of %d dimensions", len(b), dimensions)
	}
	vectors := make([][]float32, len(b)/4/dimensions)
	for i := range vectors {
		vectors[i] = make([]float32, dimensions)
		n, _ := binary.Decode(b, binary.LittleEndian, vectors[i]) // it errs only on other types and too few bytes
		b = b[n:]
	}
	return vectors, nil
}

// index puts the chunks into the index. In one commit it then makes them the build that search finds, now or after a
// rebuild.
func (w *work) index(ctx context.Context) error {
	var err error
	if w.language, err = w.spoken(ctx); err != nil {
		return err
	}
	if err := w.put(ctx); err != nil {
		return err
	}
	title, language := w.d.Title, w.d.Language
	return w.step(ctx, docstate.Finish{Claim: w.claim}, func(d *catalog.Document, tx *record.Tx) error {
		d.Work.Words = w.language
		b, err := w.readBase(ctx)
		if err != nil {
			return err
		}
		record.Unchanged(tx, b) // it may change collections
		switch d.Work.Collection {
		case b.Value.Collection:
			w.Replace(tx, d)
		case b.Value.Building():
			d.Next, d.Work = d.Work, catalog.Build{}
			return nil
		default:
			return errMoved
		}
		if d.Title != title || d.Language != language { // it was changed meanwhile
			return w.Begin(tx, d, docstate.Begin{From: docstate.Indexing, Quiet: true})
		}
		_, err = w.Anew(tx, d, b.Value)
		return err
	})
}

// spoken returns the language of the document. It is the first of these that is known:
//   - the language that a client has set for the document, or for its base
//   - the language that was detected with certainty
//   - the language of most documents of the base
//   - the language that was detected without certainty
func (w *work) spoken(ctx context.Context) (string, error) {
	if language := cmp.Or(w.d.Language, w.base.Language); language != "" {
		return language, nil
	}
	detected := w.d.Work.Language
	if detected != "" && !w.d.Work.Unsure {
		return detected, nil
	}
	most, err := w.Majority(ctx, w.d.KnowledgeBase)
	return cmp.Or(most, detected), err
}

// put puts the chunks into the index, with their words in the language of the work.
func (w *work) put(ctx context.Context) error {
	version := index.Version{
		Collection: w.d.Work.Collection, Document: w.d.ID, Number: w.d.Work.Number,
	}
	for n := 0; n*perPiece < w.d.Work.Count; n++ {
		chunks, err := w.pieceOf(ctx, n)
		if err != nil {
			return err
		}
		put, err := w.indexed(ctx, chunks, n)
		if err == nil {
			err = w.Index.Put(ctx, version, w.d.Work.Dimensions, put)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// indexed are chunks as the index takes them, with their vectors.
func (w *work) indexed(ctx context.Context, chunks []document.Chunk, n int) ([]index.Chunk, error) {
	raw, err := w.Store.Piece(ctx, w.d.Work.Vectors, n)
	if err != nil {
		return nil, err
	}
	vectors, err := unpacked(raw, w.d.Work.Dimensions)
	if err != nil {
		return nil, err
	}
	if len(vectors) != len(chunks) {
		return nil, fmt.Errorf("ingest: document %s has %d vectors for %d chunks", w.d.ID, len(vectors), len(chunks))
	}
	put := make([]index.Chunk, 0, len(chunks))
	for i, c := range chunks {
		terms, length := words.ChunkTerms(w.d.Title, w.language, c)
		put = append(put, index.Chunk{Index: c.Index, Terms: terms, Length: length, Vector: vectors[i]})
	}
	return put, nil
}
