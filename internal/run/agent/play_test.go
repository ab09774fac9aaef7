package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/tool"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/store/citation"
	"agentplatform/internal/store/record"
)

// A play is a whole run that is disturbed at one moment, and then resumes from its journal without disturbance. A
// moment is a call of any dependency of the loop.

// disturbance is the set of failures from a moment on.
type disturbance struct {
	ends   bool // the context of the work ends
	comes  bool // running calls finish nevertheless
	leaves bool // CheckLease returns an error
	lost   bool // Journal returns that the attempt has lost the run
	unread bool // BudgetExceeded fails
	dies   bool // the process ends: steps that are not journalled are lost
}

var disturbances = map[string]disturbance{
	"the process ends":                                {ends: true, dies: true},
	"the work is cancelled":                           {ends: true},
	"the work is cancelled, and running calls finish": {ends: true, comes: true},
	"a hand-over":                                     {leaves: true},
	"the run is lost to another worker":               {lost: true, dies: true},
	"the budgets cannot be read":                      {unread: true},
}

var errDisturbed = errors.New("disturbed")

// turns are the replies. The model's reply depends only on its messages.
func turns() []model.Reply {
	call := func(id, name, arguments string) model.Call {
		return model.Call{ID: id, Name: name, Arguments: json.RawMessage(arguments)}
	}
	var many []model.Call
	for n := range 6 { // more than run in parallel
		for _, name := range []string{"look", "pay"} {
			many = append(many, call(fmt.Sprint(name, n), name, fmt.Sprintf(`{"n":%d}`, n)))
		}
	}
	return []model.Reply{
		{Text: "I look. ", Calls: append(many, call("x", "unknown", `{}`), call("s", "search", `{"query":"fish"}`)),
			Finish: "tool_calls"},
		{Calls: []model.Call{call("y", "unknown", `{}`)}, Finish: "tool_calls"},
		{Calls: []model.Call{
			call(
				"ask",
				model.AskUser,
				`{"question":"Where?"}`,
			),
			call("pay", "pay", `{"n":8}`),
			call("z", "unknown", `{}`),
		}, Finish: "tool_calls"},
		{Calls: []model.Call{call("ask2", model.AskUser, `{"question":"Sure?"}`)}, Finish: "tool_calls"},
		{Text: "Oslo", Finish: "stop"},
		{Text: `{"city":"Oslo"}`, Finish: "stop"},
	}
}

type play struct {
	*stage

	t    *testing.T
	does disturbance
	at   int // the first moment of the disturbance

	mu        sync.Mutex
	moment    int
	over      bool           // the disturbance has ended
	refused   bool           // a call returned the disturbance's error
	unsure    bool           // it is unknown whether this attempt holds the run
	stop      func()         // cancels the context of the work
	failed    bool           // the model has failed once
	late      int            // model calls after the work had ended
	made      map[string]int // calls, by their keys
	questions map[string]int // questions to a person about a call's unknown outcome, by key
	shown     []model.Message
}

func newPlay(t *testing.T, does disturbance, at int) *play {
	p := &play{t: t, does: does, at: at, made: map[string]int{}, questions: map[string]int{}}
	p.stage = newStage(p, structured)
	p.Host = &awake{Host: host.System(), meet: p.meet}
	p.task.Agent.Spec.CanAsk = true
	p.task.Tools = []tool.Offer{
		{Spec: tool.Spec{Name: "look", RetrySafe: true}, Call: p.call},
		{Spec: tool.Spec{Name: "pay"}, Call: p.call},
	}
	p.task.Agent.Spec.Knowledge.Always = true
	p.task.Search = p.search
	p.task.CheckLease = func() error { return p.refuse(p.meet(), p.does.leaves) }
	p.task.BudgetExceeded = func(context.Context, int64, int64) (string, error) {
		return "", p.refuse(p.meet(), p.does.unread)
	}
	p.task.Journal = func(ctx context.Context, steps []record.Step) error {
		if err := errors.Join(ctx.Err(), p.refuse(p.meet(), p.does.lost)); err != nil {
			p.unsure = true
			return err
		}
		assert.NotEmpty(t, steps)
		assert.LessOrEqual(t, len(steps), 30, "as many as a commit has room for")
		p.mu.Lock()
		defer p.mu.Unlock()
		p.journal = append(p.journal, steps...)
		return nil
	}
	return p
}

