package webhooks_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/api/httpapi/httpapitest"
)

// Deliveries are listed, and one is made again only when it has failed, or by force.
func TestADeliveryIsListedAndMadeAgain(t *testing.T) {
	e := httpapitest.New(t)
	run := e.Begin(t, "callback_url", "https://example.com/hook").RunID
	require.Equal(t, http.StatusOK, e.Send("POST", "/runs/"+run+"/cancel", "").Code)
	for _, query := range []string{"", "?run_id=" + run, "?state=pending"} {
		var list struct {
			Deliveries []struct {
				ID    string `json:"delivery_id"`
				RunID string `json:"run_id"`
				State string
			}
		}
		w := e.Send("GET", "/webhooks/deliveries"+query, "")
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &list), w.Body)
		require.Len(t, list.Deliveries, 1, query)
		d := list.Deliveries[0]
		assert.Equal(t, run, d.RunID)
		again := "/webhooks/deliveries/" + d.ID + "/redeliver"
		assert.Equal(t, http.StatusConflict, e.Send("POST", again, "").Code)
		assert.Equal(t, http.StatusOK, e.Send("POST", again, `{"force":true}`).Code)
	}
	assert.NotContains(t, e.Send("GET", "/webhooks/deliveries?state=failed", "").Body.String(), run)
	assert.Contains(t, e.Send("GET", "/audit-log", "").Body.String(), `"kind":"delivery"`)
	assert.Equal(t, http.StatusNotFound, e.Send("POST", "/webhooks/deliveries/x/redeliver", "").Code)
}

// A test of an address returns its result; an address to which pushes may not go is refused.
func TestAnAddressIsTested(t *testing.T) {
	e := httpapitest.New(t)
	w := e.Send("POST", "/webhooks/test", `{"callback_url":"https://example.com/"}`)
	assert.Equal(t, http.StatusOK, w.Code, w.Body)
	assert.Contains(t, w.Body.String(), `"status":null`)
	assert.Equal(
		t, http.StatusBadRequest, e.Send("POST", "/webhooks/test", `{"callback_url":"http://example.com/"}`).Code,
	)
}
