package tenant

import (
	"context"
	"net/mail"

	"agentplatform/internal/problem"
	"agentplatform/internal/record"
	"agentplatform/internal/table"
)

// UserEdit changes what is set.
type UserEdit struct {
	Email    *string
	Name     *string
	Role     *string
	GroupIDs *[]string
	Cap      *int // 0: the organisation's
	Budget   BudgetEdit
}

func (e UserEdit) apply(u *record.User) error {
	if e.Email != nil {
		if _, err := mail.ParseAddress(*e.Email); err != nil || len(*e.Email) > 320 {
			return problem.InvalidField("body.email", "must be an e-mail address")
		}
		u.Email = *e.Email
	}
	if e.Name != nil {
		if len(*e.Name) > 200 {
			return problem.InvalidField("body.name", "must have at most 200 characters")
		}
		u.Name = *e.Name
	}
	if e.Role != nil {
		switch Role(*e.Role) {
		case Member, Manager, Admin:
			u.Role = *e.Role
		default:
			return problem.InvalidField("body.role", "must be member, manager or admin")
		}
	}
	if e.GroupIDs != nil {
		u.GroupIDs = *e.GroupIDs
	}
	if e.Cap != nil {
		if *e.Cap < 0 || *e.Cap > 1_000_000 {
			return problem.InvalidField("body.concurrency_cap", "must be between 1 and 1000000")
		}
		u.Cap = *e.Cap
	}
	return e.Budget.apply(&u.Budget)
}

// CreateUser makes a user of an organisation, or of nobody.
func (t *Tenants) CreateUser(ctx context.Context, by Principal, organization string, edit UserEdit) (record.Entity[record.User], error) {
	now := t.host.Now()
	u := record.User{
		ID: t.host.NewID(), Organization: organization, Role: string(Member), OperatorKeys: new(int), CreatedAt: now, UpdatedAt: now,
	}
	none := record.Entity[record.User]{}
	if edit.Email == nil {
		return none, problem.InvalidField("body.email", "is required")
	}
	if err := t.applyUser(ctx, edit, &u); err != nil {
		return none, err
	}
	if err := by.MayManage("the user", standing(u)); err != nil {
		return none, err
	}
	return record.Create(ctx, t.store, u, u.ID)
}

// applyUser makes an edit whose groups are there.
func (t *Tenants) applyUser(ctx context.Context, edit UserEdit, u *record.User) error {
	if edit.GroupIDs != nil {
		if err := t.checkGroups(ctx, u.Organization, "body.group_ids", nil, *edit.GroupIDs); err != nil {
			return err
		}
	}
	return edit.apply(u)
}

// EditUser changes a user.
func (t *Tenants) EditUser(
	ctx context.Context, by Principal, scope record.Scope, id string, match record.Match, edit UserEdit,
) (record.Entity[record.User], error) {
	return record.Change(ctx, t.store, scope, id, match, func(u *record.User, _ string) ([]table.Op, error) {
		if err := t.mayManageUser(ctx, by, u); err != nil {
			return nil, err
		}
		u.UpdatedAt = t.host.Now()
		if err := t.applyUser(ctx, edit, u); err != nil {
			return nil, err
		}
		return nil, by.MayManage("the user", standing(*u)) // as it is to be
	})
}

// RemoveUser refuses the user's keys at once and has what it owns removed.
func (t *Tenants) RemoveUser(ctx context.Context, by Principal, scope record.Scope, id string) (job string, err error) {
	_, err = record.Remove(ctx, t.store, scope, id, func(e record.Entity[record.User], move string) ([]table.Op, error) {
		if err := t.mayManageUser(ctx, by, &e.Value); err != nil {
			return nil, err
		}
		job = move
		return t.removalJob(job, e.Value.Organization, record.RemoveUser, id)
	})
	return job, err
}
