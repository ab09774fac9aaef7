package httpapi

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"agentplatform/internal/problem"
	"agentplatform/internal/waiting"
)

// HTTP makes the server that the API is reached through, with its limits on connections.
func (s *Server) HTTP() *http.Server {
	return &http.Server{
		// Longer than a load balancer in front (120 s, infra/stacks) keeps an idle connection: whichever side closes
		// first must not be the one that is called.
		Handler: s, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 130 * time.Second, MaxHeaderBytes: 64 << 10,
		ErrorLog:    slog.NewLogLogger(s.Log.Handler(), slog.LevelWarn),
		ConnContext: s.strangers.enter, ConnState: s.strangers.seen,
	}
}

// strangers counts the connections of each address that have shown no good key yet. An address has so many; what it
// opens beyond is closed. The others are bounded by what their keys may.
type strangers struct {
	limit int // 0: none

	mu   sync.Mutex
	of   map[string]int
	from map[net.Conn]string
}

type strangerKey struct{}

func (s *strangers) enter(ctx context.Context, c net.Conn) context.Context {
	address, _, err := net.SplitHostPort(c.RemoteAddr().String())
	if err != nil || s.limit == 0 {
		return ctx
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[address] >= s.limit {
		_ = c.Close()
		return ctx
	}
	if s.of == nil {
		s.of, s.from = map[string]int{}, map[net.Conn]string{}
	}
	s.of[address]++
	s.from[c] = address
	return context.WithValue(ctx, strangerKey{}, c)
}

func (s *strangers) seen(c net.Conn, state http.ConnState) {
	if state == http.StateClosed || state == http.StateHijacked {
		s.forget(c)
	}
}

// known is called when the connection of a request has shown a good key.
func (s *strangers) known(ctx context.Context) {
	if c, ok := ctx.Value(strangerKey{}).(net.Conn); ok {
		s.forget(c)
	}
}

func (s *strangers) forget(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	address, there := s.from[c]
	if !there {
		return
	}
	delete(s.from, c)
	if s.of[address]--; s.of[address] == 0 {
		delete(s.of, address)
	}
}

// seats counts the streams that are open, of all and of each key.
type seats struct {
	mu  sync.Mutex
	all int
	of  map[string]int
}

// Seat takes a place for a stream until the request has been answered; it is taken before the answer begins, as there
// is another answer when there is none.
func (s *Server) Seat(ctx context.Context, c *Call) error {
	key := c.Principal.Key
	if c.seated {
		return nil
	}
	if err := s.sharedSeat(ctx, c); err != nil {
		return err
	}
	s.seats.mu.Lock()
	defer s.seats.mu.Unlock()
	switch {
	case s.KeyStreams > 0 && s.seats.of[key] >= s.KeyStreams:
		return full(problem.Limited, "rate_limited", "this key has %d streams open and may have no more", s.KeyStreams)
	case s.Streams > 0 && s.seats.all >= s.Streams:
		return full(problem.Unavailable, "unavailable", "too many streams are open; try again")
	}
	if s.seats.of == nil {
		s.seats.of = map[string]int{}
	}
	s.seats.all++
	s.seats.of[key]++
	c.seated = true
	return nil
}

// shortWait is how long an answer may wait for a run without a place. Taking one, and giving it back, are two writes.
const shortWait = 3 * time.Second

// limitWaits has a request that waits for a run for longer than shortWait take a place of its key, as a stream does,
// because it keeps a function just so; where none is left, it is answered with how the run stands. Waits of reads keep
// none of the functions that answer messages.
func (s *Server) limitWaits(r *http.Request, c *Call, waits *waiting.Clock) {
	if s.Shared != nil && s.KeyChats > 0 && r.Method == http.MethodPost {
		ctx := r.Context()
		waits.Limit(shortWait, func() bool { return s.sharedSeat(ctx, c) == nil })
	}
}

// sharedSeat takes one of the places that a key has in all processes together. Where the table does not say how many
// are left, the stream is let in: what it asks next is the same table.
func (s *Server) sharedSeat(ctx context.Context, c *Call) error {
	if s.Shared == nil || s.KeyChats == 0 || c.place != nil {
		return nil
	}
	until := s.Host.Now().Add(s.MaxStream + time.Minute)
	place, taken, err := s.Shared.Enter(ctx, c.Principal.Key, s.KeyChats, until)
	switch {
	case err != nil:
		s.Log.Warn("streams of a key cannot be counted", "request_id", c.id, "error", err.Error())
	case !taken:
		return full(problem.Limited, "rate_limited", "this key has %d streams open and may have no more", s.KeyChats)
	default:
		c.place = &place
	}
	return nil
}

// full refuses a stream.
func full(kind problem.Kind, code, format string, args ...any) error {
	p := problem.New(kind, code, format, args...)
	p.RetryAfter = 5 * time.Second
	return p
}

func (s *Server) unseat(ctx context.Context, c *Call) {
	if c.place != nil {
		if err := s.Shared.Leave(ctx, c.Principal.Key, *c.place); err != nil {
			s.Log.Warn("the place of a stream is not given back", "request_id", c.id, "error", err.Error())
		}
	}
	if !c.seated {
		return
	}
	s.seats.mu.Lock()
	defer s.seats.mu.Unlock()
	key := c.Principal.Key
	s.seats.all--
	if s.seats.of[key]--; s.seats.of[key] == 0 {
		delete(s.seats.of, key)
	}
}
