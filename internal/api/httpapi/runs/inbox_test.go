package runs_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/events"
	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/api/httpapi/httpapitest"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/store/record"
)

// A wait for the inbox ends with its client, and when the server stops. It ends immediately, and leaves nothing.
func TestAWaitForTheInboxLeavesNothing(t *testing.T) {
	const patience = 10 * time.Second
	for name, c := range map[string]struct {
		end    func(e httpapitest.API, gone context.CancelFunc)
		status int // 0: the client does not read it
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
		require.Eventually(t, func() bool {
			stacks := make([]byte, 4<<20)
			return bytes.Count(stacks[:runtime.Stack(stacks, true)], []byte("(*Hub).UntilInbox(")) == cap(answers)
		}, patience, time.Millisecond, "%s: they wait", name)
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

// pauses has a run wait for a human, for as many answers.
func pauses(t *testing.T, e httpapitest.API, run string, answers int) {
	t.Helper()
	pause := lifecycle.Pause{Work: lifecycle.Work{Attempt: 1}, ExpiresAt: time.Now().Add(time.Hour)}
	var list []record.Interrupt
	for n := range answers {
		i := events.Interrupt{ID: fmt.Sprintf("%s-%d", run, n), Kind: string(lifecycle.Clarification), Prompt: "Which?",
			CreatedAt: events.Time(time.Now())}
		pause.Interrupts = append(pause.Interrupts, lifecycle.Pending{ID: i.ID, Kind: lifecycle.Clarification})
		list = append(list, record.Interrupt{Interrupt: i})
	}
	for _, c := range []transition.Change{
		{Event: lifecycle.Claim{Holder: "w", Until: time.Now().Add(time.Hour)}}, {Event: pause, Interrupts: list},
	} {
		_, err := e.Executor.Do(t.Context(), record.System(), run,
			func(record.Run, *record.Tx) (transition.Change, error) { return c, nil })
		require.NoError(t, err)
	}
}

// The rows that an answer of the inbox reads have a bound, with any number of waiting runs. Page by page a reader gets
// all of them.
func TestAnInboxOfThousandsIsReadInParts(t *testing.T) {
	e := httpapitest.New(t)
	var all []string
	for range 1031 {
		all = append(all, e.Begin(t).RunID)
	}
	last := all[0] // the oldest run, and the one that has waited the shortest
	for _, run := range all[1:] {
		pauses(t, e, run, 1)
	}
	pauses(t, e, last, 3)
	waiting, err := e.Executor.Store.Runs(t.Context(), record.System(), all...)
	require.NoError(t, err)
	slices.SortFunc(waiting, func(a, b record.RunEntity) int {
		return cmp.Or(cmp.Compare(a.Value.PausedAt.UnixMilli(), b.Value.PausedAt.UnixMilli()),
			strings.Compare(a.Value.ID(), b.Value.ID()))
	})
	var want []string
	for _, e := range waiting {
		want = append(want, slices.Repeat([]string{e.Value.ID()}, len(e.Value.Interrupts))...)
	}
	var seen []string
	for cursor := ""; ; {
		before := e.Items.Items.Load()
		w := e.Send("GET", "/interrupts?limit=100"+cursor, "")
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		slots := int64(len(all))
		assert.LessOrEqual(t, e.Items.Items.Load()-before, slots+1000+1000+100+50, "slots, heads twice, a page")
		var list struct {
			Interrupts []struct {
				RunID string `json:"run_id"`
			} `json:"interrupts"`
			Total   int     `json:"total"`
			Waiting int     `json:"waiting"`
			Next    *string `json:"next_cursor"`
		}
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &list))
		assert.Equal(t, []int{1000, 1000}, []int{list.Total, list.Waiting})
		for _, i := range list.Interrupts {
			seen = append(seen, i.RunID)
		}
		if list.Next == nil {
			break
		}
		cursor = "&cursor=" + *list.Next
	}
	assert.Equal(t, want, seen)
}

