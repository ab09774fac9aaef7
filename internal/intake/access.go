package intake

import (
	"context"

	"agentplatform/internal/lifecycle"
	"agentplatform/internal/record"
	"agentplatform/internal/tenant"
)

// Whatever a client has to do with a run or a chat that is there goes through here, whichever door it came by: an
// agent that works for groups shows what it did to nobody else.

// Run reads a run for a client who may have to do with it.
func (in *Intake) Run(ctx context.Context, p tenant.Principal, id string) (record.RunEntity, error) {
	e, err := in.Store.LiveRun(ctx, p.Scope(), id)
	if err != nil {
		return e, err
	}
	if err := in.Tenants.MayReach(ctx, p, e.Value.Agent); err != nil {
		return record.RunEntity{}, err
	}
	return e, nil
}

// RunsFor leaves out the runs that a client may have nothing to do with.
func (in *Intake) RunsFor(
	ctx context.Context, p tenant.Principal, runs []record.RunEntity,
) ([]record.RunEntity, error) {
	reachable := in.Tenants.Reachable(ctx, p)
	kept := runs[:0]
	for _, e := range runs {
		may, err := reachable(e.Value.Agent)
		if err != nil {
			return nil, err
		}
		if may {
			kept = append(kept, e)
		}
	}
	return kept, nil
}

// Chat reads a chat for a client who may have to do with an agent that took part in it.
func (in *Intake) Chat(ctx context.Context, p tenant.Principal, id string) (record.ChatEntity, error) {
	e, err := in.Store.Chat(ctx, p.Scope(), id)
	if err != nil {
		return e, err
	}
	seen, may, err := in.Seen(ctx, p, e.Value)
	if err == nil && !may {
		err = in.mayJoin(ctx, p, e.Value)
	}
	if err != nil {
		return record.ChatEntity{}, err
	}
	e.Value = seen
	return e, nil
}

// Seen is a chat as a client may see it, and whether it may at all. The title is of the first message, so it belongs
// to the first agent.
func (in *Intake) Seen(
	ctx context.Context, p tenant.Principal, c lifecycle.Chat,
) (seen lifecycle.Chat, may bool, err error) {
	if p.Level.Covers(tenant.LevelAdmin) {
		return c, true, nil
	}
	agents, err := in.agentsOf(ctx, c)
	if err != nil {
		return c, false, err
	}
	reachable := in.Tenants.Reachable(ctx, p)
	may = len(agents) == 0
	for i, agent := range agents {
		yes, err := reachable(agent)
		if err != nil {
			return c, false, err
		}
		if may = may || yes; i == 0 && !yes {
			c.Title = ""
		}
	}
	return c, may, nil
}

// mayJoin is nil when a client may speak in a chat, or take it away: it must reach every agent that took part, as the
// next one is told what they said.
func (in *Intake) mayJoin(ctx context.Context, p tenant.Principal, c lifecycle.Chat) error {
	if p.Level.Covers(tenant.LevelAdmin) {
		return nil
	}
	agents, err := in.agentsOf(ctx, c)
	if err != nil {
		return err
	}
	return in.Tenants.MayReach(ctx, p, agents...)
}

// agentsOf are the agents that took part in a chat. One from before they were noted has them in its runs.
func (in *Intake) agentsOf(ctx context.Context, c lifecycle.Chat) ([]string, error) {
	if len(c.Agents) > 0 || c.LastRun == "" {
		return c.Agents, nil
	}
	const page = 100
	var agents []string
	for turn := 0; ; {
		runs, next, err := in.Store.TurnsOfChat(ctx, record.System(), c, turn, page)
		if err != nil {
			return nil, err
		}
		for _, e := range runs {
			agents = append(agents, e.Value.Agent)
		}
		if turn = next; turn == 0 {
			return agents, nil
		}
	}
}
