package record_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/proof/faulttable"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
	"agentplatform/internal/store/table/memtable"
)

// estateKeeps checks the rules for every kind of resource. It is read back whole, within its organization only, and is
// changed and deleted only as it was read.
func estateKeeps[T record.Resourceful](t *testing.T, kind string, edit func(v *T)) {
	ctx, e := t.Context(), newEstate(t)
	v := estateFilled[T]()
	other := v
	edit(&other)
	id := record.IDOf(v)
	scope := record.Of(id) // an organization owns itself
	if owner := reflect.ValueOf(v).FieldByName("Organization"); owner.IsValid() {
		scope = record.Of(owner.String())
	}
	_, err := record.Resource[T](ctx, e.Store, scope, id)
	require.True(t, problem.Is(err, "not_found"), "%s: %v", kind, err)
	require.ErrorContains(t, err, kind+" "+id)
	before := len(e.stored())
	created, err := record.Create(ctx, e.Store, v, "m")
	require.NoError(t, err)
	assert.Equal(t, before+1, len(e.stored()))

	read, err := record.Resource[T](ctx, e.Store, scope, id)
	require.NoError(t, err)
	assert.Equal(t, v, read.Value, kind)
	assert.Equal(t, []any{int64(1), int64(1)}, []any{created.Version(), read.Version()})
	assert.True(t, created.WrittenBy("m") && read.WrittenBy("m"))
	_, err = record.Resource[T](ctx, e.Store, record.System(), id)
	require.NoError(t, err)
	known := func(is record.Entity[T]) {
		for range 2 { // the second time it is not decoded
			again, err := record.Resource[T](ctx, e.Cached(), scope, id)
			require.NoError(t, err)
			assert.Equal(t, is, again)
		}
	}
	known(read)
	for _, outsider := range []record.Scope{record.Of("another"), record.Of(""), record.Of(record.NoOrganization)} {
		_, err = record.Resource[T](ctx, e.Store, outsider, id)
		assert.True(t, problem.Is(err, "outside_organization"), "%s: %v", kind, err)
	}

	for reader, want := range map[record.Scope][]string{scope: {id}, record.System(): {id}, record.Of("another"): nil} {
		for _, ids := range [][]string{{id}, {"nothing", id}, {id, id}} {
			there, err := record.Existing[T](ctx, e.Store, reader, ids)
			require.NoError(t, err)
			assert.Equal(t, want, there, kind)
		}
	}
	calls := e.calls
	there, err := record.Existing[T](ctx, e.Store, scope, nil)
	require.NoError(t, err)
	assert.Empty(t, there)
	assert.Equal(t, calls, e.calls, "nothing is asked of nobody")

	_, err = record.Create(ctx, e.Store, v, "again")
	require.ErrorIs(t, err, record.ErrConflict, "an id is one thing's")
	require.NoError(t, committed(ctx, e.Store, "look", func(tx *record.Tx) { record.Unchanged(tx, read) }))
	_, err = record.Change(ctx, e.Store, scope, id, 0, func(v *T, _ *record.Tx) error {
		edit(v)
		return nil
	})
	require.NoError(t, err)
	changed, err := record.Resource[T](ctx, e.Store, scope, id)
	require.NoError(t, err)
	assert.Equal(t, other, changed.Value)
	known(changed)
	require.ErrorIs(t, committed(ctx, e.Store, "look", func(tx *record.Tx) { record.Unchanged(tx, read) }),
		record.ErrConflict)
	require.ErrorIs(t, committed(ctx, e.Store, "gone", func(tx *record.Tx) { record.DeleteResource(tx, read) }),
		record.ErrConflict)
	require.NoError(t, committed(ctx, e.Store, "gone", func(tx *record.Tx) { record.DeleteResource(tx, changed) }))
	assert.Equal(t, before, len(e.stored()))
}

