package sim

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/events"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/run/intake"
	"agentplatform/internal/run/worker"
	"agentplatform/internal/store/queue"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/rollup"
	"agentplatform/internal/store/table"
)

// calm makes a world without faults, with one process and one client's message.
func calm(t *testing.T, prepare func(w *world), message string) (*world, string) {
	t.Helper()
	w := newWorld(4, 0)
	t.Cleanup(w.stop)
	w.found()
	w.quiet = true
	w.deploy("process")
	prepare(w)
	run := ""
	d := w.processes[0]
	w.spawn(d.process, "client", func(*actor) {
		posted, err := d.intake.Post(context.Background(), w.people[0],
			intake.Message{AgentID: w.agents[0], Text: message})
		must(err)
		run = posted.Run.RunID
	})
	w.run(w.now.Add(time.Second), func() {})
	require.Empty(t, w.failure)
	require.NotEmpty(t, run)
	return w, run
}

// onlyByQueue makes runs wait for their wakeups, which do not come.
func onlyByQueue(w *world) {
	w.processes[0].executor.Starter, w.queueDown = nil, true
}

func TestWhatAFreeWorkerStartsNeedsNoQueue(t *testing.T) {
	w, run := calm(t, func(w *world) {
		d := w.processes[0]
		d.executor.Starter = &worker.Starter{Worker: d.worker, Room: func(_, _ string) func(func(context.Context)) {
			return func(attempt func(context.Context)) {
				w.spawn(d.process, "start", func(*actor) { attempt(context.Background()) })
			}
		}}
		w.queueDown = true
	}, "hello")
	w.run(w.now.Add(time.Minute), func() {})
	assert.Equal(t, lifecycle.Completed, w.checker.runs[run].Status)
}

func TestHazard18QueueDownAtThePost(t *testing.T) {
	w, run := calm(t, onlyByQueue, "hello")
	assert.Equal(t, lifecycle.Queued, w.checker.runs[run].Status, "accepted all the same")
	w.run(w.now.Add(5*time.Minute), func() {})
	assert.Equal(t, lifecycle.Queued, w.checker.runs[run].Status)
	w.queueDown = false
	w.run(w.now.Add(2*time.Minute), func() {})
	assert.Equal(t, lifecycle.Completed, w.checker.runs[run].Status, "it starts when the queue recovers")
}

func TestHazard18QueueDownForGood(t *testing.T) {
	w, run := calm(t, onlyByQueue, "hello")
	w.run(w.now.Add(startDeadline+2*time.Minute), func() {})
	assert.Equal(t, lifecycle.Failed, w.checker.runs[run].Status)
	assert.Contains(t, w.checker.runs[run].Error, "could not be started")
	assert.Empty(t, w.checker.slots)
}

func TestHazard22TheSweeperExpiresAPauseWhoseTimerWasNeverSet(t *testing.T) {
	w, run := calm(t, func(*world) {}, "/ask Which?")
	require.Equal(t, lifecycle.AwaitingInput, w.checker.runs[run].Status)
	w.queue.messages = nil // the timer's message is lost
	w.run(w.now.Add(pauseExpiry-time.Minute), func() {})
	assert.Equal(t, lifecycle.AwaitingInput, w.checker.runs[run].Status)
	w.run(w.now.Add(5*time.Minute), func() {})
	assert.Equal(t, lifecycle.Cancelled, w.checker.runs[run].Status)
}

func TestARunLongerThanAnyLeaseIsExecutedOnce(t *testing.T) {
	w, run := calm(t, func(w *world) { w.processes[0].worker.ReleaseAfter = 0 },
		"/tool effect {}\n/sleep 4m\n/tool effect {}")
	w.run(w.now.Add(30*time.Minute), func() {})
	r := w.checker.runs[run]
	assert.Equal(t, lifecycle.Completed, r.Status, r.Error)
	for key, n := range w.checker.effects {
		assert.Equal(t, 1, n, key)
	}
}

func TestAChainOfReleasesGoesOn(t *testing.T) {
	w, run := calm(t, func(*world) {},
		"/sleep 30s\n/tool effect {}\n/sleep 30s\n/tool effect {}\n/sleep 30s\n/tool effect {}\n/sleep 30s")
	w.run(w.now.Add(30*time.Minute), func() {})
	r := w.checker.runs[run]
	assert.Equal(t, lifecycle.Completed, r.Status, r.Error)
	assert.Positive(t, r.Hops)
	assert.Len(t, w.checker.effects, 3)
}

// administer runs an administrator's actions, and then lets time pass.
func administer(t *testing.T, w *world, pass time.Duration, do func(ctx context.Context, tenants *tenant.Tenants)) {
	t.Helper()
	d := w.processes[0]
	w.spawn(d.process, "administrator",
		func(*actor) { do(context.Background(), w.tenants(d.machine, d.store, d.store.Cached())) })
	w.run(w.now.Add(pass), func() {})
	require.Empty(t, w.failure)
}

