package record_test

import (
	"encoding/json"
	"fmt"
	"slices"
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

// runIn is a run in a chat with a client's own id.
func runIn(id string, turn, epoch int) record.Run {
	return record.Run{Run: lifecycle.Run{
		RunSpec: lifecycle.RunSpec{RunID: id, Organization: "o", User: "u", Chat: "c", OwnChatID: true},
		Turn:    turn, Epoch: epoch,
	}}
}

// A run's head, and everything that is stored next to it, is read as written.
func TestRunIsReadAsWritten(t *testing.T) {
	w := runBlank(t)
	scope := record.Of("text ba")
	r := runFill[record.Run](t)
	r.Organization, r.Removed = scope.Organization(), false
	w.must("move", func(tx *record.Tx) { tx.PutRun(record.Fresh(r)) })
	e, err := w.Run(w.ctx(), scope, r.ID())
	require.NoError(t, err)
	assert.Equal(t, r, e.Value)
	assert.True(t, e.WrittenBy("move"))
	assert.False(t, e.WrittenBy("another"))
	assert.EqualValues(t, 1, e.Version())
	link, err := w.Link(w.ctx(), r.ID())
	require.NoError(t, err)
	assert.Equal(t, e, link)
	in, err := w.Input(w.ctx(), r)
	require.NoError(t, err)
	assert.Equal(t, *r.Input, in, "a request may ride in the head")

	steps := []record.Step{runFill[record.Step](t), runFill[record.Step](t)}
	steps[0].Index, steps[1].Index = 1, 2
	for _, step := range steps {
		w.must("m", func(tx *record.Tx) { tx.PutStep(w.ctx(), r, step) })
	}
	journal, err := w.Journal(w.ctx(), r.ID())
	require.NoError(t, err)
	assert.Equal(t, steps, journal)

	interrupts := []record.Interrupt{runFill[record.Interrupt](t)}
	w.must("m", func(tx *record.Tx) { tx.PutPause(w.ctx(), r, 1, interrupts) })
	got, err := w.Interrupts(w.ctx(), r.ID(), 1)
	require.NoError(t, err)
	assert.Equal(t, interrupts, got)
	assert.Equal(t, interrupts[0].Interrupt, record.Public(got)[0])
	assert.Len(t, record.Public(got), 1)
	none, err := w.Interrupts(w.ctx(), r.ID(), 2)
	require.NoError(t, err)
	assert.Nil(t, none)

	d := runFill[record.Decisions](t)
	w.must("m", func(tx *record.Tx) { tx.PutDecisions(w.ctx(), r, 1, d) })
	last, found, err := w.LastDecision(w.ctx(), r.ID(), 1)
	require.NoError(t, err)
	assert.True(t, found)
	assert.Equal(t, d, last)
	_, found, err = w.LastDecision(w.ctx(), r.ID(), 2)
	require.NoError(t, err)
	assert.False(t, found)
	op, err := opOf(w.Store, "another", func(tx *record.Tx) { tx.PutDecisions(w.ctx(), r, 1, d) })
	require.NoError(t, err)
	require.ErrorIs(t, commitOps(w.ctx(), w.Store, "another", op), record.ErrConflict, "a pause has one winner")

	spec, input, at := runFill[lifecycle.RunSpec](t), runFill[record.Input](t), w.host.now
	ops, err := opsOf(w.Store, "m", func(tx *record.Tx) { tx.PutInput(w.ctx(), spec, input, at) })
	require.NoError(t, err)
	w.commit(ops...)
	p, err := w.Parked(w.ctx(), spec.RunID)
	require.NoError(t, err)
	assert.Equal(t, []any{spec, input, at}, []any{p.Spec, p.Input, p.At})
	still, err := w.StillParked(w.ctx(), spec.RunID)
	require.NoError(t, err)
	assert.Equal(t, p, still)
	_, err = w.Parked(w.ctx(), "none")
	assert.Equal(t, "not_found", runCode(err))
	require.NotErrorIs(t, err, record.ErrConflict)
	_, err = w.StillParked(w.ctx(), "none")
	require.ErrorIs(t, err, record.ErrConflict, "the run that named it has changed since")
}

// A run is seen in its organization, and in its chat's epoch.
func TestRunIsSeenInItsOrganizationAndEpoch(t *testing.T) {
	const outside = "outside_organization"
	chat := lifecycle.Chat{ID: "c", OwnID: true, Organization: "o"}
	ended := func(status lifecycle.Status) record.Run {
		r := runIn("r", 1, 0)
		r.Status = status
		return r
	}
	removed := ended(lifecycle.Completed)
	removed.Removed = true
	going := ended(lifecycle.Running)
	going.Deleted = true
	deleted, anew := chat, chat
	deleted.Deleted = true
	anew.Epoch = 1
	for name, c := range map[string]struct {
		scope    record.Scope
		run      *record.Run
		chat     *lifecycle.Chat
		any, own string // the codes of Run, and of LiveRun for a client
	}{
		"its organisation's": {record.Of("o"), new(ended(lifecycle.Completed)), &chat, "", ""},
		"the platform's":     {record.System(), new(ended(lifecycle.Failed)), &chat, "", ""},
		"another's": {
			record.Of("p"), new(ended(lifecycle.Completed)), &chat, outside, outside,
		},
		"nobody's, to one who is none": {
			record.Of(""), new(ended(lifecycle.Completed)), &chat, outside, outside,
		},
		"none":                    {record.Of("o"), nil, &chat, "not_found", "not_found"},
		"one that is only a link": {record.Of("o"), &removed, &chat, "not_found", "not_found"},
		"one whose chat was deleted": {
			record.Of("o"), new(ended(lifecycle.Cancelled)), &deleted, "", "not_found",
		},
		"one at work whose chat was deleted": {record.Of("o"), &going, &deleted, "", "not_found"},
		"one whose chat was made anew": {
			record.Of("o"), new(ended(lifecycle.Cancelled)), &anew, "", "not_found",
		},
		"one whose chat is gone":              {record.Of("o"), new(ended(lifecycle.Cancelled)), nil, "", "not_found"},
		"one at work, which ends with a chat": {record.Of("o"), new(ended(lifecycle.Running)), nil, "", ""},
	} {
		w := runBlank(t)
		if c.run != nil {
			w.must("m", func(tx *record.Tx) { tx.PutRun(record.Fresh(*c.run)) })
		}
		if c.chat != nil {
			w.must("m", func(tx *record.Tx) { tx.PutChat(record.Fresh(*c.chat)) })
		}
		_, err := w.Run(w.ctx(), c.scope, "r")
		assert.Equal(t, c.any, runCode(err), name)
		e, err := w.LiveRun(w.ctx(), c.scope, "r")
		assert.Equal(t, c.own, runCode(err), name)
		assert.Equal(t, c.own == "", e.Value.ID() == "r", name)
		runs, err := w.Runs(w.ctx(), c.scope, "none", "r")
		require.NoError(t, err)
		assert.Equal(t, c.any == "", len(runs) == 1, name)
		_, err = w.Link(w.ctx(), "r")
		assert.Equal(t, c.run != nil, err == nil, name)
	}
}

// Listings have each run once, in order: an organization's newest or oldest first, up to the page's limit. There is a
// next page exactly while there are more runs. More runs are read than one call of the table returns.
func TestRunsAreListedInOrderEachOnce(t *testing.T) {
	w := runBlank(t)
	const all = 2*table.MaxGetKeys + 1
	var ids []string
	for range all {
		r := runIn(w.host.NewID(), 1, 0)
		r.Chat = "chat of " + r.RunID
		ids = append(ids, r.RunID)
		w.must("m", func(tx *record.Tx) { tx.PutRun(record.Fresh(r)) })
	}
	other := runIn(w.host.NewID(), 1, 0)
	other.Organization = "another"
	w.must("m", func(tx *record.Tx) { tx.PutRun(record.Fresh(other)) })
	link := runIn(w.host.NewID(), 1, 0)
	link.Removed = true
	w.must("m", func(tx *record.Tx) { tx.PutRun(record.Fresh(link)) })
	newest := slices.Clone(ids)
	slices.Reverse(newest)

	for _, limit := range []int{1, 2, 67, 100, 101, all - 1, all, all + 1} {
		for name, c := range map[string]struct {
			want []string
			page func(after string) (record.Page[record.RunEntity], error)
		}{
			"newest": {newest, func(after string) (record.Page[record.RunEntity], error) {
				return w.RunsOfOrganization(w.ctx(), record.Of("o"), after, limit)
			}},
			"oldest": {ids, func(after string) (record.Page[record.RunEntity], error) {
				return w.OldRunsOfOrganization(w.ctx(), "o", after, limit)
			}},
		} {
			var got []string
			for next, more := "", true; more; more = next != "" {
				page, err := c.page(next)
				require.NoError(t, err)
				for _, e := range page.Rows {
					got = append(got, e.Value.ID())
				}
				assert.Len(t, page.Rows, min(limit, all-len(got)+len(page.Rows)), name)
				next = page.Next
				require.Equal(t, len(got) < all, next != "", "%s, %d at a time: %d", name, limit, len(got))
			}
			assert.Equal(t, c.want, got, "%s, %d at a time", name, limit)
		}
	}
	runs, err := w.Runs(w.ctx(), record.Of("o"), append(slices.Clone(newest), other.ID(), link.ID(), "none")...)
	require.NoError(t, err)
	for i, e := range runs {
		assert.Equal(t, newest[i], e.Value.ID())
	}
	assert.Len(t, runs, all)
}

// A chat that is created again under its id counts turns from 1 again, while old turns exist until they are deleted.
// Its listing has its own epoch only and loses no run, even if many runs have the same turn.
func TestRecreatedChatListsItsOwnEpoch(t *testing.T) {
	for _, epochs := range []int{1, 2, 3, 33} {
		w := runBlank(t)
		const turns = 5
		for epoch := range epochs {
			for turn := 1; turn <= turns; turn++ {
				w.must("m", func(tx *record.Tx) { tx.PutRun(record.Fresh(runIn(w.host.NewID(), turn, epoch))) })
			}
		}
		for _, epoch := range []int{0, epochs - 1} {
			chat := lifecycle.Chat{ID: "c", OwnID: true, Organization: "o", Epoch: epoch}
			for limit := 1; limit <= turns*epochs+1; limit += 1 + limit/4 {
				var newest, oldest []int
				for next, pages := "", 0; pages == 0 || next != ""; pages++ {
					page, err := w.RunsOfChat(w.ctx(), record.Of("o"), chat, next, limit)
					require.NoError(t, err)
					for _, e := range page.Rows {
						require.Equal(t, epoch, e.Value.Epoch)
						newest = append(newest, e.Value.Turn)
					}
					next = page.Next
					require.Less(t, pages, turns, "each page has a place to itself")
				}
				assert.Equal(t, []int{5, 4, 3, 2, 1}, newest, "%d epochs, %d at a time", epochs, limit)
				for next, pages := 0, 0; pages == 0 || next != 0; pages++ {
					var runs []record.RunEntity
					var err error
					runs, next, err = w.TurnsOfChat(w.ctx(), record.Of("o"), chat, next, limit)
					require.NoError(t, err)
					for _, e := range runs {
						oldest = append(oldest, e.Value.Turn)
					}
					require.Less(t, pages, turns)
				}
				assert.Equal(t, []int{1, 2, 3, 4, 5}, oldest, "%d epochs, %d at a time", epochs, limit)
			}
		}
	}
	w := runBlank(t)
	for range 34 { // more than happen: the runs after them are still found
		w.must("m", func(tx *record.Tx) { tx.PutRun(record.Fresh(runIn(w.host.NewID(), 1, 0))) })
	}
	w.must("m", func(tx *record.Tx) { tx.PutRun(record.Fresh(runIn(w.host.NewID(), 2, 0))) })
	chat := lifecycle.Chat{ID: "c", OwnID: true, Organization: "o"}
	runs, next, err := w.TurnsOfChat(w.ctx(), record.Of("o"), chat, 0, 1)
	require.NoError(t, err)
	assert.Len(t, runs, 34)
	runs, next, err = w.TurnsOfChat(w.ctx(), record.Of("o"), chat, next, 1)
	require.NoError(t, err)
	assert.Equal(t, 2, runs[0].Value.Turn)
	assert.Zero(t, next)
}

// The last model call of a completed run is rebuilt from the run's result and usage, less those of the journal.
func TestLastStepIsRebuiltFromTheRun(t *testing.T) {
	begun, ended := time.Date(2026, 1, 1, 0, 0, 1, 0, time.UTC), time.Date(2026, 1, 1, 0, 0, 9, 0, time.UTC)
	r := runIn("r", 1, 0)
	r.Status, r.Steps, r.Attempt, r.StartedAt, r.FinishedAt = lifecycle.Completed, 1, 3, begun, ended
	r.Usage = lifecycle.Usage{InputTokens: 30, OutputTokens: 40}
	r.Output = json.RawMessage(`{"answer":"one two three","finish_reason":"stop"}`)
	w := runBlank(t)
	steps, err := w.Steps(w.ctx(), r)
	require.NoError(t, err)
	want := record.Step{
		Kind: record.ModelStep, Attempt: 3, StartedAt: begun, FinishedAt: ended, Text: "one two three",
		InputTokens: 30, OutputTokens: 40, Finish: "stop", ModelAttempts: 1,
	}
	assert.Equal(t, []record.Step{want}, steps, "nothing was journalled")
	assert.True(t, want.Reconstructible(nil, "one two three", "stop"))

	after := func(seconds int) time.Time { return begun.Add(time.Duration(seconds) * time.Second) }
	calls := []record.Call{{ID: "0", Arguments: json.RawMessage(`{}`)}}
	journal := []record.Step{
		{Index: 0, Kind: record.ModelStep, FinishedAt: after(1), Text: "one ", InputTokens: 5, OutputTokens: 6,
			Calls: calls},
		{Index: 1, Kind: record.ToolStep, FinishedAt: after(2)},
		{Index: 2, Kind: record.ModelStep, FinishedAt: after(3), Text: "two ", InputTokens: 7, OutputTokens: 8,
			Calls: calls},
	}
	for _, step := range journal {
		w.must("m", func(tx *record.Tx) { tx.PutStep(w.ctx(), r, step) })
	}
	r.Steps = 4
	want.Index, want.StartedAt, want.Text = 3, after(3), "three"
	want.InputTokens, want.OutputTokens = 18, 26
	steps, err = w.Steps(w.ctx(), r)
	require.NoError(t, err)
	assert.Equal(t, append(slices.Clone(journal), want), steps)

	for name, other := range map[string]func(r *record.Run){
		"all is journalled": func(r *record.Run) { r.Steps = 3 },
		"it has failed":     func(r *record.Run) { r.Status = lifecycle.Failed },
		"it works on":       func(r *record.Run) { r.Status = lifecycle.Running },
	} {
		one := r
		other(&one)
		steps, err = w.Steps(w.ctx(), one)
		require.NoError(t, err)
		assert.Equal(t, journal, steps, name)
	}
	r.Output = json.RawMessage(`{"answer":"one \n\ntwo \n\nthree","finish_reason":"stop"}`)
	steps, err = w.Steps(w.ctx(), r)
	require.NoError(t, err)
	assert.Equal(t, want, steps[3], "where a break stands between the texts")
	r.Output = json.RawMessage(`[]`)
	_, err = w.Steps(w.ctx(), r)
	require.ErrorContains(t, err, "the result of run r")

	for name, more := range map[string]func(s *record.Step){
		"a tool's":            func(s *record.Step) { s.Kind = record.ToolStep },
		"calls":               func(s *record.Step) { s.Calls = make([]record.Call, 1) },
		"tries":               func(s *record.Step) { s.ModelAttempts = 2 },
		"the provider's name": func(s *record.Step) { s.RequestID = "x" },
		"what did not fit":    func(s *record.Step) { s.LeftOut = 1 },
		"what was cut":        func(s *record.Step) { s.Shortened = 1 },
		"why it ended":        func(s *record.Step) { s.Finish = "length" },
		"how it begins":       func(s *record.Step) { s.Text = "\n" + s.Text },
	} {
		step := want
		more(&step)
		assert.False(t, step.Reconstructible(journal, "one \n\ntwo \n\nthree", "stop"), "no run says %s", name)
	}
	want.ModelAttempts = 0
	assert.True(t, want.Reconstructible(journal, "one \n\ntwo \n\nthree", "stop"))
}

// A journal and the pauses are read in order, however long; a decision is found by its interrupt.
func TestJournalIsReadInOrder(t *testing.T) {
	for _, n := range []int{0, 99, 100, 101, 200, 201} {
		w := runBlank(t)
		for i := range n {
			w.must("m", func(tx *record.Tx) { tx.PutStep(w.ctx(), runIn("r", 1, 0), record.Step{Index: i}) })
		}
		calls := 0
		w.items.Before = func(faulttable.Call) faulttable.Fault { calls++; return faulttable.None }
		steps, err := w.Journal(w.ctx(), "r")
		require.NoError(t, err)
		assert.Equal(t, n/100+1, calls, "a page that is not full is the last")
		require.Len(t, steps, n)
		for i, step := range steps {
			assert.Equal(t, i, step.Index)
		}
		steps, err = w.JournalFrom(w.ctx(), "r", 99)
		require.NoError(t, err)
		assert.Len(t, steps, max(0, n-99))
	}
	const last = 212
	w := runBlank(t)
	for n := 1; n <= last; n++ {
		var i record.Interrupt
		i.ID = fmt.Sprint("i", n)
		w.must("m", func(tx *record.Tx) {
			tx.PutPause(w.ctx(), runIn("r", 1, 0), n, []record.Interrupt{i, {Call: "another"}})
		})
		if n < last {
			w.must("m", func(tx *record.Tx) {
				tx.PutDecisions(w.ctx(), runIn("r", 1, 0), n, record.Decisions{
					List: []record.Decision{
						{InterruptID: i.ID, Message: fmt.Sprint("m", n)}, {InterruptID: i.ID + "b"},
					},
				})
			})
		}
	}
	pauses, decided, err := w.Pauses(w.ctx(), "r")
	require.NoError(t, err)
	require.Len(t, pauses, last)
	assert.Len(t, decided, 2*(last-1))
	entries, err := w.PausesOf(w.ctx(), "r", 0, 1000)
	require.NoError(t, err)
	require.Len(t, entries, last)
	some, err := w.PausesOf(w.ctx(), "r", 9, 7)
	require.NoError(t, err)
	assert.Equal(t, entries[9:16], some)
	for i, list := range pauses {
		assert.Equal(t, []any{i + 1, list}, []any{entries[i].Number, entries[i].Interrupts})
		assert.Equal(t, i+1 < last, entries[i].Decided != nil)
		assert.Len(t, list, 2)
		id := fmt.Sprint("i", i+1)
		assert.Equal(t, id, list[0].ID)
		if i+1 < last {
			assert.Equal(t, fmt.Sprint("m", i+1), decided[id].Message)
			assert.Equal(t, id+"b", decided[id+"b"].InterruptID)
		}
	}
}

// A wakeup names a delivery by its run and its sequence number.
func TestWakeUpMessageNamesADelivery(t *testing.T) {
	for id, want := range map[string][]any{
		"r/1": {"r", 1, true}, "r/000012": {"r", 12, true}, "r": {"", 0, false}, "": {"", 0, false},
		"r/": {"r", 0, false}, "r/x": {"r", 0, false}, "r/1/2": {"r", 0, false},
	} {
		run, sequence, ok := record.ParseDeliveryID(id)
		assert.Equal(t, want, []any{run, sequence, ok}, id)
	}
	assert.Equal(t, "r/7", record.Delivery{RunID: "r", Sequence: 7}.WakeupID())
}

// Up to 512 bytes of a result are in the head of the run, up to 8 KiB in an item next to it, larger ones in the blob
// store. A request is in the head if it is small and its message short.
func TestSizeDecidesWhereAResultIsStored(t *testing.T) {
	result := func(n int) json.RawMessage { return json.RawMessage(`"` + strings.Repeat("x", n-2) + `"`) }
	for n, where := range map[int]string{
		2: "head", 512: "head", 513: "item", 8 << 10: "item", 8<<10 + 1: "value", 300_000: "value",
	} {
		w := runBlank(t)
		r := runIn("r", 1, 0)
		ops, err := opsOf(w.Store, "move", func(tx *record.Tx) { tx.SetOutput(w.ctx(), &r, result(n)) })
		require.NoError(t, err)
		head, err := opOf(w.Store, "move", func(tx *record.Tx) { tx.PutRun(record.Fresh(r)) })
		require.NoError(t, err)
		w.commit(append(ops, head)...)
		e, err := w.Run(w.ctx(), record.Of("o"), "r")
		require.NoError(t, err)
		got, err := w.Output(w.ctx(), e.Value)
		require.NoError(t, err)
		assert.JSONEq(t, string(result(n)), string(got), n)
		assert.Equal(t, where == "head", e.Value.Output != nil, n)
		assert.Equal(t, where != "head", e.Value.Outside, n)
		assert.Equal(t, where == "value", len(w.blobs.Keys()) == 1, n)
		assert.Len(t, w.keys(), map[bool]int{true: 1, false: 2}[where == "head"], n)
	}
	w := runBlank(t)
	r := runIn("r", 1, 0)
	r.Outside = true
	got, err := w.Output(w.ctx(), r)
	require.NoError(t, err)
	assert.Nil(t, got, "one that is not there is none")

	pad := func(n int) record.Input { // a request of n bytes
		in := record.Input{Message: "m", Metadata: map[string]string{"k": ""}}
		b, err := json.Marshal(in)
		require.NoError(t, err)
		in.Metadata["k"] = strings.Repeat("x", n-len(b))
		return in
	}
	assert.True(t, record.FitsHead(pad(512)))
	assert.False(t, record.FitsHead(pad(513)))
	assert.True(t, record.FitsHead(record.Input{Message: strings.Repeat("x", 256)}))
	assert.False(t, record.FitsHead(record.Input{Message: strings.Repeat("x", 257)}))
}
