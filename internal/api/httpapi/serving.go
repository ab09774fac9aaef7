package httpapi

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"agentplatform/internal/platform/share"
)

// IdleTimeout is how long the server keeps a connection without a request. It is longer than the time of a load
// balancer in front (120 s, infra/stacks). The load balancer must close first: else it may send a request on a
// connection that the server closes.
const IdleTimeout = 130 * time.Second

// HTTP makes the server that the API is reached through, with its limits on connections.
func (s *Server) HTTP() *http.Server {
	return &http.Server{
		Handler: s, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: IdleTimeout, MaxHeaderBytes: 64 << 10,
		ErrorLog:    slog.NewLogLogger(s.Log.Handler(), slog.LevelWarn),
		ConnContext: s.connections.enter, ConnState: s.connections.seen,
	}
}

// connections counts connections. Those without a good key yet count by their address, the others by the sender of
// their last request. A connection without a key beyond the share of its address is closed.
type connections struct {
	anonymous, keyed *share.Pool
	of               sync.Map // *sharedConnection, by net.Conn
}

// sharedConnection is the holder of an open connection's share. Requests of one connection may come at the same time,
// and behind a proxy from many senders.
type sharedConnection struct {
	mu     sync.Mutex
	part   *share.Part // nil: it is closed
	holder share.Holder
}

type connectionKey struct{}

func (s *connections) enter(ctx context.Context, c net.Conn) context.Context {
	address, _, err := net.SplitHostPort(c.RemoteAddr().String())
	if err != nil {
		return ctx
	}
	holder := share.Holder{Organization: address}
	held := &sharedConnection{part: s.anonymous.Part(holder)}
	if held.part.Take(1) != nil {
		_ = c.Close()
		return ctx
	}
	s.of.Store(c, held)
	return context.WithValue(ctx, connectionKey{}, held)
}

func (s *connections) seen(c net.Conn, state http.ConnState) {
	if state != http.StateClosed && state != http.StateHijacked {
		return
	}
	if held, there := s.of.LoadAndDelete(c); there {
		held.(*sharedConnection).close()
	}
}

func (h *sharedConnection) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.part.Give()
	h.part = nil
}

// known is called when the connection of a request has shown a good key. It returns an error as the answer where the
// share of the key's holder is used up: then the connection is closed.
func (s *connections) known(w http.ResponseWriter, r *http.Request, holder share.Holder) error {
	held, is := r.Context().Value(connectionKey{}).(*sharedConnection)
	if !is {
		return nil
	}
	held.mu.Lock()
	defer held.mu.Unlock()
	if held.part == nil || held.holder == holder {
		return nil
	}
	part := s.keyed.Part(holder)
	if err := part.Take(1); err != nil {
		w.Header().Set("Connection", "close")
		return exceeded(connectionsShared, "", err)
	}
	held.part.Give()
	held.part, held.holder = part, holder
	return nil
}
