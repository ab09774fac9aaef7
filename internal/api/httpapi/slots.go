package httpapi

import (
	"cmp"
	"context"
	"math"
	"net/http"
	"sync"
	"time"

	"agentplatform/internal/platform/share"
)

// The names in answers of all that is divided by number.
const (
	streamsShared     = "streams"
	waitsShared       = "waits"
	connectionsShared = "connections"
)

// byNumber divides all units of a resource that is counted. Without other limits an organization has half, a user two
// fifths and a key three tenths. Without a number for all, only the other limits hold.
func byNumber(all, organization, user, key int) *share.Pool {
	limits := share.Limits{
		All: math.MaxInt64, Organization: int64(organization), User: int64(user), Key: int64(key),
	}
	if all > 0 {
		n := int64(all)
		limits.All, limits.Reserve = n, n/5
		limits.Organization = cmp.Or(limits.Organization, max(1, n/2))
		limits.User = cmp.Or(limits.User, max(1, n*2/5))
		limits.Key = cmp.Or(limits.Key, max(1, n*3/10))
	}
	return share.New(limits)
}

// TakeSlot takes a stream slot for the call, which has it until the request has been answered. It is called before the
// answer begins. It returns an error of kind Limited or Unavailable as the answer where no slot is free. A call has one
// slot at most, of a stream or of a wait.
func (s *Server) TakeSlot(ctx context.Context, c *Call) error {
	if c.slot != nil {
		return nil
	}
	if err := s.takeShared(ctx, c); err != nil {
		return err
	}
	slot := s.slots.Part(holderOf(c.Principal))
	if err := slot.Take(1); err != nil {
		return exceeded(streamsShared, "", err)
	}
	c.slot = slot
	c.giveWait()
	return nil
}

// shortWait is how long an answer may wait for a run without slots that processes share. Taking and releasing those of
// the user and the organization are four writes.
const shortWait = 3 * time.Second

// slotted releases the slots of a request, and the room of its body, when it has been answered. A request that waits
// has a slot, too: like a stream, it keeps a connection. Where no slot is free it does not wait, and the answer has the
// present state.
func (s *Server) slotted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, ctx := callOf(r.Context()), r.Context()
		defer func() { c.release(); s.releaseSlots(ctx, c) }()
		c.waits.Limit(s.mayWait(ctx, c, r.Method == http.MethodPost))
		next.ServeHTTP(w, r)
	})
}

// mayWait returns how much longer a request may wait that has waited for some time. Where processes share slots, a POST
// that waits for longer than shortWait takes them: it keeps a function busy. Reads take no shared slot: they occupy
// none of the functions that answer messages.
func (s *Server) mayWait(ctx context.Context, c *Call, posted bool) func(lasted time.Duration) time.Duration {
	here := sync.OnceValue(func() bool { return s.takeWait(c) })
	shared := sync.OnceValue(func() bool { return s.takeShared(ctx, c) == nil })
	return func(lasted time.Duration) time.Duration {
		switch {
		case c.slot != nil || c.Principal.Key == "": // a stream has its slots
			return math.MaxInt64
		case !here():
			return 0
		case !posted || s.Shared == nil || s.KeyChats == 0:
			return math.MaxInt64
		case lasted < shortWait:
			return shortWait - lasted
		case shared():
			return math.MaxInt64
		}
		return 0
	}
}

// takeWait takes the slot of a wait. All waits of one request, for example of a batch, have one slot.
func (s *Server) takeWait(c *Call) bool {
	part := s.waitSlots.Part(holderOf(c.Principal))
	if part.Take(1) != nil {
		return false
	}
	c.giveWait = part.Give
	return true
}

// sharedSlot is a slot that processes share: its number among those of a user or an organization.
type sharedSlot struct {
	of     string
	number int
}

// takeShared takes one of the slots that an organization has in all processes together. It also takes one of its
// user's, who has four fifths as many. Where the table cannot be read, the stream begins: its next read is of the same
// table.
func (s *Server) takeShared(ctx context.Context, c *Call) error {
	if s.Shared == nil || s.KeyChats == 0 || len(c.shared) > 0 {
		return nil
	}
	until, who := s.Host.Now().Add(s.MaxStream+time.Minute), holderOf(c.Principal)
	for _, l := range []struct {
		scope share.Scope
		of    string
		most  int
	}{
		{share.User, who.Organization + "/" + who.User, max(1, s.KeyChats*4/5)},
		{share.Organization, who.Organization, s.KeyChats},
	} {
		number, taken, err := s.Shared.Enter(ctx, l.of, l.most, until)
		switch {
		case err != nil:
			s.Log.Warn("the streams of an organization cannot be counted", "request_id", c.id, "error", err.Error())
			return nil
		case !taken:
			s.leaveShared(ctx, c)
			n := int64(l.most)
			return exceeded(streamsShared, "", &share.Refusal{Scope: l.scope, Max: n, Used: n})
		}
		c.shared = append(c.shared, sharedSlot{l.of, number})
	}
	return nil
}

func (s *Server) leaveShared(ctx context.Context, c *Call) {
	for _, slot := range c.shared {
		if err := s.Shared.Leave(ctx, slot.of, slot.number); err != nil {
			s.Log.Warn("the slot of a stream is not released", "request_id", c.id, "error", err.Error())
		}
	}
	c.shared = nil
}

// releaseSlots releases the slots of a call, if it has any.
func (s *Server) releaseSlots(ctx context.Context, c *Call) {
	s.leaveShared(ctx, c)
	if c.slot != nil {
		c.slot.Give()
	}
	c.giveWait()
}
