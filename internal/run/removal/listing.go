package removal

import (
	"context"
	"strings"
	"time"

	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
)

// listByUser adds the runs, chats and deliveries that earlier versions stored to the listings by user. It does so
// twice: a process of such a version may still write during a deployment. Then it marks the organization as listed.
func (r *Remover) listByUser(ctx context.Context, j *record.Job) (time.Duration, error) {
	scope := record.Of(j.Organization)
	after, last := strings.CutPrefix(j.Cursor, late)
	next, err := upToTen(after, func(after string) (string, error) {
		return inPhases(after,
			phase{"", func(after string) (string, error) { return r.listRuns(ctx, scope, after) }},
			phase{"chats:", func(after string) (string, error) { return r.listChats(ctx, scope, after) }},
			// After the runs, which then have their owners.
			phase{"deliveries:", func(after string) (string, error) { return r.listDeliveries(ctx, scope, after) }})
	})
	switch {
	case err != nil:
		return 0, err
	case next != "":
		j.Cursor = strings.TrimSuffix(j.Cursor, after) + next
		return 0, nil
	case !last:
		j.Cursor = late
		return record.LateWrites, nil
	}
	_, err = record.Change(ctx, r.Store, record.System(), j.Organization, 0, func(
		o *catalog.Organization, _ *record.Tx,
	) error {
		o.ListedByUser = !o.Deleted
		return nil
	})
	if problem.Is(err, "not_found") {
		err = nil
	}
	return done, err
}

// listRuns adds a page of runs. After a conflict the page is tried again, without the runs that are listed by then.
func (r *Remover) listRuns(ctx context.Context, scope record.Scope, after string) (next string, err error) {
	page, err := r.Store.OldRunsOfOrganization(ctx, scope.Organization(), after, pageSize)
	if err == nil {
		page.Rows, err = r.Store.Unlisted(ctx, page.Rows)
	}
	return walk(page, err, func(e record.RunEntity) error {
		if e.Value.Owner() == "" {
			chat, found, err := r.Store.ChatOf(ctx, e.Value.RunSpec)
			if err != nil || !found || chat.Value.Epoch != e.Value.Epoch {
				return err // without its chat, it is being deleted
			}
			e.Value.ChatUser = chat.Value.User
		}
		if err := r.Store.AddHolders(ctx, e); err != nil {
			return err
		}
		tx := r.Store.Begin(r.Host.NewID())
		tx.ListRun(e)
		return tx.Commit(ctx)
	})
}

// listChats writes a page of chats. A concurrent change of a chat lists it, too.
func (r *Remover) listChats(ctx context.Context, scope record.Scope, after string) (next string, err error) {
	page, err := r.Store.Chats(ctx, scope, after, pageSize)
	return walk(page, err, func(e record.ChatEntity) error {
		return r.Executor.Write(ctx, func(tx *record.Tx) { tx.PutChat(e) })
	})
}

// listDeliveries adds a page of deliveries, with the owners of their runs, as listRuns does.
func (r *Remover) listDeliveries(ctx context.Context, scope record.Scope, after string) (next string, err error) {
	page, err := r.Store.OldDeliveries(ctx, scope.Organization(), after, pageSize)
	return walk(page, err, func(e record.DeliveryEntity) error {
		if e.Value.Owner != "" {
			return nil
		}
		run, err := r.Store.Run(ctx, scope, e.Value.RunID)
		if problem.Is(err, "not_found") || err == nil && run.Value.Owner() == "" {
			return nil
		}
		if err != nil {
			return err
		}
		e.Value.Owner = run.Value.Owner()
		tx := r.Store.Begin(r.Host.NewID())
		tx.PutDelivery(e)
		return tx.Commit(ctx)
	})
}
