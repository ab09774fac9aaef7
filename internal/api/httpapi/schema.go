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

// Union is the schema of one of several types, which the member named by says.
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

// Nullable is an object that may be null, which the document's library has no word for.
type Nullable[T any] struct{ Value *T }

// Schema says so in the document.
func (Nullable[T]) Schema(r huma.Registry) *huma.Schema {
	return &huma.Schema{AnyOf: []*huma.Schema{r.Schema(reflect.TypeFor[T](), true, ""), {Type: "null"}}}
}

// MarshalJSON writes the object, or null.
func (n Nullable[T]) MarshalJSON() ([]byte, error) { return json.Marshal(n.Value) }

// UnmarshalJSONFrom reads the object, or null.
func (n *Nullable[T]) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	return jsonv2.UnmarshalDecode(d, &n.Value)
}

// ID is a parameter of a query that names a thing by its identifier: the framework refuses whatever is none. Empty
// means that nothing was said.
type ID string

// Schema describes an identifier to the framework.
func (ID) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		Type: huma.TypeString, Pattern: "^[0-9a-f]{24}$", PatternDescription: "an identifier of 24 hex digits",
	}
}

// ChatID is a parameter of a query that names a chat, whose identifier clients may choose.
type ChatID string

// Schema describes a chat's identifier to the framework.
func (ChatID) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		Type: huma.TypeString, Pattern: "^[A-Za-z0-9._:-]{1,128}$",
		PatternDescription: "a chat's identifier: 1 to 128 letters, digits, dots, underscores, colons and hyphens",
	}
}
