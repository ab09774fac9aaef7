package responses

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"agentplatform/internal/api/bridge"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/run/files"
	"agentplatform/internal/run/intake"
	"agentplatform/internal/store/record"
)

// CreateResponse is the body of POST /responses. Members that it does not have are ignored.
type CreateResponse struct {
	Model              string            `json:"model" required:"true" doc:"the agent's id, or its name if it is unique"`
	Input              json.RawMessage   `json:"input" required:"true" shape:"string|ResponseItemParam[]" doc:"a user text, or items: messages, calls, outputs, approval decisions and references"`
	Instructions       string            `json:"instructions,omitempty" nullable:"true" doc:"added to the agent's instructions"`
	PreviousResponseID string            `json:"previous_response_id,omitempty" nullable:"true" doc:"the last response of the conversation to continue"`
	Conversation       json.RawMessage   `json:"conversation,omitempty" shape:"string|object|null" doc:"the chat to continue, or its id; instead of previous_response_id"`
	Stream             bool              `json:"stream,omitempty" nullable:"true" doc:"true: respond with Server-Sent Events"`
	StreamOptions      *streamOptions    `json:"stream_options,omitempty" shape:"object|null" doc:"include_obfuscation must not be true"`
	Background         bool              `json:"background,omitempty" nullable:"true" doc:"true: respond immediately. Runs always continue if the client disconnects"`
	Tools              []ToolParam       `json:"tools,omitempty" nullable:"true" doc:"functions that the client executes: a call ends the response; its output continues it"`
	ToolChoice         json.RawMessage   `json:"tool_choice,omitempty" shape:"string|object|null" doc:"auto: the model chooses from the tools of the agent and the client. none: no calls. required, or a function of tools: only until the first call"`
	ParallelToolCalls  *bool             `json:"parallel_tool_calls,omitempty" nullable:"true" doc:"false: at most one call in each model reply"`
	Text               *TextParam        `json:"text,omitempty" shape:"TextParam|null"`
	Metadata           map[string]string `json:"metadata,omitempty" nullable:"true"`
	Temperature        *float64          `json:"temperature,omitempty" nullable:"true" doc:"0 to 2; replaces the agent's"`
	MaxOutputTokens    *int              `json:"max_output_tokens,omitempty" nullable:"true" doc:"the limit of each model reply; at most the agent's"`
	TopP               *float64          `json:"top_p,omitempty" nullable:"true" doc:"0 to 1"`
	PresencePenalty    *float64          `json:"presence_penalty,omitempty" nullable:"true" doc:"0"`
	FrequencyPenalty   *float64          `json:"frequency_penalty,omitempty" nullable:"true" doc:"0"`
	TopLogprobs        *int              `json:"top_logprobs,omitempty" nullable:"true" doc:"0"`
	MaxToolCalls       *int              `json:"max_tool_calls,omitempty" nullable:"true" doc:"must be null; the agent's limits apply"`
	Reasoning          *reasoning        `json:"reasoning,omitempty" shape:"object|null" doc:"effort: none, minimal, low, medium, high or xhigh, only sent to providers that support it. summary: auto, concise or detailed, ignored"`
	Truncation         string            `json:"truncation,omitempty" nullable:"true" enum:"auto,disabled" doc:"auto: old turns are left out when the model's context is full, but never the request's own input. disabled: the response fails instead"`
	Store              *bool             `json:"store,omitempty" nullable:"true" doc:"false: the chat is deleted within 3 minutes after the end of its run, within 15 after an hour of active time. Not with background or conversation"`
	ServiceTier        string            `json:"service_tier,omitempty" nullable:"true" enum:"auto,default,flex,scale,priority" doc:"accepted and ignored: every response is served as default"`
	Include            []string          `json:"include,omitempty" nullable:"true" doc:"ignored; message.output_text.logprobs is refused"`
	SafetyIdentifier   string            `json:"safety_identifier,omitempty" nullable:"true" doc:"stored and ignored"`
	Prompt             json.RawMessage   `json:"prompt,omitempty" shape:"null" doc:"must be null; use instructions"`
	ContextManagement  json.RawMessage   `json:"context_management,omitempty" shape:"null" doc:"must be null; use truncation"`
	PromptCacheKey     string            `json:"prompt_cache_key,omitempty" nullable:"true" doc:"stored and ignored"`
}

