// Package removal deletes in the background what was deleted by a client or has outlived its retention, a piece at a
// time.
//
// What is being removed cannot be seen any more: the commit that stored the job saw to that. The ledger stays. A job is
// an item with a due time. Each call of Handle does a bounded piece and says when to go on, so a crash loses nothing
// and a large organization does not delay others.
//
// It imports transition, record, catalog, lifecycle, the index port, problem and host.
package removal

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/store/record"
	"agentplatform/internal/text/index"
)

// Remover is the use case.
type Remover struct {
	Executor *transition.Executor
	Store    *record.Store
	Host     host.Host
	Index    index.Index
	// More does the jobs of other use cases, by kind: a piece of the job, whose cursor it may move on. It returns the
	// wait until the next piece, or [record.JobDone].
	More    map[record.JobKind]func(ctx context.Context, j *record.Job) (wait time.Duration, err error)
	Rollups Rollups // nil where nothing is rolled up
}

// Rollups are what organizations' ledgers add up to, as they are kept.
type Rollups interface {
	// Daily is done for each organization once a day; behind says that it is to be called again soon.
	Daily(ctx context.Context, organization string) (behind bool, err error)
	// Erase deletes a part of those of an organization that is being removed, and returns where the next part begins,
	// empty at the end. after is empty for the first one.
	Erase(ctx context.Context, organization, after string) (next string, err error)
}

const (
	pageSize = 50
	pages    = 10 // in one call of Handle
	// listingLag is by how long a listing may lag: after a pass that found nothing, one more follows after this time.
	listingLag = time.Minute
	daily      = 24 * time.Hour
	// conflict is the wait after a conflict with another writer.
	conflict = 50 * time.Millisecond
	done     = record.JobDone
)

// Handle does a piece of the job with this id, or deletes the unused file that the id of a wake-up message names. It
// returns the wait until the next call, 0 for none: the job has ended, does not exist or is not due, or the sweeper
// will come back for it.
//
// An error is one of the store or of the blob store, and the job is as it was; conflicts (record.ErrConflict,
// lifecycle.ErrRefused) are not errors here.
func (r *Remover) Handle(ctx context.Context, id string) (again time.Duration, err error) {
	if file, is := record.FileOfNudge(id); is {
		return 0, ignore(r.file(ctx, file))
	}
	e, found, err := r.Store.Job(ctx, id)
	if err != nil || !found {
		return 0, err
	}
	// The sweeper's wake-up message has moved the due time on, so only a job for a later hour is not due yet.
	left := e.Value.Due.Sub(r.Host.Now())
	if e.Value.Kind == record.Retention && left > time.Hour || left > record.LateWrites/2 &&
		waitsForLateWrites(e.Value) {
		return 0, nil
	}
	do, known := r.jobs()[e.Value.Kind]
	if !known {
		do, known = r.More[e.Value.Kind]
	}
	if !known {
		return 0, nil // the kind of a newer version, which will handle it
	}
	wait, err := do(ctx, &e.Value)
	if err != nil {
		return 0, ignore(err) // the due time is unchanged: the sweeper comes back
	}
	tx := r.Store.Begin(r.Host.NewID())
	if wait == done {
		tx.DeleteJob(e)
		return kept(tx.Commit(ctx))
	}
	e.Value.Due = r.Host.Now().Add(wait)
	tx.PutJob(e)
	if err := tx.Commit(ctx); err != nil {
		return kept(err)
	}
	if wait > listingLag {
		return 0, nil // too long for a queue; the job is in the due index
	}
	return max(wait, time.Millisecond), nil
}

// jobs does a piece of each kind of job.
func (r *Remover) jobs() map[record.JobKind]func(context.Context, *record.Job) (time.Duration, error) {
	return map[record.JobKind]func(context.Context, *record.Job) (time.Duration, error){
		record.RemoveChat: r.chat, record.RemoveUser: r.user, record.RemoveOrganization: r.organization,
		record.RemoveGroup: r.group, record.RemoveToolkit: r.toolkit, record.RemoveBlob: r.blob,
		record.RemoveBase: r.base, record.RemoveDocument: r.document, record.RemoveBuild: r.build,
		record.RemoveBody: r.body, record.Retention: r.daily,
	}
}

