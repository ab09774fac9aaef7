package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The index is derived data: if its folder is missing, the next start fills it again.
func TestAnIndexThatWasDeletedIsRestored(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o, stop := open(t, dir)
	base := "/knowledge-bases/" + o.send("/knowledge-bases", map[string]any{"name": "Handbook"},
		http.StatusCreated)["knowledge_base_id"].(string)
	get := func(path string) map[string]any { return o.ask(http.MethodGet, path, "", "", http.StatusOK) }
	index := func() map[string]any { return get(base)["index"].(map[string]any) }
	find := func() []any {
		return o.send("/search", map[string]any{"query": "swordfish", "limit": 50}, http.StatusOK)["hits"].([]any)
	}
	eventually := func(what string, is func() bool) {
		require.Eventually(t, is, time.Minute, 200*time.Millisecond, what)
	}
	for i := range 20 {
		o.send(base+"/documents", map[string]any{"text": fmt.Sprint("The swordfish of number ", i)}, http.StatusCreated)
	}
	eventually("20 documents are ready", func() bool { return len(find()) == 20 })
	identity := func() string {
		b, err := os.ReadFile(filepath.Join(dir, "index", "identity"))
		require.NoError(t, err)
		return string(b)
	}
	before := identity()
	stop()

	o, stop = open(t, dir)
	assert.Equal(t, before, identity())
	assert.Equal(t, "ready", index()["state"], "nothing was lost")
	stop()

	require.NoError(t, os.RemoveAll(filepath.Join(dir, "index")))
	o, stop = open(t, dir)
	assert.LessOrEqual(t, len(find()), 20, "a search does not fail")
	eventually("the index is whole", func() bool { return index()["state"] == "ready" })
	assert.Len(t, find(), 20)
	assert.NotEqual(t, before, identity())
	stop()
}
