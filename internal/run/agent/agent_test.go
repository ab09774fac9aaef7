package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/events"
	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/tool"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/run/agent"
	"agentplatform/internal/store/citation"
	"agentplatform/internal/store/record"
)

// script is a model that returns the configured replies and records the requests.
type script struct {
	replies []func(model.Request) (model.Reply, error)
	shown   []model.Request
}

func (s *script) Converse(_ context.Context, r model.Request, emit func(string)) (model.Reply, error) {
	s.shown = append(s.shown, r)
	if len(s.shown) > len(s.replies) {
		return model.Reply{}, model.Fail(model.BadRequest, "the script is over")
	}
	reply, err := s.replies[len(s.shown)-1](r)
	emit(reply.Text)
	return reply, err
}

func textReply(text string) func(model.Request) (model.Reply, error) {
	return func(model.Request) (model.Reply, error) { return model.Reply{Text: text, Finish: "stop"}, nil }
}

func fails(kind model.Kind) func(model.Request) (model.Reply, error) {
	return func(model.Request) (model.Reply, error) { return model.Reply{}, model.Fail(kind, "no") }
}

func calls(id, name, arguments string) func(model.Request) (model.Reply, error) {
	return func(model.Request) (model.Reply, error) {
		return model.Reply{Calls: []model.Call{{ID: id, Name: name, Arguments: json.RawMessage(arguments)}},
			Finish: "tool_calls"}, nil
	}
}

type silent struct{}

func (silent) Append(context.Context, string)         {}
func (silent) Replace(context.Context, string)        {}
func (silent) Step(context.Context, events.StepEvent) {}

// stage is a run of one agent with a journal in memory.
type stage struct {
	*agent.Loop

	task    agent.Task
	journal []record.Step
}

func newStage(m model.Model, change func(*agent.Task)) *stage {
	s := &stage{Loop: &agent.Loop{Models: map[string]model.Model{"m": m}, Host: host.System()}}
	s.task = agent.Task{
		Run: "run", Attempt: 1,
		Agent:   catalog.Agent{Spec: catalog.AgentSpec{Model: catalog.AgentModel{Provider: "m", Name: "n"}}},
		Message: model.Message{Role: model.User, Text: "do it"}, Decided: map[string]record.Decision{},
		CitationFilter: func(context.Context, []string) (citation.Hidden, error) { return nil, nil },
		Output:         silent{}, CheckLease: func() error { return nil },
		Keep: func(_ context.Context, key string, f tool.File) (record.FileRef, error) {
			return record.FileRef{FileID: key, Name: f.Name, ContentType: f.ContentType, Size: int64(len(f.Data))}, nil
		},
		Journal: func(_ context.Context, steps []record.Step) error {
			s.journal = append(s.journal, steps...)
			return nil
		},
	}
	if change != nil {
		change(&s.task)
	}
	return s
}

func (s *stage) work(t *testing.T) agent.Result {
	t.Helper()
	r, err := s.Work(t.Context(), s.task)
	require.NoError(t, err)
	return r
}

func offers(call func(context.Context, tool.Invocation) (string, error)) func(*agent.Task) {
	return func(t *agent.Task) {
		t.Tools = []tool.Offer{{
			Spec: tool.Spec{Name: "act", RetrySafe: true,
				Parameters: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},` +
					`"required":["n"]}`)},
			Call: func(ctx context.Context, i tool.Invocation) (tool.Result, error) {
				text, err := call(ctx, i)
				return tool.TextResult(text), err
			},
		}}
	}
}

const wanted = `{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],` +
	`"additionalProperties":false}`

func structured(t *agent.Task) { t.Agent.Spec.OutputSchema = json.RawMessage(wanted) }

func TestStructuredAnswerMayBeRepairedOnce(t *testing.T) {
	for name, c := range map[string]struct {
		replies []string
		output  string
		fails   string
	}{
		"valid at once":            {[]string{`{"city":"Oslo"}`}, `{"city":"Oslo"}`, ""},
		"in a code block":          {[]string{"```json\n{\"city\":\"Oslo\"}\n```"}, `{"city":"Oslo"}`, ""},
		"repaired":                 {[]string{`It is Oslo.`, `{"city":"Oslo"}`}, `{"city":"Oslo"}`, ""},
		"invalid after the repair": {[]string{`{"city":5}`, `{"town":"Oslo"}`}, "", "missing property 'city'"},
		"text after the JSON": {[]string{`{"city":"Oslo"} Anything else?`, `{"city":"Oslo","also":1}`}, "",
			"additional properties"},
	} {
		t.Run(name, func(t *testing.T) {
			m := &script{}
			for _, text := range c.replies {
				m.replies = append(m.replies, textReply(text))
			}
			s := newStage(m, structured)
			r := s.work(t)
			assert.Len(t, m.shown, len(c.replies))
			assert.Contains(t, m.shown[0].Instructions, wanted)
			if c.fails != "" {
				assert.Contains(t, r.Failure, "output_schema")
				assert.Contains(t, r.Failure, c.fails)
				return
			}
			require.NotNil(t, r.Answer)
			assert.JSONEq(t, c.output, string(r.Answer.Output))
			if len(c.replies) > 1 {
				last := m.shown[1].Messages[len(m.shown[1].Messages)-1]
				assert.Equal(t, model.User, last.Role)
				assert.Contains(t, last.Text, "does not fit the schema")
				assert.Len(t, s.journal, 1, "the answer that was not good is journalled before it is mended")
			}
		})
	}
}

