package tenant

import (
	"cmp"
	"context"
	"slices"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
)

// Access to agents. An agent that names groups is for members of these groups and for admins. The present agent and the
// present groups decide, even if a run has another version of the agent.

// among returns nil for members of the groups, for admins, and if no groups are named. Otherwise it returns a problem
// of kind Forbidden (insufficient_permission) with a text and the groups under a name.
func (p Principal) among(groups []string, name, otherwise string) error {
	if len(groups) == 0 || p.Level.Covers(LevelAdmin) ||
		slices.ContainsFunc(groups, func(id string) bool { return slices.Contains(p.Groups, id) }) {
		return nil
	}
	return problem.New(problem.Forbidden, "insufficient_permission", "%s", otherwise).With(name, groups)
}

// MayUse returns nil when the principal may see an agent and start runs of it. If its level allows changes, it may
// change the agent, too. Otherwise it returns a problem of kind Forbidden (insufficient_permission) with group_ids.
func (p Principal) MayUse(a catalog.Agent) error {
	return p.among(a.Spec.GroupIDs, "group_ids", "only members of the agent's groups may use it")
}

// MayOpen returns nil when the principal may read a thing that is for members of groups. If the principal's level
// allows changes, it may change the thing, too. Without groups every principal may, and admins always may. Otherwise it
// returns a problem of kind Forbidden (insufficient_permission) with group_ids.
func (p Principal) MayOpen(what string, groups []string) error {
	return p.among(groups, "group_ids", "the "+what+" is only for members of its groups")
}

// ApprovalRequest is a pause that requests approvals of tool calls.
type ApprovalRequest struct {
	Agent string
	User  string // the user of the run
	Began int    // the version of the agent that the run has
	// Version is the agent's published version when the pause began. 0: the pause did not note it.
	Version int
	Rejects bool // nothing is approved, which approval.self leaves to the run's user
}

// mayApprove returns nil when the principal may decide about a pause, by one version of its agent. If that version
// names approver groups, their members and admins may. Otherwise the run's user and managers may, as far as they may
// use the agent as it is now. Else it returns a problem of kind Forbidden (insufficient_permission).
func (p Principal) mayApprove(a, now catalog.Agent, request ApprovalRequest) error {
	own := p.User == request.User
	switch {
	case own && !request.Rejects && a.Spec.Approval.OthersOnly():
		return problem.New(problem.Forbidden, "insufficient_permission",
			"the user of the run may not approve calls of this agent (approval.self); another approver must decide")
	case len(a.Spec.ApproverGroupIDs) > 0:
		return p.among(a.Spec.ApproverGroupIDs, "approver_group_ids",
			"only members of the approver groups and admins may decide tool calls of this agent")
	case !own && !p.Level.Covers(LevelManage):
		return problem.New(problem.Forbidden, "insufficient_permission",
			"only the user of the run, managers and admins may decide tool calls of this agent").
			With("level_needed", LevelManage)
	}
	return p.MayUse(now)
}

// shares reports whether the members of an organization see the chats of each other. The zero organization shares.
func shares(o catalog.Organization) bool { return o.ChatVisibility != catalog.SeesOwn }

// maySee returns nil when the principal sees an agent's part in the chats of a user, provided that it may use the
// agent. Otherwise it returns a problem of kind Forbidden (insufficient_permission) with level_needed.
func (p Principal) maySee(a catalog.Agent, owner string) error {
	if p.seesOthers() || owner != "" && owner == p.User || p.Shared && a.Spec.ChatVisibility != catalog.SeesOwn {
		return nil
	}
	return problem.New(problem.Forbidden, "insufficient_permission", "only its user and managers may see the chat").
		With("level_needed", LevelManage)
}

// seesOthers reports whether the principal sees the chats of all users, even if their agents show them to the users
// only.
func (p Principal) seesOthers() bool { return p.Level.Covers(LevelManage) || p.SeesAll }

// Sees returns which chats of its organization the principal sees: all of them, or those of its user. If only the
// organization's setting lets the principal see all, an agent may narrow that.
func (p Principal) Sees() catalog.Visibility {
	if p.seesOthers() || p.Shared {
		return catalog.SeesAll
	}
	return catalog.SeesOwn
}

// CanAccess returns nil when the principal may read the runs of all of the agents in the chats of their owners, and
// answer, resume, follow or cancel them. Without an agent it is about a chat that no agent has taken part in yet. An
// edit of the last seconds of an agent, or of the organization, may be missing.
//
// It returns a problem of kind Forbidden (insufficient_permission) for an agent of other groups and for the chat of a
// colleague that is not shared. For an agent that the organization never had it returns NotFound or Forbidden
// (outside_organization).
func (t *Tenants) CanAccess(ctx context.Context, p Principal, all ...lifecycle.Whose) error {
	return mayReach(ctx, t.known, p, all...)
}