func TestResourceOfEachKindIsReadAsWritten(t *testing.T) {
	estateKeeps(t, "organization", func(o *catalog.Organization) { o.Budget = nil })
	estateKeeps(t, "user", func(u *catalog.User) { u.Cap = 99 })
	estateKeeps(t, "group", func(g *catalog.Group) { g.Budget = nil })
	estateKeeps(t, "api_key", func(k *catalog.APIKey) { k.Hash = "" })
	estateKeeps(t, "key_pointer", func(p *catalog.KeyPointer) { p.KeyID = "" })
	estateKeeps(t, "email", func(e *catalog.Email) { e.UserID = "" })
	estateKeeps(t, "agent", func(a *catalog.Agent) { a.Spec.CanAsk = false })
	estateKeeps(t, "removed_agent", func(*catalog.RemovedAgent) {})
	estateKeeps(t, "tool_names", func(n *catalog.ToolNames) { n.Agents = map[string]string{} })
	estateKeeps(t, "toolkit", func(k *catalog.Toolkit) { k.Origins = nil })
	estateKeeps(t, "knowledge_base", func(b *catalog.KnowledgeBase) { b.Description = "" })
	estateKeeps(t, "document", func(d *catalog.Document) { d.Metadata = nil })
	estateKeeps(t, "content", func(c *catalog.Content) { c.Document = "" })
	estateKeeps(t, "file", func(f *record.File) { f.References = 0 })
	estateKeeps(t, "audit", func(a *record.AuditEntry) { a.Changed = nil })
}

// A thing within another thing is listed there and not by its organization.
func TestResourcesWithinAThingAreListedThere(t *testing.T) {
	ctx, e := t.Context(), newEstate(t)
	var ids []string
	for _, base := range []string{"one", "two", "one"} {
		d := catalog.Document{ID: e.NewID(), Organization: e.organization, KnowledgeBase: base}
		ids = append(ids, d.ID)
		e.must("seed", func(tx *record.Tx) { record.PutResource(tx, record.Fresh(d)) })
	}
	list := func(scope record.Scope, within, after string, limit int) (found []string, next string) {
		page, err := record.ResourcesWithin[catalog.Document](ctx, e.Store, scope, within, after, limit)
		require.NoError(t, err)
		for _, row := range page.Rows {
			found = append(found, row.Value.ID)
		}
		return found, page.Next
	}
	of := record.Of(e.organization)
	all, next := list(of, "one", "", 10)
	assert.Equal(t, []any{[]string{ids[2], ids[0]}, ""}, []any{all, next})
	first, next := list(of, "one", "", 1)
	assert.Equal(t, ids[2:], first)
	second, _ := list(of, "one", next, 1)
	assert.Equal(t, ids[:1], second)
	others, _ := list(record.Of("another"), "one", "", 10)
	assert.Empty(t, others)
	page, err := record.Resources[catalog.Document](ctx, e.Store, of, "", 10)
	require.NoError(t, err)
	assert.Empty(t, page.Rows)

	found, err := record.Several[catalog.Document](ctx, e.Store, of, []string{ids[0], "nothing", ids[1]})
	require.NoError(t, err)
	assert.Equal(t, []string{"one", "two"}, []string{found[ids[0]].Value.KnowledgeBase,
		found[ids[1]].Value.KnowledgeBase})
	assert.Len(t, found, 2)
	found, err = record.Several[catalog.Document](ctx, e.Store, record.Of("another"), ids)
	require.NoError(t, err)
	assert.Empty(t, found)
}

