package httpapi

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"agentplatform/internal/hangup"
	"agentplatform/internal/host"
	"agentplatform/internal/tenant"
)

// Steps are a stream that is written a step at a time, and needs no goroutine between two of them, as the Follower of
// package stream.
type Steps interface {
	// Step writes what there is to write, and reports whether the stream has ended.
	Step(ctx context.Context) (ended bool, err error)
	// Wait waits until the next step is due, at most for the time most. The error is ctx's.
	Wait(ctx context.Context, most time.Duration) (due bool, err error)
	// Sleep has wake called when a step becomes due by news. The caller must call awake before anything else.
	Sleep(wake func()) (awake func(stays bool))
	// Due is when the next step is due without news.
	Due() time.Duration
	Close()
}

const (
	// leaveAfter is after how long without a word a stream leaves the HTTP server.
	leaveAfter = 100 * time.Millisecond
	// lull is for how long a dormant stream keeps its goroutine after news: one that speaks has it all the time. It is
	// longer than the time between two glances where news is looked for.
	lull = 500 * time.Millisecond
	// lastWords is how long all clients together have to take what dormant streams still write when the server stops.
	lastWords = 2 * time.Second
)

// dormant is a stream that has left the HTTP server with its connection, which takes tens of kilobytes less: it has no
// goroutine while there is nothing to do. What may give it something to do wakes it: news, time, the end of its client,
// of its right or of the server.
type dormant struct {
	server   *Server
	call     *Call
	rest     *chunks
	unwatch  func() // ends the watching for the client's end
	steps    Steps
	out      *Sink
	right    *tenant.Right
	farewell func(*Sink)
	finish   func() // is called at the end
	ctx      context.Context
	cancel   context.CancelFunc
	due      *time.Timer
	awake    func(stays bool)

	mu      sync.Mutex
	running bool // a goroutine is at it, or it has ended
	woken   bool // since that goroutine looked last
	byNews  bool // and not only by its time or a change of rights
}

// dormants are the dormant streams of a server.
type dormants struct {
	mu      sync.Mutex
	all     map[*dormant]struct{}
	watcher hangup.Watcher // is made for the first one
	until   time.Time      // what they write must have been taken by then; zero while the server does not stop
	closed  bool
}

// watching is what watches the connections of dormant streams.
func (d *dormants) watching() (hangup.Watcher, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, hangup.ErrClosed
	}
	if d.watcher == nil {
		w, err := hangup.New()
		if err != nil {
			return nil, err
		}
		d.watcher, d.all = w, map[*dormant]struct{}{}
	}
	return d.watcher, nil
}

func (d *dormants) add(one *dormant) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all[one] = struct{}{}
}

func (d *dormants) remove(one *dormant) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.all, one)
}

// rightsChanged has the streams of an organization look for their right; empty: all.
func (d *dormants) rightsChanged(organization string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for one := range d.all {
		if organization == "" || one.call.Principal.Organization == organization {
			one.rouse(false)
		}
	}
}

// writeUntil sets the deadline of what is written to a client; a stop may have set one for all.
func (d *dormants) writeUntil(c net.Conn, t time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.until.IsZero() && d.until.Before(t) {
		t = d.until
	}
	return c.SetWriteDeadline(t)
}

// stop wakes all streams of a server that stops.
func (d *dormants) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.until = time.Now().Add(lastWords)
	for one := range d.all {
		_ = one.rest.conn.SetWriteDeadline(d.until)
		one.wake()
	}
}

// close ends the watching of connections, once there are no streams any more.
func (d *dormants) close() {
	d.mu.Lock()
	d.closed = true
	w := d.watcher
	d.mu.Unlock()
	if w != nil {
		w.Close()
	}
}

// canLeave reports whether an answer has a connection that it can leave the HTTP server with.
func canLeave(w http.ResponseWriter) bool {
	for {
		if _, can := w.(http.Hijacker); can {
			return true
		}
		within, is := w.(interface{ Unwrap() http.ResponseWriter })
		if !is {
			return false
		}
		w = within.Unwrap()
	}
}

// leave takes a stream out of the HTTP server, between two steps. It reports whether it has: where nothing can watch
// its client, it stays.
func (s *Server) leave(c *Call, steps Steps, out *Sink, right *tenant.Right, farewell func(*Sink)) bool {
	watching, err := s.dormants.watching()
	if err != nil {
		return false
	}
	conn, _, err := out.controller.Hijack() // all that was written has been flushed, in whole chunks
	if err != nil {
		return false
	}
	d := &dormant{
		server: s, call: c, rest: &chunks{conn: conn}, steps: steps, out: out, right: right, farewell: farewell,
		running: true, awake: func(bool) {}, unwatch: func() {},
	}
	d.ctx, d.cancel = context.WithCancel(s.stopping)
	out.w = &watcher{
		ResponseWriter: d.rest, status: http.StatusOK, stall: s.Stall,
		deadline: func(t time.Time) error { return s.dormants.writeUntil(conn, t) },
		room:     func(n int) (func(), error) { return s.roomFor(c, n) }, instead: func(error) {},
	}
	out.controller = http.NewResponseController(out.w)
	out.may = func() bool { return right.Lasts(d.ctx) }
	if unwatch, err := watching.Watch(conn, func() { d.cancel(); d.wake() }); err == nil {
		d.unwatch = unwatch
	} else { // that its client is gone shows at the next heartbeat
		s.Log.Warn("the client of a stream is not watched", "request_id", c.id, "error", err.Error())
	}
	c.dormant = d
	return true
}

