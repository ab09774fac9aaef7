package transition_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/proof/faulttable"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
)

// If any call fails permanently, the transition returns an error, and nothing is written.
func TestFailedCallIsReportedAndWritesNothing(t *testing.T) {
	const patience = 8 // attempts of a call of the store
	for name, ready := range operations() {
		for fails, done := 0, false; !done; fails++ {
			require.Less(t, fails, 50, name)
			w := newWorld(t)
			o := ready(w)
			w.forget()
			before := w.stored()
			calls, failed := 0, 0
			w.fails = func() bool {
				if calls++; calls > fails && failed < patience {
					failed++
					return true
				}
				return false
			}
			err := o.do(t.Context())
			w.fails = nil
			if done = failed == 0; done {
				require.NoError(t, err, name)
				require.Positive(t, fails, name)
				assert.NotEqual(t, before, w.stored(), name)
				continue
			}
			require.Equal(t, "unavailable", code(err), "%s, call %d: %v", name, fails, err)
			assert.Equal(t, before, w.stored(), "%s, call %d", name, fails)
			assert.Empty(t, w.outbox.sent, "%s, call %d", name, fails)
			assert.Empty(t, w.moved, "%s, call %d", name, fails)
		}
	}
}

// Each transition writes one commit, which includes the run's head.
func TestTransitionIsOneCommit(t *testing.T) {
	for name, ready := range operations() {
		w := newWorld(t)
		o := ready(w)
		commits := 0
		w.items.Before = func(c faulttable.Call) faulttable.Fault {
			if c.Commit && (len(c.Ops) > 1 || !isJob(c.Ops[0].Item.Key)) {
				commits++
				heads := 0
				for _, op := range c.Ops {
					if op.Item.Key == record.RunKey(o.run) {
						heads++
					}
				}
				assert.Equal(t, 1, heads, name)
			}
			return faulttable.None
		}
		require.NoError(t, o.do(t.Context()), name)
		assert.Equal(t, 1, commits, name)
	}
}

// A transition that is not allowed is refused, and nothing is written.
func TestImpossibleTransitionIsRefused(t *testing.T) {
	w := newWorld(t)
	run := w.accept("u")
	before := w.stored()
	w.forget()
	end := transition.Change{Event: lifecycle.Complete{Work: work}, Result: sizedResult(1)} // the run has not begun
	_, err := w.Do(t.Context(), record.System(), run, plainly(end))
	require.ErrorIs(t, err, lifecycle.ErrRefused)
	assert.Equal(t, before, w.stored())
	assert.Empty(t, w.outbox.sent)
}

// After a conflict the run is read again and the transition decided again, with the same write id.
func TestConflictIsDecidedAgain(t *testing.T) {
	w := newWorld(t)
	run := w.accept("u")
	var seen, names []string
	w.items.Overtake(func() { w.touch(run, "by a rival") })
	claim := func(r record.Run, tx *record.Tx) (transition.Change, error) {
		seen, names = append(seen, r.CancelReason), append(names, tx.WriteID())
		return transition.Change{Event: lifecycle.Claim{Holder: "w", Until: w.Host.Now().Add(time.Hour)}}, nil
	}
	after, err := w.Do(t.Context(), record.System(), run, claim)
	require.NoError(t, err)
	assert.Equal(t, []string{"", "by a rival"}, seen)
	assert.Equal(t, names[0], names[1])
	assert.Equal(t, []any{lifecycle.Running, "by a rival", 1}, []any{after.Status, after.CancelReason, after.Attempt})
	assert.Equal(t, after, w.run(run))
}