type streamOptions struct {
	IncludeObfuscation bool `json:"include_obfuscation"`
}

// reasoning has the client's settings of the model's reasoning.
type reasoning struct {
	Effort  *string `json:"effort"`
	Summary *string `json:"summary"`
}

// ToolParam is a tool of the client.
type ToolParam struct {
	Type        string          `json:"type" enum:"function"`
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty" nullable:"true"`
	Parameters  json.RawMessage `json:"parameters,omitempty" shape:"object|null" doc:"a JSON schema"`
	Strict      *bool           `json:"strict,omitempty" nullable:"true"`
}

// TextParam is the form of the answer.
type TextParam struct {
	Format    *TextFormat `json:"format,omitempty"`
	Verbosity string      `json:"verbosity,omitempty" nullable:"true" enum:"medium"`
}

// echo is the part of a response that repeats its request.
type echo struct {
	Model            string      `json:"model,omitempty"`
	Previous         string      `json:"previous,omitempty"`
	Background       bool        `json:"background,omitempty"`
	Truncation       string      `json:"truncation,omitempty"`
	Format           *TextFormat `json:"format,omitempty"`
	System           []system    `json:"system,omitempty"`                 // joined to the instructions
	Strict           []*bool     `json:"strict,omitempty" nullable:"true"` // of the tools
	SafetyIdentifier string      `json:"safety_identifier,omitempty"`
	PromptCacheKey   string      `json:"prompt_cache_key,omitempty"`
}

// system is a message of the role system or developer, which stands at the end of a run's instructions.
type system struct {
	Role  string `json:"role"`
	Bytes int    `json:"bytes"`
}

// between stands between instructions and messages that are joined to them.
const between = "\n\n"

// instructions parts a run's instructions into the request's own and the messages that were joined to them.
func (e echo) instructions(joined string) (own string, messages []spoken) {
	for _, s := range slices.Backward(e.System) {
		at := max(len(joined)-s.Bytes, 0)
		messages = append(messages, spoken{s.Role, joined[at:]})
		joined = strings.TrimSuffix(joined[:at], between)
	}
	slices.Reverse(messages)
	return joined, messages
}

// Bounds of a request; those of texts are intake's.
const (
	maxItems      = intake.MaxBefore
	maxReferences = 50 // items of a request that are only named
	maxIdentifier = 64 // characters
)

// input is the content of the request's items, in their order.
type input struct {
	system  []spoken                // system and developer messages
	before  []record.ContextMessage // the conversation before the message
	text    []string                // the last messages of the user
	files   []files.Inline
	fileIDs []string
	outputs []output

	earlier   struct{ files, fileIDs int } // how many of them came with messages before the last ones
	spoken    int                          // how many outputs have a message after them
	replied   int                          // outputs with a message of the model after them
	passed    []output                     // outputs with only messages of the user after them
	last      string                       // field of the last message of the user
	approvals []string                     // ids of the approval requests that it has
}

type spoken struct{ role, text string }

// output is a client's reply to a call or to a request of ours: the output of a function, or a decision.
type output struct {
	at             string // its field
	run, interrupt string // empty: the call is not one of ours
	approve        *bool  // nil: it is the output of a call
	text           string
	files          []files.Inline
	fileIDs        []string
	alone          bool // the call that it answers is not in the request
}

// noText returns the text for the model of an output without text.
func (o output) noText() string {
	if len(o.files)+len(o.fileIDs) > 0 {
		return "(its files follow)"
	}
	return "(no output)"
}

const roleTool = string(record.RoleTool)

// lookup finds an item of an earlier response that a request only names.
type lookup func(id string) (ResponseItem, error)

// logprobs is a value that clients may ask to include, and that is not stored.
const logprobs = "message.output_text.logprobs"

