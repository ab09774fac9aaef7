package sweep_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
)

// quiet is a notifier without listeners.
type quiet struct{}

func (quiet) Notify(string) {}

func (quiet) NotifyEnd(record.RunEntity) {}

// accepted stores a queued run with its chat and slots. edit may change the run before that.
func (s *stage) accepted(organization string, edit func(*lifecycle.Run)) (id string) {
	s.Helper()
	id = s.host.NewID()
	long := s.host.Now().Add(-time.Hour)
	position := lifecycle.ChatPosition{Turn: 1, Slots: lifecycle.Slots{User: "over/" + id, Organization: "over/" + id}}
	spec := lifecycle.RunSpec{RunID: id, Organization: organization, User: "u", Chat: id}
	r := lifecycle.Accept(spec, position, long, long)
	edit(&r)
	chat := lifecycle.Chat{ID: id, Organization: organization}.Begin(r, long)
	tx := s.store.Begin(id)
	tx.PutChat(record.Fresh(chat))
	tx.MoveSlots(lifecycle.Run{}, r)
	tx.PutRun(record.Fresh(record.Run{Run: r}))
	require.NoError(s, tx.Commit(s.Context()))
	return id
}

// atWork makes a run running, with a lease that ends after some time.
func (s *stage) atWork(lease time.Duration) func(*lifecycle.Run) {
	return func(r *lifecycle.Run) {
		r.Status, r.Lease = lifecycle.Running, lifecycle.Lease{Holder: "w", Until: s.host.Now().Add(lease)}
		r.Due = r.Lease.Until
	}
}

// The start deadline of a run stops while workers execute other runs of its organization, for a day at most.
func TestAStartDeadlineDoesNotRunWhileRunsOfTheOrganizationAreAtWork(t *testing.T) {
	asItIs := func(*lifecycle.Run) {}
	for name, c := range map[string]struct {
		other  string // the organization of the running run
		lease  time.Duration
		edit   func(*lifecycle.Run)
		status lifecycle.Status
	}{
		"a run at work":                         {"o", time.Minute, asItIs, lifecycle.Queued},
		"a run whose worker is lost":            {"o", -time.Minute, asItIs, lifecycle.Failed},
		"a run at work of another organization": {"other", time.Minute, asItIs, lifecycle.Failed},
		"a run at work, long before the deadline": {"o", time.Minute, func(r *lifecycle.Run) {
			r.StartBy = r.StartBy.Add(time.Hour + time.Minute)
		}, lifecycle.Queued},
		"it has been queued for a day": {"o", time.Minute, func(r *lifecycle.Run) {
			r.QueuedAt = r.QueuedAt.Add(-lifecycle.MaxQueued)
		}, lifecycle.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.sweeper.Executor.Notifier, s.sweeper.Executor.StartDeadline = quiet{}, 10*time.Minute
			s.accepted(c.other, s.atWork(c.lease))
			id := s.accepted("o", c.edit)
			before := s.host.Now()
			require.NoError(t, s.sweeper.Sweep(t.Context()))
			e, err := s.store.Run(t.Context(), record.System(), id)
			require.NoError(t, err)
			require.Equal(t, c.status, e.Value.Status, e.Value.Error)
			if c.status == lifecycle.Queued {
				assert.WithinRange(t, e.Value.StartBy, before.Add(10*time.Minute), s.host.Now().Add(10*time.Minute))
				assert.True(t, e.Value.Due.Before(e.Value.StartBy), "its nudge may be lost")
			} else {
				assert.Contains(t, e.Value.Error, "could not be started")
			}
		})
	}
}

// queried is a table that counts the queries of slots of organizations.
type queried struct {
	table.Table

	slots atomic.Int64
}

func (q *queried) Query(ctx context.Context, r table.Range) ([]*table.Item, error) {
	if strings.HasPrefix(r.Part, "active/org/") {
		q.slots.Add(1)
	}
	return q.Table.Query(ctx, r)
}

// With any number of overdue runs of an organization, a sweep reads its slots once.
func TestASweepLooksOnceWhetherAnOrganizationIsAtWork(t *testing.T) {
	s := newStage(t)
	s.sweeper.Executor.Notifier, s.sweeper.Executor.StartDeadline = quiet{}, 10*time.Minute
	counted := &queried{Table: s.items.Table}
	s.items.Table = counted
	s.accepted("o", s.atWork(time.Minute))
	queries := func(overdue int) int64 {
		for range overdue {
			s.accepted("o", func(*lifecycle.Run) {})
		}
		counted.slots.Store(0)
		require.NoError(t, s.sweeper.Sweep(t.Context()))
		return counted.slots.Load()
	}
	one := queries(1)
	assert.Positive(t, one)
	assert.LessOrEqual(t, queries(30), int64(record.DueShards)*one, "shards that look side by side may each look once")
}