func TestAnswerUnderRepairIsNotRequestedAgainAfterACrash(t *testing.T) {
	m := &script{replies: []func(model.Request) (model.Reply, error){textReply(`{"city":"Oslo"}`)}}
	s := newStage(m, func(task *agent.Task) {
		structured(task)
		task.Steps = []record.Step{{Kind: record.ModelStep, Text: "It is Oslo.", Finish: "stop"}}
	})
	r := s.work(t)
	require.NotNil(t, r.Answer)
	assert.JSONEq(t, `{"city":"Oslo"}`, string(r.Answer.Output))
	require.Len(t, m.shown, 1)
	assert.Len(t, m.shown[0].Messages, 3, "the message, the answer, what is wrong with it")
}

func TestHistoryThatDoesNotFitIsLeftOutAndJournalled(t *testing.T) {
	m := &script{replies: []func(model.Request) (model.Reply, error){fails(model.TooLong), fails(model.TooLong),
		calls("c", "act", `{"n":1}`), textReply("done")}}
	s := newStage(m, func(task *agent.Task) {
		offers(func(context.Context, tool.Invocation) (string, error) { return "ok", nil })(task)
		for n := range 4 {
			task.History = append(task.History, model.Message{Role: model.User, Text: fmt.Sprint("q", n)},
				model.Message{Role: model.Assistant, Text: fmt.Sprint("a", n)})
		}
	})
	r := s.work(t)
	require.NotNil(t, r.Answer)
	var shown [][]string
	for _, one := range m.shown {
		var texts []string
		for _, message := range one.Messages {
			texts = append(texts, message.Text)
		}
		shown = append(shown, texts)
	}
	assert.Equal(t, []string{"q0", "a0", "q1", "a1", "q2", "a2", "q3", "a3", "do it"}, shown[0])
	assert.Equal(t, []string{"q2", "a2", "q3", "a3", "do it"}, shown[1])
	assert.Equal(t, []string{"q3", "a3", "do it"}, shown[2])
	assert.Equal(t, []string{"q3", "a3", "do it", "", ""}, shown[3], "what did not fit is not tried again")
	assert.Equal(t, 6, r.All[0].LeftOut)
	assert.Equal(t, 3, r.All[0].ModelAttempts)
}

// A conversation that is too long and must stay whole fails the run. All of it was sent.
func TestAConversationThatMustStayWholeFailsTheRun(t *testing.T) {
	m := &script{replies: []func(model.Request) (model.Reply, error){fails(model.TooLong)}}
	s := newStage(m, func(task *agent.Task) {
		task.Whole = true
		for n := range 4 {
			task.History = append(task.History, model.Message{Role: model.User, Text: fmt.Sprint("q", n)},
				model.Message{Role: model.Assistant, Text: fmt.Sprint("a", n)})
		}
		task.Unanswered = []int{2, 3}
	})
	r := s.work(t)
	assert.Nil(t, r.Answer)
	assert.NotEmpty(t, r.Failure)
	require.Len(t, m.shown, 1, "no other call is made")
	assert.Len(t, m.shown[0].Messages, 9)
}

