package record_test

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
)

// estateOperation is an operation on an estate, which has been prepared for it.
type estateOperation struct {
	ready  func(e *estate) func(ctx context.Context) error
	writes []string // in words: see estate.written
	steps  bool     // it makes several commits, of which earlier ones stay when a later one fails
	unread []string // the items that it reads without decoding them
}

// operations are all operations that read the store, or write values that they have read.
func estateOperations() map[string]estateOperation {
	type do = func(ctx context.Context) error
	reads := func(f func(ctx context.Context, e *estate) error) estateOperation {
		return estateOperation{
			ready: func(e *estate) do { return func(ctx context.Context) error { return f(ctx, e) } },
		}
	}
	return map[string]estateOperation{
		"a look at a resource": reads(func(ctx context.Context, e *estate) error {
			_, err := record.Resource[catalog.User](ctx, e.Store, e.scope(), e.user)
			return err
		}),
		"a look at which resources there are": {unread: []string{"agent/AGENT head"}, ready: func(e *estate) do {
			return func(ctx context.Context) error {
				_, err := record.Existing[catalog.Agent](ctx, e.Store, e.scope(), []string{e.agent})
				return err
			}
		}},
		"a list of resources": reads(func(ctx context.Context, e *estate) error {
			_, err := record.Resources[record.File](ctx, e.Store, e.scope(), "", 2)
			return err
		}),
		"a look at keys' uses": reads(func(ctx context.Context, e *estate) error {
			_, err := record.LastUses[catalog.APIKey](ctx, e.Store, e.key)
			return err
		}),
		"a look at an agent's version": reads(func(ctx context.Context, e *estate) error {
			_, err := record.Version[catalog.Agent](ctx, e.Store, e.scope(), e.agent, 1)
			return err
		}),
		"a look at an agent": reads(func(ctx context.Context, e *estate) error {
			_, err := catalog.Standing(ctx, e.Store, e.scope(), e.agent)
			return err
		}),
		"a look at a removed agent": reads(func(ctx context.Context, e *estate) error {
			_, err := catalog.Standing(ctx, e.Store, e.scope(), e.gone)
			return err
		}).leaving("agent/GONE version/00000001"),
		"a list of versions": reads(func(ctx context.Context, e *estate) error {
			_, err := record.Versions[catalog.Agent](ctx, e.Store, e.agent, "", 9)
			return err
		}),
		"the removal of versions": {steps: true, ready: func(e *estate) do {
			return func(ctx context.Context) error { return record.EraseVersions[catalog.Agent](ctx, e.Store, e.agent) }
		}, writes: []string{"!-agent/AGENT version/00000001", "!-agent/AGENT version/00000002"},
			unread: []string{"agent/AGENT version/00000001", "agent/AGENT version/00000002"}},
		"a look at a job": {ready: func(e *estate) do {
			e.must("seed", func(tx *record.Tx) { tx.PutJob(record.Fresh(record.Job{ID: "j", Organization: "o"})) })
			return func(ctx context.Context) error {
				_, found, err := e.Job(ctx, "j")
				assert.Equal(e, err == nil, found)
				return err
			}
		}},
		"a look at a run token": {ready: func(e *estate) do {
			e.must("seed", func(tx *record.Tx) {
				tx.PutRunToken("h", record.RunToken{Organization: "o", End: e.now.Add(time.Hour)})
			})
			return func(ctx context.Context) error {
				_, err := record.FindRunToken(ctx, e.Store, "h")
				return err
			}
		}},
		"a look at a request's outcome": {ready: func(e *estate) do {
			e.must("seed",
				func(tx *record.Tx) { tx.PutIdempotency("o", "name", record.Idempotency{}, record.Idempotency{}) })
			return func(ctx context.Context) error {
				_, found, err := e.Idempotency(ctx, "name")
				assert.Equal(e, err == nil, found)
				return err
			}
		}},
		"the first deployment": reads(func(ctx context.Context, e *estate) error { return e.EnsureDeployment(ctx) }).
			writing("+deployment began"),
		"the first deployment of a newer program": {ready: func(e *estate) do {
			e.oldSecret()
			return e.EnsureDeployment
		}, writes: []string{"-deployment secret", "+deployment began"}},
		"the ledger of nobody": {ready: func(e *estate) do {
			require.NoError(e, e.EnsureDeployment(e.Context()))
			e.charge(record.NoOrganization, e.now)
			return func(ctx context.Context) error {
				_, err := ledgerPage(ctx, e.Store, record.Of(record.NoOrganization), "", 9)
				return err
			}
		}},
		"the ledger": {ready: func(e *estate) do {
			e.charge(e.organization, e.now)
			return func(ctx context.Context) error {
				_, err := ledgerPage(ctx, e.Store, e.scope(), "", 9)
				return err
			}
		}},
		"the ledger from its beginning": {ready: func(e *estate) do {
			e.charge(e.organization, e.now)
			return func(ctx context.Context) (err error) {
				for _, err = range e.Through(ctx, e.scope(), e.now, e.now.Add(time.Hour)) {
				}
				return err
			}
		}},
		"a look at how far the ledger is rolled up": {ready: func(e *estate) do {
			e.must("seed", func(tx *record.Tx) { tx.PutRolled(e.organization, record.RolledEntity{}) })
			return func(ctx context.Context) error { return estateErr(e.Rolled(ctx, e.scope())) }
		}},
		"a look at rollups": {ready: func(e *estate) do {
			day := e.now.Truncate(24 * time.Hour)
			e.must("seed", func(tx *record.Tx) {
				tx.PutQuarter(e.organization, day, record.RollupPage{})
				tx.PutDay(e.organization, "v", day, record.RollupPage{})
			})
			return func(ctx context.Context) error {
				none := func(time.Time, []byte) error { return nil }
				err := e.Quarters(ctx, e.scope(), day, e.now, none)
				return cmp.Or(err, e.Days(ctx, e.scope(), "v", day, e.now, none))
			}
		}},
		"a look at what is spent": {ready: func(e *estate) do {
			e.must("seed", func(tx *record.Tx) { tx.CountRun("o", "user/u/day", record.Spent{}) })
			return func(ctx context.Context) error {
				_, err := e.Overspent([]lifecycle.Budget{{Name: "user/u/day", MaxTokens: 9}})(ctx, 1, 1)
				return err
			}
		}},
		"what a run has spent": counting(lifecycle.Completed, 0,
			"+spent/user/u/2026-05 tokens/0", "+spent/agent/a/2026-05-05 tokens/0"),
		"what a running run has spent": counting(lifecycle.Running, 0,
			"!~spent/user/u/2026-05 unsettled/RUN", "!~spent/agent/a/2026-05-05 unsettled/RUN"),
		"what a run has spent that stops": counting(lifecycle.AwaitingInput, 1,
			"!-spent/user/u/2026-05 unsettled/RUN", "+spent/user/u/2026-05 tokens/0",
			"!-spent/agent/a/2026-05-05 unsettled/RUN", "+spent/agent/a/2026-05-05 tokens/0"),
		"what a search has spent": reads(func(ctx context.Context, e *estate) error {
			limit := record.Limit{Kind: "user", ID: "u", Budget: record.Budget{Period: "month", MaxTokens: new(int64)}}
			return committed(ctx, e.Store, "6a000000000000000000000a", func(tx *record.Tx) {
				tx.PutEmbedded(e.organization, record.Entry{Kind: record.OfSearch, InputTokens: 1})
				tx.SpendEmbedded(ctx, e.organization, []record.Limit{limit}, 1)
			})
		}).writing("+ledger/ORGANIZATION/2026-05-05/1 *00000000000a", "+spent/user/u/2026-05 tokens/1"),
		"a look at a file": reads(func(ctx context.Context, e *estate) error {
			return estateErr(e.File(ctx, e.scope(), e.plain))
		}),
		"the bytes of a file": reads(func(ctx context.Context, e *estate) error {
			return estateErr(e.OpenFile(ctx, e.scope(), e.plain))
		}),
		"a value of a toolkit": reads(func(ctx context.Context, e *estate) error {
			return estateErr(e.Blob(ctx, e.list))
		}),
		"a value that a toolkit names no more": reads(func(ctx context.Context, e *estate) error {
			return committed(ctx, e.Store, "m", func(tx *record.Tx) { tx.DropBlob(e.kit(), e.list) })
		}).writing("+job/* head"),
		"a value that nothing names": reads(
			func(ctx context.Context, e *estate) error { return e.EraseBlob(ctx, e.organization, e.list) },
		),
		"a toolkit's last values": reads(
			func(ctx context.Context, e *estate) error {
				return record.EraseBlobs[catalog.Toolkit](ctx, e.Store, e.organization, e.toolkit)
			},
		),
		"a toolkit's removal": {steps: true, ready: func(e *estate) do {
			return func(ctx context.Context) error {
				return record.EraseResource(ctx, e.Store, e.kit(), "m")
			}
		}, writes: []string{"!-toolkit/TOOLKIT head"}},
		"a change by somebody": reads(func(ctx context.Context, e *estate) error {
			rename := func(u *catalog.User, _ *record.Tx) error {
				u.Name = "new"
				return nil
			}
			return estateErr(record.Change(e.by(ctx), e.Store, e.scope(), e.user, 0, rename))
		}).writing("~user/USER head", "+audit/* head"),
		"a deed of somebody": reads(func(ctx context.Context, e *estate) error {
			return e.NoteDeed(e.by(ctx), e.organization, "agent", e.agent)
		}).writing("+audit/* head"),
		"an edit of a file": reads(func(ctx context.Context, e *estate) error {
			return estateErr(e.ChangeFile(ctx, e.scope(), e.plain, func(f *record.File) error {
				f.Name = "b.txt"
				return nil
			}))
		}).writing("~file/PLAIN head"),
		"a file's bytes come": reads(func(ctx context.Context, e *estate) error {
			return estateErr(e.FillFile(ctx, e.scope(), e.empty, strings.NewReader("bytes"), 9))
		}).writing("~file/EMPTY head"),
		"a file is put off": {ready: func(e *estate) do {
			f, err := e.File(e.Context(), e.scope(), e.plain)
			require.NoError(e, err)
			return func(ctx context.Context) error { return e.RecheckFile(ctx, f, e.now) }
		}, writes: []string{"~file/PLAIN head"}},
		"files are taken hold of": reads(func(ctx context.Context, e *estate) error {
			return e.addReferences(ctx, e.run, e.plain, e.plain, e.held)
		}).writing("~file/PLAIN head", "+run/RUN file/PLAIN").leaving("file/HELD head"),
		"a run makes a file": {ready: func(e *estate) do {
			r, err := e.Store.Run(e.Context(), e.scope(), e.run)
			require.NoError(e, err)
			f := e.NewFile(e.organization, e.user, "made.txt", "text/plain")
			return func(ctx context.Context) error {
				return committed(ctx, e.Store, "m", func(tx *record.Tx) { tx.NewHeldFile(ctx, f, r) })
			}
		}, writes: []string{
			"+file/* head", "+count/files/ORGANIZATION/USER 0", "+count/files/ORGANIZATION 0",
			"+run/RUN file/*", "?run/RUN head",
		}},
		"one of two lets go of a file": reads(func(ctx context.Context, e *estate) error {
			return committed(ctx, e.Store, "m", func(tx *record.Tx) { record.Release(tx, ctx, e.run, e.held) })
		}).writing("-run/RUN file/HELD", "~file/HELD head"),
		"who does not hold a file lets go of it": reads(func(ctx context.Context, e *estate) error {
			ops, err := opsOf(e.Store, "m", func(tx *record.Tx) { record.Release(tx, ctx, e.run, e.plain) })
			assert.Empty(e, ops)
			return err
		}).leaving("file/PLAIN head"),
		"a file that went with its organization is let go of": {steps: true, ready: func(e *estate) do {
			head := table.Key{Part: "file/" + e.held, Sort: "head"}
			require.NoError(e, commitOps(e.Context(), e.Store, "seed", table.Delete(head, table.Always())))
			return func(ctx context.Context) error { return record.EstateReleaseAll(e.Store, ctx, e.run) }
		}, writes: []string{"-run/RUN file/HELD"}},
		"a parked message lets go of its files": {ready: func(e *estate) do {
			require.NoError(e, e.addReferences(e.Context(), e.parked, e.plain))
			return func(ctx context.Context) error {
				return committed(ctx, e.Store, "m", func(tx *record.Tx) { record.EstateReleases(tx, ctx, e.parked) })
			}
		}, writes: []string{"-run/PARKED file/PLAIN", "~file/PLAIN head", "-run/PARKED file/HELD", "~file/HELD head"}},
		"a run lets go of its files": {steps: true, ready: func(e *estate) do {
			require.NoError(e, e.addReferences(e.Context(), e.run, e.plain))
			return func(ctx context.Context) error { return record.EstateReleaseAll(e.Store, ctx, e.run) }
		}, writes: []string{"-run/RUN file/PLAIN", "~file/PLAIN head", "-run/RUN file/HELD", "~file/HELD head"}},
		"a file's removal": {steps: true, ready: func(e *estate) do {
			return func(ctx context.Context) error { return e.RemoveFile(ctx, e.plain, estateUnwanted) }
		}, writes: []string{"~file/PLAIN head", "-file/PLAIN head"}},
		"the removal of a file that may still come": {steps: true, ready: func(e *estate) do {
			_, err := e.ChangeFile(e.Context(), e.scope(), e.empty, func(f *record.File) error {
				f.OpenUntil = e.now.Add(time.Hour)
				return nil
			})
			require.NoError(e, err)
			return func(ctx context.Context) error { return e.RemoveFile(ctx, e.empty, estateUnwanted) }
		}, writes: []string{"~file/EMPTY head", "~file/EMPTY head"}},
		"the removal of a file that is wanted": reads(func(ctx context.Context, e *estate) error {
			return e.RemoveFile(ctx, e.held, func(f record.File) bool { return f.References > 0 })
		}),
	}
}

