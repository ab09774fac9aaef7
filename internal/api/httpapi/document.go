package httpapi

import (
	"encoding/json"
	"net/http"
	"reflect"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"agentplatform/internal/api/apidoc"
)

// documented is the library's configuration: the parts of the OpenAPI document about the whole API, and how JSON is
// read.
func documented(publicURL string) huma.Config {
	config := huma.DefaultConfig("Agent Platform", "1")
	config.Info.Description = "Durable runs of agents: send a message, then wait, poll, stream or receive a webhook."
	config.Info.License = &huma.License{Name: "Apache License 2.0", Identifier: "Apache-2.0"}
	config.Info.Contact = &huma.Contact{Name: "Agent Platform", URL: publicURL}
	config.OpenAPIPath, config.DocsPath, config.SchemasPath = "", "", "" // see serveDocument
	config.CreateHooks = nil                                             // no $schema members in answers
	exact := huma.DefaultJSONFormat
	exact.Unmarshal = func(data []byte, v any) error { return Decode("body", data, v) }
	config.Formats = map[string]huma.Format{"application/json": exact, "json": exact}
	config.AllowAdditionalPropertiesByDefault = true
	config.FieldsOptionalByDefault = true
	config.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", schemaName)
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"key": {Type: "http", Scheme: "bearer", Description: "An API key"},
		"organization": {
			Type: "apiKey", In: "header", Name: organizationHeader,
			Description: "With a key of level operator: the organization in which the key acts as an admin",
		},
	}
	config.Security = []map[string][]string{{"key": {}}, {"key": {}, "organization": {}}}
	config.Servers = []*huma.Server{{URL: publicURL}}
	config.Tags = []*huma.Tag{
		{Name: "agents", Description: "Agents, their versions and their models"},
		{Name: "analytics", Description: "Totals of runs, and the usage ledger"},
		{Name: "api keys", Description: "Keys that authenticate clients"},
		{Name: "audit", Description: "Changes and decisions, with the user of each"},
		{Name: "chat", Description: "Messages to agents"},
		{Name: "chats", Description: "Conversations"},
		{Name: "files", Description: "Files for messages and for documents"},
		{Name: "groups", Description: "Groups of users"},
		{Name: "knowledge", Description: "Knowledge bases, their documents, and search"},
		{Name: "meta", Description: "The service itself, and the owner of a key"},
		{Name: "organizations", Description: "Organizations, their limits, secrets and budgets"},
		{Name: "protocols", Description: "Agents for clients of MCP, A2A, Open Responses and AG-UI"},
		{Name: "runs", Description: "Read, follow, decide and cancel runs"},
		{Name: "toolkits", Description: "Tools that agents may call"},
		{Name: "users", Description: "Users"},
		{Name: "webhooks", Description: "Deliveries of webhook pushes"},
	}
	return config
}

// Describe puts an operation into the document that is not added by [Route]. Its path begins below [Base].
func (s *Server) Describe(o huma.Operation) {
	o.Path = Base + o.Path
	s.api.OpenAPI().AddOperation(&o)
}

// ChangesNothing is the metadata of an operation that only reads, though its method is POST.
func ChangesNothing() map[string]any { return map[string]any{apidoc.Conflicts: false} }

// SchemaOf is the schema of a type in the document.
func SchemaOf[T any](s *Server) *huma.Schema {
	return s.api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[T](), true, "")
}

// NamedSchema adds a schema to the document under a name, and refers to it.
func (s *Server) NamedSchema(name string, schema *huma.Schema) *huma.Schema {
	s.api.OpenAPI().Components.Schemas.Map()[name] = schema
	return &huma.Schema{Ref: "#/components/schemas/" + name}
}

// DescribeWebhook puts a request that the service makes into the document.
func (s *Server) DescribeWebhook(name string, o huma.Operation) {
	document := s.api.OpenAPI()
	if document.Webhooks == nil {
		document.Webhooks = map[string]*huma.PathItem{}
	}
	o.Security = []map[string][]string{}
	document.Webhooks[name] = &huma.PathItem{Post: &o}
}

// Document is the OpenAPI document as JSON. Its error is the library's, when a schema cannot be written.
func (s *Server) Document() ([]byte, error) { return s.document().MarshalJSON() }

// serveDocument answers with the document, which is made at the first request for it.
func (s *Server) serveDocument() {
	for name, write := range map[string]func(*huma.OpenAPI) ([]byte, error){
		".json": (*huma.OpenAPI).MarshalJSON, ".yaml": (*huma.OpenAPI).YAML,
	} {
		written := sync.OnceValues(func() ([]byte, error) { return write(s.document()) })
		kind := "application/openapi+" + name[len(name)-4:]
		serve := func(w http.ResponseWriter, _ *http.Request, _ *Call) error {
			document, err := written()
			if err == nil {
				w.Header().Set("Content-Type", kind)
				_, _ = w.Write(document)
			}
			return err
		}
		s.mux.Handle("GET "+Base+"/openapi"+name, s.answered(serve))
	}
}

