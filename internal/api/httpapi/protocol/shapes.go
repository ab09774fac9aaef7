package protocol

import (
	"encoding/json"

	"github.com/danielgtaylor/huma/v2"

	"agentplatform/internal/api/httpapi"
)

// These types describe JSON-RPC to the OpenAPI document, in the part that both protocols share. The protocols
// themselves define the parameters and results of each method.

type rpcRequest struct {
	JSONRPC string          `json:"jsonrpc" enum:"2.0" required:"true"`
	ID      json.RawMessage `json:"id,omitempty" shape:"string|number" example:"\"1\"" doc:"absent in a notification"`
	Method  string          `json:"method" required:"true"`
	Params  json.RawMessage `json:"params,omitempty" shape:"object"`
}

type rpcError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

type rpcResponse struct {
	JSONRPC string          `json:"jsonrpc" enum:"2.0"`
	ID      json.RawMessage `json:"id,omitempty" shape:"string|number|null"`
	Result  json.RawMessage `json:"result,omitempty" shape:"object" doc:"absent if there is an error"`
	Error   *rpcError       `json:"error,omitempty"`
}

// agentCard is the part of a card that clients of both versions of A2A need.
type agentCard struct {
	Name               string          `json:"name"`
	Description        string          `json:"description"`
	Version            string          `json:"version"`
	URL                string          `json:"url"`
	ProtocolVersion    string          `json:"protocolVersion"`
	PreferredTransport string          `json:"preferredTransport"`
	Interfaces         []cardInterface `json:"supportedInterfaces"`
	Capabilities       map[string]bool `json:"capabilities"`
	InputModes         []string        `json:"defaultInputModes"`
	OutputModes        []string        `json:"defaultOutputModes"`
	Skills             []cardSkill     `json:"skills"`
	SecuritySchemes    json.RawMessage `json:"securitySchemes" shape:"object"`
}

type cardInterface struct {
	URL             string `json:"url"`
	ProtocolBinding string `json:"protocolBinding"`
	ProtocolVersion string `json:"protocolVersion"`
}

type cardSkill struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Tags        []string `json:"tags"`
}

// rpc completes the description of an operation that takes JSON-RPC. The operation does not depend on the method: a
// method's errors stand in the answer.
func (h *handlers) rpc(o huma.Operation) huma.Operation {
	o.Metadata = httpapi.ChangesNothing()
	o.RequestBody = &huma.RequestBody{
		Required: true, Content: content(httpapi.SchemaOf[rpcRequest](h.Server), asJSON),
	}
	o.Responses["200"].Content = content(httpapi.SchemaOf[rpcResponse](h.Server), asJSON, asEvents)
	return o
}
