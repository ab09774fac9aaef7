package record_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/proof/faulttable"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
)

// A chat is read as it was written, by its id and by its runs.
func TestChatIsReadAsWritten(t *testing.T) {
	for _, own := range []bool{true, false} {
		w := runBlank(t)
		c := runFill[lifecycle.Chat](t)
		c.ID, c.OwnID, c.Deleted = w.host.NewID(), own, false
		w.must("m", func(tx *record.Tx) { tx.PutChat(record.Fresh(c)) })
		e, err := w.Chat(w.ctx(), record.Of(c.Organization), c.ID)
		require.NoError(t, err)
		assert.Equal(t, c, e.Value)
		byRun, found, err := w.ChatOf(
			w.ctx(),
			lifecycle.RunSpec{Organization: c.Organization, Chat: c.ID, OwnChatID: own},
		)
		require.NoError(t, err)
		assert.True(t, found)
		assert.Equal(t, e, byRun)
		_, found, err = w.ChatOf(w.ctx(), lifecycle.RunSpec{Organization: c.Organization, Chat: c.ID, OwnChatID: !own})
		require.NoError(t, err)
		assert.False(t, found)

		deleted := e
		deleted.Value.Deleted = true
		w.must("n", func(tx *record.Tx) { tx.PutChat(deleted) })
		err = committed(w.ctx(), w.Store, "x", func(tx *record.Tx) { tx.DeleteChat(e) })
		require.ErrorIs(t, err, record.ErrConflict, "it is not as it was read")
		e, found, err = w.FindChat(w.ctx(), record.Of(c.Organization), c.ID)
		require.NoError(t, err)
		assert.True(t, found, "it counts the epochs")
		_, err = w.Chat(w.ctx(), record.Of(c.Organization), c.ID)
		assert.Equal(t, "not_found", runCode(err))
		listed, err := w.Chats(w.ctx(), record.Of(c.Organization), "", 9)
		require.NoError(t, err)
		assert.Empty(t, listed.Rows)
		w.must("y", func(tx *record.Tx) { tx.DeleteChat(e) })
		_, found, err = w.FindChat(w.ctx(), record.Of(c.Organization), c.ID)
		require.NoError(t, err)
		assert.False(t, found)
	}
}

// A client's own chat id is valid in its organization only. The service's ids are unique globally, and each belongs to
// one organization.
func TestOwnChatIDsAreScopedToTheOrganization(t *testing.T) {
	ours, theirs := "69a42a400000000000000001", "69a42a400000000000000002"
	chats := []lifecycle.Chat{
		{ID: "a", OwnID: true, Organization: "o", Title: "o's"},
		{ID: "a", OwnID: true, Organization: "p", Title: "p's"},
		{ID: ours, Organization: "o", Title: "made"},
		{ID: theirs, OwnID: true, Organization: "o", Title: "looks as if it were made"},
	}
	for _, c := range []struct {
		scope, id, title, code string
	}{
		{"o", "a", "o's", ""},
		{"p", "a", "p's", ""},
		{"q", "a", "", "not_found"},
		{"o", ours, "made", ""},
		{"p", ours, "", "outside_organization"},
		{"o", theirs, "looks as if it were made", ""},
		{"p", theirs, "", "not_found"},
		{"o", "none", "", "not_found"},
		{"o", "69a42a400000000000000003", "", "not_found"},
	} {
		w := runBlank(t)
		for _, chat := range chats {
			w.must("m", func(tx *record.Tx) { tx.PutChat(record.Fresh(chat)) })
		}
		e, found, err := w.FindChat(w.ctx(), record.Of(c.scope), c.id)
		assert.Equal(t, c.title != "", found, "%+v", c)
		assert.Equal(t, c.title, e.Value.Title, "%+v", c)
		assert.Equal(t, c.code == "outside_organization", err != nil, "%+v", c)
		w.items.Before = func(faulttable.Call) faulttable.Fault { return faulttable.Down }
		_, found, err = w.FindChat(w.ctx(), record.Of(c.scope), c.id)
		assert.Equal(t, "unavailable", runCode(err))
		assert.False(t, found, "what cannot be asked is not said to be there")
		w.items.Before = nil
		e, err = w.Chat(w.ctx(), record.Of(c.scope), c.id)
		assert.Equal(t, c.code, runCode(err), "%+v", c)
		assert.Equal(t, c.title, e.Value.Title, "%+v", c)
	}
}

// Chats are listed newest first, each once, up to the page's limit. An index may still list a chat that was deleted, or
// that belongs to another organization. Such a chat is left out.
func TestChatsAreListedNewestFirstEachOnce(t *testing.T) {
	w := runBlank(t)
	const all = table.MaxGetKeys + 30
	var newest []string
	for n := range all {
		id := fmt.Sprint("chat ", n)
		made := w.host.now.Add(time.Duration(n*n) * time.Millisecond)
		w.must("m", func(tx *record.Tx) {
			tx.PutChat(record.Fresh(lifecycle.Chat{ID: id, OwnID: true, Organization: "o", CreatedAt: made}))
		})
		newest = slices.Insert(newest, 0, id)
	}
	for _, limit := range []int{1, 3, all / 2, all - 1, all, all + 1} {
		var got []string
		for next, more := "", true; more; more = next != "" {
			page, err := w.Chats(w.ctx(), record.Of("o"), next, limit)
			require.NoError(t, err)
			assert.LessOrEqual(t, len(page.Rows), limit)
			for _, e := range page.Rows {
				got = append(got, e.Value.ID)
			}
			next = page.Next
			require.Equal(t, len(got) < all, next != "", "%d at a time: %d", limit, len(got))
		}
		assert.Equal(t, newest, got, "%d at a time", limit)
	}
	page, err := w.Chats(w.ctx(), record.Of("p"), "", 9)
	require.NoError(t, err)
	assert.Empty(t, page.Rows)

	gone := record.ChatKey(lifecycle.Chat{ID: "chat 7", OwnID: true, Organization: "o"})
	for _, owner := range []string{"", "p"} { // a lagging index: deleted, or created by another since
		w.items.Inner = &runLag{Table: w.memory, at: gone, owner: owner}
		page, err := w.Chats(w.ctx(), record.Of("o"), "", all)
		require.NoError(t, err)
		assert.Len(t, page.Rows, all-1)
	}
}
