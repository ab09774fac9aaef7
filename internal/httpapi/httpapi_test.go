package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"log/slog"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/a2aface"
	"agentplatform/internal/blob/memblob"
	"agentplatform/internal/feed"
	"agentplatform/internal/files"
	"agentplatform/internal/host"
	"agentplatform/internal/httpapi"
	"agentplatform/internal/intake"
	"agentplatform/internal/mcpface"
	"agentplatform/internal/model/modellist"
	"agentplatform/internal/move"
	"agentplatform/internal/provider"
	"agentplatform/internal/queue/localqueue"
	"agentplatform/internal/record"
	"agentplatform/internal/seal"
	"agentplatform/internal/seal/keyseal"
	"agentplatform/internal/setting"
	"agentplatform/internal/table"
	"agentplatform/internal/table/memtable"
	"agentplatform/internal/tenant"
	"agentplatform/internal/timer/localtimer"
	"agentplatform/internal/tool"
	"agentplatform/internal/tool/builtintool"
	"agentplatform/internal/toolkit"
	"agentplatform/internal/webhook"
)

var update = flag.Bool("update", false, "rewrite golden files")

// edge is the HTTP edge over stores in memory, without workers: runs stay queued.
type edge struct {
	*httpapi.Server
	key, agent string
	items      *broken
	log        *bytes.Buffer
}

// broken is a table in which, from some time on, a part cannot be read.
type broken struct {
	table.Table

	part atomic.Pointer[string]
}

func (b *broken) Get(ctx context.Context, keys ...table.Key) ([]*table.Item, error) {
	for _, k := range keys {
		if part := b.part.Load(); part != nil && strings.HasPrefix(k.Part+"/"+k.Sort, *part) {
			return nil, errors.New("an item that cannot be read")
		}
	}
	return b.Table.Get(ctx, keys...)
}

func newEdge(t testing.TB) edge {
	t.Helper()
	machine := host.System()
	items := &broken{Table: memtable.New(machine.Now)}
	store := record.New(items, &memblob.Store{}, machine)
	sealer, err := keyseal.New(make([]byte, seal.KeySize))
	require.NoError(t, err)
	tenants := tenant.New(store, store.Known(), machine, tenant.Defaults{
		UserCap: 1_000_000, OrganizationCap: 1_000_000, RateLimit: 10_000_000, RateBurst: 10_000_000, ActiveLimit: time.Minute,
	}, sealer)
	first, err := tenants.Bootstrap(t.Context())
	require.NoError(t, err)
	q := localqueue.New()
	t.Cleanup(q.Close)
	bell := feed.NewLocalBell()
	var written bytes.Buffer
	log := slog.New(slog.NewTextHandler(&written, &slog.HandlerOptions{Level: slog.LevelWarn}))
	shell := &move.Shell{
		Store: store, Queue: q, Timer: localtimer.New(q), Bell: bell, Host: machine, Log: log, Caps: tenants.Caps, StartDeadline: time.Hour, Boot: "b",
	}
	in, live := &intake.Intake{Shell: shell, Store: store, Tenants: tenants, Host: machine}, feed.New(memtable.New(machine.Now), bell, machine)
	return edge{items: items, log: &written, key: first.Key, agent: first.Agent.ID, Server: httpapi.New(httpapi.Config{
		Intake: in, Tenants: tenants, Store: store, Feed: live, Files: &files.Files{Store: store, Log: log},
		MCP: (&mcpface.Face{Intake: in, Store: store, Feed: live, Log: log}).For,
		A2A: &a2aface.Face{Intake: in, Store: store, Feed: live, Log: log}, Webhooks: &webhook.Sender{Store: store, Host: machine, Log: log, Client: refusing{}, Sealer: sealer},
		Models:   &provider.Set{Host: machine, Catalogues: modellist.Of(setting.Settings{})},
		Toolkits: &toolkit.Toolkits{Store: store, Known: store.Known(), Host: machine, Sealer: sealer, Kinds: map[string]tool.Kind{"builtin": builtintool.New(machine)}},
		Host:     machine, Log: log, ObserveWindow: 0, Heartbeat: time.Second, MaxBody: 1 << 20, Metrics: prometheus.NewRegistry(), Pprof: true, PublicURL: "http://localhost",
	})}
}

