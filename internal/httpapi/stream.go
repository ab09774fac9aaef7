package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"agentplatform/internal/problem"
	"agentplatform/internal/tenant"
	"agentplatform/internal/waiting"
)

// stallTime is after how long a client that neither sends nor takes anything is cut off; the reader of a stream comes
// back to a fresh init.
const stallTime = 30 * time.Second

// Stream is an answer that is written while a run goes on.
type Stream struct {
	ContentType string
	Agent       string // whose run it is: the stream ends when its reader may reach the agent no more
	Bounded     bool   // it ends before the function would be ended whose answer it is
	// Follow writes what happens, until its context ends or the sink takes no more.
	Follow func(ctx context.Context, out *Sink) error
	// Open, in place of Follow, is a stream by steps. That of a GET may go dormant; its connection is closed after it.
	Open func(ctx context.Context, out *Sink) Steps
	// Farewell writes the last words of a stream that the server ends. It may be nil.
	Farewell func(out *Sink)
	// Short writes the last words of a stream that ends short of what happens for another reason: an error, the end of
	// its reader's right, the removal of what it follows. They must say nothing of the run. It may be nil.
	Short func(out *Sink)
}

func (s Stream) short(out *Sink) {
	if s.Short != nil {
		s.Short(&Sink{w: out.w, controller: out.controller}) // which asks for no right
	}
}

// Stream follows the call's run until its end, the reader's or that of its right, or the server's. An error is one of
// before the stream began, which can be answered: that there is no place for another stream.
func (s *Server) Stream(ctx context.Context, w http.ResponseWriter, c *Call, stream Stream) error {
	if err := s.Seat(ctx, c); err != nil {
		return err
	}
	if stream.Farewell == nil {
		stream.Farewell = func(*Sink) {}
	}
	streamHeaders(w, stream.ContentType, c.Run)
	c.mayLeave = c.mayLeave && stream.Open != nil && !stream.Bounded && canLeave(w)
	if c.mayLeave {
		w.Header().Set("Connection", "close")
	}
	if !s.beginStream() {
		stream.Farewell(&Sink{w: w, controller: http.NewResponseController(w)})
		return nil
	}
	defer func() {
		if c.dormant == nil {
			s.endStream()
		}
	}()
	defer waiting.Start(ctx)()
	if stream.Bounded && s.MaxStream > 0 {
		var done context.CancelFunc
		ctx, done = context.WithTimeout(ctx, s.MaxStream)
		defer done()
	}
	following, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.stopping, cancel)()
	if c.mayLeave { // there may be thousands, and nothing is begun in its name any more
		c.Principal = c.Principal.Bare()
	}
	right := s.Tenants.RightTo(&c.Principal, stream.Agent)
	out := &Sink{w: w, controller: http.NewResponseController(w)}
	w.WriteHeader(http.StatusOK)
	_ = out.put(nil) // the headers, before anything is read; a failure shows at the next
	if out.may = func() bool { return s.lasts(following, right) }; !out.may() {
		stream.short(out)
		return nil
	}
	defer s.watch(following, right, cancel)()
	var err error
	if stream.Open != nil {
		err = s.follow(following, c, stream, out, right)
	} else {
		err = stream.Follow(following, out)
	}
	if c.dormant == nil {
		s.saidAll(following, c, out, stream, err, errors.Is(ctx.Err(), context.DeadlineExceeded))
	}
	return nil
}

// follow takes the steps of a stream, until its end or until it is dormant.
func (s *Server) follow(ctx context.Context, c *Call, stream Stream, out *Sink, right *tenant.Right) error {
	steps := stream.Open(ctx, out)
	defer func() {
		if c.dormant == nil {
			steps.Close()
		}
	}()
	most := time.Duration(math.MaxInt64)
	if c.mayLeave {
		most = leaveAfter
	}
	for due := true; ; {
		if due {
			if ended, err := steps.Step(ctx); ended || err != nil {
				return err
			}
		}
		var err error
		if due, err = steps.Wait(ctx, most); err != nil {
			return err
		}
		if !due && most == leaveAfter {
			if s.leave(c, steps, out, right, stream.Farewell) {
				return nil
			}
			most = math.MaxInt64
		}
	}
}

// saidAll is the end of a stream, with an error if it was not its own: what it says to the client, or to the log. late
// says that a bounded stream has had its time.
func (s *Server) saidAll(ctx context.Context, c *Call, out *Sink, stream Stream, err error, late bool) {
	ended := err == nil || out.failed != nil
	if !ended && (s.stopping.Err() != nil || late) {
		stream.Farewell(out)
		return
	}
	if !ended || errors.Is(out.failed, errRightEnded) {
		stream.short(out)
	}
	switch {
	case ended:
	case problem.Is(err, "not_found"): // what it follows was deleted
	case ctx.Err() == nil: // it ends short of what happened, with nobody to tell but the log
		s.Log.Error("a stream failed", "request_id", c.id, "run_id", c.Run, "error", err)
	}
}

