//go:build !race

package record_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/store/record"
)

// A read of the slots returns how many runs count. It returns a free number exactly while there is one. New runs are
// allowed below the cap only. This holds for caps of all sizes, full and nearly full, with runs that come, pause, hand
// on their slots and go.
func TestAdmissionCountsTheRunsThatCount(t *testing.T) {
	for _, limit := range []int{1, 2, 3, 128, 129, 130, 201, -3, -130} { // a negative one is spread over shards
		s, h := newStore()
		s = s.SpreadSlotsAbove(record.LargeCap)
		if limit < 0 {
			limit, s = -limit, s.SpreadSlotsAbove(0)
		}
		r := rand.New(rand.NewPCG(1, uint64(limit)))
		var active []lifecycle.Run
		user := func(slots string) lifecycle.Slots { return lifecycle.Slots{User: slots, Organization: slots} }
		write := func(before, after lifecycle.Run) error {
			return committed(t.Context(), s, h.NewID(), func(tx *record.Tx) { tx.MoveSlots(before, after) })
		}
		counting := func() (n int) {
			for _, a := range active {
				if a.Slots.User != pausedSlot(a.ID()) {
					n++
				}
			}
			return n
		}
		for step := range 3*limit + 60 {
			admission, err := s.Admission(t.Context(), record.UserSlots("o", "u"), limit)
			require.NoError(t, err)
			whole, err := s.Admission(t.Context(), record.OrganizationSlots("o"), limit)
			require.NoError(t, err)
			for _, d := range []record.Admission{admission, whole} {
				assert.Equal(t, counting() < limit, d.Allows(), "%d of %d", counting(), limit)
				assert.Equal(t, limit, d.Cap)
				paused, err := s.Paused(t.Context(), d, len(active)+1)
				require.NoError(t, err)
				assert.Equal(t, len(active)-counting(), paused)
				if limit <= 128 {
					assert.Equal(t, counting(), d.Active)
				}
				held := func(a lifecycle.Run) bool { return a.Slots.User == d.Free }
				assert.False(t, slices.ContainsFunc(active, held), d.Free)
			}
			if step%8 == 0 || limit <= 3 { // small partitions are read whole
				ofUser, err := s.CountingRuns(t.Context(), record.UserSlots("o", "u"))
				require.NoError(t, err)
				ofAll, err := s.CountingRuns(t.Context(), record.OrganizationSlots("o"))
				require.NoError(t, err)
				assert.Equal(t, []int{counting(), counting()}, []int{ofUser, ofAll})
				ids, err := s.ActiveRuns(t.Context(), "o")
				require.NoError(t, err)
				var want []string
				for _, a := range active {
					want = append(want, a.ID())
				}
				slices.Sort(ids)
				slices.Sort(want)
				require.Equal(t, want, ids)
			}
			at := -1
			if len(active) > 0 {
				at = r.IntN(len(active))
			}
			switch what := r.IntN(8); {
			case at < 0 || what < 4: // a run comes, in an overflow slot if necessary
				next := lifecycle.Run{RunSpec: lifecycle.RunSpec{RunID: h.NewID(), Organization: "o", User: "u"}}
				next.Slots = user(admission.Slot(next.RunID))
				require.NoError(t, write(lifecycle.Run{RunSpec: next.RunSpec}, next))
				other := lifecycle.Run{
					RunSpec: lifecycle.RunSpec{RunID: h.NewID(), Organization: "o", User: "u"}, Slots: next.Slots,
				}
				if admission.Free != "" {
					require.ErrorIs(t, write(lifecycle.Run{RunSpec: other.RunSpec}, other), record.ErrConflict,
						"a row is one run's")
				}
				active = append(active, next)
			case what == 4: // a run ends
				gone := active[at]
				gone.Slots = lifecycle.Slots{}
				require.NoError(t, write(active[at], gone))
				active = slices.Delete(active, at, at+1)
			case what == 5: // a run pauses
				paused := active[at]
				paused.Slots = user(pausedSlot(paused.RunID))
				require.NoError(t, write(active[at], paused))
				active[at] = paused
			case what == 6: // a run hands its slots on
				next := lifecycle.Run{
					RunSpec: lifecycle.RunSpec{RunID: h.NewID(), Organization: "o", User: "u"}, Slots: active[at].Slots,
				}
				if active[at].Slots.User == pausedSlot(active[at].RunID) {
					next.Slots = user(admission.Slot(next.RunID))
				}
				require.NoError(t, write(active[at], next))
				active[at] = next
			default: // a run stays
				require.NoError(t, write(active[at], active[at]))
			}
		}
	}
	s, _ := newStore()
	for _, spreading := range []*record.Store{s, s.SpreadSlotsAbove(record.LargeCap)} {
		open, err := spreading.Admission(t.Context(), record.OrganizationSlots("o"), record.Uncapped)
		require.NoError(t, err)
		assert.True(t, open.Allows())
		assert.Regexp(t, map[bool]string{true: "^over/r$", false: "^[0-9]+/over/r$"}[spreading == s], open.Slot("r"))
	}
}