// start has the stream go on. finish is called at its end.
func (d *dormant) start(finish func()) {
	d.finish = finish
	d.due = time.AfterFunc(time.Hour, func() { d.rouse(false) })
	d.server.dormants.add(d)
	d.server.Host.Go(d.run)
}

// wake has a goroutine look what there is to do. Whoever has brought it calls it, and it returns at once.
func (d *dormant) wake() { d.rouse(true) }

func (d *dormant) rouse(byNews bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.woken, d.byNews = true, d.byNews || byNews
	if !d.running {
		d.running = true
		d.server.Host.Go(d.run)
	}
}

// run does what there is to do, until there is nothing or the stream has ended. Nobody waits for its goroutine but
// Server.Stop, for the end of the stream.
func (d *dormant) run() {
	for ended, asleep := false, false; !ended && !asleep; {
		byNews := d.look()
		died := host.Catch(func() {
			if ended = d.goOn(byNews); !ended {
				asleep = d.sleep()
			}
		})
		if ended = ended || died != nil; ended {
			d.died(died)
			d.end(died == nil)
		}
	}
}

// look returns whether there was news since the last look.
func (d *dormant) look() (byNews bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	byNews = d.byNews
	d.woken, d.byNews = false, false
	return byNews
}

// goOn takes steps until the stream has ended, or has said nothing for a lull: after news there is often more.
func (d *dormant) goOn(byNews bool) (ended bool) {
	d.due.Stop()
	lasts := d.right.Lasts(d.ctx)
	d.awake(lasts && d.ctx.Err() == nil)
	for lasts {
		ended, err := d.steps.Step(d.ctx)
		due := false
		if !ended && err == nil && byNews {
			due, err = d.steps.Wait(d.ctx, lull)
		}
		if ended || err != nil {
			d.server.saidAll(d.ctx, d.call, d.out, Stream{Farewell: d.farewell}, err, false)
			return true
		}
		if !due {
			return false
		}
	}
	return true
}

// sleep has the stream be woken, unless there is something to do already.
func (d *dormant) sleep() bool {
	d.awake = d.steps.Sleep(d.wake)
	changes, _ := d.right.Changes()
	d.due.Reset(max(0, min(d.steps.Due(), d.right.Due(changes))))
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.woken || d.ctx.Err() != nil {
		return false
	}
	d.running = false
	return true
}

// end gives back what the stream has, and only then has its client see the end. Where it is whole, the client is told
// that this is all of it.
func (d *dormant) end(whole bool) {
	defer d.server.endStream()
	defer d.server.dormants.remove(d) // not before: a stop sets the deadline of those that there are
	d.due.Stop()
	d.cancel()
	for _, giveBack := range []func(){func() { d.awake(false) }, d.steps.Close, d.finish} {
		d.died(host.Catch(giveBack))
	}
	if whole {
		_ = d.server.dormants.writeUntil(d.rest.conn, time.Now().Add(d.server.Stall))
		d.rest.end()
	}
	d.unwatch()
	_ = d.rest.conn.Close()
}

// died logs a panic, if there was one.
func (d *dormant) died(p *host.Panic) {
	if p != nil {
		d.server.Log.Error("a stream panicked", "request_id", d.call.id, "run_id", d.call.Run,
			"panic", p.Value, "stack", string(p.Stack))
	}
}

// chunks writes the rest of an answer to a connection in the chunks of HTTP/1.1. It is an http.ResponseWriter whose
// head has gone out.
type chunks struct {
	conn   net.Conn
	held   []byte // of the next chunk
	broken bool   // the connection has failed
}

// maxHeld is how many bytes wait for others to make a chunk with them; a piece alone may be larger.
const maxHeld = 16 << 10

func (*chunks) Header() http.Header { return http.Header{} }
func (*chunks) WriteHeader(int)     {}

func (c *chunks) Write(b []byte) (int, error) {
	if len(c.held) > 0 && len(c.held)+len(b) > maxHeld {
		if err := c.FlushError(); err != nil {
			return 0, err
		}
	}
	c.held = append(c.held, b...)
	return len(b), nil
}

func (c *chunks) FlushError() error {
	if len(c.held) == 0 {
		return nil
	}
	b := fmt.Appendf(make([]byte, 0, len(c.held)+16), "%x\r\n", len(c.held))
	b = append(append(b, c.held...), "\r\n"...)
	c.held = nil
	_, err := c.conn.Write(b)
	c.broken = c.broken || err != nil
	return err
}

// end tells the client that this is all.
func (c *chunks) end() {
	if c.FlushError() == nil && !c.broken {
		_, _ = c.conn.Write([]byte("0\r\n\r\n"))
	}
}
