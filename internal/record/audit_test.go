package record_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/lifecycle"
	"agentplatform/internal/record"
	"agentplatform/internal/table"
)

// newEstateToAudit is an estate that holds one of everything that an audit looks at.
func newEstateToAudit(t *testing.T) *estate {
	ctx, e := t.Context(), newEstate(t)
	run := e.runOf(e.run)
	large := strings.Repeat("x", 9<<10)
	e.must("m", func(tx *record.Tx) { tx.PutStep(ctx, run, record.Step{Index: 1, Text: "small"}) })
	e.must("m", func(tx *record.Tx) { tx.PutStep(ctx, run, record.Step{Index: 2, Text: large}) })
	e.must("m", func(tx *record.Tx) {
		tx.PutDecisions(ctx, run, 1, record.Decisions{List: []record.Decision{{InterruptID: "h"}}})
	})
	e.must("m", func(tx *record.Tx) {
		tx.PutDecisions(ctx, run, 2, record.Decisions{
			List: []record.Decision{{InterruptID: "i"}, {InterruptID: "j", Decision: "approve"}},
		})
	})
	e.must("m", func(tx *record.Tx) {
		tx.PutChat(record.Fresh(lifecycle.Chat{ID: "c", Organization: e.organization, Title: "t"}))
	})
	taken := run.Run
	taken.Slots = lifecycle.Slots{User: "0000", Organization: "0001"}
	require.NoError(t, committed(ctx, e.Store, "m", func(tx *record.Tx) { tx.MoveSlots(run.Run, taken) }))
	e.must("m", func(tx *record.Tx) { tx.PutCharge(run.Run, lifecycle.Charge{Billed: true}) })
	e.must("m", func(tx *record.Tx) { tx.CountRun(e.organization, "user/u/day", record.Spent{Runs: 4}) })
	e.must("m", func(tx *record.Tx) {
		tx.PutHook(record.Fresh(record.Hook{DeliveryID: "d", Organization: e.organization, RunID: e.run}))
	})
	e.oldSecret()
	return e
}

// An audit takes in what there is, by its kind, and passes over the rest.
func TestAnAuditTakesInWhatThereIs(t *testing.T) {
	e := newEstateToAudit(t)
	a := record.NewAudit()
	holds := map[string][]string{}
	e.memory.All(func(i *table.Item) {
		require.NoError(t, a.Add(i), i.Key)
		if run, file, is := record.Held(i.Key); is {
			holds[run] = append(holds[run], file)
		}
	})
	assert.Equal(t, map[string]record.Run{e.run: e.runOf(e.run)}, a.Runs)
	assert.Equal(t, []record.Step{{Index: 1, Text: "small"}}, a.Steps, "the other is large")
	assert.Equal(t, map[string][]string{e.run: {"i", "j"}}, a.Decided, "of its last pause")
	require.Len(t, a.Chats, 1)
	assert.Equal(t, "t", a.Chats[0].Title)
	slots := map[string]string{}
	for key, run := range a.Slots {
		slots[e.inWords(key.String())] = e.inWords(run)
	}
	assert.Equal(t, map[string]string{
		"active/user/ORGANIZATION/USER 0000": "RUN", "active/org/ORGANIZATION 0001": "RUN",
	}, slots)
	require.Len(t, a.Ledger, 1)
	require.Len(t, a.Ledger[e.run], 1)
	assert.True(t, a.Ledger[e.run][0].Billed)
	assert.Equal(t, map[table.Key]int64{{Part: "spent/user/u/day", Sort: "runs"}: 5}, a.Counts)
	require.Len(t, a.Files, 3)
	require.Len(t, a.Hooks, 1)
	assert.Equal(t, "d", a.Hooks[0].DeliveryID)
	assert.Equal(t, map[string][]string{e.run: {e.held}, e.parked: {e.held}}, holds)
	_, _, is := record.Held(table.Key{Part: "chat/c", Sort: "file/f"})
	assert.False(t, is)
}

// An audit says what it cannot understand, of every kind that it takes in; what is too large for its item it does not
// look into.
func TestAnAuditSaysWhatItCannotUnderstand(t *testing.T) {
	e := newEstateToAudit(t)
	kinds := map[string]bool{}
	e.memory.All(func(i *table.Item) {
		kind, _, _ := strings.Cut(i.Part, "/")
		place, _, _ := strings.Cut(i.Sort, "/")
		if kind == "run" {
			kind += " " + place
		}
		for _, body := range []string{"{", `{"doc":[]}`} {
			bad := *i
			bad.Body = []byte(body)
			if body == "{" || place == "step" || place == "decision" {
				said, before := kinds[kind]
				kinds[kind] = record.NewAudit().Add(&bad) != nil && (said || !before)
			}
		}
	})
	assert.Equal(t, map[string]bool{
		"run head": true, "run step": true, "run decision": true, "chat": true, "active": true, "ledger": true,
		"spent": true, "file": true, "hook": true,
		"run file": false, "agent": false, "api_key": false, "deployment": false, "group": false, "organization": false,
		"toolkit": false, "user": false,
	}, kinds)
	for _, place := range []string{"step/000009", "decision/000009"} {
		a := record.NewAudit()
		large := table.Item{Key: table.Key{Part: "run/r", Sort: place}, Body: []byte(`{"blob":"documents/x"}`)}
		require.NoError(t, a.Add(&large))
		assert.Empty(t, a.Decided)
		assert.Empty(t, a.Steps)
	}
}
