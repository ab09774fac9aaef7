// Package removal deletes data in the background, a piece at a time. Clients have deleted it, or its retention has
// ended. It also lists by user the data that earlier versions stored.
//
// Data under removal is not visible: the commit that stored the job hides it. The ledger stays. A job is an item with a
// due time. Each call of Handle does a bounded piece and returns the wait until the next. So a crash loses nothing, and
// a large organization does not delay others.
//
// The package imports transition, record, catalog, lifecycle, the index port, problem and host.
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
	// More does the jobs of other use cases, by kind. It does a piece of the job, and may move the job's cursor. It
	// returns the wait until the next piece, or [record.JobDone].
	More    map[record.JobKind]func(ctx context.Context, j *record.Job) (wait time.Duration, err error)
	Rollups Rollups // nil: there are no rollups
	// DeliveryDays is the number of days after the last attempt for which deliveries are kept; 0: as long as their run.
	DeliveryDays int
}

// Rollups are the stored sums of organizations' ledgers.
type Rollups interface {
	// Daily is called once a day for each organization. behind means that it must be called again soon.
	Daily(ctx context.Context, organization string) (behind bool, err error)
	// Erase deletes a part of the rollups of an organization under removal. It returns the start of the next part,
	// empty at the end. after is empty for the first part.
	Erase(ctx context.Context, organization, after string) (next string, err error)
}

const (
	pageSize = 50
	// listingLag is the longest lag of a listing. After a pass that found nothing, one more follows after this time.
	listingLag = time.Minute
	daily      = 24 * time.Hour
	// conflict is the wait after a conflict with another writer.
	conflict = 50 * time.Millisecond
	done     = record.JobDone
)

// Handle does a piece of the job with this id, or deletes the unused file that the id of a wakeup names. It returns the
// wait until the next call. It returns 0 for none: the job has ended, does not exist or is not due, or the sweeper will
// return to it.
//
// An error is one of the store or of the blob store, and the job is unchanged. Conflicts (record.ErrConflict,
// lifecycle.ErrRefused) are not errors here.
func (r *Remover) Handle(ctx context.Context, id string) (again time.Duration, err error) {
	if file, is := record.FileOfWakeup(id); is {
		return 0, transition.IgnoreRace(r.file(ctx, file))
	}
	e, found, err := r.Store.Job(ctx, id)
	if err != nil || !found {
		return 0, err
	}
	// The sweeper's wakeup has moved the due time forward, so only a job for a later hour is not due yet.
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
		return 0, nil // a kind of a newer version, which will handle it
	}
	wait, err := do(ctx, &e.Value)
	if err != nil {
		return 0, transition.IgnoreRace(err) // the due time is unchanged: the sweeper returns to the job
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
		record.RemoveChat: r.chat, record.ForgetChat: r.forget, record.RemoveUser: r.user,
		record.RemoveOrganization: r.organization,
		record.RemoveGroup:        r.group, record.RemoveToolkit: r.toolkit, record.RemoveBlob: r.blob,
		record.RemoveBase: r.base, record.RemoveDocument: r.document, record.RemoveBuild: r.build,
		record.RemoveBody: r.body, record.Retention: r.daily, record.ListByUser: r.listByUser,
	}
}

// kept maps the error of a write of the job itself. A conflict is tried again soon: the other writer may be the
// sweeper, which has moved the due time forward and relies on this call.
func kept(err error) (again time.Duration, _ error) {
	if errors.Is(err, record.ErrConflict) {
		return conflict, nil
	}
	return 0, err
}

// pass processes up to ten pages of a removal. Each call of page returns the start of the next page, empty at the end.
// After the first pass, a second one follows after listingLag, for items that a lagging listing did not have. The
// second pass ends the job.
func (r *Remover) pass(j *record.Job, page func(after string) (next string, err error)) (time.Duration, error) {
	const second = "second:"
	mark, after := "", j.Cursor
	if rest, yes := strings.CutPrefix(after, second); yes {
		mark, after = second, rest
	}
	next, err := upToTen(after, page)
	switch {
	case errors.Is(err, errRunning):
		j.Cursor = mark + next
		return ending, nil
	case err != nil:
		return 0, err
	case next != "":
		j.Cursor = mark + next
		return 0, nil
	case mark == second:
		return done, nil
	}
	j.Cursor = second
	return listingLag, nil
}