// kept maps the error of a write of the job itself. A conflict is tried again soon: the other writer may be the
// sweeper, which has moved the due time on and relies on this call.
func kept(err error) (again time.Duration, _ error) {
	if errors.Is(err, record.ErrConflict) {
		return conflict, nil
	}
	return 0, err
}

// ignore maps a conflict, which the next pass or piece resolves, to nil.
func ignore(err error) error {
	if errors.Is(err, record.ErrConflict) || errors.Is(err, lifecycle.ErrRefused) {
		return nil
	}
	return err
}

// pass takes up to ten pages of a removal: each call of page returns where the next page begins, empty at the end. A
// pass that ends is followed by a second one after listingLag, for what a lagging listing did not show; the second one
// ends the job.
func (r *Remover) pass(
	ctx context.Context, j *record.Job, page func(ctx context.Context, after string) (next string, err error),
) (wait time.Duration, err error) {
	const second = "second:"
	mark, after := "", j.Cursor
	if rest, yes := strings.CutPrefix(after, second); yes {
		mark, after = second, rest
	}
	for range pages {
		next, err := page(ctx, after)
		if err != nil {
			return 0, err
		}
		if next == "" {
			if mark == second {
				return done, nil
			}
			j.Cursor = second
			return listingLag, nil
		}
		after = next
	}
	j.Cursor = mark + after
	return 0, nil
}

func (r *Remover) erase(ctx context.Context, e record.RunEntity, keepLinks bool) error {
	if err := r.Store.EraseDeliveries(ctx, e.Value.ID()); err != nil {
		return err
	}
	return r.Store.EraseRun(ctx, e, r.Host.NewID(), keepLinks)
}

// eraseRuns erases those runs of a page that are chosen, and ends them first where they are active: some are accepted
// while their user or organization is deleted. keep leaves parked messages and the links in chats.
func (r *Remover) eraseRuns(
	ctx context.Context, scope record.Scope, after string, keep bool, chosen func(record.Run) bool,
) (next string, err error) {
	page, err := r.Store.RunsOfOrganization(ctx, scope, after, pageSize)
	if err != nil {
		return "", err
	}
	for _, e := range page.Rows {
		if !chosen(e.Value) {
			continue
		}
		if e.Value.Status.Active() {
			if err := r.end(ctx, e.Value.ID(), keep); err != nil {
				return "", err
			}
			if e, err = r.Store.Run(ctx, scope, e.Value.ID()); err != nil {
				return "", err
			}
		}
		if err := r.erase(ctx, e, keep); err != nil {
			return "", err
		}
	}
	return page.Next, nil
}

// toolkit deletes the blobs of a deleted toolkit.
func (r *Remover) toolkit(ctx context.Context, j *record.Job) (time.Duration, error) {
	return done, record.EraseBlobs[catalog.Toolkit](ctx, r.Store, j.Subject)
}

func (r *Remover) chat(ctx context.Context, j *record.Job) (wait time.Duration, err error) {
	buried := lifecycle.Chat{ID: j.Subject, OwnID: j.OwnID, Organization: j.Organization, Epoch: j.Epoch}
	return r.pass(ctx, j, func(ctx context.Context, after string) (string, error) {
		page, err := r.Store.RunsOfChat(ctx, record.System(), buried, after, pageSize)
		if err != nil {
			return "", err
		}
		for _, e := range page.Rows {
			if e.Value.Status.Active() {
				continue // of a new chat with this id; its other epoch keeps it out of this listing
			}
			if err := r.erase(ctx, e, false); err != nil {
				return "", err
			}
		}
		return page.Next, nil
	})
}

