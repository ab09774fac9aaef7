// Package a2aserver serves clients that speak the Agent2Agent protocol over JSON-RPC: a task is a run, a context is
// a chat, `input-required` is a pause. Both versions of the protocol in use, 0.3 and 1.0, are served at one
// address; the name of the method identifies the version.
//
// A message's id is its idempotency key: a message that is sent again finds the task that it started. Pauses are
// answered by a text (a question) or by a data part like the body of a resume request (approvals). No state is
// kept between requests.
//
// The package must not know HTTP, nor how runs are executed. It imports intake, stream, view, record, tenant,
// lifecycle, host and problem.
package a2aserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentplatform/events"
	"agentplatform/internal/catalog"
	"agentplatform/internal/host"
	"agentplatform/internal/intake"
	"agentplatform/internal/lifecycle"
	"agentplatform/internal/problem"
	"agentplatform/internal/record"
	"agentplatform/internal/stream"
	"agentplatform/internal/strictjson"
	"agentplatform/internal/tenant"
	"agentplatform/internal/view"
)

// Server is the use case.
type Server struct {
	Intake *intake.Intake
	Store  *record.Store
	Hub    *stream.Hub
	Log    *slog.Logger
	Window time.Duration // how long a message waits for its run
	URL    string        // the address of the API: the part before /a2a/ and /files/
}

// Reply is the response to a request: one message, or the events of a run until it ends or pauses.
type Reply struct {
	Message any
	Run     string // to follow; empty: there is only the message
	// Translate returns the messages for an event of the run, and whether that event was the last.
	Translate func(e stream.Event) (messages []any, last bool)
}

