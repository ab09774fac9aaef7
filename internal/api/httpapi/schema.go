package httpapi

import (
	"encoding/json"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// UnionMember is one of the types of a [Union].
type UnionMember struct {
	of     reflect.Type
	values []string
}

// Member is a type that some values of the union's discriminator name.
func Member[T any](values ...string) UnionMember { return UnionMember{reflect.TypeFor[T](), values} }

// Union is the schema of one of several types; the value of the member named by selects the type.
func Union(r huma.Registry, by, description string, members ...UnionMember) *huma.Schema {
	s := &huma.Schema{
		Description: description, Discriminator: &huma.Discriminator{PropertyName: by, Mapping: map[string]string{}},
	}
	for _, m := range members {
		one := r.Schema(m.of, true, "")
		s.OneOf = append(s.OneOf, one)
		for _, value := range m.values {
			s.Discriminator.Mapping[value] = one.Ref
		}
	}
	return s
}

// Nullable is a value that may be null. In a body null differs from absent. For a pointer with the tag nullable, null
// counts as absent, except in the body of an agent, which is merged.
type Nullable[T any] struct {
	Value   *T
	Present bool // the body has the member
}

// Schema marks the value as nullable in the document. The library itself cannot describe an object that may be null.
func (Nullable[T]) Schema(r huma.Registry) *huma.Schema {
	s := r.Schema(reflect.TypeFor[T](), true, "")
	if s.Ref != "" {
		return &huma.Schema{AnyOf: []*huma.Schema{s, {Type: "null"}}}
	}
	s.Nullable = true
	return s
}

// MarshalJSON writes the value, or null.
func (n Nullable[T]) MarshalJSON() ([]byte, error) { return json.Marshal(n.Value) }

// UnmarshalJSONFrom reads the value, or null.
func (n *Nullable[T]) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	n.Present = true
	return jsonv2.UnmarshalDecode(d, &n.Value)
}

// Edit is the value for an edit: nil where the body does not have it, zero for null.
func (n Nullable[T]) Edit() *T {
	if n.Present && n.Value == nil {
		return new(T)
	}
	return n.Value
}

// Patch is an object, or null, that is merged into the stored one. It has the bytes that were sent.
type Patch[T any] struct{ json.RawMessage }

// Schema implements [huma.SchemaProvider].
func (Patch[T]) Schema(r huma.Registry) *huma.Schema { return Nullable[T]{}.Schema(r) }

// ID is a query parameter that names a thing by its identifier: the framework refuses any other text. Empty means that
// the parameter is absent.
type ID string

// Schema describes an identifier to the framework.
func (ID) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		Type: huma.TypeString, Pattern: "^[0-9a-f]{24}$", PatternDescription: "an identifier of 24 hex digits",
	}
}

// ChatID is a query parameter that names a chat. Clients may choose the identifier of a chat.
type ChatID string

// Schema describes a chat's identifier to the framework.
func (ChatID) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		Type: huma.TypeString, Pattern: "^[A-Za-z0-9._:-]{1,128}$",
		PatternDescription: "a chat's identifier: 1 to 128 letters, digits, dots, underscores, colons and hyphens",
	}
}
