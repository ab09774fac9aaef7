package apidoc

import (
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// member is a member of JSON that a field of a struct becomes.
type member struct {
	name   string
	field  reflect.StructField
	always bool // it is in every answer
}

// membersOf are those of a struct, in order, with those of embedded structs; the outer ones win.
func membersOf(t reflect.Type) (list []member) {
	seen := map[string]bool{}
	var inner []reflect.Type
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous && f.Tag.Get("json") == "" {
			if e := f.Type; e.Kind() == reflect.Struct {
				inner = append(inner, e)
			}
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		seen[name] = true
		list = append(list, member{name, f, !strings.Contains(options, "omit")})
	}
	for _, e := range inner {
		for _, m := range membersOf(e) {
			if !seen[m.name] {
				seen[m.name] = true
				list = append(list, m)
			}
		}
	}
	return list
}

// instants are the names of members that are times.
var instants = regexp.MustCompile(`^(.*_)?(at|until)$`)

// shapes says what the library's description cannot: which JSON a raw value is, and which texts are times. That an
// object may have further members goes without saying; but where it may have any and none is known it is said, as
// openapi-typescript takes it for an object without members else.
func (d *document) shapes() {
	for name, s := range d.schemas.of {
		t := d.schemas.types[name]
		if t == nil || t.Kind() != reflect.Struct {
			continue
		}
		for _, m := range membersOf(t) {
			p := s.Properties[m.name]
			if m.field.Tag.Get("hidden") == "true" {
				delete(s.Properties, m.name)
				continue
			}
			if shape := m.field.Tag.Get("shape"); shape != "" && p != nil {
				raw(p, m.field.Type, shapeOf(shape))
			}
		}
	}
	d.everySchema(func(s *huma.Schema) {
		for _, name := range s.Required {
			if p := s.Properties[name]; p != nil && p.Type == huma.TypeArray {
				p.Nullable = false
			}
		}
		if s.AdditionalProperties == true || s.AdditionalProperties == false {
			s.AdditionalProperties = nil
		}
		if s.Type == huma.TypeObject && len(s.Properties) == 0 && s.AdditionalProperties == nil {
			s.AdditionalProperties = &huma.Schema{}
		}
		for name, p := range s.Properties {
			if p.Type == huma.TypeString && p.Format == "" && instants.MatchString(name) {
				p.Format = "date-time"
			}
		}
	})
}

// raw puts a shape where a member's schema has a raw value: the member itself, or what its list or its map has.
func raw(p *huma.Schema, t reflect.Type, shape *huma.Schema) {
	at := p
	if of, is := p.AdditionalProperties.(*huma.Schema); is {
		at = of
	} else if p.Items != nil && t != reflect.TypeFor[json.RawMessage]() {
		at = p.Items
	}
	shape.Description, shape.Examples = at.Description, at.Examples
	*at = *shape
}

// shapeOf reads the tag shape: what a raw value may be, separated by bars. Each is a type of JSON, a list of one
// (string[]), a text in quotes, or the name of a schema.
func shapeOf(text string) *huma.Schema {
	var list []*huma.Schema
	for word := range strings.SplitSeq(text, "|") {
		list = append(list, wordOf(word))
	}
	if len(list) == 1 {
		return list[0]
	}
	return &huma.Schema{OneOf: list}
}

func wordOf(word string) *huma.Schema {
	if of, is := strings.CutSuffix(word, "[]"); is {
		return &huma.Schema{Type: huma.TypeArray, Items: wordOf(of)}
	}
	switch {
	case word[0] == '\'':
		return &huma.Schema{Type: huma.TypeString, Enum: []any{strings.Trim(word, "'")}}
	case 'A' <= word[0] && word[0] <= 'Z':
		return refTo(word)
	case word == "any":
		return &huma.Schema{}
	}
	return &huma.Schema{Type: word}
}

// splitDirections says of what the service sends which members are always there, and that its lists are never null; of
// what it is sent it says neither. What goes both ways has two schemas then, if they differ.
func (d *document) splitDirections() {
	var in, out []*huma.Schema
	for _, o := range d.operations() {
		in, out = append(in, asked(o)...), append(out, answered(o)...)
	}
	for _, o := range d.pushes() {
		out = append(out, asked(o)...)
	}
	out = append(out, d.shared()...)
	sent, taken := d.reached(out), d.reached(in)
	twofold := map[string]bool{}
	for name := range sent {
		if before := clone(d.schemas.of[name]); d.complete(name) && taken[name] {
			twofold[name] = true
			d.schemas.of[name+input], d.schemas.types[name+input] = before, d.schemas.types[name]
		}
	}
	for more := true; more; { // what refers to one that is twofold, and goes both ways, is as well
		more = false
		for name := range sent {
			if taken[name] && !twofold[name] && refersTo(d.schemas.of[name], twofold) {
				twofold[name], more = true, true
				d.schemas.of[name+input] = clone(d.schemas.of[name])
				d.schemas.types[name+input] = d.schemas.types[name]
			}
		}
	}
	turn := func(s *huma.Schema) {
		if twofold[nameOf(s.Ref)] {
			s.Ref += input
		}
	}
	for name := range taken {
		if !sent[name] {
			each(d.schemas.of[name], turn)
		} else if twofold[name] {
			each(d.schemas.of[name+input], turn)
		}
	}
	for _, s := range in {
		each(s, turn)
	}
}

// input ends the name of the schema that a type has in requests, where it has another in answers.
const input = "Input"

func refersTo(s *huma.Schema, names map[string]bool) (does bool) {
	each(s, func(s *huma.Schema) { does = does || names[nameOf(s.Ref)] })
	return does
}

// inlinePushes has the bodies of webhooks stand where they are sent: oapi-codegen leaves out the types that only
// webhooks refer to, and refers to them.
func (d *document) inlinePushes() {
	for _, o := range d.pushes() {
		for _, m := range o.RequestBody.Content {
			if m.Schema.Ref != "" {
				m.Schema = clone(d.schemas.of[nameOf(m.Schema.Ref)])
			}
		}
	}
}

// prune takes away what nothing refers to.
func (d *document) prune() {
	var from []*huma.Schema
	for _, o := range append(d.operations(), d.pushes()...) {
		from = append(append(from, asked(o)...), answered(o)...)
	}
	kept := d.reached(append(from, d.shared()...))
	for name := range d.schemas.of {
		if !kept[name] {
			delete(d.schemas.of, name)
		}
	}
}

// shared are the schemas of the responses that stand once for all operations.
func (d *document) shared() (list []*huma.Schema) {
	for _, r := range d.Components.Responses {
		for _, m := range r.Content {
			list = append(list, m.Schema)
		}
	}
	return list
}

// reached are the names of the schemas that some refer to.
func (d *document) reached(from []*huma.Schema) map[string]bool {
	names := map[string]bool{}
	var visit func(*huma.Schema)
	visit = func(s *huma.Schema) {
		if name := nameOf(s.Ref); s.Ref != "" && !names[name] {
			names[name] = true
			each(d.schemas.of[name], visit)
		}
	}
	for _, s := range from {
		each(s, visit)
	}
	return names
}

// complete makes a schema one of what the service sends. It says whether that changed it.
func (d *document) complete(name string) (changed bool) {
	s, t := d.schemas.of[name], d.schemas.types[name]
	each(s, func(s *huma.Schema) {
		if s.Type == huma.TypeArray && s.Nullable {
			s.Nullable, changed = false, true
		}
	})
	if t == nil || t.Kind() != reflect.Struct || s.Properties == nil {
		return changed
	}
	var always []string
	for _, m := range membersOf(t) {
		if m.always && s.Properties[m.name] != nil {
			always = append(always, m.name)
		}
	}
	changed = changed || !slices.Equal(always, s.Required)
	s.Required = always
	return changed
}

// nulls writes what may be null as one of two: the generators that know a list of types are few.
func (d *document) nulls() {
	d.everySchema(func(s *huma.Schema) {
		if s.Nullable {
			of := *s
			of.Nullable, of.Description, of.Examples, of.Default = false, "", nil, nil
			of.Enum = slices.DeleteFunc(slices.Clone(of.Enum), func(v any) bool { return v == nil || v == "null" })
			*s = huma.Schema{
				Description: s.Description, Examples: s.Examples, Default: s.Default,
				OneOf: []*huma.Schema{&of, {Type: "null"}},
			}
		}
		if len(s.AnyOf) == 2 && s.AnyOf[1].Type == "null" {
			s.OneOf, s.AnyOf = s.AnyOf, nil
		}
	})
}
