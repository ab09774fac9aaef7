package record_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/proof/faulttable"
	"agentplatform/internal/store/record"
)

// body returns the job about the large documents of a run.
func (w *runWorld) body(run string) (record.Job, bool) {
	w.t.Helper()
	e, found, err := w.Job(w.ctx(), record.DerivedID("body", run))
	require.NoError(w.t, err)
	return e.Value, found
}

func (w *runWorld) known(key string) bool {
	w.t.Helper()
	_, found, err := w.Idempotency(w.ctx(), record.IdempotencyName("o", "u", key))
	require.NoError(w.t, err)
	return found
}

// reuse makes an idempotency key lead to another run.
func (w *runWorld) reuse(key string) {
	w.t.Helper()
	name := record.IdempotencyName("o", "u", key)
	before, _, err := w.Idempotency(w.ctx(), name)
	require.NoError(w.t, err)
	w.must("anew", func(tx *record.Tx) {
		tx.PutIdempotency("o", name, record.Idempotency{RunID: "another", Parked: "another"}, before)
	})
}

// With an erased run everything is deleted that belongs to it or to the messages that were dropped with it, and nothing
// else. With keepLinks its head stays as a link in the chat that is in no listing.
func TestErasedRunTakesAlongAllThatBelongsToIt(t *testing.T) {
	for _, keep := range []bool{false, true} {
		w := newRunWorld(t)
		names := []string{"k", "k1", "k2", "decision i", "decision j"}
		for _, name := range names {
			require.True(t, w.known(name))
		}
		for n := range 200 { // more than fit into a commit
			w.must("m", func(tx *record.Tx) { tx.PutStep(w.ctx(), w.head.Value, record.Step{Index: 10 + n}) })
		}
		for n := range 90 {
			name := record.IdempotencyName("o", "u", fmt.Sprint("d", n))
			w.named(name, record.Idempotency{RunID: w.id})
			w.must("m", func(tx *record.Tx) {
				tx.PutDecisions(w.ctx(), w.head.Value, 10+n, record.Decisions{Idempotency: name})
			})
		}
		w.must("m", func(tx *record.Tx) {
			tx.PutDecisions(w.ctx(), w.head.Value, 9, record.Decisions{By: "nobody whom a name stands for"})
		})
		require.NoError(t, w.EraseRun(w.ctx(), w.head, w.host.NewID(), keep))
		for _, name := range append(names, "d0", "d89") {
			assert.False(t, w.known(name), name)
		}
		assert.True(t, w.known("k3"), "of a message that waits elsewhere")
		links := 0
		for key := range w.keys() {
			if key.Part == "run/"+w.id {
				links++
				assert.Equal(t, record.RunKey(w.id), key)
			}
			for _, id := range w.parked {
				assert.NotContains(t, key.Part, "run/"+id)
			}
		}
		assert.Equal(t, keep, links == 1)
		for _, key := range w.blobs.Keys() {
			assert.NotContains(t, key, "documents/run/"+w.id)
			assert.NotContains(t, key, "documents/hook/"+w.id)
		}
		for _, id := range []string{"f1", "f2"} {
			_, err := w.File(w.ctx(), record.Of("o"), id)
			assert.Equal(t, "not_found", runCode(err), "nobody holds it any more")
		}
		_, err := w.StillParked(w.ctx(), w.waiting)
		require.NoError(t, err)
		_, err = w.Run(w.ctx(), record.Of("o"), w.id)
		assert.Equal(t, "not_found", runCode(err))
		old, err := w.OldRunsOfOrganization(w.ctx(), "o", "", 9)
		require.NoError(t, err)
		assert.Empty(t, old.Rows)
		job, found := w.body(w.id)
		assert.True(t, found, "its worker may stand still in the midst of a write")
		assert.Equal(t, record.Job{
			ID: job.ID, Organization: "o", Kind: record.RemoveBody, Subject: w.id, Cursor: record.BodiesRemoved,
			Due: w.host.now.Add(time.Hour),
		}, job)
		job, found = w.body(w.parked[1])
		assert.True(t, found, "what is large of a message goes by itself")
		assert.Equal(t, w.host.now, job.Due)
		_, found = w.body(w.parked[0])
		assert.False(t, found)
		if keep {
			link, err := w.Link(w.ctx(), w.id)
			require.NoError(t, err)
			r := w.head.Value
			assert.Equal(t, record.Run{Removed: true, Run: lifecycle.Run{
				RunSpec: lifecycle.RunSpec{RunID: w.id, Organization: "o", Chat: "c", OwnChatID: true},
				Epoch:   r.Epoch, Turn: r.Turn, Previous: r.Previous, Status: r.Status,
			}}, link.Value)
			require.NoError(t, w.EraseRun(w.ctx(), link, w.host.NewID(), false), "the link goes with its chat")
			_, err = w.Link(w.ctx(), w.id)
			assert.Equal(t, "not_found", runCode(err))
		}
	}
}

