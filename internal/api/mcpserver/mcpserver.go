// Package mcpserver serves clients that speak the Model Context Protocol. Each agent of an organization is a tool. A
// call of the tool sends a message to the agent, which starts a run like any other.
//
// A call waits for the run as long as POST /chat would. For a run that continues or waits for a human, the result has
// its id, and the tool get_run waits again; cancel_run cancels it. A call with a progress token receives the run's
// events meanwhile, and waits for as long as its stream may last. No state is kept between requests.
//
// The package must not know how runs are executed. It imports intake, files, stream, view, record, catalog, citation,
// tenant, lifecycle, problem, host, bridge and the protocol's library.
package mcpserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentplatform/internal/api/bridge"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/run/files"
	"agentplatform/internal/run/intake"
	"agentplatform/internal/run/view"
	"agentplatform/internal/store/citation"
	"agentplatform/internal/store/record"
)

// Server is the use case.
type Server struct {
	bridge.Bridge

	open sync.Map // by callKey: the function that ends a call in progress, as *context.CancelFunc
}

// maxAgents is how many agents are offered as tools.
const maxAgents = 100

// For returns a function that makes the handler of a principal's request with a body. It also reports whether that
// handler answers with a stream. left reports whether its client has gone. The error is that of the store.
//
// The answer is JSON. To a call that wants progress by a token it is Server-Sent Events. These are notifications of the
// run's events, also empty ones after each idle without an event, and then the result. Such a call waits until the run
// has ended or waits for a human, at most until shortly before the end of streaming. When streaming ends immediately,
// so does the wait.
func (s *Server) For(
	ctx context.Context, p tenant.Principal, header http.Header, body []byte, idle time.Duration, left func() bool,
) (handler func(streaming context.Context) http.Handler, streamed bool, err error) {
	m := read(body)
	key := callKey{p.Organization, p.Key, header.Get(sessionHeader), string(m.ID)}
	wanted, end := context.WithCancel(context.Background())
	q := request{Server: s, who: p, left: left, wanted: wanted}
	switch m.Method {
	case "tools/list", callTool: // others need no agents
		q.agents, err = s.offered(ctx, p)
		if err == nil {
			q.names, err = s.Intake.Tenants.ToolNames(ctx, p.Organization, q.agents, getRun, cancelRun)
		}
	case "notifications/cancelled":
		key.id = string(m.Params.RequestID)
		s.giveUp(key)
	}
	token := m.token(header, len(body))
	q.streamed = token != nil
	return func(streaming context.Context) http.Handler {
		q.wait = func(ctx context.Context, _ *mcp.CallToolRequest, run string) *mcp.CallToolResult {
			return s.wait(ctx, p, run, s.Window)
		}
		if q.streamed {
			q.wait = s.progressWaiter(streaming, p, token, idle)
		}
		offer := q.server() // the library requests it more than once
		library := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return offer },
			&mcp.StreamableHTTPOptions{
				Stateless: true, JSONResponse: !q.streamed, MaxRequestBodyBytes: -1, // bodies are bounded before
				PropagateRequestCancellation: true,
			})
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if m.Method == "initialize" {
				w.Header().Set(sessionHeader, s.Intake.Host.NewID())
			}
			if accepts(r.Header, "application/json") {
				r.Header.Set("Accept", "application/json, text/event-stream") // the library wants both
			}
			if m.Method == callTool && key.session != "" && key.id != "" {
				s.open.Store(key, &end)
				defer s.open.CompareAndDelete(key, &end)
			}
			library.ServeHTTP(w, r)
		})
	}, q.streamed, err
}

// request answers one request of a principal.
type request struct {
	*Server

	who      tenant.Principal
	agents   []catalog.Agent
	names    []string // of their tools
	streamed bool     // the answer is a stream of events
	wait     waiter
	left     func() bool     // whether its client has gone
	wanted   context.Context // ends when its client gives the call up
}

// cancelIfLeft cancels the run that a call has begun when its client has cancelled the call. From one version of the
// protocol on, a client that leaves a request has cancelled it, too.
func (q request) cancelIfLeft(ctx context.Context, r *mcp.CallToolRequest, run string) {
	leaves := r.Extra != nil && r.Extra.Header.Get("Mcp-Protocol-Version") >= leavingCancels && q.left()
	if !leaves && q.wanted.Err() == nil {
		return
	}
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), answerMargin)
	defer done()
	if _, err := q.Intake.Cancel(ctx, q.who, run, "its client has given the call up"); err != nil {
		q.Log.Error("the run of a client that has left cannot be cancelled", "run_id", run, "error", err)
	}
}

