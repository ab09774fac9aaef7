package openaimodel_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/model/modeltest"
	"agentplatform/internal/ai/model/openaimodel"
)

// Endpoints that imitate OpenAI's API number their tool calls differently: each case is what one of them sends.
func TestPiecesOfCallsAreJoinedHoweverEndpointsNumberThem(t *testing.T) {
	for name, pieces := range map[string][]string{
		"by index": {`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"n\""}}`,
			`{"index":1,"id":"b","function":{"name":"g","arguments":"{}"}}`,
			`{"index":0,"function":{"arguments":":1}"}}`},
		"by id": {`{"id":"a","function":{"name":"f","arguments":"{\"n\":1}"}}`,
			`{"id":"b","function":{"name":"g","arguments":"{}"}}`},
		"by both, said again": {`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"n\""}}`,
			`{"index":0,"id":"a","function":{"name":"f","arguments":":1}"}}`,
			`{"index":1,"id":"b","function":{"name":"g","arguments":""}}`},
		"an id for each piece": {`{"index":0,"id":"a","function":{"name":"f","arguments":""}}`,
			`{"index":0,"id":"x","function":{"arguments":"{\"n\":1}"}}`,
			`{"index":1,"id":"b","function":{"name":"g","arguments":"{}"}}`},
		"arguments as an object": {`{"index":0,"id":"a","function":{"name":"f","arguments":{"n":1}}}`,
			`{"index":1,"id":"b","function":{"name":"g","arguments":null}}`},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			for _, p := range pieces {
				b.WriteString(`data: {"choices":[{"delta":{"tool_calls":[` + p + "]}}]}\n\n")
			}
			b.WriteString(`data: {"choices":[{"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE] \n\n")
			m := openaimodel.New("", "", modeltest.Answering(b.String()))
			reply, err := m.Converse(t.Context(), model.Request{Name: "m"}, func(string) {})
			require.NoError(t, err)
			require.Len(t, reply.Calls, 2)
			assert.Equal(t, []string{"a", "f", "b", "g"},
				[]string{reply.Calls[0].ID, reply.Calls[0].Name, reply.Calls[1].ID, reply.Calls[1].Name})
			assert.JSONEq(t, `{"n":1}`, string(reply.Calls[0].Arguments))
			assert.JSONEq(t, `{}`, string(reply.Calls[1].Arguments))
			assert.Equal(t, "tool_calls", reply.Finish)
		})
	}
}
