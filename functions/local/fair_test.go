package main

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// colleague makes another user of an admin's organization, and returns a client who is that user.
func (p *program) colleague(name string) *program {
	user := p.make("/users", fmt.Sprintf(`{"email":"%s@example.com","role":"member"}`, name))["user_id"]
	key := p.make("/api-keys", fmt.Sprintf(`{"name":"k","user_id":%q,"level":"run"}`, user))["key"]
	return &program{t: p.t, url: p.url, key: fmt.Sprint(key)}
}

// resumed is how many runs the member resumes together: more than twice as many as there are workers.
const resumed = 40

// hog makes that many paused runs, one after the other, as the cap of five allows, and answers all of them. They then
// sleep for longer than a run may wait for its start.
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

// runs lists the runs that a query finds.
func (p *program) runs(query string) (list []map[string]any) {
	status, v, err := p.call(p.t.Context(), "GET", "/runs?"+query, "", nil)
	require.NoError(p.t, err)
	require.Equal(p.t, http.StatusOK, status, "%v", v)
	for _, one := range v["runs"].([]any) {
		list = append(list, one.(map[string]any))
	}
	return list
}

// A member resumes more runs than there are workers, and each lasts for longer than the start deadline. A colleague
// and another organization are served meanwhile, and nothing fails.
func TestResumedRunsLeaveWorkersToOthers(t *testing.T) {
	p := built(t)
	p.environ = []string{"WORKERS=16", "START_DEADLINE=5s"}
	p.start()
	defer p.stop()
	admin, agent := p.organization(50)
	other, otherAgent := p.organization(50)
	member, colleague := admin.colleague("hog"), admin.colleague("colleague")
	runs := member.hog(agent)
	for who, asks := range map[string]func() (int, map[string]any, error){
		"another organization": func() (int, map[string]any, error) {
			return other.post(t.Context(), "agent_id", otherAgent, "message", "hi")
		},
		"a colleague": func() (int, map[string]any, error) {
			return colleague.post(t.Context(), "agent_id", agent, "message", "hi")
		},
	} {
		status, v, err := asks()
		require.NoError(t, err)
		assert.Equal(t, http.StatusOK, status, "%s: %v", who, v)
	}
	assert.NotEmpty(t, member.runs("status=queued"), "they are served before the member's own runs have all begun")
	for _, run := range runs {
		v := member.until(run, func(v map[string]any) bool { return v["finished_at"] != nil })
		assert.Equal(t, "completed", v["status"], "%v", v["error"])
	}
}
