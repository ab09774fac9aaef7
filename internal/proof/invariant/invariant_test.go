package invariant_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/proof/invariant"
	"agentplatform/internal/store/blob/memblob"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
	"agentplatform/internal/store/table/memtable"
)

var stored = record.Run{Run: lifecycle.Run{
	RunSpec: lifecycle.RunSpec{RunID: "r", Organization: "o", User: "u", Agent: "a", Chat: "c"},
	Due:     time.Date(2026, 5, 5, 0, 0, 0, 0, time.UTC),
}}

// furnished returns a table with an item of each kind that an audit reads, and of some that it does not.
func furnished(t *testing.T) *memtable.Table {
	ctx, h := t.Context(), host.System()
	items := memtable.New(h.Now)
	s := record.New(items, &memblob.Store{}, h)
	require.NoError(t, s.EnsureDeployment(ctx))
	_, err := record.Create(ctx, s, record.File{ID: "f", Organization: "o", Uploaded: true, Due: h.Now()}, "f")
	require.NoError(t, err)
	tx := s.Begin("m")
	tx.PutRun(record.Fresh(stored))
	tx.PutStep(ctx, stored, record.Step{Index: 1, Text: "small"})
	tx.PutStep(ctx, stored, record.Step{Index: 2, Text: strings.Repeat("x", 9<<10)})
	tx.PutDecisions(ctx, stored, 1, record.Decisions{List: []record.Decision{{InterruptID: "h"}}})
	tx.PutDecisions(ctx, stored, 2, record.Decisions{
		List: []record.Decision{{InterruptID: "i"}, {InterruptID: "j", Decision: "approve"}},
	})
	tx.PutChat(record.Fresh(lifecycle.Chat{ID: "c", Organization: "o", Title: "t"}))
	taken := stored.Run
	taken.Slots = lifecycle.Slots{User: "0000", Organization: "0001"}
	tx.MoveSlots(stored.Run, taken)
	charged := stored.Run
	charged.Status = lifecycle.Completed
	tx.PutCharge(charged)
	tx.PutEmbedded("o", record.Entry{Kind: record.OfSearch, InputTokens: 1})
	tx.CountRun("o", "user/u/day", record.Spent{Runs: 4})
	tx.PutDelivery(record.Fresh(record.Delivery{DeliveryID: "d", Organization: "o", RunID: "r"}))
	tx.ReferenceFiles(ctx, "o", lifecycle.Whose{Agent: "a"}, "r", []record.FileRef{{FileID: "f"}})
	record.PutResource(tx, record.Fresh(catalog.User{ID: "u", Organization: "o"}))
	tx.PutJob(record.Fresh(record.Job{ID: "j", Organization: "o"}))
	require.NoError(t, tx.Commit(ctx))
	return items
}

// An audit reads items by their kind, and ignores the rest.
func TestAnAuditTakesInWhatThereIs(t *testing.T) {
	a := invariant.NewAudit()
	files := map[string]string{}
	furnished(t).All(func(i *table.Item) {
		require.NoError(t, a.Add(i), i.Key)
		if run, file, is := invariant.Held(i.Key); is {
			files[run] = file
		}
	})
	assert.Equal(t, map[string]record.Run{"r": stored}, a.Runs)
	assert.Equal(t, []record.Step{{Index: 1, Text: "small"}}, a.Steps, "the other is large")
	assert.Equal(t, map[string][]string{"r": {"i", "j"}}, a.Decided, "of its last pause")
	require.Len(t, a.Chats, 1)
	assert.Equal(t, "t", a.Chats[0].Title)
	assert.Equal(t, map[table.Key]string{
		{Part: "active/user/o/u", Sort: "0000"}: "r", {Part: "active/org/o", Sort: "0001"}: "r",
	}, a.Slots)
	require.Len(t, a.Ledger, 2)
	require.Len(t, a.Ledger["m"], 1)
	assert.Equal(t, record.OfSearch, a.Ledger["m"][0].Kind)
	require.Len(t, a.Ledger["r"], 1)
	assert.True(t, a.Ledger["r"][0].Billed)
	assert.Equal(t, map[table.Key]int64{{Part: "spent/user/u/day", Sort: "runs"}: 5}, a.Counts)
	require.Len(t, a.Files, 1)
	assert.Equal(t, 1, a.Files[0].References)
	require.Len(t, a.Deliveries, 1)
	assert.Equal(t, "d", a.Deliveries[0].DeliveryID)
	assert.Equal(t, map[string]string{"r": "f"}, files)
	_, _, is := invariant.Held(table.Key{Part: "chat/c", Sort: "file/f"})
	assert.False(t, is)
}

// An audit returns an error for an item of each of its kinds that it cannot read. It does not read values that are too
// large for their items.
func TestAnAuditReportsWhatItCannotRead(t *testing.T) {
	kinds := map[string]bool{}
	furnished(t).All(func(i *table.Item) {
		kind, _, _ := strings.Cut(i.Part, "/")
		prefix, _, _ := strings.Cut(i.Sort, "/")
		if kind == "run" {
			kind += " " + prefix
		}
		for _, body := range []string{"{", `{"doc":[]}`} {
			bad := *i
			bad.Body = []byte(body)
			if body == "{" || prefix == "step" || prefix == "decision" {
				rejected, before := kinds[kind]
				kinds[kind] = invariant.NewAudit().Add(&bad) != nil && (rejected || !before)
			}
		}
	})
	assert.Equal(t, map[string]bool{
		"run head": true, "run step": true, "run decision": true, "chat": true, "active": true, "ledger": true,
		"spent": true, "file": true, "hook": true,
		"run file": false, "deployment": false, "job": false, "user": false,
	}, kinds)
	for _, sortKey := range []string{"step/000009", "decision/000009"} {
		a := invariant.NewAudit()
		large := table.Item{Key: table.Key{Part: "run/r", Sort: sortKey}, Body: []byte(`{"blob":"documents/x"}`)}
		require.NoError(t, a.Add(&large))
		assert.Empty(t, a.Decided)
		assert.Empty(t, a.Steps)
	}
}
