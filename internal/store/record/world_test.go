package record_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/proof/faulttable"
	"agentplatform/internal/store/blob"
	"agentplatform/internal/store/blob/memblob"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
	"agentplatform/internal/store/table/memtable"
)

// runHost is a deterministic host: its clock stands still, and it does not wait.
type runHost struct {
	host.Host

	now   time.Time
	ids   uint64
	draw  func(n int64) int64
	slept []time.Duration
	given []time.Duration // the requested timeouts
}

func (h *runHost) Now() time.Time { return h.now }

func (h *runHost) Sleep(ctx context.Context, d time.Duration) error {
	h.slept = append(h.slept, d)
	return ctx.Err()
}

func (h *runHost) WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	h.given = append(h.given, d)
	return h.Host.WithTimeout(ctx, d)
}

func (h *runHost) NewID() string {
	h.ids++
	return host.FormatID(h.now, h.ids)
}

func (h *runHost) Int64N(n int64) int64 { return h.draw(n) }

// runBlobs is a blob store that fails when a test wants it to.
type runBlobs struct {
	memblob.Store

	before func(call string) error
}

func (b *runBlobs) meet(call string) error {
	if b.before == nil {
		return nil
	}
	return b.before(call)
}

func (b *runBlobs) Put(ctx context.Context, key string, r io.Reader, limit int64) (int64, error) {
	if err := b.meet("put"); err != nil {
		return 0, err
	}
	return b.Store.Put(ctx, key, r, limit)
}

func (b *runBlobs) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	if err := b.meet("get"); err != nil {
		return nil, err
	}
	return b.Store.Get(ctx, key)
}

func (b *runBlobs) DeleteAll(ctx context.Context, below string) error {
	if err := b.meet("delete"); err != nil {
		return err
	}
	return b.Store.DeleteAll(ctx, below)
}

// runDamage is a table in which an item cannot be read.
type runDamage struct {
	table.Table

	at   table.Key
	body []byte
	read map[table.Key]bool // which items were read
}

func (d *runDamage) damaged(items []*table.Item, err error) ([]*table.Item, error) {
	for i, item := range items {
		if item == nil {
			continue
		}
		if d.read[item.Key] = true; item.Key == d.at {
			damaged := *item
			damaged.Body = d.body
			items[i] = &damaged
		}
	}
	return items, err
}

func (d *runDamage) Get(ctx context.Context, keys ...table.Key) ([]*table.Item, error) {
	return d.damaged(d.Table.Get(ctx, keys...))
}

func (d *runDamage) Query(ctx context.Context, r table.Range) ([]*table.Item, error) {
	return d.damaged(d.Table.Query(ctx, r))
}

// runLag is a table in which an item that is still listed was deleted, or belongs to another owner.
type runLag struct {
	table.Table

	at    table.Key
	owner string
}

// Get reads items.
func (l *runLag) Get(ctx context.Context, keys ...table.Key) ([]*table.Item, error) {
	items, err := l.Table.Get(ctx, keys...)
	for i, item := range items {
		switch {
		case item == nil || item.Key != l.at:
		case l.owner == "":
			items[i] = nil
		default:
			others := *item
			others.Owner = l.owner
			items[i] = &others
		}
	}
	return items, err
}

// runWorld is a store with an ended run that has one of everything.
type runWorld struct {
	*record.Store

	t      *testing.T
	host   *runHost
	memory *memtable.Table
	items  *faulttable.Table
	blobs  *runBlobs

	head    record.RunEntity
	id      string
	parked  []string // messages that are deleted with the run: a small one, a large one
	waiting string   // a parked message
	foreign string   // a delivery of another organization
}

