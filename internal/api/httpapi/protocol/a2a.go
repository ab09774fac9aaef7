package protocol

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"agentplatform/internal/api/a2aserver"
	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/run/stream"
)

// a2aRoutes let clients of the Agent2Agent protocol in. What they say is the server's of the protocol; here is who may,
// and how answers travel.
func (h *handlers) a2aRoutes() {
	const path = "/a2a/{agent_id}"
	h.add(tenant.LevelRun, h.a2aCall, h.rpc(huma.Operation{
		Method: http.MethodPost, Path: path, OperationID: "a2a", Parameters: inPath("agent_id"),
		Summary: "An agent as an A2A server (JSON-RPC, protocol 1.0 and 0.3)",
		Description: "Tasks are runs, contexts are chats. Streaming methods answer with Server-Sent Events. " +
			"Needs level `run`.",
		Responses: answers("A JSON-RPC answer, or a stream of them, which names its run in a header", nil, runHeader),
	}))
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
	if reply.Unfinished != nil && h.TakeSlot(r.Context(), c) == nil {
		return h.await(r.Context(), w, c, *reply.Unfinished)
	}
	if reply.Run == "" {
		return httpapi.WriteJSON(w, http.StatusOK, reply.Message)
	}
	c.Run = reply.Run
	c.Release()
	return h.follow(r.Context(), w, c, reply)
}

// version is the header, or the parameter, in which a client of A2A names the protocol's version.
const version = "A2A-Version"

// lastWords is how long the last words of an answer may take.
const lastWords = 5 * time.Second

// pause is how long a wait pauses when the store cannot be read.
const pause = time.Second

// await answers with what comes of a run, however long that takes: as a stream of one message, before which spaces keep
// its connection alive. A stream that the server ends says how the run stands.
func (h *handlers) await(ctx context.Context, w http.ResponseWriter, c *httpapi.Call, of a2aserver.Unfinished) error {
	c.Run = of.Run
	c.Release()
	say := func(out *httpapi.Sink) error {
		ctx, done := context.WithTimeout(ctx, lastWords)
		defer done()
		return out.Line(of.Message(ctx))
	}
	follow := func(ctx context.Context, out *httpapi.Sink) error {
		for {
			ended, err := of.Until(ctx, h.Heartbeat)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			p, _ := problem.As(err)
			away := p != nil && p.Kind == problem.Unavailable // for a moment, while the run goes on
			if ended || err != nil && !away {
				return say(out)
			}
			if _, err := out.Write([]byte(" ")); err != nil {
				return err
			}
			if away {
				_ = h.Host.Sleep(ctx, min(h.Heartbeat, pause)) // if it fails, so does what comes next
			}
		}
	}
	return h.Stream(ctx, w, c, httpapi.Stream{
		ContentType: asJSON, Agent: of.Agent, Bounded: true, Follow: follow,
		Final: func(out *httpapi.Sink) { _ = say(out) },
		Short: func(out *httpapi.Sink) { _ = out.Line(of.Cut) },
	})
}

// follow answers with a stream of the reply's run. The connection ends without a last word: the client subscribes anew.
func (h *handlers) follow(ctx context.Context, w http.ResponseWriter, c *httpapi.Call, reply a2aserver.Reply) error {
	run, err := h.Intake.Run(ctx, c.Principal, c.Run)
	if err != nil {
		return err
	}
	reads := h.Tenants.Reads(c.Principal)
	follow := func(ctx context.Context, out *httpapi.Sink) error {
		return h.Hub.Follow(ctx, h.Store, c.Principal.Scope(), c.Run, h.Heartbeat, func(e stream.Event) error {
			if e.Event == stream.Heartbeat {
				return out.Heartbeat()
			}
			e, err := e.For(ctx, reads)
			if err != nil {
				return err
			}
			messages, last := reply.Translate(e)
			for _, m := range messages {
				if err := out.Data(m); err != nil {
					return err
				}
			}
			if last {
				return stream.ErrStop
			}
			return nil
		})
	}
	return h.Stream(ctx, w, c, httpapi.Stream{
		ContentType: asEvents, Agent: run.Value.Agent, Bounded: true, Follow: follow,
	})
}
