package planted

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Variable is the environment variable with the number of the active bug in a program built from [Together]. It is the
// place of the bug in the list, counted from 1. 0, or nothing: none.
const Variable = "PLANTED_BUG"

// Together writes all the bugs behind one switch into dir, and a list of the files for the compiler's -overlay. One
// program has each of them, and is compiled once. A changed function stands there several times: unchanged, and once
// for each of its bugs. [Variable] selects the called one, so bugs may change the same lines.
//
// Errors as of [Bug.Overlay], and for a bug that changes more than the bodies of functions.
func Together(bugs []Bug, root, dir string) (list string, err error) {
	sources := map[string]*source{}
	for i, b := range bugs {
		files, err := b.Planted(root)
		if err != nil {
			return "", err
		}
		for name, text := range files {
			if sources[name] == nil {
				if sources[name], err = readSource(root, name); err != nil {
					return "", err
				}
			}
			if err := sources[name].plant(i+1, b.Name, text); err != nil {
				return "", err
			}
		}
	}
	copies := map[string]string{}
	for name, s := range sources {
		copies[name] = s.switched()
		copies[filepath.Join(filepath.Dir(name), "planted_bug.go")] = "package " + s.file.Name.Name + "\n\n" +
			"import (\n\t\"os\"\n\t\"strconv\"\n)\n\n" +
			"var plantedBug, _ = strconv.Atoi(os.Getenv(\"" + Variable + "\"))\n"
	}
	return overlay(copies, root, dir)
}

// source is a file with the functions that bugs change.
type source struct {
	name, text string
	set        *token.FileSet
	file       *ast.File
	variants   map[int]map[int]string // by place among the declarations, by number of the bug: the function
}

func readSource(root, name string) (*source, error) {
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		return nil, err
	}
	return parse(name, string(text))
}

func parse(name, text string) (*source, error) {
	s := &source{name: name, text: text, set: token.NewFileSet(), variants: map[int]map[int]string{}}
	var err error
	s.file, err = parser.ParseFile(s.set, name, text, parser.SkipObjectResolution)
	return s, err
}

// between returns the text from one place to another.
func (s *source) between(from, to token.Pos) string {
	return s.text[s.set.Position(from).Offset:s.set.Position(to).Offset]
}

func (s *source) of(n ast.Node) string { return s.between(n.Pos(), n.End()) }

// plant records the functions that a bug changes. text is the whole file with the bug.
func (s *source) plant(bug int, name, text string) error {
	changed, err := parse(s.name, text)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if len(changed.file.Decls) != len(s.file.Decls) {
		return fmt.Errorf("%s: it adds or removes a declaration of %s", name, s.name)
	}
	found := false
	for i, d := range s.file.Decls {
		after := changed.file.Decls[i]
		if s.of(d) == changed.of(after) {
			continue
		}
		before, ok := d.(*ast.FuncDecl)
		now, same := after.(*ast.FuncDecl)
		if !ok || !same || s.between(d.Pos(), before.Body.Pos()) != changed.between(after.Pos(), now.Body.Pos()) {
			return fmt.Errorf("%s: it changes more than the bodies of functions of %s", name, s.name)
		}
		if s.variants[i] == nil {
			s.variants[i] = map[int]string{}
		}
		// Messages of the compiler and of a panic name the place in the tree, and the bug.
		at := fmt.Sprintf("\n//line %s (%s):%d\n", s.name, name, changed.set.Position(after.Pos()).Line)
		s.variants[i][bug] = at + changed.renamed(now, bug)
		found = true
	}
	if !found {
		return fmt.Errorf("%s: it changes no function of %s", name, s.name)
	}
	return nil
}

// variant returns the name of a function with a bug; 0: without one.
func variant(f *ast.FuncDecl, bug int) string { return fmt.Sprintf("%s__%d", f.Name.Name, bug) }

// renamed returns the source of a function under the name of its variant.
func (s *source) renamed(f *ast.FuncDecl, bug int) string {
	return s.between(f.Pos(), f.Name.Pos()) + variant(f, bug) + s.between(f.Name.End(), f.End())
}

// switched returns the file with all planted bugs.
func (s *source) switched() string {
	var out, behind strings.Builder
	at := s.file.FileStart
	for _, i := range slices.Sorted(maps.Keys(s.variants)) {
		f := s.file.Decls[i].(*ast.FuncDecl)
		out.WriteString(s.between(at, f.Pos()) + s.renamed(f, 0))
		at = f.End()
		bugs := slices.Sorted(maps.Keys(s.variants[i]))
		behind.WriteString("\n" + s.chooser(f, bugs))
		for _, bug := range bugs {
			behind.WriteString(s.variants[i][bug] + "\n")
		}
	}
	return out.String() + s.between(at, s.file.FileEnd) + behind.String()
}

// chooser returns a function with the old name that calls the selected variant.
func (s *source) chooser(f *ast.FuncDecl, bugs []int) string {
	receiver, call := "", ""
	if f.Recv != nil {
		receiver, call = "(receiver__ "+s.of(f.Recv.List[0].Type)+") ", "receiver__."
	}
	returns, results := "", ""
	if f.Type.Results != nil {
		returns, results = "return ", s.of(f.Type.Results)+" "
	}
	parameters, arguments := s.parameters(f)
	kinds, of := "", ""
	if f.Type.TypeParams != nil {
		kinds = s.of(f.Type.TypeParams)
		var names []string
		for _, field := range f.Type.TypeParams.List {
			for _, n := range field.Names {
				names = append(names, n.Name)
			}
		}
		of = "[" + strings.Join(names, ", ") + "]"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "func %s%s%s(%s) %s{\n\tswitch plantedBug {\n", receiver, f.Name.Name, kinds, parameters, results)
	for _, bug := range bugs {
		fmt.Fprintf(&b, "\tcase %d:\n\t\t%s%s%s%s(%s)\n", bug, returns, call, variant(f, bug), of, arguments)
	}
	fmt.Fprintf(&b, "\tdefault:\n\t\t%s%s%s%s(%s)\n\t}\n}\n", returns, call, variant(f, 0), of, arguments)
	return b.String()
}

// parameters of a function under names of their own, for some have none; and the arguments that hand them on.
func (s *source) parameters(f *ast.FuncDecl) (parameters, arguments string) {
	var declared, handed []string
	for _, field := range f.Type.Params.List {
		for range max(1, len(field.Names)) {
			name := fmt.Sprintf("argument__%d", len(declared))
			declared = append(declared, name+" "+s.of(field.Type))
			if _, variadic := field.Type.(*ast.Ellipsis); variadic {
				name += "..."
			}
			handed = append(handed, name)
		}
	}
	return strings.Join(declared, ", "), strings.Join(handed, ", ")
}
