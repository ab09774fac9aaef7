package mcptool

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/ai/tool/httptool"
	"agentplatform/internal/platform/egress"
	"agentplatform/internal/platform/share"
)

// line is an open connection to a server: a session of the protocol.
type line struct {
	*mcp.ClientSession

	program *program // nil: over HTTP
	older   bool     // of the transport before streamable HTTP
	bounds  bounds
	asks    asks

	over context.Context // done when nothing of the line may last any longer
	cut  context.CancelFunc
	once sync.Once

	silent   atomic.Bool // a call had no answer in its time
	unlisted atomic.Bool // the library knows no schema by which an argument is a header, too

	unit    *share.Part
	pool    *pool // its lock guards what follows
	busy    int   // calls at work
	retired bool  // no call may use it any more
	timer   *time.Timer
}

// closeTime limits each part of a line's end.
const closeTime = time.Second

// bounds limits the bytes and requests that a server sends while calls are running, by the number of calls.
type bounds struct {
	calls      atomic.Int64 // since the line rested last
	requests   atomic.Int64 // requests since then, and those before that are not answered yet
	unanswered atomic.Int64
	came       atomic.Int64 // bytes since then
	overflowed atomic.Bool  // the library does not pass on a body's read error
	endless    atomic.Bool  // nor why a request was not made
}

// Limits of a call, with all requests and answers that belong to it.
const (
	maxRequests = tool.MaxTools + 10
	maxBytes    = tool.MaxResult + 1<<20 // a result and the protocol around it
)

// more begins a call. first is set if no other call is running.
func (b *bounds) more(first bool) {
	if first {
		b.calls.Store(0)
		b.requests.Store(b.unanswered.Load())
		b.came.Store(0)
	}
	b.calls.Add(1)
}

// ask counts a request, and returns false for one too many.
func (b *bounds) ask() bool {
	if b.requests.Add(1) <= maxRequests*max(b.calls.Load(), 1) {
		return true
	}
	b.endless.Store(true)
	return false
}

// bounded is a stream from a server; it fails when there is too much of it.
type bounded struct {
	io.ReadCloser
	bounds *bounds
	closed func()
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.bounds.came.Add(int64(n)) > maxBytes*max(b.bounds.calls.Load(), 1) {
		b.bounds.overflowed.Store(true)
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

func (b *bounded) Close() error {
	if b.closed != nil {
		b.closed()
	}
	return b.ReadCloser.Close()
}

// dial opens a line, with one running call. The caller ends the line, or returns it to its pool by rest.
func (k *Kind) dial(ctx context.Context, e tool.Endpoint) (*line, error) {
	if u, err := url.Parse(e.URL); err == nil && !e.Credentials.For(u) { // the library would not pass on why
		return nil, httptool.Authorize(&http.Request{URL: u}, e.Credentials)
	}
	from, limits := &k.connections, limitsOfConnections
	if len(e.Command) > 0 {
		from, limits = &k.programs, limitsOfPrograms
	}
	unit, err := from.enter(ctx, limits)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return nil, tool.Fail("too many sessions with servers are open; try again later")
		}
		return nil, err
	}
	l := &line{pool: from, unit: unit, busy: 1}
	l.bounds.more(true)
	l.over, l.cut = context.WithCancel(context.WithoutCancel(ctx))
	var h exchange
	err = l.connect(ctx, k.Client, e, &h, withSessions)
	var word *jsonrpc.Error
	for _, other := range []struct {
		way way
		may bool
	}{
		{newest, errors.As(err, &word) && word.Message != rejected},
		{older, h.older()},
	} {
		if err == nil || !other.may || ctx.Err() != nil {
			continue
		}
		trying, cancel := context.WithTimeout(ctx, pingTime)
		failed := l.connect(trying, k.Client, e, &exchange{}, other.way)
		cancel()
		if failed == nil {
			l.unlisted.Store(l.program == nil && other.way == newest)
			return l, nil
		}
	}
	if err != nil {
		err = l.failure(ctx, err, &h)
		l.end()
		return nil, err
	}
	return l, nil
}

// way is a way to connect.
type way int

const (
	withSessions way = iota // by the last version of the protocol with sessions, in which servers may ask
	newest                  // by the newest version, for servers that speak no other
	older                   // by the transport before streamable HTTP
)