// A link keeps the run's place in its chat, in every status.
func TestLinkKeepsTheRunsPlaceInTheChat(t *testing.T) {
	w := runBlank(t)
	r := runFill[record.Run](t)
	r.Input, r.Outside, r.Removed, r.Dropped = nil, false, false, nil
	w.must("m", func(tx *record.Tx) { tx.PutRun(record.Fresh(r)) })
	e, err := w.Link(w.ctx(), r.ID())
	require.NoError(t, err)
	require.NoError(t, w.EraseRun(w.ctx(), e, "n", true))
	link, err := w.Link(w.ctx(), r.ID())
	require.NoError(t, err)
	assert.Equal(
		t,
		[]any{r.ID(), r.Organization, r.Chat, r.OwnChatID, r.Epoch, r.Turn, r.Previous, r.Status, true},
		[]any{
			link.Value.ID(),
			link.Value.Organization,
			link.Value.Chat,
			link.Value.OwnChatID,
			link.Value.Epoch,
			link.Value.Turn,
			link.Value.Previous,
			link.Value.Status,
			link.Value.Removed,
		},
	)
}

// Any write may come between two writes of a removal: an item that was written again under a name of the run stays.
func TestRemovalKeepsWhatWasWrittenAgain(t *testing.T) {
	keys := []string{"k", "k1", "k2", "decision i", "decision j"}
	for what, first := range map[string]func(w *runWorld){
		"others use the names": func(*runWorld) {},
		"another removal is faster": func(w *runWorld) {
			require.NoError(t, w.EraseRun(w.ctx(), w.head, w.host.NewID(), false))
		},
	} {
		for at, met := 0, true; met; at++ {
			w := newRunWorld(t)
			commits := 0
			met = false
			w.items.Before = func(c faulttable.Call) faulttable.Fault {
				if c.Commit {
					commits++
				}
				if commits > at {
					met, w.items.Before = true, nil
					first(w)
					for _, key := range keys {
						w.reuse(key)
					}
				}
				return faulttable.None
			}
			err := w.EraseRun(w.ctx(), w.head, w.host.NewID(), false)
			if !met {
				require.NoError(t, err)
				continue
			}
			if err != nil {
				require.ErrorIs(t, err, record.ErrConflict, "%s: commit %d", what, at)
			}
			for _, key := range keys {
				assert.True(t, w.known(key), "%s before commit %d: %s", what, at, key)
			}
		}
	}
	for _, keep := range []bool{false, true} {
		for at, met := 0, true; met; at++ { // at last the run itself
			w := newRunWorld(t)
			commits := 0
			met = false
			w.items.Before = func(c faulttable.Call) faulttable.Fault {
				if c.Commit {
					commits++
				}
				if commits > at {
					met, w.items.Before = true, nil
					w.must("somebody else's", func(tx *record.Tx) { tx.PutRun(w.head) })
				}
				return faulttable.None
			}
			err := w.EraseRun(w.ctx(), w.head, "n", keep)
			_, there := w.Run(w.ctx(), record.Of("o"), w.id)
			if met {
				require.ErrorIs(t, err, record.ErrConflict, "before commit %d", at)
				require.NoError(t, there)
			}
		}
	}
}

