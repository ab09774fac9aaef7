package cloudwatch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"time"
)

// more is the number of periods that CloudWatch retrieves beyond those it evaluates, to find data where some is
// missing. The examples of its documentation evaluate three periods and retrieve five.
const more = 2

// State returns the state of the alarm at a time, from the periods that have ended by then. It evaluates the newest
// periods with data. If these are too few, the alarm's treatment of missing data fills the rest.
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarms-and-missing-data.html
func (a Alarm) State(m *Meter, at time.Time) State {
	end := at.Truncate(a.Period)
	seen, breaching := 0, 0
	for i := 0; i < a.Evaluated+more && seen < a.Evaluated; i++ {
		start := end.Add(-time.Duration(i+1) * a.Period)
		if v := a.Value(m, start); v.there {
			seen++
			if a.breached(v.number) {
				breaching++
			}
		}
	}
	if a.MissingBreaches {
		breaching += a.Evaluated - seen
	}
	if breaching >= a.Breaching {
		return Raised
	}
	return OK
}

func (a Alarm) breached(v float64) bool {
	if a.Below {
		return v < a.Threshold
	}
	return v > a.Threshold
}

// Value returns the value of the alarm's metric or expression in the period that begins at a time.
func (a Alarm) Value(m *Meter, start time.Time) Value {
	return a.watched.value(func(id string) Value {
		s := a.series[id]
		return m.statistic(s.metric, s.statistic, start, start.Add(a.Period))
	}, func(id string) float64 { return m.Quotas[a.series[id].metric] })
}

// Value is the value of a period, which may be missing.
type Value struct {
	number float64
	there  bool
	scalar bool // not of a period: it is present when a series in the same expression is
}

// Number returns the value, and whether there is one.
func (v Value) Number() (number float64, there bool) { return v.number, v.there }

// expression is an expression of metric math.
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/using-metric-math.html
type expression interface {
	value(metric func(id string) Value, quota func(id string) float64) Value
	ids() []string
}

type (
	constant float64
	named    string
	quota    named // of a metric
	binary   struct {
		by          token.Token
		left, right expression
	}
)

// parse reads an expression. The grammar of metric math is a part of Go's.
func parse(text string) (expression, error) {
	tree, err := parser.ParseExpr(text)
	if err != nil {
		return nil, fmt.Errorf("the expression %q: %w", text, err)
	}
	e, err := read(tree)
	if err != nil {
		return nil, fmt.Errorf("the expression %q: %w", text, err)
	}
	if len(e.ids()) == 0 {
		return nil, fmt.Errorf("the expression %q is no series", text)
	}
	return e, nil
}

func read(tree ast.Expr) (expression, error) {
	switch t := tree.(type) {
	case *ast.ParenExpr:
		return read(t.X)
	case *ast.BasicLit:
		v, err := strconv.ParseFloat(t.Value, 64)
		return constant(v), err
	case *ast.Ident:
		return named(t.Name), nil
	case *ast.BinaryExpr:
		if !slices.Contains([]token.Token{token.ADD, token.SUB, token.MUL, token.QUO}, t.Op) {
			return nil, fmt.Errorf("the operator %s is not known", t.Op)
		}
		left, err := read(t.X)
		if err != nil {
			return nil, err
		}
		right, err := read(t.Y)
		return binary{t.Op, left, right}, err
	case *ast.CallExpr:
		name, _ := t.Fun.(*ast.Ident)
		if name != nil && name.Name == "SERVICE_QUOTA" && len(t.Args) == 1 {
			if of, ok := t.Args[0].(*ast.Ident); ok {
				return quota(of.Name), nil
			}
		}
	}
	return nil, fmt.Errorf("%T is not known here", tree)
}

func (c constant) value(func(string) Value, func(string) float64) Value {
	return Value{number: float64(c), there: true, scalar: true}
}
func (constant) ids() []string { return nil }

func (n named) value(metric func(string) Value, _ func(string) float64) Value {
	return metric(string(n))
}
func (n named) ids() []string { return []string{string(n)} }

func (q quota) value(_ func(string) Value, of func(string) float64) Value {
	return Value{number: of(string(q)), there: true, scalar: true}
}
func (q quota) ids() []string { return []string{string(q)} }

func (b binary) ids() []string { return append(b.left.ids(), b.right.ids()...) }

// value computes as CloudWatch does. A missing operand is 0 if the other operand has data. A division by zero gives a
// missing value.
func (b binary) value(metric func(string) Value, of func(string) float64) Value {
	l, r := b.left.value(metric, of), b.right.value(metric, of)
	v := Value{scalar: l.scalar && r.scalar, there: l.there && !l.scalar || r.there && !r.scalar}
	if v.scalar {
		v.there = l.there && r.there
	}
	switch b.by {
	case token.ADD:
		v.number = l.number + r.number
	case token.SUB:
		v.number = l.number - r.number
	case token.MUL:
		v.number = l.number * r.number
	case token.QUO:
		if r.number == 0 {
			return Value{scalar: v.scalar}
		}
		v.number = l.number / r.number
	}
	return v
}
