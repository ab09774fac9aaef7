package apidoc

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

const prefix = "#/components/schemas/"

// schemas are the document's, and the Go types that they describe.
type schemas struct {
	of    map[string]*huma.Schema
	types map[string]reflect.Type
}

// Schema implements [huma.Registry]. No schema is made any more.
func (s schemas) Schema(reflect.Type, bool, string) *huma.Schema { return nil }

// SchemaFromRef implements [huma.Registry].
func (s schemas) SchemaFromRef(ref string) *huma.Schema { return s.of[nameOf(ref)] }

// TypeFromRef implements [huma.Registry].
func (s schemas) TypeFromRef(ref string) reflect.Type { return s.types[nameOf(ref)] }

// Map implements [huma.Registry].
func (s schemas) Map() map[string]*huma.Schema { return s.of }

// RegisterTypeAlias implements [huma.Registry]. No schema is made any more.
func (s schemas) RegisterTypeAlias(reflect.Type, reflect.Type) {}

// MarshalJSON writes the schemas by their names.
func (s schemas) MarshalJSON() ([]byte, error) { return json.Marshal(s.of) }

func nameOf(ref string) string { return strings.TrimPrefix(ref, prefix) }

func refTo(name string) *huma.Schema { return &huma.Schema{Ref: prefix + name} }

// copyOf copies what the passes change.
func copyOf(described *huma.OpenAPI) *document {
	c := *described
	d := &document{&c, schemas{map[string]*huma.Schema{}, map[string]reflect.Type{}}}
	registry := described.Components.Schemas
	for name, s := range registry.Map() {
		d.schemas.of[name], d.schemas.types[name] = copySchema(s), registry.TypeFromRef(prefix+name)
	}
	components := *described.Components
	c.Components = &components
	components.Schemas = d.schemas
	c.Paths, c.Webhooks = copyPaths(described.Paths), copyPaths(described.Webhooks)
	info := *described.Info
	c.Info = &info
	return d
}

func copyPaths(paths map[string]*huma.PathItem) map[string]*huma.PathItem {
	copies := map[string]*huma.PathItem{}
	for path, item := range paths {
		i := *item
		for _, o := range []**huma.Operation{&i.Get, &i.Post, &i.Put, &i.Patch, &i.Delete} {
			if *o != nil {
				*o = copyOperation(*o)
			}
		}
		copies[path] = &i
	}
	return copies
}

func copyOperation(o *huma.Operation) *huma.Operation {
	c := *o
	c.Parameters = make([]*huma.Param, 0, len(o.Parameters))
	for _, p := range o.Parameters {
		p := *p
		p.Schema = copySchema(p.Schema)
		c.Parameters = append(c.Parameters, &p)
	}
	if o.RequestBody != nil {
		body := *o.RequestBody
		body.Content = copyContent(body.Content)
		c.RequestBody = &body
	}
	c.Responses = map[string]*huma.Response{}
	for status, r := range o.Responses {
		r := *r
		r.Content, r.Headers = copyContent(r.Content), maps.Clone(r.Headers)
		c.Responses[status] = &r
	}
	return &c
}

func copyContent(content map[string]*huma.MediaType) map[string]*huma.MediaType {
	copies := map[string]*huma.MediaType{}
	for kind, m := range content {
		m := *m
		m.Schema = copySchema(m.Schema)
		copies[kind] = &m
	}
	return copies
}

func copySchema(s *huma.Schema) *huma.Schema {
	if s == nil {
		return nil
	}
	c := *s
	for _, part := range []**huma.Schema{&c.Items, &c.Not} {
		*part = copySchema(*part)
	}
	if more, is := c.AdditionalProperties.(*huma.Schema); is {
		c.AdditionalProperties = copySchema(more)
	}
	if s.Properties != nil {
		c.Properties = make(map[string]*huma.Schema, len(s.Properties))
		for name, p := range s.Properties {
			c.Properties[name] = copySchema(p)
		}
	}
	for _, list := range []*[]*huma.Schema{&c.OneOf, &c.AnyOf, &c.AllOf} {
		*list = slices.Clone(*list)
		for i, one := range *list {
			(*list)[i] = copySchema(one)
		}
	}
	c.Required, c.Enum = slices.Clone(c.Required), slices.Clone(c.Enum)
	return &c
}

// each calls visit for a schema and all that stand in it, the outer ones first; not for those that it refers to.
func each(s *huma.Schema, visit func(*huma.Schema)) {
	if s == nil {
		return
	}
	visit(s)
	each(s.Items, visit)
	each(s.Not, visit)
	if more, is := s.AdditionalProperties.(*huma.Schema); is {
		each(more, visit)
	}
	for _, p := range s.Properties {
		each(p, visit)
	}
	for _, list := range [][]*huma.Schema{s.OneOf, s.AnyOf, s.AllOf} {
		for _, one := range list {
			each(one, visit)
		}
	}
}

// everySchema calls visit for every schema of the document.
func (d *document) everySchema(visit func(*huma.Schema)) {
	for _, s := range d.schemas.of {
		each(s, visit)
	}
	for _, o := range append(d.operations(), d.pushes()...) {
		for _, s := range append(asked(o), answered(o)...) {
			each(s, visit)
		}
	}
}

// asked are the schemas of what an operation is asked with.
func asked(o operation) (list []*huma.Schema) {
	for _, p := range o.Parameters {
		list = append(list, p.Schema)
	}
	if o.RequestBody != nil {
		for _, m := range o.RequestBody.Content {
			list = append(list, m.Schema)
		}
	}
	return list
}

// answered are the schemas of its answers.
func answered(o operation) (list []*huma.Schema) {
	for _, r := range o.Responses {
		for _, m := range r.Content {
			list = append(list, m.Schema)
		}
		for _, h := range r.Headers {
			list = append(list, h.Schema)
		}
	}
	return list
}
