package protocol

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"agentplatform/internal/api/aguiserver"
	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/org/tenant"
)

// aguiRoutes admit front ends that speak AG-UI. The protocol's server reads their messages. This package decides who
// may send them, and how answers travel.
func (h *handlers) aguiRoutes() {
	h.add(tenant.LevelRun, h.aguiCall, huma.Operation{
		Method: http.MethodPost, Path: "/agui/{agent_id}", OperationID: "agui", Parameters: inPath("agent_id"),
		Summary: "Send messages to an agent by AG-UI (protocol 1.0)",
		Description: "Threads are chats. A request starts a durable run, continues one that waits for the front " +
			"end, or follows the thread's last run if it has nothing new. Needs level `run`.",
		RequestBody: &huma.RequestBody{
			Required: true, Content: content(httpapi.SchemaOf[aguiserver.RunAgentInput](h.Server), asJSON),
		},
		Responses: answers("The events of the exchange",
			content(httpapi.SchemaOf[aguiserver.AGUIEvent](h.Server), asEvents), runHeader),
	})
}

// aguiCall answers with the events of an exchange. Where these end before it, for any reason, the last event is
// [aguiserver.Cut]: the front end sends its request again.
func (h *handlers) aguiCall(w http.ResponseWriter, r *http.Request, c *httpapi.Call) error {
	var in aguiserver.RunAgentInput
	if err := h.read(w, r, c, &in); err != nil {
		return err
	}
	ctx, agent := r.Context(), r.PathValue("agent_id")
	if err := h.TakeSlot(ctx, c); err != nil {
		return err
	}
	x, err := h.AGUI.Open(ctx, c.Principal, agent, in, c.ID())
	if err != nil {
		return err
	}
	c.Run = x.Run()
	e, err := h.AGUI.Intake.Run(ctx, c.Principal, c.Run)
	if err != nil {
		return err
	}
	cut := func(out *httpapi.Sink) { _ = out.Data(aguiserver.Cut()) }
	return h.Stream(ctx, w, c, httpapi.Stream{
		ContentType: asEvents, Of: e.Value.Whose(), Bounded: true,
		Follow: func(ctx context.Context, out *httpapi.Sink) error {
			emit := func(e aguiserver.AGUIEvent) error { return out.Data(e) }
			return h.AGUI.Follow(ctx, c.Principal, x, h.Heartbeat, emit, out.Heartbeat, c.Release)
		},
		Final: cut, Short: cut,
	})
}
