package record_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/platform/host"
	"agentplatform/internal/store/record"
)

// A delivery is read as it was written, with its body. A body of up to 8 KiB is in the item, a larger one in the blob
// store.
func TestDeliveryIsReadAsWritten(t *testing.T) {
	for _, n := range []int{0, 8 << 10, 8<<10 + 1} {
		w := runBlank(t)
		h := runFill[record.Delivery](t)
		h.DeliveryID, h.BodyBlob, h.Body = record.DeliveryID(w.host.NewID(), h.Sequence), "", strings.Repeat("x", n)
		w.must("m", func(tx *record.Tx) { tx.NewDelivery(w.ctx(), h) })
		e, found, err := w.DeliveryAt(w.ctx(), h.RunID, h.Sequence)
		require.NoError(t, err)
		assert.True(t, found)
		body, err := w.DeliveryBody(w.ctx(), e.Value)
		require.NoError(t, err)
		assert.Equal(t, h.Body, string(body))
		assert.Equal(t, n > 8<<10, len(w.blobs.Keys()) == 1)
		byID, err := w.Delivery(w.ctx(), record.Of(h.Organization), h.DeliveryID)
		require.NoError(t, err)
		assert.Equal(t, e, byID)
		if n > 8<<10 {
			h.Body, h.BodyBlob = "", e.Value.BodyBlob
		}
		assert.Equal(t, h, e.Value)
		_, found, err = w.DeliveryAt(w.ctx(), h.RunID, h.Sequence+1)
		require.NoError(t, err)
		assert.False(t, found)
	}
}

// A delivery that is pending, or is to be sent again, has a due time. It is after the pause before the next attempt,
// the sender's claim and the grace of a wakeup. Any other is never due.
func TestPendingDeliveryIsDue(t *testing.T) {
	at := func(minutes int) time.Time { return time.Date(2026, 1, 1, 0, minutes, 0, 0, time.UTC) }
	for _, last := range []int{0, 1, 2} {
		h := record.Delivery{RunID: "r", Organization: "o", NextAttempt: at(3), ClaimUntil: at(3), CheckAt: at(3)}
		*[]*time.Time{&h.NextAttempt, &h.ClaimUntil, &h.CheckAt}[last] = at(9)
		for _, c := range []struct {
			state record.DeliveryState
			again bool
			due   bool
		}{
			{record.DeliveryPending, false, true}, {record.DeliveryDelivered, false, false},
			{record.DeliveryFailed, false, false},
			{record.DeliveryDelivered, true, true}, {record.DeliveryFailed, true, true},
		} {
			h.State, h.Redeliver = c.state, c.again
			op, err := opOf(runBlank(t).Store, "m", func(tx *record.Tx) { tx.PutDelivery(record.Fresh(h)) })
			require.NoError(t, err)
			if c.due {
				assert.Equal(t, at(9), op.Item.Due)
			} else {
				assert.Zero(t, op.Item.Due)
			}
		}
	}
}

// A claim holds until it ends; where only one process runs, claims of other process ids are void.
func TestClaimHoldsUntilItEnds(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		h    record.Delivery
		boot string
		want bool
	}{
		"nobody":                      {record.Delivery{ClaimUntil: now.Add(time.Second)}, "", false},
		"somebody":                    {record.Delivery{Claim: "s", ProcessID: "b", ClaimUntil: now.Add(1)}, "", true},
		"somebody whose time is over": {record.Delivery{Claim: "s", ClaimUntil: now}, "", false},
		"we":                          {record.Delivery{Claim: "s", ProcessID: "b", ClaimUntil: now.Add(1)}, "b", true},
		"who was here before": {record.Delivery{Claim: "s", ProcessID: "a", ClaimUntil: now.Add(1)}, "b",
			false},
	} {
		assert.Equal(t, c.want, c.h.Claimed(now, c.boot), name)
	}
}

// The ids of deliveries are identifiers that follow from run and sequence number. Those of a run, or of runs created
// one after the other, are all different.
func TestDeliveryIDsAreUnique(t *testing.T) {
	const stored = "69a42a4000009e3779b97f4c"
	assert.Equal(t, stored, record.DeliveryID("69a42a400000000000000001", 1), "another program must find it again")
	seen := map[string]bool{}
	for _, tail := range []uint64{0, 1, 2, 0xffffffffffff} {
		run := host.FormatID(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), tail)
		for n := range 100 {
			id := record.DeliveryID(run, n)
			assert.True(t, host.ValidID(id), id)
			assert.Equal(t, run[:12], id[:12], "it tells when the run was made")
			assert.False(t, seen[id], id)
			assert.Equal(t, id, record.DeliveryID(run, n))
			seen[id] = true
		}
	}
}

