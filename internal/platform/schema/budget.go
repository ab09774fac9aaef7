package schema

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"agentplatform/internal/platform/share"
)

// A small schema may cause any amount of work: parts that refer to parts multiply the visits. The library makes all of
// them and cannot be cancelled. So each part of a compiled schema gets a hook, in place of the check of its format,
// which comes first. The hook charges the following visits to a budget. It panics if the budget is exceeded or the
// context ended.
const (
	maxSteps    = 250_000 // steps of one check (visits of a part, or equal work): some tenths of a second
	maxSchemas  = 4_000   // objects of a schema; the library searches all of them for each
	maxDepth    = 128     // nesting of a schema or a value
	maxDigits   = 100     // digits of a number; the library computes exactly
	maxExponent = 400     // exponent of a number
	maxInPlace  = 256     // length of a chain of parts that apply to the same value
	maxPattern  = 1_000   // bytes of a regular expression
	maxPatterns = 64_000  // bytes of all regular expressions of a schema; each is compiled twice
	maxProgram  = 20_000  // instructions of a compiled regular expression
	atOnce      = 8       // parallel checks in this process
)

// turns limits the parallel checks of this process, so the cost of expensive checks stays bounded.
var turns = share.New(share.Limits{All: atOnce, Reserve: atOnce / 4})

// errSteps is the error of a check that exceeds its budget.
var errSteps = errors.New("checking this value against the schema takes too much work: simplify the schema " +
	"or send a smaller value")

// spent is the panic that ends a check.
type spent struct{ error }

// meter measures the checks of a schema, one at a time.
type meter struct {
	checking sync.Mutex
	turn     *share.Part     // of the check under way
	ctx      context.Context //nolint:containedctx // of the check under way: the library passes none on
	left     int             // steps left of the budget
	each     int             // steps of a visit: more for deep values, as each fault has its whole location
	patterns int             // bytes of the regular expressions so far
	unseen   bool            // a part has unevaluatedProperties or unevaluatedItems
}

// begin waits for a turn and resets the budget. The error is that of ctx. The caller must call end.
func (m *meter) begin(ctx context.Context, of form) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	turn := turns.Part(share.Of(ctx))
	if err := turn.Wait(ctx); err != nil {
		return err
	}
	m.checking.Lock()
	m.turn = turn
	m.ctx, m.left, m.each = ctx, maxSteps, 1+of.depth/16
	return nil
}

func (m *meter) end() {
	turn := m.turn
	m.checking.Unlock()
	turn.Give()
}

// take charges steps to the budget. It panics with [spent] if the budget is exceeded or the context has ended.
func (m *meter) take(steps int) {
	if err := m.ctx.Err(); err != nil {
		panic(spent{err})
	}
	if m.left -= steps * m.each; m.left < 0 {
		panic(spent{errSteps})
	}
}

// form is the size of a JSON value: its objects and booleans (possible schemas), and its nesting.
type form struct{ schemas, depth int }

// survey measures a value. It returns an error if the value is too deep, or has a number that is too expensive.
func survey(v any) (f form, err error) {
	walk(v, 0, func(v any, depth int) {
		if err != nil {
			return
		}
		if f.depth = max(f.depth, depth); f.depth > maxDepth {
			err = fmt.Errorf("it is nested more than %d deep", maxDepth)
		}
		switch v := v.(type) {
		case map[string]any, bool:
			f.schemas++
		case json.Number:
			digits, exponent, _ := strings.Cut(strings.ToLower(v.String()), "e")
			if n, _ := strconv.Atoi(exponent); len(digits) > maxDigits || len(exponent) > 9 || n < -maxExponent ||
				n > maxExponent {
				err = fmt.Errorf("a number has more than %d digits, or an exponent beyond %d", maxDigits, maxExponent)
			}
		}
	})
	return f, err
}

// walk visits a JSON value and all that is in it.
func walk(v any, depth int, visit func(v any, depth int)) {
	visit(v, depth)
	switch v := v.(type) {
	case map[string]any:
		for _, one := range v {
			walk(one, depth+1, visit)
		}
	case []any:
		for _, one := range v {
			walk(one, depth+1, visit)
		}
	}
}

// counted is a regular expression whose use is charged to the budget.
type counted struct {
	*regexp.Regexp
	meter *meter
	size  int
}

func (c counted) MatchString(s string) bool {
	c.meter.take(1 + c.size*len(s)/200)
	return c.Regexp.MatchString(s)
}