// runBlank is an empty store.
func runBlank(t *testing.T) *runWorld {
	h := &runHost{Host: host.System(), now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	h.draw = func(n int64) int64 { return n - 1 }
	w := &runWorld{t: t, host: h, memory: memtable.New(h.Now), blobs: &runBlobs{}}
	w.items = &faulttable.Table{Inner: w.memory, Sleep: h.Sleep}
	w.Store = record.New(w.items, w.blobs, h)
	return w
}

var (
	runLarge  = strings.Repeat("x", 9<<10)
	runOutput = json.RawMessage(`{"answer":"one two ` + runLarge + `","finish_reason":"stop"}`)
)

var runTemplate *runWorld

// newRunWorld returns a prepared world of the test's own.
func newRunWorld(t *testing.T) *runWorld {
	if runTemplate == nil {
		runTemplate = runFurnished(t)
	}
	from, w := runTemplate, runBlank(t)
	w.memory = from.memory.Copy(w.host.Now)
	w.items.Inner = w.memory
	w.host.ids = from.host.ids
	for _, key := range from.blobs.Keys() {
		b, err := blob.GetBytes(t.Context(), &from.blobs.Store, key)
		require.NoError(t, err)
		require.NoError(t, blob.PutBytes(t.Context(), &w.blobs.Store, key, b))
	}
	w.head, w.id, w.parked, w.waiting, w.foreign = from.head, from.id, from.parked, from.waiting, from.foreign
	return w
}

func runFurnished(t *testing.T) *runWorld {
	w := runBlank(t)
	w.id = w.host.NewID()
	w.parked = []string{w.host.NewID(), w.host.NewID()}
	w.waiting = w.host.NewID()
	r := record.Run{
		Run: lifecycle.Run{
			RunSpec: lifecycle.RunSpec{
				RunID: w.id, Organization: "o", User: "u", Agent: "a", Chat: "c", OwnChatID: true, Callback: true,
			},
			Turn: 1, Status: lifecycle.Completed, Attempt: 2, Steps: 4, Pause: 2,
			Usage: lifecycle.Usage{InputTokens: 30, OutputTokens: 40}, FinishedAt: w.host.now.Add(time.Minute),
		},
		Dropped: w.parked,
	}
	chat := lifecycle.Chat{ID: "c", OwnID: true, Organization: "o", Turn: 1, LastRun: w.id, CreatedAt: w.host.now}
	w.must("chat", func(tx *record.Tx) { tx.PutChat(record.Fresh(chat)) })
	w.message(w.id, "k", runLarge)
	w.message(w.parked[0], "k1", "small")
	w.message(w.parked[1], "k2", runLarge)
	w.message(w.waiting, "k3", runLarge)
	w.file(w.id, "f1")
	w.file(w.parked[0], "f2")
	for n, step := range []record.Step{
		{Kind: record.ModelStep, Text: "one ", InputTokens: 10, OutputTokens: 10, Calls: []record.Call{{ID: "1"}}},
		{Kind: record.ToolStep, Output: "small"},
		{Kind: record.ToolStep, Output: runLarge, FinishedAt: w.host.now.Add(time.Second)},
	} {
		step.Index = n
		w.must("step", func(tx *record.Tx) { tx.PutStep(t.Context(), r, step) })
	}
	for n := range 2 {
		id := string(rune('i' + n))
		var interrupt record.Interrupt
		interrupt.ID = id
		w.must("pause", func(tx *record.Tx) { tx.PutPause(t.Context(), r, n+1, []record.Interrupt{interrupt}) })
		name := record.IdempotencyName("o", "u", "decision "+id)
		w.named(name, record.Idempotency{Outcome: record.AnsweredPause, RunID: w.id})
		w.must("decided", func(tx *record.Tx) {
			tx.PutDecisions(t.Context(), r, n+1, record.Decisions{
				List: []record.Decision{{InterruptID: id, Decision: "approve"}}, Idempotency: name,
			})
		})
	}
	ops, err := opsOf(w.Store, "output", func(tx *record.Tx) { tx.SetOutput(t.Context(), &r, runOutput) })
	require.NoError(t, err)
	w.commit(ops...)
	w.must("head", func(tx *record.Tx) { tx.PutRun(record.Fresh(r)) })
	for n, body := range []string{"small", runLarge} {
		w.must("hook", func(tx *record.Tx) {
			tx.NewDelivery(t.Context(), record.Delivery{
				DeliveryID: record.DeliveryID(w.id, n+1), Organization: "o", RunID: w.id, Sequence: n + 1, Body: body,
				State: record.DeliveryPending,
			})
		})
	}
	other := w.host.NewID()
	w.foreign = record.DeliveryID(other, 1)
	foreign := record.Delivery{DeliveryID: w.foreign, Organization: "another", RunID: other, Sequence: 1}
	w.must("hook", func(tx *record.Tx) { tx.NewDelivery(t.Context(), foreign) })
	w.must("group", func(tx *record.Tx) {
		record.PutResource(tx, record.Fresh(catalog.Group{ID: "g", Organization: "o", Name: "before"}))
	})
	slots, err := opsOf(w.Store, "slots", func(tx *record.Tx) {
		tx.MoveSlots(lifecycle.Run{}, lifecycle.Run{
			RunSpec: lifecycle.RunSpec{RunID: "active", Organization: "o", User: "u"},
			Slots:   lifecycle.Slots{User: "1", Organization: "1"},
		})
	})
	require.NoError(t, err)
	w.commit(slots...)
	w.head, err = w.Run(t.Context(), record.Of("o"), w.id)
	require.NoError(t, err)
	return w
}

func (w *runWorld) ctx() context.Context { return w.t.Context() }

// must commits a unit of work.
func (w *runWorld) must(writeID string, do func(tx *record.Tx)) {
	w.t.Helper()
	require.NoError(w.t, committed(w.t.Context(), w.Store, writeID, do))
}

func (w *runWorld) commit(ops ...table.Op) {
	w.t.Helper()
	require.NoError(w.t, commitOps(w.t.Context(), w.Store, w.host.NewID(), ops...))
}

// committed returns the error of a unit of work's commit.
func committed(ctx context.Context, s *record.Store, writeID string, do func(tx *record.Tx)) error {
	tx := s.Begin(writeID)
	do(tx)
	return tx.Commit(ctx)
}

// opsOf returns the writes of a unit of work.
func opsOf(s *record.Store, writeID string, do func(tx *record.Tx)) ([]table.Op, error) {
	tx := s.Begin(writeID)
	do(tx)
	if tx.Err() != nil {
		return nil, tx.Err()
	}
	return tx.Ops(), nil
}

// opOf returns the only write of a unit of work; of a new run the head.
func opOf(s *record.Store, writeID string, do func(tx *record.Tx)) (op table.Op, err error) {
	ops, err := opsOf(s, writeID, do)
	if err == nil {
		op = ops[len(ops)-1]
	}
	return op, err
}

// commitOps commits writes, as many as there are.
func commitOps(ctx context.Context, s *record.Store, writeID string, ops ...table.Op) error {
	return committed(ctx, s, writeID, func(tx *record.Tx) { tx.Add(ops...) })
}

// named stores the outcome of a request with a key.
func (w *runWorld) named(name string, i record.Idempotency) {
	w.t.Helper()
	w.must("named", func(tx *record.Tx) { tx.PutIdempotency("o", name, i, record.Idempotency{}) })
}

// message stores a request under a run's id, and the outcome of its key.
func (w *runWorld) message(id, key, text string) {
	w.t.Helper()
	name := record.IdempotencyName("o", "u", key)
	w.named(name, record.Idempotency{Outcome: record.ParkedMessage, Parked: id})
	spec := lifecycle.RunSpec{RunID: id, Organization: "o", User: "u", Chat: "c"}
	ops, err := opsOf(w.Store, "input", func(tx *record.Tx) {
		tx.PutInput(w.t.Context(), spec, record.Input{Message: text, Idempotency: name}, w.host.now)
	})
	require.NoError(w.t, err)
	w.commit(ops...)
}

// file stores a file that a run holds.
func (w *runWorld) file(run, id string) {
	w.t.Helper()
	f := record.File{ID: id, Organization: "o", Uploaded: true, Due: w.host.now.Add(time.Hour)}
	w.must("file", func(tx *record.Tx) { record.PutResource(tx, record.Fresh(f)) })
	ops, err := opsOf(w.Store, "hold",
		func(tx *record.Tx) {
			tx.ReferenceFiles(w.t.Context(), "o", lifecycle.Whose{Agent: "a"}, run, []record.FileRef{f.Ref()})
		})
	require.NoError(w.t, err)
	w.commit(ops...)
}

// stored returns all items and the keys of all blobs.
func (w *runWorld) stored() (items map[table.Key]table.Item, values []string) {
	items = map[table.Key]table.Item{}
	w.memory.All(func(i *table.Item) { items[i.Key] = *i })
	return items, w.blobs.Keys()
}

// keys returns the keys of all items.
func (w *runWorld) keys() map[table.Key]bool {
	keys := map[table.Key]bool{}
	w.memory.All(func(i *table.Item) { keys[i.Key] = true })
	return keys
}

func runCode(err error) string {
	if p, ok := problem.As(err); ok {
		return p.Code
	}
	return ""
}

var errRunBlob = errors.New("the store of large values is down")

// runFill sets every field of a value, each to a different value.
func runFill[T any](t *testing.T) (v T) {
	n := 0
	runFillAt(t, reflect.ValueOf(&v).Elem(), &n)
	return v
}

func runFillAt(t *testing.T, v reflect.Value, n *int) {
	*n++
	switch at := v.Addr().Interface().(type) {
	case *time.Time:
		*at = time.Date(2026, 1, 1, 0, 0, *n, 0, time.UTC)
		return
	case *json.RawMessage:
		*at = json.RawMessage(`{"n":` + string(rune('0'+*n%10)) + `}`)
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("text " + string(rune('a'+*n%26)) + string(rune('a'+*n/26)))
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Float64:
		v.SetFloat(float64(*n) / 4)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		runFillAt(t, v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		runFillAt(t, v.Index(0), n)
		runFillAt(t, v.Index(1), n)
	case reflect.Array:
		for i := range v.Len() {
			runFillAt(t, v.Index(i), n)
		}
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"a": "b"}))
	case reflect.Struct:
		for i := range v.NumField() {
			runFillAt(t, v.Field(i), n)
		}
	default:
		t.Fatalf("what is a %s filled with?", v.Type())
	}
}

var _ blob.Store = (*runBlobs)(nil)
