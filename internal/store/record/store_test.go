package record_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/proof/faulttable"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
)

// runOp is an operation of a use case on a store that has been prepared for it.
type runOp struct {
	do func(w *runWorld) (any, error)
	// long: it makes several commits, so an interrupted one may have done a part.
	long bool
	// takes: it deletes, and finds nothing to delete when its response was lost.
	takes bool
}

func runOperations() map[string]runOp {
	scope, spec := record.Of("o"), lifecycle.RunSpec{RunID: "new", Organization: "o"}
	read := func(do func(w *runWorld) (any, error)) runOp { return runOp{do: do} }
	write := func(do func(w *runWorld, tx *record.Tx) error) runOp {
		return read(func(w *runWorld) (any, error) {
			tx := w.Begin(w.host.NewID())
			if err := do(w, tx); err != nil {
				return nil, err
			}
			return nil, tx.Commit(w.ctx())
		})
	}
	one := func(do func(w *runWorld, tx *record.Tx)) runOp {
		return write(func(w *runWorld, tx *record.Tx) error { do(w, tx); return nil })
	}
	taking := func(op runOp) runOp { op.takes = true; return op }
	long := func(op runOp) runOp { op.long = true; return op }
	text := func(b []byte, err error) (any, error) { return string(b), err }
	return map[string]runOp{
		"a run":           read(func(w *runWorld) (any, error) { return w.Run(w.ctx(), scope, w.id) }),
		"a link":          read(func(w *runWorld) (any, error) { return w.Link(w.ctx(), w.id) }),
		"a client's run":  read(func(w *runWorld) (any, error) { return w.LiveRun(w.ctx(), scope, w.id) }),
		"runs":            read(func(w *runWorld) (any, error) { return w.Runs(w.ctx(), scope, w.id) }),
		"runs of a scope": read(func(w *runWorld) (any, error) { return w.RunsOfOrganization(w.ctx(), scope, "", 9) }),
		"old runs":        read(func(w *runWorld) (any, error) { return w.OldRunsOfOrganization(w.ctx(), "o", "", 9) }),
		"runs of a chat": read(func(w *runWorld) (any, error) {
			return w.RunsOfChat(w.ctx(), scope, lifecycle.Chat{ID: "c", OwnID: true, Organization: "o"}, "", 9)
		}),
		"turns of a chat": read(func(w *runWorld) (any, error) {
			runs, next, err := w.TurnsOfChat(
				w.ctx(),
				scope,
				lifecycle.Chat{ID: "c", OwnID: true, Organization: "o"},
				0,
				9,
			)
			return []any{runs, next}, err
		}),
		"a request":    read(func(w *runWorld) (any, error) { return w.Input(w.ctx(), w.head.Value) }),
		"what waits":   read(func(w *runWorld) (any, error) { return w.StillParked(w.ctx(), w.waiting) }),
		"a result":     read(func(w *runWorld) (any, error) { return text(w.Output(w.ctx(), w.head.Value)) }),
		"steps":        read(func(w *runWorld) (any, error) { return w.Steps(w.ctx(), w.head.Value) }),
		"a pause":      read(func(w *runWorld) (any, error) { return w.Interrupts(w.ctx(), w.id, 1) }),
		"whose body":   read(func(w *runWorld) (any, error) { return w.HasBody(w.ctx(), w.id) }),
		"chats":        read(func(w *runWorld) (any, error) { return w.Chats(w.ctx(), scope, "", 9) }),
		"a named chat": read(func(w *runWorld) (any, error) { return w.Chat(w.ctx(), scope, "c") }),
		"a chat, deleted or not": read(func(w *runWorld) (any, error) {
			e, found, err := w.FindChat(w.ctx(), scope, "c")
			return []any{e, found}, err
		}),
		"pauses": read(func(w *runWorld) (any, error) {
			pauses, decided, err := w.Pauses(w.ctx(), w.id)
			return []any{pauses, decided}, err
		}),
		"a decision": read(func(w *runWorld) (any, error) {
			d, found, err := w.LastDecision(w.ctx(), w.id, 2)
			return []any{d, found}, err
		}),
		"a run's chat": read(func(w *runWorld) (any, error) {
			e, found, err := w.ChatOf(w.ctx(), w.head.Value.RunSpec)
			return []any{e, found}, err
		}),
		"a delivery by number": read(func(w *runWorld) (any, error) {
			e, found, err := w.DeliveryAt(w.ctx(), w.id, 1)
			return []any{e, found}, err
		}),
		"a delivery by id": read(func(w *runWorld) (any, error) {
			return w.Delivery(w.ctx(), scope, record.DeliveryID(w.id, 2))
		}),
		"another's delivery": read(func(w *runWorld) (any, error) {
			_, err := w.Delivery(w.ctx(), scope, w.foreign)
			if runCode(err) == "outside_organization" {
				return "outside", nil
			}
			return nil, err
		}),
		"deliveries":          read(func(w *runWorld) (any, error) { return w.Deliveries(w.ctx(), scope, "", 9) }),
		"deliveries of a run": read(func(w *runWorld) (any, error) { return w.DeliveriesOfRun(w.ctx(), scope, w.id) }),
		"what is delivered": read(func(w *runWorld) (any, error) {
			e, _, err := w.DeliveryAt(w.ctx(), w.id, 2)
			if err != nil {
				return nil, err
			}
			return text(w.DeliveryBody(w.ctx(), e.Value))
		}),
		"a user's admission": read(func(w *runWorld) (any, error) {
			return w.Admission(w.ctx(), record.UserSlots("o", "u"), 2)
		}),
		"a wide admission": read(func(w *runWorld) (any, error) {
			return w.Admission(w.ctx(), record.OrganizationSlots("o"), 1000)
		}),
		"active runs": read(func(w *runWorld) (any, error) { return w.ActiveRuns(w.ctx(), "o") }),
		"how many count": read(func(w *runWorld) (any, error) {
			return w.CountingRuns(w.ctx(), record.OrganizationSlots("o"))
		}),
		"how many are hers": read(func(w *runWorld) (any, error) {
			return w.CountingRuns(w.ctx(), record.UserSlots("o", "u"))
		}),
		"what is due": read(func(w *runWorld) (any, error) {
			return w.Due(w.ctx(), table.Key{Part: "file/f3"}.Shard(), w.host.now.Add(48*time.Hour), 9)
		}),

		"a message": one(func(w *runWorld, tx *record.Tx) {
			tx.PutInput(w.ctx(), spec, record.Input{Message: "m"}, w.host.now)
		}),
		"a large message": long(one(func(w *runWorld, tx *record.Tx) {
			tx.PutInput(w.ctx(), spec, record.Input{Message: runLarge}, w.host.now)
		})),
		"a message taken back": taking(write(func(w *runWorld, tx *record.Tx) error {
			p, err := w.StillParked(w.ctx(), w.waiting)
			if err != nil {
				return err
			}
			tx.DropParked(w.ctx(), p)
			return nil
		})),
		"a message with a file taken back": taking(read(func(w *runWorld) (any, error) {
			return nil, w.EraseParked(w.ctx(), w.parked[0])
		})),
		"a new result": one(func(w *runWorld, tx *record.Tx) {
			r := record.Run{Run: lifecycle.Run{RunSpec: spec}}
			tx.SetOutput(w.ctx(), &r, runOutput)
			tx.PutRun(record.Fresh(r))
		}),
		"a step": one(func(w *runWorld, tx *record.Tx) {
			tx.PutStep(w.ctx(), w.head.Value, record.Step{Index: 9, Output: runLarge})
		}),
		"a new pause": one(func(w *runWorld, tx *record.Tx) {
			tx.PutPause(w.ctx(), w.head.Value, 3, make([]record.Interrupt, 1))
		}),
		"a new decision": one(func(w *runWorld, tx *record.Tx) {
			tx.PutDecisions(w.ctx(), w.head.Value, 3, record.Decisions{By: runLarge})
		}),
		"a new delivery": one(func(w *runWorld, tx *record.Tx) {
			tx.NewDelivery(w.ctx(), record.Delivery{RunID: w.id, Organization: "o", Sequence: 3, Body: runLarge})
		}),
		"a chat's end": taking(write(func(w *runWorld, tx *record.Tx) error {
			e, err := w.Chat(w.ctx(), scope, "c")
			tx.DeleteChat(e)
			return err
		})),
		"an edit": read(func(w *runWorld) (any, error) {
			e, err := record.Change(
				w.ctx(),
				w.Store,
				scope,
				"g",
				1,
				func(g *catalog.Group, tx *record.Tx) error {
					g.Name = "after"
					record.PutResource(tx, record.Fresh(catalog.Group{ID: "by the way", Organization: "o"}))
					return nil
				},
			)
			return e.Value, err
		}),
		"a creation": read(func(w *runWorld) (any, error) {
			return record.Create(w.ctx(), w.Store, catalog.Group{ID: "new", Organization: "o"}, w.host.NewID())
		}),
		"a removal": taking(read(func(w *runWorld) (any, error) {
			type group = record.Entity[catalog.Group]
			return record.Remove(w.ctx(), w.Store, scope, "g", func(_ group, tx *record.Tx) error {
				record.PutResource(tx, record.Fresh(catalog.Group{ID: "by the way", Organization: "o"}))
				return nil
			})
		})),
		"the end of deliveries": long(read(func(w *runWorld) (any, error) {
			return nil, w.EraseDeliveries(w.ctx(), "o", w.id)
		})),
		"a run's end": long(taking(read(func(w *runWorld) (any, error) {
			return nil, w.EraseRun(w.ctx(), w.head, w.host.NewID(), false)
		}))),
		"a run's end but for its link": long(taking(read(func(w *runWorld) (any, error) {
			return nil, w.EraseRun(w.ctx(), w.head, w.host.NewID(), true)
		}))),
	}
}

