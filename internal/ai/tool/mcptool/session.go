package mcptool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentplatform/internal/ai/tool"
)

// session is an attempt's connection to a server: a line that begins with its first call, and another one where that
// has broken.
type session struct {
	kind     *Kind
	endpoint tool.Endpoint

	mu      sync.Mutex
	line    *line         // that calls use
	lines   []*line       // all that may not have ended
	dialing chan struct{} // closed when a line that is being opened is there, or is not; nil: none is
	over    bool
}

// Session makes a session with a server, which begins with the first call.
func (k *Kind) Session(e tool.Endpoint) tool.Session { return &session{kind: k, endpoint: e} }

// Call runs a tool in a session of its own; see the Call of a [session].
func (k *Kind) Call(ctx context.Context, e tool.Endpoint, d tool.Definition, i tool.Invocation) (tool.Result, error) {
	s := k.Session(e)
	defer s.End()
	return s.Call(ctx, d, i)
}

// Call runs a tool. The idempotency key is sent as metadata for servers that use it. The error is a [tool.Error] if the
// server cannot be reached or the tool fails. It is a [tool.Question] if the server needs an answer of a human. It is
// the context's error if the context ends first. Where the server may have lost the state of earlier calls, the result
// has a warning.
func (s *session) Call(ctx context.Context, d tool.Definition, i tool.Invocation) (tool.Result, error) {
	var b bound
	if err := json.Unmarshal(d.Binding, &b); err != nil {
		return tool.Result{}, fmt.Errorf("mcptool: the binding: %w", err)
	}
	afresh := i.Resumed
	for again := false; ; again = true {
		l, opened, had, err := s.take(ctx)
		if err != nil {
			return tool.Result{}, err
		}
		afresh = afresh || had
		result, missing, err := l.act(ctx, b.Name, d, i)
		if missing && !again { // the server has not begun the call
			afresh = true
			continue
		}
		if afresh && opened && l.stateful() {
			return noted(result, err)
		}
		return result, err
	}
}

// noted is the outcome of the first call in a session that follows another one.
func noted(result tool.Result, err error) (tool.Result, error) {
	const note = "The session with the server was opened again: the state of earlier calls may be lost."
	var failed *tool.Error
	switch {
	case errors.As(err, &failed):
		return result, tool.Fail("%s\n[%s]", failed.Message, note)
	case err == nil:
		result.Text = "[" + note + "]\n" + result.Text
	}
	return result, err
}

func ended(l *line) bool { return l.over.Err() != nil }

// End ends the session: nothing of it is left when it returns.
func (s *session) End() {
	s.mu.Lock()
	lines := s.lines
	s.over, s.line, s.lines = true, nil, nil
	s.mu.Unlock()
	var all sync.WaitGroup
	for _, l := range lines {
		all.Go(l.end)
	}
	all.Wait()
}

// take returns the line for a call, which must give it back. opened is set if the call is its first. had is set if
// there was another line with a state.
func (s *session) take(ctx context.Context) (l *line, opened, had bool, err error) {
	for {
		s.mu.Lock()
		l, dialing := s.line, s.dialing
		switch {
		case s.over:
			s.mu.Unlock()
			return nil, false, had, tool.Fail("the session with the server has ended")
		case dialing != nil:
			s.mu.Unlock()
			select {
			case <-dialing:
				continue
			case <-ctx.Done():
				return nil, false, had, late(ctx)
			}
		case l != nil && l.pool.use(l):
			s.mu.Unlock()
			if l.answers(ctx) {
				return l, false, had, nil
			}
			l.pool.rest(l, true)
			continue
		}
		dialing = make(chan struct{})
		s.dialing, s.line = dialing, nil
		s.mu.Unlock()
		had = had || l != nil && l.stateful()
		l, err = s.kind.dial(ctx, s.endpoint)
		s.mu.Lock()
		s.dialing = nil
		close(dialing)
		over := s.over
		if err == nil && !over {
			s.line, s.lines = l, append(slices.DeleteFunc(s.lines, ended), l)
		}
		s.mu.Unlock()
		if err == nil && over {
			l.end()
			continue
		}
		return l, true, had, err
	}
}