// A transition that always meets conflicts gives up with a problem of kind Unavailable. The wait between two attempts
// grows up to 50 ms. Retries end immediately when the context ends, when decide returns an error, or when the run
// cannot be read.
func TestEndlessConflictsGiveUp(t *testing.T) {
	refusal := errors.New("not any more")
	for name, c := range map[string]struct {
		gone, refused, down bool
		decided             int
	}{
		"nothing else":            {decided: 24},
		"nobody waits":            {gone: true, decided: 1},
		"it is not wanted":        {refused: true, decided: 2},
		"the store does not help": {down: true, decided: 1},
	} {
		w := newWorld(t)
		run := w.accept("u")
		w.forget()
		ctx, cancel := context.WithCancel(t.Context())
		w.items.Before = func(call faulttable.Call) faulttable.Fault {
			if call.Commit {
				w.touch(run, "by a rival")
				w.fails = func() bool { return c.down }
				if c.down {
					w.items.Before = w.plain
				}
				if c.gone {
					cancel()
				}
			}
			return faulttable.None
		}
		decided := 0
		_, err := w.Do(ctx, record.System(), run, func(record.Run, *record.Tx) (transition.Change, error) {
			if decided++; decided > 1 && c.refused {
				return transition.Change{}, refusal
			}
			return transition.Change{Event: lifecycle.Postpone{Due: w.Host.Now()}}, nil
		})
		cancel()
		assert.Equal(t, c.decided, decided, name)
		switch {
		case c.gone:
			require.ErrorIs(t, err, context.Canceled, name)
		case c.refused:
			require.ErrorIs(t, err, refusal, name)
		default:
			assert.Equal(t, "unavailable", code(err), "%s: %v", name, err)
		}
		assert.Empty(t, w.moved, name)
		for i, nap := range w.clock.naps[:min(c.decided, len(w.clock.naps))] {
			longest := min(time.Millisecond<<i, 50*time.Millisecond) - 1 // the longest possible wait
			assert.Equal(t, longest, nap, "%s, wait %d", name, i)
		}
	}
}

// A refusal may come after the write was done, without the written item. The run then has the write id, and the
// transition is not made again.
func TestDoneTransitionIsNotMadeAgain(t *testing.T) {
	w := newWorld(t)
	run := w.accept("u")
	w.Store = record.New(&mute{Table: w.items}, w.blobs, w.Host)
	decided := 0
	after, err := w.Do(t.Context(), record.System(), run, func(record.Run, *record.Tx) (transition.Change, error) {
		decided++
		return transition.Change{Event: lifecycle.Claim{Holder: "w", Until: w.Host.Now().Add(time.Hour)}}, nil
	})
	require.NoError(t, err)
	assert.Equal(t, 1, decided)
	assert.Equal(t, []any{lifecycle.Running, 1}, []any{after.Status, after.Attempt})
	assert.Equal(t, after, w.run(run))
}

// A run that does not hold its chat does not pass it on: the chat has changed since.
func TestRunWithoutItsChatLeavesItAlone(t *testing.T) {
	end := transition.Change{Event: lifecycle.Remove{}}
	for name, lose := range map[string]func(w *world, chat record.ChatEntity){
		"it is another's": func(w *world, chat record.ChatEntity) {
			chat.Value.ActiveRun = "another"
			tx := w.Store.Begin("rival")
			tx.PutChat(chat)
			require.NoError(t, tx.Commit(t.Context()))
		},
		"it is gone": func(w *world, chat record.ChatEntity) {
			tx := w.Store.Begin("rival")
			tx.DeleteChat(chat)
			require.NoError(t, tx.Commit(t.Context()))
		},
	} {
		w := newWorld(t)
		run := w.accept("u")
		lose(w, w.chat(w.run(run)))
		before := w.stored()
		e, err := w.Store.Run(t.Context(), record.System(), run)
		require.NoError(t, err)
		_, err = w.Apply(t.Context(), e, w.Store.Begin("move"), end)
		require.ErrorIs(t, err, record.ErrConflict, name)
		assert.Equal(t, before, w.stored(), name)
	}
}

// touch writes a run as another writer would.
func (w *world) touch(run, reason string) {
	e, err := w.Store.Run(w.t.Context(), record.System(), run)
	require.NoError(w.t, err)
	e.Value.CancelReason = reason
	tx := record.New(w.items.Inner, w.blobs, w.Host).Begin("rival")
	tx.PutRun(e)
	require.NoError(w.t, tx.Commit(w.t.Context()))
}

// mute is a table whose refusal of a repeated write, after a lost answer, does not return the current item.
type mute struct{ table.Table }

func (m *mute) Commit(ctx context.Context, move string, ops ...table.Op) error {
	if err := m.Table.Commit(ctx, move, ops...); err != nil {
		return err
	}
	return &table.Refused{Conflicts: []table.Conflict{{}}}
}