// refusing reaches nobody.
type refusing struct{}

func (refusing) Do(*http.Request) (*http.Response, error) { return nil, http.ErrServerClosed }

func (e edge) do(r *http.Request) *httptest.ResponseRecorder {
	if r.Header.Get("Authorization") == "" {
		r.Header.Set("Authorization", "Bearer "+e.key)
	}
	w := httptest.NewRecorder()
	e.ServeHTTP(w, r)
	return w
}

// sane checks what every answer must be, whatever was asked.
func sane(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	if w.Code == http.StatusInternalServerError {
		t.Fatalf("a 500: %s", w.Body)
	}
	if w.Code >= 400 {
		var body map[string]any
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || body["status"] != "error" || body["code"] == "" || body["message"] == "" {
			t.Fatalf("%d: not the one error body: %s", w.Code, w.Body)
		}
	}
}

func TestTheDocumentIsTheOneThatIsCommitted(t *testing.T) {
	document, err := newEdge(t).Document()
	require.NoError(t, err)
	var pretty bytes.Buffer
	require.NoError(t, json.Indent(&pretty, document, "", "  "))
	pretty.WriteByte('\n')
	const file = "openapi.golden.json"
	if *update {
		require.NoError(t, os.WriteFile(file, pretty.Bytes(), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), pretty.String(), "run make golden if this is meant")
}

func TestEveryRouteNeedsAKeyButTheOpenOnes(t *testing.T) {
	e := newEdge(t)
	patterns := e.Patterns()
	sort.Strings(patterns)
	require.Greater(t, len(patterns), 50)
	for _, p := range patterns {
		method, path, _ := strings.Cut(p, " ")
		r := httptest.NewRequest(method, strings.NewReplacer("{", "", "}", "").Replace(path), nil)
		r.Header.Set("Authorization", "none")
		w := httptest.NewRecorder()
		e.ServeHTTP(w, r)
		if path == httpapi.Base+"/healthz" {
			assert.Equal(t, http.StatusOK, w.Code)
			continue
		}
		assert.Equal(t, http.StatusUnauthorized, w.Code, p)
	}
}

// An alarm counts what is logged as an error: a client that hangs up must not ring it.
func TestAClientThatHangsUpIsNoError(t *testing.T) {
	e := newEdge(t)
	var log bytes.Buffer
	e.Log = slog.New(slog.NewJSONHandler(&log, nil))
	contentType, form := chatForm(e.agent, "message", "hello", "wait", "false")
	r := httptest.NewRequest(http.MethodPost, httpapi.Base+"/chat", bytes.NewReader(form))
	r.Header.Set("Content-Type", contentType)
	accepted := e.do(r)
	require.Equal(t, http.StatusAccepted, accepted.Code, accepted.Body)

	ctx, hangUp := context.WithCancel(t.Context())
	hangUp()
	e.do(httptest.NewRequestWithContext(ctx, http.MethodGet, httpapi.Base+"/runs/"+accepted.Header().Get("X-Agent-Run-Id")+"?wait_ms=20000", nil))
	assert.Contains(t, log.String(), "a request was given up")
	assert.NotContains(t, log.String(), "ERROR")
}

func TestDocsWorkOffline(t *testing.T) {
	e := newEdge(t)
	w := httptest.NewRecorder()
	e.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/docs/", nil))
	require.Equal(t, http.StatusOK, w.Code)
	assert.Contains(t, w.Body.String(), "/api/v1/openapi.json")
	assert.NotContains(t, w.Body.String(), "https://unpkg.com")
	for _, asset := range []string{"swagger-ui-bundle.js", "swagger-ui.css"} {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/docs/"+asset, nil))
		assert.Equal(t, http.StatusOK, w.Code, asset)
		assert.Greater(t, w.Body.Len(), 10_000, asset)
	}
}

var (
	sharedOnce sync.Once
	shared     edge
)

// sharedEdge serves a whole fuzzing run; making one for each input would be most of the work.
func sharedEdge(f *testing.F) edge {
	f.Helper()
	sharedOnce.Do(func() { shared = newEdge(f) })
	return shared
}

func chatForm(agent string, pairs ...string) (string, []byte) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	_ = w.SetBoundary("boundary")
	_ = w.WriteField("agent_id", agent)
	for i := 0; i+1 < len(pairs); i += 2 {
		_ = w.WriteField(pairs[i], pairs[i+1])
	}
	_ = w.Close()
	return w.FormDataContentType(), b.Bytes()
}

