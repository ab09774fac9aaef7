package httpapi

import (
	"encoding/json"

	"github.com/danielgtaylor/huma/v2"
)

// nullable is an object that may be null, which the document's library has no word for.
type nullable[T any] struct{ value *T }

// Schema says so in the document.
func (nullable[T]) Schema(r huma.Registry) *huma.Schema {
	return &huma.Schema{AnyOf: []*huma.Schema{r.Schema(typeOf[T](), true, ""), {Type: "null"}}}
}

// MarshalJSON writes the object, or null.
func (n nullable[T]) MarshalJSON() ([]byte, error) { return json.Marshal(n.value) }

// UnmarshalJSON reads the object, or null.
func (n *nullable[T]) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, &n.value) }
