// Package openaimodel implements the model port with any endpoint that has OpenAI's chat completions API: OpenAI
// itself, Ollama, vLLM, llama.cpp's server, LiteLLM.
//
// One call of the port is one HTTP request; retries are the caller's. The package must not know runs. It imports
// its port and providerhttp. OpenAI's own library does far more than this needs and would make every cold build
// slower.
package openaimodel

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/providerhttp"
)

// Model calls one endpoint of the chat completions API. It is safe for concurrent use.
type Model struct{ endpoint providerhttp.Endpoint }

// URL is the address of OpenAI itself.
const URL = "https://api.openai.com/v1"

// New makes the model of an endpoint, by default [URL]. The key may be empty where the endpoint needs none.
func New(baseURL, key string, client *http.Client) *Model {
	header := http.Header{}
	if key != "" {
		header.Set("Authorization", "Bearer "+key)
	}
	return &Model{providerhttp.Endpoint{
		URL: providerhttp.Join(cmp.Or(baseURL, URL), "/chat/completions"), Header: header,
		Client: client,
	}}
}

// Catalogue lists the models of an endpoint; baseURL and key are those of [New].
func Catalogue(baseURL, key string) model.Catalogue {
	return &model.ListEndpoint{
		URL:    strings.TrimSuffix(cmp.Or(baseURL, URL), "/") + "/models",
		Header: http.Header{"Authorization": {"Bearer " + key}},
	}
}

// The request body: https://platform.openai.com/docs/api-reference/chat/create
type (
	request struct {
		Model         string        `json:"model"`
		Messages      []message     `json:"messages"`
		Tools         []tool        `json:"tools,omitempty"`
		Temperature   *float64      `json:"temperature,omitempty"`
		MaxTokens     *int          `json:"max_completion_tokens,omitempty"`
		Stream        bool          `json:"stream"`
		StreamOptions streamOptions `json:"stream_options"`
	}
	streamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	}
	tool struct {
		Type     string   `json:"type"`
		Function function `json:"function"`
	}
	function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	}
	message struct {
		Role    string `json:"role"`
		Content any    `json:"content,omitempty"` // a string, or a list of parts
		Calls   []call `json:"tool_calls,omitempty"`
		CallID  string `json:"tool_call_id,omitempty"`
	}
	call struct {
		ID       string   `json:"id"`
		Type     string   `json:"type"`
		Function callBody `json:"function"`
	}
	callBody struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	part struct {
		Type  string `json:"type"`
		Text  string `json:"text,omitempty"`
		Image *image `json:"image_url,omitempty"`
	}
	image struct {
		URL string `json:"url"`
	}
)

// chunk is one event of a stream: https://platform.openai.com/docs/api-reference/chat/streaming
type chunk struct {
	Error   providerhttp.Trouble `json:"error"`
	Object  providerhttp.Text    `json:"object"`
	Model   providerhttp.Text    `json:"model"`
	Choices []struct {
		Delta struct {
			Content   providerhttp.Text `json:"content"`
			Refusal   providerhttp.Text `json:"refusal"`
			ToolCalls []struct {
				Index    providerhttp.Count `json:"index"`
				ID       providerhttp.Text  `json:"id"`
				Function struct {
					Name      providerhttp.Text `json:"name"`
					Arguments model.Arguments   `json:"arguments"`
				} `json:"function"`
			} `json:"tool_calls"`
		} `json:"delta"`
		FinishReason providerhttp.Text `json:"finish_reason"`
	} `json:"choices"`
	Usage *usage `json:"usage"`
}

type usage struct {
	Input  providerhttp.Count `json:"prompt_tokens"`
	Output providerhttp.Count `json:"completion_tokens"`
	Total  providerhttp.Count `json:"total_tokens"`
}

// Converse makes one streamed request. Every error is a [model.Error]; the caller decides by its kind whether to
// retry.
func (m *Model) Converse(ctx context.Context, r model.Request, emit func(string)) (model.Reply, error) {
	r = r.Sendable()
	body := request{
		Model: r.Name, Messages: messages(r), Temperature: r.Temperature, MaxTokens: r.MaxTokens, Stream: true,
		StreamOptions: streamOptions{true},
	}
	for _, t := range r.Tools {
		body.Tools = append(body.Tools, tool{"function", function{t.Name, t.Description, t.Parameters}})
	}
	var said received
	header, err := model.Stream(ctx, m.endpoint, body, func(data []byte) (bool, error) {
		if bytes.HasPrefix(bytes.TrimSpace(data), []byte("[DONE]")) {
			return false, nil
		}
		var c chunk
		if err := model.Decode(data, &c); err != nil {
			return false, err
		}
		if c.Error.There {
			return false, model.BrokeOff(c.Error)
		}
		if c.Object == "error" { // some endpoints send the failure itself, not as a member
			return false, model.BrokeOff(providerhttp.Said(data))
		}
		said.take(c, emit)
		return !said.enough(), nil
	})
	if err != nil {
		return model.Reply{}, err
	}
	reply, err := said.reply(header)
	return reply, model.Redact(err, m.endpoint.URL, m.endpoint.Header)
}

