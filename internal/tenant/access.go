package tenant

import (
	"context"
	"slices"

	"agentplatform/internal/problem"
	"agentplatform/internal/record"
)

// Who may use an agent, and have to do with what it did, is decided here: an agent that names groups is for their
// members, and for admins. It is the agent as it stands now that says so, whatever version of it a run has, and the
// groups that are there now.

// in says whether the principal's user belongs to one of the groups.
func (p Principal) in(groups []string) bool {
	return slices.ContainsFunc(groups, func(id string) bool { return slices.Contains(p.User.GroupIDs, id) })
}

// MayUse is nil when the principal may see an agent, have it work, and, where its level allows that, change it.
func (p Principal) MayUse(a record.Agent) error {
	if len(a.Spec.GroupIDs) == 0 || p.Level.Covers(LevelAdmin) || p.in(a.Spec.GroupIDs) {
		return nil
	}
	return problem.New(problem.Forbidden, "insufficient_permission", "the agent works for members of its groups alone").
		With("group_ids", a.Spec.GroupIDs)
}

// mayApprove is nil when the principal may decide about tool calls of an agent: one with approver groups has them
// decided by their members and by admins.
func (p Principal) mayApprove(a record.Agent) error {
	if len(a.Spec.ApproverGroupIDs) == 0 || p.Level.Covers(LevelAdmin) || p.in(a.Spec.ApproverGroupIDs) {
		return nil
	}
	return problem.New(problem.Forbidden, "insufficient_permission",
		"tool calls of this agent are decided by members of its approver groups, or by admins").
		With("approver_group_ids", a.Spec.ApproverGroupIDs)
}

// MayReach is nil when the principal may read what agents did, and answer, resume, follow or cancel what they do. An
// edit of an agent of some seconds ago may be missing.
func (t *Tenants) MayReach(ctx context.Context, p Principal, agents ...string) error {
	return mayReach(ctx, t.known, p, agents...)
}

func mayReach(ctx context.Context, s *record.Store, p Principal, agents ...string) error {
	if p.Level.Covers(LevelAdmin) {
		return nil
	}
	for _, id := range agents {
		a, err := s.StandingAgent(ctx, p.Scope(), id)
		if err == nil {
			err = p.MayUse(a)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// MayReadFile is nil when the principal may have a file: it has sent it, or reaches one of the agents whose runs have
// held it. One that no run has held yet is for its whole organization.
func (t *Tenants) MayReadFile(ctx context.Context, p Principal, f record.File) error {
	if f.UserID == p.User.ID && !f.Made {
		return nil
	}
	var refusal error
	for _, agent := range f.Agents {
		if refusal = t.MayReach(ctx, p, agent); !refuses(refusal) {
			return refusal
		}
	}
	return refusal
}

// Reachable says which of some agents a principal may have to do with, and asks once for each.
func (t *Tenants) Reachable(ctx context.Context, p Principal) func(agent string) (bool, error) {
	known := map[string]bool{}
	return func(agent string) (bool, error) {
		may, asked := known[agent]
		if asked {
			return may, nil
		}
		err := t.MayReach(ctx, p, agent)
		if err != nil && !refuses(err) {
			return false, err
		}
		known[agent] = err == nil
		return err == nil, nil
	}
}

// SenderMayReach is Reachable for whoever sent a run, with the key that it was sent with, as both stand now.
func (t *Tenants) SenderMayReach(ctx context.Context, organization, user, key string) func(agent string) (bool, error) {
	var reachable func(string) (bool, error)
	return func(agent string) (bool, error) {
		if reachable == nil {
			p, err := t.sender(ctx, organization, user, key)
			if err != nil {
				return false, err
			}
			reachable = t.Reachable(ctx, p)
		}
		return reachable(agent)
	}
}

// sender is who sent a run: nobody's member when the user is gone, no admin when the key is.
func (t *Tenants) sender(ctx context.Context, organization, user, key string) (Principal, error) {
	scope := record.Of(organization)
	p := Principal{Organization: record.Organization{ID: organization}}
	u, err := record.Resource[record.User](ctx, t.known, scope, user)
	if isGone(err) {
		return p, nil
	}
	if err != nil {
		return p, err
	}
	p.User = u.Value
	k, err := record.Resource[record.APIKey](ctx, t.known, scope, key)
	switch {
	case err == nil:
		p.Level = lower(Level(k.Value.Level), Role(p.User.Role).Most())
	case !isGone(err):
		return p, err
	}
	p.User.GroupIDs, err = record.There[record.Group](ctx, t.known, scope, p.User.GroupIDs)
	return p, err
}

// refuses tells an error that says no from one that says nothing.
func refuses(err error) bool {
	p, is := problem.As(err)
	return is && (p.Kind == problem.Forbidden || p.Kind == problem.NotFound)
}

// MayApprove is nil when the principal may decide about the tool calls of a pause: the agent's approvers are those it
// has now and those of the version that was its newest when the pause began, so that an edit does not decide what is
// pending. No clock says which came first. 0: the pause does not know, and those of now decide.
func (t *Tenants) MayApprove(ctx context.Context, p Principal, agent string, paused int) error {
	if p.Level.Covers(LevelAdmin) {
		return nil
	}
	now, err := t.store.StandingAgent(ctx, p.Scope(), agent)
	if err == nil {
		err = p.mayApprove(now)
	}
	if err != nil || paused == 0 {
		return err
	}
	then, err := t.store.AgentVersion(ctx, p.Scope(), agent, paused)
	if err != nil {
		return err
	}
	return p.mayApprove(then)
}

// Standing is an agent as it stands now, or as it last stood. An edit of some seconds ago may be missing.
func (t *Tenants) Standing(ctx context.Context, scope record.Scope, id string) (record.Agent, error) {
	return t.known.StandingAgent(ctx, scope, id)
}