func (o estateOperation) writing(lines ...string) estateOperation {
	o.writes = lines
	return o
}

func (o estateOperation) leaving(unread ...string) estateOperation {
	o.unread = unread
	return o
}

func estateErr[T any](_ T, err error) error { return err }

func estateUnwanted(record.File) bool { return false }

func (e *estate) by(ctx context.Context) context.Context {
	return record.By(
		ctx,
		record.Author{Organization: e.organization, UserID: e.user, APIKeyID: e.key, Operation: "doIt"},
	)
}

// oldSecret is the item of versions that signed run tokens, with the begin of the deployment.
func (e *estate) oldSecret() {
	body := []byte(`{"created_at":"2025-01-02T03:04:05Z","secret":"s"}`)
	item := table.Item{Key: record.EstateOldSecret, Owner: record.NoOrganization, Body: body}
	require.NoError(e, e.memory.Commit(e.Context(), "seed", table.Put(item, table.Absent())))
}

// charge bills a run that was created at a time.
func (e *estate) charge(organization string, at time.Time) string {
	e.n++
	id := e.ids.Next(at, e.n)
	run := lifecycle.Run{RunSpec: lifecycle.RunSpec{RunID: id, Organization: organization}, FinishedAt: at}
	e.must("seed", func(tx *record.Tx) { tx.PutCharge(run) })
	return id
}

