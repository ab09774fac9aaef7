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

	"github.com/go-json-experiment/json/jsontext"

	"agentplatform/internal/problem"
)

// What a request must be before anything looks at it. A body that does not come has its connection closed; JSON is
// held whole within what all of it may have, and judged once, so that no reader behind the door meets a body that
// costs more than it weighs.

// Bounds of JSON (its size: maxJSON). An OpenAPI document of 5 MiB has about 250,000 values, 20 deep.
const (
	maxDepth  = 64
	maxValues = 300_000
)

// checkJSON refuses JSON that is no JSON, is not UTF-8, goes too deep, has too many values, or says one member twice;
// which of the two was meant, two readers could tell differently. Its work is one pass.
func checkJSON(at string, body []byte) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(body)) // a buffer is read in place
	for values := 0; ; values++ {
		token, err := d.ReadToken()
		if errors.Is(err, io.EOF) && values > 0 && d.StackDepth() == 0 {
			return nil
		}
		if err != nil {
			return notJSON(at, d, err)
		}
		switch {
		case d.StackDepth() == 0 && values > 0 && token.Kind() != '}' && token.Kind() != ']':
			return problem.InvalidField(at, "must be one JSON value, with nothing after it")
		case d.StackDepth() > maxDepth:
			at = location(at, d.StackPointer())
			return problem.InvalidField(at, "must not have values nested more than %d deep", maxDepth)
		case values > maxValues:
			return problem.InvalidField(at, "must have at most %d values", maxValues)
		}
	}
}

func notJSON(at string, d *jsontext.Decoder, err error) error {
	where, what := d.StackPointer(), err
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) {
		where, what = syntax.JSONPointer, syntax.Err
	}
	at = location(at, where)
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		return problem.InvalidField(at, "must not be there twice")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return problem.InvalidField(at, "is not valid JSON: it ends too early")
	}
	return problem.InvalidField(at, "is not valid JSON: %s", short(what.Error()))
}

// maxLocation bounds what is said of where a fault is: the names in it are the client's.
const maxLocation = 256

// location is a place in JSON as errors name it: body.model.name, body.tools[3].
func location(at string, p jsontext.Pointer) string {
	var b strings.Builder
	b.WriteString(at)
	for name := range p.Tokens() {
		if name != "" && strings.Trim(name, "0123456789") == "" {
			b.WriteString("[" + name + "]")
		} else {
			b.WriteString("." + name)
		}
	}
	return short(b.String())
}

func short(s string) string {
	if len(s) > maxLocation {
		s = s[:maxLocation] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// hold reads a body of JSON whole and judges it; the request's body is then what was read. Its bytes count until the
// request has been answered, or c.release is called.
func (s *Server) hold(w http.ResponseWriter, r *http.Request, c *call) error {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	limit := min(s.MaxBody, maxJSON)
	if r.ContentLength > limit {
		return &http.MaxBytesError{Limit: limit}
	}
	organization := c.principal.Organization.ID
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
	return checkJSON("body", body)
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
		full := problem.New(problem.Unavailable, "unavailable", "too many large bodies are under way at once; try again")
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

// What all JSON bodies under way may have together, and those of one organization.
const (
	maxBodies      = 64 << 20
	maxBodiesOfOne = maxBodies / 2
)

// bodies counts the bytes of JSON bodies under way, by organization.
type bodies struct {
	mu    sync.Mutex
	all   int64
	parts map[string]int64
}

func (b *bodies) take(organization string, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all+n > maxBodies || b.parts[organization]+n > maxBodiesOfOne {
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
}

// steadyBody gives a request's body its deadlines. They hold for a body that nobody reads, too: the server itself
// reads on before it answers.
func (s *Server) steadyBody(w http.ResponseWriter, r *http.Request) {
	if r.Body == nil || r.Body == http.NoBody {
		return
	}
	size := r.ContentLength
	if size < 0 || size > s.MaxBody {
		size = s.MaxBody
	}
	b := &steady{ReadCloser: r.Body, set: http.NewResponseController(w).SetReadDeadline, stall: s.Stall}
	b.end = time.Now().Add(b.stall + time.Duration(size/bodyRate)*time.Second)
	b.await()
	r.Body = b
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
	switch {
	case errors.Is(err, io.EOF):
		_ = b.set(time.Time{}) // from here on the server waits for the client to leave, for as long as the answer takes
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = problem.InvalidField("body", "did not come in time")
	}
	return n, err
}

// hangUp has the connection closed after the answer: nobody waits for the body of a request that was refused unread.
func hangUp(w http.ResponseWriter, r *http.Request) {
	if b, unread := r.Body.(*steady); unread {
		w.Header().Set("Connection", "close")
		_ = b.set(time.Now())
	}
}
