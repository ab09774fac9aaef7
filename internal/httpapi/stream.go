package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"agentplatform/internal/feed"
	"agentplatform/internal/host"
	"agentplatform/internal/lifecycle"
	"agentplatform/internal/problem"
	"agentplatform/internal/record"
	"agentplatform/internal/tenant"
	"agentplatform/internal/view"
)

// A client that neither sends nor takes anything for stallTime is cut off; the reader of a stream comes back to a fresh init.
// A stream's key is looked at again at keyCheck, and a stream whose key has gone ends.
const (
	stallTime = 30 * time.Second
	keyCheck  = time.Minute
)

func (s *Server) streamRoutes() {
	schemas := s.api.OpenAPI().Components.Schemas
	s.api.OpenAPI().AddOperation(&huma.Operation{
		Method: http.MethodGet, Path: Base + "/runs/{run_id}/stream", OperationID: "stream-run", Summary: "Follow a run as it goes", Tags: []string{"runs"},
		Description: "Server-Sent Events: `init` first, `done` last; comments as heartbeats. Needs level `read`, or the run's token.",
		Parameters: []*huma.Param{
			{Name: "run_id", In: "path", Required: true, Schema: &huma.Schema{Type: "string"}},
			{Name: "Last-Event-ID", In: "header", Description: "tolerated and ignored", Schema: &huma.Schema{Type: "string"}},
		},
		Responses: map[string]*huma.Response{
			"200": {Description: "The event stream", Content: map[string]*huma.MediaType{
				"text/event-stream": {Schema: schemas.Schema(typeOf[feed.Event](), true, "")},
			}},
		},
	})
	s.mux.HandleFunc("GET "+Base+"/runs/{run_id}/stream", func(w http.ResponseWriter, r *http.Request) {
		c := callOf(r.Context())
		if err := s.streamRun(w, r, c); err != nil {
			s.answerFor(c, err).write(w)
		}
	})
}

func (s *Server) streamRun(w http.ResponseWriter, r *http.Request, c *call) error {
	c.run = r.PathValue("run_id")
	if err := c.principal.MayTouch(c.run, tenant.LevelRead); err != nil {
		return err
	}
	if !host.ValidID(c.run) {
		return problem.Missing("run " + c.run)
	}
	scope := c.principal.Scope()
	if _, err := s.Store.LiveRun(r.Context(), scope, c.run); err != nil {
		return err // while a plain answer is still possible
	}
	if err := s.seat(c); err != nil {
		return err
	}
	streamHeaders(w, "text/event-stream", c.run)
	s.stream(r.Context(), w, scope, c, writeEvent, func(out *sink) { out.put([]byte("retry: 1000\n\n")) })
	return nil
}

// streamLines answers POST /chat with NDJSON.
func (s *Server) streamLines(ctx context.Context, w http.ResponseWriter, scope record.Scope, run string) error {
	streamHeaders(w, "application/x-ndjson", run)
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	s.stream(ctx, w, scope, callOf(ctx), writeLine, func(out *sink) {
		// The connection ends, the run goes on: the last line says so.
		last := feed.Event{Event: feed.Status, RunID: run, Seq: out.seq + 1, Status: string(lifecycle.Running)}
		_ = writeLine(out, last)
	})
	return nil
}

func streamHeaders(w http.ResponseWriter, contentType, run string) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	h.Set("X-Agent-Run-Id", run)
}

// bounded ends a stream that is a function's answer before the function would be ended.
func (s *Server) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.MaxStream == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, s.MaxStream)
}

// sink is the writing end of a stream.
type sink struct {
	w          http.ResponseWriter
	controller *http.ResponseController
	failed     error
	seq        int64
	checked    time.Duration
}

// put writes and flushes; the reader has its time to take it, as of every answer.
func (o *sink) put(b []byte) {
	if o.failed != nil {
		return
	}
	if _, o.failed = o.w.Write(b); o.failed == nil {
		o.failed = o.controller.Flush()
	}
}

type writer func(o *sink, e feed.Event) error

// stream follows a run until its end, the reader's, or the server's; farewell is written in the last case.
func (s *Server) stream(ctx context.Context, w http.ResponseWriter, scope record.Scope, c *call, write writer, farewell func(*sink)) {
	if !s.beginStream() {
		farewell(&sink{w: w, controller: http.NewResponseController(w)})
		return
	}
	defer s.streams.Done()
	s.open.Add(1)
	defer s.open.Add(-1)
	s.metrics.streams.Inc()
	defer s.metrics.streams.Dec()
	out := &sink{w: w, controller: http.NewResponseController(w), checked: s.Host.Elapsed()}
	w.WriteHeader(http.StatusOK)
	out.put(nil) // the headers, before the first event
	following, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.stopping, cancel)()
	err := s.Feed.Follow(following, s.Store, scope, c.run, s.Heartbeat, func(e feed.Event) error {
		out.seq = e.Seq
		if s.Host.Elapsed()-out.checked >= keyCheck {
			out.checked = s.Host.Elapsed()
			if !s.Tenants.StillValid(following, c.principal) {
				return feed.ErrStop
			}
		}
		return write(out, e)
	})
	if err != nil && out.failed == nil && (s.stopping.Err() != nil || errors.Is(ctx.Err(), context.DeadlineExceeded)) {
		farewell(out)
	}
}

// writeEvent writes an event as SSE. JSON holds no line break, so one data line is enough.
func writeEvent(o *sink, e feed.Event) error {
	if e.Event == feed.Heartbeat {
		o.put([]byte(": heartbeat\n\n"))
		return o.failed
	}
	data, err := json.Marshal(e)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	_, _ = fmt.Fprintf(&b, "event: %s\nid: %d\ndata: %s\n\n", e.Event, e.Seq, data)
	o.put(b.Bytes())
	return o.failed
}

// writeLine writes an event as a line of NDJSON, and ends the stream when the run pauses.
func writeLine(o *sink, e feed.Event) error {
	data, err := json.Marshal(e)
	if err != nil {
		return err
	}
	o.put(append(data, '\n'))
	if o.failed != nil {
		return o.failed
	}
	if e.Event == feed.Init && e.Run.Status == string(lifecycle.AwaitingInput) {
		return writeLine(o, pauseLine(e.Seq+1, *e.Run))
	}
	if e.Event == feed.Status && e.Status == string(lifecycle.AwaitingInput) {
		return feed.ErrStop
	}
	return nil
}

func pauseLine(seq int64, r view.Run) feed.Event {
	return feed.Event{Event: feed.Status, RunID: r.RunID, Seq: seq, Status: r.Status, Interrupts: &r.Interrupts}
}