// An operation writes its own items and nothing else, each write on condition of the item as it was read.
func TestOperationWritesOnlyItsOwnItems(t *testing.T) {
	for name, o := range estateOperations() {
		e := newEstate(t)
		do := o.ready(e)
		e.commits = nil
		require.NoError(t, do(t.Context()), name)
		assert.ElementsMatch(t, o.writes, e.written(), name)
	}
}

// Any call of the table or of the blob store may fail for good. Then the operation returns an error, nothing is left
// half done, and a repetition succeeds.
func TestFailedCallIsReportedAndCanBeRepeated(t *testing.T) {
	for name, o := range estateOperations() {
		t.Run(name, func(t *testing.T) {
			undisturbed := newEstate(t)
			require.NoError(t, o.ready(undisturbed)(t.Context()))
			for fails := 1; ; fails++ {
				require.Less(t, fails, 100)
				e := newEstate(t)
				do := o.ready(e)
				before := e.stored()
				e.calls, e.failAt = 0, fails
				err := do(t.Context())
				if e.failing == "" {
					require.NoError(t, err)
					require.Greater(t, fails, 1, "it has calls")
					return
				}
				require.ErrorIs(t, err, errAway, "call %d: %s", fails, e.failing)
				if !o.steps &&
					!strings.HasPrefix(e.failing, "delete files") { // bytes that cannot be deleted go with their file
					assert.Equal(t, before, e.stored(), e.failing)
				}
				e.failing = ""
				if err = do(t.Context()); err == nil {
					assert.Equal(t, undisturbed.keys(), e.keys(), "after call %d", fails)
				}
				require.NoError(t, err, "once more, after call %d", fails)
			}
		})
	}
}