// pattern compiles a regular expression. It panics with [spent] if that exceeds a limit.
func (m *meter) pattern(text string) (jsonschema.Regexp, error) {
	if m.patterns += len(text); len(text) > maxPattern || m.patterns > maxPatterns {
		panic(spent{fmt.Errorf("a regular expression has more than %d bytes, or all have more than %d", maxPattern,
			maxPatterns/2)})
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if isForeign(err) {
		return foreign(text), nil
	}
	if err != nil {
		return nil, err
	}
	size := program(tree)
	if size > maxProgram {
		panic(spent{fmt.Errorf("a regular expression repeats more than %d times", maxProgram)})
	}
	compiled, err := regexp.Compile(text)
	return counted{compiled, m, size}, err
}

// program estimates the number of instructions of a compiled regular expression.
func program(r *syntax.Regexp) int {
	size := 1 + len(r.Rune)
	for _, sub := range r.Sub {
		size += program(sub)
	}
	if r.Op == syntax.OpRepeat {
		size *= max(r.Min, r.Max, 1)
	}
	return min(size, maxProgram+1)
}

// part has the parts of a schema that the visit of a part leads to.
type part struct {
	here  []*jsonschema.Schema // apply to the same value
	below []*jsonschema.Schema // apply to each of its members
	own   int                  // cost of the comparisons before the hook is called
	lists int                  // length of the lists that are searched for each object
}

func partsOf(root *jsonschema.Schema) map[*jsonschema.Schema]*part {
	parts := map[*jsonschema.Schema]*part{}
	for waiting := []*jsonschema.Schema{root}; len(waiting) > 0; {
		s := waiting[0]
		if waiting = waiting[1:]; parts[s] == nil {
			p := partOf(s)
			parts[s] = p
			waiting = slices.AppendSeq(slices.Concat(waiting, p.here, p.below), maps.Values(s.Properties))
		}
	}
	return parts
}

// watch adds hooks to all parts of a compiled schema. It returns an error for dynamic references, and for a chain of
// references that is a cycle or too long.
func (m *meter) watch(root *jsonschema.Schema) error {
	loosen(partsOf(root))
	parts := partsOf(root)
	for s := range parts {
		if s.DynamicRef != nil || s.RecursiveRef != nil {
			return errors.New("it has a dynamic reference: use $ref instead")
		}
		m.unseen = m.unseen || s.UnevaluatedProperties != nil || s.UnevaluatedItems != nil
	}
	levels := map[*jsonschema.Schema]int{}
	for s := range parts {
		if inPlace(parts, levels, s) > maxInPlace {
			return fmt.Errorf("it refers to itself endlessly, or in more than %d steps", maxInPlace)
		}
	}
	for s, p := range parts {
		m.hook(s, p, parts)
	}
	return nil
}

// inPlace is the length of the longest chain of parts that apply to the same value, beginning with s. For a cycle it is
// more than maxInPlace.
func inPlace(parts map[*jsonschema.Schema]*part, levels map[*jsonschema.Schema]int, s *jsonschema.Schema) int {
	if n, known := levels[s]; known {
		return n
	}
	levels[s] = maxInPlace + 1 // until it is known: reaching s again is a cycle
	deepest := 0
	for _, next := range parts[s].here {
		deepest = max(deepest, inPlace(parts, levels, next))
	}
	levels[s] = min(deepest+1, maxInPlace+1)
	return levels[s]
}

func partOf(s *jsonschema.Schema) *part {
	p := &part{own: 1, lists: len(s.Required) + len(s.DependentSchemas)}
	add := func(to *[]*jsonschema.Schema, all ...any) {
		for _, one := range all {
			switch one := one.(type) {
			case *jsonschema.Schema:
				if one != nil {
					*to = append(*to, one)
				}
			case []*jsonschema.Schema:
				*to = append(*to, one...)
			case []string:
				p.lists += 1 + len(one)
			}
		}
	}
	add(&p.here, s.Ref, s.Not, s.If, s.Then, s.Else, s.ContentSchema, s.AllOf, s.AnyOf, s.OneOf)
	for _, one := range s.DependentSchemas {
		add(&p.here, one)
	}
	for _, one := range s.Dependencies {
		add(&p.here, one)
	}
	for _, names := range s.DependentRequired {
		add(nil, names)
	}
	add(&p.below, s.PropertyNames, s.AdditionalProperties, s.UnevaluatedProperties, s.Contains, s.Items,
		s.AdditionalItems, s.PrefixItems, s.Items2020, s.UnevaluatedItems)
	for _, one := range s.PatternProperties {
		add(&p.below, one)
	}
	if s.Const != nil {
		p.own += nodes(*s.Const)
	}
	if s.Enum != nil {
		p.own += nodes(s.Enum.Values)
	}
	return p
}

// nodes counts the values in a value. A long text counts as several.
func nodes(v any) (n int) {
	walk(v, 0, func(v any, _ int) {
		text, _ := v.(string)
		n += 1 + len(text)/64
	})
	return n
}

func (m *meter) hook(s *jsonschema.Schema, p *part, parts map[*jsonschema.Schema]*part) {
	total := func(list []*jsonschema.Schema) (sum int) {
		for _, one := range list {
			sum += parts[one].own
		}
		return sum
	}
	here, below := total(p.here), total(p.below)
	if m.unseen {
		below += len(p.here)
	}
	wanted := s.Format
	hooked := &jsonschema.Format{Validate: func(v any) error {
		steps := here
		switch v := v.(type) {
		case map[string]any:
			steps += p.lists + len(v)*(1+below)
			for name := range v {
				if one := s.Properties[name]; one != nil {
					steps += parts[one].own
				}
			}
		case []any:
			steps += len(v) * (1 + below)
			if s.UniqueItems {
				m.take(steps)
				steps = 10 * nodes(v)
			}
		case string:
			steps += len(v) / 64
		}
		m.take(steps)
		if wanted == nil {
			return nil
		}
		return wanted.Validate(v)
	}}
	if wanted != nil {
		hooked.Name = wanted.Name
	}
	s.Format = hooked
}