// After any failure of one call, the store repeats it: the result is the same, and the same is stored.
func TestOneFailedCallChangesNoOutcome(t *testing.T) {
	for name, op := range runOperations() {
		w := newRunWorld(t)
		want, err := op.do(w)
		require.NoError(t, err, name)
		items, values := w.stored()
		for _, fault := range faulttable.Faults() {
			for at, met := 0, true; met; at++ {
				w := newRunWorld(t)
				calls := 0
				met = false
				w.items.Before = func(faulttable.Call) faulttable.Fault {
					if calls++; calls == at+1 {
						met = true
						return fault
					}
					return faulttable.None
				}
				got, err := op.do(w)
				gone := errors.Is(err, record.ErrConflict) || runCode(err) == "not_found"
				if op.takes && gone && (fault == faulttable.AppliedUnknown || fault == faulttable.RefusedByOwn) {
					if op.long { // its job is done again, and does the rest
						continue
					}
				} else {
					require.NoError(t, err, "%s: call %d %s", name, at, fault)
					assert.Equal(t, want, got, "%s: call %d %s", name, at, fault)
				}
				gotItems, gotValues := w.stored()
				assert.Equal(t, items, gotItems, "%s: call %d %s", name, at, fault)
				assert.Equal(t, values, gotValues, "%s: call %d %s", name, at, fault)
			}
		}
	}
}