// Resources are listed newest first, each once; those of other organizations are not listed, and organizations are
// listed together.
func TestResourcesAreListedInTheirOrganization(t *testing.T) {
	ctx, e := t.Context(), newEstate(t)
	want := []string{e.user}
	for range 4 {
		u := catalog.User{ID: e.NewID(), Organization: e.organization}
		want = append([]string{u.ID}, want...)
		e.must("seed", func(tx *record.Tx) { record.PutResource(tx, record.Fresh(u)) })
		e.must("seed", func(tx *record.Tx) {
			record.PutResource(tx, record.Fresh(catalog.User{ID: e.NewID(), Organization: "another"}))
		})
	}
	for limit := 1; limit < 7; limit++ {
		var got []string
		for after, pages := "", 1; pages < 10; pages++ {
			page, err := record.Resources[catalog.User](ctx, e.Store, e.scope(), after, limit)
			require.NoError(t, err)
			for _, u := range page.Rows {
				got = append(got, u.Value.ID)
			}
			if after = page.Next; after == "" {
				assert.Equal(t, (len(want)+limit-1)/limit, pages, "in pages of %d", limit)
				break
			}
		}
		assert.Equal(t, want, got, "in pages of %d", limit)
	}
	e.must("seed", func(tx *record.Tx) { record.PutResource(tx, record.Fresh(catalog.Organization{ID: "another"})) })
	all, err := record.Resources[catalog.Organization](ctx, e.Store, record.System(), "", 9)
	require.NoError(t, err)
	assert.Len(t, all.Rows, 2)
}

// Files are the only resources that are due.
func TestOnlyFilesAreDue(t *testing.T) {
	e := newEstate(t)
	f := estateFilled[record.File]()
	e.must("seed", func(tx *record.Tx) { record.PutResource(tx, record.Fresh(f)) })
	key := table.Key{Part: "file/" + f.ID, Sort: "head"}
	for until, want := range map[time.Time]int{f.Due: 1, f.Due.Add(-time.Second): 0} {
		due, err := e.Due(t.Context(), key.Shard(), until, 99)
		require.NoError(t, err)
		assert.Len(t, slices.DeleteFunc(due, func(d record.DueItem) bool {
			return d != record.DueItem{Kind: "file", ID: f.ID, Position: "head"}
		}), want)
	}
}

// A job is due until it is done, and ends once.
func TestJobIsDueUntilDone(t *testing.T) {
	ctx, e := t.Context(), newEstate(t)
	_, found, err := e.Job(ctx, "text 1")
	require.NoError(t, err)
	assert.False(t, found)
	job := estateFilled[record.Job]()
	e.must("seed", func(tx *record.Tx) { tx.PutJob(record.Fresh(job)) })
	read, found, err := e.Job(ctx, job.ID)
	require.NoError(t, err)
	assert.True(t, found)
	assert.Equal(t, job, read.Value)
	key := table.Key{Part: "job/" + job.ID, Sort: "head"}
	due, err := e.Due(ctx, key.Shard(), job.Due, 9)
	require.NoError(t, err)
	assert.True(t, slices.ContainsFunc(due, func(d record.DueItem) bool {
		return d == record.DueItem{Kind: "job", ID: job.ID, Position: "head"}
	}))

	next := read
	next.Value.Cursor, next.Value.Due = "further", job.Due.Add(time.Hour)
	e.must("further", func(tx *record.Tx) { tx.PutJob(next) })
	require.ErrorIs(t, committed(ctx, e.Store, "done", func(tx *record.Tx) { tx.DeleteJob(read) }), record.ErrConflict,
		"it has gone on since")
	read, _, err = e.Job(ctx, job.ID)
	require.NoError(t, err)
	assert.Equal(t, next.Value, read.Value)
	require.NoError(t, committed(ctx, e.Store, "done", func(tx *record.Tx) { tx.DeleteJob(read) }))
	_, found, err = e.Job(ctx, job.ID)
	require.NoError(t, err)
	assert.False(t, found)
}

// A deployment began with its first version, also one that signed run tokens; the secret that signed them is deleted.
func TestDeploymentKeepsItsFirstBegin(t *testing.T) {
	secret := record.EstateOldSecret.String()
	for name, c := range map[string]struct {
		old, began bool
		since      string
	}{
		"the first":                      {since: "2026-05-05T12:00:00Z"},
		"a later one":                    {began: true, since: "2026-05-05T12:00:00Z"},
		"the first that signs nothing":   {old: true, since: "2025-01-02T03:04:05Z"},
		"one after which an older began": {old: true, began: true, since: "2026-05-05T12:00:00Z"},
	} {
		e := newEstate(t)
		if c.began {
			require.NoError(t, e.EnsureDeployment(t.Context()))
		}
		if c.old {
			e.oldSecret()
		}
		if c.began || c.old {
			e.now = e.now.Add(time.Hour)
		}
		require.NoError(t, e.EnsureDeployment(t.Context()), name)
		assert.Contains(t, e.stored()["deployment began"], c.since, name)
		assert.NotContains(t, e.stored(), secret, name)
		e.calls, e.commits = 0, nil
		require.NoError(t, e.EnsureDeployment(t.Context()), name)
		assert.Empty(t, e.commits, "%s: nothing is left to write", name)
	}
}

