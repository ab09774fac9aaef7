package httpapi

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"agentplatform/internal/problem"
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

// streamSlots counts the open streams: all of them, and those of each key.
type streamSlots struct {
	mu  sync.Mutex
	all int
	of  map[string]int
}

// TakeSlot takes a stream slot for the call, which has it until the request has been answered. It is called before the
// answer begins. Its error, of kind Limited or Unavailable, is the answer where no slot is free. A call takes one slot
// at most.
func (s *Server) TakeSlot(ctx context.Context, c *Call) error {
	key := c.Principal.Key
	if c.hasSlot {
		return nil
	}
	if err := s.takeSharedSlot(ctx, c); err != nil {
		return err
	}
	s.slots.mu.Lock()
	defer s.slots.mu.Unlock()
	switch {
	case s.KeyStreams > 0 && s.slots.of[key] >= s.KeyStreams:
		return full(problem.Limited, "rate_limited", "this key has %d streams open and may have no more", s.KeyStreams)
	case s.Streams > 0 && s.slots.all >= s.Streams:
		return full(problem.Unavailable, "unavailable", "too many streams are open; try again")
	}
	if s.slots.of == nil {
		s.slots.of = map[string]int{}
	}
	s.slots.all++
	s.slots.of[key]++
	c.hasSlot = true
	return nil
}

// shortWait is how long an answer may wait for a run without a slot. Taking and releasing one are two writes.
const shortWait = 3 * time.Second

// slotted releases the stream slots of a request when it has been answered. A POST that waits for a run for longer than
// shortWait takes a slot of its key: like a stream, it keeps a function busy. Where no slot is free, the answer has the
// run's present state. Reads are not limited: they keep none of the functions that answer messages.
func (s *Server) slotted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, ctx := callOf(r.Context()), r.Context()
		defer func() { s.releaseSlots(ctx, c) }()
		if s.Shared != nil && s.KeyChats > 0 && r.Method == http.MethodPost {
			c.waits.Limit(shortWait, func() bool {
				return c.Principal.Key == "" || s.takeSharedSlot(ctx, c) == nil
			})
		}
		next.ServeHTTP(w, r)
	})
}

// takeSharedSlot takes one of the slots that a key has in all processes together. Where the table cannot be read, the
// stream is let in: its next read is of the same table.
func (s *Server) takeSharedSlot(ctx context.Context, c *Call) error {
	if s.Shared == nil || s.KeyChats == 0 || c.sharedSlot != nil {
		return nil
	}
	until := s.Host.Now().Add(s.MaxStream + time.Minute)
	slot, taken, err := s.Shared.Enter(ctx, c.Principal.Key, s.KeyChats, until)
	switch {
	case err != nil:
		s.Log.Warn("streams of a key cannot be counted", "request_id", c.id, "error", err.Error())
	case !taken:
		return full(problem.Limited, "rate_limited", "this key has %d streams open and may have no more", s.KeyChats)
	default:
		c.sharedSlot = &slot
	}
	return nil
}

// full refuses a stream.
func full(kind problem.Kind, code, format string, args ...any) error {
	p := problem.New(kind, code, format, args...)
	p.RetryAfter = 5 * time.Second
	return p
}

// releaseSlots releases the slots of a call, if it has any.
func (s *Server) releaseSlots(ctx context.Context, c *Call) {
	if c.sharedSlot != nil {
		if err := s.Shared.Leave(ctx, c.Principal.Key, *c.sharedSlot); err != nil {
			s.Log.Warn("the slot of a stream is not released", "request_id", c.id, "error", err.Error())
		}
	}
	if !c.hasSlot {
		return
	}
	s.slots.mu.Lock()
	defer s.slots.mu.Unlock()
	key := c.Principal.Key
	s.slots.all--
	if s.slots.of[key]--; s.slots.of[key] == 0 {
		delete(s.slots.of, key)
	}
}
