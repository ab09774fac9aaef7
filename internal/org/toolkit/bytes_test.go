package toolkit_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/toolkit"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/proof/faulttable"
	"agentplatform/internal/run/removal"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/store/blob/memblob"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
	"agentplatform/internal/store/table/memtable"
)

// documents is a kind whose tools are in the toolkit's document.
type documents struct{ kind }

func (d *documents) Discover(ctx context.Context, e tool.Endpoint) ([]tool.Definition, error) {
	if string(e.Document) == "bad" {
		return nil, &tool.Error{Message: "no document"}
	}
	return d.kind.Discover(ctx, e)
}

// later is a host whose clock is ahead and that does not wait.
type later struct {
	host.Host
	by time.Duration
}

func (l *later) Now() time.Time { return l.Host.Now().Add(l.by) }

func (l *later) Sleep(_ context.Context, d time.Duration) error {
	l.by += d
	return nil
}

// fullStore is a blob store that fails for a while.
type fullStore struct {
	memblob.Store
	full bool
}

func (f *fullStore) Put(ctx context.Context, key string, r io.Reader, limit int64) (int64, error) {
	if f.full {
		return 0, errors.New("no room")
	}
	return f.Store.Put(ctx, key, r, limit)
}

// estate is toolkits with all their blobs.
type estate struct {
	*toolkit.Toolkits

	clock *later
	items *faulttable.Table
	blobs *fullStore
}

func newEstate(t *testing.T) *estate {
	clock := &later{Host: host.System()}
	e := &estate{clock: clock, items: &faulttable.Table{Inner: memtable.New(clock.Now)}, blobs: &fullStore{}}
	store := record.New(e.items, e.blobs, clock)
	e.Toolkits = &toolkit.Toolkits{
		Store: store, Cached: store.Cached(), Host: clock, Sealer: sealer(t, 1),
		Kinds: map[string]tool.Kind{toolkit.Builtin: &kind{}, "openapi": &documents{kind{names: []string{"act"}}}},
	}
	return e
}

// named returns the blobs that toolkits name.
func (e *estate) named(t *testing.T) []string {
	page, err := record.Resources[catalog.Toolkit](t.Context(), e.Store, record.Of("o"), "", 100)
	require.NoError(t, err)
	var names []string
	for _, one := range page.Rows {
		for _, key := range []string{one.Value.Document, one.Value.Tools} {
			if key != "" {
				names = append(names, key)
			}
		}
	}
	slices.Sort(names)
	return names
}

// settle does all jobs that are due an hour later.
func (e *estate) settle(t *testing.T) {
	e.clock.by += time.Hour
	remover := &removal.Remover{
		Store:    e.Store,
		Host:     e.clock,
		Executor: &transition.Executor{Store: e.Store, Host: e.clock, Log: slog.New(slog.DiscardHandler)},
	}
	for shard := range table.DueShards {
		due, err := e.Store.Due(t.Context(), shard, e.clock.Now(), 100)
		require.NoError(t, err)
		for _, one := range due {
			_, err := remover.Handle(t.Context(), one.ID)
			require.NoError(t, err)
		}
	}
}

// A change of a toolkit may be interrupted anywhere, and anything may run concurrently. An hour later the blob store
// has exactly the blobs that toolkits refer to.
func TestNoBlobOfAToolkitOutlivesItsReference(t *testing.T) {
	ctx, scope := t.Context(), record.Of("o")
	create := func(e *estate, document string) (string, error) {
		made, err := e.Create(ctx, "o", toolkit.Draft{Kind: "openapi", Name: text("given"), Document: []byte(document)})
		return made.Value.ID, err
	}
	for name, change := range map[string]func(e *estate, id string) error{
		"a creation":          func(e *estate, _ string) error { return second(create(e, "another")) },
		"a creation, refused": func(e *estate, _ string) error { return second(create(e, "bad")) },
		"an import": func(e *estate, _ string) error {
			return second(e.Import(ctx, scope, []string{"k"}, portable("imported"), nil, unchecked))
		},
		"a refresh": func(e *estate, id string) error { return second(e.Refresh(ctx, scope, id)) },
		"rules": func(e *estate, id string) error {
			return second(e.SetRules(ctx, scope, id, "act", toolkit.Rules{RetrySafe: new(bool)}))
		},
		"a document that is new": func(e *estate, id string) error {
			return second(e.Edit(ctx, scope, id, 0, toolkit.Draft{Document: []byte("new")}))
		},
		"a removal": func(e *estate, id string) error { return e.Remove(ctx, scope, id) },
	} {
		t.Run(name, func(t *testing.T) {
			for _, fault := range []faulttable.Fault{faulttable.Down, faulttable.AppliedUnknown} {
				for fails, met := 0, true; met; fails++ {
					require.Less(t, fails, 50)
					e := newEstate(t)
					id, err := create(e, "first")
					require.NoError(t, err)
					calls := 0
					met = false
					e.items.Before = func(faulttable.Call) faulttable.Fault {
						if calls++; calls > fails {
							met = true
							return fault
						}
						return faulttable.None
					}
					_ = change(e, id)
					e.items.Before = nil
					e.settle(t)
					assert.Equal(t, e.named(t), e.blobs.Keys(), "%s from call %d on", fault, fails)
					_, _, err = e.Offered(ctx, scope, id)
					assert.True(t, err == nil || name == "a removal", "what is named is there: %v", err)
				}
			}
			e := newEstate(t)
			id, err := create(e, "first")
			require.NoError(t, err)
			e.blobs.full = true
			_ = change(e, id)
			e.settle(t)
			assert.Equal(t, e.named(t), e.blobs.Keys())
		})
	}
}

// A process that was suspended until its blobs were removed cannot commit a toolkit that refers to them.
func TestAToolkitNeverRefersToARemovedBlob(t *testing.T) {
	e := newEstate(t)
	commits := 0
	e.items.Before = func(c faulttable.Call) faulttable.Fault {
		if c.Commit {
			if commits++; commits == 3 { // a document, a list, the toolkit
				e.items.Before = nil
				e.settle(t)
			}
		}
		return faulttable.None
	}
	_, err := e.Create(t.Context(), "o", toolkit.Draft{Kind: "openapi", Name: text("late"), Document: []byte("first")})
	require.ErrorIs(t, err, record.ErrConflict)
	assert.Empty(t, e.named(t))
	assert.Empty(t, e.blobs.Keys())
}

func portable(document string) []toolkit.Portable {
	return []toolkit.Portable{{Key: "k", Kind: "openapi", Name: "given", Document: document}}
}

func second[T any](_ T, err error) error { return err }
