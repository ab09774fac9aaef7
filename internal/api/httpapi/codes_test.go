package httpapi

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// shipped parses the files below internal except tests.
func shipped(t *testing.T) (files []*ast.File) {
	t.Helper()
	set := token.NewFileSet()
	require.NoError(t, filepath.WalkDir("../..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		files = append(files, file)
		return err
	}))
	return files
}

// codesOf returns the texts that a file gives as the code of an error. These are arguments of problem.New, arguments of
// a function of the file with a parameter named code, and members of that name.
func codesOf(file *ast.File) (codes []string) {
	note := func(e ast.Expr) {
		if text, ok := e.(*ast.BasicLit); ok && text.Kind == token.STRING {
			code, _ := strconv.Unquote(text.Value)
			codes = append(codes, code)
		}
	}
	positions := map[string]int{"problem.New": 1}
	if file.Name.Name == "problem" {
		positions["New"] = 1
	}
	takes := func(name string, f *ast.FuncType) {
		n := 0
		for _, parameter := range f.Params.List {
			for _, p := range parameter.Names {
				if p.Name == "code" {
					positions[name] = n
				}
				n++
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			takes(n.Name.Name, n.Type)
		case *ast.AssignStmt:
			for i, v := range n.Rhs {
				name, _ := n.Lhs[min(i, len(n.Lhs)-1)].(*ast.Ident)
				if f, ok := v.(*ast.FuncLit); ok && name != nil {
					takes(name.Name, f.Type)
				}
				if member, ok := n.Lhs[min(i, len(n.Lhs)-1)].(*ast.SelectorExpr); ok && member.Sel.Name == "code" {
					note(v)
				}
			}
		}
		return true
	})
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			name := ""
			switch f := n.Fun.(type) {
			case *ast.Ident:
				name = f.Name
			case *ast.SelectorExpr:
				name = f.Sel.Name
				if x, ok := f.X.(*ast.Ident); ok && x.Name == "problem" {
					name = "problem." + name
				}
			}
			if at, ok := positions[name]; ok && at < len(n.Args) {
				note(n.Args[at])
			}
		case *ast.KeyValueExpr:
			if name, ok := n.Key.(*ast.Ident); ok && strings.EqualFold(name.Name, "code") {
				note(n.Value)
			}
		}
		return true
	})
	return codes
}

// The OpenAPI document has every code that errors return to clients, and no other code.
func TestTheDocumentHasEveryErrorCode(t *testing.T) {
	documented := documentedCodes()
	used := map[string]bool{}
	for _, file := range shipped(t) {
		for _, code := range codesOf(file) {
			used[code] = true
			assert.Contains(t, documented, code, "%s gives it", file.Name)
		}
	}
	for _, code := range documented {
		assert.True(t, used[code], "nothing gives %s", code)
	}
}