// Wishes without effect: a response has the values that took effect.
var (
	summaries = []string{"auto", "concise", "detailed"}
	tiers     = []string{"auto", "default", "flex", "scale", "priority"}
)

// check refuses members that an agent cannot fulfil. Members that ask for the usual behaviour are accepted.
func (r *CreateResponse) check() error {
	_, _, badChoice := choice(r.ToolChoice)
	unstored := other(r.Store, true)
	const leftOut = "old turns are left out when the model's context is full"
	return cmp.Or(
		refuse(r.Model == "", "model", "is required: an agent's id or name"),
		refuse(bridge.IsNull(r.Input), "input", "is required"),
		refuse(r.PreviousResponseID != "" && !bridge.IsNull(r.Conversation), "conversation",
			"must be omitted if previous_response_id is sent"),
		refuse(!bridge.IsNull(r.Prompt), "prompt",
			"must be null: stored prompts are not supported; use the agent's instructions"),
		refuse(!bridge.IsNull(r.ContextManagement), "context_management", "must be null: "+leftOut),
		refuse(r.TopP != nil && !(*r.TopP >= 0 && *r.TopP <= 1), "top_p", "must be between 0 and 1"),
		refuse(other(r.PresencePenalty, 0), "presence_penalty", "must be 0: other values are not supported"),
		refuse(other(r.FrequencyPenalty, 0), "frequency_penalty", "must be 0: other values are not supported"),
		refuse(other(r.TopLogprobs, 0), "top_logprobs", "must be 0: log probabilities are not supported"),
		refuse(r.MaxToolCalls != nil, "max_tool_calls", "must be null: the agent's limits apply"),
		refuse(r.MaxOutputTokens != nil && *r.MaxOutputTokens < 16, "max_output_tokens", "must be at least 16"),
		refuse(r.Temperature != nil && !(*r.Temperature >= 0 && *r.Temperature <= 2), "temperature",
			"must be between 0 and 2"),
		refuse(unstored && r.Background, "store", "must be true if background is true"),
		refuse(unstored && !bridge.IsNull(r.Conversation), "store", "must be true if conversation is sent"),
		refuse(r.Truncation != "" && r.Truncation != "auto" && r.Truncation != "disabled", "truncation",
			"must be auto or disabled"),
		refuse(r.Text != nil && r.Text.Verbosity != "" && r.Text.Verbosity != "medium", "text.verbosity",
			"must be medium: other values are not supported"),
		refuse(r.ServiceTier != "" && !slices.Contains(tiers, r.ServiceTier), "service_tier",
			"must be auto, default, flex, scale or priority"),
		refuse(len(r.SafetyIdentifier) > maxIdentifier, "safety_identifier", "must have at most 64 characters"),
		refuse(len(r.PromptCacheKey) > maxIdentifier, "prompt_cache_key", "must have at most 64 characters"),
		refuse(slices.Contains(r.Include, logprobs), fmt.Sprintf("include[%d]", slices.Index(r.Include, logprobs)),
			logprobs+" is not supported"),
		refuse(r.Reasoning != nil && r.Reasoning.Summary != nil && !slices.Contains(summaries, *r.Reasoning.Summary),
			"reasoning.summary", "must be auto, concise or detailed"),
		refuse(r.StreamOptions != nil && r.StreamOptions.IncludeObfuscation, "stream_options.include_obfuscation",
			"must be false: obfuscation is not supported"),
		badChoice,
	)
}

// digest is the digest of the request. It does not depend on how the request is to be answered.
func (r CreateResponse) digest() string {
	r.Stream, r.StreamOptions, r.Background = false, nil, false
	return intake.Digest(r)
}

// refuse is the refusal of a member that an agent cannot fulfil; nil if wrong is false.
func refuse(wrong bool, member, text string) error {
	return problem.InvalidIf(wrong, "body."+member, "%s", text)
}

// other reports whether a member is there with a value other than the only possible one.
func other[T comparable](member *T, only T) bool { return member != nil && *member != only }

