package mcpserver

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/run/stream"
)

// lastWords is how long before the end of its stream a call is answered with where its run stands.
const lastWords = 5 * time.Second

// light is how large a call may be that is told how it goes on, in bytes: it is kept until its stream ends. A larger
// one is answered as if it had not asked.
const light = 64 << 10

// WantsProgress returns the token of a call whose client is to be told how it goes on, as it is written; nil for other
// requests, for a client that takes no stream, and for one whose version is refused: that has a status, which a stream
// that has begun has no more. What else is wrong with it the handler says.
func (s *Server) WantsProgress(header http.Header, body []byte) (token json.RawMessage) {
	if len(body) > light || !streamable(header) {
		return nil
	}
	var r struct {
		Method string `json:"method"`
		Params struct {
			Meta struct {
				Token json.RawMessage `json:"progressToken"`
			} `json:"_meta"`
		} `json:"params"`
	}
	err := json.Unmarshal(body, &r)
	if err != nil || r.Method != "tools/call" || string(r.Params.Meta.Token) == "null" {
		return nil
	}
	return r.Params.Meta.Token
}

// streamable says whether the client of a header takes a stream, and speaks a version that the library does.
func streamable(h http.Header) bool {
	version := h.Get("Mcp-Protocol-Version")
	accepts := slices.ContainsFunc(strings.Split(strings.Join(h.Values("Accept"), ","), ","), func(one string) bool {
		name, _, _ := strings.Cut(one, ";")
		return strings.EqualFold(strings.TrimSpace(name), "text/event-stream")
	})
	return accepts && (version == "" || slices.Contains(mcp.SupportedProtocolVersions(), version))
}

// telling is the waiter of a call that wants progress.
func (s *Server) telling(
	streaming context.Context, p tenant.Principal, token json.RawMessage, idle time.Duration,
) waiter {
	return func(ctx context.Context, r *mcp.CallToolRequest, run string) *mcp.CallToolResult {
		telling, cancel := context.WithCancel(ctx) // the library's outlives its client
		defer cancel()
		defer context.AfterFunc(streaming, cancel)()
		if end, bounded := streaming.Deadline(); bounded {
			var done context.CancelFunc
			telling, done = context.WithDeadline(telling, end.Add(-lastWords))
			defer done()
		}
		if err := s.tell(telling, p, r.Session, token, run, idle); err != nil && telling.Err() == nil {
			return s.refused(err)
		}
		ctx, done := context.WithTimeout(ctx, lastWords)
		defer done()
		return s.wait(ctx, p, run, 0) // a run that goes on is named, so that the client can ask for it
	}
}

// tell notifies the client of a call of what happens in its run, until it has ended or waits for a human. A
// notification has the event as GET /runs/{run_id}/stream has it, and what is new in words.
func (s *Server) tell(
	ctx context.Context, p tenant.Principal, client *mcp.ServerSession, token json.RawMessage, run string,
	idle time.Duration,
) error {
	entity, err := s.Intake.Run(ctx, p, run)
	if err != nil {
		return err
	}
	tenants := s.Intake.Tenants
	right, reads := tenants.RightTo(&p, entity.Value.Agent), tenants.Reads(p)
	told := 0.0
	notify := func(words string, meta mcp.Meta) error {
		told++
		return client.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
			Meta: meta, ProgressToken: token, Progress: told, Message: words,
		})
	}
	return s.Hub.Follow(ctx, s.Store, p.Scope(), run, idle, func(e stream.Event) error {
		if !right.Lasts(ctx) {
			return stream.ErrStop // the answer says it
		}
		switch e.Event {
		case stream.Heartbeat:
			return notify("The run goes on.", nil) // clients take a silent server for one that is lost
		case stream.Done: // the answer has it
			return nil
		}
		e, err := e.For(ctx, reads)
		if err != nil {
			return err
		}
		if err := notify(inWords(e), mcp.Meta{"event": e}); err != nil {
			return err
		}
		waits := string(lifecycle.AwaitingInput)
		if e.Status == waits || e.Event == stream.Init && e.Run.Status == waits {
			return stream.ErrStop
		}
		return nil
	})
}

// inWords is what is new by an event.
func inWords(e stream.Event) string {
	switch e.Event {
	case stream.Init:
		if *e.Text != "" {
			return *e.Text
		}
		return "The run " + e.RunID + " is " + e.Run.Status + "."
	case stream.Delta:
		return *e.Text
	case stream.StepEvent:
		return e.Step.Name + ": " + e.Step.State
	case stream.Status:
		return "The run is " + e.Status + "."
	}
	return ""
}
