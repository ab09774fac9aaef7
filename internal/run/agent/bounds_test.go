package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// turned is a turn that always returns the same reply.
func turned(r model.Reply) turn {
	return func(model.Request) (model.Reply, error) { return r, nil }
}

// replyBytes returns the texts of a run: its failure, and the result of each call for the model.
func resultText(r agent.Result) string {
	all := []string{r.Failure}
	for _, step := range r.All {
		if step.Kind == record.ToolStep {
			all = append(all, step.Output)
		}
	}
	return strings.Join(all, "\n")
}

// A limit is the highest value that is accepted.
func TestReplyIsAcceptedUpToEachLimit(t *testing.T) {
	const question = "a question may have 16384 bytes and 100 options"
	asks := func(question string, options int) model.Reply {
		arguments, _ := json.Marshal(
			map[string]any{"question": question, "options": slices.Repeat([]string{"o"}, options)},
		)
		return model.Reply{Calls: []model.Call{{Name: model.AskUser, Arguments: arguments}}}
	}
	for name, c := range map[string]struct {
		bound int
		reply func(n int) model.Reply
		want  string
	}{
		"text": {4 << 20, func(n int) model.Reply { return model.Reply{Text: long(n)} },
			"the model's reply is over 4 MiB"},
		"calls": {256, func(n int) model.Reply {
			return model.Reply{Calls: slices.Repeat([]model.Call{act("a", `{"n":1}`)}, n)}
		}, "the limit is 256"},
		"arguments": {2 << 20, func(n int) model.Reply {
			var r model.Reply
			for left := 16; left > 0; left-- { // each within the limit of one call
				one := n / left
				r.Calls = append(r.Calls, act("a", `{"n":1}`+strings.Repeat(" ", one-7)))
				n -= one
			}
			return r
		}, "the limit is 2097152"},
		"a question":                  {16 << 10, func(n int) model.Reply { return asks(long(n), 1) }, question},
		"options of a short question": {100, func(n int) model.Reply { return asks("?", n) }, question},
	} {
		t.Run(name, func(t *testing.T) {
			for extra := range 2 {
				reply := c.reply(c.bound + extra)
				s := newStage(&script{replies: []turn{turned(reply), textReply("done")}}, approved(new([]string)))
				s.task.Agent.Spec.CanAsk = true
				r := s.work(t)
				assert.Equal(t, extra == 1, strings.Contains(resultText(r), c.want),
					"%d: %s", extra, tool.Clip(resultText(r), 100))
			}
		})
	}
}

// The limit also applies to streamed text: no more is sent, and the call is cancelled.
func TestEndlessTextIsCancelledAtTheLimit(t *testing.T) {
	for name, c := range map[string]struct {
		pieces []int
		shown  int
		over   bool
	}{
		"exactly at the limit":  {[]int{1, 4<<20 - 1}, 4 << 20, false},
		"one more":              {[]int{4 << 20, 1}, 4 << 20, true},
		"all at once":           {[]int{4<<20 + 1}, 0, true},
		"without end":           {slices.Repeat([]int{1 << 20}, 8), 4 << 20, true},
		"ends beyond the limit": {[]int{3 << 20, 2 << 20, 0, 0}, 3 << 20, true},
	} {
		t.Run(name, func(t *testing.T) {
			shown := &strings.Builder{}
			m := pieces(func(ctx context.Context, emit func(string)) (model.Reply, error) {
				whole := 0
				for _, n := range c.pieces {
					emit(long(n))
					whole += n
					if ctx.Err() != nil {
						return model.Reply{InputTokens: 7}, ctx.Err() // like an adapter whose call was cancelled
					}
				}
				return model.Reply{Text: long(whole), Finish: "stop", InputTokens: 7, OutputTokens: 900_000}, nil
			})
			s := newStage(m, nil)
			s.task.Output = textRecorder{text: shown}
			r := s.work(t)
			assert.Equal(t, c.shown, shown.Len())
			require.Len(t, r.All, 1, "what it used counts")
			if !c.over {
				require.NotNil(t, r.Answer)
				assert.EqualValues(t, 900_000, r.All[0].OutputTokens)
				return
			}
			assert.Equal(t, "the model's reply is over 4 MiB", r.Failure)
			assert.Greater(t, r.All[0].OutputTokens, int64(1<<20), "about as much as it has said")
			assert.EqualValues(t, 7, r.All[0].InputTokens)
		})
	}
	t.Run("of work that has ended", func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		s := newStage(pieces(func(ctx context.Context, emit func(string)) (model.Reply, error) {
			stop()
			emit(long(5 << 20))
			return model.Reply{}, ctx.Err()
		}), nil)
		r, err := s.Work(ctx, s.task)
		require.ErrorIs(t, err, context.Canceled)
		assert.Empty(t, r.Failure)
	})
}

