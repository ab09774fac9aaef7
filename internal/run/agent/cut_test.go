package agent_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/tool"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/run/agent"
	"agentplatform/internal/store/record"
)

// cut is an attempt that fails with an error after it has streamed a text and reported tokens.
func cut(text string, in, out int64, err error) turn {
	return func(model.Request) (model.Reply, error) {
		return model.Reply{Text: text, InputTokens: in, OutputTokens: out}, err
	}
}

var errBroken = errors.New("broken")

// begun is a failure of a call that the provider had begun.
func begun(kind model.Kind) error { return model.Begin(&model.Error{Kind: kind, Err: errBroken}) }

func TestWhatFailedAttemptsUsedCountsInTheirStep(t *testing.T) {
	busy := &model.Error{Kind: model.Retryable, Err: errBroken}
	done := claiming(strings.Repeat("z", 40), 1000, 10)
	forty := strings.Repeat("x", 40) // 10 tokens by the estimate
	for name, c := range map[string]struct {
		turns   []turn
		in, out int64
		fails   bool
	}{
		"one attempt": {[]turn{done}, 1000, 10, false},
		"reported thrice": {append(slices.Repeat([]turn{cut("half", 140, 10, busy)}, 3), done),
			1420, 40, false},
		"reported without a text":    {[]turn{cut("", 140, 100, busy), done}, 1140, 110, false},
		"only the input is reported": {[]turn{cut(forty, 140, 0, busy), done}, 1140, 20, false},
		"its beginning is reported":  {[]turn{cut(forty, 140, 3, busy), done}, 1140, 20, false},
		"nothing is reported":        {[]turn{cut(forty, 0, 0, busy), done}, 1025, 20, false},
		"an implausible report": {[]turn{cut(forty, math.MaxInt64, math.MaxInt64, busy), done},
			1025, 20, false},
		"less than nothing is reported":    {[]turn{cut(forty, -1000, -1, busy), done}, 1025, 20, false},
		"begun, and nothing came":          {[]turn{cut("", 0, 0, begun(model.Retryable)), done}, 1025, 10, false},
		"refused, so that nothing is used": {[]turn{cut("", 0, 0, busy), done}, 1000, 10, false},
		"throttled":                        {[]turn{fails(model.Throttled), done}, 1000, 10, false},
		"its own time is up":               {[]turn{cut("", 0, 0, begunLate()), done}, 1025, 10, false},
		"eight attempts that break off":    {slices.Repeat([]turn{cut(forty, 140, 10, busy)}, 9), 8 * 140, 80, true},
		"eight attempts, nothing reported": {slices.Repeat([]turn{cut(forty, 0, 0, busy)}, 9), 8 * 25, 80, true},
		"eight that are refused":           {slices.Repeat([]turn{cut("", 0, 0, busy)}, 9), 0, 0, true},
		"the content is refused":           {[]turn{cut("", 0, 0, begun(model.Refused))}, 25, 0, true},
		"the content is refused, reported": {[]turn{cut("half", 140, 10, begun(model.Refused))}, 140, 10, true},
		"a bad request":                    {[]turn{fails(model.BadRequest)}, 0, 0, true},
		"a bad request after a break":      {[]turn{cut(forty, 140, 10, busy), fails(model.BadRequest)}, 140, 10, true},
		"an error of no model":             {[]turn{cut("", 0, 0, errBroken)}, 0, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			m := &script{replies: c.turns}
			s := newStage(m, nil)
			s.Host = &ticking{Host: host.System()}
			s.task.Message.Text = strings.Repeat("y", 100) // 25 tokens by the estimate
			r := s.work(t)
			require.Equal(t, c.fails, r.Failure != "", r.Failure)
			if c.in+c.out == 0 {
				assert.Empty(t, r.All, "a call that used nothing is no step")
				return
			}
			require.Len(t, r.All, 1)
			step := r.All[0]
			assert.Equal(t, []int64{c.in, c.out}, []int64{step.InputTokens, step.OutputTokens})
			assert.Equal(t, len(m.shown), step.ModelAttempts)
			assert.Equal(t, r.All, r.Last, "it is stored with the result")
			want := record.ModelStep
			if c.fails {
				want = record.CutStep
				assert.Equal(t, "failed", step.Outcome)
				assert.Empty(t, step.Text, "what was streamed was withdrawn")
			}
			assert.Equal(t, want, step.Kind)
		})
	}
}

// begunLate is the failure of an attempt whose time was over.
func begunLate() error {
	return &model.Error{Kind: model.Retryable, Err: context.DeadlineExceeded}
}

// streaming is a model that sends pieces of text, then calls, and waits until it is stopped.
type streaming struct {
	pieces  []string
	in, out int64 // what it reports
	then    func()
	err     func(ctx context.Context) error
	shown   []model.Request
}

