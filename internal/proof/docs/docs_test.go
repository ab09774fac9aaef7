// Package docs compares the documentation with the tree: everything that it names must exist.
//
// It imports none of our packages.
package docs

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const root = "../../.."

// tree has everything that a page may name.
type tree struct {
	paths    map[string]bool            // files and folders, from the root
	pages    map[string]string          // Markdown, by path
	tests    map[string][]string        // names of tests, fuzz targets, benchmarks and examples, by folder
	declared map[string]map[string]bool // by package name: the declarations at its top level, and its methods
	words    map[string]bool            // words in capitals in the sources: environment variables among them
	targets  map[string]bool            // of make
	routes   map[string]bool            // of the OpenAPI document, parameters as {}
}

var (
	testFunction = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark|Example)[A-Z]\w*)`)
	capitals     = regexp.MustCompile(`\b[A-Z][A-Z0-9_]{3,}\b`)
	makeTarget   = regexp.MustCompile(`(?m)^([a-z][a-z-]*):`)
)

func read(t *testing.T) *tree {
	t.Helper()
	w := &tree{
		paths: map[string]bool{}, pages: map[string]string{}, tests: map[string][]string{}, words: map[string]bool{},
		declared: map[string]map[string]bool{}, targets: map[string]bool{}, routes: map[string]bool{},
	}
	require.NoError(t, filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if d.IsDir() {
			switch {
			case name == ".":
			case name == ".ci", name == ".github":
			case strings.HasPrefix(d.Name(), "."), name == "node_modules", name == "dist", name == "cdk.out":
				return fs.SkipDir
			}
			w.paths[name] = true
			return nil
		}
		w.paths[name] = true
		return w.file(name, file)
	}))
	return w
}

// file records the names that a file declares.
func (w *tree) file(name, file string) error {
	base := path.Base(name)
	kind := path.Ext(name)
	known := []string{".go", ".md", ".sh", ".py"}
	if !slices.Contains(known, kind) && base != "Makefile" && base != "openapi.golden.json" {
		return nil
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text := string(raw)
	switch {
	case kind == ".md":
		if !strings.Contains(name, "testdata/") {
			w.pages[name] = text
		}
		return nil
	case base == "openapi.golden.json":
		return w.document(raw)
	case base == "Makefile" && name == base:
		for _, m := range makeTarget.FindAllStringSubmatch(text, -1) {
			w.targets[m[1]] = true
		}
	case kind == ".go":
		for _, m := range testFunction.FindAllStringSubmatch(text, -1) {
			w.tests[path.Dir(name)] = append(w.tests[path.Dir(name)], m[1])
		}
		if !strings.Contains(name, "testdata/") {
			if err := w.declarations(file); err != nil {
				return err
			}
		}
	}
	if !strings.HasPrefix(name, "internal/proof/docs/") {
		for _, word := range capitals.FindAllString(text, -1) {
			w.words[word] = true
		}
	}
	return nil
}

func (w *tree) document(raw []byte) error {
	var document struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal(raw, &document); err != nil {
		return err
	}
	for at, methods := range document.Paths {
		for method := range methods {
			w.routes[strings.ToUpper(method)+" "+withoutParameters(strings.TrimPrefix(at, "/api/v1"))] = true
		}
	}
	return nil
}

var parameter = regexp.MustCompile(`\{[^}]*\}|\b[A-Z][A-Z_]+\b`)

// withoutParameters replaces parameters, so that {run_id} and RUN_ID are alike.
func withoutParameters(at string) string { return parameter.ReplaceAllString(at, "{}") }

func (w *tree) declarations(file string) error {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	here := w.declared[parsed.Name.Name]
	if here == nil {
		here = map[string]bool{}
		w.declared[parsed.Name.Name] = here
	}
	for _, d := range parsed.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			here[d.Name.Name] = true
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					here[s.Name.Name] = true
				case *ast.ValueSpec:
					for _, n := range s.Names {
						here[n.Name] = true
					}
				}
			}
		}
	}
	return nil
}

// code returns the spans and the blocks of a page that are code. A row of a table escapes its bars.
func code(page string) (spans, commands []string) {
	for i, block := range strings.Split(page, "```") {
		if i%2 == 1 {
			language, text, _ := strings.Cut(block, "\n")
			if language == "sh" || language == "" {
				commands = slices.AppendSeq(commands, strings.Lines(text))
			}
			continue
		}
		for _, m := range span.FindAllStringSubmatch(block, -1) {
			spans = append(spans, strings.Join(strings.Fields(strings.ReplaceAll(m[1], `\|`, "|")), " "))
		}
	}
	return spans, commands
}

