package httpapi

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentplatform/internal/platform/problem"
)

// A member that nothing reads has no effect, though its sender expects one. So searches, filters and changes of
// resources refuse an unknown member. A client may send a resource back as it was read: its read-only members are
// known, and ignored.

const unknownMember = "is unknown; remove it"

// Members are the names that the members of an object may have, each with the members inside it; nil: any members.
type Members map[string]Members

// MembersOf are those of a type.
func MembersOf[T any]() Members { return membersOf(nil, reflect.TypeFor[T]()) }

// membersOfBody are the members that the body of an operation may have; in and out are the types of its input and
// output. A body whose type has a field _ with additionalProperties:"false" may have the members of the type, as in the
// document. The body of a PATCH may also have those of the answer. Any other body may have any members.
func (o *Operation) membersOfBody(in, out reflect.Type) Members {
	var of []reflect.Type
	body, has := in.FieldByName("Body")
	if has && (o.Method == http.MethodPatch || closed(body.Type)) {
		of = append(of, body.Type)
	}
	if o.Method == http.MethodPatch {
		view, _ := out.FieldByName("Body")
		of = append(of, view.Type)
	}
	return membersOf(nil, of...)
}

// closed reports whether the document allows no other members in a type.
func closed(t reflect.Type) bool {
	if t.Kind() != reflect.Struct {
		return false
	}
	mark, _ := t.FieldByName("_")
	return mark.Tag.Get("additionalProperties") == "false"
}

// membersOf are the members that any of the types has, nil where one of them may have any members. within are the outer
// types, which may have any members inside themselves.
func membersOf(within []reflect.Type, of ...reflect.Type) Members {
	if len(of) == 0 {
		return nil
	}
	inside, around := map[string][]reflect.Type{}, slices.Clone(within)
	for _, t := range of {
		if t = inner(t); t.Kind() != reflect.Struct || readsItself(t) || slices.Contains(within, t) {
			return nil
		}
		around = append(around, t)
		addFields(t, inside)
	}
	m := Members{}
	for name, types := range inside {
		m[name] = membersOf(around, types...)
	}
	return m
}

// addFields adds the fields of a struct by their names in JSON, with those of structs that are embedded.
func addFields(t reflect.Type, into map[string][]reflect.Type) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "" && (f.Anonymous || strings.Contains(options, "inline")):
			addFields(inner(f.Type), into)
		case f.IsExported() && name != "-":
			name = cmp.Or(name, f.Name)
			into[name] = append(into[name], f.Type)
		}
	}
}

// inner is the type of an object after a pointer, a list or a nullable value is removed.
func inner(t reflect.Type) reflect.Type {
	for {
		wrapped, is := reflect.Zero(t).Interface().(interface{ inside() reflect.Type })
		switch {
		case is && t.Kind() != reflect.Pointer:
			t = wrapped.inside()
		case t.Kind() == reflect.Pointer, t.Kind() == reflect.Slice:
			t = t.Elem()
		default:
			return t
		}
	}
}

// readsItself reports whether a type decodes its JSON with its own code.
func readsItself(t reflect.Type) bool {
	switch reflect.New(t).Interface().(type) {
	case json.Unmarshaler, jsonv2.UnmarshalerFrom, encoding.TextUnmarshaler:
		return true
	}
	return false
}

func (Nullable[T]) inside() reflect.Type { return reflect.TypeFor[T]() }
func (Patch[T]) inside() reflect.Type    { return reflect.TypeFor[T]() }

// Check returns an invalid field for the first unknown member of a body that [CheckJSON] has accepted.
func (m Members) Check(at string, body []byte) error {
	if m == nil || len(body) == 0 {
		return nil
	}
	return m.check(at, jsontext.NewDecoder(bytes.NewBuffer(body)))
}

func (m Members) check(at string, d *jsontext.Decoder) error {
	kind := d.PeekKind()
	if m == nil || kind != '{' && kind != '[' {
		return d.SkipValue()
	}
	_, err := d.ReadToken()
	for n := 0; err == nil && d.PeekKind() != '}' && d.PeekKind() != ']'; n++ {
		inside, field := m, at+"["+strconv.Itoa(n)+"]"
		if kind == '{' {
			name, _ := d.ReadToken()
			member, known := m[name.String()]
			inside, field = member, at+"."+name.String()
			if !known {
				return problem.InvalidField(Short(field), unknownMember)
			}
		}
		err = inside.check(field, d)
	}
	if err == nil {
		_, err = d.ReadToken()
	}
	return err
}
