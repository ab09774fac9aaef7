package responses

import "encoding/json"

// The shapes of Open Responses, release 2026-04-24 (https://www.openresponses.org/specification). All members of a
// response are always there.

// Response is a run, or the part of a run between two pauses.
type Response struct {
	ID                 string               `json:"id" example:"resp_65f0a1b2c3d4e5f601234567" doc:"resp_ and the run's id; after its nth pause with the suffix _n"`
	Object             string               `json:"object" enum:"response"`
	CreatedAt          int64                `json:"created_at" doc:"Unix seconds"`
	CompletedAt        *int64               `json:"completed_at"`
	Status             string               `json:"status" enum:"queued,in_progress,completed,incomplete,failed,cancelled"`
	IncompleteDetails  *IncompleteDetails   `json:"incomplete_details" shape:"IncompleteDetails|null"`
	Model              string               `json:"model" doc:"the agent, as in the request; otherwise its id"`
	PreviousResponseID *string              `json:"previous_response_id"`
	Conversation       ResponseConversation `json:"conversation"`
	Instructions       *string              `json:"instructions" doc:"those of the request; the agent's are not shown"`
	Output             []ResponseItem       `json:"output"`
	Error              *ResponseError       `json:"error" shape:"ResponseError|null"`
	Tools              []FunctionTool       `json:"tools" doc:"the client's functions; the agent's tools are not shown"`
	ToolChoice         any                  `json:"tool_choice" shape:"string|object"`
	Truncation         string               `json:"truncation" enum:"auto,disabled"`
	ParallelToolCalls  bool                 `json:"parallel_tool_calls"`
	Text               TextField            `json:"text"`
	TopP               float64              `json:"top_p"`
	PresencePenalty    float64              `json:"presence_penalty"`
	FrequencyPenalty   float64              `json:"frequency_penalty"`
	TopLogprobs        int                  `json:"top_logprobs"`
	Temperature        float64              `json:"temperature"`
	Reasoning          *reasoning           `json:"reasoning" shape:"object|null"`
	Usage              *ResponseUsage       `json:"usage" shape:"ResponseUsage|null" doc:"null until it has ended"`
	MaxOutputTokens    *int                 `json:"max_output_tokens"`
	MaxToolCalls       *int                 `json:"max_tool_calls"`
	Store              bool                 `json:"store"`
	Background         bool                 `json:"background"`
	ServiceTier        string               `json:"service_tier" enum:"default"`
	Metadata           map[string]string    `json:"metadata"`
	SafetyIdentifier   *string              `json:"safety_identifier"`
	PromptCacheKey     *string              `json:"prompt_cache_key"`
}

// ResponseConversation is the chat that a response belongs to.
type ResponseConversation struct {
	ID string `json:"id" doc:"the chat's id"`
}

// IncompleteDetails is the reason why a response is incomplete.
type IncompleteDetails struct {
	Reason string `json:"reason"`
}

// ResponseError is the reason why a response failed.
type ResponseError struct {
	Type    string `json:"type" enum:"server_error" doc:"for clients like the Vercel AI SDK, which otherwise show no reason"`
	Code    string `json:"code" enum:"server_error"`
	Message string `json:"message"`
}

// ResponseUsage is the usage of a response, in tokens.
type ResponseUsage struct {
	InputTokens        int64               `json:"input_tokens"`
	InputTokensDetails InputTokensDetails  `json:"input_tokens_details"`
	OutputTokens       int64               `json:"output_tokens"`
	OutputDetail       OutputTokensDetails `json:"output_tokens_details"`
	TotalTokens        int64               `json:"total_tokens"`
}

// InputTokensDetails is always zero: providers count differently, and we keep the sum.
type InputTokensDetails struct {
	CachedTokens int64 `json:"cached_tokens"`
}

// OutputTokensDetails is always zero, as [InputTokensDetails].
type OutputTokensDetails struct {
	ReasoningTokens int64 `json:"reasoning_tokens"`
}

// FunctionTool is a function that the client executes.
type FunctionTool struct {
	Type        string          `json:"type" enum:"function"`
	Name        string          `json:"name"`
	Description *string         `json:"description"`
	Parameters  json.RawMessage `json:"parameters" shape:"object"`
	Strict      *bool           `json:"strict" doc:"arguments are always checked against the parameters"`
}

// TextField is the form of the answer.
type TextField struct {
	Format any `json:"format" shape:"PlainFormat|SchemaFormat"`
}

// PlainFormat is the form of an answer that follows no schema.
type PlainFormat struct {
	Type string `json:"type" enum:"text,json_object"`
}

// SchemaFormat is the form of an answer that follows a schema.
type SchemaFormat struct {
	Type        string          `json:"type" enum:"json_schema"`
	Name        string          `json:"name"`
	Description *string         `json:"description"`
	Schema      json.RawMessage `json:"schema" shape:"object"`
	Strict      bool            `json:"strict" doc:"answers are always checked against the schema"`
}

// TextFormat is the form of the answer that a request wants: text, json_object, or json_schema with the members after
// it.
type TextFormat struct {
	Type        string          `json:"type" enum:"text,json_object,json_schema"`
	Name        string          `json:"name,omitempty"`
	Description *string         `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty" shape:"object"`
	Strict      *bool           `json:"strict,omitempty"`
}

