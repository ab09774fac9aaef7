package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/tool"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/run/agent"
	"agentplatform/internal/store/record"
)

// payment is a run with one call that must not be made twice; paid are the arguments of the calls made.
func payment(replies ...turn) (s *stage, paid *[]string) {
	paid = new([]string)
	m := &script{replies: append(append([]turn{}, replies...), textReply("done"))}
	s = newStage(m, offers(func(_ context.Context, i tool.Invocation) (string, error) {
		*paid = append(*paid, string(i.Arguments))
		return "ok", nil
	}))
	s.task.Tools[0].RetrySafe = false
	return s, paid
}

// lose works until a call was made, and loses its result with the attempt. The run continues from the journal.
func (s *stage) lose(t *testing.T) {
	t.Helper()
	keep, lost := s.task.Journal, errors.New("lost")
	s.task.Journal = func(ctx context.Context, steps []record.Step) error {
		if steps[0].Kind == record.ToolStep {
			return lost
		}
		return keep(ctx, steps)
	}
	_, err := s.Work(t.Context(), s.task)
	require.ErrorIs(t, err, lost)
	s.task.Journal, s.task.Steps = keep, append([]record.Step{}, s.journal...)
}

// pause works until the run waits for one decision, and decides it.
func (s *stage) pause(t *testing.T, d record.Decision) record.Interrupt {
	t.Helper()
	r := s.work(t)
	require.Len(t, r.Interrupts, 1, "%s", resultText(r))
	i := r.Interrupts[0]
	s.journal = append(s.journal, r.Last...)
	s.task.Steps, s.task.Pauses = append([]record.Step{}, s.journal...), append(s.task.Pauses, r.Interrupts)
	d.InterruptID = i.ID
	s.task.Decided[i.ID] = d
	return i
}

const unknownOutcome = "The call of act started, but its outcome is not known. May the agent repeat it?"

// If the attempt of a call that must not be made twice is lost, its outcome is unknown: a person decides.
func TestCallWithUnknownOutcomeIsDecidedByAHuman(t *testing.T) {
	for name, c := range map[string]struct {
		decision record.Decision
		paid     []string
		outcome  model.Outcome
		output   string
	}{
		"made again": {record.Decision{Decision: "approve"}, []string{`{"n":1}`, `{"n":1}`}, model.Succeeded, "ok"},
		"with other arguments": {
			record.Decision{Decision: "edit", Arguments: json.RawMessage(`{"n":2}`)},
			[]string{`{"n":1}`, `{"n":2}`}, model.Succeeded, "ok",
		},
		"with invalid arguments": {
			record.Decision{Decision: "edit", Arguments: json.RawMessage(`{}`)},
			[]string{`{"n":1}`}, model.Failed, "the arguments do not fit: missing property 'n'",
		},
		"not made again": {
			record.Decision{Decision: "reject"}, []string{`{"n":1}`}, model.Rejected, "its outcome is not known",
		},
		"not made again, for a reason": {
			record.Decision{Decision: "reject", Message: "it went through"},
			[]string{`{"n":1}`}, model.Rejected, "it went through",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, paid := payment(calls("a", "act", `{"n":1}`))
			s.lose(t)
			i := s.pause(t, c.decision)
			assert.True(t, i.Unsure)
			assert.Equal(t, unknownOutcome, i.Prompt)
			assert.Equal(t, "approval", i.Kind)
			assert.Equal(t, "act", i.Tool.Name)
			assert.Equal(t, `{"n":1}`, string(i.Tool.Arguments))
			assert.Len(t, *paid, 1, "nothing is done before")
			r := s.work(t)
			require.NotNil(t, r.Answer)
			assert.Equal(t, c.paid, *paid)
			var results []record.Step
			for _, step := range r.All {
				if step.Kind == record.ToolStep {
					results = append(results, step)
				}
			}
			require.Len(t, results, 1)
			assert.Equal(t, string(c.outcome), results[0].Outcome)
			assert.Equal(t, c.output, results[0].Output)
			assert.False(t, results[0].FinishedAt.IsZero())
		})
	}
}

// Each lost attempt needs its own decision. An approval before the call does not count.
func TestEachLossOfACallNeedsItsOwnDecision(t *testing.T) {
	s, paid := payment(calls("a", "act", `{"n":1}`))
	s.task.Agent.Spec.Approval.Mode = "always"
	i := s.pause(t, record.Decision{Decision: "edit", Arguments: json.RawMessage(`{"n":2}`)})
	assert.False(t, i.Unsure)
	assert.Equal(t, "May the agent call act?", i.Prompt)
	s.lose(t)
	i = s.pause(t, record.Decision{Decision: "approve"})
	assert.True(t, i.Unsure)
	assert.Equal(t, `{"n":2}`, string(i.Tool.Arguments), "what it was made with")
	s.lose(t)
	i = s.pause(t, record.Decision{Decision: "edit", Arguments: json.RawMessage(`{"n":3}`)})
	assert.True(t, i.Unsure)
	r := s.work(t)
	require.NotNil(t, r.Answer)
	assert.Equal(t, []string{`{"n":2}`, `{"n":2}`, `{"n":3}`}, *paid)
}

// If the tool of a started call needs approval by now, the person decides about the unknown outcome.
func TestUnknownOutcomeIsAskedAboutBeforeApproval(t *testing.T) {
	s, paid := payment(calls("a", "act", `{"n":1}`))
	s.lose(t)
	s.task.Tools[0].Approval.Mode = "always"
	assert.Equal(t, unknownOutcome, s.pause(t, record.Decision{Decision: "approve"}).Prompt)
	i := s.pause(t, record.Decision{Decision: "approve"})
	assert.Equal(t, "May the agent call act? Every call of this tool needs approval.", i.Prompt)
	assert.False(t, i.Unsure)
	require.NotNil(t, s.work(t).Answer)
	assert.Len(t, *paid, 2)
}

