package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"
)

// mutant is one small change of a package.
type mutant struct {
	number   int
	pkg      string // its import path
	file     string
	line     int
	function string
	change   string // before → after
	nth      int    // among those of its function with the same text
}

// key identifies a mutant as long as its function's text is unchanged, wherever the function is.
func (m mutant) key() string {
	key := m.pkg + " " + m.function + ": " + m.change
	if m.nth > 0 {
		key += fmt.Sprintf(" (%d)", m.nth+1)
	}
	return key
}

// edit replaces a piece of a file. Edits at the same place are in the order in which they were made.
type edit struct {
	at, end int
	text    string
}

// mutator writes all mutants of a file into it, each behind a switch of the package variant.
type mutator struct {
	pkg       string
	file      string
	source    []byte
	fset      *token.FileSet
	info      *types.Info
	number    *int // of the last mutant, over all packages
	mutants   []mutant
	edits     []edit
	function  string
	results   []*types.Tuple      // of the enclosing functions
	around    map[ast.Node][]edge // what is inserted around a node, the outermost first
	decided   map[ast.Node]bool   // conditions that are negated as a whole
	last      map[ast.Stmt]bool   // statements that end their function
	operators map[ast.Node]token.Pos
}

type edge struct{ before, after string }

// switched is the name under which a copy imports package variant.
const switched = "variant__"

func (m *mutator) mutate(file *ast.File) []byte {
	for _, d := range file.Decls {
		m.function = "var"
		if f, ok := d.(*ast.FuncDecl); ok {
			m.function = f.Name.Name
			if f.Recv != nil {
				m.function = strings.TrimPrefix(m.text(f.Recv.List[0].Type), "*") + "." + m.function
			}
		}
		m.walk(d)
	}
	if len(m.mutants) == 0 {
		return m.source
	}
	m.replace(file.Name.End(), file.Name.End(), "; import "+switched+` "agentplatform/scripts/mutants/variant"`)
	slices.SortStableFunc(m.edits, func(a, b edit) int { return cmp.Compare(a.at, b.at) })
	var out []byte
	at := 0
	for _, e := range m.edits {
		out = append(append(out, m.source[at:e.at]...), e.text...)
		at = e.end
	}
	return append(out, m.source[at:]...)
}

func (m *mutator) offset(p token.Pos) int { return m.fset.Position(p).Offset }

func (m *mutator) replace(from, to token.Pos, text string) {
	m.edits = append(m.edits, edit{m.offset(from), m.offset(to), text})
}

var space = regexp.MustCompile(`\s+`)

// text is a node's source in one line.
func (m *mutator) text(n ast.Node) string {
	return space.ReplaceAllString(string(m.source[m.offset(n.Pos()):m.offset(n.End())]), " ")
}

// add records a mutant and returns the beginning of the call of package variant that switches it on.
func (m *mutator) add(at ast.Node, name, before, after string) string {
	*m.number++
	c := mutant{
		number: *m.number, pkg: m.pkg, file: m.file, line: m.fset.Position(at.Pos()).Line, function: m.function,
		change: short(before) + " → " + short(after),
	}
	for _, o := range m.mutants {
		if o.function == c.function && o.change == c.change {
			c.nth++
		}
	}
	m.mutants = append(m.mutants, c)
	return fmt.Sprintf("%s.%s(%d", switched, name, *m.number)
}

func short(text string) string {
	if r := []rune(text); len(r) > 90 {
		return string(r[:90]) + "…"
	}
	return text
}

// walk writes the mutants of a node and its children: the text before a node when it is entered, the text behind
// it when it is left, so that they nest.
func (m *mutator) walk(root ast.Node) {
	var open []ast.Node
	ast.Inspect(root, func(n ast.Node) bool {
		if n == nil {
			m.close(open[len(open)-1])
			open = open[:len(open)-1]
			return true
		}
		deeper := m.mutable(n)
		if deeper {
			m.visit(n)
		}
		if at, ok := m.operators[n]; ok {
			m.replace(at, n.Pos(), ", ")
		}
		for _, e := range m.around[n] {
			m.replace(n.Pos(), n.Pos(), e.before)
		}
		if !deeper {
			m.close(n)
			return false
		}
		open = append(open, n)
		return true
	})
}

