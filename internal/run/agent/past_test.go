package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/tool"
	"agentplatform/internal/store/citation"
	"agentplatform/internal/store/record"
)

// diligent is a model that makes calls in each of its rounds, and then answers.
type diligent struct {
	rounds int
	meet   func(model.Request) // before each of them; may be nil
	made   int
}

func (d *diligent) Converse(_ context.Context, r model.Request, emit func(string)) (model.Reply, error) {
	if d.meet != nil {
		d.meet(r)
	}
	switch last := r.Messages[len(r.Messages)-1]; {
	case strings.Contains(last.Text, "does not fit"):
		return model.Reply{Text: `{"city":"Oslo"}`, Finish: "stop"}, nil
	case d.made == d.rounds:
		return model.Reply{Text: "done", Finish: "stop"}, nil
	}
	d.made++
	emit("so ")
	reply := model.Reply{Text: "so ", Finish: "tool_calls"}
	names := []string{"look"}
	if d.made%7 == 3 {
		names = []string{"look", "search", "unknown", "look"}
	}
	for i, name := range names {
		reply.Calls = append(reply.Calls, model.Call{
			ID: fmt.Sprint("c", d.made%5, i), Name: name,
			Arguments: json.RawMessage(fmt.Sprintf(`{"query":"%d"}`, d.made)),
		})
	}
	return reply, nil
}

func (d *diligent) stage(steps int) *stage {
	s := newStage(d, finds(swordfish))
	s.task.Agent.Spec.Limits.MaxSteps = &steps
	s.task.Tools = []tool.Offer{{Spec: tool.Spec{Name: "look", RetrySafe: true},
		Call: func(context.Context, tool.Invocation) (tool.Result, error) { return tool.TextResult("seen"), nil }}}
	return s
}

// A conversation grows from call to call. A later attempt makes the same one from the journal, also if passages are
// hidden at times.
func TestTheConversationIsThatOfAnAttemptThatTakesOver(t *testing.T) {
	const rounds = 40
	type shown struct {
		made    int
		journal []record.Step
		request []model.Message
	}
	var all []shown
	m := &diligent{rounds: rounds}
	hides := func(made *int) citation.Reader {
		return func(context.Context, []string) (citation.Hidden, error) {
			if *made/5%2 == 1 {
				return citation.Hidden{"d": citation.Deleted}, nil
			}
			return nil, nil
		}
	}
	stage := func(m *diligent) *stage {
		s := m.stage(1000)
		s.task.CitationFilter = hides(&m.made)
		s.task.History = []model.Message{{Role: model.User, Text: "hi"}, {Role: model.Assistant, Text: "hello"}}
		s.task.Agent.Spec.Knowledge.Always = true // so that the message itself has passages
		structured(&s.task)                       // so that the first answer must be repaired
		return s
	}
	s := stage(m)
	m.meet = func(r model.Request) {
		raw, err := json.Marshal(r.Messages) // as it is now
		require.NoError(t, err)
		var copied []model.Message
		require.NoError(t, json.Unmarshal(raw, &copied))
		all = append(all, shown{m.made, slices.Clone(s.journal), copied})
	}
	s.work(t)
	require.Len(t, all, rounds+2)
	for _, one := range all {
		again := &diligent{rounds: rounds, made: one.made}
		var first []model.Message
		ctx, cancel := context.WithCancel(t.Context())
		again.meet = func(r model.Request) {
			if cancel(); first == nil {
				first = r.Messages
			}
		}
		takes := stage(again)
		takes.task.Steps = one.journal
		_, _ = takes.Work(ctx, takes.task)
		want, err := json.Marshal(first)
		require.NoError(t, err)
		got, err := json.Marshal(one.request)
		require.NoError(t, err)
		require.JSONEq(t, string(want), string(got), "after %d rounds", one.made)
	}
}

// A step of a long run costs no more than one of a short run. The test counts allocations, which do not depend on the
// machine. If each call built the conversation again, there were eight times as many.
func TestStepsOfLongRunsAllocateNoMore(t *testing.T) {
	of := func(rounds int) float64 {
		all := testing.AllocsPerRun(1, func() {
			s := (&diligent{rounds: rounds}).stage(3 * rounds)
			r, err := s.Work(t.Context(), s.task)
			assert.NoError(t, err)
			assert.Empty(t, r.Failure)
		})
		return all / float64(rounds)
	}
	short, long := of(50), of(500)
	t.Logf("a round of 50 allocates %.0f times, of 500 %.0f times", short, long)
	assert.Less(t, long, 1.5*short)
}

// BenchmarkSteps measures the loop's own time for a round, by the number of rounds in a run.
func BenchmarkSteps(b *testing.B) {
	for _, rounds := range []int{5, 50, 500} {
		b.Run(fmt.Sprint(rounds), func(b *testing.B) {
			for b.Loop() {
				s := (&diligent{rounds: rounds}).stage(3 * rounds)
				if r, err := s.Work(b.Context(), s.task); err != nil || r.Failure != "" {
					b.Fatal(r.Failure, err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(rounds), "µs/round")
		})
	}
}
