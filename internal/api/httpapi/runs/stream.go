package runs

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"agentplatform/events"
	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/run/stream"
	"agentplatform/internal/run/view"
)

func (h *handlers) streamRoutes() {
	h.Describe(huma.Operation{
		Method: http.MethodGet, Path: "/runs/{run_id}/stream", OperationID: "stream-run", Tags: []string{"runs"},
		Summary: "Follow a run as it progresses",
		Description: "Server-Sent Events: `init` first, `done` last; comments as heartbeats. " +
			"Needs level `read`, or the run's token.",
		Parameters: []*huma.Param{
			{Name: "run_id", In: "path", Required: true, Schema: &huma.Schema{Type: "string"}},
			{
				Name: "Last-Event-ID", In: "header", Description: "tolerated and ignored",
				Schema: &huma.Schema{Type: "string"},
			},
		},
		Responses: map[string]*huma.Response{
			"200": {
				Description: "The event stream: the data of each event is one of these",
				Content: map[string]*huma.MediaType{
					"text/event-stream": {Schema: httpapi.SchemaOf[runEvent](h.Server)},
				},
			},
		},
	})
	h.Handle("GET", "/runs/{run_id}/stream", tenant.LevelRead, h.streamEvents)
}

// streamEvents answers with Server-Sent Events.
func (h *handlers) streamEvents(w http.ResponseWriter, r *http.Request, c *httpapi.Call) error {
	answer := httpapi.Stream{
		ContentType: "text/event-stream",
		Final:       func(out *httpapi.Sink) { _ = out.Retry() },
	}
	return h.follow(r.Context(), w, c, answer, func(out *httpapi.Sink, e stream.Event) error {
		if e.Event == stream.Heartbeat {
			return out.Heartbeat()
		}
		return out.Event(e.Event, e.Seq, e)
	})
}

// streamLines answers POST /chat with NDJSON.
func (h *handlers) streamLines(ctx context.Context, w http.ResponseWriter, c *httpapi.Call) error {
	var seq int64 // of the last event
	answer := httpapi.Stream{
		ContentType: "application/x-ndjson", Bounded: true,
		Final: func(out *httpapi.Sink) { // the connection ends, the run goes on: the last line has this
			_ = out.Line(stream.Event{
				Event: stream.Status, RunID: c.Run, Seq: seq + 1, Status: string(lifecycle.Running),
				Interrupts: &[]events.Interrupt{},
			})
		},
	}
	return h.follow(ctx, w, c, answer, func(out *httpapi.Sink, e stream.Event) error {
		seq = e.Seq
		return writeLine(out, e)
	})
}

// follow answers with a stream of the call's run.
func (h *handlers) follow(
	ctx context.Context, w http.ResponseWriter, c *httpapi.Call, answer httpapi.Stream,
	write func(*httpapi.Sink, stream.Event) error,
) error {
	run, err := h.Intake.Run(ctx, c.Principal, c.Run)
	if err != nil {
		return err
	}
	answer.Of = run.Value.Whose()
	scope, reader := c.Principal.Scope(), h.Tenants.CitationFilter(c.Principal)
	answer.Follow = func(ctx context.Context, out *httpapi.Sink) error {
		return h.Hub.Follow(ctx, h.Store, scope, c.Run, h.Heartbeat, func(e stream.Event) error {
			e, err := e.For(ctx, reader)
			if err != nil {
				return err
			}
			return write(out, e)
		})
	}
	return h.Stream(ctx, w, c, answer)
}

// writeLine writes an event as a line of NDJSON, and ends the stream when the run pauses.
func writeLine(out *httpapi.Sink, e stream.Event) error {
	if err := out.Line(e); err != nil {
		return err
	}
	if e.Event == stream.Init && e.Run.Status == string(lifecycle.AwaitingInput) {
		return writeLine(out, pauseLine(e.Seq+1, *e.Run))
	}
	if e.Event == stream.Status && e.Status == string(lifecycle.AwaitingInput) {
		return stream.ErrStop
	}
	return nil
}

func pauseLine(seq int64, r view.Run) stream.Event {
	return stream.Event{Event: stream.Status, RunID: r.RunID, Seq: seq, Status: r.Status, Interrupts: &r.Interrupts}
}
