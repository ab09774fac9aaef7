package agents_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/api/httpapi/httpapitest"
)

// Pages of agents, and of the versions of one, end by their bytes, and have all rows together.
func TestPagesOfAgentsEndByTheirBytes(t *testing.T) {
	e := httpapitest.New(t)
	large := strings.Repeat("x", 250<<10)
	var made struct {
		AgentID string `json:"agent_id"`
	}
	for range 6 {
		w := e.Send("POST", "/agents", `{"name":"a","instructions":"`+large+`"}`)
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &made))
	}
	for n := range 5 {
		w := e.Send("PATCH", "/agents/"+made.AgentID, `{"instructions":"`+large[n+1:]+`"}`)
		require.Equal(t, http.StatusOK, w.Code, w.Body.String())
	}
	for path, want := range map[string]int{"/agents": 7, "/agents/" + made.AgentID + "/versions": 6} {
		rows, pages := 0, 0
		for cursor := ""; ; pages++ {
			w := e.Send("GET", path+"?limit=100&cursor="+cursor, "")
			require.Equal(t, http.StatusOK, w.Code, w.Body.String())
			assert.Less(t, w.Body.Len(), 1<<20+100<<10, path)
			var list struct {
				Agents, Versions []struct{}
				NextCursor       string `json:"next_cursor"`
			}
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &list))
			rows += len(list.Agents) + len(list.Versions)
			if cursor = list.NextCursor; cursor == "" {
				break
			}
		}
		assert.Equal(t, want, rows, path)
		assert.Positive(t, pages, path)
	}
}
