package main

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"io/fs"
	"log/slog"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/platform/setting"
	"agentplatform/internal/wiring/boot"
)

// The stored formats of all released versions stay readable. testdata/stores has a data folder of each, written by that
// version. A change of the format adds one (`go test ./functions/agentplatform -run Store -store NAME`) and leaves the
// others unchanged.
var store = flag.String("store", "", "write the store of this version under this name")

const stores = "testdata/stores/"

// old is a client of the only organization of a store.
type old struct {
	*testing.T
	url, key string
}

func (o old) ask(method, path, contentType, body string, want int) (v map[string]any) {
	o.Helper()
	_ = json.Unmarshal(o.raw(method, path, contentType, body, want), &v)
	return v
}

func (o old) read(path string) string { return string(o.raw(http.MethodGet, path, "", "", 200)) }

// any reads a path, with any status.
func (o old) any(path string) []byte {
	o.Helper()
	r, err := http.NewRequestWithContext(o.Context(), http.MethodGet, o.url+path, nil)
	require.NoError(o, err)
	r.Header.Set("Authorization", "Bearer "+o.key)
	response, err := http.DefaultClient.Do(r)
	require.NoError(o, err)
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(response.Body)
	require.NoError(o, err)
	return raw
}

func (o old) raw(method, path, contentType, body string, want int) []byte {
	o.Helper()
	r, err := http.NewRequestWithContext(o.Context(), method, o.url+path, strings.NewReader(body))
	require.NoError(o, err)
	r.Header.Set("Authorization", "Bearer "+o.key)
	r.Header.Set("Content-Type", contentType)
	response, err := http.DefaultClient.Do(r)
	require.NoError(o, err)
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(response.Body)
	require.NoError(o, err)
	require.Equal(o, want, response.StatusCode, string(raw))
	return raw
}

func (o old) send(path string, body map[string]any, want int) map[string]any {
	o.Helper()
	b, err := json.Marshal(body)
	require.NoError(o, err)
	return o.ask(http.MethodPost, path, "application/json", string(b), want)
}

func (o old) chat(want int, pairs ...string) map[string]any {
	o.Helper()
	var b strings.Builder
	w := multipart.NewWriter(&b)
	for i := 0; i+1 < len(pairs); i += 2 {
		require.NoError(o, w.WriteField(pairs[i], pairs[i+1]))
	}
	require.NoError(o, w.Close())
	return o.ask(http.MethodPost, "/chat", w.FormDataContentType(), b.String(), want)
}

// open starts this version with a data folder.
func open(t *testing.T, dir string) (old, func()) {
	s, err := setting.Read([]string{"ADDR=127.0.0.1:0", "DATA_DIR=" + dir})
	require.NoError(t, err)
	s.PauseExpiry = 100 * 365 * 24 * time.Hour // runs in a store that is written now must not expire
	local, err := boot.StartLocal(t.Context(), s, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	return old{t, local.URL, local.Key}, func() { require.NoError(t, local.Stop()) }
}

func TestAStoreOfEachFormatIsStillGood(t *testing.T) {
	if *store != "" {
		write(t)
	}
	files, err := filepath.Glob(stores + "*.tar.gz")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			dir := t.TempDir()
			unpack(t, file, dir)
			o, stop := open(t, dir)
			agent := o.ask(http.MethodGet, "/agents", "", "",
				200)["agents"].([]any)[0].(map[string]any)["agent_id"].(string)

			// Finished runs are unchanged.
			messages := o.ask(http.MethodGet, "/chats/done/messages", "", "", 200)["messages"].([]any)
			assert.Equal(t, "You said: hello", messages[1].(map[string]any)["content"])
			assert.NotEmpty(t, o.ask(http.MethodGet, "/analytics/usage", "", "", 200)["entries"])
			assert.Equal(t, messages[0].(map[string]any)["run_id"],
				o.chat(200, "agent_id", agent, "message", "hello", "chat_id", "done", "idempotency_key",
					"once")["run_id"])

			// A paused run can be decided, and the message that is parked on it continues.
			paused := o.ask(http.MethodGet, "/chats/paused/runs?active=true", "", "",
				200)["runs"].([]any)[0].(map[string]any)
			parked := paused["parked"].([]any)[0].(map[string]any)["parked_id"].(string)
			assert.Equal(t, "awaiting_input", paused["status"])
			interrupt := paused["interrupts"].([]any)[0].(map[string]any)["id"]
			o.send("/runs/"+paused["run_id"].(string)+"/resume",
				map[string]any{"decisions": []any{map[string]any{"interrupt_id": interrupt, "decision": "answer",
					"message": "this"}}}, 200)
			require.Eventually(t, func() bool {
				list := o.ask(http.MethodGet, "/chats/paused/messages", "", "", 200)["messages"].([]any)
				return len(list) == 4 && list[3].(map[string]any)["content"] == "You said: next" &&
					list[2].(map[string]any)["run_id"] == parked
			}, 2*time.Minute, 20*time.Millisecond)

			// Keys are created. A store from before they were counted has no count of them.
			user := o.ask(http.MethodGet, "/me", "", "", 200)["user"].(map[string]any)["user_id"]
			for range 2 {
				o.send("/api-keys", map[string]any{"name": "k", "user_id": user, "level": "run"}, 201)
			}

			addsUp(o)
			knowledge(o)
			stop()
		})
	}
}