// A change of a message since it was read is found when it is withdrawn.
func TestWithdrawalOfChangedMessageIsStale(t *testing.T) {
	for what, between := range map[string]func(w *runWorld){
		"it was taken back":    func(w *runWorld) { require.NoError(t, w.EraseParked(w.ctx(), w.waiting)) },
		"its key is another's": func(w *runWorld) { w.reuse("k3") },
	} {
		w := newRunWorld(t)
		p, err := w.StillParked(w.ctx(), w.waiting)
		require.NoError(t, err)
		ops, err := opsOf(w.Store, "m", func(tx *record.Tx) { tx.DropParked(w.ctx(), p) })
		require.NoError(t, err)
		between(w)
		require.ErrorIs(t, commitOps(w.ctx(), w.Store, "m", ops...), record.ErrConflict, what)
	}
	w := runBlank(t) // nor one without a key
	spec := lifecycle.RunSpec{RunID: "r", Organization: "o"}
	ops, err := opsOf(w.Store, "m",
		func(tx *record.Tx) { tx.PutInput(w.ctx(), spec, record.Input{Message: "m"}, w.host.now) })
	require.NoError(t, err)
	w.commit(ops...)
	p, err := w.Parked(w.ctx(), "r")
	require.NoError(t, err)
	ops, err = opsOf(w.Store, "n", func(tx *record.Tx) { tx.DropParked(w.ctx(), p) })
	require.NoError(t, err)
	require.NoError(t, w.EraseParked(w.ctx(), "r"))
	require.ErrorIs(t, commitOps(w.ctx(), w.Store, "n", ops...), record.ErrConflict)
}

// A run without an attempt and without a callback needs no second deletion of its blobs.
func TestUntouchedRunNeedsNoSecondDeletion(t *testing.T) {
	for _, c := range []struct {
		attempt  int
		callback bool
		again    bool
	}{{0, false, false}, {1, false, true}, {0, true, true}, {1, true, true}} {
		w := runBlank(t)
		r := runIn("r", 1, 0)
		r.Attempt, r.Callback = c.attempt, c.callback
		w.must("m", func(tx *record.Tx) { tx.PutRun(record.Fresh(r)) })
		e, err := w.Link(w.ctx(), "r")
		require.NoError(t, err)
		require.NoError(t, w.EraseRun(w.ctx(), e, "n", false))
		_, found := w.body("r")
		assert.Equal(t, c.again, found, "%+v", c)
	}
}

// A withdrawn message is deleted with its idempotency key and its holds of files; a key that leads elsewhere by now
// stays. To withdraw a message that no longer exists is not an error.
func TestWithdrawnMessageLeavesNothing(t *testing.T) {
	for at, key := range []string{"k1", "k2"} {
		w := newRunWorld(t)
		require.NoError(t, w.EraseParked(w.ctx(), w.parked[at]))
		assert.False(t, w.known(key))
		_, err := w.Parked(w.ctx(), w.parked[at])
		assert.Equal(t, "not_found", runCode(err))
		_, found := w.body(w.parked[at])
		assert.Equal(t, at == 1, found, "its large body is taken away by a job")
		_, err = w.File(w.ctx(), record.Of("o"), "f2")
		assert.Equal(t, at == 0, err != nil)
		require.NoError(t, w.EraseParked(w.ctx(), w.parked[at]))
	}
	w := runBlank(t)
	spec := lifecycle.RunSpec{RunID: "r", Organization: "o"}
	ops, err := opsOf(w.Store, "m", func(tx *record.Tx) {
		tx.PutInput(w.ctx(), spec, record.Input{Message: "no key, no file"}, w.host.now)
	})
	require.NoError(t, err)
	require.Len(t, ops, 1)
	w.commit(ops...)
	p, err := w.Parked(w.ctx(), "r")
	require.NoError(t, err)
	ops, err = opsOf(w.Store, "n", func(tx *record.Tx) { tx.DropParked(w.ctx(), p) })
	require.NoError(t, err)
	require.Len(t, ops, 1)
	require.NoError(t, w.EraseParked(w.ctx(), "r"))
}

