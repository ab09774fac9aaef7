package agent_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/events"
	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/tool"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/run/agent"
	"agentplatform/internal/store/record"
)

// weather is a function of the client.
var weather = record.Function{
	Name: "get_weather", Description: "The weather of a place.",
	Parameters: json.RawMessage(`{"type":"object","properties":{"place":{"type":"string"}},"required":["place"]}`),
}

func withFunctions(t *agent.Task) { t.Functions = []record.Function{weather} }

// A call of the client's function pauses the run, with any approval setting of the agent. The client's answer is the
// call's output.
func TestACallOfTheClientsFunctionPauses(t *testing.T) {
	m := &script{replies: []func(model.Request) (model.Reply, error){
		calls("c", "get_weather", `{"place":"Oslo"}`), textReply("cold"),
	}}
	s := newStage(m, withFunctions)
	s.task.Agent.Spec.Approval.Mode = "always"
	i := s.pause(t, record.Decision{Decision: "answer", Message: "-3 degrees"})
	assert.Equal(t, string(lifecycle.Clarification), i.Kind)
	assert.Equal(
		t,
		&events.InterruptTool{Name: "get_weather", Arguments: json.RawMessage(`{"place":"Oslo"}`)},
		i.Tool,
	)
	r := s.work(t)
	require.NotNil(t, r.Answer, r.Failure)
	assert.Equal(t, "cold", r.Answer.Text)
	assert.Equal(t, []model.ToolSpec{{
		Name: weather.Name, Description: weather.Description, Parameters: weather.Parameters,
	}}, m.shown[0].Tools)
	last := m.shown[1].Messages[len(m.shown[1].Messages)-1]
	assert.Equal(t, []model.Result{{
		CallID: "c", Name: "get_weather", Outcome: model.Answered, Text: "-3 degrees",
	}}, last.Results)
}

// A reply may call functions of the client and tools of the agent; the tools are called before the run pauses.
func TestFunctionsAndToolsInOneReply(t *testing.T) {
	made := 0
	m := &script{replies: []func(model.Request) (model.Reply, error){
		replies(act("a", `{"n":1}`),
			model.Call{ID: "f", Name: "get_weather", Arguments: json.RawMessage(`{"place":"Oslo"}`)},
			model.Call{ID: "g", Name: "get_weather", Arguments: json.RawMessage(`{"place":7}`)}),
		textReply("done"),
	}}
	s := newStage(m, offers(func(context.Context, tool.Invocation) (string, error) {
		made++
		return "ok", nil
	}))
	s.task.Functions = []record.Function{weather}
	s.pause(t, record.Decision{Decision: "answer", Message: "cold"})
	assert.Equal(t, 1, made)
	r := s.work(t)
	require.NotNil(t, r.Answer, r.Failure)
	assert.Equal(t, 1, made)
	results := m.shown[1].Messages[len(m.shown[1].Messages)-1].Results
	require.Len(t, results, 3)
	assert.Equal(t, model.Failed, results[2].Outcome, "arguments that do not fit are not shown to the client")
	assert.Contains(t, results[2].Text, "the arguments do not fit")
}

// A call must not have two possible meanings because of its name.
func TestAFunctionMayNotHaveTheNameOfATool(t *testing.T) {
	for _, name := range []string{"act", model.AskUser, model.Search} {
		m := &script{replies: []func(model.Request) (model.Reply, error){textReply("done")}}
		s := newStage(m, offers(func(context.Context, tool.Invocation) (string, error) { return "", nil }))
		finds()(&s.task)
		s.task.Agent.Spec.CanAsk = true
		s.task.Functions = []record.Function{{Name: name, Parameters: weather.Parameters}}
		assert.Contains(t, s.work(t).Failure, "the client's function "+name)
		assert.Empty(t, m.shown)
	}
}

// A client may offer a function with the name of a tool that the agent's model does not have.
func TestAFunctionMayHaveTheNameOfAToolThatIsNotThere(t *testing.T) {
	for _, name := range []string{model.AskUser, model.Search} {
		m := &script{replies: []turn{calls("c", name, `{"place":"x"}`), textReply("done")}}
		s := newStage(m, withFunctions)
		s.task.Agent.Spec.CanAsk = false
		s.task.Functions = []record.Function{{Name: name, Parameters: weather.Parameters}}
		i := s.pause(t, record.Decision{Decision: "answer", Message: "out"})
		assert.Equal(t, name, i.Tool.Name)
		require.NotNil(t, s.work(t).Answer)
		last := m.shown[1].Messages[len(m.shown[1].Messages)-1]
		assert.Equal(t, []model.Result{{CallID: "c", Name: name, Outcome: model.Answered, Text: "out"}}, last.Results)
	}
}

// The client's conversation is between that of the chat and the message. It is not cut when that of the chat is.
func TestTheClientsConversationIsShownWhole(t *testing.T) {
	user := func(text string) model.Message { return model.Message{Role: model.User, Text: text} }
	m := &script{
		replies: []func(model.Request) (model.Reply, error){
			fails(model.TooLong),
			calls("x", "look", `{}`),
			textReply("done"),
		},
	}
	s := newStage(m, func(t *agent.Task) {
		t.History = []model.Message{user("1"), {Role: model.Assistant, Text: "2"}}
		t.Before = []model.Message{
			user(
				"3",
			), {Role: model.Assistant, Calls: []model.Call{{ID: "x", Name: "f", Arguments: json.RawMessage(`{}`)}}},
			{
				Role:    model.Tool,
				Results: []model.Result{{CallID: "x", Name: "f", Outcome: model.Succeeded, Text: "4"}},
			},
		}
		t.Message = model.Message{Role: model.User} // the conversation ends with the output of a call
		t.Instructions, t.Agent.Spec.Instructions = "Be brief.", "Be kind."
	})
	require.NotNil(t, s.work(t).Answer)
	assert.Equal(t, append(s.task.History, s.task.Before...), m.shown[0].Messages)
	assert.Equal(t, s.task.Before, m.shown[1].Messages)
	assert.Equal(t, "Be kind.\n\nBe brief.", m.shown[1].Instructions)
	calls := m.shown[2].Messages[3].Calls
	require.Len(t, calls, 1)
	assert.NotEqual(t, "x", calls[0].ID, "no two calls have one id")
}