// addsUp checks that the usage in the store is rolled up as in the ledger.
func addsUp(o old) {
	entries := o.ask(http.MethodGet, "/analytics/usage?limit=100", "", "", 200)["entries"].([]any)
	first, err := time.Parse(time.RFC3339, entries[len(entries)-1].(map[string]any)["finished_at"].(string))
	require.NoError(o, err)
	span := "?kind=run&from=" + first.AddDate(0, 0, -1).Format(time.DateOnly) + "&to=" +
		first.AddDate(0, 0, 2).Format(time.DateOnly)
	listed := o.ask(http.MethodGet, "/analytics/usage"+span+"&limit=100", "", "", 200)["entries"].([]any)
	require.NotEmpty(o, listed)
	var sum map[string]any
	require.Eventually(o, func() bool { // a store that is old has very many days
		_ = json.Unmarshal(o.any("/analytics/summary"+span), &sum)
		return sum["runs"] != nil
	}, 2*time.Minute, 20*time.Millisecond)
	assert.InDelta(o, len(listed), sum["runs"].(map[string]any)["total"], 0)
}

// knowledge checks a document, in a store that has one: it is found, read back, and indexed again from its extracted
// text.
func knowledge(o old) {
	bases := o.ask(http.MethodGet, "/knowledge-bases", "", "", 200)["knowledge_bases"].([]any)
	if len(bases) == 0 {
		return
	}
	base := "/knowledge-bases/" + bases[0].(map[string]any)["knowledge_base_id"].(string)
	id := o.ask(http.MethodGet, base+"/documents", "", "", 200)["documents"].([]any)[0].(map[string]any)["document_id"]
	good := func() {
		o.Helper()
		hits := o.send("/search", map[string]any{"query": "swordfish"}, 200)["hits"].([]any)
		require.Len(o, hits, 1)
		assert.Contains(o, hits[0].(map[string]any)["text"], "swordfish")
		for _, what := range []string{"/content", "/text"} {
			assert.Equal(o, document, o.read(base+"/documents/"+id.(string)+what))
		}
	}
	good()
	o.ask(http.MethodPatch, base, "application/json", `{"chunking":{"size":50,"overlap":5}}`, 200)
	require.Eventually(o, func() bool {
		index := o.ask(http.MethodGet, base, "", "", 200)["index"].(map[string]any)
		cut := index["settings"].(map[string]any)["chunking"].(map[string]any)
		return index["state"] == "ready" && cut["size"] == 50.0
	}, 2*time.Minute, 20*time.Millisecond)
	good()
}

const document = "The word is swordfish, and the lamp is of brass."

// write writes a store of this version. It has a finished chat of two turns with an idempotency key, and a paused one
// with a parked message, both under a token budget. It also has a knowledge base with a document.
func write(t *testing.T) {
	dir := t.TempDir()
	o, stop := open(t, dir)
	agent := o.ask(http.MethodGet, "/agents", "", "", 200)["agents"].([]any)[0].(map[string]any)["agent_id"].(string)
	o.ask(http.MethodPatch, "/agents/"+agent, "application/json",
		`{"budget":{"period":"month","max_tokens":1000000}}`, 200)
	o.chat(200, "agent_id", agent, "message", "hello", "chat_id", "done", "idempotency_key", "once")
	o.chat(200, "agent_id", agent, "message", "and again", "chat_id", "done")
	run := o.chat(202, "agent_id", agent, "message", "/ask Which?", "chat_id", "paused")["run_id"].(string)
	o.send("/runs/"+run+"/followups", map[string]any{"message": "next"}, 202)
	o.send("/groups", map[string]any{"name": "g", "budget": map[string]any{"period": "month", "max_runs": 1000}}, 201)
	base := o.send("/knowledge-bases", map[string]any{"name": "b"}, 201)["knowledge_base_id"].(string)
	path := "/knowledge-bases/" + base + "/documents"
	path += "/" + o.send(path, map[string]any{"text": document}, 201)["document_id"].(string)
	require.Eventually(t, func() bool {
		return o.ask(http.MethodGet, path+"?wait_ms=1000", "", "", 200)["status"] == "ready"
	}, 2*time.Minute, 20*time.Millisecond)
	stop()
	require.NoError(t, os.MkdirAll(stores, 0o755))
	f, err := os.Create(stores + *store + ".tar.gz")
	require.NoError(t, err)
	z := gzip.NewWriter(f)
	w := tar.NewWriter(z)
	require.NoError(t, w.AddFS(os.DirFS(dir)))
	require.NoError(t, errors.Join(w.Close(), z.Close(), f.Close()))
}

func unpack(t *testing.T, file, dir string) {
	f, err := os.Open(file)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		require.True(t, fs.ValidPath(strings.TrimSuffix(h.Name, "/")), h.Name)
		at := filepath.Join(dir, h.Name)
		if h.FileInfo().IsDir() {
			require.NoError(t, os.MkdirAll(at, 0o755))
			continue
		}
		require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
		b, err := io.ReadAll(r)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(at, b, 0o600))
	}
}
