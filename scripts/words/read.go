package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// find is one private word at one place.
type find struct {
	file          string
	line          int
	word, instead string
}

func (f find) String() string { return fmt.Sprintf("%s:%d: %q: %s", f.file, f.line, f.word, f.instead) }

// tree is what is read of a checkout.
type tree struct {
	forms
	finds   map[string][]find  // by group
	lengths map[string]lengths // by page
}

// ignored are folders with generated files, files of others and test data, and docs/adr: decisions are history.
var ignored = []string{"testdata", "node_modules", "dist", "cdk.out", "vendor", "adr"}

// read returns the finds and lengths below dir. The error is the file system's or the parser's.
func read(dir string) (*tree, error) {
	all, err := parseList(wordList)
	if err != nil {
		return nil, err
	}
	t := &tree{forms: all, finds: map[string][]find{}, lengths: map[string]lengths{}}
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			hidden := strings.HasPrefix(entry.Name(), ".")
			if path != dir && (hidden || slices.Contains(ignored, entry.Name())) {
				return fs.SkipDir
			}
			return nil
		}
		file, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		return t.file(path, filepath.ToSlash(file))
	})
	return t, err
}

// file adds the finds of a file, if it is of a kind that counts.
func (t *tree) file(path, file string) error {
	kind := filepath.Ext(file)
	if kind != ".go" && kind != ".md" && (kind != ".js" || !strings.Contains(file, "/static/")) {
		return nil
	}
	text, err := os.ReadFile(path)
	switch {
	case err != nil:
		return err
	case kind == ".go":
		return t.source(file, text)
	case kind == ".md":
		t.match(prose(file, string(text)), 1, "text", t.add("docs", file))
		t.measure(file, string(text))
	default:
		t.match(string(text), 1, "text", t.add("panel", file))
	}
	return nil
}

func (t *tree) add(group, file string) func(line int, word, instead string) {
	return func(line int, word, instead string) {
		t.finds[group] = append(t.finds[group], find{file, line, word, instead})
	}
}

var (
	code    = regexp.MustCompile("(?ms)^ *```.*?^ *```$|`[^`]*`")
	noProse = regexp.MustCompile(`(?m)\]\([^)\n]*\)|^#.*$`) // targets of links, headings
	release = regexp.MustCompile(`(?m)^## `)
)

// prose returns a page without code, headings and targets of links; each line keeps its number. Of the changelog it
// returns the part that is not released: the rest is history.
func prose(file, page string) string {
	if at := release.FindAllStringIndex(page, 2); file == "CHANGELOG.md" && len(at) == 2 {
		page = page[:at[1][0]]
	}
	page = code.ReplaceAllStringFunc(page, func(s string) string {
		return "`" + strings.Repeat("\n", strings.Count(s, "\n"))
	})
	return noProse.ReplaceAllString(page, "]")
}

var directive = regexp.MustCompile(`(?m)^//[a-z]+:.*`)

// source adds the finds of a Go file. Uses of a name do not count: they change with its declaration.
func (t *tree) source(file string, text []byte) error {
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, file, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, group := range f.Comments {
		var lines []string
		for _, c := range group.List {
			for line := range strings.SplitSeq(directive.ReplaceAllString(c.Text, ""), "\n") {
				lines = append(lines, strings.Trim(line, "/*\t"))
			}
		}
		t.match(strings.Join(lines, "\n"), files.Position(group.Pos()).Line, "text", t.add("comments", file))
	}
	declare := func(names ...*ast.Ident) {
		for _, n := range names {
			t.name(file, files.Position(n.Pos()).Line, n.Name)
		}
	}
	t.undocumented(files, file, f)
	declare(f.Name)
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			declare(n.Name)
		case *ast.TypeSpec:
			declare(n.Name)
		case *ast.ValueSpec:
			declare(n.Names...)
		case *ast.Field:
			declare(n.Names...)
		case *ast.AssignStmt:
			declare(variables(n.Tok, n.Lhs...)...)
		case *ast.RangeStmt:
			declare(variables(n.Tok, n.Key, n.Value)...)
		}
		return true
	})
	return nil
}

// variables returns the names on the left of a statement that declares them.
func variables(operator token.Token, left ...ast.Expr) (names []*ast.Ident) {
	for _, e := range left {
		if name, is := e.(*ast.Ident); is && operator == token.DEFINE {
			names = append(names, name)
		}
	}
	return names
}

// name adds the finds of a name: the whole name, or its parts. The name of a test is a sentence.
func (t *tree) name(file string, line int, name string) {
	add := t.add("names", file)
	if f := t.forms[name]; unicode.IsUpper(rune(name[0])) && f != nil {
		add(line, name, f[0].instead)
		return
	}
	kind := "names"
	if strings.HasPrefix(name, "Test") {
		kind = "text"
	}
	t.match(strings.Join(camel.FindAllString(name, -1), " "), line, kind, add)
}
