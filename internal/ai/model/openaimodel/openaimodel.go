// Package openaimodel implements the model port with any endpoint that has OpenAI's chat completions API: OpenAI
// itself, Ollama, vLLM, llama.cpp's server, LiteLLM.
//
// One call of the port is one HTTP request; retries are the caller's. The package must not know runs. It imports
// its port and providerhttp. OpenAI's own library does far more than this needs and would make every cold build
// slower.
package openaimodel

import (
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
type Model struct {
	endpoint providerhttp.Endpoint
	ways     ways
}

// URL is the address of OpenAI itself.
const URL = "https://api.openai.com/v1"

// New makes the model of an endpoint, by default [URL]. The key may be empty where the endpoint needs none.
func New(baseURL, key string, client *http.Client) *Model {
	header := http.Header{}
	if key != "" {
		header.Set("Authorization", "Bearer "+key)
	}
	url := providerhttp.Join(cmp.Or(baseURL, URL), "/chat/completions")
	return &Model{
		endpoint: providerhttp.Endpoint{URL: url, Header: header, Client: client},
		ways:     ways{first: firstWay(url)},
	}
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
		Model         string         `json:"model"`
		Messages      []message      `json:"messages"`
		Tools         []tool         `json:"tools,omitempty"`
		Temperature   *float64       `json:"temperature,omitempty"`
		MaxTokens     *int           `json:"max_tokens,omitempty"`
		MaxCompletion *int           `json:"max_completion_tokens,omitempty"`
		Stream        bool           `json:"stream"`
		StreamOptions *streamOptions `json:"stream_options,omitempty"`
		options
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

// Converse makes one request. It makes another one if the endpoint refuses a parameter that has another name there or
// is not needed. The request is streamed, unless the previous stream of this model had no event. Every error is a
// [model.Error]; the caller decides by its kind whether to retry.
func (m *Model) Converse(ctx context.Context, r model.Request, emit func(string)) (model.Reply, error) {
	r = r.Sendable()
	body := request{Model: r.Name, Messages: messages(r), Temperature: r.Temperature}
	for _, t := range r.Tools {
		body.Tools = append(body.Tools, tool{"function", function{t.Name, t.Description, t.Parameters}})
	}
	body.options = optionsOf(r)
	for way := m.ways.of(r.Name); ; {
		body.tuned(r, way)
		reply, err := m.call(ctx, body, emit)
		other, is := way.without(err)
		if !is {
			way.whole = model.Mute(err) && !way.whole // for the next call only
			m.ways.keep(r.Name, way)
			return reply, err
		}
		way = other
	}
}

func (m *Model) call(ctx context.Context, body request, emit func(string)) (model.Reply, error) {
	got := received{Draft: model.Draft{Emit: emit}, at: map[providerhttp.Count]*model.PartialCall{}}
	header, err := model.Stream(ctx, m.endpoint, body, got.read)
	got.RequestID = header.Get("X-Request-Id")
	if got.refusal.Len() > 0 {
		got.Refusal = "the model refuses: " + got.refusal.String()
	}
	reply, failed := got.Done(err)
	if err == nil { // it is not that of the stream, whose text may be shown
		failed = model.Redact(failed, m.endpoint.URL, m.endpoint.Header)
	}
	return reply, failed
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
	msg := message{Role: "assistant"}
	if m.Text != "" {
		msg.Content = m.Text
	}
	for _, c := range m.Calls {
		msg.Calls = append(msg.Calls, call{c.ID, "function", callBody{c.Name, string(c.Arguments)}})
	}
	return msg
}
