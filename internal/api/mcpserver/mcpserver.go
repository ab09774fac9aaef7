// Package mcpserver serves clients that speak the Model Context Protocol: each agent of an organization is a tool,
// and calling it sends a message to the agent, which starts a run like any other.
//
// A call waits for the run as long as POST /chat would. For a run that continues or waits for a human, the result
// has its id, and the tool get_run waits again; cancel_run cancels it. A call that brings a progress token is told what
// happens meanwhile, and waits for as long as its stream may last. No state is kept between requests.
//
// The package must not know how runs are executed. It imports intake, files, stream, view, record, catalog, citation,
// tenant, lifecycle, tool for names, problem, host and the protocol's library.
package mcpserver

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/run/files"
	"agentplatform/internal/run/intake"
	"agentplatform/internal/run/stream"
	"agentplatform/internal/run/view"
	"agentplatform/internal/store/citation"
	"agentplatform/internal/store/record"
)

// Server is the use case.
type Server struct {
	Intake *intake.Intake
	Store  *record.Store
	Files  *files.Files
	Hub    *stream.Hub
	Log    *slog.Logger
	Window time.Duration // how long a call waits for its run
	URL    string        // the address of the API: the part before /files/
}

// How many agents are offered as tools, and how many are read to find those that the principal may use.
const (
	maxAgents  = 100
	maxScanned = 10 * maxAgents
)

// For makes the handler of a principal's request. The answer is JSON. left says whether its client has gone. The error
// is that of the store.
func (s *Server) For(ctx context.Context, p tenant.Principal, left func() bool) (http.Handler, error) {
	agents, err := s.offered(ctx, p)
	if err != nil {
		return nil, err
	}
	wait := func(ctx context.Context, _ *mcp.CallToolRequest, run string) *mcp.CallToolResult {
		return s.wait(ctx, p, run, s.Window)
	}
	return request{Server: s, who: p, agents: agents, wait: wait, left: left}.handler(), nil
}

// request is what a principal's request is answered with.
type request struct {
	*Server

	who    tenant.Principal
	agents []catalog.Agent
	told   bool // its client is told what happens: the answer is a stream
	wait   waiter
	left   func() bool // whether its client has gone
}

// handler makes the handler of a request. The library asks for the server more than once.
func (q request) handler() http.Handler {
	offer := q.server()
	return single(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return offer },
		&mcp.StreamableHTTPOptions{
			Stateless: true, JSONResponse: !q.told, MaxRequestBodyBytes: -1, // bodies are bounded before
			PropagateRequestCancellation: true,
		}))
}

// cancelIfLeft cancels the run that a call has begun when its client has gone: whoever leaves a request has cancelled
// it, from one version of the protocol on.
func (q request) cancelIfLeft(ctx context.Context, r *mcp.CallToolRequest, run string) {
	if r.Extra == nil || r.Extra.Header.Get("Mcp-Protocol-Version") < leavingCancels || !q.left() {
		return
	}
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
	defer done()
	if _, err := q.Intake.Cancel(ctx, q.who, run, "its client has left"); err != nil {
		q.Log.Error("the run of a client that has left cannot be cancelled", "run_id", run, "error", err)
	}
}

// leavingCancels is the version of the protocol that has "the server MUST treat a client disconnect as cancellation of
// that request".
const leavingCancels = "2026-07-28"

// waiter waits for the run of a call, and returns the call's result. The library reads and writes again what a call has
// as its output, and loses digits by it, so that a result brings its own.
type waiter func(ctx context.Context, r *mcp.CallToolRequest, run string) *mcp.CallToolResult

// single refuses batches, which one version of the protocol had and the library still accepts from clients of that
// version: a request counts once against the rate limit and has room for one response, so it is one call.
func single(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := bufio.NewReader(r.Body)
		first, err := body.ReadByte()
		for err == nil && strings.IndexByte(" \t\r\n", first) >= 0 {
			first, err = body.ReadByte()
		}
		if err == nil && first == '[' {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":null,"error":{"code":%d,`+
				`"message":"a request is one call: batches are not taken"}}`+"\n",
				jsonrpc.CodeInvalidRequest)
			return
		}
		if err == nil {
			_ = body.UnreadByte() // cannot fail after a read
		}
		r.Body = struct {
			io.Reader
			io.Closer
		}{body, r.Body}
		next.ServeHTTP(w, r)
	})
}

// guarded converts panics to errors: the library handles requests in goroutines of its own, where a panic would
// end the process.
func (s *Server) guarded(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (result mcp.Result, err error) {
		if died := host.Catch(func() { result, err = next(ctx, method, r) }); died != nil {
			s.Log.Error("a request panicked", "method", method, "panic", died.Value, "stack", string(died.Stack))
			return nil, errors.New("something went wrong on our side")
		}
		return result, err
	}
}

// unheard refuses subscriptions to changes: no state is kept between requests, so nothing would ever be sent.
func unheard(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		if method == "subscriptions/listen" {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound,
				Message: "no changes are told: ask for the tools again"}
		}
		return next(ctx, method, r)
	}
}

