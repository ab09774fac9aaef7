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
	"agentplatform/internal/store/record"
)

func edit(arguments string) record.Decision {
	return record.Decision{Decision: "edit", Arguments: json.RawMessage(arguments)}
}

var (
	approve = record.Decision{Decision: "approve"}
	reject  = record.Decision{Decision: "reject", Message: "no"}
)

// lastRound is the newest round of calls in the messages of a model, with the text of each result.
func lastRound(t *testing.T, m model.Model) (calls []model.Call, results []string) {
	t.Helper()
	shown := m.(*script).shown
	messages := shown[len(shown)-1].Messages
	require.Equal(t, model.Tool, messages[len(messages)-1].Role)
	for _, r := range messages[len(messages)-1].Results {
		results = append(results, r.ForModel())
	}
	return messages[len(messages)-2].Calls, results
}

// The model gets a call with the arguments that were used, and with a note of each change, after any number of edits in
// any pause. A later attempt sends the same.
func TestModelIsShownWhatAHumanHasChanged(t *testing.T) {
	const (
		changed = "A human changed the arguments of this call from "
		advice  = ". Do not repeat it with the earlier arguments."
		begun   = "The call had started before, and its outcome is not known."
		begun1  = `The call had started before with {"n":1}, and its outcome is not known.`
		begun2  = `The call had started before with {"n":2}, and its outcome is not known.`
	)
	type step struct {
		lost     bool // the call is started, and its attempt is lost
		decision record.Decision
	}
	decided, lost := func(d record.Decision) step { return step{decision: d} }, step{lost: true}
	for name, c := range map[string]struct {
		free      bool // of approval at first; a later question is because of the tool's rule
		steps     []step
		arguments string
		result    string
		paid      []string
	}{
		"approved": {false, []step{decided(approve)}, `{"n":1}`, "ok", []string{`{"n":1}`}},
		"edited": {false, []step{decided(edit(`{"n":2}`))}, `{"n":2}`,
			changed + `{"n":1} to {"n":2}` + advice + "\nok", []string{`{"n":2}`}},
		"edited to the same": {false, []step{decided(edit(`{"n":1}`))}, `{"n":1}`, "ok", []string{`{"n":1}`}},
		"edited, and it does not fit": {false, []step{decided(edit(`{"n":"x"}`))}, `{"n":"x"}`,
			changed + `{"n":1} to {"n":"x"}` + advice +
				"\nError: the arguments do not fit: n: got string, want integer", nil},
		"edited when its outcome was unknown": {true, []step{lost, decided(edit(`{"n":2}`))}, `{"n":2}`,
			changed + `{"n":1} to {"n":2}` + advice + " " + begun1 + "\nok", []string{`{"n":1}`, `{"n":2}`}},
		"edited twice": {false, []step{decided(edit(`{"n":2}`)), lost, decided(edit(`{"n":3}`))}, `{"n":3}`,
			changed + `{"n":1} to {"n":3}` + advice + " " + begun2 + "\nok", []string{`{"n":2}`, `{"n":3}`}},
		"edited there and back": {false, []step{decided(edit(`{"n":2}`)), lost, decided(edit(`{"n":1}`))}, `{"n":1}`,
			begun2 + "\nok", []string{`{"n":2}`, `{"n":1}`}},
		"edited, and not repeated": {false, []step{decided(edit(`{"n":2}`)), lost, decided(reject)}, `{"n":2}`,
			changed + `{"n":1} to {"n":2}` + advice + " " + begun + "\nA human rejected this call: no",
			[]string{`{"n":2}`}},
		"repeated": {true, []step{lost, decided(approve)}, `{"n":1}`, begun + "\nok",
			[]string{`{"n":1}`, `{"n":1}`}},
		"not repeated": {true, []step{lost, decided(reject)}, `{"n":1}`,
			begun + "\nA human rejected this call: no", []string{`{"n":1}`}},
		"edited, then asked for approval and edited": {true, []step{lost,
			decided(edit(`{"n":2}`)), decided(edit(`{"n":3}`))},
			`{"n":3}`, changed + `{"n":1} to {"n":3}` + advice + " " + begun1 + "\nok", []string{`{"n":1}`, `{"n":3}`}},
		"edited, then asked for approval and rejected": {true, []step{lost, decided(edit(`{"n":2}`)), decided(reject)},
			`{"n":2}`, changed + `{"n":1} to {"n":2}` + advice + " " + begun1 + "\nA human rejected this call: no",
			[]string{`{"n":1}`}},
	} {
		t.Run(name, func(t *testing.T) {
			s, paid := payment(calls("a", "act", `{"n":1}`))
			if !c.free {
				s.task.Agent.Spec.Approval.Mode = "always"
			}
			for i, step := range c.steps {
				if step.lost {
					s.lose(t)
					continue
				}
				if i == 2 && c.free {
					s.task.Tools[0].Approval.Mode = "always"
				}
				s.pause(t, step.decision)
			}
			require.NotNil(t, s.work(t).Answer)
			assert.Equal(t, c.paid, append([]string(nil), *paid...))
			m := s.Models["m"]
			first, results := lastRound(t, m)
			require.Len(t, first, 1)
			assert.Equal(t, c.arguments, string(first[0].Arguments))
			assert.Equal(t, []string{c.result}, results)

			again := &script{replies: []turn{textReply("done")}} // a later attempt, after the call
			s.Models["m"], s.task.Steps = again, s.journal[:len(s.journal)-withAnswer(s.journal)]
			require.NotNil(t, s.work(t).Answer)
			second, repeated := lastRound(t, again)
			assert.Equal(t, first, second)
			assert.Equal(t, results, repeated)
		})
	}
}