// chatID is the chat that the member conversation names; empty: none.
func (r *CreateResponse) chatID() (string, error) {
	if bridge.IsNull(r.Conversation) {
		return "", nil
	}
	var id string
	if json.Unmarshal(r.Conversation, &id) != nil {
		var of struct {
			ID string `json:"id"`
		}
		if err := intake.Decode("body.conversation", r.Conversation, &of); err != nil {
			return "", err
		}
		id = of.ID
	}
	if !intake.ValidChatID(id) {
		return "", problem.InvalidField("body.conversation", "must be a chat's id, or an object with the id")
	}
	return id, nil
}

// context returns the members of a request apart from the message, and the part of a response that repeats the request.
func (r *CreateResponse) context(in input) (*record.Context, echo, error) {
	c := &record.Context{
		Before: in.before, Temperature: r.Temperature, MaxTokens: r.MaxOutputTokens,
		OneCall: other(r.ParallelToolCalls, true), Unstored: other(r.Store, true), Whole: r.Truncation == "disabled",
	}
	if other(r.TopP, 1) {
		c.TopP = r.TopP
	}
	if r.Reasoning != nil && r.Reasoning.Effort != nil {
		c.Effort = *r.Reasoning.Effort
	}
	c.ToolChoice, c.Tool, _ = choice(r.ToolChoice) // which check has read
	var instructions []string
	if r.Instructions != "" {
		instructions = append(instructions, r.Instructions)
	}
	echoed := echo{
		Model: r.Model, Previous: r.PreviousResponseID, Background: r.Background, Truncation: r.Truncation,
		SafetyIdentifier: r.SafetyIdentifier, PromptCacheKey: r.PromptCacheKey,
	}
	for _, msg := range in.system {
		instructions = append(instructions, msg.text)
		echoed.System = append(echoed.System, system{msg.role, len(msg.text)})
	}
	c.Instructions = strings.Join(instructions, between)
	for i, t := range r.Tools {
		at := fmt.Sprintf("body.tools[%d]", i)
		if t.Type != "function" {
			return nil, echoed, problem.InvalidField(at+".type",
				"must be function: other tools come from the agent's toolkits and knowledge bases")
		}
		c.Functions = append(c.Functions, bridge.Function(t.Name, t.Description, t.Parameters))
		echoed.Strict = append(echoed.Strict, t.Strict)
	}
	var err error
	if echoed.Format, c.OutputSchema, err = r.format(); err != nil {
		return nil, echoed, err
	}
	c.Echo, err = json.Marshal(echoed)
	return c, echoed, err
}

// format is the form of the answer that a request wants, nil for none, and its schema. It has only the members that
// belong to its type, and a response has it unchanged.
func (r *CreateResponse) format() (*TextFormat, json.RawMessage, error) {
	const field = "body.text.format"
	if r.Text == nil || r.Text.Format == nil {
		return nil, nil, nil
	}
	switch f := r.Text.Format; {
	case f.Type == "text":
		return &TextFormat{Type: f.Type}, nil, nil
	case f.Type == "json_object":
		return &TextFormat{Type: f.Type}, json.RawMessage(`{"type":"object"}`), nil
	case f.Type != "json_schema":
		return nil, nil, problem.InvalidField(field+".type", "must be text, json_object or json_schema")
	case bridge.IsNull(f.Schema):
		return nil, nil, problem.InvalidField(field+".schema", "is required")
	case !strings.HasPrefix(strings.TrimSpace(string(f.Schema)), "{"):
		return nil, nil, problem.InvalidField(field+".schema", "must be an object")
	default:
		return f, f.Schema, nil
	}
}

// fields are our names of the request's members, and the request's names.
var fields = strings.NewReplacer("context.functions", "body.tools", "context.before", "body.input",
	"context.output_schema", "body.text.format.schema", "context.instructions", "body.instructions",
	"context.temperature", "body.temperature", "context.top_p", "body.top_p", "context.effort",
	"body.reasoning.effort", "context.tool_choice", "body.tool_choice", "context.max_tokens",
	"body.max_output_tokens", "context.echo", "body")

