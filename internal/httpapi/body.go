package httpapi

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"agentplatform/internal/problem"
	"agentplatform/internal/share"
)

// What a request's body must be before a handler sees it. A body that does not come has its connection closed; JSON is
// held whole within what all of it may have, and checked once, so that no reader meets a body that costs more than it
// weighs.

// Hold reads a body of JSON whole and checks it; the request's body is then what was read. Its bytes count until the
// request has been answered, or c.Release is called. Its errors are answers: a body that is too large, did not come, is
// no JSON, or has no room beside those of its user, its organization or everybody.
func (s *Server) Hold(w http.ResponseWriter, r *http.Request, c *Call) error {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	limit := min(s.MaxBody, maxJSON)
	if r.ContentLength > limit {
		return &http.MaxBytesError{Limit: limit}
	}
	coming := &coming{
		Reader: http.MaxBytesReader(w, r.Body, limit), pace: c.body, small: s.smallBodies, large: s.bodies,
		first: s.smallBodies.Part(holderOf(c)), rest: s.bodies.Part(holderOf(c)),
	}
	c.release = sync.OnceFunc(coming.give)
	body, err := io.ReadAll(coming)
	if err != nil {
		c.release()
		hangUp(w, r) // what has not come is not waited for
		return unread(err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if len(body) == 0 {
		return nil
	}
	if said := r.Header.Get("Content-Type"); said != "" {
		kind, _, err := mime.ParseMediaType(said)
		if err != nil || kind != "application/json" && !strings.HasSuffix(kind, "+json") {
			return frameworkError(http.StatusUnsupportedMediaType, "", nil)
		}
	}
	return CheckJSON("body", body)
}

// coming is a body that comes in to be held. Its bytes count as they come, not as they are announced: a body that does
// not come takes no room. The first bytes of each body have room of their own, so a small body needs nothing of what
// large ones divide.
type coming struct {
	io.Reader

	pace         *steady
	first, rest  *share.Part
	small, large *share.Pool // of these
	came, last   int64       // bytes: in all, and by the last read
}

func (b *coming) Read(p []byte) (int, error) {
	pool := b.small
	if b.came > smallBody {
		pool = b.large
	}
	b.pace.keep(b.last, pool.Tight())
	n, err := b.Reader.Read(p)
	b.last = int64(n)
	first := max(0, min(b.last, smallBody-b.came))
	b.came += b.last
	if full := b.first.Take(first); full != nil {
		return 0, exceeded(smallRequestBodies, full)
	}
	if full := b.rest.Take(b.last - first); full != nil {
		return 0, exceeded(requestBodies, full)
	}
	return n, err
}

func (b *coming) give() {
	b.first.Give()
	b.rest.Give()
}

// unread says why a body could not be read.
func unread(err error) error {
	var tooLarge *http.MaxBytesError
	if _, known := problem.As(err); known || errors.As(err, &tooLarge) {
		return err
	}
	return problem.InvalidField("body", "ended before its length")
}

// BoundBody has a request's body end with an error when it is longer than a body may be. A handler that reads its body
// by itself calls it first.
func (s *Server) BoundBody(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, s.MaxBody)
}

// bodyRate is how fast a body must come at least, on the whole, in bytes a second.
const bodyRate = 64 << 10

// steady is a body that must go on coming: each read has a deadline, and so has the whole. Without, a client that
// sends a head and then nothing would keep its connection for ever.
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

// hurried is how far behind a body may be while there is little room for others.
const hurried = 5 * time.Second

// keep holds a body to its rate while it comes, not only on the whole: time that it does not use is lost beyond the
// stall time, which is shorter in a hurry. n bytes have come since the last call. Without, a body that has come but for
// its end could be held for as long as all of it may take.
func (b *steady) keep(n int64, hurry bool) {
	if b == nil { // the request has no body, though what bounds it reads one
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
		err = problem.InvalidField("body", "did not come in time")
	}
	return n, err
}

// hangUp has the connection closed after the answer, as nobody reads what is left of the request's body. The answer
// does not wait for it.
func hangUp(w http.ResponseWriter, r *http.Request) {
	b, unread := r.Body.(*steady)
	if !unread {
		return
	}
	w.Header().Set("Connection", "close")
	_ = http.NewResponseController(w).EnableFullDuplex()
	if b.ended {
		_ = b.set(time.Now())
	}
}

// How long, and how much, is read of a body that nobody wants: as long as it goes on coming.
const (
	lingerPause = 500 * time.Millisecond
	lingerTime  = 10 * time.Second
	lingerBytes = 128 << 20
)

// linger ends a connection whose request was refused before its body had come: the answer goes out, then what comes is
// thrown away for a while. Many clients send all of a request before they look at the answer, and would find the
// connection reset instead of it.
func (b *steady) linger(w http.ResponseWriter, r *http.Request) {
	if http.NewResponseController(w).Flush() == nil && r.Header.Get("Expect") == "" { // who asks first has not sent it
		b.stall, b.end = min(b.stall, lingerPause), time.Now().Add(lingerTime)
		_, _ = io.CopyN(io.Discard, b, lingerBytes)
	}
	_ = b.set(time.Now()) // the server does not wait for more
}
