package runs_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/api/httpapi/httpapitest"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/store/record"
)

// completed is a run that has ended with a long answer.
func completed(t *testing.T, e httpapitest.API, chat string, size int) string {
	t.Helper()
	run := e.Begin(t, "chat_id", chat).RunID
	result := json.RawMessage(fmt.Sprintf(`{"answer":%q,"files":[],"citations":[]}`, strings.Repeat("x", size)))
	for _, c := range []transition.Change{
		{Event: lifecycle.Claim{Holder: "w", Until: time.Now().Add(time.Hour)}},
		{Event: lifecycle.Complete{Work: lifecycle.Work{Attempt: 1}}, Result: result},
	} {
		_, err := e.Executor.Do(t.Context(), record.System(), run,
			func(record.Run, *record.Tx) (transition.Change, error) { return c, nil })
		require.NoError(t, err)
	}
	return run
}

// A filter by time uses the times that runs show, however long their messages waited. A client that reads one span
// after the other sees each run once. So it is with runs that earlier versions stored.
func TestSpansOfTimeHaveEachRunOnce(t *testing.T) {
	e := httpapitest.New(t)
	store, now := e.Executor.Store, time.Now().UTC().Truncate(time.Millisecond)
	var runs []string
	for hour := range 12 {
		run, err := store.Run(t.Context(), record.System(), e.Begin(t, "chat_id", fmt.Sprint("c", hour)).RunID)
		require.NoError(t, err)
		spec := run.Value.RunSpec
		came := now.Add(-time.Duration(hour) * time.Hour)
		spec.RunID = host.FormatID(came, 7)
		r := record.Run{Run: lifecycle.Accept(spec, lifecycle.ChatPosition{Turn: 9}, came, now)}
		r.Input = run.Value.Input
		switch hour % 3 {
		case 0:
			r.CreatedAt = now // as earlier versions did when the message had been parked
		case 1:
			r.QueuedAt = now
		}
		tx := store.Begin(e.Executor.Host.NewID())
		tx.PutRun(record.Fresh(r))
		require.NoError(t, tx.Commit(t.Context()))
		require.Equal(t, http.StatusOK, e.Send("POST", "/runs/"+run.Value.ID()+"/cancel", "").Code)
		runs = append(runs, spec.RunID)
	}
	for _, step := range []time.Duration{time.Hour, 97 * time.Minute, 5 * time.Hour} {
		seen := map[string]int{}
		for to := now.Add(time.Hour); to.After(now.Add(-14 * time.Hour)); to = to.Add(-step) {
			after, before := to.Add(-step-time.Millisecond).Format(time.RFC3339Nano), to.Format(time.RFC3339Nano)
			for cursor := ""; ; {
				w := e.Send("GET", "/runs?limit=2&created_after="+after+"&created_before="+before+cursor, "")
				require.Equal(t, http.StatusOK, w.Code, w.Body)
				var list struct {
					Runs []struct {
						RunID     string    `json:"run_id"`
						CreatedAt time.Time `json:"created_at"`
					} `json:"runs"`
					Next *string `json:"next_cursor"`
				}
				require.NoError(t, json.Unmarshal(w.Body.Bytes(), &list))
				for _, r := range list.Runs {
					assert.WithinRange(t, r.CreatedAt, to.Add(-step), to)
					seen[r.RunID]++
				}
				if list.Next == nil {
					break
				}
				cursor = "&cursor=" + *list.Next
			}
		}
		for _, run := range runs {
			assert.Equal(t, 1, seen[run], "%s in steps of %s", run, step)
		}
	}
}