// request is a JSON-RPC request.
type request struct {
	JSONRPC string          `json:"jsonrpc"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
}

// methods maps the method names of both versions to handlers.
var methods = map[string]struct {
	does    string
	dialect dialect
}{
	"message/send": {send, v03}, "SendMessage": {send, v10},
	"message/stream": {eventStream, v03}, "SendStreamingMessage": {eventStream, v10},
	"tasks/get": {get, v03}, "GetTask": {get, v10},
	"tasks/cancel": {cancel, v03}, "CancelTask": {cancel, v10},
	"tasks/resubscribe": {resubscribe, v03}, "SubscribeToTask": {resubscribe, v10},
	"tasks/pushNotificationConfig/set": {push, v03}, "CreateTaskPushNotificationConfig": {push, v10},
	"tasks/pushNotificationConfig/get": {push, v03}, "GetTaskPushNotificationConfig": {push, v10},
	"tasks/pushNotificationConfig/list": {push, v03}, "ListTaskPushNotificationConfigs": {push, v10},
	"tasks/pushNotificationConfig/delete": {push, v03}, "DeleteTaskPushNotificationConfig": {push, v10},
}

const (
	send        = "send"
	eventStream = "stream"
	get         = "get"
	cancel      = "cancel"
	resubscribe = "resubscribe"
	push        = "push"
)

// call is one request being handled.
type call struct {
	*Server

	who   tenant.Principal
	agent catalog.Agent
	id    json.RawMessage
	dialect
}

// Call handles a request of a principal. Its error is a problem of the HTTP request itself, of kind NotFound,
// Unauthenticated, Forbidden, Limited or Unavailable: the agent does not exist or may not be used, the key has ended
// meanwhile, or a limit is reached. Errors that the protocol has a code for are in the reply. A stream takes its place
// by seat, whose error is Call's, before anything is done.
func (s *Server) Call(
	ctx context.Context, p tenant.Principal, agent string, body []byte, seat func() error,
) (Reply, error) {
	a, err := s.agent(ctx, p, agent)
	if err != nil {
		return Reply{}, err
	}
	c := &call{Server: s, who: p, agent: a, id: json.RawMessage("null")}
	r, refused := c.read(body)
	if refused != nil {
		return c.fault(refused), nil
	}
	if r.JSONRPC != "2.0" {
		return c.fault(&fault{invalidRequest, `jsonrpc must be "2.0"`}), nil
	}
	m, known := methods[r.Method]
	if !known {
		return c.fault(&fault{methodNotFound, "there is no method " + r.Method}), nil
	}
	c.dialect = m.dialect
	if m.does == eventStream || m.does == resubscribe {
		if err := seat(); err != nil {
			return Reply{}, err
		}
	}
	reply, err := c.do(ctx, m.does, r.Params)
	if err == nil {
		return reply, nil
	}
	if ours, ok := problem.As(err); ok && slices.Contains(ofHTTP, ours.Kind) {
		return Reply{}, err
	}
	return c.fault(s.faultOf(err)), nil
}

// ofHTTP are the kinds of problem that are the answer to the HTTP request, without a word of the protocol.
var ofHTTP = []problem.Kind{problem.Unauthenticated, problem.Forbidden, problem.Limited, problem.Unavailable}

// read reads a request, and notes its id for the reply, also to a request that is refused.
func (c *call) read(body []byte) (r request, refused *fault) {
	var named struct {
		ID json.RawMessage `json:"id"`
	}
	err := strictjson.Unmarshal(body, &named)
	if errors.As(err, new(*strictjson.TypeError)) { // batches above all: the protocol has none
		return r, &fault{invalidRequest, "a request is one object: batches are not taken"}
	}
	if err != nil {
		return r, &fault{parseError, "the body is not JSON"}
	}
	switch jsontext.Value(named.ID).Kind() {
	case '{', '[', 't', 'f':
		return r, &fault{invalidRequest, "id must be a string, a number or null"}
	case '"', '0':
		c.id = named.ID
	}
	if err := strictjson.Unmarshal(body, &r); err != nil {
		return r, &fault{invalidRequest, err.Error()}
	}
	return r, nil
}

// readParams reads the parameters of a method. It returns a fault.
func readParams(params json.RawMessage, into any) error {
	if len(params) == 0 {
		return &fault{invalidParams, "params must be an object"}
	}
	err := strictjson.Unmarshal(params, into)
	if wrong, ok := errors.AsType[*strictjson.TypeError](err); ok {
		return &fault{invalidParams, "params" + wrong.Place + " " + wrong.Wanted}
	}
	if err != nil {
		return &fault{invalidParams, "params: " + err.Error()}
	}
	return nil
}

func (s *Server) agent(ctx context.Context, p tenant.Principal, id string) (catalog.Agent, error) {
	if !host.ValidID(id) {
		return catalog.Agent{}, problem.Missing("agent " + id)
	}
	e, err := record.Resource[catalog.Agent](ctx, s.Store, p.Scope(), id)
	if err == nil {
		err = p.MayUse(e.Value)
	}
	return e.Value, err
}

func (c *call) do(ctx context.Context, what string, params json.RawMessage) (Reply, error) {
	switch what {
	case push:
		return Reply{}, &fault{pushNotSupported, "tasks are not pushed; POST /chat takes a callback_url"}
	case send, eventStream:
		var in sendParams
		if err := readParams(params, &in); err != nil {
			return Reply{}, err
		}
		return c.send(ctx, in, what == eventStream)
	}
	var in taskParams
	if err := readParams(params, &in); err != nil {
		return Reply{}, err
	}
	e, err := c.run(ctx, in.ID)
	if err != nil {
		return Reply{}, err
	}
	switch {
	case what == cancel && e.Value.Status.Terminal():
		return Reply{}, &fault{notCancelable, "the task has ended"}
	case what == cancel:
		if e, err = c.Intake.Cancel(ctx, c.who, in.ID, "cancelled through A2A"); err != nil {
			return Reply{}, err
		}
	case what == resubscribe && e.Value.Status.Terminal():
		return Reply{}, &fault{unsupported, "the task has ended"}
	case what == resubscribe:
		return c.follow(in.ID), nil
	}
	return c.taskReply(ctx, e, in.HistoryLength, false)
}

// run reads a run of the agent; other runs do not exist for the caller.
func (c *call) run(ctx context.Context, id string) (record.RunEntity, error) {
	if !host.ValidID(id) {
		return record.RunEntity{}, &fault{taskNotFound, "there is no such task"}
	}
	e, err := c.Intake.Run(ctx, c.who, id)
	if ours, ok := problem.As(err); ok && ours.Kind == problem.NotFound || err == nil && e.Value.Agent != c.agent.ID {
		return e, &fault{taskNotFound, "there is no such task"}
	}
	return e, err
}

func (c *call) send(ctx context.Context, in sendParams, streamed bool) (Reply, error) {
	text, decisions, err := in.Message.read()
	if err != nil {
		return Reply{}, err
	}
	var run string
	if in.Message.TaskID != "" {
		run, err = c.answer(ctx, in.Message.TaskID, in.Message.ContextID, text, decisions)
	} else {
		run, err = c.startRun(ctx, in.Message, text, streamed)
	}
	if err != nil {
		return Reply{}, err
	}
	if streamed {
		return c.follow(run), nil
	}
	window := c.Window
	if in.Configuration.immediately() {
		window = 0
	}
	e, err := c.Hub.Until(ctx, c.Store, c.who.Scope(), run, window,
		func(r record.Run) bool { return r.Status.EndedOrWaiting() })
	if err == nil {
		_, err = c.Intake.Tenants.Still(ctx, c.who, e.Value.Agent)
	}
	if err != nil {
		return Reply{}, err
	}
	return c.taskReply(ctx, e, in.Configuration.HistoryLength, true)
}

// startRun starts a run with the message, in its context or in a new chat.
func (c *call) startRun(ctx context.Context, m message, text string, streamed bool) (string, error) {
	if text == "" {
		return "", &fault{invalidParams, "message.parts must have a text or data"}
	}
	if len(m.MessageID) > maxMessageID {
		return "", &fault{invalidParams,
			fmt.Sprintf("message.messageId must have at most %d printable ASCII characters", maxMessageID)}
	}
	posted, err := c.Intake.Post(ctx, c.who, intake.Message{
		AgentID: c.agent.ID, Text: text, ChatID: m.ContextID, Key: key(c.agent.ID, m.MessageID), Watched: streamed,
	})
	return posted.Run.ID(), err
}

// maxMessageID is how long a message's id may be: what an idempotency key has beside the agent's id.
const maxMessageID = intake.MaxKey - len("a2a/0123456789abcdef01234567/")

// key is a message's idempotency key; empty for a message without id.
func key(agent, message string) string {
	if message == "" {
		return ""
	}
	return "a2a/" + agent + "/" + message
}

// answer resolves the interrupts that a task waits for.
func (c *call) answer(ctx context.Context, task, chat, text string, decisions []record.Decision) (string, error) {
	e, err := c.run(ctx, task)
	if err != nil {
		return "", err
	}
	switch waits := e.Value.Interrupts; {
	case chat != "" && chat != e.Value.Chat:
		return "", &fault{invalidParams, "message.contextId is not the context of the task"}
	case e.Value.Status != lifecycle.AwaitingInput:
		return "", &fault{unsupported, "the task is " + string(e.Value.Status) +
			" and takes no message; without taskId one goes on in its context"}
	case decisions != nil:
	case !e.Value.Answerable():
		return "", &fault{invalidParams,
			`the task waits for decisions: send a data part like ` +
				`{"decisions":[{"interrupt_id":"…","decision":"approve"}]}`}
	case text == "":
		return "", &fault{invalidParams, "message.parts must have a text"}
	default:
		decisions = []record.Decision{{InterruptID: waits[0].ID, Decision: string(lifecycle.Answer), Message: text}}
	}
	_, err = c.Intake.Resume(ctx, c.who, task, "", decisions)
	return task, err
}

// taskReply returns a task in its current state.
func (c *call) taskReply(ctx context.Context, e record.RunEntity, history *int, sent bool) (Reply, error) {
	v, err := view.Of(ctx, c.Store, e)
	if err == nil {
		v, err = v.For(ctx, c.Intake.Tenants.Reads(c.who))
	}
	if err != nil {
		return Reply{}, err
	}
	in, err := c.Store.Input(ctx, e.Value)
	if err != nil {
		return Reply{}, err
	}
	t := c.task(v)
	if history == nil || *history > 0 {
		t["history"] = []any{c.message(v, user, v.RunID+"-user", []part{{Text: in.Message}})}
	}
	if sent {
		return c.result(c.wrap("task", t)), nil
	}
	return c.result(t), nil
}

// follow streams a task's events: first the task, then pieces of the answer as they are written, last its end or
// its pause.
func (c *call) follow(run string) Reply {
	text := false // whether any part of the answer has been sent
	var shown view.Run
	return Reply{Run: run, Translate: func(e stream.Event) ([]any, bool) {
		switch e.Event {
		case stream.Init:
			first := shown.RunID == ""
			shown = *e.Run
			var list []any
			if first {
				v := shown
				v.Result = nil // it is sent in pieces
				list = append(list, c.event("task", c.task(v)))
			}
			if text || *e.Text != "" { // the frame replaces what was sent
				text = *e.Text != ""
				list = append(list, c.piece(shown, *e.Text, false))
			}
			if shown.Status == string(lifecycle.AwaitingInput) {
				return append(list, c.status(shown)), true
			}
			return list, false
		case stream.Delta:
			begun := text
			text = true
			return []any{c.piece(shown, *e.Text, begun)}, false
		case stream.Status:
			shown.Status, shown.Interrupts, shown.UpdatedAt = e.Status, *e.Interrupts, events.Time(c.Intake.Host.Now())
			return []any{c.status(shown)}, e.Status == string(lifecycle.AwaitingInput)
		case stream.Done:
			var list []any
			if rest := c.otherParts(*e.Run); len(rest) > 0 {
				list = append(list, c.artifact(*e.Run, rest, text, true))
			}
			return append(list, c.status(*e.Run)), true
		}
		return nil, false
	}}
}

// otherParts are the parts of a result other than its text.
func (c *call) otherParts(v view.Run) []part {
	var result struct {
		Output    json.RawMessage   `json:"output"`
		Citations []json.RawMessage `json:"citations"`
		Files     []record.FileRef  `json:"files"`
	}
	_ = json.Unmarshal(v.Result, &result)
	var parts []part
	if len(result.Output) > 0 && string(result.Output) != "null" {
		parts = append(parts, part{Data: result.Output})
	}
	if len(result.Citations) > 0 {
		parts = append(parts, part{Data: object{"citations": result.Citations}})
	}
	for _, f := range result.Files {
		parts = append(parts, part{URL: c.URL + "/files/" + f.FileID, Name: f.Name, MediaType: f.ContentType})
	}
	return parts
}

// read returns what a message says: its texts and data as one text, or the decisions of a data part.
func (m message) read() (text string, decisions []record.Decision, err error) {
	var texts []string
	for _, p := range m.Parts {
		switch {
		case p.Text != nil:
			texts = append(texts, *p.Text)
		case len(p.Data) > 0:
			var body struct {
				Decisions []struct {
					InterruptID string          `json:"interrupt_id"`
					Decision    string          `json:"decision"`
					Arguments   json.RawMessage `json:"arguments"`
					Message     string          `json:"message"`
				} `json:"decisions"`
			}
			if strictjson.Unmarshal(p.Data, &body) == nil && body.Decisions != nil && m.TaskID != "" {
				for _, d := range body.Decisions {
					decisions = append(decisions, record.Decision{InterruptID: d.InterruptID, Decision: d.Decision,
						Arguments: d.Arguments, Message: d.Message})
				}
				continue
			}
			texts = append(texts, string(p.Data))
		default:
			return "", nil, &fault{contentType,
				"message.parts may have texts and data; files are sent through POST /files and POST /chat"}
		}
	}
	return strings.Join(texts, "\n"), decisions, nil
}
