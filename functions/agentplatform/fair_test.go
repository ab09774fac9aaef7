package main

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// colleague makes another user of an admin's organization, and returns a client for that user.
func (p *program) colleague(name string) *program {
	user := p.make("/users", fmt.Sprintf(`{"email":"%s@example.com","role":"member"}`, name))["user_id"]
	key := p.make("/api-keys", fmt.Sprintf(`{"name":"k","user_id":%q,"level":"run"}`, user))["key"]
	return &program{t: p.t, url: p.url, key: fmt.Sprint(key)}
}

// resumed is the number of runs that the member resumes together: more than twice the number of workers.
const resumed = 40

// hog makes that many paused runs, one after the other, as the cap of five allows, and answers all of them. They then
// sleep for longer than the start deadline.
func (p *program) hog(agent string) (runs []string) {
	var clients sync.WaitGroup
	var chats atomic.Int64
	each := func(status int, form func(n int64) []string) {
		for chats.Store(0); chats.Load() < resumed; clients.Wait() {
			for range 4 {
				n := chats.Add(1)
				clients.Go(func() {
					got, v, err := p.post(p.t.Context(), form(n)...)
					assert.NoError(p.t, err)
					assert.Equal(p.t, status, got, "%v", v)
				})
			}
		}
	}
	chat := func(n int64) string { return fmt.Sprint("c", n) }
	each(http.StatusAccepted, func(n int64) []string {
		return []string{"agent_id", agent, "chat_id", chat(n), "message", "/ask Go on?\n/sleep 8s"}
	})
	each(http.StatusAccepted, func(n int64) []string {
		return []string{"agent_id", agent, "chat_id", chat(n), "message", "yes", "wait", "false"}
	})
	for _, run := range p.runs("limit=100") {
		runs = append(runs, fmt.Sprint(run["run_id"]))
	}
	require.Len(p.t, runs, resumed)
	return runs
}

// runs lists the runs of a query.
func (p *program) runs(query string) (list []map[string]any) {
	status, v, err := p.call(p.t.Context(), "GET", "/runs?"+query, "", nil)
	require.NoError(p.t, err)
	require.Equal(p.t, http.StatusOK, status, "%v", v)
	for _, one := range v["runs"].([]any) {
		list = append(list, one.(map[string]any))
	}
	return list
}

// asks sends messages one after the other, which must all be answered, and logs their times.
func (p *program) asks(who, agent string) {
	var took []time.Duration
	failed := 0
	for range 20 {
		began := time.Now()
		status, v, err := p.post(p.t.Context(), "agent_id", agent, "message", "hi")
		took = append(took, time.Since(began))
		assert.NoError(p.t, err)
		if !assert.Equal(p.t, http.StatusOK, status, "%s: %v", who, v["message"]) {
			failed++
		}
	}
	slices.Sort(took)
	p.t.Logf("%s: %d of %d failed, p50 %s, slowest %s", who, failed, len(took),
		took[len(took)/2].Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond))
}

// A member resumes more runs than there are workers, and each lasts longer than the start deadline. A colleague and
// another organization are served in that time, and nothing fails.
func TestResumedRunsLeaveWorkersToOthers(t *testing.T) {
	p := built(t)
	p.environ = []string{"WORKERS=16", "START_DEADLINE=5s"}
	p.start()
	defer p.stop()
	admin, agent := p.organization(50)
	other, otherAgent := p.organization(50)
	member, colleague := admin.colleague("hog"), admin.colleague("colleague")
	runs := member.hog(agent)
	var others sync.WaitGroup
	others.Go(func() { other.asks("another organization", otherAgent) })
	others.Go(func() { colleague.asks("a colleague", agent) })
	others.Wait()
	assert.NotEmpty(t, member.runs("status=queued"), "they are served before the member's own runs have all begun")
	for _, run := range runs {
		v := member.until(run, func(v map[string]any) bool { return v["finished_at"] != nil })
		assert.Equal(t, "completed", v["status"], "%v", v["error"])
	}
}
