//go:build peers

package modeltest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/proof/peertest"
	"agentplatform/internal/proof/recording"
)

type object = map[string]any

func when(message string, more object) object {
	m := object{"userMessage": message}
	for k, v := range more {
		m[k] = v
	}
	return m
}

func refuses(status int, message string, more object) object {
	r := object{"error": object{"message": message}, "status": status}
	for k, v := range more {
		r[k] = v
	}
	return r
}

// RunPeer runs the conformance suite and the provider's own cases against a mock of the provider by other authors.
// Open makes the adapter for the mock's address.
func RunPeer(t *testing.T, open func(address string) model.Model) {
	provider := peertest.Models(t,
		object{"match": when("talk", nil), "response": object{
			"content": "Hello there, this is an answer of several words, and more than one piece.",
			"usage": object{"prompt_tokens": 11, "completion_tokens": 22, "total_tokens": 33, "input_tokens": 11,
				"output_tokens": 22},
		}},
		object{"match": when("call", object{"hasToolResult": false}),
			"response": object{"toolCalls": []object{{"name": "echo", "arguments": object{"text": "hi"}}}}},
		object{"match": when("call", object{"hasToolResult": true}), "response": object{"content": "It said hi."}},
		object{"match": when("both", nil), "response": object{"content": "Both at once.", "toolCalls": []object{
			{"name": "echo", "arguments": object{"text": "one"}}, {"name": "echo", "arguments": object{"text": "two"}},
		}}},
		object{"match": when("pair", object{"hasToolResult": false}), "response": object{"toolCalls": []object{
			{"name": "echo", "arguments": object{"text": "one"}}, {"name": "echo", "arguments": object{"text": "two"}},
		}}},
		object{"match": when("pair", object{"hasToolResult": true}),
			"response": object{"content": "One, and not two."}},
		object{"match": when("ask", nil),
			"response": object{"toolCalls": []object{{"name": "ask_user",
				"arguments": object{"question": "Which city?"}}}}},
		object{"match": when("fail", nil), "response": refuses(400, "no such thing", nil)},
		object{"match": when("flaky", object{"sequenceIndex": 0}), "response": refuses(503, "overloaded", nil)},
		object{"match": when("flaky", nil), "response": object{"content": "Now it works."}},
		object{"match": when("throttled", nil), "response": refuses(429, "slow down", object{"retryAfter": 7})},
		object{"match": when("cut", nil),
			"response": object{"content": "This will not come to its end, as the line is cut."}, "latency": 20,
			"truncateAfterChunks": 4},
		object{"match": when("key", nil), "response": refuses(401, "Incorrect API key provided", nil)},
		object{"match": when("slow", nil), "latency": 200, "chunkSize": 1,
			"response": object{"content": "A slow answer, letter by letter, letter by letter."}},
	)
	m := open(provider)
	t.Run("the conversations that are recorded", func(t *testing.T) {
		if recording.Anew() {
			recording.Make(t, provider, recorded(open))
			return
		}
		for _, c := range conversations {
			t.Run(c.name, func(t *testing.T) { c.run(t, m) })
		}
	})
	Run(t, Harness{
		Model: m, Name: "some-model", Talk: "talk", Call: "call", Ask: "ask", Fail: "fail", Flaky: "flaky",
		Slow: "slow", Takes: 10 * time.Second,
	})
	converse := func(text string) (model.Reply, string, error) {
		var pieces string
		reply, err := m.Converse(t.Context(),
			model.Request{Name: "some-model", Messages: []model.Message{{Role: model.User, Text: text}}},
			func(s string) { pieces += s })
		return reply, pieces, err
	}
	t.Run("text and several calls in one reply", func(t *testing.T) {
		reply, pieces, err := converse("both")
		require.NoError(t, err)
		assert.Equal(t, "Both at once.", pieces)
		assert.Equal(t, pieces, reply.Text)
		require.Len(t, reply.Calls, 2)
		assert.JSONEq(t, `{"text":"one"}`, string(reply.Calls[0].Arguments))
		assert.JSONEq(t, `{"text":"two"}`, string(reply.Calls[1].Arguments))
		assert.NotEqual(t, reply.Calls[0].ID, reply.Calls[1].ID)
	})
	for message, want := range map[string]model.Kind{
		"throttled": model.Throttled, "cut": model.Retryable, "key": model.BadRequest, "fail": model.BadRequest,
	} {
		t.Run("the kind of "+message, func(t *testing.T) {
			_, _, err := converse(message)
			var failure *model.Error
			require.ErrorAs(t, err, &failure)
			assert.Equal(t, want, failure.Kind, "%v", err)
			if want == model.Throttled {
				assert.Equal(t, 7*time.Second, failure.Wait)
			}
			assert.NotContains(t, err.Error(), "secret-key")
			assert.NotContains(t, err.Error(), "127.0.0.1", "the provider's address is not the client's business")
		})
	}
}
