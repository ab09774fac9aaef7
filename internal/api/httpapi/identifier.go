package httpapi

import "github.com/danielgtaylor/huma/v2"

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