// A stored item that cannot be decoded is an error, not skipped; an item of a newer version is not overwritten.
func TestUndecodableItemIsAnError(t *testing.T) {
	for name, o := range estateOperations() {
		for _, newer := range []bool{false, true} {
			for at, done := 1, false; !done; at++ {
				e := newEstate(t)
				do := o.ready(e)
				var key table.Key
				e.read = 0
				e.tamper = func(n int, i *table.Item) {
					if n < at || key != (table.Key{}) && i.Key != key || string(i.Body) == "{}" {
						return // an empty item only shows that it exists
					}
					if key = i.Key; newer {
						i.Schema = 2
					} else {
						i.Body = []byte("{")
					}
				}
				before := e.stored()
				err := do(t.Context())
				done = key == (table.Key{})
				switch {
				case done:
					require.NoError(t, err, name)
				case !newer:
					itemName := e.inWords(key.String())
					assert.Equal(
						t,
						slices.Contains(o.unread, itemName),
						err == nil,
						"%s: %s is not understood",
						name,
						itemName,
					)
				case err != nil:
					require.ErrorContains(t, err, "newer schema", name)
				default:
					if after, there := e.stored()[key.String()]; there {
						assert.NotContains(t, o.writes, "~"+e.inWords(key.String()), "%s only seems to be done", name)
						assert.Equal(t, before[key.String()], after, "%s writes over %s", name, e.inWords(key.String()))
					}
				}
			}
		}
	}
}

