package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/platform/waiting"
)

// stallTime is the time after which a client that neither sends nor reads is cut off. The reader of a stream comes back
// to a fresh init.
const stallTime = 30 * time.Second

// Stream is an answer that is written while a run goes on.
type Stream struct {
	ContentType string
	Of          lifecycle.Whose // of the run: the stream ends when its reader loses the right to it
	Bounded     bool            // it ends before the time of the function that answers is over
	// Follow writes events until its context ends or the sink is closed.
	Follow func(ctx context.Context, out *Sink) error
	// Final writes the final event of a stream that the server ends. It may be nil.
	Final func(out *Sink)
	// Short writes the final event of a stream that ends early for another reason. These are an error, the end of its
	// reader's right, and the removal of its run. It must not write any data of the run. It may be nil.
	Short func(out *Sink)
}

func (s Stream) final(out *Sink) {
	if s.Final != nil {
		s.Final(out)
	}
}

func (s Stream) short(out *Sink) {
	if s.Short != nil {
		s.Short(&Sink{w: out.w, controller: out.controller}) // without the check of the right
	}
}

// Stream follows the call's run until the run, the client, the reader's right or the server ends. It returns an error
// of kind Limited or Unavailable as the answer where no stream slot is free: then the stream has not begun.
func (s *Server) Stream(ctx context.Context, w http.ResponseWriter, c *Call, stream Stream) error {
	if err := s.TakeSlot(ctx, c); err != nil {
		return err
	}
	streamHeaders(w, stream.ContentType, c.Run)
	out := &Sink{w: w, controller: http.NewResponseController(w)}
	if !s.beginStream(c, out.controller) {
		stream.final(out)
		return nil
	}
	defer s.endStream(out.controller)
	defer waiting.Start(ctx)()
	if stream.Bounded && s.MaxStream > 0 {
		var done context.CancelFunc
		ctx, done = context.WithTimeout(ctx, s.MaxStream)
		defer done()
	}
	following, right, end := s.withRight(ctx, &c.Principal, stream.Of)
	defer end()
	w.WriteHeader(http.StatusOK)
	_ = out.put(nil) // the headers, before anything is read; a failure shows at the next
	if out.may = func() bool { return right.Lasts(following) }; !out.may() {
		stream.short(out)
		return nil
	}
	err := stream.Follow(following, out)
	s.finishStream(following, c, out, stream, err, errors.Is(ctx.Err(), context.DeadlineExceeded))
	return nil
}

// finishStream writes the final event of a stream, or logs why it ended. err is what Follow returned. late reports that
// a bounded stream has used up its time.
func (s *Server) finishStream(ctx context.Context, c *Call, out *Sink, stream Stream, err error, late bool) {
	ended := err == nil || out.failed != nil
	if !ended && (s.stopping.Err() != nil || late) {
		stream.final(out)
		return
	}
	if !ended || errors.Is(out.failed, errRightEnded) {
		stream.short(out)
	}
	switch {
	case ended:
	case problem.Is(err, "not_found"): // the run was deleted
	case ctx.Err() == nil: // the stream ends early, and only the log can show why
		s.Log.Error("a stream failed", "request_id", c.id, "run_id", c.Run, "error", err)
	}
}

// finalTime is how long all clients together have to read the rest of their streams when the server stops.
const finalTime = 2 * time.Second

// openStreams are the streams that a server is writing.
type openStreams struct {
	mu    sync.Mutex
	open  map[*http.ResponseController]struct{}
	last  time.Time // the latest write deadline; zero unless the server stops
	ended sync.WaitGroup
}

// beginStream adds a stream, unless the server is stopping.
func (s *Server) beginStream(c *Call, out *http.ResponseController) bool {
	o := &s.streams
	o.mu.Lock()
	defer o.mu.Unlock()
	if s.stopping.Err() != nil {
		return false
	}
	if o.open == nil {
		o.open = map[*http.ResponseController]struct{}{}
	}
	o.open[out] = struct{}{}
	o.ended.Add(1)
	c.streaming = true
	s.metrics.streams.Inc()
	return true
}