func late(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return tool.Fail("the server did not respond in time")
	}
	return ctx.Err()
}

// pingTime is how long a server may take to answer a ping after it left a call without an answer.
const pingTime = 5 * time.Second

// answers pings a server that left a call without an answer, and reports whether it answers.
func (l *line) answers(ctx context.Context) bool { return !l.silent.Swap(false) || l.lives(ctx) }

// lives asks a server whether it is there.
func (l *line) lives(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	var word *jsonrpc.Error
	_, err := guarded(func() (bool, error) { return true, l.Ping(ctx, nil) })
	return err == nil || errors.As(err, &word) && word.Message != rejected
}

// open reports whether the library still has a connection. It sends nothing: the context of its notification has ended.
func (l *line) open() bool {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	return errors.Is(l.NotifyProgress(over, &mcp.ProgressNotificationParams{}), context.Canceled)
}

// act makes a call and gives the line back. missing is set if the server did not know the session and did nothing.
func (l *line) act(
	ctx context.Context, name string, d tool.Definition, i tool.Invocation,
) (result tool.Result, missing bool, err error) {
	var h exchange
	broke := true
	defer func() { l.pool.rest(l, broke) }() // also if it panics
	q := l.asks.begin(i)
	defer func() { l.asks.end(q, ctx.Err() != nil) }()
	if bytes.Contains(d.Parameters, []byte(`"x-mcp-header"`)) && l.unlisted.Load() {
		l.bounds.more(false) // the list has a limit of its own
		_, err := guarded(func() ([]tool.Definition, error) { return l.tools(ctx) })
		l.unlisted.Store(err != nil)
	}
	answer, err := guarded(func() (*mcp.CallToolResult, error) {
		return l.rounds(context.WithValue(ctx, exchangeKey{}, &h), q, &mcp.CallToolParams{
			Meta: mcp.Meta{"idempotencyKey": i.IdempotencyKey}, Name: name, Arguments: i.Arguments,
		})
	})
	broke = err != nil && l.broken(ctx, err, &h)
	if question := q.failure(); question != nil && ctx.Err() == nil && !broke {
		broke = l.asks.strays.Load() // the question may be of a call that was given up
		return result, false, question
	}
	if err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			l.silent.Store(true)
		}
		return result, h.missing && ctx.Err() == nil, l.failure(ctx, err, &h)
	}
	result, err = resultOf(answer)
	return result, false, err
}

// maxRounds is how often a server may ask in one call before it has a result.
const maxRounds = 10

// rounds makes a call. From one version of the protocol on, a server asks by an incomplete result. The call is then
// made again with the answers.
func (l *line) rounds(ctx context.Context, q *inquiry, p *mcp.CallToolParams) (*mcp.CallToolResult, error) {
	for range maxRounds {
		answer, err := l.CallTool(ctx, p)
		if err != nil || !answer.NeedsInput() {
			return answer, err
		}
		next := *p
		next.RequestState, next.InputResponses = answer.RequestState, mcp.InputResponseMap{}
		for id, one := range answer.InputRequests {
			form, is := one.(*mcp.ElicitParams)
			if !is || form == nil || form.Mode == "url" || form.URL != "" {
				return nil, unfulfilled(answer.InputRequests)
			}
			next.InputResponses[id] = q.answer(form)
		}
		if len(answer.InputRequests) == 0 || q.failure() != nil {
			return nil, unfulfilled(answer.InputRequests)
		}
		p = &next
	}
	return nil, tool.Fail("the server asks its user endlessly")
}

// broken reports whether a failed call leaves a line that no other call can use.
func (l *line) broken(ctx context.Context, err error, h *exchange) bool {
	if l.bounds.overflowed.Load() || l.bounds.endless.Load() || h.missing {
		return true
	}
	var word *jsonrpc.Error
	var known *tool.Error
	return ctx.Err() == nil && !errors.As(err, &known) && !errors.As(err, &word) && !l.open()
}