// When another writer changes an item that an operation has read, the operation reads again or returns ErrConflict.
func TestConcurrentChangeIsNoticed(t *testing.T) {
	for name, o := range estateOperations() {
		for _, line := range o.writes {
			if strings.HasPrefix(line, "!") {
				continue
			}
			e := newEstate(t)
			do := o.ready(e)
			e.commits = nil
			calls := 0
			e.before = func(ops []table.Op) {
				for _, op := range ops {
					if calls == 0 && e.inWords(op.Item.String()) == line[1:] {
						calls = e.calls
						e.touch(op.Item.Key)
					}
				}
			}
			err := do(t.Context())
			require.Positive(t, calls, "%s: %s", name, line)
			if again := len(e.written()) > len(o.writes) || !o.steps && e.calls > calls; !again {
				assert.ErrorIs(t, err, record.ErrConflict, "%s: %s", name, line)
			}
		}
	}
}

// JSON that cannot be stored is refused by every write, before anything is stored.
func TestUnstorableJSONIsRefusedByEveryWrite(t *testing.T) {
	const bad = "\xff"
	e := newEstate(t)
	ctx := e.by(t.Context())
	r, err := e.Store.Run(ctx, e.scope(), e.run)
	require.NoError(t, err)
	file := record.File{ID: "f", Organization: "o", Name: bad}
	for name, write := range map[string]func() ([]table.Op, error){
		"a resource": func() ([]table.Op, error) {
			return opsOf(e.Store, "m",
				func(tx *record.Tx) { record.PutResource(tx, record.Fresh(catalog.User{Name: bad})) })
		},
		"a version": func() ([]table.Op, error) {
			return opsOf(e.Store, "m", func(tx *record.Tx) { record.PutVersion(tx, catalog.Agent{ID: bad}, 0) })
		},
		"a job": func() ([]table.Op, error) {
			return opsOf(e.Store, "m", func(tx *record.Tx) { tx.PutJob(record.Fresh(record.Job{Subject: bad})) })
		},
		"a run token": func() ([]table.Op, error) {
			return opsOf(e.Store, "m", func(tx *record.Tx) { tx.PutRunToken("h", record.RunToken{KeyID: bad}) })
		},
		"a charge": func() ([]table.Op, error) {
			r := e.runOf(e.run).Run
			r.Agent = bad
			return opsOf(e.Store, "m", func(tx *record.Tx) { tx.PutCharge(r) })
		},
		"an outcome": func() ([]table.Op, error) {
			return opsOf(e.Store, "m", func(tx *record.Tx) {
				tx.PutIdempotency("o", "n", record.Idempotency{RunID: bad}, record.Idempotency{})
			})
		},
		"a made file": func() ([]table.Op, error) {
			return opsOf(e.Store, "m", func(tx *record.Tx) { tx.NewHeldFile(ctx, file, r) })
		},
		"a removal's job": func() ([]table.Op, error) {
			kit := catalog.Toolkit{ID: bad}
			return opsOf(e.Store, "m", func(tx *record.Tx) { tx.DropBlobs(kit, record.RemoveToolkit) })
		},
		"a deed": func() ([]table.Op, error) {
			return opsOf(e.Store, "m", func(tx *record.Tx) { tx.AuditDeed(ctx, e.organization, "agent", bad) })
		},
		"a noted deed": func() ([]table.Op, error) { return nil, e.NoteDeed(ctx, e.organization, "agent", bad) },
		"decisions": func() ([]table.Op, error) {
			return opsOf(e.Store, "m",
				func(tx *record.Tx) { tx.AuditDecisions(ctx, r.Value, record.Decisions{By: bad}) })
		},
		"a change's author": func() ([]table.Op, error) {
			ctx := record.By(ctx, record.Author{Operation: bad})
			return nil, estateErr(record.Create(ctx, e.Store, catalog.Group{ID: "g", Organization: "o"}, "m"))
		},
		"a hold by an agent": func() ([]table.Op, error) {
			return opsOf(e.Store, "m",
				func(tx *record.Tx) {
					of := lifecycle.Whose{Agent: bad}
					tx.ReferenceFiles(ctx, e.organization, of, e.run, []record.FileRef{{FileID: e.plain}})
				})
		},
		"an edit of a file": func() ([]table.Op, error) {
			return nil, estateErr(e.ChangeFile(ctx, e.scope(), e.plain,
				func(f *record.File) error { f.Name = bad; return nil }))
		},
		"a file that is put off": func() ([]table.Op, error) {
			return nil, e.RecheckFile(ctx, record.Fresh(file), e.now)
		},
	} {
		before := e.stored()
		_, err := write()
		require.ErrorIs(t, err, record.ErrUnstorable, name)
		assert.Equal(t, before, e.stored(), name)
	}
}

// counting counts the three tokens of a run in a status, of which some have been counted while it was running.
func counting(status lifecycle.Status, open int64, writes ...string) estateOperation {
	return estateOperation{writes: writes, ready: func(e *estate) func(ctx context.Context) error {
		run := e.runOf(e.run).Run
		run.Status, run.Usage.InputTokens, run.Counting.Open = status, 3, open
		return func(ctx context.Context) error {
			after := run
			return committed(ctx, e.Store, "m", func(tx *record.Tx) { tx.CountTokens(ctx, &after) })
		}
	}}
}