func (m *streaming) Converse(ctx context.Context, r model.Request, emit func(string)) (model.Reply, error) {
	m.shown = append(m.shown, r)
	for _, piece := range m.pieces {
		emit(piece)
	}
	m.then()
	<-ctx.Done()
	return model.Reply{InputTokens: m.in, OutputTokens: m.out}, m.err(ctx)
}

func TestACallThatIsStoppedIsAStepWithItsTextAndTokens(t *testing.T) {
	for name, err := range map[string]func(context.Context) error{
		"the context's error": func(ctx context.Context) error { return ctx.Err() },
		"a failure":           func(ctx context.Context) error { return model.Unreachable(ctx.Err()) },
	} {
		for _, c := range []struct {
			pieces          []string
			in, out         int64
			wantIn, wantOut int64
		}{
			{[]string{"one", " two", " three four"}, 1000, 100, 1000, 100},
			{[]string{"one", " two", " three fo"}, 0, 0, 25, 4},
			{[]string{"one", " two", " three fo"}, 1000, 1, 1000, 4},
			{[]string{strings.Repeat("x", 120)}, 1000, 4, 1000, 30},
			{[]string{"\xff"}, 1000, 0, 1000, 1},
			{nil, 0, 0, 25, 0},
			{nil, 1000, 5, 1000, 5},
		} {
			t.Run(name, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				m := &streaming{pieces: c.pieces, in: c.in, out: c.out, then: cancel, err: err}
				s := newStage(m, nil)
				s.task.Message.Text = strings.Repeat("y", 100)
				r, failed := s.Work(ctx, s.task)
				require.ErrorIs(t, failed, context.Canceled)
				require.Len(t, r.Last, 1)
				step := r.Last[0]
				assert.Equal(t, record.CutStep, step.Kind)
				assert.Equal(t, "stopped", step.Outcome)
				assert.Equal(t, strings.ToValidUTF8(strings.Join(c.pieces, ""), "\uFFFD"), step.Text)
				assert.Equal(t, []int64{c.wantIn, c.wantOut}, []int64{step.InputTokens, step.OutputTokens})
				assert.Empty(t, s.journal, "the attempt's end stores it")
			})
		}
	}
}

func TestTheTextOfAnAttemptThatFailedIsGoneWhenTheWorkIsStopped(t *testing.T) {
	for _, leaves := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		busy := &model.Error{Kind: model.Retryable, Err: errBroken}
		s := newStage(&script{replies: []turn{cut("half", 140, 10, busy)}}, nil)
		h := &ticking{Host: host.System()}
		s.Host = h
		checks := 0
		s.task.CheckLease = func() error {
			if checks++; checks < 2 {
				return nil
			}
			if !leaves {
				cancel()
				return ctx.Err()
			}
			return errDisturbed
		}
		r, err := s.Work(ctx, s.task)
		cancel()
		require.Error(t, err)
		require.Len(t, r.Last, 1)
		assert.Equal(t, record.CutStep, r.Last[0].Kind)
		assert.Empty(t, r.Last[0].Text)
		assert.EqualValues(t, 150, r.Last[0].InputTokens+r.Last[0].OutputTokens)
	}
}

// A loop counts a call that was cut short, and otherwise ignores it.
func TestALoopGoesOnAfterACallThatWasCutShort(t *testing.T) {
	before := []record.Step{
		{Index: 0, Kind: record.ModelStep, Text: "I look. ",
			Calls: []record.Call{{ID: "0", Name: "act", Arguments: []byte(`{"n":1}`)}}},
		{Index: 1, Kind: record.ToolStep, CallID: "0-0", Name: "act", Outcome: "succeeded", Output: "seen"},
	}
	short := record.Step{Index: 2, Kind: record.CutStep, Text: "The ans", Outcome: "stopped",
		InputTokens: 70, OutputTokens: 7}
	var shown [2][]model.Message
	for n, steps := range [][]record.Step{before, append(slices.Clone(before), short)} {
		m := &script{replies: []turn{textReply("The answer is 5.")}}
		three := 3
		s := newStage(m, offers(func(context.Context, tool.Invocation) (string, error) { return "", errDisturbed }))
		s.task.Steps = steps
		s.task.Agent.Spec.Limits.MaxSteps = &three
		s.task.BudgetExceeded = func(_ context.Context, _, more int64) (string, error) {
			assert.Zero(t, more, "what is journalled was counted")
			return "", nil
		}
		r := s.work(t)
		require.NotNil(t, r.Answer, r.Failure)
		assert.Equal(t, record.TextOf(r.All, lifecycle.Completed), r.Answer.Text)
		assert.NotContains(t, r.Answer.Text, "The ansThe")
		shown[n] = m.shown[0].Messages
	}
	assert.Equal(t, shown[0], shown[1], "the model is not shown it")

	most := 77
	s := newStage(&script{replies: []turn{textReply("done")}}, func(task *agent.Task) {
		task.Steps, task.Agent.Spec.Limits.MaxTokens = []record.Step{short}, &most
	})
	assert.Contains(t, s.work(t).Failure, "limits.max_tokens")
}
