// Package httpapitest helps the tests of the HTTP layer: the whole API over stores in memory, and requests to it.
package httpapitest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/embedding"
	"agentplatform/internal/ai/embedding/builtinembedding"
	"agentplatform/internal/ai/provider"
	"agentplatform/internal/ai/provider/registry"
	"agentplatform/internal/ai/tool"
	"agentplatform/internal/ai/tool/builtintool"
	"agentplatform/internal/api/apidoc/apidoctest"
	"agentplatform/internal/api/bridge"
	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/api/httpapi/service"
	"agentplatform/internal/api/mcpserver"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/knowledge/knowledge"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/org/toolkit"
	"agentplatform/internal/platform/egress"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/setting"
	"agentplatform/internal/proof/memindex"
	"agentplatform/internal/run/files"
	"agentplatform/internal/run/intake"
	"agentplatform/internal/run/stream"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/run/webhook"
	"agentplatform/internal/store/blob"
	"agentplatform/internal/store/blob/memblob"
	"agentplatform/internal/store/queue/localqueue"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/seal"
	"agentplatform/internal/store/seal/keyseal"
	"agentplatform/internal/store/table"
	"agentplatform/internal/store/table/memtable"
)

// API is the whole API over stores in memory, without workers: runs stay queued.
type API struct {
	*httpapi.Server

	Key      string               // of the operator
	Agent    string               // the first one
	Executor *transition.Executor // by which runs go on
	Items    *Table               // of everything but streams
	Written  *bytes.Buffer        // the log, from warnings up

	t testing.TB // fails when an answer is not one that the document has; nil: nothing looks
}

// New makes the API, with the changes of its configuration that a test needs.
func New(t testing.TB, change ...func(*service.Config)) API {
	t.Helper()
	return Over(t, &memblob.Store{}, change...)
}

// Over is New over a blob store of the test.
func Over(t testing.TB, blobs blob.Store, change ...func(*service.Config)) API {
	t.Helper()
	machine := host.System()
	items := &Table{Table: memtable.New(machine.Now)}
	store := record.New(items, blobs, machine)
	sealer, err := keyseal.New(make([]byte, seal.KeySize))
	require.NoError(t, err)
	tenants := tenant.New(store, store.Cached(), machine, tenant.Defaults{
		UserCap: 1_000_000, OrganizationCap: 1_000_000, RateLimit: 10_000_000, RateBurst: 10_000_000,
		ActiveLimit: time.Minute,
	}, sealer)
	first, err := tenants.Bootstrap(t.Context())
	require.NoError(t, err)
	q := localqueue.New()
	t.Cleanup(q.Close)
	notifier := stream.NewLocalNotifier()
	var written bytes.Buffer
	log := slog.New(slog.NewTextHandler(&written, &slog.HandlerOptions{Level: slog.LevelWarn}))
	executor := &transition.Executor{
		Store: store, Queue: q, Notifier: notifier, Host: machine, Log: log,
		Caps:          tenants.Caps,
		StartDeadline: time.Hour, ProcessID: "b",
	}
	in := &intake.Intake{Executor: executor, Store: store, Tenants: tenants, Host: machine}
	live := stream.New(memtable.New(machine.Now), notifier, machine, log)
	kits := &toolkit.Toolkits{
		Store: store, Cached: store.Cached(), Host: machine, Sealer: sealer,
		Kinds: map[string]tool.Kind{"builtin": builtintool.New(machine)},
	}
	in.Tools = kits.Listed
	c := service.Config{
		Config: httpapi.Config{
			Tenants: tenants, Host: machine, Log: log, Metrics: prometheus.NewRegistry(), MaxBody: 1 << 20,
			PublicURL: "http://localhost",
		},
		Intake: in, Store: store, Hub: live, Files: &files.Files{Store: store, Log: log},
		MCP:    func(b bridge.Bridge) service.MCP { return &mcpserver.Server{Bridge: b} },
		Sealer: sealer,
		Webhooks: &webhook.Sender{Store: store, Host: machine, Log: log, Client: refusing{}, Sealer: sealer,
			CitationFilter: tenants.SenderReads},
		Models:   &provider.Set{Host: machine, Catalogues: registry.Catalogues(setting.Settings{})},
		Toolkits: kits,
		Knowledge: &knowledge.Knowledge{
			Store: store, Tenants: tenants, Host: machine, Index: &memindex.Index{}, Documents: 10,
			Models: &knowledge.Models{Providers: map[string]embedding.Model{
				embedding.Builtin: builtinembedding.New(),
			}},
			CheckURL: func(url string) error { return knowledge.CheckURL(egress.Policy{}, url) },
		},
		ObserveWindow: 0, Heartbeat: time.Second, Pprof: true,
	}
	for _, set := range change {
		set(&c)
	}
	return API{
		Server: service.New(c), Key: first.Key, Agent: first.Agent.ID, Executor: executor, Items: items,
		Written: &written, t: t,
	}
}

