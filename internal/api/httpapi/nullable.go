package httpapi

import (
	"encoding/json"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Nullable is a value that may be null. In a body it tells null from absent.
type Nullable[T any] struct {
	Value *T
	Said  bool // the body has the member
}

// Schema says so in the document, whose library has no word for an object that may be null.
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
	n.Said = true
	return jsonv2.UnmarshalDecode(d, &n.Value)
}

// Edit is the value for an edit: nil where the body does not have it, zero for null.
func (n Nullable[T]) Edit() *T {
	if n.Said && n.Value == nil {
		return new(T)
	}
	return n.Value
}

// Patch is an object, or null, that is merged into what is stored; it is as it was sent.
type Patch[T any] struct{ json.RawMessage }

// Schema implements [huma.SchemaProvider].
func (Patch[T]) Schema(r huma.Registry) *huma.Schema { return Nullable[T]{}.Schema(r) }
