package record_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/share"
	"agentplatform/internal/store/blob"
	"agentplatform/internal/store/blob/memblob"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
	"agentplatform/internal/store/table/memtable"
)

// estate is a store with one of everything of an organization, and a host whose clock stands still.
type estate struct {
	*testing.T
	*record.Store
	*estateHost

	memory *memtable.Table
	blobs  *memblob.Store
	names  []string // pairs of an id and its name in expectations

	organization, user, group string
	agent, gone               string // two versions of each
	key, toolkit              string
	run, parked               string
	plain, held, empty        string // files: unused, held by run and parked message, without bytes
	list                      string // the blob key of the toolkit's list of tools

	calls   int
	failAt  int                        // the number of the call that fails with all its repetitions; 0: none
	failing string                     // that call
	tamper  func(n int, i *table.Item) // called with a copy of each item, which is what is read
	before  func(ops []table.Op)       // called before each commit
	commits [][]table.Op               // the commits that were made
	queries []table.Range              // the ranges of queries
	read    int                        // how many items were read
	freed   []string                   // whose blobs were deleted
}

type estateHost struct {
	host.Host

	now   time.Time
	ids   host.Sequence
	n     uint64
	waits []time.Duration // the requested timeouts
}

func (h *estateHost) Now() time.Time { return h.now }

func (h *estateHost) Sleep(ctx context.Context, _ time.Duration) error { return ctx.Err() }

func (h *estateHost) WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	h.waits = append(h.waits, d)
	return context.WithCancel(ctx)
}

func (h *estateHost) NewID() string {
	h.n++
	return h.ids.Next(h.now, h.n)
}

func (h *estateHost) Int64N(int64) int64 { return 0 }

func newEstate(t *testing.T) *estate {
	h := &estateHost{now: time.Date(2026, 5, 5, 12, 0, 0, 0, time.UTC)}
	e := &estate{T: t, estateHost: h, memory: memtable.New(h.Now), blobs: &memblob.Store{}}
	e.Store = record.New(estateTable{e}, estateBlobs{e}, h)
	ctx := t.Context()
	for _, name := range []struct {
		id   *string
		name string
	}{
		{&e.organization, "ORGANIZATION"}, {&e.user, "USER"}, {&e.group, "GROUP"}, {&e.key, "KEY"},
		{&e.agent, "AGENT"}, {&e.gone, "GONE"}, {&e.toolkit, "TOOLKIT"}, {&e.run, "RUN"}, {&e.parked, "PARKED"},
		{&e.plain, "PLAIN"}, {&e.held, "HELD"}, {&e.empty, "EMPTY"},
	} {
		*name.id = e.NewID()
		e.names = append(e.names, *name.id, name.name)
	}
	e.must("seed", func(tx *record.Tx) {
		record.PutResource(tx, record.Fresh(catalog.Organization{ID: e.organization, Name: "o"}))
	})
	e.must("seed", func(tx *record.Tx) {
		record.PutResource(tx, record.Fresh(catalog.User{ID: e.user, Organization: e.organization, Name: "u"}))
	})
	e.must("seed", func(tx *record.Tx) {
		record.PutResource(tx, record.Fresh(catalog.Group{ID: e.group, Organization: e.organization, Name: "g"}))
	})
	e.must("seed", func(tx *record.Tx) {
		record.PutResource(tx, record.Fresh(catalog.APIKey{ID: e.key, Organization: e.organization}))
	})
	e.NoteUse(ctx, catalog.APIKey{ID: e.key, Organization: e.organization}, e.now)
	for v := range 2 {
		for _, id := range []string{e.agent, e.gone} {
			e.must("seed", func(tx *record.Tx) {
				record.PutVersion(tx, catalog.Agent{ID: id, Organization: e.organization, Version: v + 1}, v+1)
			})
		}
	}
	e.must("seed", func(tx *record.Tx) {
		record.PutResource(tx, record.Fresh(catalog.Agent{ID: e.agent, Organization: e.organization, Version: 2}))
	})
	tx := e.Begin("seed")
	list := tx.PutBlob(ctx, e.kit(), "tools", []byte("[]"))
	require.NoError(t, tx.Err())
	e.list = list
	record.PutResource(tx, record.Fresh(e.kit()))
	require.NoError(t, tx.Commit(ctx))
	e.must("seed", func(tx *record.Tx) { tx.PutRun(record.Fresh(e.runOf(e.run))) })
	for _, id := range []string{e.plain, e.held, e.empty} {
		f := e.NewFile(e.organization, e.user, "a.txt", "text/plain")
		f.ID = id
		e.must("seed", func(tx *record.Tx) { record.PutResource(tx, record.Fresh(f)) })
		if id != e.empty {
			_, err := e.FillFile(ctx, e.scope(), id, strings.NewReader("bytes of "+id), 100)
			require.NoError(t, err)
		}
	}
	for _, id := range []string{e.run, e.parked} {
		require.NoError(t, e.addReferences(ctx, id, e.held))
	}
	e.calls, e.read, e.commits, e.waits = 0, 0, nil, nil
	return e
}

