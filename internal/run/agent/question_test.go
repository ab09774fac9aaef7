package agent_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/tool"
	"agentplatform/internal/run/agent"
	"agentplatform/internal/store/record"
)

// asks is a run with a call in which the server asks for a colour until it has an answer.
func asks(t *testing.T) (s *stage, made *[]tool.Invocation) {
	t.Helper()
	made = new([]tool.Invocation)
	m := &script{replies: []turn{calls("c", "act", `{"n":1}`), textReply("done")}}
	s = newStage(m, offers(nil))
	s.task.Agent.Spec.CanAsk = true
	s.task.Tools[0].Call = func(_ context.Context, i tool.Invocation) (tool.Result, error) {
		*made = append(*made, i)
		if len(i.Answers) == 0 {
			return tool.Result{}, &tool.Question{ID: "q", Text: "Which colour?", Options: []string{"red", "decline"}}
		}
		return tool.TextResult("painted " + i.Answers[0].Text), nil
	}
	return s, made
}

// A server's question in a call becomes a clarification. The call is made again with the answer.
func TestWhatAServerAsksBecomesAClarification(t *testing.T) {
	for _, safe := range []bool{true, false} {
		s, made := asks(t)
		s.task.Tools[0].RetrySafe = safe
		i := s.pause(t, record.Decision{Decision: "answer", Message: "red"})
		assert.Equal(t, "clarification", i.Kind)
		assert.Contains(t, i.Prompt, "The server of act asks: Which colour?")
		assert.Equal(t, !safe, len(i.Prompt) > len("The server of act asks: Which colour?"), i.Prompt)
		assert.Equal(t, []string{"red", "decline"}, i.Options)
		assert.Nil(t, i.Tool, "a message answers it, too")
		r := s.work(t)
		require.NotNil(t, r.Answer, "nobody is asked about the outcome: %v", r.Interrupts)
		require.Len(t, *made, 2)
		assert.Empty(t, (*made)[0].Answers)
		assert.Equal(t, []tool.Answer{{Question: "q", Text: "red"}}, (*made)[1].Answers)
		assert.Equal(t, (*made)[0].IdempotencyKey, (*made)[1].IdempotencyKey)
		assert.Contains(t, outputs(r), "painted red")
	}
}

// A question without visible text does not pause the run: the model gets an error.
func TestABlankQuestionIsNotAsked(t *testing.T) {
	for _, arguments := range []string{`{}`, `{"question":null}`, `{"question":""}`, `{"question":" \n\u200b"}`,
		`{"options":["yes","no"]}`} {
		m := &script{replies: []turn{calls("a", model.AskUser, arguments), textReply("done")}}
		s := newStage(m, func(task *agent.Task) { task.Agent.Spec.CanAsk = true })
		r := s.work(t)
		require.NotNil(t, r.Answer, arguments)
		assert.Contains(t, outputs(r), "question is blank")
	}
}

// An approval of the call stays valid when its server asks later.
func TestAnAnswerDecidesNothingElseOfTheCall(t *testing.T) {
	s, made := asks(t)
	s.task.Tools[0].RetrySafe = false
	s.task.Agent.Spec.Approval.Mode = "always"
	i := s.pause(t, record.Decision{Decision: "approve"})
	assert.Equal(t, "approval", i.Kind)
	assert.Empty(t, *made)
	i = s.pause(t, record.Decision{Decision: "answer", Message: "red"})
	assert.Equal(t, "clarification", i.Kind)
	require.NotNil(t, s.work(t).Answer)
	assert.Len(t, *made, 2)
}

func TestAnAgentThatMayNotAskPassesNoQuestionOn(t *testing.T) {
	s, made := asks(t)
	s.task.Agent.Spec.CanAsk = false
	r := s.work(t)
	require.NotNil(t, r.Answer)
	assert.Len(t, *made, 1)
	assert.Contains(t, outputs(r), "the server asks its user: Which colour? (this agent may not ask questions)")
}

// A server that keeps asking does not hold a run for ever.
func TestQuestionsInOneCallAreBounded(t *testing.T) {
	s, _ := asks(t)
	s.task.Tools[0].Call = func(context.Context, tool.Invocation) (tool.Result, error) {
		return tool.Result{}, &tool.Question{ID: "q", Text: "Again?"}
	}
	for range 20 {
		s.pause(t, record.Decision{Decision: "answer", Message: "yes"})
	}
	r := s.work(t)
	require.NotNil(t, r.Answer)
	assert.Contains(t, outputs(r), "the server asked its user over 20 times")
}

// A call has the information whether an earlier attempt has called the same toolkit.
func TestACallCarriesThatAnEarlierAttemptHadASession(t *testing.T) {
	var made []tool.Invocation
	m := &script{replies: []turn{calls("c", "act", `{"n":1}`), calls("d", "act", `{"n":2}`), textReply("done")}}
	s := newStage(m, offers(func(_ context.Context, i tool.Invocation) (string, error) {
		made = append(made, i)
		return "ok", nil
	}))
	s.task.Tools[0].Source = "toolkit/act"
	s.task.Agent.Spec.Approval.Mode = "always"
	for range 2 {
		s.pause(t, record.Decision{Decision: "approve"})
		s.task.Attempt++
	}
	s.work(t)
	require.Len(t, made, 2)
	assert.False(t, made[0].Resumed)
	assert.True(t, made[1].Resumed)
}

func outputs(r agent.Result) (text string) {
	for _, step := range r.All {
		text += step.Output + "\n"
	}
	return text
}

// Options that are too long are left out, both of a server and of a model.
func TestOptionsAreBounded(t *testing.T) {
	long, many := strings.Repeat("x", tool.MaxOption+1), slices.Repeat([]string{strings.Repeat("y", 400)}, 60)
	for _, options := range [][]string{{"red", long}, many} {
		s, _ := asks(t)
		s.task.Tools[0].Call = func(context.Context, tool.Invocation) (tool.Result, error) {
			return tool.Result{}, &tool.Question{ID: "q", Text: strings.Repeat("z", 1<<20), Options: options}
		}
		i := s.pause(t, record.Decision{Decision: "answer", Message: "red"})
		assert.Empty(t, i.Options)
		assert.LessOrEqual(t, len(i.Prompt), 16<<10)
		s, _ = asks(t)
		s.task.Agent.Spec.CanAsk = false
		s.task.Tools[0].Call = func(context.Context, tool.Invocation) (tool.Result, error) {
			return tool.Result{}, &tool.Question{ID: "q", Text: strings.Repeat("z", 1<<20), Options: options}
		}
		assert.LessOrEqual(t, len(outputs(s.work(t))), 16<<10)

		raw, err := json.Marshal(map[string]any{"question": "Which?", "options": options})
		require.NoError(t, err)
		s = newStage(&script{replies: []turn{calls("c", "ask_user", string(raw)), textReply("done")}},
			func(task *agent.Task) { task.Agent.Spec.CanAsk = true })
		r := s.work(t)
		require.Empty(t, r.Interrupts)
		assert.Contains(t, outputs(r), "500 bytes")
	}
}