// field is the request's name for a field of ours.
func field(ours string) string {
	switch at := fields.Replace(ours); {
	case at == "message", at == "body.decisions", strings.HasPrefix(at, "file_ids["):
		return "body.input"
	case at == "metadata", at == "title":
		return "body." + at
	default:
		return at
	}
}

// ResponseItemParam is an item of a request. Its type decides which members it has. Without a type it is a message, or,
// with an id alone, a reference.
type ResponseItemParam struct {
	Type      string          `json:"type,omitempty" enum:"message,function_call,function_call_output,mcp_approval_request,mcp_approval_response,reasoning,item_reference" doc:"message by default"`
	ID        string          `json:"id,omitempty" nullable:"true"`
	Role      string          `json:"role,omitempty" enum:"user,assistant,system,developer" doc:"for a message"`
	Content   json.RawMessage `json:"content,omitempty" shape:"string|ResponseContentParam[]|null" doc:"for a message"`
	CallID    string          `json:"call_id,omitempty" doc:"for a call and its output"`
	Name      string          `json:"name,omitempty" doc:"for a call"`
	Arguments json.RawMessage `json:"arguments,omitempty" shape:"string|null" doc:"for a call, as JSON"`
	Output    json.RawMessage `json:"output,omitempty" shape:"string|ResponseContentParam[]|null" doc:"for a call"`
	Request   string          `json:"approval_request_id,omitempty" doc:"for an approval decision"`
	Approve   *bool           `json:"approve,omitempty" doc:"for an approval decision"`
	Reason    string          `json:"reason,omitempty" nullable:"true" doc:"for an approval decision"`
}

// ResponseContentParam is a part of an item's content.
type ResponseContentParam struct {
	Type     string `json:"type" enum:"input_text,output_text,text,refusal,input_image,input_file"`
	Text     string `json:"text,omitempty"`
	Refusal  string `json:"refusal,omitempty"`
	ImageURL string `json:"image_url,omitempty" nullable:"true" doc:"a data URL; other URLs are not fetched"`
	FileID   string `json:"file_id,omitempty" nullable:"true" doc:"the id of a file from POST /files"`
	FileData string `json:"file_data,omitempty" nullable:"true" doc:"base64, or a data URL"`
	FileURL  string `json:"file_url,omitempty" nullable:"true" doc:"refused; URLs are not fetched"`
	Filename string `json:"filename,omitempty" nullable:"true"`
}

func readInput(raw json.RawMessage, find lookup) (in input, err error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		in.text = []string{text}
		return in, nil
	}
	var items []ResponseItemParam
	if err := intake.Decode("body.input", raw, &items); err != nil {
		return in, err
	}
	if len(items) == 0 {
		return in, problem.InvalidField("body.input", "must have an item")
	}
	if len(items) > maxItems {
		return in, problem.InvalidField("body.input", "must have at most %d items", maxItems)
	}
	references := 0
	for i, item := range items {
		at := fmt.Sprintf("body.input[%d]", i)
		if item.Type == "item_reference" || item.Type == "" && item.Role == "" && item.ID != "" {
			if references++; references > maxReferences {
				return in, problem.InvalidField(at, "at most %d items may be sent by id: send the others in full",
					maxReferences)
			}
			known, err := find(item.ID)
			if bridge.Unseen(err) {
				err = problem.InvalidField(at+".id", "the item %s does not exist: send it in full", item.ID)
			}
			if err == nil {
				item, err = known.param()
			}
			if err != nil {
				return in, err
			}
		}
		if err := in.take(at, item); err != nil {
			return in, err
		}
	}
	in.settle()
	return in, nil
}

// param is an item of ours as an item of a request.
func (i ResponseItem) param() (p ResponseItemParam, err error) {
	raw, err := json.Marshal(i)
	if err == nil {
		err = json.Unmarshal(raw, &p)
	}
	return p, err
}

