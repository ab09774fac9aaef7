package record_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/proof/faulttable"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
)

// take gives a run a slot of o and its user u.
func (w *runWorld) take(run, row string) {
	w.t.Helper()
	ops, err := opsOf(w.Store, "m", func(tx *record.Tx) {
		tx.MoveSlots(lifecycle.Run{}, lifecycle.Run{
			RunSpec: lifecycle.RunSpec{RunID: run, Organization: "o", User: "u"},
			Slots:   lifecycle.Slots{User: row, Organization: row},
		})
	})
	require.NoError(w.t, err)
	w.commit(ops...)
}

// Each of any number of slots is counted once, except those of paused runs, which are active all the same.
func TestEachActiveRunIsCountedOnce(t *testing.T) {
	for _, n := range []int{0, 1, 499, 500, 501, 1000, 1001} {
		w := runBlank(t)
		var want []string
		for i := range n {
			id := fmt.Sprintf("%04d", i)
			want = append(want, id)
			w.take(id, []string{strconv.Itoa(i), "over/" + id, pausedSlot(id)}[i%3])
		}
		calls := 0
		w.items.Before = func(faulttable.Call) faulttable.Fault { calls++; return faulttable.None }
		ids, err := w.ActiveRuns(w.ctx(), "o")
		require.NoError(t, err)
		assert.Equal(t, n/3/500+1+n/500+1+16, calls, "a page that is not full is the last; the shards are empty")
		assert.Equal(t, want, ids)
		counting := n - n/3
		of, err := w.CountingRuns(w.ctx(), record.OrganizationSlots("o"))
		require.NoError(t, err)
		assert.Equal(t, counting, of)
		of, err = w.CountingRuns(w.ctx(), record.UserSlots("o", "u"))
		require.NoError(t, err)
		assert.Equal(t, counting, of)
		admission, err := w.Admission(w.ctx(), record.UserSlots("o", "u"), 128)
		require.NoError(t, err)
		assert.Equal(t, counting, admission.Active)
		other, err := w.Admission(w.ctx(), record.UserSlots("o", "another"), 128)
		require.NoError(t, err)
		assert.Zero(t, other.Active)
	}
}

// With a large cap two numbers are probed first. When both are taken or an overflow slot exists, the partition is read,
// which returns how many runs are active.
func TestLargeCapIsProbedBeforeCounting(t *testing.T) {
	const limit = 129
	for name, c := range map[string]struct {
		draws   []int64
		over    bool
		free    string
		active  int
		counted bool
	}{
		"both free":           {[]int64{7, 8}, false, "8", 0, false},
		"the first free":      {[]int64{7, 1}, false, "7", 0, false},
		"the second free":     {[]int64{1, 8}, false, "8", 0, false},
		"neither":             {[]int64{1, 2, 0}, false, "0", 3, true},
		"neither, from above": {[]int64{1, 2, 128}, false, "0", 3, true},
		"somebody waits":      {[]int64{7, 8, 3}, true, "3", 4, true},
	} {
		w := runBlank(t)
		for _, row := range []string{"1", "2", "128"} {
			w.take("run "+row, row)
		}
		if c.over {
			w.take("r", "over/r")
		}
		w.host.draw = func(n int64) int64 {
			require.EqualValues(t, limit, n, "each number may be drawn")
			require.NotEmpty(t, c.draws, name)
			next := c.draws[0]
			c.draws = c.draws[1:]
			return next
		}
		admission, err := w.Admission(w.ctx(), record.OrganizationSlots("o"), limit)
		require.NoError(t, err)
		assert.Equal(t, record.Admission{Active: c.active, Free: c.free, Cap: limit}, admission, name)
		assert.True(t, admission.Allows())
		assert.Equal(t, c.free, admission.Slot("another"))
		assert.Empty(t, c.draws, name)
	}
	for limit, counted := range map[int]bool{1: true, 128: true, 129: false} {
		w := runBlank(t)
		w.host.draw = func(int64) int64 { return 0 }
		w.take("r", "77")
		admission, err := w.Admission(w.ctx(), record.OrganizationSlots("o"), limit)
		require.NoError(t, err)
		assert.Equal(t, counted, admission.Active == 1, "a partition of a small cap is read whole: %d", limit)
	}
}

// move moves the slots of a run from one row to another.
func (w *runWorld) move(writeID, run, before, after string) {
	w.t.Helper()
	of := func(row string) lifecycle.Run {
		return lifecycle.Run{
			RunSpec: lifecycle.RunSpec{RunID: run, Organization: "o", User: "u"},
			Slots:   lifecycle.Slots{User: row, Organization: row},
		}
	}
	ops, err := opsOf(w.Store, writeID, func(tx *record.Tx) { tx.MoveSlots(of(before), of(after)) })
	require.NoError(w.t, err)
	w.commit(ops...)
}

