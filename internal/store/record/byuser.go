package record

import (
	"context"
	"slices"
	"strings"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/store/table"
)

// Listings by user have the runs, chats and deliveries of a user, who owns the chats. The sender may be any user. Chats
// and deliveries are listed in an index. The indexes of a run's head are in use, so a run has a row of its own. That
// row is written and deleted with the head. Earlier versions wrote none of these: the job [ListByUser] adds them.

func runsOfUser(organization, user string) string  { return "runs-of/" + organization + "/" + user }
func chatsOfUser(organization, user string) string { return "chats-of/" + organization + "/" + user }
func deliveriesOfUser(organization, user string) string {
	return "hooks-of/" + organization + "/" + user
}

// UserRunKey is the key of a run's row in the listing of its owner; ok is false if the owner is not known.
func UserRunKey(r lifecycle.Run) (key table.Key, ok bool) {
	owner := r.Owner()
	return table.Key{Part: runsOfUser(r.Organization, owner), Sort: r.ID()}, owner != ""
}

// putUserRun writes the row of a run. The condition on the run's head protects it.
func (tx *Tx) putUserRun(r lifecycle.Run) {
	if key, ok := UserRunKey(r); ok {
		putIf(tx, table.Always(), Fresh(struct{}{}), table.Item{Key: key, Owner: r.Organization})
	}
}

func (tx *Tx) deleteUserRun(r lifecycle.Run) {
	if key, ok := UserRunKey(r); ok {
		tx.delete(key, table.Always())
	}
}

// Unlisted leaves out the runs that have a row in the listing of their owner.
func (s *Store) Unlisted(ctx context.Context, runs []RunEntity) (unlisted []RunEntity, err error) {
	items, err := s.readAll(ctx, keysOf(runs, func(e RunEntity) table.Key {
		key, _ := UserRunKey(e.Value.Run)
		return key
	}))
	if err != nil {
		return nil, err
	}
	for i, item := range items {
		if item == nil {
			unlisted = append(unlisted, runs[i])
		}
	}
	return unlisted, nil
}

// ListRun writes the head of a run of an earlier version, with its rows in the listings of its owner.
func (tx *Tx) ListRun(e RunEntity) {
	r := e.Value.Run
	tx.putUserRun(r)
	if name := guestSlot(r); name != "" {
		putIf(tx, table.Always(), Fresh(slot{RunID: r.ID()}),
			table.Item{Key: slotKey(guestSlots(r), name), Owner: r.Organization})
	}
	tx.PutRun(e)
}

// AddHolders writes the rows of a run of an earlier version for its files: they are held in a chat of its owner. The
// errors are those of a read and of [Tx.Commit].
func (s *Store) AddHolders(ctx context.Context, e RunEntity) error {
	r := e.Value.Run
	for item, err := range s.items(ctx, table.Range{Part: runPart(r.ID()), Prefix: referencePrefix, Limit: 100}) {
		if err != nil {
			return err
		}
		tx := s.Begin(s.host.NewID())
		tx.putHolder(r.Organization, strings.TrimPrefix(item.Sort, referencePrefix), r.Whose())
		if err := tx.Commit(ctx); err != nil {
			return err
		}
	}
	return nil
}

// BeginListing adds the job that lists the runs, chats and deliveries of an organization that earlier versions stored.
// It adds nothing if the job exists.
func (tx *Tx) BeginListing(ctx context.Context, organization string) {
	job := Job{ID: DerivedID("listing", organization), Organization: organization, Kind: ListByUser,
		Subject: organization, Due: tx.store.host.Now()}
	if _, found, err := tx.store.Job(ctx, job.ID); err != nil || found {
		tx.fail(err)
		return
	}
	tx.PutJob(Fresh(job))
}

// RunsOfUser lists the runs in the chats of a user, newest first, from before the id after.
func (s *Store) RunsOfUser(ctx context.Context, scope Scope, user, after string, limit int) (Page[RunEntity], error) {
	var page Page[RunEntity]
	rows, err := s.query(ctx, table.Range{
		Part: runsOfUser(scope.organization, user), After: after, Reverse: true, Limit: limit + 1,
	})
	if err != nil {
		return page, err
	}
	if len(rows) > limit {
		rows = rows[:limit]
		page.Next = rows[limit-1].Sort
	}
	ids := make([]string, 0, len(rows))
	for _, row := range rows {
		ids = append(ids, row.Sort)
	}
	page.Rows, err = s.Runs(ctx, scope, ids...)
	for _, e := range page.Rows {
		page.Positions = append(page.Positions, e.Value.ID())
	}
	return page, err
}

// guestSlots is the partition with the active runs that others have sent to the chats of a user. These have no slot of
// the user: they count against the cap of their sender.
func guestSlots(r lifecycle.Run) string { return guestsOf(r.Organization, r.Owner()) }

func guestsOf(organization, owner string) string { return "guests-of/" + organization + "/" + owner }

// guestSlot is the name of a run in that partition; empty if it has none.
func guestSlot(r lifecycle.Run) string {
	if owner := r.Owner(); owner == "" || owner == r.User || !r.Status.Active() || r.Deleted {
		return ""
	}
	return r.ID()
}

// ActiveRunsOfUser lists the ids of the active runs that a user has sent, or that are in the user's chats, in order.
// Paused runs are active. The heads of the runs name the owner.
func (s *Store) ActiveRunsOfUser(ctx context.Context, scope Scope, user string) ([]string, error) {
	slots := UserSlots(scope.organization, user)
	// A run that begins to wait or goes on meanwhile changes its slot. So the slots of waiting runs are read twice.
	parts := append([]string{slots, guestsOf(scope.organization, user)}, slotParts(slots)...)
	ids, err := s.runsIn(ctx, parts, true)
	slices.Sort(ids)
	return slices.Compact(ids), err
}

// WaitingRunsOfUser lists the ids of those runs of ActiveRunsOfUser that wait for a human. It may also list other
// active runs that others have sent to the user's chats.
func (s *Store) WaitingRunsOfUser(ctx context.Context, scope Scope, user string) ([]string, error) {
	waiting := table.Range{Part: UserSlots(scope.organization, user), Prefix: pausedPrefix, Limit: slotPage}
	ids, err := s.runsIn(ctx, []string{guestsOf(scope.organization, user)}, true)
	if err == nil {
		ids, err = s.addRuns(ctx, ids, waiting, true)
	}
	slices.Sort(ids)
	return ids, err
}

// ChatsOfUser lists the chats of a user, newest first. after is Page.Next of the page before, empty for the first page.
func (s *Store) ChatsOfUser(
	ctx context.Context, scope Scope, user, after string, limit int,
) (Page[ChatEntity], error) {
	return listedByUser[lifecycle.Chat](ctx, s, scope, chatsOfUser(scope.organization, user), after, limit)
}

// DeliveriesOfUser lists the deliveries of runs in the chats of a user, newest first. after is Page.Next of the page
// before.
func (s *Store) DeliveriesOfUser(
	ctx context.Context, scope Scope, user, after string, limit int,
) (Page[DeliveryEntity], error) {
	return listedByUser[Delivery](ctx, s, scope, deliveriesOfUser(scope.organization, user), after, limit)
}

func listedByUser[T any](
	ctx context.Context, s *Store, scope Scope, part, after string, limit int,
) (Page[Entity[T]], error) {
	return listedIn[T](ctx, s, scope, table.ByChat, table.Range{Part: part, After: after, Reverse: true, Limit: limit})
}
