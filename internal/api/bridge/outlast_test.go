package bridge_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/api/bridge"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/run/intake"
	"agentplatform/internal/run/stream"
	"agentplatform/internal/store/blob/memblob"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
	"agentplatform/internal/store/table/memtable"
)

// away is a table that cannot be read until a time.
type away struct {
	table.Table

	until time.Time
}

func (a *away) Get(ctx context.Context, keys ...table.Key) ([]*table.Item, error) {
	if time.Now().Before(a.until) {
		return nil, &table.Error{Kind: table.Down, Err: errors.New("away")}
	}
	return a.Table.Get(ctx, keys...)
}

// A store that cannot be read for a while does not end a wait for a run early: the run goes on.
func TestAWaitOutlivesAFailureOfTheStore(t *testing.T) {
	for d, want := range map[time.Duration]string{5 * time.Second: "unavailable", time.Minute: ""} {
		synctest.Test(t, func(t *testing.T) {
			h := host.System()
			items := &away{Table: memtable.New(h.Now)}
			store := record.New(items, &memblob.Store{}, h)
			now := h.Now()
			run := record.Run{Input: &record.Input{Message: "m"}, Run: lifecycle.Accept(
				lifecycle.RunSpec{RunID: h.NewID(), Organization: "o", User: "u", Chat: "c", LimitMS: 60_000},
				lifecycle.ChatPosition{Turn: 1}, now, now.Add(time.Minute))}
			tx := store.Begin(h.NewID())
			tx.PutRun(record.Fresh(run))
			require.NoError(t, tx.Commit(t.Context()))
			items.until = now.Add(20 * time.Second)
			b := &bridge.Bridge{
				Intake: &intake.Intake{Host: h}, Store: store,
				Hub: stream.New(items, stream.NewLocalNotifier(), h, slog.New(slog.DiscardHandler)),
			}
			began := time.Now()
			enough := func(record.Run) bool { return true }
			e, err := b.Outlast(t.Context(), d, func(left time.Duration) (record.RunEntity, error) {
				return b.Hub.Until(t.Context(), store, record.Of("o"), run.ID(), 0, left, enough)
			})
			assert.Equal(t, want, problem.Code(err))
			if want == "" {
				assert.Equal(t, run.ID(), e.Value.ID())
			}
			assert.InDelta(t, min(d, 20*time.Second), time.Since(began), float64(10*time.Second))
		})
	}
}