func (m *mutator) close(n ast.Node) {
	for _, e := range slices.Backward(m.around[n]) {
		m.replace(n.End(), n.End(), e.after)
	}
	switch n.(type) {
	case *ast.FuncDecl, *ast.FuncLit:
		m.results = m.results[:len(m.results)-1]
	}
}

func (m *mutator) wrap(n ast.Node, before, after string) {
	m.around[n] = append(m.around[n], edge{before, after})
}

// mutable says whether a node may be changed: not constants, types and arguments of logging.
func (m *mutator) mutable(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GenDecl:
		return n.Tok == token.VAR
	case *ast.ExprStmt:
		return !m.silent(n.X)
	case *ast.FuncType:
		return false
	case ast.Expr:
		tv := m.info.Types[n]
		return tv.Value == nil && !tv.IsType()
	}
	return true
}

var (
	logs = regexp.MustCompile(`(^|\.)([lL]og|slog|logline|logger)\.`)
	// Releases of resources, which only the race detector or a hang would miss.
	frees = regexp.MustCompile(`(^|\.)(Close|close|cancel|stop|Stop|R?Lock|R?Unlock|Done|panic)$`)
)

func (m *mutator) silent(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	return ok && logs.MatchString(m.text(call.Fun))
}

func (m *mutator) visit(n ast.Node) {
	switch n := n.(type) {
	case *ast.FuncDecl:
		m.results = append(m.results, m.info.Defs[n.Name].Type().(*types.Signature).Results())
		m.ends(n.Body)
	case *ast.FuncLit:
		m.results = append(m.results, m.info.TypeOf(n).(*types.Signature).Results())
		m.ends(n.Body)
	case *ast.IfStmt:
		m.condition(n.Cond)
	case *ast.ForStmt:
		if n.Cond != nil {
			m.condition(n.Cond)
		}
	case *ast.BlockStmt:
		m.statements(n.List)
	case *ast.CaseClause:
		m.statements(n.Body)
	case *ast.CommClause:
		m.statements(n.Body)
	case *ast.SwitchStmt:
		m.cases(n, n.Body, n.Tag != nil)
	case *ast.TypeSwitchStmt:
		m.cases(n, n.Body, true)
	case *ast.ReturnStmt:
		m.returned(n)
	case *ast.AssignStmt:
		adds, x := n.Tok == token.ADD_ASSIGN || n.Tok == token.SUB_ASSIGN, n.Rhs[0]
		if adds && integer(m.info.TypeOf(n.Lhs[0])) && m.info.Types[x].Value == nil {
			m.wrap(x, m.add(n, "Signed", m.text(n), "the opposite")+", ", ")")
		}
	case *ast.BinaryExpr:
		m.binary(n)
	case *ast.CompositeLit:
		if slice, ok := m.info.TypeOf(n).Underlying().(*types.Slice); ok && n.Type != nil && structural(slice.Elem()) {
			m.drop(n.Elts, n, n, "...)")
		}
	case *ast.CallExpr:
		m.call(n)
	}
}

// ends records the statements that end a function: they must not be removed.
func (m *mutator) ends(body *ast.BlockStmt) {
	if body == nil || len(body.List) == 0 {
		return
	}
	last := body.List[len(body.List)-1]
	m.last[last] = true
	if s, ok := last.(*ast.IfStmt); ok {
		m.ends(s.Body)
		if other, ok := s.Else.(*ast.BlockStmt); ok {
			m.ends(other)
		}
	}
}

func (m *mutator) condition(e ast.Expr) {
	if m.info.Types[e].Value == nil {
		m.decided[ast.Unparen(e)] = true
		m.negate(e, e, "!("+m.text(e)+")")
	}
}

func (m *mutator) negate(at ast.Node, e ast.Expr, after string) {
	m.wrap(e, "((", ") != "+m.add(at, "On", m.text(at), after)+"))")
}

