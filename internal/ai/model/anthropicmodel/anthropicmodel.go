// Package anthropicmodel implements the model port with Anthropic's Messages API.
//
// One call of the port is one HTTP request; retries are the caller's. The package must not know runs. It imports
// its port and providerhttp.
package anthropicmodel

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"math"
	"net/http"
	"strings"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/providerhttp"
)

// Model calls one endpoint of the Messages API. It is safe for concurrent use.
type Model struct{ endpoint providerhttp.Endpoint }

// URL is the address of Anthropic itself.
const URL = "https://api.anthropic.com"

// New makes the model of an endpoint, by default [URL].
func New(baseURL, key string, client *http.Client) *Model {
	return &Model{providerhttp.Endpoint{
		URL: providerhttp.Join(cmp.Or(baseURL, URL), "/v1/messages"), Header: header(key), Client: client,
	}}
}

// Catalogue lists the models of an endpoint; baseURL and key are those of [New].
func Catalogue(baseURL, key string) model.Catalogue {
	return &model.ListEndpoint{
		URL: strings.TrimSuffix(cmp.Or(baseURL, URL), "/") + "/v1/models?limit=1000", Header: header(key),
	}
}

func header(key string) http.Header {
	return http.Header{"X-Api-Key": {key}, "Anthropic-Version": {"2023-06-01"}}
}

// maxTokens is the output limit for agents that set none: the API requires a number.
const maxTokens = 8192

// The request body: https://docs.anthropic.com/en/api/messages
type (
	request struct {
		Model       string    `json:"model"`
		System      []block   `json:"system,omitempty"`
		Messages    []message `json:"messages"`
		Tools       []tool    `json:"tools,omitempty"`
		Temperature *float64  `json:"temperature,omitempty"`
		MaxTokens   int       `json:"max_tokens"`
		Stream      bool      `json:"stream"`
		TopP        *float64  `json:"top_p,omitempty"`
		Choice      *choice   `json:"tool_choice,omitempty"`
	}
	message struct {
		Role    string  `json:"role"`
		Content []block `json:"content"`
	}
	tool struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Schema      json.RawMessage `json:"input_schema"`
	}
	// block is one content block of a message; which members are set depends on its type.
	block struct {
		Type    string  `json:"type"`
		Text    string  `json:"text,omitempty"`
		Source  *source `json:"source,omitempty"`
		ID      string  `json:"id,omitempty"`
		Name    string  `json:"name,omitempty"`
		Input   any     `json:"input,omitempty"` // of a call; sent even when it is empty
		CallID  string  `json:"tool_use_id,omitempty"`
		IsError *bool   `json:"is_error,omitempty"`
		Content []block `json:"content,omitempty"`
	}
	source struct {
		Type      string `json:"type"`
		MediaType string `json:"media_type"`
		Data      string `json:"data"`
	}
)

// event is one event of a stream, of any type: https://docs.anthropic.com/en/api/messages-streaming
type event struct {
	Error   providerhttp.Trouble `json:"error"`
	Type    string               `json:"type"`
	Index   *providerhttp.Count  `json:"index"`
	Message struct {
		Model providerhttp.Text `json:"model"`
		Usage usage             `json:"usage"`
	} `json:"message"`
	Block content `json:"content_block"`
	Delta struct {
		Type       providerhttp.Text `json:"type"`
		Text       providerhttp.Text `json:"text"`
		Partial    providerhttp.Text `json:"partial_json"`
		StopReason providerhttp.Text `json:"stop_reason"`
	} `json:"delta"`
	Usage usage `json:"usage"`

	// Of a whole message, from endpoints that do not stream.
	Model      providerhttp.Text `json:"model"`
	Content    []content         `json:"content"`
	StopReason providerhttp.Text `json:"stop_reason"`
}

type content struct {
	Type  providerhttp.Text `json:"type"`
	ID    providerhttp.Text `json:"id"`
	Name  providerhttp.Text `json:"name"`
	Text  providerhttp.Text `json:"text"`
	Input json.RawMessage   `json:"input"`
}

type usage struct {
	Input         providerhttp.Count `json:"input_tokens"`
	CacheRead     providerhttp.Count `json:"cache_read_input_tokens"`
	CacheCreation providerhttp.Count `json:"cache_creation_input_tokens"`
	Output        providerhttp.Count `json:"output_tokens"`
}

// Converse makes one streamed request. Every error is a [model.Error]; the caller decides by its kind whether to
// retry.
func (m *Model) Converse(ctx context.Context, r model.Request, emit func(string)) (model.Reply, error) {
	r = r.Sendable()
	body := request{Model: r.Name, MaxTokens: maxTokens, Messages: messages(r.Messages), Stream: true}
	if r.Instructions != "" {
		body.System = []block{{Type: "text", Text: r.Instructions}}
	}
	if r.MaxTokens != nil {
		body.MaxTokens = *r.MaxTokens
	}
	body.TopP, body.Choice = r.Options.TopP, choiceOf(r)
	if r.Temperature != nil && r.Options.TopP == nil { // newer models refuse both
		within := min(*r.Temperature, 1) // the API's range ends at 1
		body.Temperature = &within
	}
	for _, t := range r.Declared() {
		body.Tools = append(body.Tools, tool{t.Name, t.Description, t.PlainNames()})
	}
	reply := received{Draft: model.Draft{Emit: emit}, blocks: map[providerhttp.Count]*begun{}}
	header, err := model.Stream(ctx, m.endpoint, body, func(data []byte) (bool, error) {
		if bytes.HasPrefix(bytes.TrimSpace(data), []byte("[DONE]")) { // of gateways
			reply.Ended = true
			return false, nil
		}
		var e event
		if err := model.Decode(data, &e); err != nil {
			return false, err
		}
		if e.Error.There {
			return false, model.BrokeOff(e.Error)
		}
		reply.take(e)
		reply.Ended = reply.Ended || e.Type == "message_stop" || e.Type == "message"
		return !reply.Full() && !reply.Ended, nil
	})
	reply.RequestID = header.Get("Request-Id")
	if reply.Stop == "refusal" {
		reply.Refusal = "the model refuses to continue this conversation"
	}
	return reply.Done(err)
}