// upToTen processes up to ten pages, and returns the start of the next page, empty at the end. After an error the next
// page is the one that failed.
func upToTen(after string, page func(after string) (next string, err error)) (next string, err error) {
	for range 10 {
		next, err := page(after)
		if err != nil {
			return after, err
		}
		if after = next; after == "" {
			break
		}
	}
	return after, nil
}

// phase is a part of a pass. Its cursors have the mark as prefix; the first phase has no mark.
type phase struct {
	mark string
	page func(after string) (next string, err error)
}

// inPhases processes a page of the cursor's phase, and returns the next cursor, empty at the end of all phases.
func inPhases(after string, phases ...phase) (next string, err error) {
	for i, p := range slices.Backward(phases) {
		rest, in := strings.CutPrefix(after, p.mark)
		if !in {
			continue
		}
		if next, err = p.page(rest); err != nil {
			return "", err
		}
		if next != "" {
			return p.mark + next, nil
		}
		if i+1 < len(phases) {
			next = phases[i+1].mark
		}
		break
	}
	return next, nil
}

// walk calls do for each row of a page, and returns the start of the next page.
func walk[T any](page record.Page[T], err error, do func(T) error) (next string, _ error) {
	if err != nil {
		return "", err
	}
	for _, row := range page.Rows {
		if err := do(row); err != nil {
			return "", err
		}
	}
	return page.Next, nil
}

// errRunning is returned while a worker has not ended a run.
var errRunning = errors.New("removal: a run has not ended")

// ending is the wait while a run has not ended.
const ending = 2 * time.Second

func (r *Remover) erase(ctx context.Context, e record.RunEntity, keepLinks bool) error {
	if e.Value.Status.Active() {
		return errRunning
	}
	if err := r.Store.EraseDeliveries(ctx, e.Value.Organization, e.Value.ID()); err != nil {
		return err
	}
	return r.Store.EraseRun(ctx, e, r.Host.NewID(), keepLinks)
}

// eraseRuns erases the chosen runs of a page. It ends active runs first: some are accepted while their user or
// organization is deleted. keep leaves parked messages and the links in chats.
func (r *Remover) eraseRuns(
	ctx context.Context, scope record.Scope, after string, keep bool, chosen func(record.Run) bool,
) (next string, err error) {
	page, err := r.Store.RunsOfOrganization(ctx, scope, after, pageSize)
	return walk(page, err, func(e record.RunEntity) error {
		if !chosen(e.Value) {
			return nil
		}
		if e.Value.Status.Active() {
			err := r.end(ctx, e.Value.ID(), keep)
			if err == nil {
				e, err = r.Store.Run(ctx, scope, e.Value.ID())
			}
			if err != nil {
				return err
			}
		}
		return r.erase(ctx, e, keep)
	})
}

// toolkit deletes the blobs of a deleted toolkit.
func (r *Remover) toolkit(ctx context.Context, j *record.Job) (time.Duration, error) {
	return done, record.EraseBlobs[catalog.Toolkit](ctx, r.Store, j.Organization, j.Subject)
}

