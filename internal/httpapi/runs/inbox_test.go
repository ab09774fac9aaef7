package runs_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/httpapi"
	"agentplatform/internal/httpapi/httpapitest"
)

// A wait for the inbox ends with its client, and when the server stops, at once and with nothing left of it.
func TestAWaitForTheInboxLeavesNothing(t *testing.T) {
	const patience = 10 * time.Second
	for name, c := range map[string]struct {
		end    func(e httpapitest.API, gone context.CancelFunc)
		status int // 0: nobody reads it
	}{
		"its client goes":  {func(_ httpapitest.API, gone context.CancelFunc) { gone() }, 0},
		"the server stops": {func(e httpapitest.API, _ context.CancelFunc) { e.Stop() }, http.StatusOK},
	} {
		e := httpapitest.New(t)
		e.Send("GET", "/interrupts", "")
		before := runtime.NumGoroutine()
		ctx, gone := context.WithCancel(t.Context())
		answers := make(chan *httptest.ResponseRecorder, 50)
		for range cap(answers) {
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, httpapi.Base+"/interrupts?wait_ms=20000", nil)
			go func() { answers <- e.Do(r) }()
		}
		require.Eventually(t, func() bool { return runtime.NumGoroutine() >= before+2*cap(answers) }, patience,
			time.Millisecond, "%s: they wait", name)
		c.end(e, gone)
		for range cap(answers) {
			select {
			case w := <-answers:
				if c.status != 0 {
					assert.Equal(t, c.status, w.Code, name)
				}
			case <-time.After(patience):
				require.Fail(t, name+": a wait goes on")
			}
		}
		assert.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+2 }, patience, time.Millisecond,
			"%s: nothing is left", name)
		gone()
	}
}
