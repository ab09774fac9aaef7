package tenant

import (
	"cmp"
	"context"
	"slices"

	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
)

// maxGroups is how many groups a user may belong to, and how many an agent may name.
const maxGroups = 20

// GroupEdit is an edit of a group; nil leaves a field as it is.
type GroupEdit struct {
	Name        *string
	Description *string
	Budget      BudgetEdit
}

func (e GroupEdit) apply(g *catalog.Group) error {
	set(&g.Name, e.Name)
	set(&g.Description, e.Description)
	return cmp.Or(checkName(g.Name), checkDescription(g.Description), e.Budget.apply(&g.Budget))
}

// CheckGroups returns a problem of kind Invalid that names the first group of ids that does not exist. Groups that were
// named before the edit may have been deleted since. member is the name of the body's field.
func (t *Tenants) CheckGroups(ctx context.Context, organization, member string, before, ids []string) error {
	if len(ids) > maxGroups {
		return problem.InvalidField(member, "must name at most %d groups", maxGroups)
	}
	return there[catalog.Group](ctx, t.store, organization, member, "group", before, ids)
}

// CreateGroup creates a group of an organization. It returns a problem of kind Invalid that names the field.
func (t *Tenants) CreateGroup(
	ctx context.Context, organization string, edit GroupEdit,
) (record.Entity[catalog.Group], error) {
	now := t.host.Now()
	g := catalog.Group{ID: t.host.NewID(), Organization: organization, CreatedAt: now, UpdatedAt: now}
	if err := edit.apply(&g); err != nil {
		return record.Entity[catalog.Group]{}, err
	}
	return record.Create(ctx, t.store, g, g.ID)
}

// EditGroup changes a group. It returns a problem of kind NotFound or Forbidden, and of kind Invalid that names the
// field. The kind is PreconditionFailed when match is not the resource's version.
func (t *Tenants) EditGroup(
	ctx context.Context, scope record.Scope, id string, match record.Match, edit GroupEdit,
) (record.Entity[catalog.Group], error) {
	return record.Change(ctx, t.store, scope, id, match, func(g *catalog.Group, _ *record.Tx) error {
		g.UpdatedAt = t.host.Now()
		return edit.apply(g)
	})
}

// RemoveGroup deletes a group. A background job, whose id is returned, removes it from its members. Agents that name
// the group go on to name it, but it admits nobody. So a thing that was for this group alone is closed to all but
// admins. It returns a problem of kind NotFound or Forbidden.
func (t *Tenants) RemoveGroup(ctx context.Context, scope record.Scope, id string) (job string, err error) {
	_, err = record.Remove(ctx, t.store, scope, id, func(e record.Entity[catalog.Group], tx *record.Tx) error {
		job = t.beginRemoval(tx, e.Value.Organization, record.RemoveGroup, id)
		return nil
	})
	return job, err
}

// SetMember adds a user to a group, or removes it when member is false. It returns a problem of kind NotFound when
// group or user does not exist, or when the user to remove is not a member. The kind is Forbidden when by may not
// manage the user. It is Invalid (body.user_id) when the user belongs to 20 groups already.
func (t *Tenants) SetMember(
	ctx context.Context, by Principal, scope record.Scope, group, user string, member bool,
) (record.Entity[catalog.User], error) {
	g, err := record.Resource[catalog.Group](ctx, t.store, scope, group)
	if err != nil {
		return record.Entity[catalog.User]{}, err
	}
	return record.Change(ctx, t.store, record.Of(g.Value.Organization), user, 0, func(
		u *catalog.User, _ *record.Tx,
	) error {
		if err := t.mayManageUser(ctx, by, u); err != nil {
			return err
		}
		without := slices.DeleteFunc(slices.Clone(u.GroupIDs), func(id string) bool { return id == group })
		switch {
		case member && len(without) >= maxGroups:
			return problem.InvalidField("body.user_id",
				"user %s belongs to %d groups, which is the limit", user, maxGroups)
		case member:
			without = append(without, group)
		case len(without) == len(u.GroupIDs):
			return problem.Missing("member " + user)
		}
		u.GroupIDs, u.UpdatedAt = without, t.host.Now()
		return nil
	})
}
