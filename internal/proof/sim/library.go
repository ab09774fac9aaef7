package sim

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"agentplatform/internal/ai/embedding"
	"agentplatform/internal/knowledge/ingest"
	"agentplatform/internal/knowledge/knowledge"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/egress"
	"agentplatform/internal/proof/memindex"
	"agentplatform/internal/store/queue"
	"agentplatform/internal/text/document"
	"agentplatform/internal/text/extract"
	"agentplatform/internal/text/index"
)

// library has the parts of worlds with documents: an index, embedding models, a site and a checker. The site's pages
// become documents and change.
type library struct {
	*world
	documents *documentChecker

	index *memindex.Index
	pages []int // the revision of each page of the site
	texts int   // texts that were written so far, each about a word of its own
	// closed are the organizations that are being deleted.
	closed map[string]bool
}

// Parameters of documents in a simulated deployment.
const (
	ingestDeadline = time.Hour
	maxDocuments   = 12 // of a base; a client is refused more
	pagesOfSite    = 4
	mostHits       = 50 // of a search
	tokensOfText   = 3  // that the embedding models charge for each text
)

func newLibrary(w *world) *library {
	l := &library{world: w, index: &memindex.Index{}, pages: make([]int, pagesOfSite), closed: map[string]bool{}}
	l.documents = newDocumentChecker(l)
	return l
}

// hasLibrary reports whether a seed's world has documents.
func hasLibrary(seed uint64) bool { return seed/64%2 == 1 }

// models are the embedding models of the world, with their dimensions.
var models = map[string]int{"short": 4, "long": 6}

// ingester returns a process's use cases of documents.
func (l *library) ingester(d *deployment, log *slog.Logger) *ingest.Ingester {
	policy := egress.Policy{}
	return &ingest.Ingester{
		Knowledge: &knowledge.Knowledge{
			Store: d.store, Tenants: d.tenants, Host: d.machine, Index: shelf{l, d.process}, Documents: maxDocuments,
			Models: &knowledge.Models{
				Providers: map[string]embedding.Model{"paid": &embedder{l, d.process, d.machine}},
				Offered: []catalog.EmbeddingModel{
					{Provider: "paid", Name: "short"}, {Provider: "paid", Name: "long"},
				},
			},
			Wake: func(ctx context.Context, m queue.Message) {
				_ = (&portal{l.world, d.process, nil}).Send(ctx, m)
			},
			CheckURL: func(url string) error { return knowledge.CheckURL(policy, url) },
		},
		Fetch: ingest.Fetch{Policy: policy, Client: &site{l, d.process, d.machine}},
		Log:   log, Deadline: ingestDeadline, Extract: l.extract,
	}
}

// written returns a new text about a word that no other text has. Most have few parts; some have more than fit in one
// batch of embeddings. Each part becomes a chunk.
func (l *library) written() string {
	l.texts++
	parts := 1 + l.work.IntN(3)
	if l.work.IntN(8) == 0 {
		parts = catalog.ChunksOfPiece + 1 + l.work.IntN(catalog.ChunksOfPiece)
	}
	if l.work.IntN(30) == 0 {
		parts = 0 // an empty document cannot be read
	}
	return textOf(fmt.Sprintf("text%dx", l.texts), parts)
}

func textOf(word string, parts int) string {
	var b strings.Builder
	for n := range parts {
		fmt.Fprintf(&b, "# Part %d\n%s is here, %d.\n", n, word, n)
	}
	return b.String()
}

// wordOf returns the word of a text's first part.
func wordOf(body string) string {
	_, rest, _ := strings.Cut(body, "\n")
	word, _, _ := strings.Cut(rest, " ")
	return word
}

