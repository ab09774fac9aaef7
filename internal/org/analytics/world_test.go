package analytics_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/stretchr/testify/require"

	"agentplatform/internal/org/analytics"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/store/blob/memblob"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
	"agentplatform/internal/store/table/memtable"
)

// world is the use case over a store in memory, with a clock that is set by hand. It has the entries that were written
// to the ledger.
type world struct {
	*testing.T
	*analytics.Analytics
	host.Host

	now          time.Time
	store        *record.Store
	organization string
	items        *memtable.Table
	entries      []record.Entry

	mu           sync.Mutex
	failAfter    int // so many more commits are made, then their answers are lost; below 0: all
	commits      int
	queries      []string // the partitions of queries
	broken       error    // of every query
	fits         int      // bytes of an item; 0: as many as usual
	beforeCommit func()   // happens before the next commit
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, Host: host.System(), now: began, failAfter: -1}
	w.organization = host.FormatID(began, 1)
	w.items = memtable.New(w.Now)
	w.store = record.New(spied{w.items, w}, &memblob.Store{}, w)
	w.Analytics = &analytics.Analytics{Store: w.store, Host: w}
	tx := w.store.Begin(w.NewID())
	record.PutResource(tx, record.Fresh(catalog.Organization{
		ID: w.organization, Prices: []catalog.Price{
			{Model: "p/a", Input: 1, Output: 2}, {Model: "p/e", Input: 0.25},
		},
	}))
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, w.store.EnsureDeployment(t.Context()))
	return w
}

func (w *world) Now() time.Time { return w.now }

// Sleep lets no time pass.
func (w *world) Sleep(ctx context.Context, _ time.Duration) error { return ctx.Err() }

func (w *world) scope() record.Scope { return record.Of(w.organization) }

func (w *world) edit(change func(*catalog.Organization)) {
	_, err := record.Change(w.Context(), w.store, record.System(), w.organization, 0,
		func(o *catalog.Organization, _ *record.Tx) error {
			change(o)
			return nil
		})
	require.NoError(w, err)
}

func zone(t *testing.T, name string) *time.Location {
	z, err := time.LoadLocation(name)
	require.NoError(t, err)
	return z
}

// spied is a table that records its calls, and loses responses.
type spied struct {
	*memtable.Table

	of *world
}

func (s spied) Query(ctx context.Context, r table.Range) ([]*table.Item, error) {
	s.of.mu.Lock()
	s.of.queries = append(s.of.queries, r.Part)
	broken := s.of.broken
	s.of.mu.Unlock()
	if broken != nil {
		return nil, broken
	}
	return s.Table.Query(ctx, r)
}

func (s spied) Commit(ctx context.Context, token string, ops ...table.Op) error {
	if before := s.of.beforeCommit; before != nil {
		s.of.beforeCommit = nil
		before()
	}
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	for _, op := range ops {
		if s.of.fits > 0 && op.Item.Size() > s.of.fits {
			return &table.Error{Kind: table.TooLarge, Err: errors.New("an item is too large")}
		}
	}
	err := s.Table.Commit(ctx, token, ops...)
	s.of.commits++
	if s.of.failAfter == 0 {
		return &table.Error{Kind: table.Unknown, Err: errors.New("the answer was lost")}
	}
	s.of.failAfter--
	return err
}