// received is what a stream has sent so far.
type received struct {
	model.Draft

	blocks map[providerhttp.Count]*begun // that have not ended, by their index
	last   providerhttp.Count            // the index of the block that started last
	starts providerhttp.Count            // of blocks
	usage  usage
}

type begun struct {
	content // with which it started

	call  *model.PartialCall // of a call
	grown bool               // a piece has come
}

// maxBlocks limits the blocks of one reply: the index comes from the endpoint and is not trusted.
const maxBlocks = 1000

func (h *received) take(e event) {
	h.Model = cmp.Or(h.Model, string(e.Message.Model), string(e.Model))
	h.usage.raise(e.Message.Usage)
	h.usage.raise(e.Usage)
	u := h.usage
	h.InputTokens, h.OutputTokens = sum(u.Input, u.CacheRead, u.CacheCreation), sum(u.Output)
	h.Stop = cmp.Or(string(e.Delta.StopReason), string(e.StopReason), h.Stop)
	at := h.last
	if e.Index != nil {
		at = *e.Index
	}
	b := h.blocks[at]
	switch {
	case e.Type == "message":
		for _, one := range e.Content[:min(len(e.Content), maxBlocks)] {
			h.begin(one)
		}
	case e.Type == "content_block_start":
		h.start(e, b)
	case e.Type == "content_block_stop":
		delete(h.blocks, at)
	case e.Type != "content_block_delta":
	case e.Delta.Type == "text_delta" && (b == nil || b.Type == "text"):
		h.AddText(string(e.Delta.Text))
	case e.Delta.Type == "input_json_delta" && b != nil && e.Delta.Partial != "":
		b.grown = true
		h.Add(b.call, "", "", string(e.Delta.Partial))
	}
}

// start begins a block, unless this only repeats the start of b, which has its index. Some endpoints give all blocks
// one index, or none, and some send no ends of blocks.
func (h *received) start(e event, b *begun) {
	c := e.Block
	if b != nil && !b.grown && c.ID != "" && c.ID == b.ID && c.Name == b.Name && bytes.Equal(c.Input, b.Input) {
		return
	}
	if h.last = h.starts; e.Index != nil {
		h.last = *e.Index
	}
	h.starts++
	delete(h.blocks, h.last)
	if len(h.blocks) <= maxBlocks {
		h.blocks[h.last] = h.begin(c)
	}
}

func (h *received) begin(c content) *begun {
	b := &begun{content: c}
	switch c.Type {
	case "text":
		h.AddText(string(c.Text))
	case "tool_use":
		b.call = h.Begin()
		h.Add(b.call, string(c.ID), string(c.Name), string(c.Input))
	}
	return b
}

// raise takes over claimed counts: each claim covers the whole reply so far.
func (u *usage) raise(claimed usage) {
	u.Input, u.Output = cmp.Or(claimed.Input, u.Input), cmp.Or(claimed.Output, u.Output)
	u.CacheRead = cmp.Or(claimed.CacheRead, u.CacheRead)
	u.CacheCreation = cmp.Or(claimed.CacheCreation, u.CacheCreation)
}

// sum adds claims up without overflow. An absurd claim stays absurd: the caller checks the numbers.
func sum(claims ...providerhttp.Count) (total int64) {
	for _, c := range claims {
		if c < 0 || total > math.MaxInt64-int64(c) {
			return int64(c)
		}
		total += int64(c)
	}
	return total
}

func messages(conversation []model.Message) []message {
	list := []message{}
	for _, m := range conversation {
		var blocks []block
		if text := m.FullText(); text != "" {
			blocks = append(blocks, block{Type: "text", Text: text})
		}
		for _, i := range m.Images {
			blocks = append(blocks,
				block{Type: "image", Source: &source{"base64", i.ContentType,
					base64.StdEncoding.EncodeToString(i.Data)}})
		}
		for _, c := range m.Calls {
			blocks = append(blocks, block{Type: "tool_use", ID: c.ID, Name: c.Name, Input: c.Object()})
		}
		for _, r := range m.Results {
			failed := r.Outcome == model.Failed
			blocks = append(blocks, block{Type: "tool_result", CallID: r.CallID, IsError: &failed,
				Content: []block{{Type: "text", Text: r.ForModel()}}})
		}
		switch {
		case len(blocks) == 0:
		case m.Role == model.Assistant:
			list = append(list, message{"assistant", blocks})
		default:
			list = append(list, message{"user", blocks})
		}
	}
	return list
}
