package worker_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/store/blob/memblob"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
)

// pollCounter is a table in which a check of a row is a different call from a read, as in DynamoDB. It counts both.
type pollCounter struct {
	table.Table

	reads, polls atomic.Int64
	seen         func(table.Mark) table.Mark // by checks that lag; nil: they do not
}

func (g *pollCounter) Get(ctx context.Context, keys ...table.Key) ([]*table.Item, error) {
	g.reads.Add(1)
	return g.Table.Get(ctx, keys...)
}

func (g *pollCounter) Poll(ctx context.Context, keys ...table.Key) ([]table.Mark, error) {
	g.polls.Add(1)
	marks, err := table.Poll(ctx, g.Table, keys...)
	for i := range marks {
		if g.seen != nil {
			marks[i] = g.seen(marks[i])
		}
	}
	return marks, err
}

// polls runs a test with a worker whose store is such a table.
func withPollCounter(t *testing.T, test func(s *stage, g *pollCounter)) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, polling)
		g := &pollCounter{Table: s.table}
		s.worker.Store = record.New(g, &memblob.Store{}, s.host)
		test(s, g)
	})
}

// A read of DynamoDB costs as much as two of these checks, and nine of ten polls find no change.
func TestAPollReadsNothingWhereNothingChanged(t *testing.T) {
	withPollCounter(t, func(s *stage, g *pollCounter) {
		var reads, polls int64
		s.converse = func(ctx context.Context, r model.Request, emit func(string)) (model.Reply, error) {
			before, pollsBefore := g.reads.Load(), g.polls.Load()
			time.Sleep(lease) // and it is renewed meanwhile
			reads, polls = g.reads.Load()-before, g.polls.Load()-pollsBefore
			return talks()(ctx, r, emit)
		}
		id := s.post()
		s.handle(s.Context(), id)
		assert.Equal(s, lifecycle.Completed, s.run(id).Status)
		assert.Zero(s, reads)
		assert.GreaterOrEqual(s, polls, int64(lease/s.worker.Tick)-1)
	})
}

func TestAPollThatSeesAChangeReadsIt(t *testing.T) {
	withPollCounter(t, func(s *stage, _ *pollCounter) {
		s.converse = func(ctx context.Context, _ model.Request, _ func(string)) (model.Reply, error) {
			return model.Reply{}, errors.Join(errors.New("cut"), s.host.Sleep(ctx, lease))
		}
		id := s.post()
		done := s.begin(s.Context(), id)
		time.Sleep(2500 * time.Millisecond)
		began := time.Now()
		s.transition(id, lifecycle.Cancel{Reason: "enough"})
		<-done
		assert.LessOrEqual(s, time.Since(began), time.Second, "in virtual time")
		assert.Equal(s, lifecycle.Cancelled, s.run(id).Status)
	})
}

// A check may return an earlier state: when the run was another worker's, or did not exist yet.
func TestAPollThatLagsEndsNoRun(t *testing.T) {
	for name, seen := range map[string]func(table.Mark) table.Mark{
		"an earlier version": func(table.Mark) table.Mark { return table.Mark{There: true, Version: 1} },
		"nothing":            func(table.Mark) table.Mark { return table.Mark{} },
	} {
		t.Run(name, func(t *testing.T) {
			withPollCounter(t, func(s *stage, g *pollCounter) {
				g.seen = seen
				s.converse = func(ctx context.Context, r model.Request, emit func(string)) (model.Reply, error) {
					time.Sleep(lease)
					return talks()(ctx, r, emit)
				}
				id := s.post()
				s.handle(s.Context(), id)
				assert.Equal(s, lifecycle.Completed, s.run(id).Status)
				assert.Equal(s, 1, s.run(id).Attempt)
			})
		})
	}
}
