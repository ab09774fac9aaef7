package protocol

import (
	"context"
	"io"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"agentplatform/internal/api/aguiserver"
	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
)

// aguiRoutes let front ends in that speak AG-UI. What they say is the server's of the protocol; here is who may, and
// how answers travel.
func (h *handlers) aguiRoutes() {
	const path = "/agui/{agent_id}"
	of := func(schema *huma.Schema, kind string) map[string]*huma.MediaType {
		return map[string]*huma.MediaType{kind: {Schema: schema}}
	}
	h.Describe(huma.Operation{
		Method: http.MethodPost, Path: path, OperationID: "agui", Tags: []string{"protocols"},
		Parameters: []*huma.Param{
			{Name: "agent_id", In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}},
		},
		Summary: "Talk with an agent, by AG-UI (protocol 1.0)",
		Description: "Threads are chats. A request begins a durable run, goes on with one that waits for the front " +
			"end, or follows the thread's last run when it brings nothing new. Needs level `run`.",
		RequestBody: &huma.RequestBody{
			Required: true, Content: of(httpapi.SchemaOf[aguiserver.RunAgentInput](h.Server), "application/json"),
		},
		Responses: map[string]*huma.Response{"200": {
			Description: "The events of the exchange", Headers: map[string]*huma.Param{"X-Agent-Run-Id": {}},
			Content: of(httpapi.SchemaOf[aguiserver.AGUIEvent](h.Server), "text/event-stream"),
		}},
	})
	h.Handle("POST", path, tenant.LevelRun, h.aguiCall)
}

// aguiCall answers with the events of an exchange. Where these end before it, for whatever reason, it says so: the
// front end asks again.
func (h *handlers) aguiCall(w http.ResponseWriter, r *http.Request, c *httpapi.Call) error {
	if err := h.Hold(w, r, c); err != nil {
		return err
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	r.Body = http.NoBody // which a stream would keep
	if len(body) == 0 {
		return problem.InvalidField("body", "is required")
	}
	var in aguiserver.RunAgentInput
	if err := httpapi.Decode("body", body, &in); err != nil {
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
	cut := func(out *httpapi.Sink) { _ = out.Data(aguiserver.Cut()) }
	return h.Stream(ctx, w, c, httpapi.Stream{
		ContentType: "text/event-stream", Agent: x.Agent(), Bounded: true,
		Follow: func(ctx context.Context, out *httpapi.Sink) error {
			emit := func(e aguiserver.AGUIEvent) error { return out.Data(e) }
			return h.AGUI.Follow(ctx, c.Principal, x, h.Heartbeat, emit, out.Heartbeat, c.Release)
		},
		Final: cut, Short: cut,
	})
}
