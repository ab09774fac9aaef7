package sim

import (
	"context"
	"encoding/json"
	"math"
	"strings"

	"agentplatform/internal/lifecycle"
	"agentplatform/internal/model"
	"agentplatform/internal/record"
	"agentplatform/internal/tool"
)

// liar is a model that cannot be trusted: it numbers its calls as it likes, sends arguments that nobody can read, and claims to
// have used whatever it likes.
type liar struct {
	model.Model

	world *world
}

// unreadable are arguments that some readers understand, each in its own way, and others not at all.
var unreadable = []string{`{"n":1,"n":2}`, `{"n":"\ud800"}`, `{"n":1`, `[]`, ``, `{} {}`}

func (l *liar) Converse(ctx context.Context, r model.Request, emit func(string)) (model.Reply, error) {
	reply, err := l.Model.Converse(ctx, r, emit)
	if err != nil || l.world.quiet {
		return reply, err
	}
	work := l.world.work
	for i := range reply.Calls {
		switch c := &reply.Calls[i]; work.IntN(8) {
		case 0:
			c.ID = ""
		case 1, 2:
			c.ID = "same"
		case 3:
			c.ID = []string{"0", "1", "0-0", "call_0-1"}[work.IntN(4)]
		case 4:
			if c.Name != model.AskUser {
				c.Arguments = json.RawMessage(unreadable[work.IntN(len(unreadable))])
			}
		}
	}
	switch work.IntN(10) {
	case 0:
		reply.InputTokens, reply.OutputTokens = 0, 0
	case 1:
		reply.InputTokens, reply.OutputTokens = -1000, -1
	case 2:
		reply.OutputTokens = math.MaxInt64
	}
	return reply, nil
}

// store reads what is stored as the service would.
func (c *checker) store() *record.Store { return record.New(c.world.inner, c.world.blobs, nil) }

// approved checks that a call of an agent that asks for every call is one that a human has let pass, with these arguments.
func (c *checker) approved(r record.Run, i tool.Invocation) {
	if c.world.modes[r.Agent] != "always" {
		return
	}
	_, key, _ := strings.Cut(i.IdempotencyKey, "-")
	pauses, decided, err := c.store().Pauses(context.Background(), r.ID())
	must(err)
	passed := ""
	for _, pause := range pauses {
		for _, one := range pause {
			if one.Call != key {
				continue
			}
			switch d := decided[one.ID]; lifecycle.Verb(d.Decision) {
			case lifecycle.Approve:
				passed = string(one.Tool.Arguments)
			case lifecycle.Edit:
				passed = string(d.Arguments)
			default: // rejected, or not decided: whatever was said before
				passed = ""
			}
		}
	}
	if passed != string(i.Arguments) {
		c.violated(17, "%s is called with %s, and what was let pass is %q", i.IdempotencyKey, i.Arguments, passed)
	}
}

// accounted checks that what a run that rests has used is at least what its journal says, call by call.
func (c *checker) accounted(r record.Run) {
	journal, err := c.store().Journal(context.Background(), r.ID())
	must(err)
	var calls, in, out int64
	for _, step := range journal {
		if step.Kind != record.ModelStep {
			continue
		}
		calls++
		in += step.InputTokens
		out += step.OutputTokens
		if step.InputTokens < 0 || step.OutputTokens < 0 || step.OutputTokens > math.MaxInt32 {
			c.violated(18, "step %d of run %s claims %d and %d tokens", step.Index, r.ID(), step.InputTokens, step.OutputTokens)
		}
	}
	if u := r.Usage; u.ModelCalls < calls || u.InputTokens < in || u.OutputTokens < out {
		c.violated(18, "run %s is %s and has used %+v; its journal has %d calls of the model with %d and %d tokens", r.ID(), r.Status, u, calls, in, out)
	}
}
