package record_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
)

// userRun is a run that a user has sent to the chat of an owner.
func userRun(w *runWorld, user, owner string, turn int) record.Run {
	r := runIn(w.host.NewID(), turn, 0)
	r.User, r.ChatUser, r.Chat = user, owner, "chat of "+owner
	return r
}

func idsOfRuns(page record.Page[record.RunEntity]) (ids []string) {
	for _, e := range page.Rows {
		ids = append(ids, e.Value.ID())
	}
	return ids
}

// The runs of a user are those in the user's chats, also if others have sent them. They are listed newest first, each
// once, in pages. Removed runs, links among them, are not listed.
func TestRunsOfAUserAreThoseInTheirChats(t *testing.T) {
	w := runBlank(t)
	var want []string
	put := func(r record.Run) record.RunEntity {
		w.must("m", func(tx *record.Tx) { tx.PutRun(record.Fresh(r)) })
		e, err := w.Link(w.ctx(), r.ID())
		require.NoError(t, err)
		return e
	}
	for n := range 7 {
		mine := userRun(w, []string{"u", "manager"}[n%2], "u", n+1)
		want = append([]string{mine.ID()}, want...)
		put(mine)
		put(userRun(w, "u", "another", n+1))
		elsewhere := userRun(w, "u", "u", n+1)
		elsewhere.Organization = "another"
		put(elsewhere)
		for _, keep := range []bool{true, false} {
			require.NoError(t, w.EraseRun(w.ctx(), put(userRun(w, "u", "u", n+1)), w.host.NewID(), keep))
		}
	}
	for _, limit := range []int{1, 2, 6, 7, 8} {
		var got []string
		for next, more := "", true; more; more = next != "" {
			page, err := w.RunsOfUser(w.ctx(), record.Of("o"), "u", next, limit)
			require.NoError(t, err)
			assert.Equal(t, idsOfRuns(page), page.Positions)
			got, next = append(got, page.Positions...), page.Next
			require.Equal(t, len(got) < len(want), next != "", "%d at a time", limit)
		}
		assert.Equal(t, want, got, "%d at a time", limit)
	}
	for _, scope := range []record.Scope{record.System(), record.Of("elsewhere"), {}} {
		page, err := w.RunsOfUser(w.ctx(), scope, "u", "", 10)
		require.NoError(t, err)
		assert.Empty(t, page.Rows)
	}
}

// Each head has one row, whose key follows from the head, as long as it is not removed.
func TestEachRunHasOneRow(t *testing.T) {
	w := runBlank(t)
	rows := func() (keys []string) {
		for key := range w.keys() {
			if key.Part != record.RunKey(key.Sort).Part && key.Sort != "head" {
				keys = append(keys, key.String())
			}
		}
		return keys
	}
	r := userRun(w, "manager", "u", 2)
	e := record.Fresh(r)
	w.must("1", func(tx *record.Tx) { e = tx.PutRun(e) })
	e.Value.Status = lifecycle.Running
	w.must("2", func(tx *record.Tx) { e = tx.PutRun(e) })
	key, ok := record.UserRunKey(e.Value.Run)
	require.True(t, ok)
	assert.Equal(t, []string{key.String()}, rows())
	require.NoError(t, w.EraseRun(w.ctx(), e, "3", true))
	assert.Empty(t, rows())

	former := userRun(w, "u", "", 2) // of an earlier version
	w.must("4", func(tx *record.Tx) { tx.PutRun(record.Fresh(former)) })
	_, ok = record.UserRunKey(former.Run)
	assert.False(t, ok)
	assert.Empty(t, rows())
}

// Chats and deliveries are listed by their owner, newest first.
func TestChatsAndDeliveriesAreListedByUser(t *testing.T) {
	w := runBlank(t)
	var chats, deliveries []string
	for n := range 5 {
		for _, user := range []string{"u", "another"} {
			chat := lifecycle.Chat{ID: fmt.Sprint(user, n), OwnID: true, Organization: "o", User: user,
				CreatedAt: w.host.Now()}
			run := w.host.NewID()
			h := record.Delivery{DeliveryID: record.DeliveryID(run, 1), Organization: "o", User: "u", Owner: user,
				RunID: run, Sequence: 1}
			gone := chat
			gone.ID, gone.Deleted = "gone"+chat.ID, true
			w.must("m", func(tx *record.Tx) {
				tx.PutChat(record.Fresh(chat))
				tx.PutChat(record.Fresh(gone))
				tx.NewDelivery(w.ctx(), h)
			})
			if user == "u" {
				chats = append([]string{chat.ID}, chats...)
				deliveries = append([]string{h.DeliveryID}, deliveries...)
			}
		}
	}
	of := w.host.NewID()
	w.must("m", func(tx *record.Tx) {
		tx.NewDelivery(w.ctx(), record.Delivery{DeliveryID: record.DeliveryID(of, 1), Organization: "o", User: "u",
			RunID: of, Sequence: 1}) // of an earlier version
	})
	var gotChats, gotDeliveries []string
	for next, more := "", true; more; more = next != "" {
		page, err := w.ChatsOfUser(w.ctx(), record.Of("o"), "u", next, 2)
		require.NoError(t, err)
		for _, e := range page.Rows {
			gotChats = append(gotChats, e.Value.ID)
		}
		next = page.Next
	}
	assert.Equal(t, chats, gotChats)
	for next, more := "", true; more; more = next != "" {
		page, err := w.DeliveriesOfUser(w.ctx(), record.Of("o"), "u", next, 2)
		require.NoError(t, err)
		for _, e := range page.Rows {
			gotDeliveries = append(gotDeliveries, e.Value.DeliveryID)
		}
		next = page.Next
	}
	assert.Equal(t, deliveries, gotDeliveries)
}

