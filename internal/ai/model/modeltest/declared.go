package modeltest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/model"
)

// sentBody is the body that an adapter sends. The answer to it is a refusal.
func sentBody(t *testing.T, open func(address string) model.Model, r model.Request) (body []byte) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ = io.ReadAll(r.Body)
		w.WriteHeader(http.StatusBadRequest)
	}))
	defer server.Close()
	_, err := open(server.URL).Converse(t.Context(), r, func(string) {})
	require.Error(t, err)
	require.NotEmpty(t, body, "%v", err)
	return body
}

// RunDeclared checks a request without tools: it must declare the tools that its conversation has calls of, once each.
// Some providers refuse it otherwise. declared takes the tools' names out of a body.
func RunDeclared(t *testing.T, open func(address string) model.Model, declared func(body []byte) []string) {
	t.Helper()
	object := json.RawMessage(`{}`)
	conversation := []model.Message{
		{Role: model.User, Text: "x"},
		{Role: model.Assistant, Calls: []model.Call{
			{ID: "a", Name: "f", Arguments: object}, {ID: "b", Name: "f", Arguments: object},
			{ID: "c", Name: "g", Arguments: object},
		}},
		{Role: model.Tool, Results: []model.Result{
			{CallID: "a", Name: "f", Text: "1"}, {CallID: "b", Name: "f", Text: "2"},
			{CallID: "c", Name: "g", Text: "3"},
		}},
	}
	one := []model.ToolSpec{{Name: "h", Parameters: json.RawMessage(`{"type":"object"}`)}}
	for _, c := range []struct {
		messages []model.Message
		tools    []model.ToolSpec
		want     []string
	}{{conversation[:1], nil, nil}, {conversation, nil, []string{"f", "g"}}, {conversation, one, []string{"h"}}} {
		body := sentBody(t, open, model.Request{Name: "m", Messages: c.messages, Tools: c.tools})
		assert.Equal(t, c.want, declared(body), "%s", body)
	}
}