// document is the OpenAPI document that every answer is held against.
var document = sync.OnceValues(func() (*apidoctest.Document, error) {
	golden, err := os.ReadFile(goldenFile())
	if err != nil {
		return nil, err
	}
	return apidoctest.New(golden)
})

// goldenFile is the committed document; a test compares it with the service's.
func goldenFile() string {
	_, here, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(here), "../service/openapi.golden.json")
}

var (
	sharedOnce sync.Once
	shared     API
)

// Shared is an API that serves a whole fuzzing run; making one for each input would be most of the work.
func Shared(f *testing.F) API {
	f.Helper()
	sharedOnce.Do(func() {
		shared = New(f)
		shared.t = nil // a fuzz target has its own
	})
	return shared
}

// Bucket is a blob store in memory that clients reach as if it were a bucket. The zero value is ready.
type Bucket struct{ memblob.Store }

const bucketURL = "https://bucket.test/"

// PresignPut implements [blob.Direct]. The error is always nil.
func (*Bucket) PresignPut(
	_ context.Context, key, contentType string, _ int64, _ time.Duration,
) (string, map[string]string, error) {
	return bucketURL + key, map[string]string{"Content-Type": contentType}, nil
}

// PresignGet implements [blob.Direct]. The error is always nil.
func (*Bucket) PresignGet(
	_ context.Context, key, disposition, contentType string, life time.Duration,
) (string, error) {
	signed := url.Values{"disposition": {disposition}, "type": {contentType}, "life": {life.String()}}
	return bucketURL + key + "?" + signed.Encode(), nil
}

// Size implements [blob.Direct].
func (b *Bucket) Size(ctx context.Context, key string) (int64, error) {
	value, err := blob.GetBytes(ctx, b, key)
	return int64(len(value)), err
}

// Follow reads the target of a redirect, which must be an address of the bucket that no cache keeps. It returns the
// object, and the content type and disposition of the bucket's answer.
func (b *Bucket) Follow(t testing.TB, w *httptest.ResponseRecorder) (bytes, contentType, disposition string) {
	t.Helper()
	require.Equal(t, http.StatusTemporaryRedirect, w.Code, w.Body)
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	address := w.Header().Get("Location")
	key, ours := strings.CutPrefix(address, bucketURL)
	require.True(t, ours, address)
	key, query, _ := strings.Cut(key, "?")
	signed, err := url.ParseQuery(query)
	require.NoError(t, err)
	require.Equal(t, "5m0s", signed.Get("life"))
	value, err := blob.GetBytes(t.Context(), b, key)
	require.NoError(t, err)
	return string(value), signed.Get("type"), signed.Get("disposition")
}

// refusing is an HTTP client that reaches no address.
type refusing struct{}

func (refusing) Do(*http.Request) (*http.Response, error) { return nil, http.ErrServerClosed }

// Table is a table that counts the items that are read. A part of it can be made unreadable.
type Table struct {
	table.Table

	Queries atomic.Int64
	Items   atomic.Int64 // that were read, by queries or by their keys

	part atomic.Pointer[string]
}

// Query reads a range.
func (b *Table) Query(ctx context.Context, r table.Range) ([]*table.Item, error) {
	items, err := b.Table.Query(ctx, r)
	b.Queries.Add(1)
	b.Items.Add(int64(len(items)))
	return items, err
}

