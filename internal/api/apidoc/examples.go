package apidoc

import (
	"cmp"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// Values of examples.
const (
	exampleID   = "65f0a1b2c3d4e5f601234567"
	exampleTime = "2026-01-02T03:04:05.678Z"
	exampleURL  = "https://agents.example/callback"
)

// Exampler is a type of answers that gives an example of itself.
type Exampler interface{ Example() any }

// examples gives every body and every parameter of a path an example that fits its schema. A member has the value of
// its tag example, if it has one. An optional member has an example only if it has that tag.
func (d *document) examples() {
	for _, o := range append(d.operations(), d.pushes()...) {
		for _, p := range o.Parameters {
			if p.In == "path" {
				p.Example = d.text(p.Schema, p.Name)
			}
		}
		if o.RequestBody != nil {
			d.exemplify(o.RequestBody.Content, maker{document: d, sparse: d.Webhooks[o.path] == nil})
		}
		for _, r := range o.Responses {
			d.exemplify(r.Content, maker{document: d})
		}
	}
}

func (d *document) exemplify(content map[string]*huma.MediaType, make maker) {
	for _, m := range content {
		if m.Example != nil || m.Schema.Format == "binary" {
			continue
		}
		m.Example = make.of(m.Schema, "")
	}
}

type maker struct {
	*document

	sparse bool     // null is not a value
	inside []string // the schemas that the value stands in
}

// of is an example of a schema, for a member of that name.
func (m maker) of(s *huma.Schema, name string) any {
	if s.Ref != "" {
		if slices.Contains(m.inside, s.Ref) {
			return nil
		}
		if t := m.schemas.types[nameOf(s.Ref)]; t != nil && !m.sparse {
			if given, does := reflect.Zero(t).Interface().(Exampler); does {
				return given.Example()
			}
		}
		m.inside = append(slices.Clone(m.inside), s.Ref)
		return m.of(m.schemas.of[nameOf(s.Ref)], name)
	}
	for _, given := range [][]any{s.Examples, s.Enum} {
		if len(given) > 0 {
			return given[0]
		}
	}
	if s.Default != nil {
		return s.Default
	}
	if alternatives := append(slices.Clone(s.OneOf), s.AnyOf...); len(alternatives) > 0 {
		if last := alternatives[len(alternatives)-1]; last.Type == "null" && !m.sparse {
			return nil
		}
		return m.of(alternatives[0], name)
	}
	switch s.Type {
	case huma.TypeObject, "":
		return m.object(s)
	case huma.TypeArray:
		return m.array(s, name)
	case huma.TypeString:
		return m.text(s, name)
	case huma.TypeBoolean:
		return true
	}
	least := 1.0
	if s.Minimum != nil {
		least = *s.Minimum
	}
	if s.Maximum != nil {
		least = min(least, *s.Maximum)
	}
	if s.Type == huma.TypeInteger {
		return int64(least)
	}
	return least
}

func (m maker) object(s *huma.Schema) any {
	value := map[string]any{}
	for name, p := range s.Properties {
		needed := slices.Contains(s.Required, name) || len(m.given(p)) > 0
		if !needed {
			continue
		}
		value[name] = m.of(p, name)
	}
	if more, is := s.AdditionalProperties.(*huma.Schema); is && !isAny(more) {
		value["key"] = m.of(more, "value")
	}
	return value
}

// isAny reports whether a schema takes any JSON.
func isAny(s *huma.Schema) bool { return s.Type == "" && s.Ref == "" && len(s.OneOf)+len(s.AnyOf) == 0 }

func (m maker) given(s *huma.Schema) []any {
	if s.Ref != "" {
		s = m.schemas.of[nameOf(s.Ref)]
		for _, p := range s.Properties {
			if len(p.Examples) > 0 {
				return p.Examples
			}
		}
	}
	return s.Examples
}

func (m maker) array(s *huma.Schema, name string) any {
	n := 1
	if s.MinItems != nil {
		n = *s.MinItems
	}
	list := make([]any, 0, n)
	for range n {
		list = append(list, m.of(s.Items, strings.TrimSuffix(name, "s")))
	}
	return list
}

var texts = map[string]string{
	"name": "Support", "title": "A trip", "message": "Hello", "content": "Hello", "answer": "You said: Hello",
	"email": "someone@example.com", "content_type": "text/plain", "timezone": "UTC", "currency": "USD",
	"provider": "demo", "model": "demo/demo", "query": "opening hours", "version": "v1.0.0", "jsonrpc": "2.0",
	"method": "tools/list", "prompt": "Which city?", "text": "Hello", "finish_reason": "stop",
	"period": "month", "prefix": "ap_0123abcd", "level": "run", "operation": "create-agent",
}

func (d *document) text(s *huma.Schema, name string) any {
	switch {
	case len(s.Examples) > 0:
		return s.Examples[0]
	case s.Format == "binary":
		return "the bytes"
	case s.Format == "date-time":
		return exampleTime
	case s.Format == "uri" || name == "url" || strings.HasSuffix(name, "_url"):
		return exampleURL
	case s.Pattern == "" && (name == "id" || strings.HasSuffix(name, "_id")), strings.Contains(s.Pattern, "{24}"):
		return exampleID
	}
	return cmp.Or(texts[name], "text")
}