// extract reads a text of textOf; the reader may be killed, and have a bug.
func (l *library) extract(ctx context.Context, _ string, f extract.File) (document.Text, error) {
	if l.maybe("extraction fails") {
		switch l.chance.IntN(3) {
		case 0:
			panic("the reader's program failed")
		case 1:
			return document.Text{}, extract.Fault{Code: extract.Unreadable}
		default:
			return document.Text{}, errors.New("the reader was killed")
		}
	}
	r, err := f.Open(ctx)
	if err != nil {
		return document.Text{}, err
	}
	b, err := io.ReadAll(r)
	text, at := document.Text{Body: string(b)}, 0
	for line := range strings.Lines(text.Body) {
		kind := document.Paragraph
		if strings.HasPrefix(line, "#") {
			kind = document.Heading
		}
		text.Blocks = append(text.Blocks, document.Block{Kind: kind, Start: at, End: at + len(line) - 1, Level: 1})
		at += len(line)
	}
	return text, err
}

// shelf is a process's connection to the index.
type shelf struct {
	*library
	process *process
}

// call makes a change of the index. It may fail before or after the change.
func (s shelf) call(change func() error) error {
	s.port(s.process, "index")
	if s.maybe("index unreachable") {
		return errUnreachable
	}
	err := change()
	s.port(s.process, "index done")
	if err == nil && s.maybe("index changed, answer lost") {
		return errUnreachable
	}
	return err
}

func (s shelf) Put(ctx context.Context, v index.Version, dimensions int, chunks []index.Chunk) error {
	return s.call(func() error {
		s.logf("put %+v", v)
		if s.maybe("index put in parts") {
			chunks = chunks[:s.chance.IntN(len(chunks))]
			if err := s.index.Put(ctx, v, dimensions, chunks); err == nil {
				s.documents.put(v, chunks)
			}
			return errUnreachable
		}
		err := s.index.Put(ctx, v, dimensions, chunks)
		if err == nil {
			s.documents.put(v, chunks)
		}
		return err
	})
}

func (s shelf) Remove(ctx context.Context, v index.Version) error {
	return s.call(func() error {
		s.logf("remove %+v", v)
		delete(s.documents.indexed, v)
		return s.index.Remove(ctx, v)
	})
}

func (s shelf) Drop(ctx context.Context, collection string) error {
	return s.call(func() error {
		s.logf("drop %s", collection)
		for v := range s.documents.indexed {
			if v.Collection == collection {
				delete(s.documents.indexed, v)
			}
		}
		return s.index.Drop(ctx, collection)
	})
}

func (s shelf) Query(ctx context.Context, q index.Query) (index.Result, error) {
	s.port(s.process, "query")
	if s.maybe("index unreachable") {
		return index.Result{}, errUnreachable
	}
	r, err := s.index.Query(ctx, q)
	s.port(s.process, "query done")
	return r, err
}

// ofDocument reports whether a key of the blob store is of a document of a knowledge base.
func ofDocument(key string) bool {
	parts := strings.Split(key, "/")
	return parts[0] == "documents" && len(parts) > 3 &&
		slices.Contains([]string{"source", "text", "structure", "chunks", "vectors"}, parts[2])
}

// fails reports whether a call of the blob store fails.
func (b *bucket) fails(key string) bool {
	return ofDocument(key) && b.world.maybe("blob store unreachable")
}

// Get reads a value. The process may stand still or die here.
func (b *bucket) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	if ofDocument(key) {
		b.world.port(b.process, "blob read")
	}
	if b.fails(key) {
		return nil, errUnreachable
	}
	return b.Store.Get(ctx, key)
}

// Delete deletes a value. The process may stand still or die here.
func (b *bucket) Delete(ctx context.Context, key string) error {
	if ofDocument(key) {
		b.world.port(b.process, "blob to delete")
	}
	if b.fails(key) {
		return errUnreachable
	}
	return b.Store.Delete(ctx, key)
}

// embedder is a process's connection to the embedding models. These fail, hang, and return too few or too many vectors.
type embedder struct {
	*library
	process *process
	machine *machine
}

// patience is how long the adapter of a model waits for it.
const patience = time.Minute

