package reports_test

import (
	"encoding/csv"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/api/httpapi/httpapitest"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/store/record"
)

func TestTheLedgerIsJSONOrCSV(t *testing.T) {
	e := httpapitest.New(t)
	run := e.Begin(t).RunID
	require.Equal(t, http.StatusOK, e.Send("POST", "/runs/"+run+"/cancel", "").Code)
	read := func(accept string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, httpapi.Base+"/analytics/usage", nil)
		r.Header.Set("Accept", accept)
		return e.Do(r)
	}
	w := read("application/json")
	assert.Contains(t, w.Body.String(), `"run_id":"`+run+`"`)
	assert.Contains(t, w.Body.String(), `"kind":"run","entry_id":"`+run+`","document_id":""`)
	assert.Equal(t, "application/json", w.Header().Get("Content-Type"))
	r := httptest.NewRequest(http.MethodGet, httpapi.Base+"/analytics/usage", nil)
	r.Header.Set("If-None-Match", w.Header().Get("ETag"))
	known := e.Do(r)
	assert.Equal(t, http.StatusNotModified, known.Code)
	assert.Empty(t, known.Body.String())
	w = read("text/csv")
	lines := strings.Split(strings.TrimSpace(w.Body.String()), "\n")
	require.Len(t, lines, 2)
	assert.True(t, strings.HasPrefix(lines[0], "run_id,chat_id,"), lines[0])
	assert.True(t, strings.HasSuffix(lines[0],
		",kind,entry_id,document_id,knowledge_base_id,api_key_id,model,attempts,queue_ms,cost,models"), lines[0])
	assert.True(t, strings.HasPrefix(lines[1], run+","), lines[1])
	assert.Contains(t, lines[1], ",run,"+run+",,,")
}

// The ledger has the tokens of each model, in JSON and in CSV, also of entries of earlier versions.
func TestTheLedgerHasTheTokensOfEachModel(t *testing.T) {
	e := httpapitest.New(t)
	used := lifecycle.Usage{InputTokens: 30, OutputTokens: 5}
	searched := used
	searched.Embedded = searched.Embedded.With(lifecycle.Embedded{Model: "openai/small", Tokens: 12})
	at := time.Now().Add(-time.Minute).UTC().Truncate(time.Millisecond)
	organization := host.FormatID(at, 9)
	tx := e.Executor.Store.Begin(e.Executor.Host.NewID())
	record.PutResource(tx, record.Fresh(catalog.Organization{ID: organization}))
	for n, r := range []lifecycle.Run{
		{RunSpec: lifecycle.RunSpec{Model: "bedrock/us.a/b"}, Usage: searched},
		{RunSpec: lifecycle.RunSpec{Model: "demo/demo"}, Usage: used},
		{RunSpec: lifecycle.RunSpec{Model: "demo/demo"}},
		{Usage: used}, // of an earlier version
	} {
		r.RunID, r.Organization = host.FormatID(at, uint64(n)), organization
		r.Status, r.FinishedAt = lifecycle.Completed, at.Add(time.Duration(n)*time.Second)
		tx.PutCharge(r)
	}
	require.NoError(t, tx.Commit(t.Context()))
	want := []string{ // the newest first
		`[{"provider":"","model":"","input_tokens":30,"output_tokens":5}]`,
		`[]`,
		`[{"provider":"demo","model":"demo","input_tokens":30,"output_tokens":5}]`,
		`[{"provider":"bedrock","model":"us.a/b","input_tokens":18,"output_tokens":5},` +
			`{"provider":"openai","model":"small","input_tokens":12,"output_tokens":0}]`,
	}
	r := httptest.NewRequest(http.MethodGet, httpapi.Base+"/analytics/usage", nil)
	r.Header.Set("X-Organization", organization)
	var list struct {
		Entries []struct {
			Models json.RawMessage `json:"models"`
		} `json:"entries"`
	}
	require.NoError(t, json.Unmarshal(e.Do(r).Body.Bytes(), &list))
	r.Header.Set("Accept", "text/csv")
	table, err := csv.NewReader(e.Do(r).Body).ReadAll()
	require.NoError(t, err)
	require.Len(t, table, len(want)+1)
	for n, models := range want {
		assert.Equal(t, models, string(list.Entries[n].Models))
		assert.Equal(t, models, table[n+1][len(table[0])-1])
	}
}

// A page of the ledger reads a bounded number of days, filtered or not, however few entries there are.
func TestAPageOfTheLedgerReadsABoundedPart(t *testing.T) {
	e := httpapitest.New(t)
	organization := host.FormatID(time.Now().AddDate(-2, 0, 0), 1)
	store := e.Executor.Store
	founding := store.Begin(e.Executor.Host.NewID())
	record.PutResource(founding, record.Fresh(catalog.Organization{ID: organization}))
	require.NoError(t, founding.Commit(t.Context()))
	for week := range 104 {
		tx := store.Begin(e.Executor.Host.NewID())
		at := time.Now().AddDate(0, 0, -7*week).UTC().Truncate(time.Millisecond)
		tx.PutCharge(lifecycle.Run{RunSpec: lifecycle.RunSpec{
			RunID: host.FormatID(at, 1), Organization: organization, User: e.Agent,
		}, FinishedAt: at, Status: lifecycle.Completed})
		require.NoError(t, tx.Commit(t.Context()))
	}
	for query, want := range map[string]int{
		"limit=100": 104, "limit=3": 104, "limit=1&user_id=" + e.Agent: 104, "limit=1&user_id=" + organization: 0,
	} {
		seen, cursor := 0, ""
		for pages := 0; ; pages++ {
			require.Less(t, pages, 120, query)
			r := httptest.NewRequest(http.MethodGet, httpapi.Base+"/analytics/usage?"+query+cursor, nil)
			r.Header.Set("X-Organization", organization)
			before := e.Items.Queries.Load()
			w := e.Do(r)
			require.Equal(t, http.StatusOK, w.Code, w.Body.String())
			assert.LessOrEqual(t, int(e.Items.Queries.Load()-before), 4*record.LedgerDays, query)
			var list struct {
				Entries []any   `json:"entries"`
				Next    *string `json:"next_cursor"`
			}
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &list))
			if seen += len(list.Entries); list.Next == nil {
				break
			}
			cursor = "&cursor=" + *list.Next
		}
		assert.Equal(t, want, seen, query)
	}
}

// The audit log has each change, with its operation's name in the document and its actor.
func TestTheAuditLogNamesOperations(t *testing.T) {
	e := httpapitest.New(t)
	require.Equal(t, http.StatusOK, e.Send("PATCH", "/agents/"+e.Agent, `{"description":"d"}`).Code)
	require.Equal(t, http.StatusOK, e.Send("GET", "/agents/"+e.Agent+"/export", "").Code)
	log := e.Send("GET", "/audit-log", "").Body.String()
	for _, want := range []string{
		`"operation":"edit-agent"`, `"operation":"export-agent"`, `"changed":["description"`, e.Agent,
	} {
		assert.Contains(t, log, want)
	}
}
