package tenant

import (
	"context"
	"slices"

	"agentplatform/internal/problem"
	"agentplatform/internal/record"
)

// maxGroups is how many groups a user may belong to, or an agent name.
const maxGroups = 20

// GroupEdit changes what is set.
type GroupEdit struct {
	Name        *string
	Description *string
	Budget      BudgetEdit
}

func (e GroupEdit) apply(g *record.Group) error {
	if e.Name != nil {
		g.Name = *e.Name
	}
	if err := checkName(g.Name); err != nil {
		return err
	}
	if e.Description != nil {
		g.Description = *e.Description
	}
	if err := checkDescription(g.Description); err != nil {
		return err
	}
	return e.Budget.apply(&g.Budget)
}

// checkGroups says which of the groups that a member names is not there. One that it named before may have gone since.
func (t *Tenants) checkGroups(ctx context.Context, organization, member string, before, ids []string) error {
	if len(ids) > maxGroups {
		return problem.InvalidField(member, "must name at most %d groups", maxGroups)
	}
	for i, id := range ids {
		if slices.Contains(before, id) {
			continue
		}
		if err := there[record.Group](ctx, t.store, organization, id); isGone(err) {
			return missing(member, i, "group", id)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// CreateGroup makes a group of an organisation.
func (t *Tenants) CreateGroup(ctx context.Context, organization string, edit GroupEdit) (record.Entity[record.Group], error) {
	now := t.host.Now()
	g := record.Group{ID: t.host.NewID(), Organization: organization, CreatedAt: now, UpdatedAt: now}
	if err := edit.apply(&g); err != nil {
		return record.Entity[record.Group]{}, err
	}
	return record.Create(ctx, t.store, g, g.ID)
}

// EditGroup changes a group.
func (t *Tenants) EditGroup(
	ctx context.Context, scope record.Scope, id string, match record.Match, edit GroupEdit,
) (record.Entity[record.Group], error) {
	return record.Change(ctx, t.store, scope, id, match, func(g *record.Group, _ *record.Tx) error {
		g.UpdatedAt = t.host.Now()
		return edit.apply(g)
	})
}

// RemoveGroup removes a group, and has it taken out of the users who belong to it. Agents that name it go on to do
// so: there it opens nothing, so that what was for the group alone is closed to all but admins.
func (t *Tenants) RemoveGroup(ctx context.Context, scope record.Scope, id string) (job string, err error) {
	_, err = record.Remove(ctx, t.store, scope, id, func(e record.Entity[record.Group], tx *record.Tx) error {
		job = t.beginRemoval(tx, e.Value.Organization, record.RemoveGroup, id)
		return nil
	})
	return job, err
}

// SetMember has a user belong to a group, or not.
func (t *Tenants) SetMember(
	ctx context.Context, by Principal, scope record.Scope, group, user string, member bool,
) (record.Entity[record.User], error) {
	g, err := record.Resource[record.Group](ctx, t.store, scope, group)
	if err != nil {
		return record.Entity[record.User]{}, err
	}
	return record.Change(ctx, t.store, record.Of(g.Value.Organization), user, 0, func(u *record.User, _ *record.Tx) error {
		if err := t.mayManageUser(ctx, by, u); err != nil {
			return err
		}
		without := slices.DeleteFunc(slices.Clone(u.GroupIDs), func(id string) bool { return id == group })
		switch {
		case member && len(without) >= maxGroups:
			return problem.InvalidField("body.user_id", "user %s belongs to %d groups, as many as one may", user, maxGroups)
		case member:
			without = append(without, group)
		case len(without) == len(u.GroupIDs):
			return problem.Missing("member " + user)
		}
		u.GroupIDs, u.UpdatedAt = without, t.host.Now()
		return nil
	})
}
