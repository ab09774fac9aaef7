package intake

import (
	"context"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/store/record"
)

// Access to existing runs and chats. All endpoints use these functions. Runs of an agent that names groups are for
// these groups only. A private chat is for its user and for managers.

// owned sets the owner of a run that an earlier version stored, from its chat. The owner stays unknown if the chat was
// deleted since. The only errors are those of the store.
func (in *Intake) owned(ctx context.Context, r *record.Run) error {
	if r.Owner() != "" {
		return nil
	}
	chat, found, err := in.Store.ChatOf(ctx, r.RunSpec)
	if err == nil && found && !chat.Value.Deleted && chat.Value.Epoch == r.Epoch {
		r.ChatUser = chat.Value.User
	}
	return err
}

// MaySee returns nil if a client may see a run, and sets the owner of the run. It returns the errors of
// [tenant.Tenants.CanAccess].
func (in *Intake) MaySee(ctx context.Context, p tenant.Principal, r *record.Run) error {
	err := in.owned(ctx, r)
	if err == nil {
		err = in.Tenants.CanAccess(ctx, p, r.Whose())
	}
	return err
}

// Sees returns a function that reports whether a client may see a run of a list. The only errors are those of the
// store.
func (in *Intake) Sees(ctx context.Context, p tenant.Principal) func(record.Run) (bool, error) {
	reachable := in.Tenants.Reachable(ctx, p)
	return func(r record.Run) (bool, error) {
		may, err := reachable(r.Whose())
		if err != nil || may || r.Owner() != "" {
			return may, err
		}
		if err = in.owned(ctx, &r); err != nil || r.Owner() == "" {
			return false, err
		}
		return reachable(r.Whose())
	}
}

// Run reads a run for a client that may see it. It returns a problem of kind NotFound, also for a run that is
// being deleted, or of kind Forbidden: outside_organization or insufficient_permission.
func (in *Intake) Run(ctx context.Context, p tenant.Principal, id string) (record.RunEntity, error) {
	e, err := in.Store.LiveRun(ctx, p.Scope(), id)
	if err != nil {
		return e, err
	}
	if err := in.MaySee(ctx, p, &e.Value); err != nil {
		return record.RunEntity{}, err
	}
	return e, nil
}

// RunsFor filters out the runs that a client may not see; it reuses the array of runs. The only errors are those of the
// store.
func (in *Intake) RunsFor(
	ctx context.Context, p tenant.Principal, runs []record.RunEntity,
) ([]record.RunEntity, error) {
	sees := in.Sees(ctx, p)
	kept := runs[:0]
	for _, e := range runs {
		may, err := sees(e.Value)
		if err != nil {
			return nil, err
		}
		if may {
			kept = append(kept, e)
		}
	}
	return kept, nil
}

// Chat reads a chat, as [Intake.Seen] returns it, for a client with access to at least one agent that took part in it.
// It returns a problem of kind NotFound or Forbidden.
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

// Seen returns a chat as a client may see it, and whether the client may see it at all. The title comes from the first
// message, so it is removed for clients without access to the first agent. The only errors are those of the store.
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
	if len(agents) == 0 {
		may, err = reachable(c.Whose(""))
		return c, may, err
	}
	for i, agent := range agents {
		yes, err := reachable(c.Whose(agent))
		if err != nil {
			return c, false, err
		}
		if may = may || yes; i == 0 && !yes {
			c.Title = ""
		}
	}
	return c, may, nil
}

// mayJoin returns nil if a client may write into a chat, or delete it. The client must see the chat and have access to
// every agent that took part, because the next agent receives their answers. Otherwise it returns a problem of kind
// Forbidden or NotFound.
func (in *Intake) mayJoin(ctx context.Context, p tenant.Principal, c lifecycle.Chat) error {
	if p.Level.Covers(tenant.LevelAdmin) {
		return nil
	}
	agents, err := in.agentsOf(ctx, c)
	if err != nil {
		return err
	}
	var all []lifecycle.Whose
	for _, agent := range agents {
		all = append(all, c.Whose(agent))
	}
	if len(all) == 0 {
		all = append(all, c.Whose(""))
	}
	return in.Tenants.CanAccess(ctx, p, all...)
}

// agentsOf returns the agents that took part in a chat. Earlier versions did not store them in the chat; they are then
// read from its runs.
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