func (r *Remover) user(ctx context.Context, j *record.Job) (wait time.Duration, err error) {
	if j.Cursor == "" {
		if err := r.stopUser(ctx, j.Organization, j.Subject); err != nil {
			return 0, err
		}
		if err := r.dropKeys(ctx, j.Organization, j.Subject); err != nil {
			return 0, err
		}
	}
	scope := record.Of(j.Organization)
	const files, chats = "files:", "chats:"
	return r.pass(ctx, j, func(ctx context.Context, after string) (string, error) {
		if after, yes := strings.CutPrefix(after, chats); yes {
			return r.untitle(ctx, scope, after, chats, j.Subject)
		}
		if after, yes := strings.CutPrefix(after, files); yes {
			next, err := r.filesOf(ctx, scope, after, files,
				func(f record.File) bool { return f.UserID != j.Subject || f.Holds > 0 })
			if err == nil && next == "" {
				next = chats
			}
			return next, err
		}
		next, err := r.eraseRuns(ctx, scope, after, true, func(run record.Run) bool { return run.User == j.Subject })
		if err == nil && next == "" {
			next = files
		}
		return next, err
	})
}

// untitle removes from a page of chats the titles that a user gave them: they are the user's words.
func (r *Remover) untitle(ctx context.Context, scope record.Scope, after, mark, user string) (next string, err error) {
	page, err := r.Store.Chats(ctx, scope, after, pageSize)
	if err != nil {
		return "", err
	}
	for _, e := range page.Rows {
		if e.Value.User != user || e.Value.Title == "" {
			continue
		}
		e.Value.Title = ""
		tx := r.Store.Begin(r.Host.NewID())
		tx.PutChat(e)
		if err := tx.Commit(ctx); err != nil {
			return "", err
		}
	}
	return marked(mark, page.Next), nil
}

// marked is the cursor of a page with a mark as prefix; empty at the end.
func marked(mark, next string) string {
	if next == "" {
		return ""
	}
	return mark + next
}

// stopUser withdraws the user's parked messages and ends its active runs.
func (r *Remover) stopUser(ctx context.Context, organization, user string) error {
	ids, err := r.Store.ActiveRuns(ctx, organization)
	if err != nil {
		return err
	}
	runs, err := r.Store.Runs(ctx, record.Of(organization), ids...)
	if err != nil {
		return err
	}
	for _, e := range runs {
		for _, id := range e.Value.Parked {
			p, err := r.Store.Parked(ctx, id)
			if problem.Is(err, "not_found") || err == nil && p.Spec.User != user {
				continue
			}
			if err != nil {
				return err
			}
			_, _, err = r.Executor.Do(ctx, record.Of(organization), e.Value.ID(), func(
				_ record.Run, tx *record.Tx,
			) (transition.Change, error) {
				tx.DropParked(ctx, p)
				return transition.Change{Event: lifecycle.Withdraw{ID: id}}, nil
			})
			if err := ignore(err); err != nil {
				return err
			}
		}
	}
	for _, e := range runs {
		if e.Value.User != user {
			continue
		}
		if err := r.end(ctx, e.Value.ID(), true); err != nil {
			return err
		}
	}
	return nil
}

func (r *Remover) end(ctx context.Context, id string, keepParked bool) error {
	_, _, err := r.Executor.Do(ctx, record.System(), id, func(record.Run, *record.Tx) (transition.Change, error) {
		return transition.Change{Event: lifecycle.Remove{KeepParked: keepParked}}, nil
	})
	if problem.Is(err, "not_found") {
		return nil
	}
	return ignore(err)
}

// dropKeys deletes a user's keys, or all of an organization's when user is empty.
func (r *Remover) dropKeys(ctx context.Context, organization, user string) error {
	return each(ctx, r, record.Of(organization), func(e record.Entity[catalog.APIKey]) error {
		if user != "" && e.Value.UserID != user {
			return nil
		}
		tx := r.Store.Begin(r.Host.NewID())
		record.DeleteResource(tx, e)
		tx.DeleteUse(e.Value)
		pointer, err := record.Resource[catalog.KeyPointer](ctx, r.Store, record.System(), e.Value.Public)
		switch {
		case err == nil:
			record.DeleteResource(tx, pointer)
		case !problem.Is(err, "not_found"):
			return err // without the key its pointer would never be found again
		}
		return ignore(tx.Commit(ctx))
	})
}

