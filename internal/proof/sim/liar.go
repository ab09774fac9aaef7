package sim

import (
	"context"
	"encoding/json"
	"math"

	"agentplatform/internal/ai/model"
)

// liar is a model that is not trustworthy: it chooses any ids for its calls, sends unreadable arguments, and
// reports any usage.
type liar struct {
	model.Model

	world *world
}

// unreadable are arguments that parsers read differently or not at all.
var unreadable = []string{`{"n":1,"n":2}`, `{"n":"\ud800"}`, `{"n":1`, `[]`, ``, `{} {}`}

func (l *liar) Converse(ctx context.Context, r model.Request, emit func(string)) (model.Reply, error) {
	reply, err := l.Model.Converse(ctx, r, emit)
	if err != nil || l.world.quiet || !l.world.strange {
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