// statements removes each statement that has an effect of its own.
func (m *mutator) statements(list []ast.Stmt) {
	for _, s := range list {
		var call ast.Expr
		switch s := s.(type) {
		case *ast.ExprStmt:
			call = s.X
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE {
				continue
			}
			call = s.Rhs[0]
		case *ast.IncDecStmt, *ast.SendStmt:
		default:
			continue
		}
		if c, ok := call.(*ast.CallExpr); ok && (frees.MatchString(m.text(c.Fun)) || m.silent(c)) {
			continue
		}
		m.wrap(s, "if !"+m.add(s, "On", m.text(s), "nothing")+") { ", " }")
	}
}

func (m *mutator) cases(s ast.Stmt, body *ast.BlockStmt, tagged bool) {
	for _, clause := range body.List {
		c := clause.(*ast.CaseClause)
		if !tagged && c.List != nil {
			for _, e := range c.List {
				m.condition(e)
			}
			continue
		}
		if len(c.Body) == 0 || m.last[s] && leaves(c.Body[len(c.Body)-1]) {
			continue
		}
		if b, ok := c.Body[len(c.Body)-1].(*ast.BranchStmt); ok && b.Tok == token.FALLTHROUGH {
			continue
		}
		head := string(m.source[m.offset(c.Case):m.offset(c.Colon)])
		open := "if !" + m.add(c, "On", space.ReplaceAllString(head, " ")+": "+m.text(c.Body[0]), "nothing") + ") { "
		m.wrap(c.Body[0], open, "")
		m.wrap(c.Body[len(c.Body)-1], "", " }")
	}
}

func leaves(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.ReturnStmt:
		return true
	case *ast.ExprStmt:
		call, ok := s.X.(*ast.CallExpr)
		if !ok {
			return false
		}
		f, ok := call.Fun.(*ast.Ident)
		return ok && f.Name == "panic"
	}
	return false
}

// returned replaces errors by nil, and negates booleans.
func (m *mutator) returned(n *ast.ReturnStmt) {
	results := m.results[len(m.results)-1]
	if len(n.Results) != results.Len() {
		return
	}
	for i, e := range n.Results {
		switch t := results.At(i).Type(); {
		case types.Identical(t, types.Universe.Lookup("error").Type()):
			if i == len(n.Results)-1 && !m.info.Types[e].IsNil() {
				m.wrap(e, m.add(n, "Err", m.text(n), "a nil error")+", ", ")")
			}
		case types.Identical(t.Underlying(), types.Typ[types.Bool]):
			if _, ok := ast.Unparen(e).(*ast.BinaryExpr); !ok {
				m.negate(n, e, "its contrary")
			}
		}
	}
}

var (
	bounds = map[token.Token]string{token.LSS: "Less", token.LEQ: "AtMost", token.GTR: "Greater", token.GEQ: "AtLeast"}
	others = map[token.Token]string{
		token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">", token.ADD: "-", token.SUB: "+",
		token.LAND: "||", token.LOR: "&&", token.EQL: "!=", token.NEQ: "==",
	}
	sums = map[token.Token]string{token.ADD: "Plus", token.SUB: "Minus"}
)

func (m *mutator) binary(n *ast.BinaryExpr) {
	x, y := m.info.Types[n.X], m.info.Types[n.Y]
	other := m.text(n.X) + " " + others[n.Op] + " " + m.text(n.Y)
	switch n.Op {
	case token.LAND, token.LOR: // a || b is !(!a && !b)
		on := m.add(n, "On", m.text(n), other) + ")"
		m.wrap(n, "((", ") != "+on+")")
		m.wrap(n.X, "(", ") != "+on)
		m.wrap(n.Y, "(", ") != "+on)
	case token.EQL, token.NEQ:
		if !m.decided[n] {
			m.negate(n, n, other)
		}
		m.shift(n, 1)
	case token.LSS, token.LEQ, token.GTR, token.GEQ:
		if _, ok := x.Type.Underlying().(*types.Basic); ok {
			m.asCall(n, bounds[n.Op], other)
		}
		// The bound on the other side than that of the mutated operator.
		by := 1
		if (n.Op == token.LSS || n.Op == token.GEQ) == (y.Value != nil) {
			by = -1
		}
		m.shift(n, by)
	case token.ADD, token.SUB:
		if integer(m.info.TypeOf(n)) {
			m.asCall(n, sums[n.Op], other)
			m.shift(n, -1)
		}
	}
}

