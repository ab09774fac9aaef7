// Package openaimodel is the model port over any endpoint that speaks OpenAI's chat completions: OpenAI itself, Ollama,
// vLLM, llama.cpp's server, LiteLLM.
//
// One call of the port is one request; the caller retries. It knows no run. It imports its port and OpenAI's library.
package openaimodel

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"

	"agentplatform/internal/model"
)

// Model is an endpoint.
type Model struct{ client openai.Client }

// New makes the model of an endpoint, such as https://api.openai.com/v1 (the default); the key may be empty where the
// endpoint wants none.
func New(baseURL, key string, client *http.Client) *Model {
	options := []option.RequestOption{option.WithMaxRetries(0), option.WithHTTPClient(client), option.WithAPIKey(key)}
	if baseURL != "" {
		options = append(options, option.WithBaseURL(baseURL))
	}
	return &Model{openai.NewClient(options...)}
}

// Converse makes one streamed request.
func (m *Model) Converse(ctx context.Context, r model.Request, emit func(string)) (model.Reply, error) {
	body := openai.ChatCompletionNewParams{
		Model: r.Name, Messages: messages(r), StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: param.NewOpt(true)},
	}
	if r.Temperature != nil {
		body.Temperature = param.NewOpt(*r.Temperature)
	}
	if r.MaxTokens != nil {
		body.MaxCompletionTokens = param.NewOpt(int64(*r.MaxTokens))
	}
	for _, t := range r.Tools {
		var schema shared.FunctionParameters
		if err := json.Unmarshal(t.Parameters, &schema); err != nil {
			return model.Reply{}, model.Fail(model.BadRequest, "the parameters of the tool %s are no JSON schema: %w", t.Name, err)
		}
		body.Tools = append(body.Tools, openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
			Name: t.Name, Description: param.NewOpt(t.Description), Parameters: schema,
		}))
	}
	var answer *http.Response
	stream := m.client.Chat.Completions.NewStreaming(ctx, body, option.WithResponseInto(&answer))
	defer func() { _ = stream.Close() }()
	var said heard
	for !said.enough() && stream.Next() {
		said.take(stream.Current(), emit)
	}
	if err := stream.Err(); err != nil {
		return model.Reply{}, failure(err)
	}
	return said.reply(answer)
}

// heard is what a stream has said so far.
type heard struct {
	text, refusal strings.Builder
	calls         []model.Call
	arguments     int // bytes
	finish        string
	usage         openai.CompletionUsage
}

// enough says that the reply is larger than anybody takes: it is read no further.
func (h *heard) enough() bool {
	return h.arguments > model.MaxArguments || h.text.Len()+h.refusal.Len() > model.MaxText
}

func (h *heard) take(chunk openai.ChatCompletionChunk, emit func(string)) {
	if chunk.Usage.TotalTokens > 0 {
		h.usage = chunk.Usage
	}
	if len(chunk.Choices) == 0 {
		return
	}
	choice := chunk.Choices[0]
	if choice.Delta.Content != "" {
		h.text.WriteString(choice.Delta.Content)
		emit(choice.Delta.Content)
	}
	h.refusal.WriteString(choice.Delta.Refusal)
	for _, piece := range choice.Delta.ToolCalls {
		at := int(piece.Index)
		if at < 0 || at > maxCalls {
			continue
		}
		for len(h.calls) <= at {
			h.calls = append(h.calls, model.Call{})
		}
		c := &h.calls[at]
		if len(c.ID)+len(c.Name) <= maxLabels {
			c.ID += piece.ID
			c.Name += piece.Function.Name
		}
		h.arguments += len(piece.ID) + len(piece.Function.Name) + len(piece.Function.Arguments)
		c.Arguments = append(c.Arguments, piece.Function.Arguments...)
	}
	if choice.FinishReason != "" {
		h.finish = choice.FinishReason
	}
}

// maxCalls bounds the calls of one reply, whatever index an endpoint makes up.
const maxCalls = 1000

// maxLabels bounds the id and the name of a call, in bytes; what is longer is neither.
const maxLabels = 1 << 10

func (h *heard) reply(answer *http.Response) (model.Reply, error) {
	r := model.Reply{Text: h.text.String(), InputTokens: h.usage.PromptTokens, OutputTokens: h.usage.CompletionTokens}
	if answer != nil {
		r.RequestID = answer.Header.Get("X-Request-Id")
	}
	for i, c := range h.calls {
		if c.Name == "" {
			continue
		}
		if c.ID == "" { // some endpoints number no calls
			c.ID = fmt.Sprintf("call_%d", i)
		}
		if len(c.Arguments) == 0 {
			c.Arguments = json.RawMessage(`{}`)
		}
		r.Calls = append(r.Calls, c)
	}
	switch {
	case h.finish == "" && !h.enough():
		return r, model.Fail(model.Retryable, "the model's stream ended in the middle")
	case h.finish == "content_filter" || h.refusal.Len() > 0:
		return r, model.Fail(model.Refused, "the model refuses: %s", cmp.Or(h.refusal.String(), "its provider filters this content"))
	case len(r.Calls) > 0:
		r.Finish = "tool_calls" // some endpoints say stop
	case h.finish == "length":
		r.Finish = "length"
	default:
		r.Finish = "stop"
	}
	return r, nil
}

func messages(r model.Request) []openai.ChatCompletionMessageParamUnion {
	var list []openai.ChatCompletionMessageParamUnion
	if r.Instructions != "" {
		list = append(list, openai.SystemMessage(r.Instructions))
	}
	for _, m := range r.Messages {
		switch m.Role {
		case model.User:
			list = append(list, user(m))
		case model.Assistant:
			list = append(list, assistant(m))
		case model.Tool:
			for _, result := range m.Results {
				list = append(list, openai.ToolMessage(result.Tell(), result.CallID))
			}
		}
	}
	return list
}

func user(m model.Message) openai.ChatCompletionMessageParamUnion {
	if len(m.Images) == 0 {
		return openai.UserMessage(m.Whole())
	}
	parts := []openai.ChatCompletionContentPartUnionParam{openai.TextContentPart(m.Whole())}
	for _, i := range m.Images {
		parts = append(parts, openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{
			URL: "data:" + i.ContentType + ";base64," + base64.StdEncoding.EncodeToString(i.Data),
		}))
	}
	return openai.UserMessage(parts)
}

func assistant(m model.Message) openai.ChatCompletionMessageParamUnion {
	said := openai.ChatCompletionAssistantMessageParam{}
	if m.Text != "" || len(m.Calls) == 0 {
		said.Content.OfString = param.NewOpt(m.Text)
	}
	for _, c := range m.Calls {
		said.ToolCalls = append(said.ToolCalls, openai.ChatCompletionMessageToolCallUnionParam{
			OfFunction: &openai.ChatCompletionMessageFunctionToolCallParam{
				ID: c.ID, Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{Name: c.Name, Arguments: string(c.Arguments)},
			},
		})
	}
	return openai.ChatCompletionMessageParamUnion{OfAssistant: &said}
}

// failure says what sort of failure it was. The library's own text would show the request's address and more.
func failure(err error) error {
	var refused *openai.Error
	if !errors.As(err, &refused) {
		return model.Unreachable(err)
	}
	var header http.Header
	if refused.Response != nil {
		header = refused.Response.Header
	}
	text := cmp.Or(refused.Message, http.StatusText(refused.StatusCode))
	return model.FromHTTP(refused.StatusCode, model.RetryAfter(header), fmt.Errorf("the model's provider answered %d: %s", refused.StatusCode, text))
}
