package httpapi

import (
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// documented is the library's configuration: what the OpenAPI document says of the whole API, and how JSON is read.
func documented(publicURL string) huma.Config {
	config := huma.DefaultConfig("Agent Platform", "1")
	config.Info.Description = "Durable runs of agents: post a message, then wait, poll, stream or be called back."
	config.OpenAPIPath, config.DocsPath, config.SchemasPath = Base+"/openapi", "", ""
	config.CreateHooks = nil // no $schema members in answers
	exact := huma.DefaultJSONFormat
	exact.Unmarshal = func(data []byte, v any) error { return Decode("body", data, v) }
	config.Formats = map[string]huma.Format{"application/json": exact, "json": exact}
	config.AllowAdditionalPropertiesByDefault = true
	config.FieldsOptionalByDefault = true
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"key": {Type: "http", Scheme: "bearer", Description: "An API key"},
		"organization": {
			Type: "apiKey", In: "header", Name: organizationHeader,
			Description: "With a key of level operator: the id of the organization in which it acts as an admin",
		},
	}
	config.Security = []map[string][]string{{"key": {}}, {"key": {}, "organization": {}}}
	config.Servers = []*huma.Server{{URL: publicURL}}
	return config
}

// Describe puts an operation into the document that is not added by [Register]. Its path begins below [Base].
func (s *Server) Describe(o huma.Operation) {
	o.Path = Base + o.Path
	s.api.OpenAPI().AddOperation(&o)
}

// SchemaOf is the schema of a type in the document.
func SchemaOf[T any](s *Server) *huma.Schema {
	return s.api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[T](), true, "")
}

// Document is the OpenAPI document as JSON. Its error is the library's, when a schema cannot be written.
func (s *Server) Document() ([]byte, error) { return s.api.OpenAPI().MarshalJSON() }

// Patterns lists the routes, as "METHOD path".
func (s *Server) Patterns() []string { return slices.Collect(maps.Keys(s.operationNames())) }

// operationNames are the operations' names in the document, by "METHOD path".
func (s *Server) operationNames() map[string]string {
	names := map[string]string{}
	for path, item := range s.api.OpenAPI().Paths {
		for method, op := range map[string]*huma.Operation{
			http.MethodGet: item.Get, http.MethodPost: item.Post, http.MethodPatch: item.Patch,
			http.MethodPut: item.Put, http.MethodDelete: item.Delete,
		} {
			if op != nil {
				names[method+" "+path] = op.OperationID
			}
		}
	}
	return names
}

// errorBody documents the one error body.
type errorBody struct {
	Status    string `json:"status" enum:"error"`
	Code      string `json:"code" doc:"machine-readable" enum:"invalid_request,callback_url_not_https,callback_url_forbidden,url_forbidden,payload_too_large,missing_api_key,invalid_api_key,insufficient_permission,outside_organization,not_found,method_not_allowed,chat_busy,parked_queue_full,run_not_active,interrupts_mismatch,not_awaiting_input,already_started,count_mismatch,conflict,precondition_failed,rate_limited,user_concurrency_cap,organization_concurrency_cap,budget_exhausted,internal,run_failed,unavailable,embedding_unavailable"`
	Message   string `json:"message"`
	Detail    string `json:"detail" doc:"the same sentence as message"`
	RequestID string `json:"request_id"`
	Errors    []struct {
		Location string `json:"location"`
		Message  string `json:"message"`
	} `json:"errors,omitempty" doc:"for invalid_request: what is wrong, and where"`
	RetryAfter  int    `json:"retry_after,omitempty" doc:"seconds, as in the Retry-After header"`
	ActiveRunID string `json:"active_run_id,omitempty" doc:"for chat_busy and parked_queue_full"`
}

// finishDocument gives every operation the one error body.
func (s *Server) finishDocument() {
	document := s.api.OpenAPI()
	schema := huma.SchemaFromType(document.Components.Schemas, reflect.TypeFor[errorBody]())
	document.Components.Schemas.Map()["Error"] = schema
	body := func(what string) *huma.Response {
		return &huma.Response{Description: what, Content: map[string]*huma.MediaType{
			"application/json": {Schema: &huma.Schema{Ref: "#/components/schemas/Error"}},
		}}
	}
	for path, item := range document.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Post, item.Put, item.Patch, item.Delete} {
			if op == nil {
				continue
			}
			delete(op.Responses, "422")
			for status, response := range op.Responses {
				if strings.HasPrefix(status, "4") || strings.HasPrefix(status, "5") || status == "default" {
					response.Content = body("").Content
				}
			}
			if !s.open[path] {
				op.Responses["default"] = body("An error; its code says which")
			}
		}
	}
	delete(document.Components.Schemas.Map(), "ErrorModel")
	delete(document.Components.Schemas.Map(), "ErrorDetail")
}