func (e *estate) must(writeID string, do func(tx *record.Tx)) {
	e.Helper()
	require.NoError(e, committed(e.Context(), e.Store, writeID, do))
}

func (e *estate) kit() catalog.Toolkit {
	return catalog.Toolkit{ID: e.toolkit, Organization: e.organization, Tools: e.list}
}

func (e *estate) scope() record.Scope { return record.Of(e.organization) }

func (e *estate) runOf(id string) record.Run {
	return record.Run{Run: lifecycle.Run{
		RunSpec: lifecycle.RunSpec{
			RunID: id, Organization: e.organization, User: e.user, Agent: e.agent, Chat: "c",
		},
		Counting: lifecycle.Counting{Budgets: []lifecycle.Budget{
			{Name: "user/u/2026-05", MaxTokens: 9}, {Name: "agent/a/2026-05-05", MaxTokens: 9},
		}},
	}}
}

func (e *estate) addReferences(ctx context.Context, run string, files ...string) error {
	var refs []record.FileRef
	for _, id := range files {
		refs = append(refs, record.FileRef{FileID: id})
	}
	move := e.NewID()
	of := lifecycle.Whose{Agent: e.agent}
	return committed(ctx, e.Store, move, func(tx *record.Tx) { tx.ReferenceFiles(ctx, e.organization, of, run, refs) })
}

// file returns the description of a file, also of one that is being deleted.
func (e *estate) file(id string) record.File { return e.fileEntity(id).Value }

func (e *estate) fileEntity(id string) record.Entity[record.File] {
	e.Helper()
	f, err := record.Resource[record.File](e.Context(), e.Store, record.System(), id)
	require.NoError(e, err)
	return f
}

var errAway = errors.New("away")

// meets counts a call and reports whether it succeeds. The one that is to fail fails with all its repetitions.
func (e *estate) meets(call string) error {
	if call == e.failing {
		return errAway
	}
	e.calls++
	if e.calls != e.failAt {
		return nil
	}
	e.failing = call
	return errAway
}

// estateTable is the table of an estate.
type estateTable struct{ e *estate }

func (t estateTable) reading(call string) error {
	if err := t.e.meets(call); err != nil {
		return &table.Error{Kind: table.Down, Err: err}
	}
	return nil
}

func (t estateTable) show(items []*table.Item) {
	for n, i := range items {
		if i == nil {
			continue
		}
		t.e.read++
		if t.e.tamper != nil {
			own := *i
			t.e.tamper(t.e.read, &own)
			items[n] = &own
		}
	}
}

func (t estateTable) Get(ctx context.Context, keys ...table.Key) ([]*table.Item, error) {
	if err := t.reading(fmt.Sprint("get ", keys)); err != nil {
		return nil, err
	}
	items, err := t.e.memory.Get(ctx, keys...)
	t.show(items)
	return items, err
}

func (t estateTable) Query(ctx context.Context, r table.Range) ([]*table.Item, error) {
	if err := t.reading(fmt.Sprint("query ", r)); err != nil {
		return nil, err
	}
	t.e.queries = append(t.e.queries, r)
	items, err := t.e.memory.Query(ctx, r)
	t.show(items)
	return items, err
}

func (t estateTable) List(ctx context.Context, index table.Index, r table.Range) ([]table.Entry, error) {
	if err := t.reading(fmt.Sprint("list ", r)); err != nil {
		return nil, err
	}
	return t.e.memory.List(ctx, index, r)
}

func (t estateTable) Due(ctx context.Context, shard int, until time.Time, limit int) ([]table.Entry, error) {
	return t.e.memory.Due(ctx, shard, until, limit)
}

func (t estateTable) Commit(ctx context.Context, token string, ops ...table.Op) error {
	if err := t.reading("commit " + token); err != nil {
		return err
	}
	if t.e.before != nil {
		t.e.before(ops)
	}
	t.e.commits = append(t.e.commits, ops)
	return t.e.memory.Commit(ctx, token, ops...)
}

// estateBlobs is the blob store of an estate.
type estateBlobs struct{ e *estate }

