package ingest_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/embedding"
	"agentplatform/internal/ai/embedding/builtinembedding"
	"agentplatform/internal/core/docstate"
	"agentplatform/internal/knowledge/ingest"
	"agentplatform/internal/knowledge/knowledge"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/proof/faulttable"
	"agentplatform/internal/proof/memindex"
	"agentplatform/internal/run/removal"
	"agentplatform/internal/store/blob/memblob"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table/memtable"
	"agentplatform/internal/text/document"
	"agentplatform/internal/text/extract"
	"agentplatform/internal/text/index"
	"agentplatform/internal/text/ranking"
)

// world is knowledge over stores in memory, in the virtual time of a bubble. Its process can die at any call of a port.
type world struct {
	*testing.T

	store     *record.Store
	host      host.Host
	table     *faulttable.Table
	blobs     *memblob.Store
	index     *memindex.Index
	fate      *fate
	model     *model
	beforePut func()
	beforeGet func() // of a blob, once; nil: nothing
	overtake  overtaker
	admin     tenant.Principal
	knowledge *knowledge.Knowledge
	ingester  *ingest.Ingester
	remover   *removal.Remover
}

// fate decides at which call of a port the process dies: from then on no call does anything.
type fate struct {
	mu    sync.Mutex
	calls int
	dieAt int  // 0: never
	done  bool // the call at which it dies is done
	dead  bool
}

var errDead = errors.New("the process is dead")

// next reports whether the next call is made, and whether its answer arrives.
func (f *fate) next() (made, answered bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dead {
		return false, false
	}
	f.calls++
	if f.calls == f.dieAt {
		f.dead = true
		return f.done, false
	}
	return true, true
}

func (f *fate) call(do func() error) error {
	made, answered := f.next()
	var err error
	if made {
		err = do()
	}
	if !answered {
		return errDead
	}
	return err
}

// overtaker does something between the reads for a commit and the commit.
type overtaker struct {
	mu    sync.Mutex
	after int // commits
	do    func()
}

func (o *overtaker) set(after int, do func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.after, o.do = after, do
}

func (o *overtaker) next() {
	o.mu.Lock()
	do := o.do
	if o.after--; do == nil || o.after >= 0 {
		do = func() {}
	} else {
		o.do = nil
	}
	o.mu.Unlock()
	do()
}

// blobs are a blob store of a process that may die.
type blobs struct {
	*memblob.Store
	fate   *fate
	before *func() // a call of Get, once; nil: nothing
}

func (b blobs) Put(ctx context.Context, key string, r io.Reader, limit int64) (n int64, err error) {
	err = b.fate.call(func() error {
		n, err = b.Store.Put(ctx, key, r, limit)
		return err
	})
	return n, err
}

func (b blobs) Get(ctx context.Context, key string) (r io.ReadCloser, err error) {
	if first := *b.before; first != nil {
		*b.before = nil
		first()
	}
	err = b.fate.call(func() error {
		r, err = b.Store.Get(ctx, key)
		return err
	})
	return r, err
}

// searched is an index of a process that may die.
type searched struct {
	*memindex.Index
	fate   *fate
	before *func() // a call of Put, once; nil: nothing
}

func (s searched) Put(ctx context.Context, v index.Version, dimensions int, chunks []index.Chunk) error {
	if first := *s.before; first != nil {
		*s.before = nil
		first()
	}
	return s.fate.call(func() error { return s.Index.Put(ctx, v, dimensions, chunks) })
}

func (s searched) Drop(ctx context.Context, collection string) error {
	return s.fate.call(func() error { return s.Index.Drop(ctx, collection) })
}

// model is an embedding model that counts its requests, and may fail.
type model struct {
	builtinembedding.Model

	fate     *fate
	mu       sync.Mutex
	requests map[string]int // texts of documents
	fail     func() error   // nil: it does not

	queries []string // texts of queries
	hang    int      // so many calls have no answer until they are ended, or for two hours
	slow    time.Duration
}

func (m *model) Embed(ctx context.Context, r embedding.Request) (reply embedding.Reply, err error) {
	time.Sleep(m.slow) // of the bubble
	if m.hang > 0 {
		m.hang--
		if err := host.System().Sleep(ctx, 2*time.Hour); err != nil {
			return reply, err
		}
		return reply, embedding.Fail(embedding.Retryable, "no answer came")
	}
	err = m.fate.call(func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.fail != nil {
			if err := m.fail(); err != nil {
				return err
			}
		}
		for _, t := range r.Texts {
			if r.Purpose == embedding.ForDocument {
				m.requests[t]++
			} else {
				m.queries = append(m.queries, t)
			}
		}
		reply, err = m.Model.Embed(ctx, r)
		return err
	})
	return reply, err
}