// received accumulates what a stream has sent so far.
type received struct {
	text, refusal strings.Builder
	calls         []model.Call
	at            map[providerhttp.Count]int // positions in calls, by the endpoint's index
	arguments     int                        // bytes of all calls' arguments
	finish        string
	model         string // that answers
	usage         usage
}

// enough says that the reply is larger than any caller accepts; no more of it is read.
func (h *received) enough() bool {
	return h.arguments > model.MaxArguments || h.text.Len()+h.refusal.Len() > model.MaxText
}

func (h *received) take(c chunk, emit func(string)) {
	h.model = cmp.Or(h.model, cut(string(c.Model)))
	if c.Usage != nil && c.Usage.Total > 0 {
		h.usage = *c.Usage
	}
	if len(c.Choices) == 0 {
		return
	}
	choice := c.Choices[0]
	if text := string(choice.Delta.Content); text != "" {
		h.text.WriteString(text)
		emit(text)
	}
	h.refusal.WriteString(string(choice.Delta.Refusal))
	for _, piece := range choice.Delta.ToolCalls {
		c := h.call(piece.Index, string(piece.ID), piece.Function.Name != "")
		if c == nil {
			continue
		}
		c.ID = cmp.Or(c.ID, cut(string(piece.ID)))
		if name := string(piece.Function.Name); name != c.Name { // some endpoints repeat the name
			c.Name = cut(c.Name + name)
		}
		h.arguments += len(piece.ID) + len(piece.Function.Name) + len(piece.Function.Arguments)
		c.Arguments = append(c.Arguments, piece.Function.Arguments...)
	}
	if choice.FinishReason != "" {
		h.finish = string(choice.FinishReason)
	}
}

// call returns the call to which a piece belongs: by its index, or, where the endpoint sends no index, by an id
// that comes with a name. An id without a name does not start a call: some endpoints make up another id for each
// piece.
func (h *received) call(index providerhttp.Count, id string, named bool) *model.Call {
	if index < 0 || index > maxCalls {
		return nil
	}
	at, there := h.at[index]
	if !there || named && id != "" && h.calls[at].ID != "" && cut(id) != h.calls[at].ID {
		if len(h.calls) == maxCalls {
			return nil
		}
		if h.at == nil {
			h.at = map[providerhttp.Count]int{}
		}
		at = len(h.calls)
		h.at[index], h.calls = at, append(h.calls, model.Call{})
	}
	return &h.calls[at]
}

// maxCalls limits the calls of one reply, whatever the endpoint sends.
const maxCalls = 1000

// maxLabel limits the id and the name of a call, in bytes; a longer text is dropped.
const maxLabel = 1 << 10

func cut(label string) string { return label[:min(len(label), maxLabel)] }

func (h *received) reply(answer http.Header) (model.Reply, error) {
	r := model.Reply{
		Text: h.text.String(), InputTokens: int64(h.usage.Input), OutputTokens: int64(h.usage.Output),
		RequestID: answer.Get("X-Request-Id"), Model: h.model,
	}
	for i, c := range h.calls {
		if c.Name == "" {
			continue
		}
		if c.ID == "" { // some endpoints send no ids
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
		return r, model.Fail(model.Refused, "the model refuses: %s",
			cmp.Or(h.refusal.String(), "its provider filters this content"))
	case h.finish == model.WindowFull && r.Text == "" && len(r.Calls) == 0:
		return r, model.Fail(model.TooLong, "the model's context window is full")
	case len(r.Calls) > 0:
		r.Finish = "tool_calls" // some endpoints say "stop"
	case h.finish == "length", h.finish == model.WindowFull:
		r.Finish = "length"
	default:
		r.Finish = "stop"
	}
	return r, nil
}

func messages(r model.Request) []message {
	list := []message{}
	if r.Instructions != "" {
		list = append(list, message{Role: "system", Content: r.Instructions})
	}
	for _, m := range r.Messages {
		switch m.Role {
		case model.User:
			list = append(list, message{Role: "user", Content: content(m)})
		case model.Assistant:
			list = append(list, assistant(m))
		case model.Tool:
			for _, result := range m.Results {
				list = append(list, message{Role: "tool", Content: result.ForModel(), CallID: result.CallID})
			}
		}
	}
	return list
}

func content(m model.Message) any {
	if len(m.Images) == 0 {
		return m.FullText()
	}
	var parts []part
	if text := m.FullText(); text != "" {
		parts = append(parts, part{Type: "text", Text: text})
	}
	for _, i := range m.Images {
		parts = append(parts, part{Type: "image_url",
			Image: &image{"data:" + i.ContentType + ";base64," + base64.StdEncoding.EncodeToString(i.Data)}})
	}
	return parts
}

func assistant(m model.Message) message {
	said := message{Role: "assistant"}
	if m.Text != "" {
		said.Content = m.Text
	}
	for _, c := range m.Calls {
		said.Calls = append(said.Calls, call{c.ID, "function", callBody{c.Name, string(c.Arguments)}})
	}
	return said
}