// leavingCancels is the first version of the protocol with "the server MUST treat a client disconnect as cancellation
// of that request".
const leavingCancels = "2026-07-28"

// waiter waits for the run of a call, and returns the call's result. The library would decode and encode the output of
// a call again, and lose digits. A result therefore has its own encoding.
type waiter func(ctx context.Context, r *mcp.CallToolRequest, run string) *mcp.CallToolResult

// guarded converts panics to errors. The library handles requests in its own goroutines, where a panic would end the
// process.
func (s *Server) guarded(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (result mcp.Result, err error) {
		if died := host.Catch(func() { result, err = next(ctx, method, r) }); died != nil {
			s.Log.Error("a request panicked", "method", method, "panic", died.Value, "stack", string(died.Stack))
			return nil, errors.New("the service had an internal error; try again later")
		}
		return result, err
	}
}

// served refuses methods that are not among the capabilities. The library would answer more of them: empty lists of
// prompts and of resources, and subscriptions to changes. No change would ever be sent, as no state is kept between
// requests.
func served(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		switch method {
		case "initialize", "ping", "server/discover", "tools/list", callTool:
		default:
			if !strings.HasPrefix(method, "notifications/") {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "this method is not supported"}
			}
		}
		return next(ctx, method, r)
	}
}

// withoutNulls takes null as an argument for one that was left out: models write both.
func withoutNulls(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		var arguments map[string]json.RawMessage
		if c, is := r.(*mcp.CallToolRequest); is && json.Unmarshal(c.Params.Arguments, &arguments) == nil {
			count := len(arguments)
			maps.DeleteFunc(arguments, func(_ string, v json.RawMessage) bool { return string(v) == "null" })
			if len(arguments) < count {
				c.Params.Arguments, _ = json.Marshal(arguments) // the arguments that were read
			}
		}
		return next(ctx, method, r)
	}
}

type callInput struct {
	Message string      `json:"message" jsonschema:"the message for the agent"`
	ChatID  string      `json:"chat_id,omitempty" jsonschema:"the conversation to continue; omitted: a new one"`
	Files   []fileInput `json:"files,omitempty" jsonschema:"files for the message"`
	FileIDs []string    `json:"file_ids,omitempty" jsonschema:"ids of files that are already in the service"`
}

// fileInput is a file in the input of an agent's tool.
type fileInput struct {
	Name        string `json:"name" jsonschema:"the file name, with its extension"`
	ContentType string `json:"content_type,omitempty" jsonschema:"the media type of the file"`
	Data        string `json:"data" jsonschema:"the bytes of the file, as base64 with padding"`
}

type runInput struct {
	RunID string `json:"run_id" jsonschema:"the run_id from an earlier call"`
}

type result struct {
	RunID      string              `json:"run_id"`
	ChatID     string              `json:"chat_id"`
	Status     string              `json:"status"`
	Answer     string              `json:"answer,omitempty"`
	Output     json.RawMessage     `json:"output,omitempty"`
	Citations  []citation.Citation `json:"citations,omitempty"`
	Files      []record.FileRef    `json:"files,omitempty"`
	Interrupts []any               `json:"interrupts,omitempty"`
	Error      string              `json:"error,omitempty"`
}

// schemas are the schemas of the tools' inputs and outputs, made once for each type.
var schemas = mcp.NewSchemaCache()

