package openapitool

import (
	"maps"
	"slices"

	"github.com/getkin/kin-openapi/openapi3"
)

// The bounds of what is written out of a schema: below them it says "anything", which is true, if less helpful.
const (
	maxDepth = 8
	maxNodes = 2000
)

// inline writes a schema out as JSON schema, without references, of which providers of models know none.
func inline(ref *openapi3.SchemaRef) map[string]any {
	w := &writer{}
	return w.write(ref, 0)
}

type writer struct {
	nodes int
	above []*openapi3.Schema // those that are being written: one that comes again is a circle
}

func (w *writer) write(ref *openapi3.SchemaRef, depth int) map[string]any {
	out := map[string]any{}
	w.nodes++
	if ref == nil || ref.Value == nil || depth > maxDepth || w.nodes > maxNodes || slices.Contains(w.above, ref.Value) {
		return out
	}
	s := ref.Value
	w.above = append(w.above, s)
	defer func() { w.above = w.above[:len(w.above)-1] }()
	set := func(name string, value any, there bool) {
		if there {
			out[name] = value
		}
	}
	w.plain(s, set)
	for name, list := range map[string]openapi3.SchemaRefs{"anyOf": s.AnyOf, "oneOf": s.OneOf, "allOf": s.AllOf} {
		var each []any
		for _, one := range list {
			each = append(each, w.write(one, depth+1))
		}
		set(name, each, len(each) > 0)
	}
	if s.Items != nil {
		out["items"] = w.write(s.Items, depth+1)
	}
	if len(s.Properties) > 0 {
		properties := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			if p := s.Properties[name]; p.Value == nil || !p.Value.ReadOnly { // what only the server says
				properties[name] = w.write(p, depth+1)
			}
		}
		out["properties"] = properties
		var required []string
		for _, name := range s.Required {
			if _, there := properties[name]; there {
				required = append(required, name)
			}
		}
		set("required", required, len(required) > 0)
	}
	if more := s.AdditionalProperties; more.Schema != nil {
		out["additionalProperties"] = w.write(more.Schema, depth+1)
	} else if more.Has != nil {
		out["additionalProperties"] = *more.Has
	}
	return out
}

// plain writes what has no schema within.
func (w *writer) plain(s *openapi3.Schema, set func(string, any, bool)) {
	if s.Type != nil {
		types := slices.Clone(s.Type.Slice())
		if s.Nullable {
			types = append(types, "null")
		}
		switch len(types) {
		case 0:
		case 1:
			set("type", types[0], true)
		default:
			set("type", types, true)
		}
	}
	set("description", s.Description, s.Description != "")
	set("enum", s.Enum, len(s.Enum) > 0)
	set("format", s.Format, s.Format != "")
	set("default", s.Default, s.Default != nil)
	set("minimum", s.Min, s.Min != nil)
	set("maximum", s.Max, s.Max != nil)
	set("minLength", s.MinLength, s.MinLength > 0)
	set("maxLength", s.MaxLength, s.MaxLength != nil)
	set("minItems", s.MinItems, s.MinItems > 0)
	set("maxItems", s.MaxItems, s.MaxItems != nil)
}
