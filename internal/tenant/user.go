package tenant

import (
	"context"
	"errors"
	"net/mail"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"agentplatform/internal/problem"
	"agentplatform/internal/record"
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
		// A name beside the address, or quotes that it does not need, would make another text of the same address.
		if a, err := mail.ParseAddress(*e.Email); err != nil || a.Address != *e.Email || len(*e.Email) > 320 {
			return problem.InvalidField("body.email", "must be an e-mail address, and nothing else")
		}
		u.Email = *e.Email
	}
	if e.Name != nil {
		if utf8.RuneCountInString(*e.Name) > maxName {
			return problem.InvalidField("body.name", "must have at most %d characters", maxName)
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
func (t *Tenants) CreateUser(
	ctx context.Context, by Principal, organization string, edit UserEdit,
) (record.Entity[record.User], error) {
	now := t.host.Now()
	u := record.User{
		ID: t.host.NewID(), Organization: organization, Role: string(Member), OperatorKeys: new(int), CreatedAt: now, UpdatedAt: now,
	}
	none := record.Entity[record.User]{}
	if edit.Email == nil {
		return none, problem.InvalidField("body.email", "is required")
	}
	if err := t.applyUser(ctx, by, edit, &u); err != nil {
		return none, err
	}
	if err := by.MayManage("the user", standing(u)); err != nil {
		return none, err
	}
	for range drawTries {
		tx := t.store.Begin(u.ID)
		if err := t.changeEmail(ctx, tx, record.User{}, u); err != nil {
			return none, err
		}
		e, err := record.PutResource(tx, record.Fresh(u)), tx.Commit(ctx)
		if !errors.Is(err, record.ErrStale) { // else somebody took the address meanwhile
			return e, err
		}
	}
	return none, problem.Retry(errors.New("the e-mail address kept changing hands"))
}

// changeEmail has a user have its e-mail address, which is nobody else's in the organisation, and no other any more. Those
// who belong to none have theirs as they like.
func (t *Tenants) changeEmail(ctx context.Context, tx *record.Tx, before, after record.User) error {
	if before.Organization == after.Organization && before.Email == after.Email {
		return nil
	}
	wanted := "" // where the address of after is found
	if after.Email != "" && after.Organization != record.Nobody {
		address := compared(after.Email)
		wanted = record.EmailID(after.Organization, address)
		rows, err := t.emails(ctx, after)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(rows, func(e record.Entity[record.Email]) bool { return e.Value.UserID != after.ID }) {
			return problem.New(problem.Conflict, "conflict",
				"another user of the organization has the e-mail address %s", after.Email)
		}
		if !slices.ContainsFunc(rows, func(e record.Entity[record.Email]) bool { return foundAt(e) == wanted }) {
			record.PutResource(tx, record.Fresh(record.Email{Address: address, Organization: after.Organization, UserID: after.ID}))
		}
	}
	rows, err := t.emails(ctx, before)
	if err != nil {
		return err
	}
	for _, e := range rows {
		if e.Value.UserID == before.ID && foundAt(e) != wanted {
			record.DeleteResource(tx, e)
		}
	}
	return nil
}

func foundAt(e record.Entity[record.Email]) string {
	return record.EmailID(e.Value.Organization, e.Value.Address)
}

// emails are the rows of a user's address: where it is found, and where it was while only letters' case made no difference.
func (t *Tenants) emails(ctx context.Context, u record.User) (rows []record.Entity[record.Email], err error) {
	if u.Email == "" {
		return nil, nil
	}
	at := []string{record.EmailID(u.Organization, compared(u.Email)), record.EmailID(u.Organization, u.Email)}
	for _, id := range slices.Compact(at) {
		e, err := record.Resource[record.Email](ctx, t.store, record.System(), id)
		if err == nil {
			rows = append(rows, e)
		} else if !isGone(err) {
			return nil, err
		}
	}
	return rows, nil
}

// compared is an address as it is compared: two that people read as one are one. Letters' case makes no difference, nor their
// width or what they are composed of, nor what is not seen (Unicode's NFKC_Casefold).
func compared(address string) string {
	seen := strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) {
			return -1
		}
		return r
	}, address)
	for range 2 { // what is taken apart may have a case of its own
		seen = cases.Fold().String(norm.NFKC.String(seen))
	}
	return norm.NFKC.String(seen)
}

// applyUser makes an edit whose groups are there, and whose cap is within what an operator has left to the
// organisation.
func (t *Tenants) applyUser(ctx context.Context, by Principal, edit UserEdit, u *record.User) error {
	if edit.Cap != nil && *edit.Cap != u.Cap && !by.Level.Covers(LevelOperator) {
		o, err := organization(ctx, t.store, u.Organization)
		if err != nil {
			return err
		}
		if most := t.Ceilings(o).UserCap; *edit.Cap > most && most > 0 {
			return problem.InvalidField("body.concurrency_cap", "must be at most %d, the ceiling that operators set", most)
		}
	}
	if edit.GroupIDs != nil {
		if err := t.checkGroups(ctx, u.Organization, "body.group_ids", u.GroupIDs, *edit.GroupIDs); err != nil {
			return err
		}
	}
	return edit.apply(u)
}

// EditUser changes a user.
func (t *Tenants) EditUser(
	ctx context.Context, by Principal, scope record.Scope, id string, match record.Match, edit UserEdit,
) (record.Entity[record.User], error) {
	return record.Change(ctx, t.store, scope, id, match, func(u *record.User, tx *record.Tx) error {
		if err := t.mayManageUser(ctx, by, u); err != nil {
			return err
		}
		before := *u
		u.UpdatedAt = t.host.Now()
		if err := t.applyUser(ctx, by, edit, u); err != nil {
			return err
		}
		if err := by.MayManage("the user", standing(*u)); err != nil { // as it is to be
			return err
		}
		return t.changeEmail(ctx, tx, before, *u)
	})
}

// RemoveUser refuses the user's keys at once and has what it owns removed.
func (t *Tenants) RemoveUser(ctx context.Context, by Principal, scope record.Scope, id string) (job string, err error) {
	_, err = record.Remove(ctx, t.store, scope, id, func(e record.Entity[record.User], tx *record.Tx) error {
		if err := t.mayManageUser(ctx, by, &e.Value); err != nil {
			return err
		}
		job = t.beginRemoval(tx, e.Value.Organization, record.RemoveUser, id)
		return t.changeEmail(ctx, tx, e.Value, record.User{})
	})
	return job, err
}
