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

// IdleTimeout is how long the server keeps a connection without a request. It is longer than a load balancer in front
// keeps one (120 s, infra/stacks): the side that closes first must not be the one that is called.
const IdleTimeout = 130 * time.Second

// HTTP makes the server that the API is reached through, with its limits on connections.
func (s *Server) HTTP() *http.Server {
	return &http.Server{
		Handler: s, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: IdleTimeout, MaxHeaderBytes: 64 << 10,
		ErrorLog:    slog.NewLogLogger(s.Log.Handler(), slog.LevelWarn),
		ConnContext: s.strangers.enter, ConnState: s.strangers.seen,
	}
}

// strangers counts the connections of each address that have shown no good key yet. An address has so many; what it
// opens beyond is closed. The others are bounded by what their keys may.
type strangers struct {
	pool *share.Pool
	of   sync.Map // the parts of the pool, by net.Conn
}

type strangerKey struct{}

func (s *strangers) enter(ctx context.Context, c net.Conn) context.Context {
	address, _, err := net.SplitHostPort(c.RemoteAddr().String())
	if err != nil {
		return ctx
	}
	part := s.pool.Part(share.Holder{Organization: address})
	if part.Take(1) != nil {
		_ = c.Close()
		return ctx
	}
	s.of.Store(c, part)
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
	if part, there := s.of.LoadAndDelete(c); there {
		part.(*share.Part).Give()
	}
}
