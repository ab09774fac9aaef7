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

func TestABatchIsAListOfMessages(t *testing.T) {
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call"}`
	for body, want := range map[string]int{
		"[" + call + "]": 1, " \t\r\n[" + call + "," + call + "]": 2, "[]": 0, "[7]": 1,
		call: -1, "7": -1, "": -1, `"["`: -1,
	} {
		list, is := bridge.Batch([]byte(body))
		assert.Len(t, list, max(want, 0), body)
		assert.Equal(t, want >= 0, is, body)
	}
}