func (r *Remover) chat(ctx context.Context, j *record.Job) (wait time.Duration, err error) {
	chat := lifecycle.Chat{ID: j.Subject, OwnID: j.OwnID, Organization: j.Organization, Epoch: j.Epoch}
	return r.pass(j, func(after string) (string, error) {
		page, err := r.Store.RunsOfChat(ctx, record.System(), chat, after, pageSize)
		return walk(page, err, func(e record.RunEntity) error {
			return r.erase(ctx, e, false)
		})
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
	runs := func(after string) (string, error) {
		return r.eraseRuns(ctx, scope, after, true, func(run record.Run) bool { return run.User == j.Subject })
	}
	files := func(after string) (string, error) {
		return r.filesOf(ctx, scope, after,
			func(f record.File) bool { return f.UserID != j.Subject || f.References > 0 })
	}
	chats := func(after string) (string, error) { return r.untitle(ctx, scope, after, j.Subject) }
	return r.pass(j, func(after string) (string, error) {
		return inPhases(after, phase{"", runs}, phase{"files:", files}, phase{"chats:", chats})
	})
}

// untitle removes from a page of chats the titles that a user gave them: the user wrote them.
func (r *Remover) untitle(ctx context.Context, scope record.Scope, after, user string) (next string, err error) {
	page, err := r.Store.Chats(ctx, scope, after, pageSize)
	return walk(page, err, func(e record.ChatEntity) error {
		if e.Value.User != user || e.Value.Title == "" {
			return nil
		}
		e.Value.Title = ""
		tx := r.Store.Begin(r.Host.NewID())
		tx.PutChat(e)
		return tx.Commit(ctx)
	})
}

// stopUser withdraws the user's parked messages and ends the user's active runs.
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
			_, err = r.Executor.Do(ctx, record.Of(organization), e.Value.ID(), func(
				_ record.Run, tx *record.Tx,
			) (transition.Change, error) {
				tx.DropParked(ctx, p)
				return transition.Change{Event: lifecycle.Withdraw{ID: id}}, nil
			})
			if err := transition.IgnoreRace(err); err != nil {
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
	_, err := r.Executor.Do(ctx, record.System(), id, func(record.Run, *record.Tx) (transition.Change, error) {
		return transition.Change{Event: lifecycle.Remove{KeepParked: keepParked, ProcessID: r.Executor.ProcessID}}, nil
	})
	if problem.Is(err, "not_found") {
		return nil
	}
	return transition.IgnoreRace(err)
}

// dropKeys deletes a user's keys, or all keys of an organization if user is empty.
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
		return transition.IgnoreRace(tx.Commit(ctx))
	})
}