func mayReach(ctx context.Context, s record.Reader, p Principal, all ...lifecycle.Whose) error {
	if p.Level.Covers(LevelAdmin) {
		return nil
	}
	for _, of := range all {
		a, err := reached(ctx, s, p, of.Agent)
		if err == nil {
			err = p.mayReach(a, of.Owner)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// reached reads an agent that a principal wants to reach; without an id it returns an empty one.
func reached(ctx context.Context, s record.Reader, p Principal, id string) (a catalog.Agent, err error) {
	if id != "" {
		a, err = catalog.Standing(ctx, s, p.Scope(), id)
	}
	return a, err
}

// mayReach is [Tenants.CanAccess] for an agent that was read. The chat is checked first: that refusal does not reveal
// the groups of the agent of a colleague's chat.
func (p Principal) mayReach(a catalog.Agent, owner string) error {
	return cmp.Or(p.maySee(a, owner), p.MayUse(a))
}

// ListsOwn reports whether a list for the principal is read from the listings of the user's own rows. So it is if the
// principal sees no chats of others, or none with the agent, if one is named. It is false if earlier versions have left
// an organization without listings by user. Then [Tenants.CanAccess] decides about each row. The only errors are
// failures of the store.
func (t *Tenants) ListsOwn(ctx context.Context, p Principal, agent string) (bool, error) {
	if p.Sees() == catalog.SeesAll {
		if agent == "" || p.seesOthers() {
			return false, nil
		}
		a, err := t.Standing(ctx, p.Scope(), agent)
		if err != nil && !isGone(err) {
			return false, err
		}
		if a.Spec.ChatVisibility != catalog.SeesOwn {
			return false, nil
		}
	}
	o, err := t.Organization(ctx, p.Organization)
	return o.ListedByUser, err
}

// MayReadFile returns nil when the principal may read a file. The principal has uploaded it, or reaches at least one of
// the runs that have held it. A file that no run has held yet may be read by its whole organization, if that shares
// chats. Otherwise it returns the refusal of [Tenants.CanAccess] (Forbidden or NotFound).
func (t *Tenants) MayReadFile(ctx context.Context, p Principal, f record.File) error {
	switch {
	case f.UserID == p.User && !f.Made:
		return nil
	case len(f.Agents) == 0 && f.References > 0: // since before files noted agents
		return t.CanAccess(ctx, p, lifecycle.Whose{Owner: f.UserID})
	case len(f.Agents) == 0 && !p.Shared && !p.Level.Covers(LevelAdmin):
		return problem.New(problem.Forbidden, "insufficient_permission",
			"only its uploader may use a file that no run uses").With("level_needed", LevelAdmin)
	case len(f.Agents) == 0:
		return nil
	}
	refusal := t.mayReachOne(ctx, p, "", f.Agents) // in the chats of anybody
	if !isGone(refusal) {
		return refusal
	}
	agents, noted, err := t.store.HeldFor(ctx, f.ID, p.User)
	if !noted && f.UserID == p.User {
		agents = f.Agents // most files were made in chats of their user
	}
	if err != nil || len(agents) == 0 {
		return cmp.Or(err, refusal)
	}
	return t.mayReachOne(ctx, p, p.User, agents)
}

// mayReachOne is CanAccess for at least one of some agents.
func (t *Tenants) mayReachOne(ctx context.Context, p Principal, owner string, agents []string) (refusal error) {
	for _, agent := range agents {
		if refusal = t.CanAccess(ctx, p, lifecycle.Whose{Agent: agent, Owner: owner}); !isGone(refusal) {
			break
		}
	}
	return refusal
}

// Reachable returns a function that reports whether the principal may reach the runs of an agent and an owner (see
// [Tenants.CanAccess]). Each agent is read once. The function returns only errors other than refusals, such as a
// problem of kind Unavailable.
func (t *Tenants) Reachable(ctx context.Context, p Principal) func(lifecycle.Whose) (bool, error) {
	type agent struct {
		catalog.Agent

		gone bool
	}
	known := map[string]agent{}
	return func(of lifecycle.Whose) (bool, error) {
		if p.Level.Covers(LevelAdmin) {
			return true, nil
		}
		a, read := known[of.Agent]
		if !read {
			var err error
			a.Agent, err = reached(ctx, t.known, p, of.Agent)
			if a.gone = isGone(err); err != nil && !a.gone {
				return false, err
			}
			known[of.Agent] = a
		}
		return !a.gone && p.mayReach(a.Agent, of.Owner) == nil, nil
	}
}

// SenderMayReach is [Tenants.Reachable] for the sender of a run. The sender is the user, with the key that the run was
// sent with, as both are now.
func (t *Tenants) SenderMayReach(
	ctx context.Context, organization, user, key string,
) func(lifecycle.Whose) (bool, error) {
	var reachable func(lifecycle.Whose) (bool, error)
	return func(of lifecycle.Whose) (bool, error) {
		if reachable == nil {
			p, err := t.Sender(ctx, organization, user, key)
			if err != nil {
				return false, err
			}
			reachable = t.Reachable(ctx, p)
		}
		return reachable(of)
	}
}

// Sender is the principal that sent a run, for questions about access, not about budgets. Of its organization it has
// the ID alone, and whether chats are shared. It has no groups when the user no longer exists, and no level when the
// key no longer exists. For an operator who acted in the organization it is the principal of [Tenants.ActIn], as long
// as the user is an operator.
func (t *Tenants) Sender(ctx context.Context, organization, user, key string) (Principal, error) {
	scope := record.Of(organization)
	p := Principal{Organization: organization}
	o, err := t.Organization(ctx, organization)
	if err != nil && !isGone(err) {
		return p, err
	}
	p.Shared = err == nil && shares(o)
	u, err := record.Resource[catalog.User](ctx, t.known, scope, user)
	if problem.Is(err, "outside_organization") {
		return t.visitor(ctx, p, user, key)
	}
	if isGone(err) {
		return p, nil
	}
	if err != nil {
		return p, err
	}
	p.User = u.Value.ID
	k, err := record.Resource[catalog.APIKey](ctx, t.known, scope, key)
	switch {
	case err == nil:
		p.Level = lower(Level(k.Value.Level), Role(u.Value.Role).Most())
		p.SeesAll = k.Value.Sees == catalog.SeesAll
	case !isGone(err):
		return p, err
	}
	p.Groups, err = record.Existing[catalog.Group](ctx, t.known, scope, u.Value.GroupIDs)
	return p, err
}

// visitor completes the principal of a run whose user belongs to another organization. The principal is an admin as
// long as the key and its user are an operator's.
func (t *Tenants) visitor(ctx context.Context, p Principal, user, key string) (Principal, error) {
	k, err := record.Resource[catalog.APIKey](ctx, t.known, record.System(), key)
	if isGone(err) || err == nil && k.Value.UserID != user {
		return p, nil
	}
	if err != nil {
		return p, err
	}
	u, err := record.Resource[catalog.User](ctx, t.known, record.Of(k.Value.Organization), user)
	if isGone(err) {
		return p, nil
	}
	if err == nil && lower(Level(k.Value.Level), Role(u.Value.Role).Most()) == LevelOperator {
		p.User, p.Level, p.Acting = u.Value.ID, LevelAdmin, true
	}
	return p, err
}

// MayApprove returns nil when the principal may decide about the tool calls of a pause. Approvers must be allowed by
// the agent's published version, and by the one that was published when the pause began. If the run's own version is
// newer, such as a draft, they must be allowed by it, too. So no edit decides about pending calls. Versions, not
// clocks, order them. The rule that others must approve a run's calls also counts in an older version of the run.
// Approvers need not be allowed to use the agent.
//
// It returns a problem of kind Forbidden (insufficient_permission), with approver_group_ids or level_needed. For an
// agent that the organization never had it returns NotFound or Forbidden (outside_organization).
func (t *Tenants) MayApprove(ctx context.Context, p Principal, request ApprovalRequest) error {
	if p.Level.Covers(LevelAdmin) && p.User != request.User {
		return nil
	}
	now, err := catalog.Standing(ctx, t.store, p.Scope(), request.Agent)
	if err != nil {
		return err
	}
	current := now.Current()
	versions := []int{current, max(current, request.Began), cmp.Or(request.Version, current)}
	read := map[int]catalog.Agent{now.Version: now}
	for _, n := range append(versions, request.Began) {
		if _, has := read[n]; !has { // a version does not change
			if read[n], err = record.Version[catalog.Agent](ctx, t.known, p.Scope(), request.Agent, n); err != nil {
				return err
			}
		}
	}
	began := read[request.Began].Spec.Approval
	for _, n := range versions {
		a := read[n]
		if began.OthersOnly() {
			a.Spec.Approval.Self = began.Self
		}
		if err := p.mayApprove(a, now, request); err != nil {
			return err
		}
	}
	return nil
}

// Standing is [catalog.Standing]. An edit of the last seconds may be missing. It returns a problem of kind NotFound or
// Forbidden (outside_organization).
func (t *Tenants) Standing(ctx context.Context, scope record.Scope, id string) (catalog.Agent, error) {
	return catalog.Standing(ctx, t.known, scope, id)
}
