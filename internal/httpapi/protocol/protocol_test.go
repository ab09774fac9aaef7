package protocol_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"agentplatform/internal/httpapi/httpapitest"
	"agentplatform/internal/httpapi/service"
)

// What the library of MCP refuses by itself is answered as all errors are, with its own status.
func TestRefusalsOfMCPHaveTheOneShape(t *testing.T) {
	e := httpapitest.New(t)
	w := e.Send("GET", "/mcp", "")
	assert.Equal(t, http.StatusMethodNotAllowed, w.Code)
	httpapitest.Sane(t, w)
	assert.Contains(t, w.Body.String(), `"code":"method_not_allowed"`)
	w = e.Post("/mcp", "text/plain", []byte("x"))
	assert.Equal(t, http.StatusBadRequest, w.Code)
	httpapitest.Sane(t, w)
}

// JSON that is none is answered to a client of A2A as its protocol has it.
func TestMalformedA2AIsAnsweredAsJSONRPC(t *testing.T) {
	e := httpapitest.New(t)
	w := e.Send("POST", "/a2a/"+e.Agent, `{"jsonrpc":`)
	assert.Equal(t, http.StatusOK, w.Code)
	assert.Contains(t, w.Body.String(), `"jsonrpc":"2.0"`)
	assert.Contains(t, w.Body.String(), `-32700`)
	assert.Contains(t, e.Send("GET", "/a2a/"+e.Agent+"/.well-known/agent-card.json", "").Body.String(), `"Demo"`)
}

// A deployment may have neither; its operations are then not there.
func TestAServerThatIsNotThereIsNotFound(t *testing.T) {
	e := httpapitest.New(t, func(c *service.Config) { c.MCP, c.A2A = nil, nil })
	assert.Equal(t, http.StatusNotFound, e.Send("POST", "/mcp", "{}").Code)
	assert.Equal(t, http.StatusNotFound, e.Send("POST", "/a2a/"+e.Agent, "{}").Code)
	assert.Equal(t, http.StatusNotFound, e.Send("GET", "/a2a/"+e.Agent+"/.well-known/agent-card.json", "").Code)
}
