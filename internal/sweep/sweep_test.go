package sweep_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/blob/memblob"
	"agentplatform/internal/host"
	"agentplatform/internal/lifecycle"
	"agentplatform/internal/queue"
	"agentplatform/internal/record"
	"agentplatform/internal/sweep"
	"agentplatform/internal/table"
	"agentplatform/internal/table/memtable"
	"agentplatform/internal/transition"
)

// bad is a table in which one partition cannot be read.
type bad struct {
	table.Table

	part string
	meet func() error
}

func (b *bad) Get(ctx context.Context, keys ...table.Key) ([]*table.Item, error) {
	for _, k := range keys {
		if k.Part == b.part {
			if err := b.meet(); err != nil {
				return nil, err
			}
		}
	}
	return b.Table.Get(ctx, keys...)
}

// nudged records the ids of the nudges sent.
type nudged map[string]bool

func (n nudged) Send(_ context.Context, m queue.Message) error {
	n[m.Nudge.ID] = true
	return nil
}

func TestFailingItemDoesNotStopTheSweep(t *testing.T) {
	for name, meet := range map[string]func() error{
		"a panic":  func() error { panic("oops") },
		"an error": func() error { return errors.New("oops") },
	} {
		t.Run(name, func(t *testing.T) {
			h, found := host.System(), nudged{}
			items := &bad{Table: memtable.New(h.Now), meet: meet}
			store := record.New(items, &memblob.Store{}, h)
			var log bytes.Buffer
			l := slog.New(slog.NewTextHandler(&log, nil))
			s := &sweep.Sweeper{Executor: &transition.Executor{Store: store, Host: h, Log: l}, Store: store,
				Queue: found,
				Host:  h, Log: l}
			var ids []string
			for range 20 {
				var r record.Run
				r.RunID, r.Organization, r.Status = h.NewID(), record.NoOrganization, lifecycle.Queued
				r.Due, r.StartBy = h.Now().Add(-time.Minute), h.Now().Add(time.Hour)
				tx := store.Begin(r.RunID)
				tx.PutRun(record.Fresh(r))
				require.NoError(t, tx.Commit(t.Context()))
				ids = append(ids, r.RunID)
			}
			items.part = "run/" + ids[3]
			require.NoError(t, s.Sweep(t.Context()))
			assert.Len(t, found, 19)
			assert.False(t, found[ids[3]])
			assert.Contains(t, log.String(), ids[3])
			assert.Contains(t, log.String(), "oops")
			if strings.Contains(name, "panic") {
				assert.Contains(t, log.String(), "sweep_test.go")
			}
		})
	}
}