func (s *Server) endStream(out *http.ResponseController) {
	o := &s.streams
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.open, out)
	s.metrics.streams.Dec()
	o.ended.Done()
}

// stop calls end, which ends all streams, and shortens their write deadlines.
func (o *openStreams) stop(end func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last = time.Now().Add(finalTime)
	end()
	for out := range o.open {
		_ = out.SetWriteDeadline(o.last) // not every writer has one
	}
}

func (o *openStreams) count() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return int64(len(o.open))
}

// writeBy sets the write deadline of an answer; zero: none. The deadlines of streams end with finalTime.
func (s *Server) writeBy(c *Call, out *http.ResponseController, t time.Time) error {
	if !c.streaming {
		return out.SetWriteDeadline(t)
	}
	o := &s.streams
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.last.IsZero() && (t.IsZero() || t.After(o.last)) {
		t = o.last
	}
	return out.SetWriteDeadline(t)
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

// WhileAllowed calls wait with a context. The context ends when the principal's right ends, or the right to a run if of
// names one, or when the server stops. The end of the context is not an error, unless the right has ended. Other errors
// are those of wait.
func (s *Server) WhileAllowed(
	ctx context.Context, p tenant.Principal, of lifecycle.Whose, wait func(context.Context) error,
) error {
	allowed, _, end := s.withRight(ctx, &p, of)
	end = sync.OnceFunc(end)
	defer end() // also after a panic
	err := wait(allowed)
	end()
	if errors.Is(err, context.Canceled) && ctx.Err() == nil {
		err = nil
	}
	if err == nil {
		_, err = s.Tenants.CheckRight(ctx, p, of)
	}
	return err
}

// withRight returns a context. The context ends when the principal's right ends, or the right to a run if of names one,
// or when the server stops. It also ends when a panic stops the checks of the right; end then panics with it. The
// caller must call end.
func (s *Server) withRight(
	ctx context.Context, p *tenant.Principal, of lifecycle.Whose,
) (allowed context.Context, right *tenant.Right, end func()) {
	allowed, cancel := context.WithCancel(ctx)
	goOn := context.AfterFunc(s.stopping, cancel)
	right = s.Tenants.RightTo(p, of)
	var mu sync.Mutex // held during each check; it guards the variables below
	var timer *time.Timer
	var died *host.Panic
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(0, func() {
		mu.Lock()
		defer mu.Unlock()
		if allowed.Err() != nil {
			return
		}
		lasts := false
		if died = host.Catch(func() { lasts = right.Lasts(allowed) }); !lasts {
			cancel()
		} else if timer.Reset(right.Due()) { // a change has set it meanwhile
			timer.Reset(0)
		}
	})
	forget := s.Tenants.OnChange(*p, func() { timer.Reset(0) })
	return allowed, right, func() {
		goOn()
		forget()
		cancel()
		mu.Lock()
		defer mu.Unlock()
		timer.Stop()
		died.Again()
	}
}

// Sink is the writing end of a stream. It accepts nothing more when the client is gone or its right has ended.
type Sink struct {
	w          http.ResponseWriter
	controller *http.ResponseController
	may        func() bool // whether the reader may still read the run, checked before each write; nil: it may
	failed     error
}

var errRightEnded = errors.New("httpapi: the right to the stream has ended")

// Heartbeat writes a comment of Server-Sent Events, which keeps the connection alive. It returns the error after which
// nothing can be written to the client any more, as the others do.
func (o *Sink) Heartbeat() error { return o.put([]byte(": heartbeat\n\n")) }

// Retry makes a client of Server-Sent Events connect again 1 s after the connection breaks.
func (o *Sink) Retry() error { return o.put([]byte("retry: 1000\n\n")) }

// Event writes an event with its name and its number as Server-Sent Events have it. JSON holds no line break, so one
// data line is enough. Its error may also be that the value cannot be written as JSON; Data and Line have the same.
func (o *Sink) Event(name string, id int64, v any) error {
	return o.json(fmt.Appendf(nil, "event: %s\nid: %d\ndata: ", name, id), v, []byte("\n\n"))
}

// Data writes an event without a name and without a number.
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

// Write writes a piece of a stream whose format the caller writes itself.
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