// withAnswer is 1 if a journal ends with the model's answer.
func withAnswer(steps []record.Step) int {
	if last := steps[len(steps)-1]; last.Kind == record.ModelStep && len(last.Calls) == 0 {
		return 1
	}
	return 0
}

// Each call of a reply with several calls has its own decision. None has the arguments or the note of another.
func TestMixedDecisionsOfOneReplyStayApart(t *testing.T) {
	m := &script{replies: []turn{func(model.Request) (model.Reply, error) {
		var reply model.Reply
		for _, id := range []string{"a", "b", "c", "d"} {
			reply.Calls = append(reply.Calls,
				model.Call{ID: id, Name: "act", Arguments: json.RawMessage(`{"n":1,"of":"` + id + `"}`)})
		}
		return reply, nil
	}, textReply("done")}}
	s := newStage(m, offers(func(_ context.Context, i tool.Invocation) (string, error) {
		return string(i.Arguments), nil
	}))
	s.task.Agent.Spec.Approval.Mode = "always"
	r := s.work(t)
	require.Len(t, r.Interrupts, 4)
	s.task.Steps, s.task.Pauses = slices.Concat(s.journal, r.Last), [][]record.Interrupt{r.Interrupts}
	for i, d := range []record.Decision{
		edit(`{"n":2,"of":"a"}`), approve, reject, edit(`{"of":"d","n":1}`), // the last changes only the order
	} {
		d.InterruptID = r.Interrupts[i].ID
		s.task.Decided[d.InterruptID] = d
	}
	require.NotNil(t, s.work(t).Answer)
	made, results := lastRound(t, m)
	var arguments []string
	for _, c := range made {
		arguments = append(arguments, string(c.Arguments))
	}
	assert.Equal(t, []string{`{"n":2,"of":"a"}`, `{"n":1,"of":"b"}`, `{"n":1,"of":"c"}`, `{"n":1,"of":"d"}`}, arguments)
	assert.Equal(t, []string{
		`A human changed the arguments of this call from {"n":1,"of":"a"} to {"n":2,"of":"a"}. ` +
			"Do not repeat it with the earlier arguments.\n" + `{"n":2,"of":"a"}`,
		`{"n":1,"of":"b"}`, "A human rejected this call: no", `{"of":"d","n":1}`,
	}, results)
}

// A note quotes a part of the arguments; the call has all of them.
func TestNoteOnLargeArgumentsIsShort(t *testing.T) {
	large := `{"n":1,"text":"` + strings.Repeat("é", 50_000) + `"}`
	s, _ := payment(calls("a", "act", large))
	s.task.Agent.Spec.Approval.Mode = "always"
	s.pause(t, edit(strings.Replace(large, "1", "2", 1)))
	require.NotNil(t, s.work(t).Answer)
	made, results := lastRound(t, s.Models["m"])
	assert.Len(t, made[0].Arguments, len(large))
	assert.Less(t, len(results[0]), 5000)
	assert.Contains(t, results[0], "…")
}

// A tool that is gone is not called. The model still gets the change that a person made.
func TestEditOfACallWhoseToolIsGoneIsShown(t *testing.T) {
	s, paid := payment(calls("a", "act", `{"n":1}`))
	s.task.Agent.Spec.Approval.Mode = "always"
	s.pause(t, edit(`{"n":2}`))
	s.task.Tools = []tool.Offer{}
	require.NotNil(t, s.work(t).Answer)
	assert.Empty(t, *paid)
	made, results := lastRound(t, s.Models["m"])
	assert.Equal(t, `{"n":2}`, string(made[0].Arguments))
	assert.Contains(t, results[0], `from {"n":1} to {"n":2}`)
	assert.Contains(t, results[0], `Error: the tool "act" does not exist`)
}
