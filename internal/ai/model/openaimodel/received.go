package openaimodel

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/providerhttp"
)

// chunk is one event of a stream: https://platform.openai.com/docs/api-reference/chat/streaming. An answer that is not
// streamed is one chunk with messages in place of deltas.
type chunk struct {
	Error   providerhttp.Trouble `json:"error"`
	Object  providerhttp.Text    `json:"object"`
	Model   providerhttp.Text    `json:"model"`
	Choices []choice             `json:"choices"`
	Usage   *usage               `json:"usage"`
	Groq    struct {
		Usage *usage `json:"usage"`
	} `json:"x_groq"`
}

type choice struct {
	Delta        *delta            `json:"delta"`
	Message      *delta            `json:"message"`
	FinishReason providerhttp.Text `json:"finish_reason"`
	Usage        *usage            `json:"usage"` // Moonshot's
}

type delta struct {
	Content   providerhttp.Text `json:"content"`
	Refusal   providerhttp.Text `json:"refusal"`
	ToolCalls []piece           `json:"tool_calls"`
	Function  *pieceBody        `json:"function_call"` // before there were tools
}

func (d *delta) empty() bool {
	return d.Content == "" && d.Refusal == "" && len(d.ToolCalls) == 0 && d.Function == nil
}

type piece struct {
	Index    *providerhttp.Count `json:"index"`
	ID       providerhttp.Text   `json:"id"`
	Function pieceBody           `json:"function"`
}

type pieceBody struct {
	Name      providerhttp.Text `json:"name"`
	Arguments model.Arguments   `json:"arguments"`
}

type usage struct {
	Input  providerhttp.Count `json:"prompt_tokens"`
	Output providerhttp.Count `json:"completion_tokens"`
	Total  providerhttp.Count `json:"total_tokens"`

	// The names of newer APIs, which some gateways use here.
	NewInput  providerhttp.Count `json:"input_tokens"`
	NewOutput providerhttp.Count `json:"output_tokens"`
}

// received is what a stream has sent so far.
type received struct {
	model.Draft

	refusal strings.Builder
	at      map[providerhttp.Count]*model.PartialCall // by the endpoint's index
	calls   []*model.PartialCall
}

func (h *received) read(data []byte) (goOn bool, err error) {
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("[DONE]")) {
		h.Ended = true
		return false, nil
	}
	var c chunk
	if err := model.Decode(data, &c); err != nil {
		return false, err
	}
	h.used(c.Usage)
	h.used(c.Groq.Usage)
	if c.Error.There {
		return false, model.BrokeOff(c.Error)
	}
	if len(c.Choices) == 0 { // some endpoints send the failure itself, not as a member
		if trouble := providerhttp.ParseTrouble(data); trouble.There {
			return false, model.BrokeOff(trouble)
		}
	}
	h.take(c)
	return !h.Full() && h.refusal.Len() <= model.MaxText, nil
}

func (h *received) take(c chunk) {
	h.Model = cmp.Or(h.Model, string(c.Model))
	if len(c.Choices) == 0 {
		return
	}
	choice := c.Choices[0]
	h.used(choice.Usage)
	h.Stop = cmp.Or(string(choice.FinishReason), h.Stop)
	part := choice.Delta
	// Some endpoints repeat the message so far with each delta. With an empty delta it may be the whole reply.
	if part == nil || choice.FinishReason != "" && part.empty() && h.Empty() {
		part = choice.Message
		h.Ended = h.Ended || part != nil
	}
	if part == nil {
		return
	}
	h.AddText(string(part.Content))
	h.refusal.WriteString(string(part.Refusal))
	list := part.ToolCalls
	if part.Function != nil {
		list = append(list, piece{Function: *part.Function})
	}
	taken := map[*model.PartialCall]bool{}
	for _, p := range list {
		call := h.call(p, taken)
		taken[call] = true
		h.Add(call, string(p.ID), string(p.Function.Name), string(p.Function.Arguments))
	}
}

// used takes over a report of usage, which covers the whole reply so far. Gemini and xAI count the tokens of reasoning
// only in the total.
func (h *received) used(u *usage) {
	if u == nil {
		return
	}
	input, output := int64(cmp.Or(u.Input, u.NewInput)), int64(cmp.Or(u.Output, u.NewOutput))
	if input > 0 && int64(u.Total) > input {
		output = max(output, int64(u.Total)-input)
	}
	h.InputTokens, h.OutputTokens = max(h.InputTokens, input), max(h.OutputTokens, output)
}

// call returns the call to which a piece belongs, by the piece's index. Where the endpoint sends no index, it is the
// call of the piece's id, or the last one. Where all have one index or none, a piece with a name begins a call, unless
// it goes on with one or repeats it. An id without a name does not begin a call: some endpoints make up another id for
// each piece.
//
// The result is nil where there are too many calls. taken are the calls that have pieces of this event.
func (h *received) call(p piece, taken map[*model.PartialCall]bool) *model.PartialCall {
	indexed := p.Index != nil && *p.Index >= 0 && *p.Index <= maxIndex
	c := h.known(p, indexed)
	if c != nil && (p.Function.Name == "" || goesOn(c, p, indexed, taken[c])) {
		return c
	}
	if c = h.Begin(); c == nil {
		return nil
	}
	h.calls = append(h.calls, c)
	if indexed {
		h.at[*p.Index] = c
	}
	return c
}

// known is the call that a piece may belong to; nil: there is none. Some endpoints give pieces an index that no call
// has.
func (h *received) known(p piece, indexed bool) *model.PartialCall {
	if indexed {
		if c := h.at[*p.Index]; c != nil || p.Function.Name != "" {
			return c
		}
	}
	for _, c := range h.calls {
		if p.ID != "" && c.ID == string(p.ID) {
			return c
		}
	}
	last := len(h.calls) - 1
	if last < 0 || indexed && (p.ID != "" || h.calls[last].Whole()) {
		return nil
	}
	return h.calls[last]
}

// goesOn reports whether a piece that has a name belongs to a call.
func goesOn(c *model.PartialCall, p piece, indexed, taken bool) bool {
	id, name, arguments := string(p.ID), string(p.Function.Name), string(p.Function.Arguments)
	switch {
	case id != "" && c.ID != "" && id != c.ID:
		return false
	case c.Whole():
		again := arguments == "" || sameJSON(arguments, string(c.Arguments))
		return name == c.Name && again && (!taken || id != "" && id == c.ID)
	case id != "" && id == c.ID:
		return true
	}
	return !taken && (name == c.Name || indexed && len(c.Arguments) == 0) // a name may come in pieces, too
}

// sameJSON reports whether two texts are one value, however it is written.
func sameJSON(a, b string) bool {
	var one, other bytes.Buffer
	return json.Compact(&one, []byte(a)) == nil && json.Compact(&other, []byte(b)) == nil &&
		bytes.Equal(one.Bytes(), other.Bytes())
}

// maxIndex limits the indexes of calls, which come from the endpoint.
const maxIndex = 1000
