package agents

import (
	"github.com/danielgtaylor/huma/v2"

	"agentplatform/internal/api/httpapi"
)

// These types describe JSON that is stored, or parsed, as it came. They are for the OpenAPI document.

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
	return httpapi.Union(r, "type", "Credentials for a toolkit's server; type selects the form.",
		httpapi.Member[bearerCredentials]("bearer"), httpapi.Member[headerCredentials]("header", "query"),
		httpapi.Member[basicCredentials]("basic"))
}