func (r *Remover) organization(ctx context.Context, j *record.Job) (wait time.Duration, err error) {
	if j.Cursor == "" {
		if err := r.stopOrganization(ctx, j.Organization); err != nil {
			return 0, err
		}
	}
	scope := record.Of(j.Organization)
	const rollups = "rollups:"
	return r.pass(ctx, j, func(ctx context.Context, after string) (string, error) {
		if after, yes := strings.CutPrefix(after, rollups); yes {
			next, err := "", error(nil)
			if r.Rollups != nil {
				next, err = r.Rollups.Erase(ctx, j.Organization, after)
			}
			if err != nil || next != "" {
				return rollups + next, err
			}
			return "", r.dropResources(ctx, j.Organization)
		}
		next, err := r.eraseRuns(ctx, scope, after, false, func(record.Run) bool { return true })
		if err == nil && next == "" {
			next = rollups
		}
		return next, err
	})
}

func (r *Remover) stopOrganization(ctx context.Context, organization string) error {
	ids, err := r.Store.ActiveRuns(ctx, organization)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := r.end(ctx, id, false); err != nil {
			return err
		}
	}
	return r.dropKeys(ctx, organization, "")
}

// dropResources deletes what an organization has besides its runs, and empties the organization's own item.
func (r *Remover) dropResources(ctx context.Context, organization string) error {
	scope := record.Of(organization)
	for _, drop := range []func(context.Context, record.Scope) error{
		r.dropChats, dropAll[catalog.User](r), dropAll[catalog.Email](r), dropVersioned[catalog.Agent](r),
		dropVersioned[catalog.RemovedAgent](r), r.dropToolkits, r.dropBases, dropAll[catalog.Content](r),
		dropAll[catalog.Group](r), dropAll[record.AuditEntry](r), r.dropFiles,
	} {
		if err := drop(ctx, scope); err != nil {
			return err
		}
	}
	_, err := record.Change(ctx, r.Store, record.System(), organization, 0, func(
		o *catalog.Organization, _ *record.Tx,
	) error {
		*o = catalog.Organization{ID: o.ID, Deleted: true, CreatedAt: o.CreatedAt, UpdatedAt: o.UpdatedAt}
		return nil
	})
	if problem.Is(err, "not_found") {
		return nil
	}
	return err
}

// dropVersioned deletes all of an organization's agents, or of those that were removed, with their versions.
func dropVersioned[T record.Resourceful](r *Remover) func(context.Context, record.Scope) error {
	return func(ctx context.Context, scope record.Scope) error {
		return each(ctx, r, scope, func(e record.Entity[T]) error {
			if err := record.EraseVersions[catalog.Agent](ctx, r.Store, record.IDOf(e.Value)); err != nil {
				return err
			}
			return drop(ctx, r, e)
		})
	}
}

func (r *Remover) dropToolkits(ctx context.Context, scope record.Scope) error {
	return each(ctx, r, scope, func(e record.Entity[catalog.Toolkit]) error {
		return record.EraseResource(ctx, r.Store, e.Value, r.Host.NewID())
	})
}

func (r *Remover) dropFiles(ctx context.Context, scope record.Scope) error {
	return each(ctx, r, scope, func(e record.Entity[record.File]) error {
		return r.Store.RemoveFile(ctx, e.Value.ID, func(record.File) bool { return false })
	})
}

