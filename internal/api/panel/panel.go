// Package panel is the admin panel. It consists of static files, which are one more client of the REST API and have no
// rights of their own. It serves them at /admin/ from inside the program, on a laptop and on AWS. On AWS the function
// api serves them, as it does the documentation; docs/adr/0018-panel-in-the-program.md has the reasons against a
// bucket.
//
// The files are modules that browsers run as they stand here; nothing is built. All of them are below one path that
// names their contents. They may thus be cached without end, and import each other by relative names; only the page is
// requested again. The package must not know the API, and imports none of our packages.
package panel

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
)

//go:embed static/*.html static/*.js static/*.css static/*.svg static/ui/*.js static/sections/*.js
//go:embed static/vendor/*.js static/vendor/*.css static/vendor/LICENSES.txt
var static embed.FS

// Root is where the panel lives.
const Root = "/admin/"

// types are those of the files that there are.
var types = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
	".svg": "image/svg+xml", ".txt": "text/plain; charset=utf-8",
}

// A Panel answers requests for its page and the page's files.
type Panel struct {
	connect string
	made    func() site
}

// New makes a panel. Its page may also reach the origins in connect, to which files are uploaded.
func New(connect ...string) *Panel {
	return &Panel{connect: strings.Join(append([]string{"'self'"}, connect...), " "), made: sync.OnceValue(read)}
}

type site struct {
	version string // of all contents
	page    *asset
	assets  map[string]*asset // by name, seen from static
}

type asset struct {
	kind    string
	plain   []byte
	squeeze func() []byte
}

func newAsset(name string, content []byte) *asset {
	return &asset{kind: types[path.Ext(name)], plain: content, squeeze: sync.OnceValue(func() []byte {
		var b bytes.Buffer
		w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // fails for no level that there is
		_, _ = w.Write(content)
		_ = w.Close()
		return b.Bytes()
	})}
}

func read() site {
	s := site{assets: map[string]*asset{}}
	var page string
	sum := sha256.New()
	walk := func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := static.ReadFile(name)
		name = strings.TrimPrefix(name, "static/")
		sum.Write([]byte(name + "\x00"))
		sum.Write(content)
		if name == "index.html" {
			page = string(content)
		} else {
			s.assets[name] = newAsset(name, content)
		}
		return err
	}
	if err := fs.WalkDir(static, "static", walk); err != nil {
		panic(err) // embedded files can be read
	}
	s.version = hex.EncodeToString(sum.Sum(nil)[:8])
	s.page = newAsset("index.html", []byte(s.written(page)))
	return s
}

// written is the page with the path of its files and the names of all modules. A browser then requests the modules in
// parallel, and not one after the other as they import each other.
func (s site) written(page string) string {
	var modules strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s.assets)) {
		if path.Ext(name) == ".js" {
			modules.WriteString(`<link rel="modulepreload" href="` + s.path() + name + "\">\n")
		}
	}
	return strings.NewReplacer("<!-- modules -->\n", modules.String(), "./", s.path()).Replace(page)
}

func (s site) path() string { return Root + "assets/" + s.version + "/" }

// Routes adds the panel to a server.
func (p *Panel) Routes(handle func(pattern string, h http.Handler)) {
	handle("GET "+strings.TrimSuffix(Root, "/"), http.RedirectHandler(Root, http.StatusMovedPermanently))
	handle("GET "+Root+"{$}", http.HandlerFunc(p.page))
	handle("GET "+Root+"assets/{version}/{name...}", http.HandlerFunc(p.asset))
}

func (p *Panel) page(w http.ResponseWriter, r *http.Request) {
	s := p.made()
	h := w.Header()
	h.Set("Content-Security-Policy", policy(p.connect))
	h.Set("Cache-Control", "no-cache")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("ETag", `"`+s.version+`"`)
	if r.Header.Get("If-None-Match") == `"`+s.version+`"` {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	s.page.serve(w, r)
}

// policy is the policy of the page: it may run its own files and request its own API. Pictures in its styles are data.
// Charts and bars set styles by script, which a policy of styles does not concern.
func policy(connect string) string {
	return "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; " +
		"connect-src " + connect + "; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
		"require-trusted-types-for 'script'; trusted-types dompurify"
}

func (p *Panel) asset(w http.ResponseWriter, r *http.Request) {
	s := p.made()
	a, there := s.assets[r.PathValue("name")]
	if !there || r.PathValue("version") != s.version {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	a.serve(w, r)
}

func (a *asset) serve(w http.ResponseWriter, r *http.Request) {
	h, content := w.Header(), a.plain
	h.Set("Content-Type", a.kind)
	h.Set("Vary", "Accept-Encoding")
	if takesGzip(r) {
		content = a.squeeze()
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("Content-Length", strconv.Itoa(len(content)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(content)
	}
}

func takesGzip(r *http.Request) bool {
	for encoding := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, weight, _ := strings.Cut(encoding, ";")
		if strings.TrimSpace(name) == "gzip" && strings.ReplaceAll(weight, " ", "") != "q=0" {
			return true
		}
	}
	return false
}