func FuzzChatForm(f *testing.F) {
	e := sharedEdge(f)
	for _, pairs := range [][]string{
		{"message", "x"}, {"message", "x", "wait", "false"}, {"message", "x", "metadata", `{"a":"b"}`}, {"message", "x", "idempotency_key", "k"},
		{"message", "x", "chat_id", "c", "on_conflict", "enqueue"}, {"message", "x", "callback_url", "https://example.com"}, {"message", "x", "file_ids", "a,b"},
	} {
		kind, body := chatForm(e.agent, pairs...)
		f.Add(kind, body)
	}
	f.Add("multipart/form-data; boundary=b", []byte("--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"x\"\r\n\r\nabc\r\n--b--"))
	f.Add("multipart/form-data; boundary=\"\"", []byte("--"))
	f.Add("application/json", []byte(`{}`))
	f.Fuzz(func(t *testing.T, kind string, body []byte) {
		if bytes.Contains(body, []byte("streaming")) {
			return // a stream of a run that no worker takes never ends
		}
		r := httptest.NewRequest(http.MethodPost, httpapi.Base+"/chat", bytes.NewReader(body))
		r.Header.Set("Content-Type", kind)
		sane(t, e.do(r))
	})
}

func FuzzJSONBodies(f *testing.F) {
	e := sharedEdge(f)
	routes := []string{
		"POST /runs/0123456789abcdef01234567/resume", "POST /runs/0123456789abcdef01234567/followups", "POST /runs/0123456789abcdef01234567/cancel", "POST /runs/cancel",
		"POST /agents", "PATCH /agents/" + e.agent, "POST /users", "POST /api-keys", "POST /organizations", "PATCH /organization", "POST /webhooks/test", "POST /files",
	}
	for i := range routes {
		for _, body := range []string{`{}`, `null`, `[]`, `{"name":"a","model":{"provider":"demo"},"limits":{"max_steps":3}}`, `{"decisions":[{"interrupt_id":"x","decision":"edit","arguments":{}}]}`, `{"filter":{},"confirm_count":9}`, `{"email":"a@b.c","organization_id":null}`, "{\"name\":\"\xff\"}"} {
			f.Add(i, []byte(body))
		}
	}
	f.Fuzz(func(t *testing.T, route int, body []byte) {
		method, path, _ := strings.Cut(routes[uint(route)%uint(len(routes))], " ")
		r := httptest.NewRequest(method, httpapi.Base+path, bytes.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		sane(t, e.do(r))
	})
}

func FuzzBearerHeader(f *testing.F) {
	e := sharedEdge(f)
	for _, s := range []string{"Bearer " + e.key, "bearer " + e.key, "Bearer", "Basic x", "Bearer rt_e30.e30", "Bearer rt_", "Bearer ap_00000000_", "", "Bearer \x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, header string) {
		r := httptest.NewRequest(http.MethodGet, httpapi.Base+"/me", nil)
		r.Header["Authorization"] = []string{header}
		w := httptest.NewRecorder()
		e.ServeHTTP(w, r)
		sane(t, w)
		if w.Code == http.StatusOK && !strings.Contains(header, e.key) {
			t.Fatalf("%q was let in", header)
		}
	})
}

func FuzzIdsAndCursors(f *testing.F) {
	e := sharedEdge(f)
	for _, s := range []string{"", "c", "0123456789abcdef01234567", "../x", "a/b", "YzE6eA", "YzE6NQ", "%00", "ü", strings.Repeat("x", 300), "?", "#"} {
		f.Add(s, s)
	}
	paths := []string{"/runs/", "/chats/", "/agents/", "/users/", "/api-keys/", "/files/", "/organizations/", "/toolkits/"}
	f.Fuzz(func(t *testing.T, id, cursor string) {
		for _, path := range append(paths, "/runs?cursor=") {
			r := httptest.NewRequest(http.MethodGet, httpapi.Base+"/runs", nil)
			r.URL.Path, r.URL.RawQuery = httpapi.Base+path+id, "limit=5&cursor="+strings.Map(safe, cursor)
			if strings.Contains(path, "?") {
				r.URL.Path = httpapi.Base + "/runs"
			}
			sane(t, e.do(r))
		}
	})
}