// Pages of large rows end by their bytes. The next page goes on where one ended, and no row is left out or sent twice.
func TestListsOfWhatIsLargeHaveSmallPages(t *testing.T) {
	const size, most = 300 << 10, 1<<20 + 4<<10 // of an answer, of a page with its frame
	e := httpapitest.New(t)
	var runs []string
	for range 8 {
		runs = append(runs, completed(t, e, "c", size))
	}
	for path, c := range map[string]struct {
		member string
		rows   int
	}{
		"/runs":             {"runs", 8},
		"/chats/c/runs":     {"runs", 8},
		"/chats/c/messages": {"messages", 16},
	} {
		pages, cursor, seen := 0, "", []string{}
		for {
			require.Less(t, pages, 20, path)
			w := e.Do(
				httptest.NewRequest(
					http.MethodGet, httpapi.Base+path+"?limit=100&cursor="+url.QueryEscape(cursor), nil,
				),
			)
			require.Equal(t, http.StatusOK, w.Code, w.Body)
			assert.LessOrEqual(t, w.Body.Len(), most, path)
			var list map[string]json.RawMessage
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &list))
			var rows []struct {
				RunID string `json:"run_id"`
				Role  string `json:"role"`
			}
			require.NoError(t, json.Unmarshal(list[c.member], &rows))
			require.NotEmpty(t, rows, path)
			for _, r := range rows {
				assert.NotContains(t, seen, r.RunID+r.Role, path)
				seen = append(seen, r.RunID+r.Role)
			}
			pages++
			var next *string
			require.NoError(t, json.Unmarshal(list["next_cursor"], &next))
			if next == nil {
				break
			}
			cursor = *next
		}
		assert.Len(t, seen, c.rows, path)
		assert.Greater(t, pages, 1, path)
		for _, run := range runs {
			assert.Contains(t, strings.Join(seen, " "), run, path)
		}
	}
}

// The slots of active runs are read once for an answer over any number of pages, and each run is in one page.
func TestSlotsAreReadOnceForAPageOfActiveRuns(t *testing.T) {
	e := httpapitest.New(t)
	var all []string
	for n := range 60 {
		all = append(all, e.Begin(t, "chat_id", fmt.Sprint("c", n)).RunID)
	}
	waits := e.Begin(t).RunID
	pauses(t, e, waits, 1)
	all = append(all, waits)
	slices.Sort(all)
	slices.Reverse(all)
	page := func(query string) (seen []string, next *string) {
		w := e.Send("GET", "/runs?status=queued,running,awaiting_input&"+query, "")
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		var list struct {
			Runs []struct {
				RunID string `json:"run_id"`
			} `json:"runs"`
			Next *string `json:"next_cursor"`
		}
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &list))
		for _, r := range list.Runs {
			seen = append(seen, r.RunID)
		}
		return seen, list.Next
	}
	before := e.Items.Queries.Load()
	none, next := page("limit=1&user_id=" + strings.Repeat("0", 24))
	assert.Equal(t, []any{0, (*string)(nil)}, []any{len(none), next})
	assert.Equal(t, int64(2+16), e.Items.Queries.Load()-before,
		"those that wait, and all; the shards of large caps are empty")
	for _, limit := range []int{1, 7, 61, 100} {
		var seen []string
		for cursor := ""; ; {
			some, next := page(fmt.Sprint("limit=", limit, cursor))
			if seen = append(seen, some...); next == nil {
				break
			}
			cursor = "&cursor=" + *next
		}
		assert.Equal(t, all, seen)
	}
}

// Pages of a conversation have each message once, in order, at any page end; after the last message there is none.
func TestPagesOfAConversationHaveEachMessageOnce(t *testing.T) {
	e := httpapitest.New(t)
	var want []string
	for range 3 {
		run := completed(t, e, "c", 10)
		want = append(want, run+" user", run+" assistant")
	}
	want = append(want, e.Begin(t, "chat_id", "c").RunID+" user")
	for limit := range 8 {
		var seen []string
		pages := 0
		for cursor := ""; ; pages++ {
			w := e.Send("GET", fmt.Sprintf("/chats/c/messages?limit=%d%s", limit+1, cursor), "")
			require.Equal(t, http.StatusOK, w.Code, w.Body.String())
			var page struct {
				Messages []struct {
					Role  string `json:"role"`
					RunID string `json:"run_id"`
				} `json:"messages"`
				Next *string `json:"next_cursor"`
			}
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &page))
			for _, m := range page.Messages {
				seen = append(seen, m.RunID+" "+m.Role)
			}
			if page.Next == nil {
				break
			}
			cursor = "&cursor=" + *page.Next
		}
		assert.Equal(t, want, seen, "%d a page", limit+1)
		assert.Equal(t, (len(want)-1)/(limit+1), pages, "%d a page", limit+1)
	}
}