// Break makes reads fail from now on, for items whose key, written part/sort, begins with key.
func (b *Table) Break(key string) { b.part.Store(&key) }

// Get reads items. Its errors are those of the table below, and that a part was broken.
func (b *Table) Get(ctx context.Context, keys ...table.Key) ([]*table.Item, error) {
	for _, k := range keys {
		if part := b.part.Load(); part != nil && strings.HasPrefix(k.Part+"/"+k.Sort, *part) {
			return nil, errors.New("an item that cannot be read")
		}
	}
	b.Items.Add(int64(len(keys)))
	return b.Table.Get(ctx, keys...)
}

// As is the API as the bearer of another key reaches it.
func (a API) As(key string) API {
	a.Key = key
	return a
}

// Do answers a request. The request has the key unless it has an Authorization of its own.
func (a API) Do(r *http.Request) *httptest.ResponseRecorder {
	if r.Header.Get("Authorization") == "" {
		r.Header.Set("Authorization", "Bearer "+a.Key)
	}
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	if a.t != nil {
		a.t.Helper()
		d, err := document()
		if err == nil {
			err = d.Answer(r.Method, r.URL, w.Code, w.Header(), w.Body.Bytes())
		}
		if err != nil {
			a.t.Error(err)
		}
	}
	return w
}

// Send sends a body of JSON to a path below Base.
func (a API) Send(method, path, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, httpapi.Base+path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return a.Do(r)
}

// Chat posts a form of these pairs of names and values to the agent.
func (a API) Chat(pairs ...string) *httptest.ResponseRecorder {
	kind, form := a.Form(pairs...)
	return a.Post("/chat", kind, form)
}

// Post sends a body of some type to a path below Base.
func (a API) Post(path, contentType string, body []byte) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, httpapi.Base+path, bytes.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	return a.Do(r)
}

// Form is a form of a message to the agent: its content type, and the form.
func (a API) Form(pairs ...string) (string, []byte) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	_ = w.SetBoundary("boundary")
	_ = w.WriteField("agent_id", a.Agent)
	for i := 0; i+1 < len(pairs); i += 2 {
		_ = w.WriteField(pairs[i], pairs[i+1])
	}
	_ = w.Close()
	return w.FormDataContentType(), b.Bytes()
}

// Handle is how a message was accepted.
type Handle struct {
	RunID  string `json:"run_id"`
	Parked struct {
		ParkedID string `json:"parked_id"`
	} `json:"parked"`
}

// Begin posts a message that must be accepted.
func (a API) Begin(t testing.TB, pairs ...string) Handle {
	t.Helper()
	w := a.Chat(append([]string{"message", "m", "wait", "false"}, pairs...)...)
	require.Equal(t, http.StatusAccepted, w.Code, w.Body)
	var h Handle
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &h))
	return h
}

// End makes a worker take a run, and end it by an event of its first attempt.
func (a API) End(t testing.TB, run string, by lifecycle.Event) {
	t.Helper()
	for _, event := range []lifecycle.Event{lifecycle.Claim{Holder: "w", Until: time.Now().Add(time.Hour)}, by} {
		_, err := a.Executor.Do(t.Context(), record.System(), run,
			func(record.Run, *record.Tx) (transition.Change, error) { return transition.Change{Event: event}, nil })
		require.NoError(t, err)
	}
}

// Head is the head of a request with the key, in the bytes of HTTP/1.1. more are further headers, each with its line
// end.
func (a API) Head(method, path, more string) string {
	return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n%s\r\n", method, path, a.Key, more)
}

// Sane checks rules for every answer, to any request.
func Sane(t testing.TB, w *httptest.ResponseRecorder) {
	t.Helper()
	if w.Code == http.StatusInternalServerError {
		t.Fatalf("a 500: %s", w.Body)
	}
	if w.Code < 400 {
		return
	}
	var body map[string]any
	err := json.Unmarshal(w.Body.Bytes(), &body)
	if err != nil || body["status"] != "error" || body["code"] == "" || body["message"] == "" {
		t.Fatalf("%d: not the one error body: %s", w.Code, w.Body)
	}
}
