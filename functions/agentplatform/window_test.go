package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A client of Open Responses that neither streams nor polls takes the first answer for the final one. With nothing
// between it and the process, it gets the answer when the run has ended. Other clients get it after the observe window.
// A stop of the process waits for none of them.
func TestAResponseIsWaitedForLongerThanARun(t *testing.T) {
	t.Parallel()
	p := built(t)
	p.dir, p.environ = t.TempDir(), []string{"OBSERVE_WINDOW=1ms"}
	p.start()
	stop := func() { p.stop() }
	defer func() { stop() }()
	respond := func(input string) (map[string]any, error) {
		status, answer, err := p.call(t.Context(), http.MethodPost, "/responses", "application/json",
			strings.NewReader(`{"model":"Demo","input":"`+input+`"}`))
		if err == nil {
			assert.Equal(t, http.StatusOK, status, answer)
		}
		return answer, err
	}
	answer, err := respond(`hi\n/sleep 1s`)
	require.NoError(t, err)
	assert.Equal(t, "completed", answer["status"])
	assert.NotEmpty(t, answer["output"])
	waits := make(chan map[string]any, 1)
	go func() {
		answer, err := respond("/sleep 60s")
		assert.NoError(t, err)
		waits <- answer
	}()
	require.Eventually(t, func() bool {
		_, list, err := p.call(t.Context(), http.MethodGet, "/runs?status=running", "", nil)
		runs, _ := list["runs"].([]any)
		return err == nil && len(runs) == 1
	}, time.Minute, 20*time.Millisecond)
	began := time.Now()
	stop = func() {}
	p.stop()
	assert.Less(t, time.Since(began), 30*time.Second, "the call of its model would take twice as long, the window more")
	assert.Contains(t, []any{"queued", "in_progress"}, (<-waits)["status"], "its run is handed over meanwhile")
}