// paid is a model whose texts cost tokens, also one for a request that fails.
type paid struct{ *model }

const tokensOfText = 10

func (m paid) Embed(ctx context.Context, r embedding.Request) (embedding.Reply, error) {
	r.Name = builtinembedding.Name
	reply, err := m.model.Embed(ctx, r)
	reply.Tokens = int64(tokensOfText * len(r.Texts))
	if err != nil {
		reply.Tokens = 1
	}
	return reply, err
}

// newWorld makes a world. It is called in a bubble.
func newWorld(t *testing.T) *world {
	machine, f := host.System(), &fate{}
	w := &world{
		T: t, host: machine, blobs: &memblob.Store{}, index: &memindex.Index{}, fate: f,
		model: &model{fate: f, requests: map[string]int{}},
	}
	w.table = &faulttable.Table{Inner: memtable.New(machine.Now), Before: func(c faulttable.Call) faulttable.Fault {
		if c.Commit {
			w.overtake.next()
		}
		switch made, answered := f.next(); {
		case !made:
			return faulttable.Down
		case !answered:
			return faulttable.AppliedUnknown
		}
		return faulttable.None
	}}
	w.store = record.New(w.table, blobs{w.blobs, f, &w.beforeGet}, machine)
	tenants := tenant.New(w.store, w.store.Cached(), machine, tenant.Defaults{}, nil)
	w.admin = tenant.Principal{
		Organization: machine.NewID(), User: machine.NewID(),
		Level: tenant.LevelAdmin,
	}
	w.knowledge = &knowledge.Knowledge{
		Store: w.store, Tenants: tenants, Host: machine, Index: searched{w.index, f, &w.beforePut}, Documents: 100,
		CheckURL: func(string) error { return nil },
		Models: &knowledge.Models{
			Providers: map[string]embedding.Model{embedding.Builtin: w.model, "paid": paid{w.model}},
			Offered:   []catalog.EmbeddingModel{{Provider: "paid", Name: "m", Dimensions: 512}},
		},
	}
	w.ingester = &ingest.Ingester{
		Knowledge: w.knowledge, Log: slog.New(slog.DiscardHandler), Deadline: time.Hour, Extract: plain,
	}
	w.remover = &removal.Remover{Store: w.store, Host: machine, Index: w.index, More: w.ingester.Jobs()}
	return w
}

// plain reads plain text.
func plain(ctx context.Context, _ string, f extract.File) (document.Text, error) {
	r, err := f.Open(ctx)
	if err != nil {
		return document.Text{}, err
	}
	b, err := io.ReadAll(r)
	return document.Text{Body: string(b)}, err
}

func (w *world) base() catalog.KnowledgeBase { return w.baseOf(embedding.Builtin) }

// baseOf makes a base whose model is of that provider.
func (w *world) baseOf(provider string) catalog.KnowledgeBase {
	name, size, overlap := "base", 50, 10
	model := catalog.EmbeddingModel{Provider: provider, Dimensions: 512}
	if provider == "paid" {
		model.Name = "m"
	}
	e, err := w.knowledge.CreateBase(w.Context(), w.admin, knowledge.BaseEdit{
		Name: &name, Size: &size, Overlap: &overlap, Embedding: &model,
	})
	require.NoError(w, err)
	return e.Value
}

// organization is the administrator's.
func (w *world) organization() catalog.Organization {
	return catalog.Organization{ID: w.admin.Organization}
}

// budgets gives organization and user a budget of so many tokens a month.
func (w *world) budgets(tokens int64) {
	b := &record.Budget{Period: "month", MaxTokens: &tokens}
	_, err := record.Create(w.Context(), w.store, catalog.Organization{ID: w.admin.Organization, Budget: b},
		w.host.NewID())
	require.NoError(w, err)
	_, err = record.Create(w.Context(), w.store,
		catalog.User{ID: w.admin.User, Organization: w.admin.Organization, Budget: b}, w.host.NewID())
	require.NoError(w, err)
}

