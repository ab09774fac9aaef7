package intake

import (
	"context"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/store/record"
)

// Access to existing runs and chats. All endpoints go through here: what an agent that names groups did is shown to
// nobody else.

// Run reads a run for a client that may reach its agent. It returns a problem of kind NotFound, also for a run that is
// being deleted, or of kind Forbidden: outside_organization or insufficient_permission.
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

// RunsFor filters out the runs whose agents a client may not reach; it reuses the array of runs. The only errors are
// failures of the store.
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

// Chat reads a chat, as [Intake.Seen] shows it, for a client that may reach at least one agent that took part in it. It
// returns a problem of kind NotFound or Forbidden.
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

// Seen returns a chat as a client may see it, and whether the client may see it at all. The title is taken from the
// first message, so it is removed for clients that may not reach the first agent. The only errors are failures of the
// store.
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

// mayJoin returns nil when a client may write into a chat, or delete it: it must reach every agent that took part,
// because the next one is told what they said. Otherwise it returns a problem of kind Forbidden or NotFound.
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

// agentsOf are the agents that took part in a chat. Chats from before they were noted have them in their runs.
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