// callInput is the input of an agent's tool.
type callInput struct {
	Message string      `json:"message" jsonschema:"what to tell the agent"`
	ChatID  string      `json:"chat_id,omitempty" jsonschema:"the conversation to go on with; left out for a new one"`
	Files   []fileInput `json:"files,omitempty" jsonschema:"files that go with the message"`
	FileIDs []string    `json:"file_ids,omitempty" jsonschema:"ids of files that the service has already"`
}

// fileInput is a file in the input of an agent's tool.
type fileInput struct {
	Name        string `json:"name" jsonschema:"its name, with the ending of its kind"`
	ContentType string `json:"content_type,omitempty" jsonschema:"its media type"`
	Data        string `json:"data" jsonschema:"its bytes, as base64 with padding"`
}

// runInput is the input of get_run and cancel_run.
type runInput struct {
	RunID string `json:"run_id" jsonschema:"the run, as an earlier call named it"`
}

// result is the structured result of a call.
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

// schemas are those of what the tools take and give, made once for each type.
var schemas = mcp.NewSchemaCache()

// server offers agents as tools.
func (q request) server() *mcp.Server {
	offer := mcp.NewServer(&mcp.Implementation{Name: "agent-platform", Version: "1"}, &mcp.ServerOptions{
		Instructions: "Each tool but get_run and cancel_run is an agent. A call that says a run goes on, or waits " +
			"for a decision, is followed up with get_run.",
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
		SchemaCache:  schemas,
	})
	offer.AddReceivingMiddleware(q.guarded, unheard, legible)
	names := map[string]bool{getRun: true, cancelRun: true}
	for _, agent := range q.agents {
		mcp.AddTool(offer, &mcp.Tool{
			Name: unique(names, agent), Title: agent.Spec.Name, Description: describe(agent),
			Meta: mcp.Meta{"agent_id": agent.ID}, OutputSchema: gives(),
		}, func(ctx context.Context, r *mcp.CallToolRequest, in callInput) (*mcp.CallToolResult, any, error) {
			posted, err := q.post(context.WithoutCancel(ctx), q.who, intake.Message{ // whose outcome must be known
				AgentID: agent.ID, Text: in.Message, ChatID: in.ChatID, Watched: q.told,
			}, in)
			if err != nil {
				return q.refused(err), nil, nil
			}
			result := q.wait(ctx, r, posted.Run.ID())
			if posted.Pause == 0 { // else others wait for the run, whose question the message has answered
				q.cancelIfLeft(ctx, r, posted.Run.ID())
			}
			return result, nil, nil
		})
	}
	mcp.AddTool(offer, &mcp.Tool{Name: getRun, OutputSchema: gives(),
		Description: "Waits for a run that an agent's tool has begun, and tells how it stands."},
		func(ctx context.Context, r *mcp.CallToolRequest, in runInput) (*mcp.CallToolResult, any, error) {
			if !host.ValidID(in.RunID) {
				return q.refused(problem.Missing("the run")), nil, nil
			}
			return q.wait(ctx, r, in.RunID), nil, nil
		})
	mcp.AddTool(offer, &mcp.Tool{Name: cancelRun, OutputSchema: gives(),
		Description: "Cancels a run that an agent's tool has begun, and tells how it stands then."},
		func(ctx context.Context, r *mcp.CallToolRequest, in runInput) (*mcp.CallToolResult, any, error) {
			if !host.ValidID(in.RunID) {
				return q.refused(problem.Missing("the run")), nil, nil
			}
			if _, err := q.Intake.Cancel(ctx, q.who, in.RunID, "cancelled through MCP"); err != nil {
				return q.refused(err), nil, nil
			}
			result := q.wait(ctx, r, in.RunID)
			result.IsError = result.IsError && result.StructuredContent == nil // it has ended, as was asked for
			return result, nil, nil
		})
	return offer
}

// post sends a message with the files of a call.
func (s *Server) post(
	ctx context.Context, p tenant.Principal, m intake.Message, in callInput,
) (posted intake.Posted, err error) {
	if n := len(in.Files) + len(in.FileIDs); n > intake.MaxFiles { // before any of them is stored or read
		return posted, problem.InvalidField("files", "at most %d files may be sent", intake.MaxFiles)
	}
	var brought []files.Inline
	for i, f := range in.Files {
		file, err := files.Decode(fmt.Sprintf("files[%d].data", i), f.Name, f.ContentType, f.Data)
		if err != nil {
			return posted, err
		}
		brought = append(brought, file)
	}
	var taken []record.File
	m.Files, taken, err = s.Files.Bring(ctx, p.Scope(), p.Organization, p.User, in.FileIDs, brought,
		func(f record.File) error { return s.Intake.Tenants.MayReadFile(ctx, p, f) })
	if err != nil {
		return posted, err
	}
	if posted, err = s.Intake.Post(ctx, p, m); err != nil {
		s.Files.Drop(ctx, taken...)
	}
	return posted, err
}