// In such a run, a long result is not shortened either.
func TestALongResultThatMustStayWholeFailsTheRun(t *testing.T) {
	m := &window{maxBytes: 50_000, calls: []string{"act"}}
	s := newStage(m, gives(strings.Repeat("x", 100_000)))
	s.task.Whole = true
	r := s.work(t)
	assert.NotEmpty(t, r.Failure)
	require.Len(t, m.shown, 2)
	for _, step := range r.All {
		assert.Zero(t, step.LeftOut+step.Shortened)
		assert.False(t, step.AnsweredOnly)
	}
}

// A turn may have more than two messages. The history may be shorter in a later attempt, as old turns are removed. The
// model's messages still begin with a turn.
func TestWhatIsLeftOfTheHistoryBeginsWithATurn(t *testing.T) {
	m := &script{replies: []func(model.Request) (model.Reply, error){textReply("done")}}
	s := newStage(m, func(task *agent.Task) {
		call := model.Call{ID: "x", Name: "f", Arguments: json.RawMessage(`{}`)}
		task.History = []model.Message{
			{Role: model.User, Text: "q0"}, {Role: model.Assistant, Calls: []model.Call{call}},
			{Role: model.Tool, Results: []model.Result{{CallID: "x"}}}, {Role: model.Assistant, Text: "a0"},
			{Role: model.User, Text: "q1"}, {Role: model.Assistant, Text: "a1"},
		}
		offers(func(context.Context, tool.Invocation) (string, error) { return "ok", nil })(task)
		act := record.Call{ID: "c", Name: "act", Arguments: json.RawMessage(`{"n":1}`)}
		task.Steps = []record.Step{{Kind: record.ModelStep, Calls: []record.Call{act}, LeftOut: 2}}
	})
	require.NotNil(t, s.work(t).Answer)
	assert.Equal(t, "q1", m.shown[0].Messages[0].Text)
}

func TestMessageThatDoesNotFitByItselfFailsTheRun(t *testing.T) {
	m := &script{replies: []func(model.Request) (model.Reply, error){fails(model.TooLong)}}
	assert.Equal(t, "no", newStage(m, nil).work(t).Failure)
	assert.Len(t, m.shown, 1)
}

func TestThirdConsecutiveCallWithInvalidArgumentsFailsTheRun(t *testing.T) {
	m := &script{replies: []func(model.Request) (model.Reply, error){
		calls("a", "act", `{}`), calls("b", "act", `{"n":"one"}`), calls("c", "act", `{"n":1}`),
		calls("d", "act", `{}`), calls("e", "act", `[]`), calls("f", "act", `{}`), textReply("never"),
	}}
	made := 0
	s := newStage(m, offers(func(context.Context, tool.Invocation) (string, error) {
		made++
		return "ok", nil
	}))
	r := s.work(t)
	assert.Equal(t, 1, made)
	result := m.shown[1].Messages[len(m.shown[1].Messages)-1].Results[0]
	assert.Equal(t, model.Failed, result.Outcome)
	assert.Equal(t, "the arguments do not fit: missing property 'n'", result.Text)
	assert.Contains(t, r.Failure, "act 3 times one after another with arguments that do not fit")
	assert.Len(t, m.shown, 6)
}

func TestCallsOfOneReplyRunInParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &script{replies: []func(model.Request) (model.Reply, error){func(model.Request) (model.Reply, error) {
			var r model.Reply
			for n := range 10 {
				r.Calls = append(r.Calls,
					model.Call{ID: fmt.Sprint(n), Name: "act", Arguments: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n))})
			}
			return r, nil
		}, textReply("done")}}
		var mu sync.Mutex
		keys := map[string]bool{}
		s := newStage(m, offers(func(_ context.Context, i tool.Invocation) (string, error) {
			var a struct{ N int }
			_ = json.Unmarshal(i.Arguments, &a)
			mu.Lock()
			keys[i.IdempotencyKey] = true
			mu.Unlock()
			time.Sleep(time.Duration(a.N) * time.Second)
			return "ok", nil
		}))
		began := time.Now()
		require.NotNil(t, s.work(t).Answer)
		assert.Equal(t, 9*time.Second, time.Since(began), "as long as the slowest")
		assert.Len(t, keys, 10)
	})
}

func TestHangingToolFailsAtItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &script{replies: []turn{calls("a", "act", `{"n":1}`), textReply("done")}}
		s := newStage(m, func(task *agent.Task) {
			offers(func(ctx context.Context, _ tool.Invocation) (string, error) {
				<-ctx.Done()
				return "", ctx.Err()
			})(task)
			task.Tools[0].Timeout = 7 * time.Second
		})
		began := time.Now()
		r := s.work(t)
		require.NotNil(t, r.Answer)
		assert.Equal(t, 7*time.Second, time.Since(began))
		assert.Equal(t, "the tool did not respond within 7s", r.All[1].Output)
	})
}