func (q request) server() *mcp.Server {
	offer := mcp.NewServer(&mcp.Implementation{Name: "agent-platform", Version: "1"}, &mcp.ServerOptions{
		Instructions: "Each tool except get_run and cancel_run is an agent. If a result reports that a run " +
			"continues or waits for a decision, call get_run for it.",
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
		SchemaCache:  schemas,
	})
	offer.AddReceivingMiddleware(q.guarded, served, q.bounded, withoutNulls, legible)
	for i, agent := range q.agents {
		mcp.AddTool(offer, &mcp.Tool{
			Name: q.names[i], Title: agent.Spec.Name, OutputSchema: gives(),
			Description: cmp.Or(agent.Spec.Description, "Sends a message to the agent "+agent.Spec.Name+"."),
			Meta:        mcp.Meta{"agent_id": agent.ID},
		}, func(ctx context.Context, r *mcp.CallToolRequest, in callInput) (*mcp.CallToolResult, any, error) {
			posted, err := q.post(context.WithoutCancel(ctx), q.who, intake.Message{ // the outcome must be known
				AgentID: agent.ID, Text: in.Message, ChatID: in.ChatID, Watched: q.streamed,
			}, in)
			if err != nil {
				return q.refused(err), nil, nil
			}
			result := q.wait(ctx, r, posted.Run.ID())
			if posted.Pause == 0 { // else others wait for the run: the message only answered its question
				q.cancelIfLeft(ctx, r, posted.Run.ID())
			}
			return result, nil, nil
		})
	}
	ofRun := func(name, description string, do waiter) {
		mcp.AddTool(offer, &mcp.Tool{Name: name, OutputSchema: gives(), Description: description},
			func(ctx context.Context, r *mcp.CallToolRequest, in runInput) (*mcp.CallToolResult, any, error) {
				if !host.ValidID(in.RunID) {
					return q.refused(problem.Missing("the run")), nil, nil
				}
				return do(ctx, r, in.RunID), nil, nil
			})
	}
	ofRun(getRun, "Waits for a run that an agent's tool started, and returns its state.", q.wait)
	ofRun(cancelRun, "Cancels a run that an agent's tool started, and returns its state.",
		func(ctx context.Context, r *mcp.CallToolRequest, run string) *mcp.CallToolResult {
			if _, err := q.Intake.Cancel(ctx, q.who, run, "cancelled through MCP"); err != nil {
				return q.refused(err)
			}
			result := q.wait(ctx, r, run)
			result.IsError = result.IsError && result.StructuredContent == nil // it has ended, as requested
			return result
		})
	return offer
}

func (s *Server) post(
	ctx context.Context, p tenant.Principal, m intake.Message, in callInput,
) (posted intake.Posted, err error) {
	if n := len(in.Files) + len(in.FileIDs); n > intake.MaxFiles { // before any of them is stored or read
		return posted, problem.InvalidField("files", "at most %d files may be sent", intake.MaxFiles)
	}
	var inline []files.Inline
	for i, f := range in.Files {
		file, err := files.Decode(fmt.Sprintf("files[%d].data", i), f.Name, f.ContentType, f.Data)
		if err != nil {
			return posted, err
		}
		inline = append(inline, file)
	}
	return s.Post(ctx, p, m, in.FileIDs, inline)
}

// The tools that are not agents.
const (
	getRun    = "get_run"
	cancelRun = "cancel_run"
)

// offered are the agents that a principal may use, the oldest ones where there are too many. They are in the order in
// which they got their names. Earlier versions named their tools in that order.
func (s *Server) offered(ctx context.Context, p tenant.Principal) ([]catalog.Agent, error) {
	var agents []catalog.Agent
	for a, err := range s.Agents(ctx, p) {
		if err != nil {
			return nil, err
		}
		if agents = append(agents, a); len(agents) == maxAgents {
			break
		}
	}
	slices.SortStableFunc(agents, func(a, b catalog.Agent) int {
		return cmp.Or(a.NamedAt, a.CreatedAt).Compare(cmp.Or(b.NamedAt, b.CreatedAt))
	})
	return agents, nil
}

