package runs_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/httpapi"
	"agentplatform/internal/httpapi/httpapitest"
	"agentplatform/internal/lifecycle"
	"agentplatform/internal/record"
	"agentplatform/internal/transition"
)

// completed is a run that has ended with a long answer.
func completed(t *testing.T, e httpapitest.API, chat string, size int) string {
	t.Helper()
	run := e.Begin(t, "chat_id", chat).RunID
	result := json.RawMessage(fmt.Sprintf(`{"answer":%q}`, strings.Repeat("x", size)))
	for _, c := range []transition.Change{
		{Event: lifecycle.Claim{Holder: "w", Until: time.Now().Add(time.Hour)}},
		{Event: lifecycle.Complete{Work: lifecycle.Work{Attempt: 1}}, Result: result},
	} {
		_, _, err := e.Executor.Do(t.Context(), record.System(), run,
			func(record.Run, *record.Tx) (transition.Change, error) { return c, nil })
		require.NoError(t, err)
	}
	return run
}

// Lists of what is large end their pages by their bytes; the next page goes on where one ended, with nothing left out
// or shown twice.
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
