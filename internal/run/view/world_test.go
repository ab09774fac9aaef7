package view_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentplatform/events"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/run/view"
	"agentplatform/internal/store/blob/memblob"
	"agentplatform/internal/store/citation"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
	"agentplatform/internal/store/table/memtable"
)

// noon is not in UTC and finer than a millisecond, so that a view has something to convert.
var noon = time.Date(2026, 3, 1, 14, 0, 5, 678_900_000, time.FixedZone("", 2*60*60))

// atNoon is noon plus some seconds, up to 54, in the API's format.
func atNoon(seconds int) string {
	return time.Date(2026, 3, 1, 12, 0, 5+seconds, 0, time.UTC).Format("2006-01-02T15:04:05") + ".678Z"
}

func later(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

// still is a host with a constant clock that does not wait.
type still struct{ host.Host }

func (still) Now() time.Time { return noon }

func (still) Sleep(ctx context.Context, _ time.Duration) error { return ctx.Err() }

var errBroken = errors.New("an item that cannot be read")

// breakable is a table in which items can be made unreadable.
type breakable struct {
	table.Table

	broken string // prefix of their keys, written part/sort; empty: none
}

func (b *breakable) fails(k table.Key) bool {
	return b.broken != "" && strings.HasPrefix(k.Part+"/"+k.Sort, b.broken)
}

func (b *breakable) Get(ctx context.Context, keys ...table.Key) ([]*table.Item, error) {
	for _, k := range keys {
		if b.fails(k) {
			return nil, errBroken
		}
	}
	return b.Table.Get(ctx, keys...)
}

// world is a store in memory. The organization is "o", the agent of its runs "a".
type world struct {
	*record.Store

	t      *testing.T
	items  *breakable
	blobs  *memblob.Store
	writes int
}

func newWorld(t *testing.T) *world {
	h := still{host.System()}
	w := &world{t: t, items: &breakable{Table: memtable.New(h.Now)}, blobs: &memblob.Store{}}
	w.Store = record.New(w.items, w.blobs, h)
	return w
}

func (w *world) commit(do func(tx *record.Tx)) {
	w.t.Helper()
	w.writes++
	tx := w.Begin(host.FormatID(noon, uint64(w.writes)))
	do(tx)
	require.NoError(w.t, tx.Commit(w.t.Context()))
}

// id is identifier n.
func id(n int) string { return host.FormatID(noon, 1000+uint64(n)) }

// head is a run of a status as it is after its acceptance, with a small input and without anything else.
func head(s lifecycle.Status) record.Run {
	return record.Run{
		Run: lifecycle.Run{
			RunSpec: lifecycle.RunSpec{
				RunID: id(0), Organization: "o", User: "u", APIKey: "k", Agent: "a", AgentVersion: 3, Chat: "c",
			},
			Turn: 5, Status: s, CreatedAt: noon, UpdatedAt: later(1),
		},
		Input: &record.Input{Message: "hello"},
	}
}

// store writes a run's head and reads it.
func (w *world) store(r record.Run) record.RunEntity {
	w.t.Helper()
	w.commit(func(tx *record.Tx) { tx.PutRun(record.Fresh(r)) })
	e, err := w.Run(w.t.Context(), record.Of("o"), r.ID())
	require.NoError(w.t, err)
	return e
}

// pause stores pause n of a run with one question.
func (w *world) pause(r record.Run, n int, question string) {
	w.t.Helper()
	interrupt := record.Interrupt{Interrupt: events.Interrupt{ID: id(n), Kind: "clarification", Prompt: question}}
	w.commit(func(tx *record.Tx) { tx.PutPause(w.t.Context(), r, n, []record.Interrupt{interrupt}) })
}

// park stores a message for an agent under the id of the run that it will become.
func (w *world) park(id, agent, text string, at time.Time) {
	w.t.Helper()
	spec := lifecycle.RunSpec{RunID: id, Organization: "o", User: "u", Agent: agent, Chat: "c", Waited: true}
	w.commit(func(tx *record.Tx) { tx.PutInput(w.t.Context(), spec, record.Input{Message: text}, at) })
}

// begin makes a run of a parked message.
func (w *world) begin(id string) {
	w.t.Helper()
	r := head(lifecycle.Queued)
	r.RunID, r.Input = id, nil
	w.store(r)
}

func (w *world) user(id, name string) {
	w.t.Helper()
	w.commit(func(tx *record.Tx) {
		record.PutResource(tx, record.Fresh(catalog.User{
			ID: id, Organization: "o", Name: name, Email: id + "@example.com",
		}))
	})
}

// agent stores an agent for groups, or for all users if none is named. If it is removed, only its version is left.
func (w *world) agent(id string, removed bool, groups ...string) {
	w.t.Helper()
	a := catalog.Agent{ID: id, Organization: "o", Version: 1, Spec: catalog.AgentSpec{GroupIDs: groups}}
	w.commit(func(tx *record.Tx) {
		record.PutVersion(tx, a, 1)
		if !removed {
			record.PutResource(tx, record.Fresh(a))
		}
	})
}

// seen is a run for a reader who may read all documents.
func (w world) seen(e record.RunEntity) view.Run {
	w.t.Helper()
	v, err := view.Of(w.t.Context(), w.Store, e)
	require.NoError(w.t, err)
	v, err = v.For(w.t.Context(), all)
	require.NoError(w.t, err)
	return v
}

// all may read all documents.
func all(context.Context, []string) (citation.Hidden, error) { return nil, nil }

type object = map[string]any

// shown is a value as clients get it.
func shown(t *testing.T, v any) (decoded any) {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &decoded))
	return decoded
}
