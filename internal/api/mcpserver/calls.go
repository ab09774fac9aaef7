package mcpserver

import (
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentplatform/internal/platform/strictjson"
)

// sessionHeader has the id that a client got as it was initialized. A session is nothing but that id: clients number
// their requests alike.
const sessionHeader = "Mcp-Session-Id"

const callTool = "tools/call"

// message has the members of a request that are read before the library reads it.
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

// read reads a body. The library refuses one that has another shape.
func read(body []byte) (m message) {
	if strictjson.Unmarshal(body, &m) != nil {
		return message{}
	}
	return m
}

// callKey names a call in progress as its client does.
type callKey struct{ organization, key, session, id string }

// giveUp ends the wait of a call of this process that its client has cancelled.
func (s *Server) giveUp(key callKey) {
	if end, is := s.open.Load(key); is {
		(*end.(*context.CancelFunc))()
	}
}

// bounded ends the context of a call when its client gives it up.
func (q request) bounded(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		ctx, end := context.WithCancel(ctx)
		defer end()
		defer context.AfterFunc(q.wanted, end)()
		result, err := next(ctx, method, r)
		if q.wanted.Err() != nil {
			return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{
				Text: "the call was given up by its client",
			}}}, nil
		}
		return result, err
	}
}
