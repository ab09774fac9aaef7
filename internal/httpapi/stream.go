package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"agentplatform/events"
	"agentplatform/internal/feed"
	"agentplatform/internal/host"
	"agentplatform/internal/lifecycle"
	"agentplatform/internal/problem"
	"agentplatform/internal/tenant"
	"agentplatform/internal/view"
)

// stallTime is after how long a client that neither sends nor takes anything is cut off; the reader of a stream comes
// back to a fresh init.
const stallTime = 30 * time.Second

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
	return s.stream(r.Context(), w, "text/event-stream", c, writeEvent, func(out *sink) { out.put([]byte("retry: 1000\n\n")) })
}

// streamLines answers POST /chat with NDJSON.
func (s *Server) streamLines(ctx context.Context, w http.ResponseWriter, c *call) error {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	return s.stream(ctx, w, "application/x-ndjson", c, writeLine, func(out *sink) {
		// The connection ends, the run goes on: the last line says so.
		last := feed.Event{Event: feed.Status, RunID: c.run, Seq: out.seq + 1, Status: string(lifecycle.Running), Interrupts: &[]events.Interrupt{}}
		_ = writeLine(out, last)
	})
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
}

// put writes and flushes; the reader has its time to take it, as of every answer.
func (o *sink) put(pieces ...[]byte) {
	for _, b := range pieces {
		if o.failed == nil {
			_, o.failed = o.w.Write(b)
		}
	}
	if o.failed == nil {
		o.failed = o.controller.Flush()
	}
}

type writer func(o *sink, e feed.Event) error

// stream follows a run until its end, the reader's or that of its right, or the server's; farewell is written in the
// last case. An error is one of before the stream began, which can be answered.
func (s *Server) stream(ctx context.Context, w http.ResponseWriter, contentType string, c *call, write writer, farewell func(*sink)) error {
	run, err := s.Intake.Run(ctx, c.principal, c.run)
	if err == nil {
		err = s.seat(c)
	}
	if err != nil {
		return err
	}
	streamHeaders(w, contentType, c.run)
	if !s.beginStream() {
		farewell(&sink{w: w, controller: http.NewResponseController(w)})
		return nil
	}
	defer s.streams.Done()
	s.open.Add(1)
	defer s.open.Add(-1)
	s.metrics.streams.Inc()
	defer s.metrics.streams.Dec()
	out := &sink{w: w, controller: http.NewResponseController(w)}
	w.WriteHeader(http.StatusOK)
	out.put(nil) // the headers, before the first event
	following, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.stopping, cancel)()
	right := s.Tenants.RightTo(c.principal, run.Value.Agent)
	if !right.Lasts(following) {
		return nil
	}
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() { s.watch(following, c.principal, right, cancel) })
	err = s.Feed.Follow(following, s.Store, c.principal.Scope(), c.run, s.Heartbeat, func(e feed.Event) error {
		out.seq = e.Seq
		if !right.Lasts(following) {
			return feed.ErrStop
		}
		return write(out, e)
	})
	if err != nil && out.failed == nil && (s.stopping.Err() != nil || errors.Is(ctx.Err(), context.DeadlineExceeded)) {
		farewell(out)
		return nil
	}
	if err != nil && out.failed == nil && following.Err() == nil { // it ends short of what happened, with nobody to tell but the log
		s.Log.Error("a stream failed", "request_id", c.id, "run_id", c.run, "error", err)
	}
	return nil
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
	o.put(fmt.Appendf(nil, "event: %s\nid: %d\ndata: ", e.Event, e.Seq), data, []byte("\n\n"))
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

// watch calls end when a principal's right has ended; it returns with the context at the latest. It waits beside every
// stream, so that it must stay small: a look, whose stack is large, has a goroutine of its own.
func (s *Server) watch(ctx context.Context, p tenant.Principal, right *tenant.Right, end func()) {
	for ctx.Err() == nil {
		changes, changed := s.Tenants.Changes(p)
		wait := right.Due(changes)
		if wait <= 0 {
			lasts := make(chan bool, 1)
			go func() { lasts <- right.Lasts(ctx) }()
			if !<-lasts {
				end()
				return
			}
			continue
		}
		due := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-changed:
		case <-due.C:
		}
		due.Stop()
	}
}
