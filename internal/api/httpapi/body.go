package httpapi

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"

	"agentplatform/internal/platform/problem"
	"agentplatform/internal/platform/share"
)

// Checks of a request's body before a handler sees it. A body that does not come has its connection closed. JSON is
// held whole, within the room for all JSON bodies, and checked once. No reader then receives a body whose cost exceeds
// its size.

// ReadBody reads a body of JSON whole and checks it; the request's body is then the bytes that were read. Its bytes
// count until the request has been answered, or c.Release is called. It returns answers as errors. The body is too
// large, did not come or is not JSON, or there is no room for it among those of its user, its organization or
// everybody.
func (s *Server) ReadBody(w http.ResponseWriter, r *http.Request, c *Call) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	limit := min(s.MaxBody, maxJSON)
	if r.ContentLength > limit {
		return nil, &http.MaxBytesError{Limit: limit}
	}
	coming := &coming{
		Reader: http.MaxBytesReader(w, r.Body, limit), pace: c.body, small: s.smallBodies, large: s.bodies,
		first: s.smallBodies.Part(holderOf(c.Principal)), rest: s.bodies.Part(holderOf(c.Principal)),
	}
	c.release = sync.OnceFunc(coming.give)
	body, err := io.ReadAll(coming)
	if err != nil {
		c.release()
		c.body.hangUp(w) // the server does not wait for the rest
		return nil, unread(err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if len(body) == 0 {
		return nil, nil
	}
	if contentType := r.Header.Get("Content-Type"); contentType != "" {
		kind, _, err := mime.ParseMediaType(contentType)
		if err != nil || kind != "application/json" && !strings.HasSuffix(kind, "+json") {
			wrong := frameworkError(http.StatusUnsupportedMediaType, "", nil)
			return nil, &apiError{problem: wrong, status: http.StatusBadRequest} // as HTTP has it, for all protocols
		}
	}
	return body, CheckJSON("body", body)
}

// coming is a body that comes in to be held. Its bytes count as they come, not as they are announced: a body that does
// not come takes no room. The first bytes of each body have room of their own, so a small body needs no room of the
// large ones.
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
		return 0, exceeded(smallRequestBodies, bytesHeld, full)
	}
	if full := b.rest.Take(b.last - first); full != nil {
		return 0, exceeded(requestBodies, bytesHeld, full)
	}
	return n, err
}

func (b *coming) give() {
	b.first.Give()
	b.rest.Give()
}

// unread is the error for a body that could not be read.
func unread(err error) error {
	_, known := problem.As(err)
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); known || tooLarge {
		return err
	}
	return problem.InvalidField("body", "is shorter than its Content-Length")
}

// BoundBody makes a request's body end with an error when it is longer than MaxBody. A handler that reads its body by
// itself calls it first. It returns the error immediately for a client that waits for a go-ahead (Expect:
// 100-continue).
func (s *Server) BoundBody(w http.ResponseWriter, r *http.Request) error {
	if r.ContentLength > s.MaxBody && r.Header.Get("Expect") != "" {
		return &http.MaxBytesError{Limit: s.MaxBody}
	}
	r.Body = http.MaxBytesReader(w, r.Body, s.MaxBody)
	return nil
}
