package tenant

import (
	"cmp"
	"context"
	"errors"
	"net/mail"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
)

// UserEdit is an edit of a user; nil leaves a field as it is.
type UserEdit struct {
	Email    *string
	Name     *string
	Role     *string
	GroupIDs *[]string
	Cap      *int // concurrent runs; 0: the organization's
	Budget   BudgetEdit
}

func (e UserEdit) apply(u *catalog.User) error {
	set(&u.Email, e.Email)
	set(&u.Name, e.Name)
	set(&u.Role, e.Role)
	set(&u.GroupIDs, e.GroupIDs)
	set(&u.Cap, e.Cap)
	return cmp.Or(
		problem.InvalidIf(e.Email != nil && !isAddress(u.Email),
			"body.email", "must be only an e-mail address"),
		problem.InvalidIf(e.Name != nil && utf8.RuneCountInString(u.Name) > maxName,
			"body.name", "must have at most %d characters", maxName),
		problem.InvalidIf(e.Role != nil && Role(u.Role).Level() == "",
			"body.role", "must be member, manager or admin"),
		problem.InvalidIf(e.Cap != nil && (u.Cap < 0 || u.Cap > 1_000_000),
			"body.concurrency_cap", "must be between 1 and 1000000"),
		e.Budget.apply(&u.Budget),
	)
}

// isAddress is false if ParseAddress takes a name next to the address, or quotes: another text of the same address.
func isAddress(text string) bool {
	a, err := mail.ParseAddress(text)
	return err == nil && a.Address == text && len(text) <= 320
}

// CreateUser creates a user of an organization, or of record.NoOrganization. It returns a problem of kind Invalid that
// names the field. The kind is Forbidden (insufficient_permission) when by is not an admin or stands below the new
// user's role. It is Conflict when another user of the organization has the e-mail address.
func (t *Tenants) CreateUser(
	ctx context.Context, by Principal, organization string, edit UserEdit,
) (record.Entity[catalog.User], error) {
	now := t.host.Now()
	u := catalog.User{
		ID: t.host.NewID(), Organization: organization, Role: string(Member), OperatorKeys: new(int), CreatedAt: now,
		UpdatedAt: now,
	}
	none := record.Entity[catalog.User]{}
	if edit.Email == nil {
		return none, problem.InvalidField("body.email", "is required")
	}
	if err := t.applyUser(ctx, by, edit, &u); err != nil {
		return none, err
	}
	if err := by.MayManage("the user", standing(u)); err != nil {
		return none, err
	}
	for range maxAttempts {
		tx := t.store.Begin(u.ID)
		if err := t.changeEmail(ctx, tx, catalog.User{}, u); err != nil {
			return none, err
		}
		record.PutResource(tx, newKeyCount(u.ID, organization))
		e, err := record.PutResource(tx, record.Fresh(u)), tx.Commit(ctx)
		if !errors.Is(err, record.ErrConflict) { // else the address was taken meanwhile
			return e, err
		}
	}
	return none, problem.Retry(errors.New("the e-mail address kept changing hands"))
}

