package panel_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/api/panel"
)

func served(t *testing.T) func(at string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	mux := http.NewServeMux()
	panel.New("https://files.example").Routes(mux.Handle)
	return func(at string, header ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, at, nil)
		for i := 0; i+1 < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		return w
	}
}

var reference = regexp.MustCompile(`(?:href|src)="(/[^"]+)"`)

func TestThePageAllowsNothingButItsOwnFiles(t *testing.T) {
	page := served(t)("/admin/")
	require.Equal(t, http.StatusOK, page.Code)
	policy := page.Header().Get("Content-Security-Policy")
	for _, part := range []string{"default-src 'none'", "script-src 'self';", "style-src 'self';",
		"frame-ancestors 'none'", "base-uri 'none'", "connect-src 'self' https://files.example;",
		"require-trusted-types-for 'script'"} {
		assert.Contains(t, policy, part)
	}
	assert.NotContains(t, policy, "unsafe")
	assert.Equal(t, "no-cache", page.Header().Get("Cache-Control"))
	body := page.Body.String()
	assert.NotRegexp(t, regexp.MustCompile(`(?i)<script[^>]*>[^<]|<style|\son[a-z]+=|\sstyle=|https?:`), body)
	again := served(t)("/admin/", "If-None-Match", page.Header().Get("ETag"))
	assert.Equal(t, http.StatusNotModified, again.Code)
	assert.Equal(t, "/admin/", served(t)("/admin").Header().Get("Location"))
}

func TestFilesOfThePageAreKeptForEver(t *testing.T) {
	get := served(t)
	all := reference.FindAllStringSubmatch(get("/admin/").Body.String(), -1)
	require.Greater(t, len(all), 30)
	for _, m := range all {
		file := get(m[1])
		require.Equal(t, http.StatusOK, file.Code, m[1])
		assert.Equal(t, "public, max-age=31536000, immutable", file.Header().Get("Cache-Control"))
		assert.NotEmpty(t, file.Header().Get("Content-Type"), m[1])
		squeezed := get(m[1], "Accept-Encoding", "br, gzip;q=0.8")
		require.Equal(t, "gzip", squeezed.Header().Get("Content-Encoding"))
		r, err := gzip.NewReader(squeezed.Body)
		require.NoError(t, err)
		plain, err := io.ReadAll(r)
		require.NoError(t, err)
		assert.Equal(t, file.Body.String(), string(plain), m[1])
	}
	assert.Equal(t, http.StatusNotFound, get("/admin/assets/0123456789abcdef/main.js").Code, "of another version")
	assert.Equal(t, http.StatusNotFound, get(path.Dir(all[0][1])+"/nothing.js").Code)
	assert.Empty(t, get(all[0][1], "Accept-Encoding", "gzip;q=0").Header().Get("Content-Encoding"))
}

// The files that a browser needs to show the panel have a bound: all of them together, in compressed bytes.
func TestAllFilesTogetherAreSmall(t *testing.T) {
	get := served(t)
	page := get("/admin/", "Accept-Encoding", "gzip")
	total := page.Body.Len()
	for _, m := range reference.FindAllStringSubmatch(get("/admin/").Body.String(), -1) {
		if !strings.HasSuffix(m[0], `main.js"`) || strings.HasPrefix(m[0], "href") { // it is named twice
			total += get(m[1], "Accept-Encoding", "gzip").Body.Len()
		}
	}
	t.Logf("%d bytes", total)
	assert.LessOrEqual(t, total, 250_000)
}

var imported = regexp.MustCompile(`(?m)(?:^import [^'\n]*|^export [^'\n]*from )'([^']+)'`)

// Modules name each other by relative paths to files that are there, as nothing resolves other names in a browser. The
// first module leads to every other module.
func TestModulesImportWhatIsThere(t *testing.T) {
	reached := map[string]bool{}
	var visit func(string)
	visit = func(file string) {
		if reached[file] {
			return
		}
		reached[file] = true
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range imported.FindAllStringSubmatch(string(raw), -1) {
			require.True(t, strings.HasPrefix(m[1], "."), "%s imports %s", file, m[1])
			visit(filepath.Join(filepath.Dir(file), m[1]))
		}
	}
	visit("static/main.js")
	for _, pattern := range []string{"static/*.js", "static/ui/*.js", "static/sections/*.js"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, file := range files {
			assert.True(t, reached[file], "nothing imports %s", file)
		}
	}
}
