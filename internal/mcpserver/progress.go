package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentplatform/internal/lifecycle"
	"agentplatform/internal/stream"
	"agentplatform/internal/tenant"
)

// lastWords is how long before the end of its stream a call is answered with where its run stands.
const lastWords = 5 * time.Second

// WantsProgress reports whether a request is a call whose client is to be told how it goes on. What else is wrong with
// it the handler says.
func (s *Server) WantsProgress(body []byte) bool {
	var r struct {
		Method string `json:"method"`
		Params struct {
			Meta struct {
				Token json.RawMessage `json:"progressToken"`
			} `json:"_meta"`
		} `json:"params"`
	}
	err := json.Unmarshal(body, &r)
	return err == nil && r.Method == "tools/call" && len(r.Params.Meta.Token) > 0 &&
		string(r.Params.Meta.Token) != "null"
}

// Telling makes the handler of a call that wants progress. It answers with Server-Sent Events: notifications of what
// happens in the run, then the result. beat is called when nothing happens for idle; what writes the events must bear
// that beside it. The call waits until the run has ended or waits for a human, at most until shortly before the end of
// streaming, whose end ends it.
func (s *Server) Telling(
	streaming context.Context, p tenant.Principal, idle time.Duration, beat func() error,
) http.Handler {
	return s.handler(p, false, func(ctx context.Context, r *mcp.CallToolRequest, run string) reply {
		ctx, cancel := context.WithCancel(ctx) // the library's outlives its client
		defer cancel()
		defer context.AfterFunc(streaming, cancel)()
		telling, window := ctx, s.Window
		if end, bounded := streaming.Deadline(); bounded {
			var done context.CancelFunc
			telling, done = context.WithDeadline(ctx, end.Add(-lastWords))
			defer done()
		}
		err := s.tell(telling, p, r, run, idle, beat)
		if err != nil && ctx.Err() == nil && errors.Is(telling.Err(), context.DeadlineExceeded) {
			err, window = nil, 0
		}
		if err != nil {
			return refused(err)
		}
		return s.wait(ctx, p, run, window)
	})
}

// tell notifies the client of a call of what happens in its run, until it has ended or waits for a human. A
// notification has the event as GET /runs/{run_id}/stream has it, and what is new in words.
func (s *Server) tell(
	ctx context.Context, p tenant.Principal, r *mcp.CallToolRequest, run string, idle time.Duration, beat func() error,
) error {
	entity, err := s.Intake.Run(ctx, p, run)
	if err != nil {
		return err
	}
	tenants := s.Intake.Tenants
	right, reads := tenants.RightTo(p, entity.Value.Agent), tenants.Reads(p)
	told := 0.0
	return s.Hub.Follow(ctx, s.Store, p.Scope(), run, idle, func(e stream.Event) error {
		if !right.Lasts(ctx) {
			return stream.ErrStop // the answer says it
		}
		switch e.Event {
		case stream.Heartbeat:
			return beat()
		case stream.Done: // the answer has it
			return nil
		}
		e, err := e.For(ctx, reads)
		if err != nil {
			return err
		}
		told++
		if err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
			Meta: mcp.Meta{"event": e}, ProgressToken: r.Params.GetProgressToken(), Progress: told, Message: inWords(e),
		}); err != nil {
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

// Refusal is the answer to a request that cannot be served, for the reason that text gives.
func (s *Server) Refusal(body []byte, text string) any {
	of := struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}{Version: "2.0"}
	var r struct {
		ID json.RawMessage `json:"id"`
	}
	if json.Unmarshal(body, &r) == nil {
		of.ID = r.ID
	}
	of.Error.Code, of.Error.Message = jsonrpc.CodeInvalidRequest, text
	return of
}