var (
	span       = regexp.MustCompile("`([^`]+)`")
	made       = regexp.MustCompile(`(?:^|[;&|(]|\s)make ([a-z][a-z-]*)`)
	goTest     = regexp.MustCompile(`go test ([^&;]*)`)
	goRun      = regexp.MustCompile(`go (?:run|build) (?:-\S+ )*(\./\S+)`)
	testName   = regexp.MustCompile(`\b((?:Test|Fuzz|Benchmark|Example)[A-Z]\w*)(…?)`)
	pathLike   = regexp.MustCompile(`^\.?[\w.-]+(/[\w.*-]+)*/?$`)
	fileLike   = regexp.MustCompile(`^[\w-]+(\.\w+)*\.(go|md|sh|py|json|txt|mod|sum)$`)
	qualified  = regexp.MustCompile(`^([a-z]\w*)\.([A-Z]\w*)`)
	environ    = regexp.MustCompile(`^([A-Z][A-Z0-9_]{3,})(=\S*)?( |$)`)
	route      = regexp.MustCompile(`^(GET|POST|PUT|PATCH|DELETE) (/[^\s?]*)`)
	link       = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading    = regexp.MustCompile(`(?m)^#+ (.+)$`)
	notOfALink = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchor returns the anchor of a heading, for links.
func anchor(title string) string {
	return strings.ReplaceAll(notOfALink.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), ""), " ", "-")
}

func TestDocsNameOnlyWhatExists(t *testing.T) {
	w := read(t)
	require.NotEmpty(t, w.routes)
	require.Greater(t, len(w.targets), 20)
	for _, name := range slices.Sorted(maps.Keys(w.pages)) {
		t.Run(name, func(t *testing.T) {
			page := checked{t, w, path.Dir(name)}
			spans, commands := code(w.pages[name])
			for _, s := range spans {
				page.span(s)
			}
			for _, line := range commands {
				line, _, _ = strings.Cut(line, " #")
				page.command(line)
			}
			for _, m := range link.FindAllStringSubmatch(w.pages[name], -1) {
				page.link(name, m[1])
			}
			page.packages(w.pages[name])
		})
	}
}

// checked is a page in a folder.
type checked struct {
	*testing.T
	*tree
	folder string
}

// exists reports whether there is such a path, from the root, from the page, from internal or from a wing.
func (p checked) exists(name string) bool {
	name = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSuffix(name, "/..."), "./"), "/")
	for _, base := range []string{".", p.folder, "internal", "internal/*"} {
		pattern := path.Join(base, name)
		for at := range p.paths {
			if same, err := path.Match(pattern, at); err == nil && same {
				return true
			}
		}
	}
	return false
}

func (p checked) span(s string) {
	p.command(s)
	for _, m := range testName.FindAllStringSubmatch(s, -1) {
		found := p.hasTest(".", func(name string) bool {
			return name == m[1] || m[2] != "" && strings.HasPrefix(name, m[1])
		})
		assert.True(p, found, "no test is called %s", m[0])
	}
	first, _, below := strings.Cut(strings.TrimPrefix(s, "./"), "/")
	if pathLike.MatchString(s) && (below && first != "" && p.exists(first) || fileLike.MatchString(s)) {
		if !below {
			assert.True(p, p.hasFile(s), "there is no file %s", s)
		} else {
			assert.True(p, p.exists(s), "there is no path %s", s)
		}
	}
	if m := qualified.FindStringSubmatch(s); m != nil && p.declared[m[1]] != nil {
		assert.True(p, p.declared[m[1]][m[2]], "the package %s declares no %s", m[1], m[2])
	}
	if m := environ.FindStringSubmatch(s); m != nil && !strings.HasPrefix(s, "POST ") {
		assert.True(p, p.words[m[1]], "no source knows %s", m[1])
	}
	if m := route.FindStringSubmatch(s); m != nil {
		at := m[1] + " " + withoutParameters(strings.TrimPrefix(m[2], "/api/v1"))
		assert.True(p, p.routes[at], "the OpenAPI document has no %s", s)
	}
}

