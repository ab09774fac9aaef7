package record

import (
	"context"
	"slices"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/store/table"
)

// Listings by user say what is in the chats of a user, the owner, whoever has sent it. Chats and deliveries are listed
// in an index. The indexes of a run's head are taken, so a run has a row of its own: it is written with the head and
// deleted with the head. Earlier versions wrote none of these.

// listedRun is the row of a run in the listing of its owner.
type listedRun struct{}

func runsOfUser(organization, user string) string  { return "runs-of/" + organization + "/" + user }
func chatsOfUser(organization, user string) string { return "chats-of/" + organization + "/" + user }
func deliveriesOfUser(organization, user string) string {
	return "hooks-of/" + organization + "/" + user
}

// UserRunKey is the key of a run's row in the listing of its owner; ok is false where the owner is not known.
func UserRunKey(r lifecycle.Run) (key table.Key, ok bool) {
	owner := r.Owner()
	return table.Key{Part: runsOfUser(r.Organization, owner), Sort: r.ID()}, owner != ""
}

// putUserRun writes the row of a run. The condition on the run's head protects it.
func (tx *Tx) putUserRun(r lifecycle.Run) {
	if key, ok := UserRunKey(r); ok {
		putIf(tx, table.Always(), Fresh(listedRun{}), table.Item{Key: key, Owner: r.Organization})
	}
}

func (tx *Tx) deleteUserRun(r lifecycle.Run) {
	if key, ok := UserRunKey(r); ok {
		tx.delete(key, table.Always())
	}
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
		page.Places = append(page.Places, e.Value.ID())
	}
	return page, err
}

// ActiveRunsOfUser lists the ids of the active runs that a user has sent, paused ones included, in order. Their heads
// say in whose chats they are.
func (s *Store) ActiveRunsOfUser(ctx context.Context, scope Scope, user string) ([]string, error) {
	parts := slotParts(UserSlots(scope.organization, user))
	// A run that begins to wait or goes on meanwhile is listed once: the first partition is read before and after.
	ids, err := s.runsIn(ctx, append(parts[len(parts)-1:len(parts):len(parts)], parts...), true)
	slices.Sort(ids)
	return slices.Compact(ids), err
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