// connect opens the connection and exchanges the first messages. All parts of the line last until it is cut.
func (l *line) connect(ctx context.Context, c *http.Client, e tool.Endpoint, h *exchange, by way) (err error) {
	life, stop := context.WithCancel(context.WithValue(l.over, exchangeKey{}, h))
	defer func() {
		if err != nil {
			stop()
		}
	}()
	defer context.AfterFunc(ctx, func() {
		stop()
		time.AfterFunc(closeTime, l.cut) // the library waits for requests that do not belong to the connecting
	})()
	options := &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"}
	if by == newest {
		options = nil
	}
	var transport mcp.Transport
	switch {
	case len(e.Command) > 0:
		if l.program != nil { // of another way
			l.program.end()
		}
		if l.program, err = start(l.over, e.Command, &l.bounds); err != nil {
			return err
		}
		transport = &mcp.IOTransport{Reader: l.program.answers, Writer: l.program.in, MaxLineLength: -1}
	case by == older:
		transport = &mcp.SSEClientTransport{Endpoint: e.URL, HTTPClient: l.client(c, e, true), MaxEventSize: -1}
	default:
		transport = &mcp.StreamableClientTransport{Endpoint: e.URL, HTTPClient: l.client(c, e, false), MaxRetries: 2,
			MaxEventSize: -1}
	}
	opened, err := guarded(func() (*mcp.ClientSession, error) {
		return l.newClient().Connect(life, transport, options)
	})
	if err == nil {
		l.ClientSession, l.older, err = opened, by == older, ctx.Err()
	}
	return err
}

func (l *line) client(c *http.Client, e tool.Endpoint, older bool) *http.Client {
	client := httptool.Straight(c)
	client.Transport = &wire{RoundTripper: cmp.Or(client.Transport, http.DefaultTransport), endpoint: e, line: l,
		older: older}
	return client
}

// stateful reports whether the server keeps state of one call for the next.
func (l *line) stateful() bool { return l.program != nil || l.older || l.ID() != "" }

// end ends the line. When it returns, nothing of the line is left. It takes at most a few times [closeTime].
func (l *line) end() {
	l.once.Do(func() {
		defer l.unit.Give()
		if l.program != nil {
			l.program.end()
		}
		// At its end the library waits for all requests, also for those with answers to a server that never reads them.
		late := time.AfterFunc(closeTime, l.cut)
		if l.ClientSession != nil {
			_ = l.Close()
		}
		late.Stop()
		l.cut()
	})
}

// wire is the HTTP transport of a line: it adds credentials and limits the responses.
type wire struct {
	http.RoundTripper
	endpoint tool.Endpoint
	line     *line
	older    bool // the line is of the transport before streamable HTTP
}

var errEndless = errors.New("mcptool: too many requests")

const sessionHeader = "Mcp-Session-Id"

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	listens := r.Method == http.MethodGet && r.Header.Get("Last-Event-ID") == "" && !w.older
	if listens && r.Header.Get(sessionHeader) == "" {
		return noStream(r), nil // a server without sessions has nothing to send
	}
	if tool.Origin(r.URL.String()) != tool.Origin(w.endpoint.URL) {
		return nil, tool.Fail("the server redirects to another server, which is not allowed")
	}
	b := &w.line.bounds
	if !b.ask() {
		return nil, errEndless
	}
	b.unanswered.Add(1)
	ctx, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(w.line.over, cancel)
	done := sync.OnceFunc(func() {
		b.unanswered.Add(-1)
		stop()
		cancel()
	})
	var late *time.Timer
	if listens || r.Method == http.MethodDelete { // a server that hangs would not answer them
		late = time.AfterFunc(closeTime, cancel)
	}
	r = r.Clone(ctx)
	if err := httptool.Authorize(r, w.endpoint.Credentials); err != nil {
		done()
		return nil, err
	}
	answer, err := w.RoundTripper.RoundTrip(r)
	if late != nil && !late.Stop() && err == nil { // it came too late
		_ = answer.Body.Close()
		err = context.DeadlineExceeded
	}
	if err != nil {
		done()
		if listens && w.line.over.Err() == nil {
			return noStream(r), nil
		}
		return nil, err
	}
	answer.Body = &bounded{answer.Body, b, done}
	if strings.HasPrefix(answer.Header.Get("Content-Type"), "application/json") { // some begin with a byte order mark
		answer.Body = &rest{transform.NewReader(answer.Body, unicode.BOMOverride(transform.Nop)), answer.Body}
	}
	switch h, _ := r.Context().Value(exchangeKey{}).(*exchange); {
	case listens:
		answer.Body = lasting{answer.Body, w.line.over}
	case r.Method == http.MethodPost && h != nil:
		h.record(r, answer)
	}
	return answer, nil
}

