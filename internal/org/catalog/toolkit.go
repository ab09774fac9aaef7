package catalog

import (
	"time"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/store/record"
)

// Toolkit is a set of tools at an endpoint. Its list of tools is in the blob store, and is written again when it
// changes.
type Toolkit struct {
	ID              string            `json:"toolkit_id"`
	Organization    string            `json:"organization_id"`
	Kind            string            `json:"kind"`
	Name            string            `json:"name"`
	URL             string            `json:"url,omitzero"`
	BaseURL         string            `json:"base_url,omitzero"`
	Document        string            `json:"document,omitzero"` // the blob key of an uploaded document
	Request         *tool.HTTPRequest `json:"request,omitzero"`  // of the kind http
	Command         []string          `json:"command,omitzero"`  // of a server that is a program on this machine
	Selection       tool.Selection    `json:"selection,omitzero"`
	Credentials     string            `json:"credentials,omitzero"`
	CredentialsType string            `json:"credentials_type,omitzero"`    // the type of the credentials
	Origins         []string          `json:"credentials_origins,omitzero"` // the servers that they are for
	Tools           string            `json:"tools,omitzero"`               // the blob key of the list
	ToolCount       int               `json:"tool_count"`
	EnabledCount    *int              `json:"enabled_count,omitzero"` // nil in toolkits of earlier versions
	CreatedAt       time.Time         `json:"created_at"`
	UpdatedAt       time.Time         `json:"updated_at"`
	RefreshedAt     time.Time         `json:"refreshed_at,omitzero"`
}

// Placed implements [record.Resourceful].
func (t Toolkit) Placed() (string, string, string) { return "toolkit", t.ID, t.Organization }

// BuiltinToolkit is the id of an organization's built-in toolkit, which is not stored.
func BuiltinToolkit(organization string) string { return record.DerivedID("builtin", organization) }
