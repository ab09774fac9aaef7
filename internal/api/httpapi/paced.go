package httpapi

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"agentplatform/internal/platform/problem"
)

// paced sets a client's deadlines, to send the request's body and to read each piece of the answer. A slower client is
// cut off.
func (s *Server) paced(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := callOf(r.Context())
		out := &answer{ResponseWriter: w, server: s, call: c, to: http.NewResponseController(w)}
		c.answer = out
		out.writeBy(time.Time{}) // there may be a deadline of the answer before, on this connection
		c.body = s.steadyBody(w, r)
		next.ServeHTTP(out, r)
		// The rest of the answer goes out when this returns, after a rest of the body that the server waits for.
		out.writeBy(time.Now().Add(2 * s.Stall))
		if c.body.isComing() && w.Header().Get("Connection") == "close" {
			c.body.linger(w, r)
		}
	})
}

// bodyRate is the lowest average rate of a body, in bytes a second.
const bodyRate = 64 << 10

// steady is a body that must go on coming: each read has a deadline, and so has the whole. Without them, a client that
// sends a head and then nothing would keep its connection without end.
type steady struct {
	io.ReadCloser

	set   func(time.Time) error // the connection's read deadline; not every writer has one
	stall time.Duration
	end   time.Time // of the whole
	ended bool      // it has come whole, or broke off
}

// steadyBody gives a request's body its deadlines. They hold for a body that nobody reads, too: the server itself
// reads on before it answers.
func (s *Server) steadyBody(w http.ResponseWriter, r *http.Request) *steady {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	size := r.ContentLength
	if size < 0 || size > s.MaxBody {
		size = s.MaxBody
	}
	b := &steady{ReadCloser: r.Body, set: http.NewResponseController(w).SetReadDeadline, stall: s.Stall}
	b.end = time.Now().Add(b.stall + time.Duration(size/bodyRate)*time.Second)
	b.await()
	r.Body = b
	return b
}

func (b *steady) await() {
	next := time.Now().Add(b.stall)
	if next.After(b.end) {
		next = b.end
	}
	_ = b.set(next)
}

// hurried is the longest delay of a body behind its rate while there is little room for others.
const hurried = 5 * time.Second

// keep checks the rate of a body while it comes, and not only over the whole body. Unused time is lost beyond the stall
// time, which is shorter in a hurry. n bytes have come since the last call. Without keep, a body that lacks only its
// end could be held for as long as the whole body may take.
func (b *steady) keep(n int64, hurry bool) {
	if b == nil { // the request has no body, though the reader with the bound reads one
		return
	}
	behind := b.stall
	if hurry {
		behind = min(behind, hurried)
	}
	b.end = b.end.Add(time.Duration(n) * time.Second / bodyRate)
	if most := time.Now().Add(behind); b.end.After(most) {
		b.end = most
	}
}

func (b *steady) Read(p []byte) (int, error) {
	b.await()
	n, err := b.ReadCloser.Read(p)
	b.ended = b.ended || err != nil
	switch {
	case errors.Is(err, io.EOF):
		_ = b.set(time.Time{}) // from here on the server waits for the client to leave, for as long as the answer takes
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = problem.InvalidField("body", "arrived too slowly: send it again, or in smaller parts")
	}
	return n, err
}

// isComing reports whether there is a body whose end has not been read.
func (b *steady) isComing() bool { return b != nil && !b.ended }

// hangUp makes the server close the connection after the answer, as nobody reads the rest of the request's body. The
// answer does not wait for the rest.
func (b *steady) hangUp(w http.ResponseWriter) {
	if b == nil {
		return
	}
	w.Header().Set("Connection", "close")
	_ = http.NewResponseController(w).EnableFullDuplex()
	if b.ended {
		_ = b.set(time.Now())
	}
}

// The time and the bytes for which the server reads a body that it has refused, as long as the body goes on coming.
const (
	lingerPause = 500 * time.Millisecond
	lingerTime  = 10 * time.Second
	lingerBytes = 128 << 20
)

// linger ends a connection whose request was refused before its body had come. The answer goes out; then the rest of
// the body is read and dropped for a while. Many clients send the whole request before they read the answer, and would
// find the connection reset in place of the answer.
func (b *steady) linger(w http.ResponseWriter, r *http.Request) {
	if http.NewResponseController(w).Flush() == nil && r.Header.Get("Expect") == "" { // else it has not sent it
		b.stall, b.end = min(b.stall, lingerPause), time.Now().Add(lingerTime)
		_, _ = io.CopyN(io.Discard, b, lingerBytes)
	}
	_ = b.set(time.Now()) // the server does not wait for more
}
