package main

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	longFunction = 60  // lines
	longLine     = 120 // columns
	longerLine   = 150 // columns
	tab          = 4   // columns of a tab, as in .golangci.yml
)

//go:embed words.txt
var wordList string

// source is what was read of a tree. Lines are lines of files; names of places are relative to the tree.
type source struct {
	lines     map[string]int // lines of a package's files without its tests, by folder
	tests     map[string]int // test, fuzz and example functions and benchmarks, by folder
	functions []function     // of files that are no tests
	over      map[int]int    // lines of all files that are wider than so many columns
	returning int            // exported functions and methods that return an error ...
	saying    int            // ... and say which
	names     map[string]int // declarations whose name has the word in it
	comments  map[string]int // the word in comments
	private   []string       // the words that are counted, in the list's order
	places    []string       // where the figures come from
}

type function struct {
	place string
	lines int
}

// read parses every Go file below dir, except those of hidden folders, testdata, node_modules and dist. The error is
// the file system's or the parser's.
func read(dir string) (*source, error) {
	s := &source{
		lines: map[string]int{}, tests: map[string]int{}, over: map[int]int{},
		names: map[string]int{}, comments: map[string]int{},
	}
	for line := range strings.Lines(wordList) {
		if word := strings.Fields(line)[0]; word != "#" {
			s.private = append(s.private, word)
		}
	}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			hidden := strings.HasPrefix(name, ".") && path != dir
			if hidden || slices.Contains([]string{"testdata", "node_modules", "dist", "cdk.out"}, name) && path != dir {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		return s.file(relative, text)
	})
	return s, err
}

// file counts what is in one file.
func (s *source) file(name string, text []byte) error {
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, name, text, parser.ParseComments)
	if err != nil {
		return err
	}
	folder := filepath.Dir(name)
	n := 0
	for line := range bytes.Lines(text) {
		n++
		s.width(fmt.Sprintf("%s:%d", name, n), line)
	}
	s.words(f)
	if strings.HasSuffix(name, "_test.go") {
		for _, d := range f.Decls {
			if d, is := d.(*ast.FuncDecl); is && d.Recv == nil && isTest.MatchString(d.Name.Name) {
				s.tests[folder]++
			}
		}
		return nil
	}
	s.lines[folder] += n
	for _, d := range f.Decls {
		if d, is := d.(*ast.FuncDecl); is && d.Body != nil {
			place := files.Position(d.Pos())
			lines := files.Position(d.End()).Line - place.Line + 1
			where := fmt.Sprintf("%s:%d %s", place.Filename, place.Line, d.Name.Name)
			s.functions = append(s.functions, function{where, lines})
			if lines > longFunction {
				s.place(where, "%d lines", lines)
			}
		}
	}
	s.errors(files, f)
	return nil
}

var isTest = regexp.MustCompile(`^(Test|Fuzz|Benchmark|Example)([^a-z]|$)`)

func (s *source) place(where, format string, arguments ...any) {
	s.places = append(s.places, where+": "+fmt.Sprintf(format, arguments...))
}

// width counts a line that is too wide.
func (s *source) width(where string, line []byte) {
	line = bytes.TrimRight(line, "\r\n")
	columns := utf8.RuneCount(line) + (tab-1)*bytes.Count(line, []byte("\t"))
	for _, limit := range []int{longLine, longerLine} {
		if columns > limit {
			s.over[limit]++
		}
	}
	if columns > longLine {
		s.place(where, "%d columns", columns)
	}
}

// sayingWhich is how a docstring says which errors come back: it names one, or says what fails or is refused. A guess
// from words, but the same one for every tree.
var sayingWhich = regexp.MustCompile(`\b(Err|No|Not)[A-Z]\w*` +
	`|(?i)\b(errors?|fail(s|ed|ures?)?|refus(es|ed|als?)|conflicts?|problems?)\b`)

// errors counts the exported functions, methods and interface methods that return an error, and those that say which.
func (s *source) errors(files *token.FileSet, f *ast.File) {
	if f.Name.Name == "main" {
		return
	}
	count := func(name *ast.Ident, signature *ast.FuncType, comments ...*ast.CommentGroup) {
		if !name.IsExported() || !returnsError(signature) {
			return
		}
		s.returning++
		for _, c := range comments {
			if sayingWhich.MatchString(c.Text()) {
				s.saying++
				return
			}
		}
		place := files.Position(name.Pos())
		s.place(fmt.Sprintf("%s:%d", place.Filename, place.Line), "%s does not say which errors it returns", name.Name)
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil || ast.IsExported(receiver(d.Recv.List[0].Type)) {
				count(d.Name, d.Type, d.Doc)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				t, is := spec.(*ast.TypeSpec)
				if !is || !t.Name.IsExported() {
					continue
				}
				methods, is := t.Type.(*ast.InterfaceType)
				if !is {
					continue
				}
				for _, m := range methods.Methods.List {
					if signature, is := m.Type.(*ast.FuncType); is && len(m.Names) == 1 {
						count(m.Names[0], signature, m.Doc, m.Comment)
					}
				}
			}
		}
	}
}