// The tools that are no agents.
const (
	getRun    = "get_run"
	cancelRun = "cancel_run"
)

// offered are the agents that a principal may use, the oldest ones where there are too many, in the order in which
// they got their names. So a new or renamed agent never takes a tool name that clients know.
func (s *Server) offered(ctx context.Context, p tenant.Principal) ([]catalog.Agent, error) {
	var agents []catalog.Agent
	after := ""
	for range maxScanned / maxAgents {
		page, err := record.OldestResources[catalog.Agent](ctx, s.Store, p.Scope(), after, maxAgents)
		if err != nil {
			return nil, err
		}
		for _, e := range page.Rows {
			if p.MayUse(e.Value) == nil && len(agents) < maxAgents {
				agents = append(agents, e.Value)
			}
		}
		if after = page.Next; after == "" || len(agents) == maxAgents {
			break
		}
	}
	named := func(a catalog.Agent) time.Time {
		if a.NamedAt.IsZero() {
			return a.CreatedAt
		}
		return a.NamedAt
	}
	slices.SortStableFunc(agents, func(a, b catalog.Agent) int { return named(a).Compare(named(b)) })
	return agents, nil
}

// unique is an agent's tool name. Of agents with the same name, later ones get a part of their ids as a suffix,
// and a number where that name is taken, too.
func unique(taken map[string]bool, a catalog.Agent) string {
	name := tool.Name(a.Spec.Name)
	for n := 1; taken[name]; n++ {
		suffix := "_" + a.ID[len(a.ID)-8:]
		if n > 1 {
			suffix += "_" + strconv.Itoa(n)
		}
		name = tool.Name(a.Spec.Name)
		name = name[:min(len(name), tool.MaxName-len(suffix))] + suffix
	}
	taken[name] = true
	return name
}

func describe(a catalog.Agent) string {
	if a.Spec.Description != "" {
		return a.Spec.Description
	}
	return "Sends a message to the agent " + a.Spec.Name + "."
}

// refused converts a problem to a tool's failure, also that of arguments: the model at the client reads it, and may
// call again; errors of the protocol it is not shown. The text of any other error is for the log.
func (s *Server) refused(err error) *mcp.CallToolResult {
	text := "the service could not do this right now"
	if p, ok := problem.As(err); ok {
		text = p.Message
	} else if !errors.Is(err, context.Canceled) { // by its client, who has gone
		s.Log.Error("a call through MCP could not be carried out", "error", err)
	}
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

// howDecided says how the pause of a run ends: a question by what the user says, anything else by a human elsewhere.
// The model at the client decides nothing.
func howDecided(r record.Run) string {
	if r.Answerable() {
		return " It is answered by another message with this chat_id; then get_run tells what came of it."
	}
	return " A human decides this, in the admin panel or through POST /runs/{run_id}/resume of the API: no tool " +
		"does, and messages with this chat_id are refused until then. get_run tells what came of it."
}

// wait returns the run's state once it has ended or waits for a human, or when the window is over.
func (s *Server) wait(ctx context.Context, p tenant.Principal, run string, window time.Duration) *mcp.CallToolResult {
	if _, err := s.Intake.Run(ctx, p, run); err != nil {
		return s.refused(err)
	}
	e, err := s.Hub.UntilEnd(ctx, s.Store, p.Scope(), run, 0, window)
	if err == nil {
		_, err = s.Intake.Tenants.Still(ctx, p, e.Value.Agent)
	}
	if err != nil {
		return s.refused(err)
	}
	v, err := view.Of(ctx, s.Store, e)
	if err == nil {
		v, err = v.For(ctx, s.Intake.Tenants.Reads(p))
	}
	if err != nil {
		return s.refused(err)
	}
	t := result{RunID: v.RunID, ChatID: v.ChatID, Status: v.Status}
	var text string
	switch e.Value.Status {
	case lifecycle.Completed:
		var result struct {
			Answer    string              `json:"answer"`
			Output    json.RawMessage     `json:"output"`
			Citations []citation.Citation `json:"citations"`
			Files     []record.FileRef    `json:"files"`
		}
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
		text = "The run goes on: ask get_run for " + v.RunID + "."
	default:
		if v.Error != nil {
			t.Error = *v.Error
		}
		text = fmt.Sprintf("The run ended %s. %s", v.Status, t.Error)
	}
	told, err := json.Marshal(t)
	if err != nil {
		return s.refused(err)
	}
	return &mcp.CallToolResult{
		IsError: e.Value.Status.Terminal() && e.Value.Status != lifecycle.Completed,
		Content: append([]mcp.Content{&mcp.TextContent{Text: text}}, s.links(t.Files)...),

		StructuredContent: json.RawMessage(told),
	}
}

// links are files as what clients can ask for with their key.
func (s *Server) links(list []record.FileRef) (links []mcp.Content) {
	for _, f := range list {
		links = append(links, &mcp.ResourceLink{
			URI: s.URL + "/files/" + f.FileID, Name: f.Name, MIMEType: f.ContentType, Size: &f.Size,
		})
	}
	return links
}