// Embed implements [embedding.Model].
func (e *embedder) Embed(ctx context.Context, r embedding.Request) (embedding.Reply, error) {
	if r.Purpose == embedding.ForDocument {
		e.documents.checkEmbedding(r.Texts)
	}
	e.port(e.process, "embed")
	reply := embedding.Reply{Tokens: tokensOfText * int64(len(r.Texts))}
	for _, t := range r.Texts {
		reply.Vectors = append(reply.Vectors, vectorOf(t, models[r.Name]))
	}
	var err error
	if e.maybe("embedding fails") {
		switch n := e.chance.IntN(8); {
		case n < 2:
			reply, err = embedding.Reply{}, embedding.Fail(embedding.Retryable, "the model answered 503")
		case n < 3:
			reply = embedding.Reply{}
			err = &embedding.Error{Kind: embedding.Throttled, Wait: patience, Err: errors.New("too many requests")}
		case n < 4:
			if err = e.machine.Sleep(ctx, patience); err == nil {
				err = embedding.Fail(embedding.Retryable, "no answer came in time")
			}
			reply = embedding.Reply{}
		case n < 5: // an unusable response is charged, too
			reply.Vectors, err = nil, embedding.Fail(embedding.Malformed, "another number of vectors")
		case n < 6:
			reply, err = embedding.Reply{}, embedding.Fail(embedding.BadRequest, "not such a text")
		case r.Purpose == embedding.ForDocument && n < 7: // an adapter that breaks its contract
			reply.Vectors = reply.Vectors[1:]
		case r.Purpose == embedding.ForDocument:
			reply.Vectors = append(reply.Vectors, reply.Vectors[0])
		}
	}
	if r.Purpose == embedding.ForDocument {
		e.documents.answered(reply.Tokens)
	}
	e.port(e.process, "embed done")
	return reply, err
}

func vectorOf(text string, dimensions int) []float32 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, text)
	r, v := rand.New(rand.NewPCG(h.Sum64(), 0)), make([]float32, dimensions)
	for i := range v {
		v[i] = r.Float32() + 0.01
	}
	embedding.Unit(v)
	return v
}

// site is a process's connection to the site from which documents are fetched.
type site struct {
	*library
	process *process
	machine *machine
}

// address returns the address of a page.
func address(page int) string { return fmt.Sprintf("https://pages.example/%d", page) }

// Do returns the response to a request for a page. The site fails in every way.
func (s *site) Do(r *http.Request) (*http.Response, error) {
	s.port(s.process, "fetch")
	answer := func(status int, header, value, body string) (*http.Response, error) {
		s.port(s.process, "fetch done")
		return &http.Response{
			StatusCode: status, Header: http.Header{header: {value}}, Body: io.NopCloser(strings.NewReader(body)),
			Request: r,
		}, nil
	}
	if s.maybe("site fails") {
		switch s.chance.IntN(6) {
		case 0:
			return nil, errUnreachable
		case 1:
			if err := s.machine.Sleep(r.Context(), time.Hour); err != nil {
				return nil, err
			}
			return nil, errUnreachable
		case 2:
			return answer(http.StatusNotFound, "Content-Type", "text/plain", "nothing")
		case 3:
			return answer(http.StatusBadGateway, "Content-Type", "text/plain", "later")
		case 4:
			return answer(http.StatusFound, "Location", "http://10.0.0.7/secret", "")
		case 5:
			return answer(http.StatusFound, "Location", address(s.chance.IntN(len(s.pages))), "")
		}
	}
	page := 0
	_, _ = fmt.Sscanf(r.URL.Path, "/%d", &page)
	tag := fmt.Sprintf(`"%d.%d"`, page, s.pages[page])
	if r.Header.Get("If-None-Match") == tag {
		return answer(http.StatusNotModified, "Etag", tag, "")
	}
	return answer(http.StatusOK, "Etag", tag, textOf(fmt.Sprintf("page%dx%d", page, s.pages[page]), 1+page%3))
}