// Deliveries are listed newest first, those of a run within the scope. A delivery looked up by id exists, belongs to
// another organization, or does not exist.
func TestDeliveriesAreSeenWithinTheScope(t *testing.T) {
	w := runBlank(t)
	runs := []string{w.host.NewID(), w.host.NewID()}
	for _, run := range runs {
		for n := range 3 {
			w.must("m", func(tx *record.Tx) {
				tx.NewDelivery(w.ctx(), record.Delivery{
					DeliveryID: record.DeliveryID(
						run,
						n+1,
					),
					RunID:        run,
					Sequence:     n + 1,
					Organization: "o",
					State:        record.DeliveryPending,
				})
			})
		}
	}
	var listed []string
	for next, more := "", true; more; more = next != "" {
		page, err := w.Deliveries(w.ctx(), record.Of("o"), next, 2)
		require.NoError(t, err)
		for _, e := range page.Rows {
			listed = append(listed, e.Value.DeliveryID)
		}
		next = page.Next
	}
	require.Len(t, listed, 6)
	for i := range listed[1:] {
		assert.Greater(t, listed[i], listed[i+1])
	}
	for _, c := range []struct {
		scope record.Scope
		want  int
	}{{record.Of("o"), 3}, {record.System(), 3}, {record.Of("p"), 0}} {
		found, err := w.DeliveriesOfRun(w.ctx(), c.scope, runs[0])
		require.NoError(t, err)
		require.Len(t, found, c.want)
		for i, e := range found {
			assert.Equal(t, []any{runs[0], 3 - i}, []any{e.Value.RunID, e.Value.Sequence})
		}
	}
	for n := 1; n <= 3; n++ {
		id := record.DeliveryID(runs[1], n)
		e, err := w.Delivery(w.ctx(), record.Of("o"), id)
		require.NoError(t, err)
		assert.Equal(t, n, e.Value.Sequence)
		_, err = w.Delivery(w.ctx(), record.Of("p"), id)
		assert.Equal(t, "outside_organization", runCode(err), n)
		_, err = w.Delivery(w.ctx(), record.Of("o"), record.DeliveryID(runs[1], n+3))
		assert.Equal(t, "not_found", runCode(err))
	}
	late := record.Delivery{DeliveryID: record.DeliveryID(runs[1], 99), RunID: runs[1], Sequence: 99, Organization: "o"}
	w.must("m", func(tx *record.Tx) { tx.NewDelivery(w.ctx(), late) })
	_, err := w.Delivery(w.ctx(), record.Of("p"), late.DeliveryID)
	assert.Equal(t, "outside_organization", runCode(err))
	w.items.Inner = &runLag{Table: w.memory, at: record.DeliveryKey(runs[0], 1)} // still listed, but deleted
	_, err = w.Delivery(w.ctx(), record.Of("o"), record.DeliveryID(runs[0], 1))
	assert.Equal(t, "not_found", runCode(err))
}

// All deliveries of a run are deleted with their large bodies; other runs' are not.
func TestDeliveriesOfARunAreDeleted(t *testing.T) {
	for _, n := range []int{0, 1, 100, 101, 201} {
		w := newRunWorld(t)
		run := w.host.NewID()
		for i := range n {
			w.must("m", func(tx *record.Tx) {
				tx.NewDelivery(w.ctx(), record.Delivery{RunID: run, Sequence: i, Organization: "o",
					Body: fmt.Sprint(i)})
			})
		}
		w.must("m", func(tx *record.Tx) {
			tx.NewDelivery(w.ctx(), record.Delivery{RunID: run, Sequence: n, Organization: "o", Body: runLarge})
		})
		before := len(w.blobs.Keys())
		require.NoError(t, w.EraseDeliveries(w.ctx(), "o", run))
		assert.Len(t, w.blobs.Keys(), before-1)
		for key := range w.keys() {
			assert.NotEqual(t, "hook/"+run, key.Part)
		}
		others, err := w.DeliveriesOfRun(w.ctx(), record.Of("o"), w.id)
		require.NoError(t, err)
		assert.Len(t, others, 2)
	}
}