// changeEmail adds the writes that reserve a user's new e-mail address, which is unique in its organization, and free
// the old one. Addresses of users without an organization are not unique. It returns a problem of kind Conflict when
// another user has the address.
func (t *Tenants) changeEmail(ctx context.Context, tx *record.Tx, before, after catalog.User) error {
	if before.Organization == after.Organization && before.Email == after.Email {
		return nil
	}
	wanted := "" // the id of the row of after's address
	if after.Email != "" && after.Organization != record.NoOrganization {
		address := compared(after.Email)
		wanted = catalog.EmailID(after.Organization, address)
		rows, err := t.emails(ctx, after)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(rows, func(e record.Entity[catalog.Email]) bool { return e.Value.UserID != after.ID }) {
			return problem.New(problem.Conflict, "conflict",
				"another user of the organization has the e-mail address %s", after.Email)
		}
		if !slices.ContainsFunc(rows, func(e record.Entity[catalog.Email]) bool { return foundAt(e) == wanted }) {
			record.PutResource(tx,
				record.Fresh(catalog.Email{Address: address, Organization: after.Organization, UserID: after.ID}))
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

func foundAt(e record.Entity[catalog.Email]) string {
	return catalog.EmailID(e.Value.Organization, e.Value.Address)
}

// emails are the rows of a user's address. One is under its compared form, one under the form of earlier versions,
// which ignored letters' case alone.
func (t *Tenants) emails(ctx context.Context, u catalog.User) (rows []record.Entity[catalog.Email], err error) {
	if u.Email == "" {
		return nil, nil
	}
	at := []string{catalog.EmailID(u.Organization, compared(u.Email)), catalog.EmailID(u.Organization, u.Email)}
	for _, id := range slices.Compact(at) {
		e, err := record.Resource[catalog.Email](ctx, t.store, record.System(), id)
		if err == nil {
			rows = append(rows, e)
		} else if !isGone(err) {
			return nil, err
		}
	}
	return rows, nil
}

// compared is the form in which addresses are compared. Addresses that look the same have the same form. It ignores
// case, width, composition and invisible characters (Unicode's NFKC_Casefold).
func compared(address string) string {
	seen := strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) {
			return -1
		}
		return r
	}, address)
	for range 2 { // decomposing may bring up letters that have a case
		seen = cases.Fold().String(norm.NFKC.String(seen))
	}
	return norm.NFKC.String(seen)
}

// applyUser applies an edit. Its groups must exist, and its cap must be within the ceiling that operators set. The
// error is a problem of kind Invalid.
func (t *Tenants) applyUser(ctx context.Context, by Principal, edit UserEdit, u *catalog.User) error {
	if edit.Cap != nil && *edit.Cap != u.Cap && !by.Level.Covers(LevelOperator) {
		o, err := organization(ctx, t.store, u.Organization)
		if err != nil {
			return err
		}
		if most := t.Ceilings(o).UserCap; *edit.Cap > most && most > 0 {
			return problem.InvalidField("body.concurrency_cap",
				"must be at most %d, the ceiling that operators set", most)
		}
	}
	if edit.GroupIDs != nil {
		if err := t.CheckGroups(ctx, u.Organization, "body.group_ids", u.GroupIDs, *edit.GroupIDs); err != nil {
			return err
		}
	}
	return edit.apply(u)
}

// EditUser changes a user. It returns a problem of kind NotFound, and of kind Invalid that names the field. The kind is
// PreconditionFailed when match is not the resource's version. It is Forbidden (insufficient_permission) when by may
// not manage the user before or after the edit. It is Conflict when another user has the e-mail address.
func (t *Tenants) EditUser(
	ctx context.Context, by Principal, scope record.Scope, id string, match record.Match, edit UserEdit,
) (record.Entity[catalog.User], error) {
	return record.Change(ctx, t.store, scope, id, match, func(u *catalog.User, tx *record.Tx) error {
		if err := t.mayManageUser(ctx, by, u); err != nil {
			return err
		}
		before := *u
		u.UpdatedAt = t.host.Now()
		if err := t.applyUser(ctx, by, edit, u); err != nil {
			return err
		}
		if err := by.MayManage("the user", standing(*u)); err != nil { // as it would be
			return err
		}
		return t.changeEmail(ctx, tx, before, *u)
	})
}

// RemoveUser deletes a user: its keys are refused immediately. It stores a job, whose id is returned, that deletes the
// user's belongings in the background. It returns a problem of kind NotFound, or of kind Forbidden when by may not
// manage it.
func (t *Tenants) RemoveUser(ctx context.Context, by Principal, scope record.Scope, id string) (job string, err error) {
	_, err = record.Remove(ctx, t.store, scope, id, func(e record.Entity[catalog.User], tx *record.Tx) error {
		if err := t.mayManageUser(ctx, by, &e.Value); err != nil {
			return err
		}
		job = t.beginRemoval(tx, e.Value.Organization, record.RemoveUser, id)
		keys, err := record.Resource[catalog.KeyCount](ctx, t.store, record.System(), id)
		if err == nil {
			record.DeleteResource(tx, keys)
		} else if !isGone(err) {
			return err
		}
		return t.changeEmail(ctx, tx, e.Value, catalog.User{})
	})
	return job, err
}