// command checks the names in a command line.
func (p checked) command(line string) {
	for _, m := range made.FindAllStringSubmatch(line, -1) {
		assert.True(p, p.targets[m[1]], "make has no target %s", m[1])
	}
	for _, m := range goRun.FindAllStringSubmatch(line, -1) {
		assert.True(p, p.exists(m[1]), "there is no %s", m[1])
	}
	for _, m := range goTest.FindAllStringSubmatch(line, -1) {
		p.goTest(strings.Fields(m[1]))
	}
}

// goTest checks the packages and the patterns of a go test command.
func (p checked) goTest(words []string) {
	var folders []string
	for _, word := range words {
		if strings.HasPrefix(word, "./") {
			folders = append(folders, strings.TrimPrefix(word, "./"))
			assert.True(p, p.exists(word), "there is no %s", word)
		}
	}
	for i := 0; i+1 < len(words); i++ {
		pattern := strings.Trim(words[i+1], `'"`)
		selects := slices.Contains([]string{"-run", "-bench", "-fuzz"}, words[i])
		if !selects || pattern == "-" {
			continue
		}
		for alternative := range strings.SplitSeq(pattern, "|") {
			alternative, _, _ = strings.Cut(alternative, "/") // the rest selects subtests
			expression, err := regexp.Compile(alternative)
			if !assert.NoError(p, err) {
				continue
			}
			found := slices.ContainsFunc(folders, func(f string) bool { return p.hasTest(f, expression.MatchString) })
			assert.True(p, found, "no test of %v matches %s", folders, alternative)
		}
	}
}

// hasFile reports whether there is a file of this name in any folder.
func (p checked) hasFile(name string) bool {
	for at := range p.paths {
		if path.Base(at) == name {
			return true
		}
	}
	return false
}

// hasTest reports whether a folder has a test whose name satisfies is. With /... the test may be in a folder below it;
// with "." in any folder.
func (p checked) hasTest(folder string, is func(string) bool) bool {
	above, all := strings.CutSuffix(folder, "/...")
	for at, names := range p.tests {
		if folder == "." || at == folder || all && (at == above || strings.HasPrefix(at, above+"/")) {
			if slices.ContainsFunc(names, is) {
				return true
			}
		}
	}
	return false
}

// link checks a link to another page, or within this one.
func (p checked) link(page, to string) {
	if strings.Contains(to, "://") {
		return
	}
	file, part, _ := strings.Cut(to, "#")
	at := page
	if file != "" {
		at = path.Join(p.folder, file)
		assert.True(p, p.paths[at], "the link %s leads nowhere", to)
	}
	if text, isPage := p.pages[at]; isPage && part != "" {
		titles := heading.FindAllStringSubmatch(text, -1)
		found := slices.ContainsFunc(titles, func(m []string) bool { return anchor(m[1]) == part })
		assert.True(p, found, "%s has no heading %s", at, part)
	}
}

// packages checks the columns of tables that are headed "package".
func (p checked) packages(page string) {
	column := -1
	for line := range strings.Lines(page) {
		cells := strings.Split(strings.ReplaceAll(line, `\|`, ""), "|")
		if len(cells) < 3 {
			column = -1
			continue
		}
		if column < 0 {
			column = slices.IndexFunc(cells, func(c string) bool { return strings.TrimSpace(c) == "package" })
			if column < 0 {
				column = len(cells) // a table without packages
			}
			continue
		}
		if column >= len(cells) {
			continue
		}
		for _, m := range span.FindAllStringSubmatch(cells[column], -1) {
			assert.True(p, p.exists(m[1]), "there is no package %s", m[1])
		}
	}
}