// A run goes on, and waits again, between the reads of the slots and of the heads. Its new place is in the next answer.
// This answer must not end at that place: nobody would see the runs in between.
func TestWhoWaitsAgainMeanwhileHidesNothing(t *testing.T) {
	e := httpapitest.New(t)
	first, second := e.Begin(t).RunID, e.Begin(t).RunID
	pauses(t, e, second, 1)
	pauses(t, e, first, 1)
	head, err := e.Executor.Store.Run(t.Context(), record.System(), first)
	require.NoError(t, err)
	before := head.Value // as the slots were read
	before.Slots.Organization = lifecycle.PausedSlot(time.UnixMilli(1), first)
	tx := e.Executor.Store.Begin(e.Executor.Host.NewID())
	tx.MoveSlots(head.Value.Run, before.Run)
	require.NoError(t, tx.Commit(t.Context()))
	w := e.Send("GET", "/interrupts?limit=1", "")
	assert.Contains(t, w.Body.String(), second)
	assert.NotContains(t, w.Body.String(), first)
}

// A refusal of a wrong value in a query's list names the member, not a place in the list.
func TestAWrongStatusIsNamed(t *testing.T) {
	w := httpapitest.New(t).Send("GET", "/runs?status=running,sleeping", "")
	assert.Contains(t, w.Body.String(), `"location":"query.status"`)
}

// The pauses of a run are read in small pages, with any number and any size of pauses.
func TestAllThatARunHasWaitedForIsRead(t *testing.T) {
	e := httpapitest.New(t)
	run := e.Begin(t).RunID
	head, err := e.Executor.Store.Run(t.Context(), record.System(), run)
	require.NoError(t, err)
	var all []string
	for pause := 1; pause <= 130; pause++ {
		var list []record.Interrupt
		var decisions record.Decisions
		for n := range 3 {
			i := events.Interrupt{ID: fmt.Sprintf("%03d-%d", pause, n), Kind: string(lifecycle.Clarification),
				Prompt: "Which?", CreatedAt: events.Time(time.Now())}
			if pause > 126 {
				i.Prompt = strings.Repeat("x", 300<<10)
			}
			list, all = append(list, record.Interrupt{Interrupt: i}), append(all, i.ID)
			decisions.List = append(decisions.List, record.Decision{
				InterruptID: i.ID, Decision: "answer", Message: "this",
			})
		}
		tx := e.Executor.Store.Begin(e.Executor.Host.NewID())
		tx.PutPause(t.Context(), head.Value, pause, list)
		if pause < 130 {
			tx.PutDecisions(t.Context(), head.Value, pause, decisions)
		}
		require.NoError(t, tx.Commit(t.Context()))
	}
	for _, query := range []string{"", "limit=7", "limit=30"} {
		var seen []string
		for cursor := ""; ; {
			before := e.Items.Items.Load()
			w := e.Send("GET", "/runs/"+run+"/interrupts?"+query+cursor, "")
			require.Equal(t, http.StatusOK, w.Code, w.Body)
			assert.LessOrEqual(t, w.Body.Len(), 3<<20/2)
			assert.LessOrEqual(t, e.Items.Items.Load()-before, int64(120))
			var list struct {
				Interrupts []struct {
					ID       string           `json:"id"`
					Decision *json.RawMessage `json:"decision"`
				} `json:"interrupts"`
				Next *string `json:"next_cursor"`
			}
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &list))
			for _, i := range list.Interrupts {
				assert.Equal(t, i.ID < "130", i.Decision != nil, i.ID)
				seen = append(seen, i.ID)
			}
			if list.Next == nil {
				break
			}
			cursor = "&cursor=" + *list.Next
		}
		assert.Equal(t, all, seen, query)
	}
	w := e.Send("GET", "/runs/"+run+"/interrupts?cursor="+*httpapi.EncodeCursor("x"), "")
	assert.Equal(t, http.StatusBadRequest, w.Code, w.Body)
}