func (b estateBlobs) Put(ctx context.Context, key string, r io.Reader, limit int64) (int64, error) {
	if err := b.e.meets("put " + key); err != nil {
		return 0, err
	}
	return b.e.blobs.Put(ctx, key, r, limit)
}

func (b estateBlobs) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	if err := b.e.meets("open " + key); err != nil {
		return nil, err
	}
	return b.e.blobs.Get(ctx, key)
}

func (b estateBlobs) Delete(ctx context.Context, key string) error {
	if err := b.e.meets("delete " + key); err != nil {
		return err
	}
	b.e.freed = append(b.e.freed, share.Of(ctx).Organization)
	return b.e.blobs.Delete(ctx, key)
}

func (b estateBlobs) DeleteAll(ctx context.Context, below string) error {
	if err := b.e.meets("delete all " + below); err != nil {
		return err
	}
	b.e.freed = append(b.e.freed, share.Of(ctx).Organization)
	return b.e.blobs.DeleteAll(ctx, below)
}

var (
	_ table.Table = estateTable{}
	_ blob.Store  = estateBlobs{}
)

// stored returns all that is stored: items in words, and the keys of blobs.
func (e *estate) stored() map[string]string {
	all := map[string]string{}
	e.memory.All(func(i *table.Item) {
		all[i.String()] = fmt.Sprint(i.Owner, i.Version, i.WriteID, i.Schema, i.Due, i.Expires, i.Lists, string(i.Body))
	})
	for _, key := range e.blobs.Keys() {
		all["blob "+key] = ""
	}
	return all
}

// keys returns the keys of the stored items, in words.
func (e *estate) keys() (keys []string) {
	e.memory.All(func(i *table.Item) { keys = append(keys, e.inWords(i.String())) })
	for _, key := range e.blobs.Keys() {
		keys = append(keys, e.inWords("blob "+key))
	}
	slices.Sort(keys)
	return keys
}

var estateID = regexp.MustCompile(`[0-9a-f]{24}`)

// inWords replaces ids of an estate's things by names.
func (e *estate) inWords(text string) string {
	return estateID.ReplaceAllString(strings.NewReplacer(e.names...).Replace(text), "*")
}

// written describes the writes of the commits, in words: "+" for new items, "~" for changed and "-" for deleted ones as
// they were read. "?" marks items that must still be as they were read, a leading "!" writes without a condition.
func (e *estate) written() (lines []string) {
	for _, ops := range e.commits {
		for _, op := range ops {
			sign := map[table.OpKind]string{table.PutOp: "~", table.DeleteOp: "-", table.CheckOp: "?"}[op.Kind]
			switch _, asks := op.If.Version(); {
			case asks:
			case op.If == table.Always():
				sign = "!" + sign
			case op.Kind == table.PutOp:
				sign = "+"
			}
			lines = append(lines, sign+e.inWords(op.Item.String()))
		}
	}
	return lines
}

// touch writes an item again as it is, as another writer might; one that does not exist is created.
func (e *estate) touch(key table.Key) {
	items, err := e.memory.Get(e.Context(), key)
	require.NoError(e, err)
	item, cond := table.Item{Key: key, Owner: e.organization, Schema: 1, Body: []byte("{}")}, table.Absent()
	if items[0] != nil {
		item, cond = *items[0], table.VersionIs(items[0].Version)
	}
	item.WriteID = "another's"
	require.NoError(e, e.memory.Commit(e.Context(), item.WriteID, table.Put(item, cond)))
}

// estateFilled is a value with something in every field.
func estateFilled[T any]() T {
	var v T
	n := 0
	estateFill(reflect.ValueOf(&v).Elem(), &n)
	return v
}

func estateFill(v reflect.Value, n *int) {
	*n++
	if _, is := v.Interface().(time.Time); is {
		v.Set(reflect.ValueOf(time.Date(2026, 5, 5, 12, 0, *n, 0, time.UTC)))
		return
	}
	if v.Type().String() == "json.RawMessage" || v.Type().String() == "jsontext.Value" {
		v.SetBytes(fmt.Appendf(nil, `{"n":%d}`, *n))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprint("text ", *n))
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Float64:
		v.SetFloat(float64(*n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		estateFill(v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			estateFill(v.Index(i), n)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		value := reflect.New(v.Type().Elem()).Elem()
		estateFill(value, n)
		v.SetMapIndex(reflect.ValueOf("a"), value)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				estateFill(v.Field(i), n)
			}
		}
	default:
		panic(v.Type().String())
	}
}
