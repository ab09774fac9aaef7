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
)

// What a request's body must be before a handler sees it. A body that does not come has its connection closed; JSON is
// held whole within what all of it may have, and checked once, so that no reader meets a body that costs more than it
// weighs.

// Hold reads a body of JSON whole and checks it; the request's body is then what was read. Its bytes count until the
// request has been answered, or c.Release is called. Its errors are answers: a body that is too large, did not come, is
// no JSON, or has no room beside those under way.
func (s *Server) Hold(w http.ResponseWriter, r *http.Request, c *Call) error {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	limit := min(s.MaxBody, maxJSON)
	if r.ContentLength > limit {
		return &http.MaxBytesError{Limit: limit}
	}
	organization := c.Principal.Organization
	coming := &counted{Reader: http.MaxBytesReader(w, r.Body, limit), bodies: &s.bodies, organization: organization}
	c.release = sync.OnceFunc(coming.give)
	body, err := io.ReadAll(coming)
	if err != nil {
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

// counted is a body whose bytes count as they come, not as they are announced: a body that does not come takes no room.
type counted struct {
	io.Reader

	bodies       *bodies
	organization string
	taken        int64
}

func (b *counted) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if n > 0 && !b.bodies.take(b.organization, int64(n)) {
		full := problem.New(
			problem.Unavailable, "unavailable", "too many large bodies are under way at once; try again",
		)
		full.RetryAfter = time.Second
		return 0, full
	}
	b.taken += int64(n)
	return n, err
}

func (b *counted) give() {
	if b.taken > 0 {
		b.bodies.give(b.organization, b.taken)
	}
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

// What all JSON bodies under way may have together, and all large answers that have not been taken yet.
const (
	maxBodies  = 64 << 20
	maxAnswers = 96 << 20
)

// bodies counts the bytes of bodies under way, by organization; one may take half of what there is.
type bodies struct {
	most  int64
	mu    sync.Mutex
	all   int64
	parts map[string]int64
}

func (b *bodies) take(organization string, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all+n > b.most || b.parts[organization]+n > b.most/2 {
		return false
	}
	if b.parts == nil {
		b.parts = map[string]int64{}
	}
	b.all += n
	b.parts[organization] += n
	return true
}

func (b *bodies) give(organization string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all -= n
	if b.parts[organization] -= n; b.parts[organization] == 0 {
		delete(b.parts, organization)
	}
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
