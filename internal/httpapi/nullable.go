package httpapi

import (
	"encoding/json"

	"github.com/danielgtaylor/huma/v2"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// nullable is an object that may be null, which the document's library has no word for.
type nullable[T any] struct{ value *T }

// Schema says so in the document.
func (nullable[T]) Schema(r huma.Registry) *huma.Schema {
	return &huma.Schema{AnyOf: []*huma.Schema{r.Schema(typeOf[T](), true, ""), {Type: "null"}}}
}

// MarshalJSON writes the object, or null.
func (n nullable[T]) MarshalJSON() ([]byte, error) { return json.Marshal(n.value) }

// UnmarshalJSONFrom reads the object, or null.
func (n *nullable[T]) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	return jsonv2.UnmarshalDecode(d, &n.value)
}
