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
	said := received{Draft: model.Draft{Emit: emit}, at: map[providerhttp.Count]*model.Call{}}
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
		said.take(c)
		return !said.Full() && said.refusal.Len() <= model.MaxText, nil
	})
	if err != nil {
		return said.Failed(err)
	}
	said.RequestID = header.Get("X-Request-Id")
	if said.refusal.Len() > model.MaxText {
		said.Stop = "content_filter" // no more of it was read
	}
	if said.Stop == "content_filter" || said.refusal.Len() > 0 {
		said.Refusal = "the model refuses: " + cmp.Or(said.refusal.String(), "its provider filters this content")
	}
	reply, err := said.Done("length")
	return reply, model.Redact(err, m.endpoint.URL, m.endpoint.Header)
}

// received is what a stream has sent so far.
type received struct {
	model.Draft

	refusal strings.Builder
	at      map[providerhttp.Count]*model.Call // by the endpoint's index
}

func (h *received) take(c chunk) {
	h.Model = cmp.Or(h.Model, string(c.Model))
	if c.Usage != nil && c.Usage.Total > 0 {
		h.InputTokens, h.OutputTokens = int64(c.Usage.Input), int64(c.Usage.Output)
	}
	if len(c.Choices) == 0 {
		return
	}
	choice := c.Choices[0]
	h.Say(string(choice.Delta.Content))
	h.refusal.WriteString(string(choice.Delta.Refusal))
	for _, piece := range choice.Delta.ToolCalls {
		id, name := string(piece.ID), string(piece.Function.Name)
		h.Add(h.call(piece.Index, id, name != ""), id, name, string(piece.Function.Arguments))
	}
	h.Stop = cmp.Or(string(choice.FinishReason), h.Stop)
}

// call returns the call to which a piece belongs: by its index, or, where the endpoint sends no index, by an id
// that comes with a name. An id without a name does not start a call: some endpoints make up another id for each
// piece. It is nil where there are very many.
func (h *received) call(index providerhttp.Count, id string, named bool) *model.Call {
	if index < 0 || index > maxIndex {
		return nil
	}
	c := h.at[index]
	if c == nil || named && id != "" && c.ID != "" && id != c.ID {
		c = h.Begin()
		h.at[index] = c
	}
	return c
}

// maxIndex limits the indexes of calls, which come from the endpoint.
const maxIndex = 1000

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