// If the store cannot be reached, calls give up after a while with an error. Nothing is half done, and a repetition
// succeeds.
func TestUnreachableStoreIsReportedAndNothingIsHalfDone(t *testing.T) {
	const patience = 8
	for name, op := range runOperations() {
		done := newRunWorld(t)
		want, err := op.do(done)
		require.NoError(t, err, name)
		for at, failed := 0, 1; failed > 0; at++ {
			w := newRunWorld(t)
			before, _ := w.stored()
			calls := 0
			failed = 0
			w.items.Before = func(faulttable.Call) faulttable.Fault {
				if calls++; calls > at && failed < patience {
					failed++
					return faulttable.Down
				}
				return faulttable.None
			}
			_, err := op.do(w)
			w.items.Before = nil
			if failed == 0 {
				require.NoError(t, err, "%s: call %d", name, at)
				require.Positive(t, at, name)
				continue
			}
			require.Equal(t, "unavailable", runCode(err), "%s: call %d: %v", name, at, err)
			if !op.long {
				after, _ := w.stored()
				assert.Equal(t, before, after, "%s: call %d", name, at)
			}
			again, err := op.do(w)
			require.NoError(t, err, "%s: call %d, again", name, at)
			if name != "a creation" && name != "a removal" { // the write id differs
				assert.Equal(t, want, again, "%s: call %d, again", name, at)
			}
			assert.Equal(t, done.keys(), w.keys(), "%s: call %d, again", name, at)
		}
	}
}

