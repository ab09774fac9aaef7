package agent_test

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/tool"
	"agentplatform/internal/run/agent"
	"agentplatform/internal/store/record"
)

// A model must call a tool until it has made a call: otherwise it would call the agent's own tools for ever. After a
// pause the client's choice applies again.
func TestAModelMustCallUntilItsFirstCall(t *testing.T) {
	for since, want := range map[int][]bool{-1: {true, false, false}, 9: {true, true, true}} {
		m := &script{replies: []func(model.Request) (model.Reply, error){
			replies(act("a", `{"n":1}`)), replies(act("b", `{"n":1}`)), textReply("done"),
		}}
		s := newStage(m, offers(func(context.Context, tool.Invocation) (string, error) { return "ok", nil }))
		s.task.Options = model.Options{MustCall: true, Tool: "act", Effort: "low"}
		s.task.Since = since
		require.NotNil(t, s.work(t).Answer)
		var must []bool
		for _, r := range m.shown {
			must = append(must, r.Options.MustCall)
			assert.Equal(t, []string{"act", "low"}, []string{r.Options.Tool, r.Options.Effort})
		}
		assert.Equal(t, want, must, since)
	}
}

func TestAModelWithoutToolsIsOfferedNone(t *testing.T) {
	m := &script{replies: []func(model.Request) (model.Reply, error){textReply("done")}}
	s := newStage(m, func(t *agent.Task) { withFunctions(t); t.NoTools = true })
	require.NotNil(t, s.work(t).Answer)
	assert.Empty(t, m.shown[0].Tools)
}

// Providers get the tools of earlier calls in the conversation, and models call tools that they are not offered. If the
// client wants no call, none is made. Calls of an earlier part of the run are made.
func TestACallIsNotMadeWhereTheClientWantsNone(t *testing.T) {
	made := 0
	offer := offers(func(context.Context, tool.Invocation) (string, error) {
		made++
		return "ok", nil
	})
	named := func(id, name string) model.Call {
		return model.Call{ID: id, Name: name, Arguments: json.RawMessage(`{"place":"Oslo","question":"?","query":"q"}`)}
	}
	m := &script{replies: []func(model.Request) (model.Reply, error){
		replies(act("a", `{"n":1}`), act("b", `no`), named("c", "get_weather"), named("d", "ask_user"),
			named("e", "search")),
		textReply("done"),
	}}
	s := newStage(m, offer)
	withFunctions(&s.task)
	finds(record.Source{Document: "d", Text: "x"})(&s.task)
	s.task.Agent.Spec.CanAsk, s.task.NoTools = true, true
	r := s.work(t)
	require.NotNil(t, r.Answer, "%+v", r)
	assert.Equal(t, "done", r.Answer.Text)
	assert.Zero(t, made)
	last := m.shown[1].Messages[len(m.shown[1].Messages)-1]
	require.Len(t, last.Results, 5)
	for _, result := range last.Results {
		assert.Equal(t, model.Failed, result.Outcome, result.Name)
		assert.Equal(t, "tool calls are not allowed now: answer without one", result.Text, result.Name)
	}

	m = &script{replies: []func(model.Request) (model.Reply, error){replies(act("a", `{"n":1}`)), textReply("done")}}
	s = newStage(m, offer)
	s.task.Agent.Spec.Approval.Mode = "always"
	s.pause(t, record.Decision{Decision: "approve"})
	s.task.NoTools = true
	require.NotNil(t, s.work(t).Answer)
	assert.Equal(t, 1, made, "it was approved")
}

// Some providers have no setting for one call.
func TestOneCallOfAReplyIsTaken(t *testing.T) {
	for one, want := range map[bool]int{true: 1, false: 2} {
		var made atomic.Int64
		m := &script{replies: []func(model.Request) (model.Reply, error){
			replies(act("a", `{"n":1}`), act("b", `{"n":1}`)), textReply("done"),
		}}
		s := newStage(m, offers(func(context.Context, tool.Invocation) (string, error) {
			made.Add(1)
			return "ok", nil
		}))
		s.task.Options.OneCall = one
		require.NotNil(t, s.work(t).Answer)
		assert.EqualValues(t, want, made.Load())
		assert.Len(t, m.shown[1].Messages[len(m.shown[1].Messages)-1].Results, want)
	}
}

// The output of a function counts even if the client no longer has the function.
func TestAnOutputCountsWithoutItsFunction(t *testing.T) {
	m := &script{replies: []func(model.Request) (model.Reply, error){
		calls("c", "get_weather", `{"place":"Oslo"}`), textReply("cold"),
	}}
	s := newStage(m, withFunctions)
	s.pause(t, record.Decision{Decision: "answer", Message: "-3 degrees"})
	s.task.Functions = nil
	require.NotNil(t, s.work(t).Answer)
	last := m.shown[1].Messages[len(m.shown[1].Messages)-1]
	assert.Equal(t, []model.Result{{
		CallID: "c", Name: "get_weather", Outcome: model.Answered, Text: "-3 degrees",
	}}, last.Results)
}