// pieces is a model that streams its text in pieces.
type pieces func(ctx context.Context, emit func(string)) (model.Reply, error)

func (p pieces) Converse(ctx context.Context, _ model.Request, emit func(string)) (model.Reply, error) {
	return p(ctx, emit)
}

// A text that is too long is journalled up to the limit.
func TestTextBeyondTheLimitIsJournalledUpToIt(t *testing.T) {
	s := newStage(&script{replies: []turn{textReply(long(4<<20-1) + "é")}}, nil)
	r := s.work(t)
	require.Len(t, r.All, 1)
	assert.Equal(t, long(4<<20-1)+"\uFFFD", r.All[0].Text)
}

func TestToolResultIsShownWholeUpToItsLimit(t *testing.T) {
	for extra := range 2 {
		text := long(256<<10 + extra)
		s := newStage(
			&script{replies: []turn{calls("a", "act", `{"n":1}`), textReply("done")}},
			offers(func(context.Context, tool.Invocation) (string, error) { return text, nil }),
		)
		r := s.work(t)
		assert.Equal(t, extra == 0, r.All[1].Output == text)
		assert.Len(t, r.All[1].Files, extra)
	}
}

func TestTokenClaimCountsWithinPlausibleBounds(t *testing.T) {
	request := model.Message{
		Role: model.User, Text: long(40), Texts: []model.Text{{Text: long(400)}, {Text: long(400)}},
		Results: []model.Result{{Text: long(2000)}, {Text: long(2000)}},
	}
	const requestBytes, replyBytes = 4 + 40 + 800 + 4000, 8 + 16 + 80 + 16 + 80 // bytes
	const requestTokens, replyTokens = requestBytes / 4, replyBytes / 4
	const leastIn, leastOut = (requestBytes + 31) / 32, (replyBytes + 31) / 32
	const mostIn, mostOut = requestBytes + 1<<20, replyBytes + 1<<20
	for _, c := range []struct{ in, out, wantIn, wantOut int64 }{
		{leastIn, leastOut, leastIn, leastOut},
		{mostIn, mostOut, mostIn, mostOut},
		{leastIn - 1, leastOut, requestTokens, leastOut},
		{leastIn, leastOut - 1, leastIn, replyTokens},
		{mostIn + 1, mostOut, requestTokens, mostOut},
		{mostIn, mostOut + 1, mostIn, replyTokens},
		{-1, leastOut, requestTokens, leastOut},
		{leastIn, -1, leastIn, replyTokens},
		{0, 0, requestTokens, replyTokens},
	} {
		reply := model.Reply{Text: long(8), InputTokens: c.in, OutputTokens: c.out}
		for range 2 {
			reply.Calls = append(
				reply.Calls,
				model.Call{Name: long(16), Arguments: json.RawMessage(`{"x":"` + long(72) + `"}`)},
			)
		}
		s := newStage(&script{replies: []turn{turned(reply), textReply("done")}}, func(task *agent.Task) {
			task.Agent.Spec.Instructions = "help"
			task.Message = request
		})
		r := s.work(t)
		assert.Equal(t, [2]int64{c.wantIn, c.wantOut}, [2]int64{r.All[0].InputTokens, r.All[0].OutputTokens}, "%+v", c)
	}
}