// Reads and writes of blobs are repeated as well. Deletions are not, as their jobs are repeated.
func TestBlobCallsAreRetried(t *testing.T) {
	met := map[string]bool{}
	for name, op := range runOperations() {
		done := newRunWorld(t)
		want, err := op.do(done)
		require.NoError(t, err, name)
		for _, often := range []int{1, 7, 8} {
			for at, failed := 0, 1; failed > 0; at++ {
				w := newRunWorld(t)
				calls := 0
				failed = 0
				var kind string
				w.blobs.before = func(call string) error {
					if calls++; calls > at && failed < often && (kind == "" || kind == call) {
						failed++
						kind = call
						return errRunBlob
					}
					return nil
				}
				got, err := op.do(w)
				w.blobs.before = nil
				met[kind] = true
				if failed > 0 && (often == 8 || kind == "delete") {
					require.Error(t, err, "%s: %s %d", name, kind, at)
					require.ErrorIs(t, err, errRunBlob)
					if kind == "put" {
						assert.Equal(t, "unavailable", runCode(err))
					}
					got, err = op.do(w)
				}
				require.NoError(t, err, "%s: %s %d", name, kind, at)
				assert.Equal(t, want, got, "%s: %s %d", name, kind, at)
				assert.Equal(t, done.keys(), w.keys(), "%s: %s %d", name, kind, at)
			}
		}
	}
	assert.Equal(t, map[string]bool{"": true, "put": true, "get": true, "delete": true}, met)
}

// An item that cannot be decoded is an error. A deleted item is decoded only if it names other things; blobs of it that
// no longer exist are skipped.
func TestUnreadableItemsAreErrors(t *testing.T) {
	opaque := func(op, what string, run string, key table.Key) bool {
		names := key.Sort == "input" || strings.HasPrefix(key.Sort, "decision/") || !strings.HasPrefix(key.Part, "run/")
		switch {
		case strings.HasPrefix(key.Sort, "file/"): // the item of a hold is empty
			return true
		case op == "the end of deliveries", op == "another's delivery", op == "whose body" && key.Sort == "input":
			return true
		case op == "a result":
			return what == "a document" // any document
		case strings.HasPrefix(op, "a run's end"):
			return !names || what == "a place" && key.Part == "run/"+run
		}
		return false
	}
	failures := 0
	for name, op := range runOperations() {
		w := newRunWorld(t)
		items, _ := w.stored()
		whole := &runDamage{Table: w.memory, read: map[table.Key]bool{}}
		w.items.Inner = whole
		_, err := op.do(w)
		require.NoError(t, err, name)
		for key := range whole.read {
			item, was := items[key]
			if !was {
				continue // the operation wrote it itself
			}
			for what, body := range map[string]string{
				"an item": `[]`, "a document": `{"doc":-1}`, "a place": `{"blob":"nowhere"}`,
			} {
				document := strings.HasPrefix(string(item.Body), `{"doc"`) ||
					strings.HasPrefix(string(item.Body), `{"blob"`)
				if what != "an item" && !document {
					continue
				}
				w := newRunWorld(t)
				w.items.Inner = &runDamage{Table: w.memory, at: key, body: []byte(body), read: map[table.Key]bool{}}
				before, _ := w.stored()
				_, err := op.do(w)
				if opaque(name, what, w.id, key) {
					assert.NoError(t, err, "%s: %s of %s", name, what, key)
					continue
				}
				failures++
				assert.Error(t, err, "%s: %s of %s", name, what, key)
				if !op.long {
					after, _ := w.stored()
					assert.Equal(t, before, after, "%s: %s of %s", name, what, key)
				}
			}
		}
	}
	assert.Greater(t, failures, 50)
}