// A job that deletes the large body of a message, unless the message is committed, is stored before the body. For small
// bodies there is none. While a body is being deleted, none is stored under the same id.
func TestLargeBodyIsAnnouncedBeforeItIsStored(t *testing.T) {
	spec := lifecycle.RunSpec{RunID: "r", Organization: "o"}
	inline, outside := 0, 0
	for n := 8100; n < 8<<10; n++ { // around the limit, which includes what is stored with the message
		w := runBlank(t)
		_, err := opsOf(w.Store, "m", func(tx *record.Tx) {
			tx.PutInput(w.ctx(), spec, record.Input{Message: strings.Repeat("x", n-150)}, w.host.now)
		})
		require.NoError(t, err)
		_, announced := w.body("r")
		require.Equal(t, len(w.blobs.Keys()) == 1, announced, n)
		if announced {
			outside++
		} else {
			inline++
		}
	}
	assert.Positive(t, inline)
	assert.Positive(t, outside)

	w := runBlank(t)
	announcedFirst := false
	w.blobs.before = func(string) error {
		_, announcedFirst = w.body("r")
		return nil
	}
	large := record.Input{Message: runLarge}
	// and the process crashes
	_, err := opsOf(w.Store, "m", func(tx *record.Tx) { tx.PutInput(w.ctx(), spec, large, w.host.now) })
	require.NoError(t, err)
	assert.True(t, announcedFirst)
	job, _ := w.body("r")
	assert.Equal(t, record.Job{
		ID: job.ID, Organization: "o", Kind: record.RemoveBody, Subject: "r", Due: w.host.now.Add(10 * time.Second),
	}, job)
	w.host.now = w.host.now.Add(5 * time.Second)
	// another attempt moves the job's due time
	ops, err := opsOf(w.Store, "n", func(tx *record.Tx) { tx.PutInput(w.ctx(), spec, large, w.host.now) })
	require.NoError(t, err)
	job, _ = w.body("r")
	assert.Equal(t, w.host.now.Add(10*time.Second), job.Due)
	w.commit(ops...)
	_, found := w.body("r")
	assert.False(t, found, "the message is there")

	e, err := w.Parked(w.ctx(), "r")
	require.NoError(t, err)
	assert.Equal(t, runLarge, e.Input.Message)
	w = runBlank(t)
	removing := record.Job{ID: record.DerivedID("body", "r"), Organization: "o", Cursor: record.BodiesRemoved}
	w.must("m", func(tx *record.Tx) { tx.PutJob(record.Fresh(removing)) })
	_, err = opsOf(w.Store, "m", func(tx *record.Tx) { tx.PutInput(w.ctx(), spec, large, w.host.now) })
	assert.Equal(t, "unavailable", runCode(err))
	assert.Empty(t, w.blobs.Keys())
}

// A body is kept while the run or message exists that has it.
func TestBodyIsKeptWhileItsRunExists(t *testing.T) {
	for name, c := range map[string]struct {
		run, removed, message, kept bool
	}{
		"nobody's": {}, "a run's": {run: true, kept: true}, "a link's": {run: true, removed: true},
		"a message's":                        {message: true, kept: true},
		"that of a run with a large message": {run: true, message: true, kept: true},
	} {
		w := runBlank(t)
		if c.run {
			r := runIn("r", 1, 0)
			r.Removed = c.removed
			w.must("m", func(tx *record.Tx) { tx.PutRun(record.Fresh(r)) })
		}
		if c.message {
			w.message("r", "k", "small")
		}
		kept, err := w.HasBody(w.ctx(), "r")
		require.NoError(t, err)
		assert.Equal(t, c.kept, kept, name)
	}
	w := newRunWorld(t)
	w.items.Before = func(faulttable.Call) faulttable.Fault { return faulttable.Down }
	kept, err := w.HasBody(w.ctx(), w.id)
	assert.Equal(t, "unavailable", runCode(err))
	assert.False(t, kept)
}