// A run may take as many steps as its agent allows, the answer included. The model is not called again then.
func TestStepAndTokenLimitsAllowTheLastOne(t *testing.T) {
	var made int
	endless := func(r model.Request) (model.Reply, error) {
		call := act("", fmt.Sprintf(`{"n":%d}`, len(r.Messages)))
		return model.Reply{Calls: []model.Call{call}, InputTokens: 60, OutputTokens: 40}, nil
	}
	dear := turned(model.Reply{Text: "hi", InputTokens: 100})
	steps := func(n int) string {
		return fmt.Sprintf("the run took %d steps, the limit of its agent (limits.max_steps)", n)
	}
	tokens := func(used, may int) string {
		return fmt.Sprintf("the run used %d tokens; its agent may use %d (limits.max_tokens)", used, may)
	}
	for name, c := range map[string]struct {
		steps, tokens int // 0: not set
		replies       []turn
		taken, made   int
		failure       string
	}{
		"exactly the limit":      {4, 0, []turn{endless, endless}, 4, 2, steps(4)},
		"the last asks for more": {3, 0, []turn{endless, endless}, 3, 1, steps(3)},
		"the last answers":       {3, 0, []turn{endless, textReply("done")}, 3, 1, ""},
		"no limit set":           {0, 0, slices.Repeat([]turn{endless}, 60), 100, 50, steps(100)},
		"all its tokens":         {0, 200, slices.Repeat([]turn{endless}, 9), 3, 1, tokens(200, 200)},
		"one token left":         {0, 201, slices.Repeat([]turn{endless}, 9), 5, 2, tokens(300, 201)},
		"the last tokens answer": {0, 100, []turn{dear}, 1, 0, ""},
		"a budget of others":     {0, 0, slices.Repeat([]turn{endless}, 9), 3, 1, "200 are too many"},
	} {
		t.Run(name, func(t *testing.T) {
			made = 0
			m := &script{replies: c.replies}
			s := newStage(m, offers(func(context.Context, tool.Invocation) (string, error) {
				made++
				return "ok", nil
			}))
			if c.steps > 0 {
				s.task.Agent.Spec.Limits.MaxSteps = &c.steps
			}
			if c.tokens > 0 {
				s.task.Agent.Spec.Limits.MaxTokens = &c.tokens
			}
			if strings.Contains(c.failure, "too many") {
				s.task.BudgetExceeded = func(_ context.Context, used, tokens int64) (string, error) {
					for _, step := range s.journal {
						tokens += step.InputTokens + step.OutputTokens
					}
					assert.Equal(t, tokens, used)
					if tokens < 200 {
						return "", nil
					}
					return fmt.Sprint(tokens, " are too many"), nil
				}
			}
			r := s.work(t)
			assert.Equal(t, c.failure, r.Failure)
			assert.Equal(t, c.failure == "", r.Answer != nil)
			assert.Len(t, r.All, c.taken)
			assert.Equal(t, c.made, made)
		})
	}
}

