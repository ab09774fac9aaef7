package httpapi

import "github.com/danielgtaylor/huma/v2"

// Bytes describes a file in a form to the document.
type Bytes struct{}

// Schema says so in the document.
func (Bytes) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: "binary"}
}
