package runs

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"agentplatform/events"
	"agentplatform/internal/feed"
	"agentplatform/internal/httpapi"
	"agentplatform/internal/lifecycle"
	"agentplatform/internal/tenant"
	"agentplatform/internal/view"
)

func (h *handlers) streamRoutes() {
	h.Describe(huma.Operation{
		Method: http.MethodGet, Path: "/runs/{run_id}/stream", OperationID: "stream-run", Tags: []string{"runs"},
		Summary: "Follow a run as it goes",
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
			"200": {Description: "The event stream", Content: map[string]*huma.MediaType{
				"text/event-stream": {Schema: httpapi.SchemaOf[feed.Event](h.Server)},
			}},
		},
	})
	h.Handle("GET", "/runs/{run_id}/stream", tenant.LevelRead, h.streamEvents)
}

// streamEvents answers with Server-Sent Events.
func (h *handlers) streamEvents(w http.ResponseWriter, r *http.Request, c *httpapi.Call) error {
	stream := httpapi.Stream{
		ContentType: "text/event-stream",
		Farewell:    func(out *httpapi.Sink) { _ = out.Retry() },
	}
	return h.follow(r.Context(), w, c, stream, func(out *httpapi.Sink, e feed.Event) error {
		if e.Event == feed.Heartbeat {
			return out.Heartbeat()
		}
		return out.Event(e.Event, e.Seq, e)
	})
}

// streamLines answers POST /chat with NDJSON.
func (h *handlers) streamLines(ctx context.Context, w http.ResponseWriter, c *httpapi.Call) error {
	var seq int64 // of the last event
	stream := httpapi.Stream{
		ContentType: "application/x-ndjson", Bounded: true,
		Farewell: func(out *httpapi.Sink) { // the connection ends, the run goes on: the last line says so
			_ = out.Line(feed.Event{
				Event: feed.Status, RunID: c.Run, Seq: seq + 1, Status: string(lifecycle.Running),
				Interrupts: &[]events.Interrupt{},
			})
		},
	}
	return h.follow(ctx, w, c, stream, func(out *httpapi.Sink, e feed.Event) error {
		seq = e.Seq
		return writeLine(out, e)
	})
}

// follow answers with a stream of the call's run.
func (h *handlers) follow(
	ctx context.Context, w http.ResponseWriter, c *httpapi.Call, stream httpapi.Stream,
	write func(*httpapi.Sink, feed.Event) error,
) error {
	run, err := h.Intake.Run(ctx, c.Principal, c.Run)
	if err != nil {
		return err
	}
	stream.Agent = run.Value.Agent
	stream.Follow = func(ctx context.Context, out *httpapi.Sink) error {
		return h.Feed.Follow(ctx, h.Store, c.Principal.Scope(), c.Run, h.Heartbeat, func(e feed.Event) error {
			if !out.MayGoOn() {
				return feed.ErrStop
			}
			return write(out, e)
		})
	}
	return h.Stream(ctx, w, c, stream)
}

// writeLine writes an event as a line of NDJSON, and ends the stream when the run pauses.
func writeLine(out *httpapi.Sink, e feed.Event) error {
	if err := out.Line(e); err != nil {
		return err
	}
	if e.Event == feed.Init && e.Run.Status == string(lifecycle.AwaitingInput) {
		return writeLine(out, pauseLine(e.Seq+1, *e.Run))
	}
	if e.Event == feed.Status && e.Status == string(lifecycle.AwaitingInput) {
		return feed.ErrStop
	}
	return nil
}

func pauseLine(seq int64, r view.Run) feed.Event {
	return feed.Event{Event: feed.Status, RunID: r.RunID, Seq: seq, Status: r.Status, Interrupts: &r.Interrupts}
}