func TestFailureNamesTheLimitThatWasReached(t *testing.T) {
	again := make([]func(model.Request) (model.Reply, error), 50)
	for n := range again {
		again[n] = func(r model.Request) (model.Reply, error) {
			reply, err := calls(fmt.Sprint(len(r.Messages)), "act", `{"n":1}`)(r)
			reply.InputTokens, reply.OutputTokens = 60, 40
			return reply, err
		}
	}
	for want, change := range map[string]func(*catalog.AgentLimits){
		"10 times one after another": func(*catalog.AgentLimits) {},
		"(limits.max_steps)":         func(l *catalog.AgentLimits) { l.MaxSteps = new(int); *l.MaxSteps = 5 },
		"used 300 tokens; its agent may use 250 (limits.max_tokens)": func(l *catalog.AgentLimits) {
			l.MaxTokens = new(int)
			*l.MaxTokens = 250
		},
	} {
		t.Run(want, func(t *testing.T) {
			s := newStage(&script{replies: again}, func(task *agent.Task) {
				offers(func(context.Context, tool.Invocation) (string, error) { return "ok", nil })(task)
				change(&task.Agent.Spec.Limits)
			})
			assert.Contains(t, s.work(t).Failure, want)
		})
	}
}

func TestModelIsOfferedAskUserIfTheAgentMayAsk(t *testing.T) {
	for _, may := range []bool{true, false} {
		m := &script{replies: []func(model.Request) (model.Reply, error){textReply("hello")}}
		newStage(m, func(task *agent.Task) { task.Agent.Spec.CanAsk = may }).work(t)
		assert.Equal(t, may, len(m.shown[0].Tools) == 1 && m.shown[0].Tools[0].Name == model.AskUser)
	}
}

func TestJournalledCallIsNotRepeatedAfterACrash(t *testing.T) {
	made := 0
	act := offers(func(context.Context, tool.Invocation) (string, error) {
		made++
		return strings.Repeat("x", made), nil
	})
	crash := errors.New("crash")
	m := &script{replies: []func(model.Request) (model.Reply, error){calls("a", "act", `{"n":1}`), textReply("done")}}
	s := newStage(m, act)
	keep := s.task.Journal
	s.task.Journal = func(ctx context.Context, steps []record.Step) error {
		if steps[0].Kind == record.ToolStep {
			return crash // after the call, before its result is journalled
		}
		return keep(ctx, steps)
	}
	_, err := s.Work(t.Context(), s.task)
	require.ErrorIs(t, err, crash)
	s.task.Journal, s.task.Steps = keep, s.journal
	r := s.work(t)
	require.NotNil(t, r.Answer)
	assert.Equal(t, 2, made, "a retry-safe call whose result was not journalled is made again, with the same key")
}

// text records the events for a reader of the stream.
type stepRecorder struct {
	silent

	see func(events.StepEvent)
}

func (t stepRecorder) Step(_ context.Context, e events.StepEvent) { t.see(e) }

// A client can rely on the event that a call is finished: if the worker is lost then, the call is not repeated.
func TestCallIsShownAsFinishedOnlyAfterItIsJournalled(t *testing.T) {
	act := model.Call{ID: "a", Name: "act", Arguments: json.RawMessage(`{"n":1}`)}
	ask := model.Call{ID: "b", Name: model.AskUser, Arguments: json.RawMessage(`{"question":"Which?"}`)}
	for name, wants := range map[string][]model.Call{"alone": {act}, "beside a question": {act, ask}} {
		t.Run(name, func(t *testing.T) {
			m := &script{replies: []func(model.Request) (model.Reply, error){
				func(model.Request) (model.Reply, error) {
					return model.Reply{Calls: wants, Finish: "tool_calls"}, nil
				}, textReply("done"),
			}}
			s := newStage(m, offers(func(context.Context, tool.Invocation) (string, error) { return "x", nil }))
			s.task.Agent.Spec.CanAsk = true
			shown := 0
			s.task.Output = stepRecorder{see: func(e events.StepEvent) {
				if e.State == "finished" {
					shown++
					assert.True(t, slices.ContainsFunc(s.journal, func(step record.Step) bool {
						return step.Name == e.Name && step.Outcome == e.Outcome
					}))
				}
			}}
			s.work(t)
			assert.Equal(t, 1, shown)
		})
	}
}