func (r *Remover) dropChats(ctx context.Context, scope record.Scope) error {
	chats := func(after string) (record.Page[record.ChatEntity], error) {
		return r.Store.Chats(ctx, scope, after, pageSize)
	}
	for e, err := range record.Rows(chats) {
		if err != nil {
			return err
		}
		tx := r.Store.Begin(r.Host.NewID())
		tx.DeleteChat(e)
		if err := ignore(tx.Commit(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// dropAll deletes all of an organization's resources of a kind that owns nothing.
func dropAll[T record.Resourceful](r *Remover) func(context.Context, record.Scope) error {
	return func(ctx context.Context, scope record.Scope) error {
		return each(ctx, r, scope, func(e record.Entity[T]) error {
			return drop(ctx, r, e)
		})
	}
}

// drop deletes a resource as it was read, in its own commit.
func drop[T record.Resourceful](ctx context.Context, r *Remover, e record.Entity[T]) error {
	tx := r.Store.Begin(r.Host.NewID())
	record.DeleteResource(tx, e)
	return ignore(tx.Commit(ctx))
}

// each calls do for each of an organization's resources of a kind.
func each[T record.Resourceful](
	ctx context.Context, r *Remover, scope record.Scope, do func(record.Entity[T]) error,
) error {
	for e, err := range record.All[T](ctx, r.Store, scope, pageSize) {
		if err != nil {
			return err
		}
		if err := do(e); err != nil {
			return err
		}
	}
	return nil
}

// group takes a deleted group out of its members. Agents that name it go on to do so: it admits nobody.
func (r *Remover) group(ctx context.Context, j *record.Job) (wait time.Duration, err error) {
	gone := func(id string) bool { return id == j.Subject }
	return r.pass(ctx, j, func(ctx context.Context, after string) (string, error) {
		return eachOf(ctx, r, record.Of(j.Organization), after, func(u *catalog.User) bool {
			before := len(u.GroupIDs)
			u.GroupIDs = slices.DeleteFunc(slices.Clone(u.GroupIDs), gone)
			return len(u.GroupIDs) < before
		})
	})
}

// eachOf edits a page of an organization's resources; edit says whether it changed anything.
func eachOf[T record.Resourceful](
	ctx context.Context, r *Remover, scope record.Scope, after string, edit func(*T) bool,
) (next string, err error) {
	page, err := record.Resources[T](ctx, r.Store, scope, after, pageSize)
	if err != nil {
		return "", err
	}
	for _, e := range page.Rows {
		if v := e.Value; !edit(&v) {
			continue
		}
		_, err := record.Change(ctx, r.Store, scope, record.IDOf(e.Value), 0, func(v *T, _ *record.Tx) error {
			edit(v)
			return nil
		})
		if err != nil && !problem.Is(err, "not_found") {
			return "", err
		}
	}
	return page.Next, nil
}

// daily is what is done for an organization once a day.
func (r *Remover) daily(ctx context.Context, j *record.Job) (wait time.Duration, err error) {
	wait, err = r.retention(ctx, j)
	if err != nil || wait != daily || r.Rollups == nil {
		return wait, err
	}
	if behind, err := r.Rollups.Daily(ctx, j.Organization); err != nil || behind {
		return 0, err
	}
	return daily, nil
}

// retention deletes, once a day, ended runs that are older than the organization keeps them.
func (r *Remover) retention(ctx context.Context, j *record.Job) (wait time.Duration, err error) {
	o, err := record.Resource[catalog.Organization](ctx, r.Store, record.System(), j.Organization)
	switch {
	case problem.Is(err, "not_found"), err == nil && o.Value.Deleted:
		return done, nil
	case err != nil:
		return 0, err
	case o.Value.RetentionDays == 0:
		j.Cursor = ""
		return daily, nil
	}
	before := r.Host.Now().AddDate(0, 0, -o.Value.RetentionDays)
	for range pages {
		page, err := r.Store.OldRunsOfOrganization(ctx, j.Organization, j.Cursor, pageSize)
		if err != nil {
			return 0, err
		}
		for _, e := range page.Rows {
			if e.Value.CreatedAt.After(before) { // the listing is by age: none further on is older
				j.Cursor = ""
				return daily, nil
			}
			if !e.Value.Status.Terminal() || e.Value.FinishedAt.After(before) {
				continue
			}
			if err := r.erase(ctx, e, false); err != nil {
				return 0, err
			}
		}
		if page.Next == "" {
			j.Cursor = ""
			return daily, nil
		}
		j.Cursor = page.Next
	}
	return 0, nil
}
