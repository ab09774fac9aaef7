// Package anthropicmodel is the model port over Anthropic's messages.
//
// One call of the port is one request; the caller retries. It knows no run. It imports its port and Anthropic's library.
package anthropicmodel

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"agentplatform/internal/model"
)

// Model is an endpoint.
type Model struct{ client anthropic.Client }

// New makes the model of an endpoint; an empty base URL is Anthropic's own.
func New(baseURL, key string, client *http.Client) *Model {
	options := []option.RequestOption{option.WithMaxRetries(0), option.WithHTTPClient(client), option.WithAPIKey(key)}
	if baseURL != "" {
		options = append(options, option.WithBaseURL(baseURL))
	}
	return &Model{anthropic.NewClient(options...)}
}

// maxTokens is what an agent gets that says nothing; the provider wants a number.
const maxTokens = 8192

// Converse makes one streamed request.
func (m *Model) Converse(ctx context.Context, r model.Request, emit func(string)) (model.Reply, error) {
	body := anthropic.MessageNewParams{Model: r.Name, MaxTokens: maxTokens, Messages: messages(r.Messages)}
	if r.Instructions != "" {
		body.System = []anthropic.TextBlockParam{{Text: r.Instructions}}
	}
	if r.MaxTokens != nil {
		body.MaxTokens = int64(*r.MaxTokens)
	}
	if r.Temperature != nil {
		body.Temperature = param.NewOpt(min(*r.Temperature, 1)) // the provider's range ends there
	}
	for _, t := range r.Tools {
		var schema anthropic.ToolInputSchemaParam
		if err := json.Unmarshal(t.Parameters, &schema); err != nil {
			return model.Reply{}, model.Fail(model.BadRequest, "the parameters of the tool %s are no JSON schema: %w", t.Name, err)
		}
		body.Tools = append(body.Tools, anthropic.ToolUnionParam{OfTool: &anthropic.ToolParam{
			Name: t.Name, Description: param.NewOpt(t.Description), InputSchema: schema,
		}})
	}
	var answer *http.Response
	stream := m.client.Messages.NewStreaming(ctx, body, option.WithResponseInto(&answer))
	defer func() { _ = stream.Close() }()
	var said anthropic.Message
	size := 0
	for size <= model.MaxArguments && stream.Next() {
		event := stream.Current()
		size += len(event.Delta.Text) + len(event.Delta.PartialJSON)
		if err := said.Accumulate(event); err != nil {
			return model.Reply{}, model.Fail(model.Retryable, "the model's stream cannot be read: %w", err)
		}
		if event.Delta.Type == "text_delta" && event.Delta.Text != "" {
			emit(event.Delta.Text)
		}
	}
	if err := stream.Err(); err != nil {
		return model.Reply{}, failure(err)
	}
	reply, err := replyOf(said)
	if size > model.MaxArguments { // larger than anybody takes: it is read no further
		reply.Finish, err = "length", nil
	}
	if answer != nil {
		reply.RequestID = answer.Header.Get("Request-Id")
	}
	return reply, err
}

func replyOf(said anthropic.Message) (model.Reply, error) {
	r := model.Reply{
		InputTokens:  said.Usage.InputTokens + said.Usage.CacheReadInputTokens + said.Usage.CacheCreationInputTokens,
		OutputTokens: said.Usage.OutputTokens,
	}
	for _, block := range said.Content {
		switch block.Type {
		case "text":
			r.Text += block.Text
		case "tool_use":
			arguments := block.Input
			if len(arguments) == 0 {
				arguments = json.RawMessage(`{}`)
			}
			r.Calls = append(r.Calls, model.Call{ID: block.ID, Name: block.Name, Arguments: arguments})
		}
	}
	switch said.StopReason {
	case "":
		return r, model.Fail(model.Retryable, "the model's stream ended in the middle")
	case anthropic.StopReasonRefusal:
		return r, model.Fail(model.Refused, "the model refuses to go on with this conversation")
	case anthropic.StopReasonToolUse:
		r.Finish = "tool_calls"
	case anthropic.StopReasonMaxTokens:
		r.Finish = "length"
	default:
		r.Finish = "stop"
	}
	if len(r.Calls) > 0 {
		r.Finish = "tool_calls"
	}
	return r, nil
}

func messages(conversation []model.Message) []anthropic.MessageParam {
	var list []anthropic.MessageParam
	for _, m := range conversation {
		var blocks []anthropic.ContentBlockParamUnion
		if text := m.Whole(); text != "" { // the provider refuses empty blocks
			blocks = append(blocks, anthropic.NewTextBlock(text))
		}
		for _, i := range m.Images {
			blocks = append(blocks, anthropic.NewImageBlockBase64(i.ContentType, base64.StdEncoding.EncodeToString(i.Data)))
		}
		for _, c := range m.Calls {
			blocks = append(blocks, anthropic.NewToolUseBlock(c.ID, c.Object(), c.Name))
		}
		for _, r := range m.Results {
			blocks = append(blocks, anthropic.NewToolResultBlock(r.CallID, r.Tell(), r.Outcome == model.Failed))
		}
		switch {
		case len(blocks) == 0:
		case m.Role == model.Assistant:
			list = append(list, anthropic.NewAssistantMessage(blocks...))
		default:
			list = append(list, anthropic.NewUserMessage(blocks...))
		}
	}
	return list
}

// failure says what sort of failure it was. The library's own text would show the request's address and more.
func failure(err error) error {
	var refused *anthropic.Error
	if !errors.As(err, &refused) {
		return model.Unreachable(err)
	}
	var header http.Header
	if refused.Response != nil {
		header = refused.Response.Header
	}
	text := http.StatusText(refused.StatusCode)
	var body struct{ Error struct{ Message string } }
	if json.Unmarshal([]byte(refused.RawJSON()), &body) == nil && body.Error.Message != "" {
		text = body.Error.Message
	}
	return model.FromHTTP(refused.StatusCode, model.RetryAfter(header), fmt.Errorf("the model's provider answered %d: %s", refused.StatusCode, text))
}
