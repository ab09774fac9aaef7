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

// answerMargin is how long before the end of its stream a call is answered with the present state of its run.
const answerMargin = 5 * time.Second

// light is the size, in bytes, up to which a call receives progress: the call is kept until its stream ends. A larger
// call is answered as one without a progress token.
const light = 64 << 10

// token returns the progress token of a call that is answered with a stream, in its JSON form. It is nil for other
// requests, and for a client that accepts no stream. It is also nil for a version that is refused: that refusal has a
// status of its own, and a stream that has begun can no longer send one. The handler reports other faults.
func (m message) token(header http.Header, size int) json.RawMessage {
	version, token := header.Get("Mcp-Protocol-Version"), m.Params.Meta.Token
	if size > light || m.Method != callTool || string(token) == "null" || !accepts(header, asEvents) ||
		version != "" && !slices.Contains(mcp.SupportedProtocolVersions(), version) {
		return nil
	}
	return token
}

const asEvents = "text/event-stream"

// accepts reports whether the client of a header takes a media type. Streams are for those alone that name them.
func accepts(h http.Header, kind string) bool {
	all := strings.Join(h.Values("Accept"), ",")
	if all == "" {
		return kind != asEvents
	}
	return slices.ContainsFunc(strings.Split(all, ","), func(one string) bool {
		name, _, _ := strings.Cut(one, ";")
		name = strings.ToLower(strings.TrimSpace(name))
		return name == kind || kind != asEvents && (name == "*/*" || name == "application/*")
	})
}

// notifying is the waiter of a call that wants progress.
func (s *Server) progressWaiter(
	streaming context.Context, p tenant.Principal, token json.RawMessage, idle time.Duration,
) waiter {
	return func(ctx context.Context, r *mcp.CallToolRequest, run string) *mcp.CallToolResult {
		notifying, cancel := context.WithCancel(ctx) // the library's outlives its client
		defer cancel()
		defer context.AfterFunc(streaming, cancel)()
		if end, bounded := streaming.Deadline(); bounded {
			var done context.CancelFunc
			notifying, done = context.WithDeadline(notifying, end.Add(-answerMargin))
			defer done()
		}
		if err := s.notifyProgress(notifying, p, r.Session, token, run, idle); err != nil && notifying.Err() == nil {
			return s.refused(err)
		}
		ctx, done := context.WithTimeout(ctx, answerMargin)
		defer done()
		return s.wait(ctx, p, run, 0) // a run that goes on is named, so that the client can ask for it
	}
}

// notifyProgress notifies the client of a call of the events of its run, until the run has ended or waits for a human.
// A notification has the event in the form of GET /runs/{run_id}/stream, and the new part in words.
func (s *Server) notifyProgress(
	ctx context.Context, p tenant.Principal, client *mcp.ServerSession, token json.RawMessage, run string,
	idle time.Duration,
) error {
	entity, err := s.Intake.Run(ctx, p, run)
	if err != nil {
		return err
	}
	tenants := s.Intake.Tenants
	right, reads := tenants.RightTo(&p, entity.Value.Whose()), tenants.CitationFilter(p)
	progress := 0.0
	notify := func(words string, meta mcp.Meta) error {
		progress++
		return client.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
			Meta: meta, ProgressToken: token, Progress: progress, Message: words,
		})
	}
	return s.Hub.Follow(ctx, s.Store, p.Scope(), run, idle, func(e stream.Event) error {
		if !right.Lasts(ctx) {
			return stream.ErrStop // the answer has the error
		}
		switch e.Event {
		case stream.Heartbeat:
			return notify("The run continues.", nil) // clients take a silent server for one that is lost
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