func (r *Remover) organization(ctx context.Context, j *record.Job) (wait time.Duration, err error) {
	if j.Cursor == "" {
		if err := r.stopOrganization(ctx, j.Organization); err != nil {
			return 0, err
		}
	}
	scope := record.Of(j.Organization)
	runs := func(after string) (string, error) {
		return r.eraseRuns(ctx, scope, after, false, func(record.Run) bool { return true })
	}
	rest := func(after string) (next string, err error) {
		if r.Rollups != nil {
			next, err = r.Rollups.Erase(ctx, j.Organization, after)
		}
		if err == nil && next == "" {
			err = r.dropResources(ctx, j.Organization)
		}
		return next, err
	}
	return r.pass(j, func(after string) (string, error) {
		return inPhases(after, phase{"", runs}, phase{"rollups:", rest})
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

// dropResources deletes all resources of an organization except its runs, and empties the organization's own item.
func (r *Remover) dropResources(ctx context.Context, organization string) error {
	scope := record.Of(organization)
	versions := func(id string) error { return record.EraseVersions[catalog.Agent](ctx, r.Store, id) }
	toolkits := func(ctx context.Context, scope record.Scope) error {
		return each(ctx, r, scope, func(e record.Entity[catalog.Toolkit]) error {
			return record.EraseResource(ctx, r.Store, e.Value, r.Host.NewID())
		})
	}
	for _, drop := range []func(context.Context, record.Scope) error{
		r.dropChats, dropAll[catalog.User](r, nil), dropAll[catalog.Email](r, nil), dropAll[catalog.KeyCount](r, nil),
		dropAll[catalog.Agent](r, versions), dropAll[catalog.RemovedAgent](r, versions),
		dropAll[catalog.ToolNames](r, nil),
		toolkits, r.dropBases, dropAll[catalog.Content](r, nil),
		dropAll[catalog.Group](r, nil), dropAll[record.AuditEntry](r, nil), r.dropFiles,
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
		if err := r.Executor.Write(ctx, func(tx *record.Tx) { tx.DeleteChat(e) }); err != nil {
			return err
		}
	}
	return nil
}

// dropAll deletes all of an organization's resources of a kind. owned deletes the items that a resource owns, before
// the resource; nil: it owns none.
func dropAll[T record.Resourceful](
	r *Remover, owned func(id string) error,
) func(context.Context, record.Scope) error {
	return func(ctx context.Context, scope record.Scope) error {
		return each(ctx, r, scope, func(e record.Entity[T]) error {
			if owned != nil {
				if err := owned(record.IDOf(e.Value)); err != nil {
					return err
				}
			}
			return r.Executor.Write(ctx, func(tx *record.Tx) { record.DeleteResource(tx, e) })
		})
	}
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

// group removes a deleted group from its members. Agents still name it, but it admits no user.
func (r *Remover) group(ctx context.Context, j *record.Job) (wait time.Duration, err error) {
	scope := record.Of(j.Organization)
	gone := func(id string) bool { return id == j.Subject }
	return r.pass(j, func(after string) (string, error) {
		page, err := record.Resources[catalog.User](ctx, r.Store, scope, after, pageSize)
		return walk(page, err, func(e record.Entity[catalog.User]) error {
			if !slices.ContainsFunc(e.Value.GroupIDs, gone) {
				return nil
			}
			_, err := record.Change(ctx, r.Store, scope, e.Value.ID, 0, func(u *catalog.User, _ *record.Tx) error {
				u.GroupIDs = slices.DeleteFunc(slices.Clone(u.GroupIDs), gone)
				return nil
			})
			if problem.Is(err, "not_found") {
				return nil
			}
			return err
		})
	})
}

// daily is the daily work for an organization.
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

// retention deletes, once a day, ended runs and deliveries whose retention has ended. The organization sets that of
// runs, the deployment that of deliveries.
func (r *Remover) retention(ctx context.Context, j *record.Job) (wait time.Duration, err error) {
	o, err := record.Resource[catalog.Organization](ctx, r.Store, record.System(), j.Organization)
	switch {
	case problem.Is(err, "not_found"), err == nil && o.Value.Deleted:
		return done, nil
	case err != nil:
		return 0, err
	}
	if !o.Value.ListedByUser && j.Cursor == "" {
		if err := r.Executor.Write(ctx, func(tx *record.Tx) { tx.BeginListing(ctx, o.Value.ID) }); err != nil {
			return 0, err
		}
	}
	runs := func(after string) (string, error) { return r.oldRuns(ctx, o.Value, after) }
	deliveries := func(after string) (string, error) { return r.oldDeliveries(ctx, j.Organization, after) }
	j.Cursor, err = upToTen(j.Cursor, func(after string) (string, error) {
		return inPhases(after, phase{"", runs}, phase{"deliveries:", deliveries})
	})
	if err != nil || j.Cursor != "" {
		return 0, err
	}
	return daily, nil
}

// oldRuns deletes the runs of a page whose retention has ended. The listing is by age.
func (r *Remover) oldRuns(ctx context.Context, o catalog.Organization, after string) (next string, err error) {
	if o.RetentionDays == 0 {
		return "", nil
	}
	before := r.Host.Now().AddDate(0, 0, -o.RetentionDays)
	page, err := r.Store.OldRunsOfOrganization(ctx, o.ID, after, pageSize)
	for _, e := range page.Rows {
		if e.Value.CreatedAt.After(before) { // all further ones are newer
			return "", nil
		}
		if !e.Value.Status.Terminal() || e.Value.FinishedAt.After(before) {
			continue
		}
		if err := r.erase(ctx, e, false); err != nil {
			return "", err
		}
	}
	return page.Next, err
}

// oldDeliveries deletes the deliveries of a page whose retention has ended. The listing is by the age of their runs.
func (r *Remover) oldDeliveries(ctx context.Context, organization, after string) (next string, err error) {
	if r.DeliveryDays == 0 {
		return "", nil
	}
	before := r.Host.Now().AddDate(0, 0, -r.DeliveryDays)
	page, err := r.Store.OldDeliveries(ctx, organization, after, pageSize)
	if err != nil {
		return "", err
	}
	tx, some := r.Store.Begin(r.Host.NewID()), false
	for _, e := range page.Rows {
		if host.TimeOf(e.Value.RunID).After(before) { // all further ones are newer
			page.Next = ""
			break
		}
		if e.Value.EndedBefore(before) {
			tx.DeleteDelivery(e)
			some = true
		}
	}
	if !some {
		return page.Next, nil
	}
	return page.Next, tx.Commit(ctx)
}