func TestLongToolResultIsStoredAsAFile(t *testing.T) {
	m := &script{replies: []func(model.Request) (model.Reply, error){calls("a", "act", `{"n":1}`), textReply("done")}}
	s := newStage(m, offers(func(context.Context, tool.Invocation) (string, error) {
		return strings.Repeat("ä", 1<<20), nil
	}))
	r := s.work(t)
	require.NotNil(t, r.Answer)
	require.Len(t, r.All[1].Files, 1)
	assert.EqualValues(t, 2<<20, r.All[1].Files[0].Size)
	text := m.shown[1].Messages[2].Results[0].Text
	assert.Less(t, len(text), 40<<10)
	assert.Contains(t, text, "[cut: the result has 2097152 bytes; the user has all of it as the file act.txt]")
}

func TestPicturesOfAToolAreStoredAsFiles(t *testing.T) {
	m := &script{replies: []func(model.Request) (model.Reply, error){calls("a", "act", `{"n":1}`), textReply("done")}}
	s := newStage(m, func(task *agent.Task) {
		task.Tools = []tool.Offer{{Spec: tool.Spec{Name: "act", RetrySafe: true},
			Call: func(context.Context, tool.Invocation) (tool.Result, error) {
				r := tool.Result{Text: "two pictures",
					Files: []tool.File{{ContentType: "image/png", Data: []byte("a")},
						{Name: "map.svg", ContentType: "image/svg+xml", Data: []byte("bc")}}}
				for range 20 {
					r.Files = append(r.Files, tool.File{ContentType: "image/gif", Data: []byte("x")})
				}
				return r, nil
			}}}
	})
	r := s.work(t)
	require.NotNil(t, r.Answer)
	require.Len(t, r.All[1].Files, 20)
	assert.Equal(t, record.FileRef{FileID: "0-0/0", Name: "act-1.png", ContentType: "image/png", Size: 1},
		r.All[1].Files[0])
	assert.Equal(t, "map.svg", r.All[1].Files[1].Name)
	text := m.shown[1].Messages[2].Results[0].Text
	assert.True(t, strings.HasPrefix(text,
		"two pictures\n[1 bytes of image/png; the user has them as the file act-1.png]\n[2 bytes of image/svg+xml"),
		text)
	assert.Contains(t, text, "[2 more files are not stored]")
}

func TestFilesAttachedToAnAnswerAreShownToTheModel(t *testing.T) {
	m := &script{replies: []func(model.Request) (model.Reply, error){calls("a", model.AskUser, `{"question":"Which?"}`),
		textReply("done")}}
	s := newStage(m, func(task *agent.Task) { task.Agent.Spec.CanAsk = true })
	r := s.work(t)
	require.Len(t, r.Interrupts, 1)
	s.task.Steps, s.task.Pauses = r.All, [][]record.Interrupt{r.Interrupts} // as the commit of the pause does
	id := r.Interrupts[0].ID
	s.task.Decided = map[string]record.Decision{id: {InterruptID: id, Decision: "answer", Message: "this"}}
	came := model.Message{Texts: []model.Text{{Name: "a.txt", Text: "swordfish"}},
		Images: []model.Image{{ContentType: "image/png"}}}
	s.task.AttachedFiles = map[string]model.Message{id: came}
	r = s.work(t)
	require.NotNil(t, r.Answer)
	shown := m.shown[1].Messages
	assert.Equal(t, "this", shown[len(shown)-2].Results[0].Text)
	came.Role = model.User
	assert.Equal(t, came, shown[len(shown)-1])
}

func TestResultAfterTheTimeoutIsDiscarded(t *testing.T) {
	m := &script{replies: []func(model.Request) (model.Reply, error){calls("a", "act", `{"n":1}`), textReply("done")}}
	s := newStage(m, func(task *agent.Task) {
		offers(func(ctx context.Context, _ tool.Invocation) (string, error) {
			<-ctx.Done()
			return "", nil // like a server that answers when the connection is being closed
		})(task)
		task.Tools[0].Timeout = time.Millisecond
	})
	r := s.work(t)
	require.NotNil(t, r.Answer)
	assert.Equal(t, "failed", r.All[1].Outcome)
	assert.Contains(t, r.All[1].Output, "did not respond within 1ms")
}