func (in *input) take(at string, item ResponseItemParam) error {
	switch item.Type {
	case "message", "":
		return in.takeMessage(at, item)
	case "function_call":
		return in.takeCall(at, item)
	case "function_call_output":
		return in.takeOutput(at, item)
	case "mcp_approval_response":
		run, interrupt, ok := parseName("mcpr_", item.Request)
		if !ok {
			return problem.InvalidField(at+".approval_request_id", "must be the id of an mcp_approval_request")
		}
		if item.Approve == nil {
			return problem.InvalidField(at+".approve", "is required")
		}
		in.close()
		in.outputs = append(in.outputs, output{at: at, run: run, interrupt: interrupt, approve: item.Approve,
			text: item.Reason, alone: !slices.Contains(in.approvals, item.Request)})
	case "mcp_approval_request": // of a conversation that a client keeps; no model is shown it
		in.close()
		in.approvals = append(in.approvals, item.ID)
	case "reasoning": // as above
	default:
		return problem.InvalidField(at+".type", "must be message, function_call, function_call_output, "+
			"mcp_approval_request, mcp_approval_response, reasoning or item_reference")
	}
	return nil
}

func (in *input) takeMessage(at string, item ResponseItemParam) error {
	text, err := in.takeContent(at+".content", item.Content, item.Role)
	if err != nil {
		return err
	}
	switch item.Role {
	case "user":
		in.spoken = len(in.outputs)
		in.text = append(in.text, text)
		in.last = at
	case "assistant":
		in.close()
		in.spoken = len(in.outputs)
		in.replied = in.spoken
		in.before = append(in.before, record.ContextMessage{Role: record.RoleAssistant, Text: text})
	case "system", "developer":
		in.system = append(in.system, spoken{item.Role, text})
	default:
		return problem.InvalidField(at+".role", "must be user, assistant, system or developer")
	}
	return nil
}

// close ends the user's messages so far, because another role follows.
func (in *input) close() {
	for _, text := range in.text {
		in.before = append(in.before, record.ContextMessage{Role: record.RoleUser, Text: text})
	}
	in.text = nil
	in.earlier.files, in.earlier.fileIDs = len(in.files), len(in.fileIDs)
}

// current is how many files the last messages have.
func (in *input) current() int {
	return len(in.files) - in.earlier.files + len(in.fileIDs) - in.earlier.fileIDs
}

// takeContent reads a text, or parts of content. Files belong to the message, at any place.
func (in *input) takeContent(at string, raw json.RawMessage, role string) (string, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	var parts []ResponseContentParam
	if err := intake.Decode(at, raw, &parts); err != nil {
		return "", err
	}
	var texts []string
	for i, p := range parts {
		at := fmt.Sprintf("%s[%d]", at, i)
		switch p.Type {
		case "input_text", "output_text", "text":
			texts = append(texts, p.Text)
		case "refusal":
			texts = append(texts, p.Refusal)
		case "input_image", "input_file":
			if role != "user" && role != roleTool {
				return "", problem.InvalidField(at+".type", "only user messages and outputs may have files")
			}
			if err := in.takeFile(at, p); err != nil {
				return "", err
			}
		default:
			return "", problem.InvalidField(at+".type",
				"must be input_text, output_text, refusal, input_image or input_file")
		}
	}
	return strings.Join(texts, "\n"), nil
}

func (in *input) takeFile(at string, p ResponseContentParam) error {
	field, data := at+".image_url", p.ImageURL
	if p.Type == "input_file" {
		field, data = at+".file_data", p.FileData
	}
	switch {
	case in.current() == intake.MaxFiles:
		return problem.InvalidField(at, "at most %d files may be sent", intake.MaxFiles)
	case p.FileID != "":
		if !host.ValidID(p.FileID) {
			return problem.InvalidField(at+".file_id", "must be the id of a file from POST /files")
		}
		in.fileIDs = append(in.fileIDs, p.FileID)
		return nil
	case p.FileURL != "":
		return problem.InvalidField(at+".file_url", "URLs are not fetched: send file_data or file_id")
	case data == "":
		return problem.InvalidField(field, "is required, or file_id")
	}
	file, err := fileOf(field, p.Filename, data)
	if err == nil {
		in.files = append(in.files, file)
	}
	return err
}