// Repetition ends a run: ten consecutive rounds of identical calls, or three consecutive calls of one tool with invalid
// arguments.
func TestOnlyRepeatedIdenticalOrInvalidCallsEndTheRun(t *testing.T) {
	unfit := func(name string) model.Call { return model.Call{Name: name, Arguments: json.RawMessage(`{"n":"one"}`)} }
	n := 0
	next := func() int { n++; return n }
	rounds := map[rune]func() model.Reply{
		'a': func() model.Reply { return model.Reply{Calls: []model.Call{act("", `{"n":1}`)}} },
		'b': func() model.Reply { return model.Reply{Calls: []model.Call{act("", `{"n":2}`)}} },
		'c': func() model.Reply { return model.Reply{Calls: []model.Call{act("", `{"n":1}`), act("", `{"n":1}`)}} },
		'n': func() model.Reply { return model.Reply{Calls: []model.Call{act("", fmt.Sprintf(`{"n":%d}`, next()))}} },
		'f': func() model.Reply { // the call fails
			return model.Reply{Calls: []model.Call{act("", fmt.Sprintf(`{"n":-%d}`, next()))}}
		},
		'u': func() model.Reply { return model.Reply{Calls: []model.Call{unfit("act")}} },
		'v': func() model.Reply { return model.Reply{Calls: []model.Call{unfit("other")}} },
		'w': func() model.Reply { return model.Reply{Calls: []model.Call{unfit("act"), unfit("other")}} },
		'!': func() model.Reply { return model.Reply{Text: "Oslo"} }, // must be repaired
		'.': func() model.Reply { return model.Reply{Text: `{"city":"Oslo"}`} },
	}
	const circles = "the agent called act with the same arguments 10 times one after another"
	const misses = "3 times one after another with arguments that do not fit"
	for script, c := range map[string]struct {
		failure string
		made    int
	}{
		"aaaaaaaaaa.":             {circles, 9},
		"baaaaaaaaaa.":            {circles, 10},
		"cccccccccc.":             {circles, 18},
		"aaaaaaaaa.":              {"", 9},
		"aaaaaaaaa!.":             {"", 9},
		"aaaaa!aaaaa.":            {"", 10},
		"aaaaaaaaaba.":            {"", 11},
		"ababababababababababab.": {"", 22},
		"aaaacaaaaaa.":            {"", 12},
		"uuu.":                    {misses, 0},
		"nuuu.":                   {misses, 1},
		"uvuvu.":                  {"the agent called act " + misses, 0},
		"vnvnv.":                  {"the agent called other " + misses, 2},
		"ww":                      {"the script is over", 0},
		"uunuu.":                  {"", 1},
		"uufuu.":                  {"", 1},
		"vuvu.":                   {"", 0},
		"ffff.":                   {"", 4},
	} {
		t.Run(script, func(t *testing.T) {
			n = 0
			m := &playback{}
			for _, letter := range script {
				m.replies = append(m.replies, rounds[letter])
			}
			made := make(chan struct{}, 100)
			s := newStage(m, offers(func(_ context.Context, i tool.Invocation) (string, error) {
				made <- struct{}{}
				if strings.Contains(string(i.Arguments), "-") {
					return "", errors.New("no")
				}
				return "ok", nil
			}))
			structured(&s.task)
			other := s.task.Tools[0]
			other.Name = "other"
			s.task.Tools = append(s.task.Tools, other)
			r := s.work(t)
			assert.Contains(t, r.Failure, c.failure)
			assert.Equal(t, c.failure == "", r.Answer != nil, r.Failure)
			assert.Len(t, made, c.made)
		})
	}
}

// playback is a model that replies in order.
type playback struct{ replies []func() model.Reply }

func (p *playback) Converse(context.Context, model.Request, func(string)) (model.Reply, error) {
	if len(p.replies) == 0 {
		return model.Reply{}, model.Fail(model.BadRequest, "the script is over")
	}
	reply := p.replies[0]()
	p.replies = p.replies[1:]
	return reply, nil
}

// A request with more tools than providers accept is not sent. No tool is left out silently.
func TestARunWithTooManyToolsFailsInWords(t *testing.T) {
	for n, fails := range map[int]bool{tool.MaxOffered - 1: false, tool.MaxOffered: true} {
		m := &script{replies: []func(model.Request) (model.Reply, error){textReply("done")}}
		s := newStage(m, func(task *agent.Task) {
			task.Agent.Spec.CanAsk = true
			for i := range n {
				o := tool.Offer{Spec: tool.Spec{Name: fmt.Sprint("t", i), Parameters: []byte(`{"type":"object"}`)}}
				task.Tools = append(task.Tools, o)
			}
		})
		r := s.work(t)
		if !fails {
			assert.Empty(t, r.Failure)
			assert.Len(t, m.shown[0].Tools, tool.MaxOffered)
			continue
		}
		assert.Contains(t, r.Failure, "the agent and its client have 129 tools, but the limit is 128")
		assert.Empty(t, m.shown)
	}
}
