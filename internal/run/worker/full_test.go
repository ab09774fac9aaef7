package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/events"
	"agentplatform/internal/ai/model"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/run/intake"
	"agentplatform/internal/run/sweep"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/store/record"
)

// An end by a worker, by the sweeper or by a request needs no space on the disk. That holds for any text that the run
// leaves, and for any webhook. Afterwards its chat is free.
func TestAnEndNeedsNoRoom(t *testing.T) {
	for name, c := range ends() {
		for _, length := range []int{1000, 50_000} { // in the journal's item, and in the blob store
			for callback, metadata := range map[string]map[string]string{
				"": nil, "https://example.com/hook": largestMetadata(),
			} {
				t.Run(fmt.Sprint(name, length, callback), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						s := newStage(t, mute)
						s.worker.Drain = drain
						s.edit(func(spec *catalog.AgentSpec) {
							minute := 60
							spec.Limits.MaxActiveSeconds = &minute
						})
						message := intake.Message{Text: "hello", CallbackURL: callback, Metadata: metadata}
						run := s.send(message).Run.RunID
						s.bring(run, c.from, strings.Repeat("x", length))
						s.room.Store(0)
						s.rows.Store(0)
						c.make(s, run)
						s.hasEnded(run, c.want, metadata)
					})
				})
			}
		}
	}
}

// end is an end of a run that is brought into a state first.
type end struct {
	from string
	make func(s *stage, run string)
	want lifecycle.Status
}

func ends() map[string]end {
	sweeps := func(after time.Duration) func(*stage, string) {
		return func(s *stage, _ string) {
			s.host.wall.Add(int64(after))
			sweeper := sweep.Sweeper{Executor: s.worker.Executor, Store: s.store, Queue: s.wakeups, Host: s.host,
				Log: slog.New(slog.NewTextHandler(&s.log, nil))}
			require.NoError(s, sweeper.Sweep(s.Context()))
		}
	}
	works := func(reply func(ctx context.Context, s *stage, run string) (model.Reply, error)) func(*stage, string) {
		return func(s *stage, run string) {
			s.converse = func(ctx context.Context, _ model.Request, _ func(string)) (model.Reply, error) {
				return reply(ctx, s, run)
			}
			for range lifecycle.MaxCrashes {
				s.handle(s.Context(), run)
			}
		}
	}
	return map[string]end{
		"the sweeper, as the pause expires": {"paused", sweeps(2 * time.Hour), lifecycle.Cancelled},
		"the sweeper, as no worker comes":   {"queued", sweeps(25 * time.Hour), lifecycle.Failed},
		"the sweeper, as the worker is lost": {"running", func(s *stage, run string) {
			s.cancel(run)
			sweeps(2*lease)(s, run)
		}, lifecycle.Cancelled},
		"a worker, as its model fails": {"released", works(func(context.Context, *stage, string) (model.Reply, error) {
			return model.Reply{}, model.Fail(model.BadRequest, "no")
		}), lifecycle.Failed},
		"a worker, as its time is over": {"released", works(func(ctx context.Context, _ *stage, _ string) (
			model.Reply, error) {
			<-ctx.Done()
			return model.Reply{}, ctx.Err()
		}), lifecycle.TimedOut},
		"a worker, as it is cancelled": {"released", works(func(_ context.Context, s *stage, run string) (
			model.Reply, error) {
			s.cancel(run)
			return model.Reply{Text: strings.Repeat("more ", 10_000), Finish: "stop"}, nil
		}), lifecycle.Cancelled},
		"a worker, as its program fails": {"released", works(func(
			context.Context, *stage, string,
		) (model.Reply, error) {
			panic("oops")
		}), lifecycle.Failed},
		"a request, of a paused run":   {"paused", (*stage).cancel, lifecycle.Cancelled},
		"a request, of a queued run":   {"queued", (*stage).cancel, lifecycle.Cancelled},
		"a request, of a released run": {"released", (*stage).cancel, lifecycle.Cancelled},
		"a deletion, of a paused run": {"paused", func(s *stage, run string) {
			_, err := s.intake.DeleteChat(s.request(), s.who, s.run(run).Chat)
			require.NoError(s, err)
		}, lifecycle.Cancelled},
	}
}

// bring brings a queued run into a state, with a text in its journal.
func (s *stage) bring(run, state, text string) {
	s.Helper()
	if state == "queued" {
		return
	}
	do := func(c transition.Change) {
		_, err := s.worker.Executor.Do(s.Context(), record.System(), run,
			func(record.Run, *record.Tx) (transition.Change, error) { return c, nil })
		require.NoError(s, err)
	}
	do(transition.Change{Event: lifecycle.Claim{Holder: "another", Until: s.host.Now().Add(lease)}})
	work := lifecycle.Work{Attempt: 1, Steps: 1}
	do(transition.Change{Event: lifecycle.Step{Work: work}, Steps: []record.Step{{Kind: record.CutStep, Text: text}}})
	switch state {
	case "released":
		do(transition.Change{Event: lifecycle.Release{Work: work}})
	case "paused":
		do(transition.Change{
			Event: lifecycle.Pause{Work: work, ExpiresAt: s.host.Now().Add(time.Hour),
				Interrupts: []lifecycle.Pending{{ID: "i", Kind: lifecycle.Clarification}}},
			Interrupts: []record.Interrupt{{Interrupt: events.Interrupt{ID: "i", Prompt: "which?"}}},
		})
	}
}

// hasEnded requires that a run has ended, that its chat is free, and that its webhook, if it has one, is whole.
func (s *stage) hasEnded(run string, status lifecycle.Status, metadata map[string]string) {
	s.Helper()
	r := s.run(run)
	require.Equal(s, status, r.Status, "%s\n%s", r.Error, &s.log)
	assert.NotContains(s, r.Error, "insufficient_storage")
	chat, found, err := s.store.ChatOf(s.Context(), r.RunSpec)
	require.NoError(s, err)
	require.True(s, found)
	assert.Empty(s, chat.Value.ActiveRun)
	if metadata == nil || r.Deleted {
		return
	}
	h, found, err := s.store.DeliveryAt(s.Context(), run, r.Transition)
	require.NoError(s, err)
	require.True(s, found)
	raw, err := s.store.DeliveryBody(s.Context(), h.Value)
	require.NoError(s, err)
	var body events.Webhook
	require.NoError(s, json.Unmarshal(raw, &body))
	assert.Equal(s, metadata, body.Metadata)
}

// largestMetadata is the largest metadata of a client, with the character whose JSON is longest.
func largestMetadata() map[string]string {
	most := map[string]string{}
	for n := range 16 {
		most[strconv.Itoa(10+n)+strings.Repeat("<", 62)] = strings.Repeat("<", 1024)
	}
	return most
}