func returnsError(signature *ast.FuncType) bool {
	if signature.Results == nil {
		return false
	}
	return slices.ContainsFunc(signature.Results.List, func(f *ast.Field) bool {
		name, is := f.Type.(*ast.Ident)
		return is && name.Name == "error"
	})
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// words counts the private words in a file's comments and in the names that it declares. Uses of a name are not
// counted: they go with the declaration, and many are of other modules.
func (s *source) words(f *ast.File) {
	for _, group := range f.Comments {
		s.add(s.comments, letters.FindAllString(strings.ToLower(group.Text()), -1))
	}
	declare := func(names ...ast.Expr) {
		for _, n := range names {
			if n, is := n.(*ast.Ident); is && n != nil {
				s.add(s.names, parts(n.Name))
			}
		}
	}
	declare(f.Name)
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			declare(n.Name)
		case *ast.TypeSpec:
			declare(n.Name)
		case *ast.ValueSpec:
			for _, name := range n.Names {
				declare(name)
			}
		case *ast.Field:
			for _, name := range n.Names {
				declare(name)
			}
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				declare(n.Lhs...)
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				declare(n.Key, n.Value)
			}
		}
		return true
	})
}

func (s *source) add(to map[string]int, words []string) {
	for _, w := range words {
		if slices.Contains(s.private, w) || slices.Contains(s.private, strings.TrimSuffix(w, "s")) {
			if !slices.Contains(s.private, w) {
				w = strings.TrimSuffix(w, "s")
			}
			to[w]++
		}
	}
}

var (
	letters = regexp.MustCompile(`[a-z0-9]+`)
	camel   = regexp.MustCompile(`[A-Z]+[a-z0-9]*|[a-z0-9]+`)
)

// parts are the words of a name, in lower case: "newFeedRoom" is new, feed, room.
func parts(name string) []string {
	words := camel.FindAllString(name, -1)
	for i, w := range words {
		words[i] = strings.ToLower(w)
	}
	return words
}

// rows are the figures of a tree.
func (s *source) rows() []row {
	var rows []row
	add := func(what, format string, arguments ...any) {
		rows = append(rows, row{what, fmt.Sprintf(format, arguments...)})
	}
	folders := slices.SortedFunc(maps.Keys(s.lines), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.lines[a], s.lines[b]), cmp.Compare(a, b))
	})
	slices.SortFunc(s.functions, func(a, b function) int {
		return cmp.Or(cmp.Compare(a.lines, b.lines), cmp.Compare(a.place, b.place))
	})
	lines, over, tests := 0, 0, 0
	var untested []string
	for _, f := range folders {
		lines += s.lines[f]
		if s.tests[f] == 0 {
			untested = append(untested, f)
		}
	}
	for _, f := range s.functions {
		if f.lines > longFunction {
			over++
		}
	}
	for _, n := range s.tests {
		tests += n
	}
	for _, f := range untested {
		s.place(f, "no tests")
	}
	add("packages (with code that is no test)", "%d, %d lines", len(folders), lines)
	if len(folders) > 0 {
		add("lines per package: median", "%d", s.lines[at(folders, 50)])
		largest := at(folders, 100)
		add("lines per package: largest", "%d (%s)", s.lines[largest], largest)
	}
	add("functions", "%d", len(s.functions))
	if len(s.functions) > 0 {
		add("lines per function: median", "%d", at(s.functions, 50).lines)
		add("lines per function: 95th percentile", "%d", at(s.functions, 95).lines)
		largest := at(s.functions, 100)
		add("lines per function: largest", "%d (%s)", largest.lines, largest.place)
	}
	add(fmt.Sprintf("functions over %d lines", longFunction), "%d", over)
	add(fmt.Sprintf("lines over %d columns (tab %d)", longLine, tab), "%d", s.over[longLine])
	add(fmt.Sprintf("lines over %d columns", longerLine), "%d", s.over[longerLine])
	add("exported functions that return an error and say which", "%d of %d", s.saying, s.returning)
	add("tests", "%d", tests)
	add("packages without a test of their own", "%d", len(untested))
	add("private words", "%s", found(sum(s.names), sum(s.comments)))
	for _, w := range s.private {
		add("private words: "+w, "%s", found(s.names[w], s.comments[w]))
	}
	return rows
}

// at is the element of a sorted list at a percentile.
func at[T any](sorted []T, percent int) T { return sorted[min(len(sorted)-1, len(sorted)*percent/100)] }

func found(names, comments int) string {
	return fmt.Sprintf("%d names, %d in comments", names, comments)
}

func sum(of map[string]int) int {
	total := 0
	for _, n := range of {
		total += n
	}
	return total
}