// noStream is the answer of a server that sends nothing by itself.
func noStream(r *http.Request) *http.Response {
	return &http.Response{StatusCode: http.StatusMethodNotAllowed, Request: r, Body: http.NoBody, Header: http.Header{}}
}

// lasting is the stream of messages that a server sends on its own. Its end is not that of the line.
type lasting struct {
	io.ReadCloser
	over context.Context
}

func (l lasting) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	if err != nil && n == 0 {
		_ = l.Close()
		<-l.over.Done()
	}
	return n, err
}

// exchange is the server's last HTTP response to the requests of one call. The library does not return it.
type exchange struct {
	mu      sync.Mutex
	status  int // of the last answer
	text    string
	missing bool // the server does not know the session any more
}

// exchangeKey is the key of a context's exchange.
type exchangeKey struct{}

// maxRefusal is how much of a refusal is read, in bytes.
const maxRefusal = 64 << 10

func (h *exchange) record(r *http.Request, answer *http.Response) {
	var body []byte
	if answer.StatusCode >= 400 {
		body, _ = io.ReadAll(io.LimitReader(answer.Body, maxRefusal))
		answer.Body = &rest{io.MultiReader(bytes.NewReader(body), answer.Body), answer.Body}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status, h.text = answer.StatusCode, ""
	if kind := answer.Header.Get("Content-Type"); !strings.Contains(kind, "html") {
		h.text = strings.TrimSpace(strings.ToValidUTF8(string(body), "\uFFFD"))
	}
	known := r.Header.Get(sessionHeader) != ""
	h.missing = known && (h.status == http.StatusNotFound ||
		h.status == http.StatusBadRequest && strings.Contains(strings.ToLower(h.text), "session"))
}

// rest is a body that is read in another way.
type rest struct {
	io.Reader
	io.Closer
}

// older reports whether a server refused in a way that suggests the transport before streamable HTTP.
func (h *exchange) older() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Contains([]int{http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed}, h.status)
}

// failure turns an error into a [tool.Error] that names no address.
func (l *line) failure(ctx context.Context, err error, h *exchange) error {
	h.mu.Lock()
	status, body := h.status, h.text
	h.mu.Unlock()
	var word *jsonrpc.Error
	var known *tool.Error
	answered := errors.As(err, &word) && word.Message != rejected
	switch _, network := egress.Plain(err); {
	case ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded):
		return ctx.Err()
	case l.bounds.overflowed.Load():
		return tool.Fail("the server's answer is over %d MiB", tool.MaxResult>>20)
	case l.bounds.endless.Load():
		return tool.Fail("the server's list does not end")
	case answered:
		return failed(wordsOf(word))
	case errors.As(err, &known):
		return known
	case strings.Contains(err.Error(), "cannot unmarshal"): // the library would show its own types
		return errNotMCP
	case l.program != nil && (l.ClientSession == nil || ctx.Err() == nil):
		return l.program.failure(err, ctx.Err() != nil)
	case ctx.Err() != nil:
		return tool.Fail("the server did not respond in time")
	case status >= 400:
		return tool.Fail("%s", strings.TrimSuffix(fmt.Sprintf("the server answered %d: %s", status,
			tool.Clip(withoutAddresses(body), tool.EnoughText)), ": "))
	case network:
		return httptool.Unreachable(err)
	}
	text := err.Error()
	if addresses.MatchString(text) || strings.Contains(text, "lookup ") { // the library puts them into some messages
		text = "the server cannot be reached, or does not support MCP over HTTP"
	}
	return failed(text)
}

// failed is a failure in words of the server.
func failed(text string) error {
	text = cmp.Or(strings.TrimSpace(text), "the server failed and gave no reason")
	return tool.Fail("%s", tool.Clip(text, tool.EnoughText))
}

// rejected is the library's text for a request that did not break the connection.
const rejected = "rejected by transport"

// wordsOf are the words of a server's error.
func wordsOf(e *jsonrpc.Error) string {
	data := string(e.Data)
	if text := ""; json.Unmarshal(e.Data, &text) == nil { // also null
		data = text
	}
	return strings.TrimSuffix(e.Message+": "+data, ": ")
}
