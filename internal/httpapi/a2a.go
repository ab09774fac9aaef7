package httpapi

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"agentplatform/internal/a2aface"
	"agentplatform/internal/feed"
	"agentplatform/internal/problem"
	"agentplatform/internal/tenant"
)

// a2aRoutes let clients of the Agent2Agent protocol in. What they say is the face's; here is who may, and how answers travel.
func (s *Server) a2aRoutes() {
	const base = Base + "/a2a/{agent_id}"
	path := []*huma.Param{{Name: "agent_id", In: "path", Required: true, Schema: &huma.Schema{Type: "string"}}}
	s.api.OpenAPI().AddOperation(&huma.Operation{
		Method: http.MethodPost, Path: base, OperationID: "a2a", Summary: "An agent as an A2A server (JSON-RPC, protocol 1.0 and 0.3)", Tags: []string{"faces"},
		Description: "Tasks are runs, contexts are chats. Streaming methods answer with Server-Sent Events. Needs level `run`.", Parameters: path,
		Responses: map[string]*huma.Response{"200": {Description: "A JSON-RPC answer, or a stream of them"}},
	})
	s.api.OpenAPI().AddOperation(&huma.Operation{
		Method: http.MethodGet, Path: base + "/.well-known/agent-card.json", OperationID: "a2a-card", Summary: "An agent's A2A card", Tags: []string{"faces"},
		Description: "Needs level `read`.", Parameters: path,
		Responses: map[string]*huma.Response{"200": {Description: "The card, for clients of both versions"}},
	})
	s.mux.HandleFunc("POST "+base, s.a2a(tenant.LevelRun, s.a2aCall))
	s.mux.HandleFunc("GET "+base+"/.well-known/agent-card.json", s.a2a(tenant.LevelRead, func(w http.ResponseWriter, r *http.Request, c *call) error {
		card, err := s.A2A.Card(r.Context(), c.principal, r.PathValue("agent_id"))
		if err != nil {
			return err
		}
		return writeJSON(w, http.StatusOK, card)
	}))
}

func (s *Server) a2a(level tenant.Level, handle func(http.ResponseWriter, *http.Request, *call) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := callOf(r.Context())
		err := c.principal.May(level)
		if err == nil && s.A2A == nil {
			err = problem.Missing(r.URL.Path)
		}
		if err == nil {
			err = handle(w, r, c)
		}
		if err != nil {
			s.answerFor(c, err).write(w)
		}
	}
}

func (s *Server) a2aCall(w http.ResponseWriter, r *http.Request, c *call) error {
	err := s.hold(w, r, c)
	if p, ok := problem.As(err); ok && p.Kind == problem.Invalid {
		return writeJSON(w, http.StatusOK, a2aface.Malformed(p.Message)) // as the protocol has it
	}
	if err != nil {
		return err
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	reply, err := s.A2A.Call(r.Context(), c.principal, r.PathValue("agent_id"), body)
	if err != nil {
		return err
	}
	if reply.Run == "" {
		return writeJSON(w, http.StatusOK, reply.Message)
	}
	c.run = reply.Run
	c.release()
	ctx, cancel := s.bounded(r.Context())
	defer cancel()
	return s.stream(ctx, w, "text/event-stream", c, func(out *sink, e feed.Event) error {
		if e.Event == feed.Heartbeat {
			out.put([]byte(": heartbeat\n\n"))
			return out.failed
		}
		messages, last := reply.Translate(e)
		for _, m := range messages {
			data, err := json.Marshal(m)
			if err != nil {
				return err
			}
			out.put(fmt.Appendf(nil, "data: %s\n\n", data))
		}
		if last && out.failed == nil {
			return feed.ErrStop
		}
		return out.failed
	}, func(*sink) {}) // the connection ends without a last word: the client subscribes anew
}
