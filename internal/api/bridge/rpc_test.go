package bridge_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/api/bridge"
)

func TestARefusalNamesItsRequest(t *testing.T) {
	for body, id := range map[string]string{`{"id":7}`: "7", `{"id":"a"}`: `"a"`, `{}`: "null", `{`: "null"} {
		raw, err := json.Marshal(bridge.Refusal([]byte(body), bridge.InvalidRequest, "no"))
		require.NoError(t, err)
		assert.JSONEq(t, `{"jsonrpc":"2.0","id":`+id+`,"error":{"code":-32600,"message":"no"}}`, string(raw))
	}
}

// One request is one call in every version of the protocols: it counts once against the rate limit.
func TestABatchIsRefused(t *testing.T) {
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call"}`
	for _, body := range []string{
		"[" + call + "]", " \t\r\n[" + call + "," + call + "]", "[]",
		`[{"jsonrpc":"2.0","method":"notifications/initialized"}]`,
	} {
		raw, err := json.Marshal(bridge.Malformed([]byte(body)))
		require.NoError(t, err)
		assert.Equal(t, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`+
			`"message":"a request is one call: batches are not taken"}}`, string(raw), body)
	}
	assert.Nil(t, bridge.Malformed([]byte(call)))
}