// asCall makes a function of package variant evaluate n.
func (m *mutator) asCall(n *ast.BinaryExpr, name, other string) {
	m.wrap(n, m.add(n, name, m.text(n), other)+", ", ")")
	m.operators[n.Y] = n.OpPos
}

// shift moves the constant of n, by adding its negation to the other operand.
func (m *mutator) shift(n *ast.BinaryExpr, by int) {
	constant, variable := n.X, n.Y
	if m.info.Types[n.X].Value == nil {
		constant, variable = n.Y, n.X
	}
	if m.info.Types[constant].Value == nil || !integer(m.info.TypeOf(variable)) || isDuration(m.info.TypeOf(variable)) {
		return
	}
	add := -by
	if n.Op == token.ADD {
		add = by
	}
	call := m.add(n, "Off", m.text(n), fmt.Sprintf("with %s%+d", m.text(constant), by))
	m.wrap(variable, fmt.Sprintf("%s, %d, ", call, add), ")")
}

func integer(t types.Type) bool {
	b, ok := t.Underlying().(*types.Basic)
	return ok && b.Info()&types.IsInteger != 0 && b.Info()&types.IsUntyped == 0
}

func isDuration(t types.Type) bool { return types.TypeString(t, nil) == "time.Duration" }

// structural says whether elements of a type have a meaning by themselves: writes, keys, states; not texts and
// bytes.
func structural(t types.Type) bool {
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	_, named := types.Unalias(t).(*types.Named)
	return named && !types.IsInterface(t)
}

// drop removes each element of a list, which is copied from the node first to the node last.
func (m *mutator) drop(elements []ast.Expr, first, last ast.Node, end string) {
	text := ""
	for _, e := range elements {
		if _, ok := e.(*ast.KeyValueExpr); ok {
			return
		}
	}
	for _, e := range elements {
		if call := m.add(e, "Drop", m.text(e)+" in a list", "nothing"); text == "" {
			text = call + ", "
		}
	}
	if text != "" {
		m.wrap(first, text, "")
		m.wrap(last, "", end)
	}
}

func (m *mutator) call(n *ast.CallExpr) {
	sig, ok := m.info.TypeOf(n.Fun).Underlying().(*types.Signature)
	if !ok {
		return // a conversion
	}
	s, ok := n.Fun.(*ast.SelectorExpr)
	if ok && s.Sel.Name == "Add" && len(n.Args) == 1 && isDuration(m.info.TypeOf(n.Args[0])) {
		if _, literal := n.Args[0].(*ast.BasicLit); !literal {
			m.wrap(n.Args[0], m.add(n, "Signed", m.text(n), "the time before instead of after")+", ", ")")
		}
	}
	for _, a := range n.Args {
		t := types.TypeString(m.info.TypeOf(a), nil)
		if strings.HasSuffix(t, "/table.Condition") && !strings.HasSuffix(m.text(a), "Always()") {
			m.wrap(a, m.add(n, "Zero", m.text(n), "without "+m.text(a))+", ", ")")
		}
	}
	fixed := sig.Params().Len() - 1
	if !sig.Variadic() || n.Ellipsis.IsValid() || len(n.Args) <= fixed || m.text(n.Fun) == "append" &&
		len(n.Args) == 2 {
		return
	}
	list := n.Args[fixed:]
	slice, ok := sig.Params().At(fixed).Type().(*types.Slice)
	if !ok || !structural(slice.Elem()) {
		return
	}
	for _, a := range list {
		if !types.Identical(m.info.TypeOf(a), slice.Elem()) {
			return
		}
	}
	m.drop(list, list[0], list[len(list)-1], ")...")
}