// The agent defines which calls need approval. A tool may require it, too.
func TestCallsNeedApprovalAsTheAgentOrTheToolRequires(t *testing.T) {
	const byAgent, byTool = "May the agent call act?", "May the agent call act? Every call of this tool needs approval."
	const gone = ` The agent's policy names the tool "gone", which the agent does not have.`
	never, always := tool.Approval{Mode: "never"}, tool.Approval{Mode: "always"}
	when := func(pattern string) tool.Approval {
		return tool.Approval{Mode: "when", Argument: "n", Pattern: pattern}
	}
	of := func(mode string, tools ...string) catalog.AgentApproval {
		return catalog.AgentApproval{Mode: mode, Tools: tools}
	}
	for name, c := range map[string]struct {
		agent catalog.AgentApproval
		tool  tool.Approval
		asks  string // empty: the call is made
	}{
		"no approval required":                {},
		"the agent says never":                {of("never", "act"), never, ""},
		"the agent, for all tools":            {of("always"), never, byAgent},
		"the agent, for this tool":            {of("tools", "other", "act"), never, byAgent},
		"the agent, for another tool":         {of("tools", "other"), never, ""},
		"the agent, for a tool that is gone":  {of("tools", "gone", "other"), never, byAgent + gone},
		"the agent, for its search":           {of("tools", "search"), never, ""},
		"the agent, for no tool":              {of("tools"), never, ""},
		"the tool, though the agent does not": {of("never"), always, byTool},
		"the tool, for these arguments": {of(""), when("1"),
			`May the agent call act? Its argument n matches "1".`},
		"the tool, for other arguments": {of(""), when("2"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, paid := payment(calls("a", "act", `{"n":1}`))
			s.task.Agent.Spec.Approval, s.task.Tools[0].Approval = c.agent, c.tool
			s.task.Agent.Spec.KnowledgeBaseIDs = []string{"b"}
			s.task.Tools = append(s.task.Tools, tool.Offer{Spec: tool.Spec{Name: "other", Parameters: []byte(`{}`)}})
			if c.asks != "" {
				i := s.pause(t, record.Decision{Decision: "approve"})
				assert.Equal(t, c.asks, i.Prompt)
				assert.False(t, i.Unsure)
				assert.Empty(t, *paid)
			}
			require.NotNil(t, s.work(t).Answer)
			assert.Len(t, *paid, 1)
		})
	}
}

// The call uses the edited arguments; events and journal have them. If they do not match the schema, the model gets an
// error.
func TestEditedCallIsMadeWithTheEditedArguments(t *testing.T) {
	for arguments, want := range map[string][]string{`{"n":2}`: {`{"n":2}`}, `{"n":"two"}`: nil} {
		s, paid := payment(calls("a", "act", `{"n":1}`))
		s.task.Agent.Spec.Approval.Mode = "always"
		s.pause(t, record.Decision{Decision: "edit", Arguments: json.RawMessage(arguments)})
		r := s.work(t)
		require.NotNil(t, r.Answer)
		assert.Equal(t, want, append([]string(nil), *paid...))
		for _, step := range r.All {
			if step.Kind != record.ModelStep {
				assert.JSONEq(t, arguments, string(step.Arguments))
			}
		}
		if want == nil {
			assert.Contains(t, resultText(r), "the arguments do not fit: ")
		}
	}
}

// The user gets the question exactly as the model wrote it; the model gets the user's answer.
func TestQuestionReachesTheUserUnchangedAndTheAnswerTheModel(t *testing.T) {
	m := &script{
		replies: []turn{calls("a", model.AskUser, `{"question":"Which?","options":["red","blue"]}`), textReply("done")},
	}
	s := newStage(m, func(task *agent.Task) { task.Agent.Spec.CanAsk = true })
	i := s.pause(t, record.Decision{Decision: "answer", Message: "blue"})
	assert.Equal(t, "clarification", i.Kind)
	assert.Equal(t, "Which?", i.Prompt)
	assert.Equal(t, []string{"red", "blue"}, i.Options)
	assert.Nil(t, i.Tool)
	assert.NotEmpty(t, i.CreatedAt)
	r := s.work(t)
	require.NotNil(t, r.Answer)
	answer := model.Result{CallID: "a", Name: model.AskUser, Outcome: model.Answered, Text: "blue"}
	assert.Equal(t, []model.Result{answer}, m.shown[1].Messages[2].Results)
}

// The model gets the text or the picture of a file that is attached to an answer.
func TestSingleFileAttachedToAnAnswerIsShownAsTextOrPicture(t *testing.T) {
	for _, came := range []model.Message{
		{Texts: []model.Text{{Name: "a.txt", Text: "swordfish"}}},
		{Images: []model.Image{{ContentType: "image/png"}}},
		{},
	} {
		m := &script{replies: []turn{calls("a", model.AskUser, `{"question":"Which?"}`), textReply("done")}}
		s := newStage(m, func(task *agent.Task) { task.Agent.Spec.CanAsk = true })
		i := s.pause(t, record.Decision{Decision: "answer", Message: "this"})
		s.task.AttachedFiles = map[string]model.Message{i.ID: came}
		require.NotNil(t, s.work(t).Answer)
		want := 3 // the message, the call, the user's answer
		if came.Texts != nil || came.Images != nil {
			want++
			came.Role = model.User
			assert.Equal(t, came, m.shown[1].Messages[3])
		}
		assert.Len(t, m.shown[1].Messages, want)
	}
}