// fileOf reads a data URL, or the bare base64 that the member file_data may also be.
func fileOf(field, name, data string) (files.Inline, error) {
	rest, is := strings.CutPrefix(data, "data:")
	if !is {
		if u, err := url.Parse(data); err == nil && u.Scheme != "" {
			return files.Inline{}, problem.InvalidField(field,
				"URLs are not fetched: send a data URL or file_id")
		}
		return files.Decode(field, name, "", data)
	}
	head, body, found := strings.Cut(rest, ",")
	if !found {
		return files.Inline{}, problem.InvalidField(field, "must be a data URL: the comma is missing")
	}
	kind, encoded := strings.CutSuffix(head, ";base64")
	kind, _, _ = strings.Cut(kind, ";")
	if encoded {
		return files.Decode(field, name, kind, body)
	}
	text, err := url.PathUnescape(body)
	if err != nil {
		return files.Inline{}, problem.InvalidField(field, "must be a data URL: its text is not percent-encoded")
	}
	return files.NewInline(field, name, kind, []byte(text))
}

func (in *input) takeCall(at string, item ResponseItemParam) error {
	var arguments string
	if err := intake.Decode(at+".arguments", item.Arguments, &arguments); err != nil {
		return err
	}
	read, err := bridge.Arguments(at+".arguments", arguments)
	if err != nil {
		return err
	}
	in.close()
	call := record.ContextCall{ID: item.CallID, Name: item.Name, Arguments: read}
	if last := len(in.before) - 1; last >= 0 && in.before[last].Role == record.RoleAssistant {
		in.before[last].Calls = append(in.before[last].Calls, call)
		return nil
	}
	in.before = append(in.before, record.ContextMessage{Role: record.RoleAssistant, Calls: []record.ContextCall{call}})
	return nil
}

// takeOutput reads the output of a call. If the request has the call, the output is a part of the conversation. An
// output that may answer a call of ours is noted, too.
func (in *input) takeOutput(at string, item ResponseItemParam) error {
	in.close()
	text, err := in.takeContent(at+".output", item.Output, roleTool)
	if err != nil {
		return err
	}
	if item.CallID == "" {
		return problem.InvalidField(at+".call_id", "is required")
	}
	o := output{
		at: at, text: text, alone: !bridge.Called(in.before, item.CallID),
		files: slices.Clone(in.files[in.earlier.files:]), fileIDs: slices.Clone(in.fileIDs[in.earlier.fileIDs:]),
	}
	in.close()
	var ours bool
	if o.run, o.interrupt, ours = parseName("call_", item.CallID); o.alone && !ours {
		return problem.InvalidField(at+".call_id", "must be the call_id of an earlier function_call")
	}
	in.outputs = append(in.outputs, o)
	if !o.alone {
		in.before = append(in.before, record.ContextMessage{Role: record.RoleTool, Call: item.CallID, Text: text})
	}
	return nil
}

// settle puts aside outputs that are only a part of the conversation, because a message stands after them. It also
// removes the files of earlier messages for which there is no room.
func (in *input) settle() {
	kept := make([]output, 0, len(in.outputs))
	for i, o := range in.outputs {
		if o.alone || i >= in.spoken {
			kept = append(kept, o)
		} else if o.run != "" && i >= in.replied {
			in.passed = append(in.passed, o)
		}
	}
	in.outputs = kept
	over := len(in.files) + len(in.fileIDs) - intake.MaxFiles
	for ; over > 0 && in.earlier.files > 0; over-- {
		in.files, in.earlier.files = in.files[1:], in.earlier.files-1
	}
	for ; over > 0 && in.earlier.fileIDs > 0; over-- {
		in.fileIDs, in.earlier.fileIDs = in.fileIDs[1:], in.earlier.fileIDs-1
	}
}

func (in input) message() string { return strings.Join(in.text, "\n\n") }