// beginStream counts a stream in, unless the server is stopping.
func (s *Server) beginStream() bool {
	s.streamMu.Lock()
	defer s.streamMu.Unlock()
	if s.stopping.Err() != nil {
		return false
	}
	s.streams.Add(1)
	s.writing.Add(1)
	s.metrics.streams.Inc()
	return true
}

func (s *Server) endStream() {
	s.metrics.streams.Dec()
	s.writing.Add(-1)
	s.streams.Done()
}

func streamHeaders(w http.ResponseWriter, contentType, run string) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	if run != "" {
		h.Set("X-Agent-Run-Id", run)
	}
}

// WhileAllowed calls wait with a context that ends when the principal's right ends, or that to the agent if one is
// named, or when the server stops. What ends it is no error then, unless it is the right; the other errors are wait's.
func (s *Server) WhileAllowed(
	ctx context.Context, p tenant.Principal, agent string, wait func(context.Context) error,
) error {
	allowed, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.stopping, cancel)()
	var agents []string
	if agent != "" {
		agents = []string{agent}
	}
	right := s.Tenants.RightTo(&p, agent)
	watched := s.watch(allowed, right, cancel)
	err := wait(allowed)
	watched()
	if errors.Is(err, context.Canceled) && ctx.Err() == nil {
		err = nil
	}
	if err == nil {
		_, err = s.Tenants.Still(ctx, p, agents...)
	}
	return err
}

// lasts says whether a right lasts. Where that must be asked for, which needs a large stack, a goroutine asks that ends
// then: those of a stream are there as long as it is.
func (s *Server) lasts(ctx context.Context, right *tenant.Right) (answer bool) {
	if changes, _ := right.Changes(); right.Due(changes) > 0 {
		return true
	}
	s.Host.Go(func() { answer = right.Lasts(ctx) })()
	return answer
}

// watch ends a context when a right has ended, or cannot be watched any more. The caller must call stop, which ends it
// as well.
func (s *Server) watch(ctx context.Context, right *tenant.Right, end func()) (stop func()) {
	wait := s.Host.Go(func() {
		defer end()
		s.untilItEnds(ctx, right)
	})
	return func() { end(); wait() }
}

// untilItEnds returns when a right has ended, or with the context.
func (s *Server) untilItEnds(ctx context.Context, right *tenant.Right) {
	for ctx.Err() == nil {
		changes, changed := right.Changes()
		wait := right.Due(changes)
		if wait <= 0 {
			if !s.lasts(ctx, right) {
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

// Sink is the writing end of a stream. It takes nothing more when the client is gone or its right has ended.
type Sink struct {
	w          http.ResponseWriter
	controller *http.ResponseController
	may        func() bool // whether the reader may still read the run, asked before each write; nil: it may
	failed     error
}

var errRightEnded = errors.New("httpapi: the right to the stream has ended")

// Heartbeat writes a comment of Server-Sent Events, which keeps the connection alive. It returns why nothing can be
// written to the client any more, as the others do, for good.
func (o *Sink) Heartbeat() error { return o.put([]byte(": heartbeat\n\n")) }

// Retry tells a client of Server-Sent Events to come back after a second when the connection breaks.
func (o *Sink) Retry() error { return o.put([]byte("retry: 1000\n\n")) }

// Event writes an event with its name and its number as Server-Sent Events have it. JSON holds no line break, so one
// data line is enough. Its error may also be that the value cannot be written as JSON; Data and Line have the same.
func (o *Sink) Event(name string, id int64, v any) error {
	return o.json(fmt.Appendf(nil, "event: %s\nid: %d\ndata: ", name, id), v, []byte("\n\n"))
}

// Data writes an event that has neither name nor number.
func (o *Sink) Data(v any) error { return o.json([]byte("data: "), v, []byte("\n\n")) }

// Named writes an event that has a name and no number.
func (o *Sink) Named(name string, v any) error {
	return o.json([]byte("event: "+name+"\ndata: "), v, []byte("\n\n"))
}

// End writes the last event of protocols that have one without JSON: [DONE].
func (o *Sink) End() error { return o.put([]byte("data: [DONE]\n\n")) }

// Line writes a line of NDJSON.
func (o *Sink) Line(v any) error { return o.json(nil, v, []byte("\n")) }

func (o *Sink) json(before []byte, v any, after []byte) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return o.put(before, append(data, after...))
}

// Write writes a piece of a stream that somebody else puts together.
func (o *Sink) Write(p []byte) (int, error) {
	if err := o.put(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// put writes and flushes; the reader has its time to take it, as of every answer.
func (o *Sink) put(pieces ...[]byte) error {
	if o.failed == nil && o.may != nil && !o.may() {
		o.failed = errRightEnded
	}
	for _, b := range pieces {
		if o.failed == nil && len(b) > 0 {
			_, o.failed = o.w.Write(b)
		}
	}
	if o.failed == nil {
		o.failed = o.controller.Flush()
	}
	return o.failed
}