// A page of the runs of a user costs the same, however many runs the organization has.
func TestAPageOfAUsersRunsReadsNoOthers(t *testing.T) {
	w := runBlank(t)
	for n := range 1003 {
		owner := fmt.Sprint("colleague", n%10)
		if n%334 == 0 {
			owner = "u"
		}
		w.must("m", func(tx *record.Tx) { tx.PutRun(record.Fresh(userRun(w, owner, owner, 1))) })
	}
	read := &readCounter{Table: w.memory}
	s := record.New(read, w.blobs, w.host)
	page, err := s.RunsOfUser(w.ctx(), record.Of("o"), "u", "", 50)
	require.NoError(t, err)
	assert.Len(t, page.Rows, 4)
	assert.Empty(t, page.Next)
	assert.Equal(t, readCounter{Table: w.memory, calls: 2, items: 8}, *read, "the rows, then the heads")
}

// readCounter counts the reads of a table.
type readCounter struct {
	table.Table

	calls, items int
}

func (c *readCounter) Get(ctx context.Context, keys ...table.Key) ([]*table.Item, error) {
	c.calls, c.items = c.calls+1, c.items+len(keys)
	return c.Table.Get(ctx, keys...)
}

func (c *readCounter) Query(ctx context.Context, r table.Range) ([]*table.Item, error) {
	items, err := c.Table.Query(ctx, r)
	c.calls, c.items = c.calls+1, c.items+len(items)
	return items, err
}

// The active runs of a user are those that the user has sent, and those that others have sent to the user's chats. Each
// is listed once until it ends, or its chat is deleted.
func TestActiveRunsOfAUser(t *testing.T) {
	w := runBlank(t)
	ids := func(user string) []string {
		ids, err := w.ActiveRunsOfUser(w.ctx(), record.Of("o"), user)
		require.NoError(t, err)
		return ids
	}
	move := func(before, after lifecycle.Run) {
		w.must(w.host.NewID(), func(tx *record.Tx) { tx.MoveSlots(before, after) })
	}
	run := func(id, sender, owner string, status lifecycle.Status, slot string) lifecycle.Run {
		return lifecycle.Run{
			RunSpec: lifecycle.RunSpec{RunID: id, Organization: "o", User: sender, ChatUser: owner}, Turn: 2,
			Status: status, Slots: lifecycle.Slots{User: slot, Organization: slot},
		}
	}
	none := lifecycle.Run{}
	mine := run("1", "u", "u", lifecycle.Queued, "0")
	sent := run("2", "u", "another", lifecycle.Queued, "over/2")
	guest := run("3", "manager", "u", lifecycle.Running, "1")
	for _, r := range []lifecycle.Run{mine, sent, guest} {
		move(none, r)
	}
	assert.Equal(t, []string{"1", "2", "3"}, ids("u"))
	assert.Equal(t, []string{"3"}, ids("manager"))
	assert.Equal(t, []string{"2"}, ids("another"))

	waits := run("3", "manager", "u", lifecycle.AwaitingInput, pausedSlot("3"))
	move(guest, waits)
	assert.Equal(t, []string{"1", "2", "3"}, ids("u"))
	for user, want := range map[string][]string{"u": {"3"}, "manager": {"3"}, "another": {"2"}} {
		ids, err := w.WaitingRunsOfUser(w.ctx(), record.Of("o"), user)
		require.NoError(t, err)
		assert.Equal(t, want, ids, user)
	}
	ended, next := run("3", "manager", "u", lifecycle.Completed, ""), run("4", "manager", "u", lifecycle.Queued, "2")
	move(waits, next) // a message that was parked
	assert.Equal(t, []string{"1", "2", "4"}, ids("u"))
	removed := next
	removed.Deleted, removed.Slots = true, lifecycle.Slots{}
	move(next, removed)
	assert.Equal(t, []string{"1", "2"}, ids("u"))
	move(removed, ended)
	move(sent, run("2", "u", "another", lifecycle.Failed, ""))
	move(mine, run("1", "u", "u", lifecycle.Failed, ""))
	assert.Empty(t, w.keys())
}
