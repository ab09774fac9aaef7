package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var rounds = flag.Int("rounds", 4, "how often the process is killed")

// The real process is killed under load, several times. No accepted run is lost, none is billed twice, and in the end
// every lock and slot is free.
func TestKillNine(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test runs it")
	}
	p := built(t)
	p.start()
	l := &load{program: p, accepted: map[string]string{}, parked: map[string]bool{}, unknown: map[string][]string{}}
	l.learn()
	for round := range *rounds {
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for n := range 12 {
			wg.Go(func() { l.work(ctx, round, n) })
		}
		// The random moment of the kill is the point of this test.
		<-time.After(time.Duration(50+rand.IntN(700)) * time.Millisecond)
		p.kill()
		cancel()
		wg.Wait()
		began := time.Now()
		p.start()
		t.Logf("round %d: %d runs accepted so far, %d unanswered, serving again after %s", round, len(l.accepted),
			len(l.unknown), time.Since(began).Round(time.Millisecond))
		l.retry()
	}
	l.settle()
	p.stop()
}

// load is the clients' knowledge of their requests.
type load struct {
	*program
	agent string

	mu       sync.Mutex
	accepted map[string]string   // idempotency key -> run
	parked   map[string]bool     // ids of messages whose parking was confirmed
	unknown  map[string][]string // idempotency key -> the form whose response was lost
}

func (l *load) learn() {
	_, v, err := l.call(l.t.Context(), "GET", "/agents", "", nil)
	require.NoError(l.t, err)
	l.agent = v["agents"].([]any)[0].(map[string]any)["agent_id"].(string)
}

var loadMessages = []string{"hello", "/sleep 30ms", "/sleep 400ms\n/tool echo {\"text\":\"t\"}\n/sleep 100ms",
	"/fail no", strings.Repeat("long ", 4000), "/tool calculate {\"expression\":\"1+1\"}"}

func (l *load) work(ctx context.Context, round, n int) {
	for i := 0; ctx.Err() == nil; i++ {
		key := fmt.Sprintf("%d-%d-%d", round, n, i)
		form := []string{"agent_id", l.agent, "message", loadMessages[rand.IntN(len(loadMessages))],
			"wait", "false", "idempotency_key", key, "on_conflict", "enqueue"}
		if rand.IntN(2) == 0 {
			form = append(form, "chat_id", fmt.Sprint("chat-", rand.IntN(10)))
		}
		l.send(ctx, key, form)
	}
}

func (l *load) send(ctx context.Context, key string, form []string) {
	status, v, err := l.post(ctx, form...)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		l.unknown[key] = form
	case status == 409: // five are parked already
		delete(l.unknown, key)
	case status == 202 || status == 200 || status == 500 && v["code"] == "run_failed":
		delete(l.unknown, key)
		l.note(key, v)
	default:
		assert.Fail(l.t, "an answer that must not be", "%d %v", status, v)
	}
}

func (l *load) note(key string, v map[string]any) {
	run := v["run_id"].(string)
	if parked, ok := v["parked"].(map[string]any); ok {
		run = parked["parked_id"].(string)
		l.parked[run] = true
	}
	if before, ok := l.accepted[key]; ok {
		assert.Equal(l.t, before, run, "key %s", key)
	}
	l.accepted[key] = run
}

// retry sends requests without response again, with the same key.
func (l *load) retry() {
	for key, form := range l.unknown {
		l.send(l.t.Context(), key, form)
	}
}

// settle waits until all runs have ended and checks the guarantees against the stored data.
func (l *load) settle() {
	ctx, cancel := context.WithTimeout(l.t.Context(), 2*time.Minute)
	defer cancel()
	ends := map[string]string{}
	for _, run := range l.accepted {
		for {
			status, v, err := l.call(ctx, "GET", "/runs/"+run+"?wait_ms=5000", "", nil)
			require.NoError(l.t, err, run)
			if status == 200 && v["finished_at"] != nil {
				ends[run] = v["status"].(string)
				break
			}
			require.True(l.t, status == 200 || status == 404 && l.parked[run], "%d %v", status, v)
			tick(ctx)
		}
	}
	entries := map[string]int{}
	for cursor := ""; ; {
		_, v, err := l.call(ctx, "GET", "/analytics/usage?limit=100"+cursor, "", nil)
		require.NoError(l.t, err)
		for _, e := range v["entries"].([]any) {
			e := e.(map[string]any)
			run := e["run_id"].(string)
			entries[run]++
			if end, ours := ends[run]; ours {
				assert.Equal(l.t, end, e["status"])
				assert.Equal(l.t, end == "completed", e["billed"])
			}
		}
		next, more := v["next_cursor"].(string)
		if !more {
			break
		}
		cursor = "&cursor=" + next
	}
	counts := map[string]int{}
	for run, end := range ends {
		assert.Equal(l.t, 1, entries[run], "ledger entries of %s", run)
		counts[end]++
	}
	_, me, err := l.call(ctx, "GET", "/me", "", nil)
	require.NoError(l.t, err)
	assert.EqualValues(l.t, 0, me["activity"].(map[string]any)["active_runs_of_user"], "slots are held by nobody")
	for n := range 10 {
		status, v, err := l.post(ctx, "agent_id", l.agent, "message", "x", "chat_id", fmt.Sprint("chat-", n))
		require.NoError(l.t, err)
		assert.Equal(l.t, 200, status, "chat %d: %v", n, v)
	}
	l.t.Logf("%d runs: %v", len(ends), counts)
	assert.Positive(l.t, counts["completed"])
}

// tick waits between two polls.
func tick(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(20 * time.Millisecond):
	}
}

// At a stop, a model call in progress ends and is not repeated after the restart, unless it takes too long.
func TestAModelCallInProgressEndsBeforeAStop(t *testing.T) {
	t.Parallel()
	p := built(t)
	p.environ = []string{"LEASE=30s"} // a slow machine renews it in time
	p.start()
	_, v, err := p.call(t.Context(), "GET", "/agents", "", nil)
	require.NoError(t, err)
	agent := v["agents"].([]any)[0].(map[string]any)["agent_id"].(string)
	begin := func(message string) string {
		status, v, err := p.post(t.Context(), "agent_id", agent, "message", message, "wait", "false")
		require.NoError(t, err)
		require.Equal(t, 202, status, v)
		run := v["run_id"].(string)
		p.until(run, func(v map[string]any) bool { return v["status"] != "queued" })
		return run
	}
	long, short := begin("/sleep 30s\ndone"), begin("/sleep 1s\ndone")
	p.stop()
	p.start()
	for run, attempts := range map[string]float64{short: 1, long: 2} {
		v := p.until(run, func(v map[string]any) bool { return v["status"] == "completed" })
		assert.Equal(t, attempts, v["attempt"])
		assert.Equal(t, attempts, v["usage"].(map[string]any)["model_calls"], "one that was cut short counts")
	}
	p.stop()
}

// until polls a run until it satisfies a condition.
func (p *program) until(run string, as func(map[string]any) bool) map[string]any {
	for ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute); ; {
		_, v, err := p.call(ctx, "GET", "/runs/"+run, "", nil)
		require.NoError(p.t, err)
		if as(v) {
			cancel()
			return v
		}
		<-time.After(50 * time.Millisecond)
	}
}
