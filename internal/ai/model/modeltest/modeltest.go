// Package modeltest is the conformance suite of the model port. Every adapter runs all of it.
package modeltest

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/model"
)

// Harness makes an adapter show each behaviour.
type Harness struct {
	Model model.Model
	Name  string // of the model at its provider

	Talk  string // a message that is answered with several words
	Call  string // a message that leads to a call of the tool "echo" with {"text": "hi"}
	Ask   string // a message that leads to a question to the user
	Fail  string // a message that fails permanently
	Flaky string // a message whose call fails once with a retryable error
	Slow  string // a message whose answer takes at least Takes
	Takes time.Duration
}

// Run runs the contract.
func Run(t *testing.T, h Harness) {
	echo := []model.ToolSpec{{Name: "echo", Description: "gives back",
		Parameters: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}}}`)}}
	request := func(text string) model.Request {
		return model.Request{Name: h.Name, Messages: []model.Message{{Role: model.User, Text: text}}, Tools: echo}
	}
	converse := func(t *testing.T, r model.Request) (model.Reply, string, error) {
		t.Helper()
		var pieces strings.Builder
		reply, err := h.Model.Converse(t.Context(), r, func(s string) { pieces.WriteString(s) })
		return reply, pieces.String(), err
	}
	t.Run("the pieces join to the text", func(t *testing.T) {
		reply, pieces, err := converse(t, request(h.Talk))
		require.NoError(t, err)
		assert.NotEmpty(t, reply.Text)
		assert.Equal(t, reply.Text, pieces)
		assert.Empty(t, reply.Calls)
		assert.Equal(t, "stop", reply.Finish)
		assert.Positive(t, reply.InputTokens)
		assert.Positive(t, reply.OutputTokens)
	})
	t.Run("a call, its result, an answer", func(t *testing.T) {
		r := request(h.Call)
		reply, _, err := converse(t, r)
		require.NoError(t, err)
		require.Len(t, reply.Calls, 1)
		assert.Equal(t, "echo", reply.Calls[0].Name)
		assert.JSONEq(t, `{"text":"hi"}`, string(reply.Calls[0].Arguments))
		assert.NotEmpty(t, reply.Calls[0].ID)
		assert.Equal(t, "tool_calls", reply.Finish)
		r.Messages = append(r.Messages,
			model.Message{Role: model.Assistant, Text: reply.Text, Calls: reply.Calls},
			model.Message{Role: model.Tool,
				Results: []model.Result{{CallID: reply.Calls[0].ID, Name: "echo", Outcome: model.Succeeded,
					Text: "hi"}}})
		reply, _, err = converse(t, r)
		require.NoError(t, err)
		assert.Empty(t, reply.Calls)
		assert.Contains(t, reply.Text, "hi")
	})
	t.Run("a question to the user is a call of ask_user", func(t *testing.T) {
		reply, _, err := converse(t, request(h.Ask))
		require.NoError(t, err)
		require.Len(t, reply.Calls, 1)
		assert.Equal(t, model.AskUser, reply.Calls[0].Name)
		var a struct {
			Question string `json:"question"`
		}
		require.NoError(t, json.Unmarshal(reply.Calls[0].Arguments, &a))
		assert.NotEmpty(t, a.Question)
	})
	t.Run("failures have a kind", func(t *testing.T) {
		_, _, err := converse(t, request(h.Fail))
		var failure *model.Error
		require.ErrorAs(t, err, &failure)
		_, again := model.MayRetry(err)
		assert.False(t, again)
		r := request(h.Flaky)
		_, _, err = converse(t, r)
		_, again = model.MayRetry(err)
		require.True(t, again, "%v", err)
		r.Attempt++
		_, _, err = converse(t, r)
		assert.NoError(t, err)
	})
	t.Run("the context's end aborts the call", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), h.Takes/20)
		defer cancel()
		began := time.Now()
		_, err := h.Model.Converse(ctx, request(h.Slow), func(string) {})
		require.Error(t, err)
		assert.Less(t, time.Since(began), h.Takes)
	})
	t.Run("many at once keep to themselves", func(t *testing.T) {
		for _, text := range []string{"alpha", "beta", "gamma"} {
			t.Run(text, func(t *testing.T) {
				t.Parallel()
				reply, pieces, err := converse(t, request(h.Talk+" "+text))
				require.NoError(t, err)
				assert.Equal(t, reply.Text, pieces)
			})
		}
	})
}
