package agents

import (
	"encoding/json"

	"github.com/danielgtaylor/huma/v2"

	"agentplatform/internal/httpapi"
)

// These types describe to the OpenAPI document what is stored, or taken apart, as it came.

// HTTPRequest is the one request of a toolkit of the kind http.
type HTTPRequest struct {
	Name        string            `json:"name,omitempty" doc:"of the tool"`
	Description string            `json:"description,omitempty"`
	Method      string            `json:"method,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Query       []string          `json:"query,omitempty" doc:"arguments that become query parameters"`
	Body        string            `json:"body,omitempty" doc:"the argument that is the JSON body"`
	Parameters  json.RawMessage   `json:"parameters,omitempty" shape:"object" doc:"a JSON schema"`
}

type bearerCredentials struct {
	Type  string `json:"type" enum:"bearer" required:"true"`
	Token string `json:"token" required:"true"`
}

type headerCredentials struct {
	Type  string `json:"type" enum:"header,query" required:"true"`
	Name  string `json:"name" required:"true"`
	Value string `json:"value" required:"true"`
}

type basicCredentials struct {
	Type     string `json:"type" enum:"basic" required:"true"`
	Username string `json:"username" required:"true"`
	Password string `json:"password" required:"true"`
}

// credentials are one of them.
type credentials struct{}

// TransformSchema implements [huma.SchemaTransformer].
func (credentials) TransformSchema(r huma.Registry, _ *huma.Schema) *huma.Schema {
	return httpapi.Union(r, "type", "What a toolkit's server is shown; type says which.",
		httpapi.Member[bearerCredentials]("bearer"), httpapi.Member[headerCredentials]("header", "query"),
		httpapi.Member[basicCredentials]("basic"))
}
