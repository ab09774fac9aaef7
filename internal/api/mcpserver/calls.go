package mcpserver

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentplatform/internal/platform/strictjson"
)

// sessionHeader has the id that a client got as it was initialized. A session is nothing but that id: requests of one
// are told from those of another with the same ids.
const sessionHeader = "Mcp-Session-Id"

const callTool = "tools/call"

// message is what is read of a request before the library reads it.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		RequestID json.RawMessage `json:"requestId"`
		Meta      struct {
			Token json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
	} `json:"params"`
}

// read reads a body. What is not as it should be the library refuses.
func read(body []byte) (m message) {
	if strictjson.Unmarshal(body, &m) != nil {
		return message{}
	}
	return m
}

// callKey names a call in progress as its client does.
type callKey struct{ organization, key, session, id string }

// call is a call in progress. Its client gives it up by another request.
type call struct {
	mu      sync.Mutex
	givenUp bool
	end     context.CancelFunc // nil: its handler has not begun
}

// giveUp ends the wait of a call whose client does not want it any more. It knows the calls of this process.
func (s *Server) giveUp(key callKey) {
	found, is := s.open.Load(key)
	if !is {
		return
	}
	c := found.(*call)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.givenUp = true; c.end != nil {
		c.end()
	}
}

func (c *call) isGivenUp() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.givenUp
}

// bounded ends the context of a call when its client gives it up.
func (c *call) bounded(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		ctx, end := context.WithCancel(ctx)
		defer end()
		c.mu.Lock()
		if c.end = end; c.givenUp {
			end()
		}
		c.mu.Unlock()
		return next(ctx, method, r)
	}
}
