package removal_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/platform/host"
	"agentplatform/internal/proof/faulttable"
	"agentplatform/internal/run/removal"
	"agentplatform/internal/run/sweep"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/store/blob/memblob"
	"agentplatform/internal/store/queue"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table/memtable"
)

type noQueue struct{}

func (noQueue) Send(context.Context, queue.Message) error { return nil }

// A sweep reads a due job, sends a wakeup and moves the due time forward. If the remover wrote in between, the sweep's
// write is refused. Without another call nothing would happen for as long as the sweep relies on its wakeup.
func TestConflictWithSweepIsRetriedSoon(t *testing.T) {
	machine, log := host.System(), slog.New(slog.DiscardHandler)
	items := &faulttable.Table{Inner: memtable.New(machine.Now)}
	store := record.New(items, &memblob.Store{}, machine)
	executor := &transition.Executor{Store: store, Host: machine, Log: log}
	remover := &removal.Remover{Executor: executor, Store: store, Host: machine}
	sweeper := &sweep.Sweeper{Executor: executor, Store: store, Queue: noQueue{}, Host: machine, Log: log}
	job := record.Job{
		ID: machine.NewID(), Organization: "o", Kind: record.RemoveChat, Subject: "chat",
		Due: machine.Now().Add(-time.Second),
	}
	tx := store.Begin("made")
	tx.PutJob(record.Fresh(job))
	require.NoError(t, tx.Commit(t.Context()))

	items.Overtake(func() { require.NoError(t, sweeper.Sweep(t.Context())) })
	again, err := remover.Handle(t.Context(), job.ID)
	require.NoError(t, err)
	require.Positive(t, again, "else nobody looks before the sweeper does")
	assert.LessOrEqual(t, again, time.Second)

	_, err = remover.Handle(t.Context(), job.ID)
	require.NoError(t, err)
	e, found, err := store.Job(t.Context(), job.ID)
	require.NoError(t, err)
	require.True(t, found)
	assert.NotEmpty(t, e.Value.Cursor, "the first pass is done")
}