// schemaName names the schema of a type. A type without a name of its own is named by its operation.
func schemaName(t reflect.Type, hint string) string {
	if t == reflect.TypeFor[errorBody]() {
		return apidoc.ErrorName
	}
	return apidoc.SchemaName(huma.DefaultSchemaNamer(t, hint))
}

// errorBody documents the one error body: the members of every error, and the further members of some codes.
type errorBody struct {
	Status    string `json:"status" enum:"error"`
	Code      string `json:"code" doc:"machine-readable" enum:"invalid_request,callback_url_not_https,callback_url_forbidden,url_forbidden,payload_too_large,missing_api_key,invalid_api_key,insufficient_permission,outside_organization,not_found,method_not_allowed,chat_busy,parked_queue_full,run_not_active,interrupts_mismatch,not_awaiting_input,already_started,count_mismatch,conflict,precondition_failed,rate_limited,user_concurrency_cap,organization_concurrency_cap,share_exceeded,paused_runs_limit,budget_exhausted,internal,run_failed,unavailable,insufficient_storage,embedding_unavailable"`
	Message   string `json:"message"`
	Detail    string `json:"detail" doc:"the same sentence as message"`
	RequestID string `json:"request_id"`

	Error            *spokenError    `json:"error,omitempty" doc:"for operations of Open Responses: the same error in its format"`
	Errors           []fault         `json:"errors,omitempty" doc:"for invalid_request: each wrong field and its problem"`
	RetryAfter       int             `json:"retry_after,omitempty" doc:"seconds, as in the Retry-After header"`
	ActiveRunID      string          `json:"active_run_id,omitempty" doc:"for chat_busy and parked_queue_full"`
	RunID            string          `json:"run_id,omitempty" doc:"for run_failed: the run; for already_started: the run that the message started"`
	AgentID          string          `json:"agent_id,omitempty" doc:"for run_failed"`
	RunStatus        string          `json:"run_status,omitempty" enum:"queued,running,awaiting_input,completed,failed,cancelled,timed_out" doc:"for run_failed, run_not_active and not_awaiting_input"`
	PendingIDs       []string        `json:"pending_interrupt_ids,omitempty" doc:"for interrupts_mismatch"`
	LastDecision     *lastDecision   `json:"last_decision,omitempty" doc:"for not_awaiting_input: the last decision, if there is one"`
	Matched          int             `json:"matched,omitempty" doc:"for count_mismatch"`
	Limit            json.RawMessage `json:"limit,omitempty" shape:"int64|string" doc:"for caps: the cap; for share_exceeded and paused_runs_limit: the name of the limit"`
	Active           int             `json:"active,omitempty" doc:"for caps: the active runs; resumed runs may exceed the limit"`
	Scope            string          `json:"scope,omitempty" enum:"organization,user,api_key,address" doc:"for share_exceeded, rate_limited and paused_runs_limit: the level that the limit applies to"`
	Max              int64           `json:"max,omitempty" doc:"for share_exceeded and paused_runs_limit: the limit of the scope"`
	Used             int64           `json:"used,omitempty" doc:"for share_exceeded and paused_runs_limit: the present use, or a part of it that reaches the limit"`
	Budget           *heldBudget     `json:"budget,omitempty" doc:"for budget_exhausted"`
	LevelNeeded      string          `json:"level_needed,omitempty" enum:"read,run,manage,admin,operator" doc:"for insufficient_permission"`
	GroupIDs         []string        `json:"group_ids,omitempty" doc:"for insufficient_permission: groups with access"`
	ApproverGroupIDs []string        `json:"approver_group_ids,omitempty" doc:"for insufficient_permission: groups that may decide"`
	State            string          `json:"state,omitempty" doc:"the state of a delivery that cannot be sent again"`
	Documents        []refusedFile   `json:"documents,omitempty" doc:"for a form without a valid document: the error of each file"`
}

type (
	// spokenError is an error as Open Responses has it.
	spokenError struct {
		Message string  `json:"message"`
		Type    string  `json:"type" enum:"invalid_request,not_found,too_many_requests,server_error"`
		Param   *string `json:"param"`
		Code    string  `json:"code"`
	}
	// fault is a fault in a request, with its place.
	fault struct {
		Location string `json:"location"`
		Message  string `json:"message"`
	}
	// lastDecision is the decision that a run received before.
	lastDecision struct {
		InterruptIDs []string `json:"interrupt_ids"`
		DecidedBy    *string  `json:"decided_by"`
		At           string   `json:"at"`
	}
	// heldBudget is a budget that is exhausted.
	heldBudget struct {
		Kind   string `json:"kind" enum:"organization,group,user,api_key,agent"`
		ID     string `json:"id"`
		Period string `json:"period" enum:"day,month"`
	}
	// refusedFile is a file that became no document.
	refusedFile struct {
		Name  string `json:"name"`
		Error struct {
			Code   string `json:"code"`
			Detail string `json:"detail"`
		} `json:"error"`
	}
)