func safe(r rune) rune {
	if r <= ' ' || r > '~' || r == '&' || r == '#' || r == ';' || r == '%' {
		return -1
	}
	return r
}

func FuzzCallbackURL(f *testing.F) {
	e := sharedEdge(f)
	for _, s := range []string{"https://example.com/", "http://x", "https://127.0.0.1/", "https://0x7f.1/", "https://[::1]/", "https://a@b/", "//x", "https://", "https://ex ample/", "https://例え.jp/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, u string) {
		kind, body := chatForm(e.agent, "message", "x", "wait", "false", "callback_url", u)
		r := httptest.NewRequest(http.MethodPost, httpapi.Base+"/chat", bytes.NewReader(body))
		r.Header.Set("Content-Type", kind)
		w := e.do(r)
		sane(t, w)
		if w.Code == http.StatusAccepted && u != "" && !strings.HasPrefix(strings.ToLower(u), "https://") {
			t.Fatalf("%q was accepted", u)
		}
	})
}

// begin posts a message to a chat and tells its run, which stays queued, and where a busy chat has parked it.
func (e edge) begin(t *testing.T) (run, parked string) {
	t.Helper()
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	for name, value := range map[string]string{"agent_id": e.agent, "message": "m", "wait": "false", "chat_id": "c", "on_conflict": "enqueue"} {
		require.NoError(t, w.WriteField(name, value))
	}
	require.NoError(t, w.Close())
	r := httptest.NewRequest(http.MethodPost, httpapi.Base+"/chat", &form)
	r.Header.Set("Content-Type", w.FormDataContentType())
	posted := e.do(r)
	require.Equal(t, http.StatusAccepted, posted.Code, posted.Body)
	var handle struct {
		RunID  string `json:"run_id"`
		Parked struct {
			ParkedID string `json:"parked_id"`
		} `json:"parked"`
	}
	require.NoError(t, json.Unmarshal(posted.Body.Bytes(), &handle))
	return handle.RunID, handle.Parked.ParkedID
}

func TestAParkedMessageThatCannotBeReadIsNotOneThatIsNotThere(t *testing.T) {
	e := newEdge(t)
	run, _ := e.begin(t)
	_, parked := e.begin(t)
	get := func() *httptest.ResponseRecorder {
		return e.do(httptest.NewRequest(http.MethodGet, httpapi.Base+"/runs/"+run, nil))
	}
	assert.Contains(t, get().Body.String(), parked)
	part := "run/" + parked + "/input"
	e.items.part.Store(&part)
	assert.Equal(t, http.StatusInternalServerError, get().Code)
	assert.Contains(t, e.log.String(), "an item that cannot be read")
}

// breaking breaks a table when something is written.
type breaking struct {
	*httptest.ResponseRecorder

	when string
	then func()
}

func (b breaking) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(b.when)) {
		b.then()
	}
	return b.ResponseRecorder.Write(p)
}

func TestAStreamThatFailsSaysSoInTheLog(t *testing.T) {
	e := newEdge(t)
	run, _ := e.begin(t)
	r := httptest.NewRequest(http.MethodGet, httpapi.Base+"/runs/"+run+"/stream", nil)
	r.Header.Set("Authorization", "Bearer "+e.key)
	part := "run/"
	w := breaking{httptest.NewRecorder(), "event: init", func() { // what happens next rings, and then cannot be read
		cancelled := e.do(httptest.NewRequest(http.MethodPost, httpapi.Base+"/runs/"+run+"/cancel", nil))
		require.Equal(t, http.StatusOK, cancelled.Code, cancelled.Body)
		e.items.part.Store(&part)
	}}
	e.ServeHTTP(w, r)
	assert.Equal(t, http.StatusOK, w.Code, "it had begun")
	assert.Contains(t, e.log.String(), "a stream failed")
	assert.Contains(t, e.log.String(), run)
	assert.Contains(t, e.log.String(), "an item that cannot be read")
}
