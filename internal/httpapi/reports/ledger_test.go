package reports_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/httpapi"
	"agentplatform/internal/httpapi/httpapitest"
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
	w = read("text/csv")
	lines := strings.Split(strings.TrimSpace(w.Body.String()), "\n")
	require.Len(t, lines, 2)
	assert.True(t, strings.HasPrefix(lines[0], "run_id,chat_id,"), lines[0])
	assert.True(t, strings.HasSuffix(lines[0],
		",kind,entry_id,document_id,knowledge_base_id,api_key_id,model,attempts,queue_ms,cost"), lines[0])
	assert.True(t, strings.HasPrefix(lines[1], run+","), lines[1])
	assert.Contains(t, lines[1], ",run,"+run+",,,")
}

// Each change stands in the audit log, with its operation's name in the document and who did it.
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
