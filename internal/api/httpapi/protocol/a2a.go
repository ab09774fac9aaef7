package protocol

import (
	"cmp"
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"agentplatform/internal/api/a2aserver"
	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
)

// a2aRoutes admit clients of the Agent2Agent protocol. The protocol's server reads their messages. This package decides
// who may send them, and how answers travel.
func (h *handlers) a2aRoutes() {
	const path = "/a2a/{agent_id}"
	h.add(tenant.LevelRun, h.a2aCall, h.rpc(huma.Operation{
		Method: http.MethodPost, Path: path, OperationID: "a2a", Parameters: inPath("agent_id"),
		Summary: "An agent as an A2A server (JSON-RPC, protocol 1.0 and 0.3)",
		Description: "Tasks are runs, contexts are chats. Streaming methods answer with Server-Sent Events. " +
			"Needs level `run`.",
		Responses: answers("A JSON-RPC response, or a stream of responses; a header names the run", nil, runHeader),
	}))
	h.Handle(http.MethodGet, path+"/.well-known/agent.json", tenant.LevelRead, h.a2aCard) // where clients of 0.2 look
	h.add(tenant.LevelRead, h.a2aCard, huma.Operation{
		Method: http.MethodGet, Path: path + "/.well-known/agent-card.json", OperationID: "a2a-card",
		Parameters: inPath("agent_id"),
		Summary:    "An agent's A2A card", Description: "Needs level `read`.",
		Responses: answers("The card, for clients of both versions",
			content(httpapi.SchemaOf[agentCard](h.Server), asJSON)),
	})
}

func (h *handlers) a2aCard(w http.ResponseWriter, r *http.Request, c *httpapi.Call) error {
	if h.A2A == nil {
		return problem.Missing(r.URL.Path)
	}
	card, err := h.A2A.Card(r.Context(), c.Principal, r.PathValue("agent_id"))
	if err != nil {
		return err
	}
	return httpapi.WriteJSON(w, http.StatusOK, card)
}

func (h *handlers) a2aCall(w http.ResponseWriter, r *http.Request, c *httpapi.Call) error {
	if h.A2A == nil {
		return problem.Missing(r.URL.Path)
	}
	body, err := h.body(w, r, c)
	if p, ok := problem.As(err); ok && p.Kind == problem.Invalid {
		return httpapi.WriteJSON(w, http.StatusOK, a2aserver.Malformed(p.Message)) // as the protocol has it
	}
	if err != nil {
		return err
	}
	reply, err := h.A2A.Call(r.Context(), c.Principal, r.PathValue("agent_id"),
		a2aserver.Request{Body: body, Version: cmp.Or(r.Header.Get(version), r.URL.Query().Get(version))},
		func() error { return h.TakeSlot(r.Context(), c) })
	if err != nil {
		return err
	}
	if reply.Follow == nil || reply.Message != nil && h.TakeSlot(r.Context(), c) != nil {
		return httpapi.WriteJSON(w, http.StatusOK, reply.Message)
	}
	c.Run = reply.Run
	c.Release()
	answer := httpapi.Stream{ContentType: asEvents, Of: reply.Of, Bounded: true}
	answer.Follow = func(ctx context.Context, out *httpapi.Sink) error {
		return reply.Follow(ctx, h.Heartbeat, out.Data, out.Heartbeat) // no final event: the client subscribes again
	}
	if reply.Message != nil { // one message, however long that takes: spaces before it keep its connection alive
		answer.ContentType = asJSON
		answer.Follow = func(ctx context.Context, out *httpapi.Sink) error {
			return reply.Follow(ctx, h.Heartbeat, out.Line, func() error {
				_, err := out.Write([]byte(" "))
				return err
			})
		}
		answer.Final = func(out *httpapi.Sink) { _ = out.Line(reply.Final()) }
		answer.Short = func(out *httpapi.Sink) { _ = out.Line(reply.Cut) }
	}
	return h.Stream(r.Context(), w, c, answer)
}

// version is the header, or the parameter, in which a client of A2A names the protocol's version.
const version = "A2A-Version"
