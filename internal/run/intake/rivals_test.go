package intake_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/proof/faulttable"
	"agentplatform/internal/run/intake"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
)

// A request that always meets conflicts gives up with a problem of kind Unavailable.
func TestEndlessConflictsAreUnavailable(t *testing.T) {
	for name, ready := range operations() {
		w := newWorld(t)
		do := ready(w)
		fights, commits, touched := true, 0, 0
		w.items.Before = func(c faulttable.Call) faulttable.Fault {
			if c.Commit && fights { // commits of the other writer have no conflicts
				fights = false
				commits++
				for _, op := range c.Ops {
					touched += touch(w, op)
				}
				fights = true
			}
			return faulttable.None
		}
		_, err := do(t.Context())
		if touched > 0 { // new items have no conflicts
			assert.Equal(t, "unavailable", code(err), "%s: %v", name, err)
			assert.Greater(t, commits, 10, name)
		}
	}
}

// touch writes an existing item again, as another writer would.
func touch(w *world, op table.Op) int {
	items, err := w.items.Inner.Get(w.t.Context(), op.Item.Key)
	require.NoError(w.t, err)
	if items[0] == nil {
		return 0
	}
	item := *items[0]
	item.WriteID = w.Host.NewID()
	require.NoError(w.t, w.items.Inner.Commit(w.t.Context(), item.WriteID,
		table.Put(item, table.VersionIs(item.Version))))
	return 1
}

// With any change between any two reads of the store, the client gets the run that has its message, or a refusal with
// the reason.
func TestConcurrentChangeYieldsRunOrRefusal(t *testing.T) {
	first := func(w *world) record.Run {
		for _, chat := range []string{"c"} {
			if e, found, err := w.Store.FindChat(
				w.t.Context(),
				w.who.Scope(),
				chat,
			); err == nil && found &&
				e.Value.ActiveRun != "" {
				return w.run(e.Value.ActiveRun)
			}
		}
		return record.Run{}
	}
	rivals := map[string]func(w *world, active record.Run){
		"its end": func(w *world, active record.Run) {
			w.transition(active.ID(), transition.Change{Event: lifecycle.Remove{KeepParked: true}})
		},
		"a question": func(w *world, active record.Run) {
			if active.Status == lifecycle.Queued && active.Attempt == 0 {
				w.ask(active.ID(), lifecycle.Clarification)
			}
		},
		"an answer": func(w *world, active record.Run) {
			if active.Status == lifecycle.AwaitingInput {
				w.post(intake.Message{Text: "first", ChatID: "c"})
			}
		},
		"another's message": func(w *world, _ record.Run) {
			w.post(intake.Message{Text: "first", ChatID: "c", Enqueue: true})
		},
		"its chat's deletion": func(w *world, _ record.Run) {
			_, err := w.DeleteChat(w.t.Context(), w.who, "c")
			require.NoError(w.t, err)
		},
	}
	for name, ready := range operations() {
		for rival, act := range rivals {
			for at, done := 0, false; !done; at++ {
				w := newWorld(t)
				do := ready(w)
				level := w.who.Level
				calls := 0
				w.items.Before = func(faulttable.Call) faulttable.Fault {
					if calls++; calls > at {
						w.items.Before = nil
						w.who.Level = tenant.LevelOperator
						if active := first(w); active.ID() != "" {
							act(w, active)
						}
						w.who.Level = level
					}
					return faulttable.None
				}
				posted, err := do(t.Context())
				done = w.items.Before != nil
				switch {
				case err != nil:
					assert.NotEmpty(t, code(err), "%s, and %s before call %d: %v", name, rival, at, err)
				case !slices.Contains([]string{
					"a message to a busy chat", "a withdrawal", "a chat's deletion", "an idle chat's deletion",
					"a look at a chat", "a look at a list", "a look at an old chat",
					"a push that is set", "a push that is deleted",
				}, name):
					assert.NotEmpty(t, posted.Run.ID(), "%s, and %s before call %d", name, rival, at)
				}
			}
		}
	}
}
