package webhook_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/blob/memblob"
	"agentplatform/internal/host"
	"agentplatform/internal/lifecycle"
	"agentplatform/internal/move"
	"agentplatform/internal/queue"
	"agentplatform/internal/record"
	"agentplatform/internal/sweep"
	"agentplatform/internal/table/faulttable"
	"agentplatform/internal/table/memtable"
	"agentplatform/internal/webhook"
)

// receiver answers each push, after it has done something meanwhile.
type receiver struct {
	status    int
	meanwhile func()
	posts     int
}

func (r *receiver) Do(*http.Request) (*http.Response, error) {
	r.posts++
	if r.meanwhile != nil {
		r.meanwhile()
	}
	return &http.Response{StatusCode: r.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("thanks"))}, nil
}

type noQueue struct{}

func (noQueue) Send(context.Context, queue.Message) error { return nil }

// stage is a store with one delivery that is due, and what works on it.
type stage struct {
	*receiver

	items   *faulttable.Table
	store   *record.Store
	sender  *webhook.Sender
	sweeper *sweep.Sweeper
	hook    record.Hook
}

func newStage(t *testing.T) stage {
	t.Helper()
	machine, log := host.System(), slog.New(slog.DiscardHandler)
	s := stage{receiver: &receiver{status: http.StatusOK}, items: &faulttable.Table{Inner: memtable.New(machine.Now)}}
	s.store = record.New(s.items, &memblob.Store{}, machine)
	s.sender = &webhook.Sender{Store: s.store, Host: machine, Client: s.receiver, Log: log, Secret: "s"}
	s.sweeper = &sweep.Sweeper{Shell: &move.Shell{Store: s.store, Host: machine, Log: log}, Store: s.store, Queue: noQueue{}, Host: machine, Log: log}
	var run record.Run
	run.RunID, run.Organization, run.Status = machine.NewID(), record.Nobody, lifecycle.AwaitingInput
	s.hook = record.Hook{
		DeliveryID: machine.NewID(), Organization: record.Nobody, RunID: run.RunID, Sequence: 1, CallbackURL: "https://example.com/", Body: "{}",
		State: record.HookPending, NextAttempt: machine.Now().Add(-time.Second),
	}
	head, err := record.PutRun(record.Fresh(run), "made")
	require.NoError(t, err)
	hook, err := s.store.NewHook(t.Context(), s.hook, "made")
	require.NoError(t, err)
	require.NoError(t, s.store.Commit(t.Context(), "made", head, hook))
	return s
}

func (s stage) now(t *testing.T) record.Hook {
	t.Helper()
	e, found, err := s.store.Hook(t.Context(), s.hook.RunID, 1)
	require.NoError(t, err)
	require.True(t, found)
	return e.Value
}

func TestASweepLeavesADeliveryAloneThatASenderHasClaimed(t *testing.T) {
	s := newStage(t)
	s.meanwhile = func() { require.NoError(t, s.sweeper.Adopt(t.Context())) }
	again, err := s.sender.Handle(t.Context(), s.hook.NudgeID())
	require.NoError(t, err)
	assert.Zero(t, again)
	assert.Equal(t, record.HookDelivered, s.now(t).State)
	assert.Len(t, s.now(t).Attempts, 1)
}

// The sweeper's nudge came in an instant in which its own write was still to come, and pushed the next look half a minute on.
func TestASenderThatIsOvertakenByASweepLooksAgain(t *testing.T) {
	s := newStage(t)
	s.items.Overtake(func() { require.NoError(t, s.sweeper.Sweep(t.Context())) })
	again, err := s.sender.Handle(t.Context(), s.hook.NudgeID())
	require.NoError(t, err)
	assert.Zero(t, s.posts)
	require.Positive(t, again, "else nobody looks before the sweeper does")
	assert.LessOrEqual(t, again, time.Second)
	_, err = s.sender.Handle(t.Context(), s.hook.NudgeID())
	require.NoError(t, err)
	assert.Equal(t, record.HookDelivered, s.now(t).State)
}

func TestADeliveryThatWaitsBehindManyIsNudgedEverMoreSeldom(t *testing.T) {
	s := newStage(t)
	e, _, err := s.store.Hook(t.Context(), s.hook.RunID, 1)
	require.NoError(t, err)
	now := time.Now()
	e.Value.NextAttempt = now.Add(-10 * time.Minute)
	op, err := record.PutHook(e, "older")
	require.NoError(t, err)
	require.NoError(t, s.store.Commit(t.Context(), "older", op))
	require.NoError(t, s.sweeper.Sweep(t.Context()))
	assert.WithinDuration(t, now.Add(10*time.Minute), s.now(t).LookAt, time.Minute)
	_, err = s.sender.Handle(t.Context(), s.hook.NudgeID())
	require.NoError(t, err)
	assert.Zero(t, s.now(t).LookAt, "a try that fails is looked at when the next is due")
}

func TestWhatWasAskedForDuringATryDoesNotLoseItsOutcome(t *testing.T) {
	s := newStage(t)
	s.meanwhile = func() {
		s.meanwhile = nil
		_, err := s.sender.Redeliver(t.Context(), record.Of(record.Nobody), s.hook.DeliveryID, true)
		require.NoError(t, err)
	}
	_, err := s.sender.Handle(t.Context(), s.hook.NudgeID())
	require.NoError(t, err)
	assert.Equal(t, record.HookDelivered, s.now(t).State)
	assert.Len(t, s.now(t).Attempts, 1)
	assert.True(t, s.now(t).Redeliver, "the try that was asked for is still to come")

	_, err = s.sender.Handle(t.Context(), s.hook.NudgeID())
	require.NoError(t, err)
	assert.Len(t, s.now(t).Attempts, 2)
	assert.False(t, s.now(t).Redeliver)
	assert.Equal(t, 2, s.posts)
}

func TestATryThatPanicsIsAFailedOne(t *testing.T) {
	s := newStage(t)
	s.meanwhile = func() { panic("oops") }
	again, err := s.sender.Handle(t.Context(), s.hook.NudgeID())
	require.NoError(t, err)
	assert.Positive(t, again, "it is tried again with back-off")
	h := s.now(t)
	assert.Equal(t, record.HookPending, h.State)
	require.Len(t, h.Attempts, 1)
	assert.Equal(t, "the delivery failed inside the service", h.Attempts[0].Error)
	assert.Empty(t, h.Claim, "and the claim is given back")
}