// refused converts a problem to a tool's failure, also that of arguments. The model at the client reads a failure, and
// may call again; it does not see errors of the protocol. The client finds code and limits in _meta, as bodies of
// errors have them. The text of any other error is for the log.
func (s *Server) refused(err error) *mcp.CallToolResult {
	text, meta := "the service is unavailable; try again", mcp.Meta(nil)
	if p, ok := problem.As(err); ok {
		why := map[string]any{"code": p.Code}
		maps.Copy(why, p.Extras)
		if p.RetryAfter > 0 {
			why["retry_after"] = math.Ceil(p.RetryAfter.Seconds())
		}
		text, meta = p.Message, mcp.Meta{"error": why}
	} else if !errors.Is(err, context.Canceled) { // by its client, which has gone
		s.Log.Error("a call through MCP could not be carried out", "error", err)
	}
	return &mcp.CallToolResult{Meta: meta, IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

// Fault is the answer, with its status, to a request that the library has refused with this text and a status alone. A
// call of a method that is not served is answered like any call: the official clients take another status for a broken
// connection. An unknown notification is accepted and has no answer, which is nil. The status is 0 where the fault
// belongs to HTTP, and not to JSON-RPC.
func (s *Server) Fault(body []byte, text string) (status int, answer any) {
	unknown := strings.HasPrefix(text, "JSON RPC not handled")
	id, _ := bridge.RequestID(body)
	switch {
	case unknown && id == nil:
		return http.StatusAccepted, nil
	case unknown:
		return http.StatusOK, bridge.Refusal(body, bridge.MethodNotFound, "this method is not supported")
	case strings.HasSuffix(text, `missing required "params"`):
		return http.StatusOK, bridge.Refusal(body, bridge.InvalidParams, "params: are missing")
	case strings.HasPrefix(text, "invalid request"):
		return http.StatusBadRequest, bridge.Refusal(body, bridge.InvalidRequest, text)
	case len(body) == 0 && strings.HasPrefix(text, "POST requires"):
		return http.StatusBadRequest, bridge.Refusal(nil, bridge.ParseError, "the body is empty")
	case strings.HasPrefix(text, "malformed payload"):
		return http.StatusBadRequest, bridge.Refusal(body, bridge.InvalidRequest,
			"the body must be a JSON-RPC 2.0 message")
	}
	return 0, nil
}

// howDecided describes how the pause of a run ends: a question by the user's next message, anything else by a human
// elsewhere. The model at the client decides nothing.
func howDecided(r record.Run) string {
	if r.Answerable() {
		return " Answer it with another message with this chat_id, then call get_run for the result."
	}
	return " A human decides this in the admin panel or with POST /runs/{run_id}/resume of the API; no tool " +
		"can, and messages with this chat_id are refused until then. Call get_run for the result."
}

// wait returns the run's state once it has ended or waits for a human, or when the window is over.
func (s *Server) wait(ctx context.Context, p tenant.Principal, run string, window time.Duration) *mcp.CallToolResult {
	e, err := s.UntilEnd(ctx, p, run, window)
	if err != nil {
		return s.refused(err)
	}
	v, err := view.Of(ctx, s.Store, e)
	if err == nil {
		v, err = v.For(ctx, s.Intake.Tenants.CitationFilter(p))
	}
	if err != nil {
		return s.refused(err)
	}
	t := result{RunID: v.RunID, ChatID: v.ChatID, Status: v.Status}
	var text string
	switch e.Value.Status {
	case lifecycle.Completed:
		var result view.Result
		if err := json.Unmarshal(v.Result, &result); err != nil {
			return s.refused(err)
		}
		t.Answer, t.Citations, t.Files, text = result.Answer, result.Citations, result.Files, result.Answer
		if string(result.Output) != "null" {
			t.Output = result.Output
		}
	case lifecycle.AwaitingInput:
		var prompts []string
		for _, i := range v.Interrupts {
			t.Interrupts = append(t.Interrupts, i)
			prompts = append(prompts, i.Prompt)
		}
		text = "The agent waits for a human: " + strings.Join(prompts, " ") + howDecided(e.Value)
	case lifecycle.Queued, lifecycle.Running:
		text = "The run continues: call get_run for " + v.RunID + "."
	default:
		if v.Error != nil {
			t.Error = *v.Error
		}
		text = fmt.Sprintf("The run ended %s. %s", v.Status, t.Error)
		if v.Partial != nil {
			t.Answer = v.Partial.Answer
			text += "Its text until then: " + t.Answer
		}
	}
	structured, err := json.Marshal(t)
	if err != nil {
		return s.refused(err)
	}
	return &mcp.CallToolResult{
		IsError: e.Value.Status.Terminal() && e.Value.Status != lifecycle.Completed,
		Content: append([]mcp.Content{&mcp.TextContent{Text: text}}, s.links(t.Files)...),

		StructuredContent: json.RawMessage(structured),
	}
}

// links are files as addresses that clients can read with their key.
func (s *Server) links(list []record.FileRef) (links []mcp.Content) {
	for _, f := range list {
		links = append(links, &mcp.ResourceLink{
			URI: s.URL + "/files/" + f.FileID, Name: f.Name, MIMEType: f.ContentType, Size: &f.Size,
		})
	}
	return links
}
