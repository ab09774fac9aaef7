package httpapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"agentplatform/internal/platform/problem"
	"agentplatform/internal/platform/share"
)

// TakeSlot takes a stream slot for the call, which has it until the request has been answered. It is called before the
// answer begins. Its error, of kind Limited or Unavailable, is the answer where no slot is free. A call takes one slot
// at most.
func (s *Server) TakeSlot(ctx context.Context, c *Call) error {
	if c.slot != nil {
		return nil
	}
	if err := s.takeShared(ctx, c); err != nil {
		return err
	}
	slot := s.slots.Part(share.Holder{Organization: c.Principal.Key})
	if refused, is := errors.AsType[*share.Refusal](slot.Take(1)); is {
		if refused.Scope != share.Organization { // also where one key has all slots (scope user)
			return full(problem.Unavailable, "unavailable", "too many streams are open; try again")
		}
		return full(problem.Limited, "rate_limited", "this key has %d streams open and may have no more", s.KeyStreams)
	}
	c.slot = slot
	return nil
}

// shortWait is how long an answer may wait for a run without a slot. Taking and releasing one are two writes.
const shortWait = 3 * time.Second

// slotted releases the stream slots of a request, and the room of its body, when it has been answered. A POST that
// waits for a run for longer than shortWait takes a slot of its key: like a stream, it keeps a function busy. Where no
// slot is free, the answer has the run's present state. Reads are not limited: they keep none of the functions that
// answer messages.
func (s *Server) slotted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, ctx := callOf(r.Context()), r.Context()
		defer func() { c.release(); s.releaseSlots(ctx, c) }()
		if s.Shared != nil && s.KeyChats > 0 && r.Method == http.MethodPost {
			c.waits.Limit(shortWait, func() bool {
				return c.Principal.Key == "" || s.takeShared(ctx, c) == nil
			})
		}
		next.ServeHTTP(w, r)
	})
}

// takeShared takes one of the slots that a key has in all processes together. Where the table cannot be read, the
// stream is let in: its next read is of the same table.
func (s *Server) takeShared(ctx context.Context, c *Call) error {
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
	if c.slot != nil {
		c.slot.Give()
	}
}