// charged returns the ledger, and checks that both budgets have counted the same tokens.
func (w *world) charged() (entries []record.Entry, tokens int64) {
	days := record.LedgerDays
	page, err := w.store.Ledger(w.Context(), record.Of(w.admin.Organization), time.Time{}, time.Time{}, "", 1000, &days)
	require.NoError(w, err)
	for _, e := range page.Rows {
		entries = append(entries, e.Value)
		tokens += e.Value.InputTokens
	}
	limits, err := w.knowledge.Tenants.EmbeddingLimits(w.Context(), w.admin.Organization, w.admin.User)
	require.NoError(w, err)
	for _, l := range limits {
		spent, err := w.store.Spent(w.Context(), l.Name(w.host.Now()))
		require.NoError(w, err)
		require.Equal(w, record.Spent{Tokens: tokens}, spent, "the budget of %s and the ledger", l.Kind)
	}
	return entries, tokens
}

// add adds a text to a base, whose ingestion has not begun.
func (w *world) add(b catalog.KnowledgeBase, text string) string {
	n := knowledge.NewDocument{Title: "title", Source: catalog.Source{Kind: catalog.FromText},
		ContentType: "text/plain"}
	bytes, err := w.knowledge.Receive(w.Context(), b.Organization, "", strings.NewReader(text))
	require.NoError(w, err)
	e, _, err := w.knowledge.Add(w.Context(), w.admin, b, n, bytes)
	require.NoError(w, err)
	return e.Value.ID
}

func (w *world) read(id string) catalog.Document {
	e, err := record.Resource[catalog.Document](w.Context(), w.store, record.System(), id)
	require.NoError(w, err)
	return e.Value
}

// ingest calls the ingester until the ingestion has ended, as queue and sweeper do, and returns how often.
func (w *world) ingest(id string) (calls int) {
	for w.read(id).Ingestion.Active() {
		calls++
		require.Less(w, calls, 50, "it does not end: %+v", w.read(id).Ingestion)
		_, _ = w.ingester.Handle(w.Context(), id)
		if next := w.read(id).Ingestion.Due; next.After(w.host.Now()) {
			time.Sleep(next.Sub(w.host.Now()))
		}
	}
	return calls
}

// ready ingests a text to its end.
func (w *world) ready(b catalog.KnowledgeBase, text string) string {
	id := w.add(b, text)
	w.ingest(id)
	require.Equal(w, docstate.Ready, w.read(id).Ingestion.Status, "%+v", w.read(id).Ingestion.Failure)
	return id
}

// find searches all bases for a word, and returns the hits.
func (w *world) find(query string) []knowledge.Hit {
	found, err := w.knowledge.Search(w.Context(), w.admin, knowledge.Question{
		Query: query, Mode: ranking.Keyword, Limit: 50,
	})
	require.NoError(w, err)
	return found.Hits
}

// turn does a piece of all that is due, documents and jobs, as queues and sweeper do, and lets a second pass.
func (w *world) turn() {
	for shard := range record.DueShards {
		due, err := w.store.Due(w.Context(), shard, w.host.Now(), 1000)
		if err != nil {
			require.True(w, w.fate.dead, "%v", err)
			return
		}
		for _, d := range due {
			if d.Kind == "job" {
				_, _ = w.remover.Handle(w.Context(), d.ID)
			} else {
				_, _ = w.ingester.Handle(w.Context(), d.ID)
			}
		}
	}
	time.Sleep(time.Second)
}

// jobs does a piece of each job that is due.
func (w *world) jobs() {
	for shard := range record.DueShards {
		due, err := w.store.Due(w.Context(), shard, w.host.Now(), 1000)
		require.NoError(w, err)
		for _, d := range due {
			if d.Kind == "job" {
				_, err := w.remover.Handle(w.Context(), d.ID)
				require.NoError(w, err)
			}
		}
	}
}

// settle does all jobs that are due within two hours, as queue and sweeper do.
func (w *world) settle() {
	time.Sleep(2 * time.Hour)
	for range 3 {
		for shard := range record.DueShards {
			due, err := w.store.Due(w.Context(), shard, w.host.Now(), 1000)
			require.NoError(w, err)
			for _, d := range due {
				if d.Kind != "job" {
					continue
				}
				for again := time.Duration(1); again > 0; {
					again, err = w.remover.Handle(w.Context(), d.ID)
					require.NoError(w, err)
				}
			}
		}
		time.Sleep(2 * time.Hour)
	}
}
