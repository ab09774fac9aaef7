package modeltest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/proof/recording"
)

// conversation is a recorded conversation with its expected outcome.
type conversation struct {
	name string
	run  func(t *testing.T, m model.Model)
}

// converseOnce calls the model once and checks that the emitted pieces equal the reply's text.
func converseOnce(t *testing.T, m model.Model, messages ...model.Message) (model.Reply, error) {
	t.Helper()
	var pieces string
	reply, err := m.Converse(t.Context(), model.Request{
		Name: "some-model", Instructions: "Be brief.", Messages: messages, Tools: []model.ToolSpec{{
			Name: "echo", Description: "gives back",
			Parameters: json.RawMessage(`{"type":"object",` +
				`"properties":{"text":{"type":"string"}},"required":["text"]}`),
		}},
	}, func(s string) { pieces += s })
	if err == nil {
		assert.Equal(t, reply.Text, pieces)
	}
	return reply, err
}

// conversations are recorded for every provider.
var conversations = []conversation{
	{"answer", func(t *testing.T, m model.Model) {
		reply, err := converseOnce(t, m, model.Message{Role: model.User, Text: "talk"})
		require.NoError(t, err)
		assert.Equal(t, "Hello there, this is an answer of several words, and more than one piece.", reply.Text)
		assert.Equal(t, "stop", reply.Finish)
		assert.EqualValues(t, 11, reply.InputTokens)
		assert.EqualValues(t, 22, reply.OutputTokens)
	}},
	{"history", func(t *testing.T, m model.Model) {
		_, err := converseOnce(t, m, model.Message{Role: model.User, Text: "first"},
			model.Message{Role: model.Assistant, Text: "second"}, model.Message{
				Role: model.User, Text: "talk", Texts: []model.Text{{Name: "a.txt", Text: "what a file says"}},
				Images: []model.Image{{ContentType: "image/png", Data: []byte("\x89PNG")}},
			})
		require.NoError(t, err)
	}},
	{"tools", func(t *testing.T, m model.Model) {
		question := model.Message{Role: model.User, Text: "pair"}
		reply, err := converseOnce(t, m, question)
		require.NoError(t, err)
		require.Len(t, reply.Calls, 2)
		assert.Equal(t, "tool_calls", reply.Finish)
		results := model.Message{Role: model.Tool}
		for i, c := range reply.Calls {
			assert.JSONEq(t, []string{`{"text":"one"}`, `{"text":"two"}`}[i], string(c.Arguments))
			results.Results = append(results.Results, model.Result{
				CallID: c.ID, Name: c.Name, Outcome: []model.Outcome{model.Succeeded, model.Rejected}[i],
				Text: []string{"one", "not two"}[i],
			})
		}
		reply, err = converseOnce(t, m, question,
			model.Message{Role: model.Assistant, Text: reply.Text, Calls: reply.Calls}, results)
		require.NoError(t, err)
		assert.Equal(t, "One, and not two.", reply.Text)
		assert.Empty(t, reply.Calls)
	}},
	{"throttled", func(t *testing.T, m model.Model) {
		_, err := converseOnce(t, m, model.Message{Role: model.User, Text: "throttled"})
		var failure *model.Error
		require.ErrorAs(t, err, &failure)
		assert.Equal(t, model.Throttled, failure.Kind)
		assert.Equal(t, 7*time.Second, failure.Wait)
	}},
	{"cut", func(t *testing.T, m model.Model) {
		_, err := converseOnce(t, m, model.Message{Role: model.User, Text: "cut"})
		assert.Equal(t, model.Retryable, model.KindOf(err), "%v", err)
	}},
}

// RunRecordings replays an adapter's recordings.
func RunRecordings(t *testing.T, open func(address string) model.Model) {
	recording.Play(t, recorded(open))
}

// recorded are the conversations of an adapter.
func recorded(open func(address string) model.Model) (all []recording.Conversation) {
	for _, c := range conversations {
		all = append(all, recording.Conversation{Name: c.name, Run: func(t *testing.T, address string) {
			c.run(t, open(address))
		}})
	}
	return all
}