// A process without the right to write starts when the begin is stored already, and fails when it is not.
func TestKnownDeploymentNeedsNoWrite(t *testing.T) {
	memory := memtable.New(time.Now)
	h := newEstate(t).estateHost
	h.now = time.Now()
	readOnly := &faulttable.Table{Inner: memory, Before: func(c faulttable.Call) faulttable.Fault {
		if c.Commit {
			return faulttable.Down
		}
		return faulttable.None
	}}
	limited, able := record.New(readOnly, nil, h), record.New(memory, nil, h)
	require.True(t, problem.Is(limited.EnsureDeployment(t.Context()), "unavailable"))
	require.NoError(t, able.EnsureDeployment(t.Context()))
	secret := table.Item{Key: record.EstateOldSecret, Owner: record.NoOrganization, Body: []byte("{}")}
	require.NoError(t, memory.Commit(t.Context(), "seed", table.Put(secret, table.Absent())))
	require.NoError(t, limited.EnsureDeployment(t.Context()))
	items, err := memory.Get(t.Context(), secret.Key)
	require.NoError(t, err)
	require.NotNil(t, items[0])
	require.NoError(t, able.EnsureDeployment(t.Context()))
	items, err = memory.Get(t.Context(), secret.Key)
	require.NoError(t, err)
	assert.Nil(t, items[0])
}

// A process that may only read does not try to write. It writes neither at its start, nor the use of a key, nor
// anything else.
func TestAReadOnlyStoreNeverWrites(t *testing.T) {
	memory := memtable.New(time.Now)
	h := newEstate(t).estateHost
	h.now = time.Now()
	commits := 0
	denied := &faulttable.Table{Inner: memory, Before: func(c faulttable.Call) faulttable.Fault {
		if c.Commit {
			commits++
			return faulttable.Down
		}
		return faulttable.None
	}}
	reader, writer := record.New(denied, nil, h).ReadOnly(), record.New(memory, nil, h)
	require.NoError(t, reader.EnsureDeployment(t.Context()), "an empty store")
	key := catalog.APIKey{ID: h.NewID(), Organization: h.NewID()}
	reader.NoteUse(t.Context(), key, h.Now())
	tx := reader.Begin(h.NewID())
	tx.PutJob(record.Fresh(record.Job{ID: h.NewID(), Organization: key.Organization}))
	require.ErrorContains(t, tx.Commit(t.Context()), "only read")
	require.NoError(t, writer.EnsureDeployment(t.Context()))
	require.NoError(t, reader.EnsureDeployment(t.Context()), "a store that others have begun")
	assert.Zero(t, commits)
	denied.Before = func(faulttable.Call) faulttable.Fault { return faulttable.Down } // of reads, too
	require.True(t, problem.Is(reader.EnsureDeployment(t.Context()), "unavailable"))
}

// Of two processes that start at the same time, one stores the begin. A process that always meets conflicts gives up
// with an error.
func TestEndlessConflictsAtTheBeginGiveUp(t *testing.T) {
	e := newEstate(t)
	e.oldSecret()
	commits := 0
	e.before = func([]table.Op) {
		commits++
		e.touch(record.EstateOldSecret)
	}
	require.True(t, problem.Is(e.EnsureDeployment(t.Context()), "unavailable"))
	assert.Equal(t, 3, commits)
	assert.NotContains(t, strings.Join(e.keys(), " "), "began")
}