func TestRetentionRemovesOldRunsAndKeepsTheLedger(t *testing.T) {
	w, run := calm(t, func(*world) {}, "hello")
	days := 2
	administer(t, w, 36*time.Hour, func(ctx context.Context, tenants *tenant.Tenants) {
		_, err := tenants.EditOrganization(ctx, tenant.Platform(), w.people[0].Organization, 0,
			tenant.OrganizationEdit{RetentionDays: &days})
		must(err)
	})
	assert.False(t, w.checker.isGone(run), "not yet")
	w.run(w.now.Add(5*24*time.Hour), func() {})
	assert.True(t, w.checker.isGone(run))
	assert.Contains(t, w.checker.ledger, run)
}

func TestRetentionRemovesOldDeliveriesAndKeepsTheirRun(t *testing.T) {
	w, _ := calm(t, func(w *world) { w.processes[0].remover.DeliveryDays = 2 }, "hello")
	d, run, id := w.processes[0], "", ""
	administer(t, w, 36*time.Hour, func(ctx context.Context, _ *tenant.Tenants) {
		posted, err := d.intake.Post(ctx, w.people[0], intake.Message{AgentID: w.agents[0], Text: "hello",
			CallbackURL: "https://receiver.example/"})
		must(err)
		run = posted.Run.RunID
	})
	require.Len(t, w.checker.hooks, 1, "not yet")
	for _, h := range w.checker.hooks {
		assert.Equal(t, record.DeliveryDelivered, h.State)
		id = h.DeliveryID
	}
	administer(t, w, 5*24*time.Hour, func(context.Context, *tenant.Tenants) {})
	assert.Empty(t, w.checker.hooks)
	assert.False(t, w.checker.isGone(run))
	administer(t, w, time.Minute, func(ctx context.Context, _ *tenant.Tenants) {
		_, err := d.sender.Redeliver(ctx, w.people[0].Scope(), id, true)
		assert.True(t, problem.Is(err, "not_found"), "%v", err)
	})
}

func TestRemovingAnOrganizationKeepsItsLedger(t *testing.T) {
	w, run := calm(t, func(w *world) { w.processes[0].account() }, "hello")
	organization := w.people[0].Organization
	w.run(w.now.Add(3*24*time.Hour), func() {})
	kinds := map[string]int{}
	w.inner.All(func(item *table.Item) {
		if kind, _, _ := strings.Cut(item.Part, "/"); item.Owner == organization {
			kinds[kind]++
		}
	})
	require.Equal(t, 1, kinds["rolled"])
	require.Equal(t, 1+len(rollup.Views()), kinds["rollup"], "a quarter and a day in each view")
	administer(t, w, 3*24*time.Hour, func(ctx context.Context, tenants *tenant.Tenants) {
		posted, err := w.processes[0].intake.Post(ctx, w.people[0],
			intake.Message{AgentID: w.agents[0], Text: "/sleep 1h"})
		must(err)
		run = posted.Run.RunID
		_, err = tenants.RemoveOrganization(ctx, organization)
		must(err)
	})
	assert.True(t, w.checker.isGone(run))
	var left []string
	w.inner.All(func(item *table.Item) {
		kind, _, _ := strings.Cut(item.Part, "/")
		// items with an expiry remove themselves
		if item.Owner == organization && kind != "ledger" && kind != "organization" && item.Expires.IsZero() {
			left = append(left, item.String())
		}
	})
	assert.Empty(t, left)
	assert.Equal(t, "cancelled", w.checker.ledger[run].Status)
	assert.Empty(t, w.checker.slots)
}

// A worker is suspended between the commit before a call and the call itself, until just before its lease ends by its
// own clock. Another process's clock is ahead, and the lease has ended by that.
func TestAClockThatIsAheadDoesNotTakeACallFromUnderALease(t *testing.T) {
	w, run := calm(t, func(*world) {}, "/sleep 2s\n/tool effect {}")
	require.Equal(t, lifecycle.Running, w.checker.runs[run].Status)
	w.skew = borne
	w.deploy("ahead")
	w.processes[1].astray = borne
	stood := false
	after := func() {
		if r := w.checker.runs[run]; !stood && r.Steps > 0 {
			stood = true
			w.checker.holders[run].frozen = w.now.Add(lease - time.Second)
			w.deliver(queue.Message{Wakeup: events.Wakeup{Kind: events.WakeupRun, ID: run}}, lease-borne+time.Second)
		}
	}
	w.run(w.now.Add(10*time.Minute), after)
	require.True(t, stood)
	require.Empty(t, w.failure)
	assert.Equal(t, lifecycle.Completed, w.checker.runs[run].Status)
	assert.Equal(t, 2, w.checker.runs[run].Attempt, "it was taken over")
	for key, n := range w.checker.effects {
		assert.Equal(t, 1, n, key)
	}
}
