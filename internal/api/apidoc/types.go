package apidoc

import (
	"cmp"
	"encoding/json"
	"maps"
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

// membersOf are those of a struct, in order, with those of embedded structs after them.
func membersOf(t reflect.Type) (list []member) {
	fields := reflect.VisibleFields(t)
	slices.SortStableFunc(fields, func(a, b reflect.StructField) int { return len(a.Index) - len(b.Index) })
	for _, f := range fields {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.IsExported() && name != "-" && (name != "" || !f.Anonymous) {
			list = append(list, member{cmp.Or(name, f.Name), f, !strings.Contains(options, "omit")})
		}
	}
	return list
}

// instants are the names of members that are times.
var instants = regexp.MustCompile(`^(.*_)?(at|until)$`)

// shapes adds facts that the library's description cannot have: the JSON of a raw value, and which texts are times. An
// object may have further members without a note. An object that may have any members, and has no known one, gets a
// note. Without it, openapi-typescript would take it for an object without other members.
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
		if s.AdditionalProperties == true {
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

// raw puts a shape in the place of a raw value in a member's schema. The raw value is the member itself, or a value of
// its list or its map.
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

// shapeOf reads the tag shape: the possible values of a raw value, separated by bars. Each is a type of JSON, a list of
// one (string[]), int64, a text in quotes, or the name of a schema.
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
	case word == "int64":
		return &huma.Schema{Type: huma.TypeInteger, Format: word}
	case word == "any":
		return &huma.Schema{}
	}
	return &huma.Schema{Type: word}
}

// splitDirections marks members that are always there in data which the service sends, and lists there as never null.
// In data that the service receives it marks neither. A type for both directions has two schemas then, if they or the
// types that they refer to differ.
func (d *document) splitDirections() {
	var in []any
	out := []any{d.Components.Responses}
	for _, o := range d.operations() {
		in, out = append(in, o.Parameters, o.RequestBody), append(out, o.Responses)
	}
	for _, o := range d.pushes() {
		out = append(out, o.RequestBody)
	}
	sent, taken := d.reached(out), d.reached(in)
	before, changed := map[string]*huma.Schema{}, map[string]bool{}
	for name := range sent {
		before[name] = clone(d.schemas.of[name])
		d.complete(name)
		changed[name] = !reflect.DeepEqual(before[name], d.schemas.of[name])
	}
	twofold := map[string]bool{}
	for name := range sent {
		if !taken[name] {
			continue
		}
		for other := range d.reached(refTo(name)) {
			twofold[name] = twofold[name] || changed[other]
		}
		if twofold[name] {
			d.schemas.of[name+input], d.schemas.types[name+input] = before[name], d.schemas.types[name]
		}
	}
	for name := range taken {
		if !sent[name] {
			in = append(in, d.schemas.of[name])
		} else if twofold[name] {
			in = append(in, before[name])
		}
	}
	each(in, func(s *huma.Schema) {
		if twofold[nameOf(s.Ref)] {
			s.Ref += input
		}
	})
}

// input is the suffix of a schema's name in requests, for a type that has another schema in answers.
const input = "Input"

// inlinePushes writes the bodies of webhooks inline. Otherwise oapi-codegen leaves out the types that only webhooks
// refer to, and still refers to them.
func (d *document) inlinePushes() {
	for _, o := range d.pushes() {
		for _, m := range o.RequestBody.Content {
			if m.Schema.Ref != "" {
				m.Schema = clone(d.schemas.of[nameOf(m.Schema.Ref)])
			}
		}
	}
}

func (d *document) prune() {
	kept := d.reached(d.OpenAPI)
	maps.DeleteFunc(d.schemas.of, func(name string, _ *huma.Schema) bool { return !kept[name] })
}

// reached are the names of the schemas that a value refers to, directly or through others.
func (d *document) reached(from any) map[string]bool {
	names := map[string]bool{}
	var visit func(*huma.Schema)
	visit = func(s *huma.Schema) {
		if name := nameOf(s.Ref); s.Ref != "" && !names[name] {
			names[name] = true
			each(d.schemas.of[name], visit)
		}
	}
	each(from, visit)
	return names
}

// complete makes a schema one of data that the service sends.
func (d *document) complete(name string) {
	s, t := d.schemas.of[name], d.schemas.types[name]
	each(s, func(s *huma.Schema) { s.Nullable = s.Nullable && s.Type != huma.TypeArray })
	if t == nil || t.Kind() != reflect.Struct || s.Properties == nil {
		return
	}
	s.Required = nil
	for _, m := range membersOf(t) {
		if m.always && s.Properties[m.name] != nil {
			s.Required = append(s.Required, m.name)
		}
	}
}

// nulls writes a nullable value as one of two schemas: few generators know a list of types.
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