// ResponseItem is an item of input or output. Which members it has depends on its type: message, function_call,
// function_call_output, mcp_approval_request or mcp_approval_response.
type ResponseItem struct {
	Type   string `json:"type" enum:"message,function_call,function_call_output,mcp_approval_request,mcp_approval_response"`
	ID     string `json:"id"`
	Status string `json:"status,omitempty" enum:"in_progress,completed,incomplete"`

	// Of a message.
	Role    string             `json:"role,omitempty" enum:"user,assistant,system,developer"`
	Content *[]ResponseContent `json:"content,omitempty"`

	// Of a call, and of a request for an approval.
	CallID    string  `json:"call_id,omitempty"`
	Name      string  `json:"name,omitempty"`
	Arguments *string `json:"arguments,omitempty" doc:"JSON"`
	Output    any     `json:"output,omitempty" shape:"string|ResponseContent[]"`

	// Of an approval.
	ServerLabel string  `json:"server_label,omitempty"`
	Request     string  `json:"approval_request_id,omitempty"`
	Approve     *bool   `json:"approve,omitempty"`
	Reason      *string `json:"reason,omitempty"`
}

// ResponseContent is a part of a message.
type ResponseContent struct {
	Type        string          `json:"type" enum:"input_text,output_text,input_file,input_image"`
	Text        *string         `json:"text,omitempty"`
	Annotations *[]URLCitation  `json:"annotations,omitempty"`
	Logprobs    *[]string       `json:"logprobs,omitempty" doc:"always empty"`
	FileID      string          `json:"file_id,omitempty"`
	Filename    string          `json:"filename,omitempty"`
	ImageURL    json.RawMessage `json:"image_url,omitempty" shape:"null" doc:"always null: a picture has a file_id"`
	Detail      string          `json:"detail,omitempty" enum:"auto"`
}

// URLCitation is a citation of a document.
type URLCitation struct {
	Type       string `json:"type" enum:"url_citation"`
	URL        string `json:"url" doc:"the document's address in this API"`
	Title      string `json:"title"`
	StartIndex int    `json:"start_index" doc:"position in the text, in characters"`
	EndIndex   int    `json:"end_index"`
}

// ResponseEvent is an event of a stream. Which members it has depends on its type.
type ResponseEvent struct {
	Type            string           `json:"type"`
	Sequence        int64            `json:"sequence_number" doc:"increases; a delta increases it by its bytes, so that a client can resume after it. In the event error it is that of the previous event, or 0: then follow without starting_after"`
	Response        *Response        `json:"response,omitempty"`
	ItemID          string           `json:"item_id,omitempty"`
	OutputIndex     *int             `json:"output_index,omitempty"`
	ContentIndex    *int             `json:"content_index,omitempty"`
	Item            *ResponseItem    `json:"item,omitempty"`
	Part            *ResponseContent `json:"part,omitempty"`
	AnnotationIndex *int             `json:"annotation_index,omitempty"`
	Annotation      *URLCitation     `json:"annotation,omitempty"`
	Delta           *string          `json:"delta,omitempty"`
	Text            *string          `json:"text,omitempty"`
	Arguments       *string          `json:"arguments,omitempty"`
	Logprobs        *[]string        `json:"logprobs,omitempty" doc:"always empty"`
	Error           *StreamError     `json:"error,omitempty" doc:"only in the event error: the stream ends before the response is complete"`
}

// Variants are the members of an event, by its type: see apidoc.Varied.
func (ResponseEvent) Variants() (by string, variants map[string][]string) {
	return "type", map[string][]string{
		"response.created response.in_progress response.completed response.failed response.incomplete": {
			"sequence_number", "response",
		},
		"response.output_item.added response.output_item.done": {"sequence_number", "output_index", "item"},
		"response.content_part.added response.content_part.done": {
			"sequence_number", "item_id", "output_index", "content_index", "part",
		},
		"response.output_text.delta": {
			"sequence_number", "item_id", "output_index", "content_index", "delta", "logprobs",
		},
		"response.output_text.done": {
			"sequence_number", "item_id", "output_index", "content_index", "text", "logprobs",
		},
		"response.output_text.annotation.added": {
			"sequence_number", "item_id", "output_index", "content_index", "annotation_index", "annotation",
		},
		"response.function_call_arguments.delta": {"sequence_number", "item_id", "output_index", "delta"},
		"response.function_call_arguments.done":  {"sequence_number", "item_id", "output_index", "arguments"},
		"error":                                  {"sequence_number", "error"},
	}
}

// StreamError is the reason why a stream ends before its response.
type StreamError struct {
	Type    string  `json:"type" enum:"server_error"`
	Code    string  `json:"code" enum:"unavailable"`
	Message string  `json:"message"`
	Param   *string `json:"param"`
}

// answer is the format as a response has it.
func (f *TextFormat) answer() any {
	switch {
	case f == nil:
		return PlainFormat{Type: "text"}
	case f.Type != "json_schema":
		return PlainFormat{Type: f.Type}
	}
	return SchemaFormat{
		Type: f.Type, Name: f.Name, Description: f.Description, Schema: f.Schema,
		Strict: f.Strict != nil && *f.Strict,
	}
}

// DeletedResponse confirms that a response was deleted.
type DeletedResponse struct {
	ID      string `json:"id"`
	Object  string `json:"object" enum:"response"`
	Deleted bool   `json:"deleted"`
}

// ResponseItems is a page of items.
type ResponseItems struct {
	Object  string         `json:"object" enum:"list"`
	Data    []ResponseItem `json:"data"`
	FirstID *string        `json:"first_id"`
	LastID  *string        `json:"last_id"`
	HasMore bool           `json:"has_more"`
}

func message(id, role, status string, content ...ResponseContent) ResponseItem {
	return ResponseItem{Type: "message", ID: id, Role: role, Status: status, Content: &content}
}

func outputText(text string, annotations []URLCitation) ResponseContent {
	if annotations == nil {
		annotations = []URLCitation{}
	}
	return ResponseContent{Type: "output_text", Text: &text, Annotations: &annotations, Logprobs: &[]string{}}
}

func inputText(text string) ResponseContent { return ResponseContent{Type: "input_text", Text: &text} }