// meet is a moment; it reports whether the disturbance is active.
func (p *play) meet() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.moment++; p.moment > 1000 {
		panic("the loop goes on and on")
	}
	on := p.moment >= p.at && !p.over
	if on && p.does.ends {
		p.stop()
	}
	return on
}

func (p *play) refuse(on, no bool) error {
	if !on || !no {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused = true
	return errDisturbed
}

func (p *play) Converse(ctx context.Context, r model.Request, emit func(string)) (model.Reply, error) {
	p.mu.Lock()
	if ctx.Err() != nil {
		p.late++
	}
	assert.LessOrEqual(
		p.t,
		p.late,
		1,
		"once the work has ended, no model is called, but for a call that was about to be",
	)
	assert.False(p.t, p.refused, "nor when somebody has said no")
	failed := p.failed
	p.failed = true
	p.shown = r.Messages
	p.mu.Unlock()
	emit("I")
	p.meet()
	if ctx.Err() != nil && !p.does.comes {
		return model.Reply{}, ctx.Err()
	}
	if !failed {
		return model.Reply{}, model.Fail(model.Retryable, "busy")
	}
	answered := 0
	for _, m := range r.Messages {
		if m.Role == model.Assistant {
			answered++
		}
	}
	reply := turns()[answered]
	reply.InputTokens, reply.OutputTokens = 7, 3
	return reply, nil
}

func (p *play) call(ctx context.Context, i tool.Invocation) (tool.Result, error) {
	p.mu.Lock()
	p.made[i.IdempotencyKey]++
	if i.Name == "pay" {
		assert.True(p.t, slices.ContainsFunc(p.journal, func(s record.Step) bool {
			return s.Kind == record.StartStep && "run-"+s.CallID == i.IdempotencyKey
		}), "what must not be made twice is announced before")
	}
	p.mu.Unlock()
	p.meet()
	if ctx.Err() != nil && !p.does.comes {
		return tool.Result{}, ctx.Err()
	}
	return tool.TextResult(i.Name + string(i.Arguments)), nil
}

// search finds one passage for every query, and one for this query.
func (p *play) search(ctx context.Context, query string) ([]record.Source, record.Embeddings, error) {
	p.meet()
	if ctx.Err() != nil && !p.does.comes {
		return nil, nil, ctx.Err()
	}
	return []record.Source{
		{Document: "d", Text: "all"}, {Document: "d", Text: query, Chunk: record.Passage{Start: 1 + len(query)}},
	}, record.Embeddings{{Model: "p/e", Tokens: 1}}, nil
}

// attempt works once, like an attempt of a worker, and stores the result.
func (p *play) attempt() (answer json.RawMessage) {
	ctx, stop := context.WithCancel(p.t.Context())
	defer stop()
	p.stop = stop
	slices.SortFunc(p.journal, func(a, b record.Step) int { return a.Index - b.Index })
	p.task.Attempt++
	p.task.Steps = slices.Clone(p.journal)
	r, err := p.Work(ctx, p.task)
	if err != nil {
		require.True(p.t, p.refused || ctx.Err() != nil, "%v", err)
		if p.refused {
			require.ErrorIs(p.t, err, errDisturbed)
		} else {
			require.ErrorIs(p.t, err, context.Canceled)
		}
		if !p.does.dies && !p.unsure {
			p.journal = append(p.journal, r.Last...) // as a release does
		}
		p.over, p.refused = true, false
		return nil
	}
	require.False(p.t, p.refused, "a no is never passed over")
	require.Empty(p.t, r.Failure)
	p.journal = append(p.journal, r.Last...)
	if r.Answer != nil {
		slices.SortFunc(p.journal, func(a, b record.Step) int { return a.Index - b.Index })
		assert.Equal(p.t, p.journal, r.All, "the journal is all that was done")
		return r.Answer.Output
	}
	require.NotEmpty(p.t, r.Interrupts)
	p.task.Pauses = append(p.task.Pauses, r.Interrupts)
	for _, i := range r.Interrupts {
		d := record.Decision{InterruptID: i.ID, Decision: "approve"}
		if i.Kind == "clarification" {
			d.Decision, d.Message = "answer", "there"
		}
		if i.Unsure {
			p.questions["run-"+i.Call]++
		}
		p.task.Decided[i.ID] = d
	}
	return nil
}

// whole plays until there is an answer.
func (p *play) whole() {
	var answer json.RawMessage
	for n := 0; answer == nil; n++ {
		require.Less(p.t, n, 10)
		answer = p.attempt()
	}
	assert.JSONEq(p.t, `{"city":"Oslo"}`, string(answer))
}

// withoutNotes are messages without the notes on their calls, and the number of notes.
func withoutNotes(messages []model.Message) (clean []model.Message, noted int) {
	for _, m := range messages {
		m.Results = slices.Clone(m.Results)
		for i := range m.Results {
			if m.Results[i].Note != "" {
				m.Results[i].Note = ""
				noted++
			}
		}
		clean = append(clean, m)
	}
	return clean, noted
}

// awake is a host whose sleeps take no time.
type awake struct {
	host.Host

	meet func() bool
}

func (a *awake) Sleep(ctx context.Context, _ time.Duration) error {
	a.meet()
	return ctx.Err()
}

// After any interruption at any moment, the journal is enough to resume to the same result. No call that must not be
// repeated is made twice. No person must decide about a call whose outcome is known.
func TestWorkInterruptedAnywhereResumesToTheSameResult(t *testing.T) {
	calm := newPlay(t, disturbance{}, 0)
	calm.whole()
	require.Len(t, calm.made, 13)
	for name, does := range disturbances {
		t.Run(name, func(t *testing.T) {
			for at, last := 1, false; !last; at++ {
				p := newPlay(t, does, at)
				p.whole()
				last = p.moment < at
				known := !does.dies && (!does.ends || does.comes) // the outcome of every call
				shown, noted := withoutNotes(p.shown)
				assert.Equal(t, calm.shown, shown, "the model is shown the same")
				assert.Equal(t, len(p.questions), noted, "but that it is not known how a call has ended")
				assert.Len(t, citation.All(p.journal), 3, "each passage has one number")
				began, ended, indices := map[string]int{}, map[string]int{}, map[int]bool{}
				for _, s := range p.journal {
					assert.False(t, indices[s.Index], "each step has an index of its own")
					indices[s.Index] = true
					switch {
					case s.Kind == record.ToolStep:
						ended["run-"+s.CallID]++
					case s.Kind == record.StartStep && s.Outcome == "started":
						began["run-"+s.CallID]++
					case s.Kind == record.StartStep:
						began["run-"+s.CallID]--
					}
				}
				require.Len(t, p.made, len(calm.made))
				for key, made := range p.made {
					assert.Equal(t, 1, ended[key], "each call has one result: %s", key)
					if began[key] > 0 && !does.dies {
						assert.Equal(t, made, began[key], "the journal tells how often it was made: %s", key)
					}
					switch {
					case known:
						assert.Equal(t, 1, made, "%s, disturbed at %d", key, at)
						assert.Zero(t, p.questions[key], "%s, disturbed at %d", key, at)
					case began[key] > 0:
						assert.LessOrEqual(t, made, 1+p.questions[key], "again only when a human says so: %s", key)
						assert.LessOrEqual(t, p.questions[key], 1)
					default:
						assert.LessOrEqual(t, made, 2)
					}
				}
				if t.Failed() {
					t.Fatalf("disturbed at moment %d", at)
				}
			}
		})
	}
}