// A run that begins to wait, or goes on, while the active runs are read is among them, once.
func TestActiveRunsThatMoveAreListedOnce(t *testing.T) {
	for _, rows := range [][2]string{
		{"0", pausedSlot("moves")}, {pausedSlot("moves"), "0"}, {"3/0", pausedSlot("moves")},
		{pausedSlot("moves"), "3/0"}, {"15/over/moves", pausedSlot("moves")},
	} {
		for moment := range 20 { // the calls of one reading, and one more
			w := runBlank(t)
			for i := range 501 {
				w.take(fmt.Sprintf("%04d", i), "over/"+fmt.Sprintf("%04d", i))
			}
			w.take("moves", rows[0])
			calls := 0
			w.items.Before = func(faulttable.Call) faulttable.Fault {
				if calls++; calls == moment+1 {
					w.items.Before = nil
					w.move("m2", "moves", rows[0], rows[1])
				}
				return faulttable.None
			}
			ids, err := w.ActiveRuns(w.ctx(), "o")
			require.NoError(t, err)
			require.Len(t, ids, 502, "%v %d", rows, moment)
			assert.Equal(t, "moves", ids[501])
		}
	}
}

// A partition takes a thousand write units a second. If caps are large or absent, no partition is written for more than
// a tenth of the runs. If they are small, all slots are read with one query.
func TestSlotsOfLargeCapsAreSpread(t *testing.T) {
	for limit, spread := range map[int]bool{1: false, 128: false, 200: false, 201: true, 5000: true,
		record.Uncapped: true} {
		w := runBlank(t)
		w.Store = w.SpreadSlotsAbove(record.LargeCap)
		w.host.draw = rand.New(rand.NewPCG(1, 2)).Int64N
		partitions, runs, first := map[string]int{}, min(limit, 400), ""
		if limit == record.Uncapped {
			runs = 400
		}
		for i := range runs {
			admission, err := w.Admission(w.ctx(), record.OrganizationSlots("o"), limit)
			require.NoError(t, err)
			id := fmt.Sprint("run", i)
			if i == 0 {
				first = admission.Slot(id)
			}
			w.take(id, admission.Slot(id))
		}
		w.memory.All(func(item *table.Item) {
			if strings.HasPrefix(item.Part, "active/org/") {
				partitions[item.Part]++
			}
		})
		most := slices.Max(slices.Collect(maps.Values(partitions)))
		assert.Equal(t, spread, most <= runs/10, "%d: %v", limit, partitions)
		n, err := w.CountingRuns(w.ctx(), record.OrganizationSlots("o"))
		require.NoError(t, err)
		assert.Equal(t, runs, n)
		for _, read := range []func(context.Context, string) ([]string, error){w.ActiveRuns, w.CountedRuns} {
			ids, err := read(w.ctx(), "o")
			require.NoError(t, err)
			assert.Len(t, ids, runs, "whatever the cap is")
		}
		if spread && limit != record.Uncapped {
			assert.Equal(t, "over/late", record.Admission{Cap: limit}.Slot("late"), "admission asks for it first")
		}
		w.move("end", "run0", first, "")
		n, err = w.CountingRuns(w.ctx(), record.OrganizationSlots("o"))
		require.NoError(t, err)
		assert.Equal(t, runs-1, n)
	}
}

// New runs are allowed below the cap while there is a free number: an overflow slot takes no number but counts.
func TestNewRunsAreAllowedBelowTheCap(t *testing.T) {
	for _, c := range []struct {
		admission record.Admission
		admits    bool
		row       string
	}{
		{record.Admission{Active: 1, Free: "0", Cap: 2}, true, "0"},
		{record.Admission{Active: 2, Free: "0", Cap: 2}, false, "0"},
		{record.Admission{Active: 1, Cap: 2}, false, "over/r"},
		{record.Admission{Active: 3, Free: "1", Cap: 2}, false, "1"},
		{record.Admission{Active: 3}, true, "over/r"},
	} {
		assert.Equal(t, c.admits, c.admission.Allows(), "%+v", c.admission)
		assert.Equal(t, c.row, c.admission.Slot("r"), "%+v", c.admission)
	}
}

// Waiting runs and counting runs are listed separately; the mark of the waiting ones changes whenever they do.
func TestWaitingRunsHaveAMark(t *testing.T) {
	w := runBlank(t)
	marks := map[string]bool{}
	assertPaused := func(want ...string) {
		t.Helper()
		paused, mark, err := w.PausedRuns(w.ctx(), "o")
		require.NoError(t, err)
		var ids []string
		for _, r := range paused {
			ids = append(ids, r.RunID)
		}
		assert.Equal(t, want, ids)
		assert.NotContains(t, marks, mark)
		marks[mark] = true
		_, again, err := w.PausedRuns(w.ctx(), "o")
		require.NoError(t, err)
		assert.Equal(t, mark, again)
	}
	assertPaused()
	w.take("a", pausedSlot("a"))
	assertPaused("a")
	w.take("b", "0")
	w.take("c", "over/c")
	w.take("d", pausedSlot("d"))
	assertPaused("a", "d")
	counted, err := w.CountedRuns(w.ctx(), "o")
	require.NoError(t, err)
	assert.Equal(t, []string{"b", "c"}, counted)
	w.move("m2", "a", pausedSlot("a"), "1")
	w.move("m3", "a", "1", pausedSlot("a"))
	assertPaused("a", "d")
	w.move("m4", "a", pausedSlot("a"), "")
	assertPaused("d")
	w.take("e", lifecycle.PausedSlot(time.UnixMilli(1), "e")) // has waited longer
	assertPaused("e", "d")
}
