package apidoc

import (
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

const prefix = "#/components/schemas/"

// schemas are the document's, and the Go types that they describe.
type schemas struct {
	of    map[string]*huma.Schema
	types map[string]reflect.Type
}

func nameOf(ref string) string { return strings.TrimPrefix(ref, prefix) }

func refTo(name string) *huma.Schema { return &huma.Schema{Ref: prefix + name} }

func copyOf(described *huma.OpenAPI) *document {
	c := *described
	components := *described.Components
	c.Components = &components
	components.Schemas = huma.NewMapRegistry(prefix, huma.DefaultSchemaNamer)
	d := &document{&c, schemas{components.Schemas.Map(), map[string]reflect.Type{}}}
	registry := described.Components.Schemas
	for name, s := range registry.Map() {
		d.schemas.of[name], d.schemas.types[name] = clone(s), registry.TypeFromRef(prefix+name)
	}
	c.Paths, c.Webhooks = clone(described.Paths), clone(described.Webhooks)
	return d
}

// clone is a value that shares nothing of a description with v. It copies the targets of pointers, lists and maps, and
// schemas in interfaces. Other values in interfaces, like examples, are shared.
func clone[T any](v T) T { return copied(reflect.ValueOf(&v).Elem()).Interface().(T) }

func copied(v reflect.Value) reflect.Value {
	c := reflect.New(v.Type()).Elem()
	c.Set(v)
	switch kind := v.Kind(); {
	case kind == reflect.Pointer && !v.IsNil():
		c.Set(reflect.New(v.Type().Elem()))
		c.Elem().Set(copied(v.Elem()))
	case kind == reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				c.Field(i).Set(copied(v.Field(i)))
			}
		}
	case kind == reflect.Slice && !v.IsNil():
		c.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		for i := range v.Len() {
			c.Index(i).Set(copied(v.Index(i)))
		}
	case kind == reflect.Map && !v.IsNil():
		c.Set(reflect.MakeMap(v.Type()))
		for key, one := range v.Seq2() {
			c.SetMapIndex(key, copied(one))
		}
	case kind == reflect.Interface:
		if s, is := v.Interface().(*huma.Schema); is {
			c.Set(reflect.ValueOf(clone(s)))
		}
	}
	return c
}

// each calls visit for every schema in a value, the outer ones first. It does not follow references.
func each(in any, visit func(*huma.Schema)) { eachIn(reflect.ValueOf(in), visit) }

func eachIn(v reflect.Value, visit func(*huma.Schema)) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return
		}
		if s, is := v.Interface().(*huma.Schema); is && v.Kind() == reflect.Pointer {
			visit(s)
		}
		eachIn(v.Elem(), visit)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				eachIn(v.Field(i), visit)
			}
		}
	case reflect.Slice, reflect.Map:
		for _, one := range v.Seq2() {
			eachIn(one, visit)
		}
	}
}

// everySchema calls visit for every schema of the document.
func (d *document) everySchema(visit func(*huma.Schema)) { each([]any{d.schemas.of, d.OpenAPI}, visit) }
