// Package a2aserver serves clients that speak the Agent2Agent protocol over JSON-RPC. A task is a run, a context is a
// chat, `input-required` is a pause. One address serves both versions of the protocol in use, 0.3 and 1.0; the name of
// the method identifies the version.
//
// A message's id is its idempotency key: a message that is sent again finds the task that it started. A text answers a
// question. A data part like the body of a resume request answers approvals. Push notifications are the webhooks of
// runs. No state is kept between requests. Files come as bytes, or by addresses that this service issued.
//
// The server of the library a2a-go (a2asrv of v0.3.3) serves version 0.3 alone. It keeps its own tasks and queues of
// events, and executes agents in its process. A run of ours would then have a second state next to its events.
//
// The package must not know HTTP, and must not know how runs are executed. It imports a2a, intake, files, stream, view,
// record, catalog, tenant, lifecycle, seal, host, problem, strictjson and bridge.
package a2aserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"agentplatform/events"
	"agentplatform/internal/api/a2a"
	"agentplatform/internal/api/bridge"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/platform/strictjson"
	"agentplatform/internal/run/files"
	"agentplatform/internal/run/intake"
	"agentplatform/internal/run/stream"
	"agentplatform/internal/run/view"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/seal"
)

// Server is the use case.
type Server struct {
	bridge.Bridge

	Sealer seal.Sealer // of the secrets of push notifications
	// CheckURL checks where push notifications shall go. It returns a problem of kind Invalid (callback_url).
	CheckURL func(url string) error
}

// Reply is the response to a request: one message, or the messages that Follow sends.
type Reply struct {
	Message any             // also next to a Follow: the task's present state, for a client that cannot wait
	Run     string          // the run of Follow's messages
	Of      lifecycle.Whose // the agent and the owner of that run
	// Follow sends the messages of a stream to emit. Where there is a Message, it sends the one message that the stream
	// becomes. It ends when the run has ended or waits for a human. It calls beat after idle without a message. It
	// returns the error of the store, of ctx, of emit or of beat. The wait for one message goes on while the store
	// cannot be read.
	Follow func(ctx context.Context, idle time.Duration, emit func(any) error, beat func() error) error
	// Final is the message with the present state of the run when the server ends the wait for it; nil for a stream.
	Final func() any
	// Cut is the message for a reader that may no longer read the run. It has no data of the run.
	Cut any

	// translate returns the messages for an event of the run, and whether that event was the last.
	translate func(e stream.Event) (messages []any, last bool)
}

// Request is a request of a client.
type Request struct {
	Body    []byte
	Version string // of the protocol, as the client names it; empty: it does not
}

var served = regexp.MustCompile(`^((0\.3|1\.0)(\.|$)|$)`)

type request struct {
	JSONRPC string          `json:"jsonrpc"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
}

// method is a method of the protocol, under its name in one version.
type method struct {
	dialect  a2a.Dialect
	streamed bool // it takes a place of streams
	do       doing
}

type doing func(*call, context.Context, json.RawMessage) (Reply, error)

// with is a method that takes parameters of a type.
func with[P any](do func(*call, context.Context, P) (Reply, error)) doing {
	return func(c *call, ctx context.Context, raw json.RawMessage) (reply Reply, err error) {
		var params P
		if err = readParams(raw, &params); err == nil {
			reply, err = do(c, ctx, params)
		}
		return reply, err
	}
}

// answering is with of a method that returns its result.
func answering[P any](do func(*call, context.Context, P) (any, error)) doing {
	return with(func(c *call, ctx context.Context, in P) (Reply, error) {
		result, err := do(c, ctx, in)
		return c.result(result), err
	})
}

var methods = func() map[string]method {
	all := map[string]method{"ListTasks": {dialect: a2a.V10, do: answering((*call).list)}}
	for _, m := range []struct {
		old, name string
		streamed  bool
		do        doing
	}{
		{"message/send", "SendMessage", false, with((*call).send)},
		{"message/stream", "SendStreamingMessage", true, with((*call).sendStreamed)},
		{"tasks/get", "GetTask", false, answering((*call).get)},
		{"tasks/cancel", "CancelTask", false, answering((*call).cancel)},
		{"tasks/resubscribe", "SubscribeToTask", true, with((*call).resubscribe)},
		{"tasks/pushNotificationConfig/set", "CreateTaskPushNotificationConfig", false, pushing(true, (*call).setPush)},
		{"tasks/pushNotificationConfig/get", "GetTaskPushNotificationConfig", false, pushing(false, (*call).getPush)},
		{"tasks/pushNotificationConfig/list", "ListTaskPushNotificationConfigs", false,
			pushing(false, (*call).listPushes)},
		{"tasks/pushNotificationConfig/delete", "DeleteTaskPushNotificationConfig", false,
			pushing(false, (*call).deletePush)},
		{"agent/getAuthenticatedExtendedCard", "GetExtendedAgentCard", false, (*call).extendedCard},
	} {
		all[m.old], all[m.name] = method{a2a.V03, m.streamed, m.do}, method{a2a.V10, m.streamed, m.do}
	}
	return all
}()

type call struct {
	*Server

	who   tenant.Principal
	agent catalog.Agent
	id    json.RawMessage
	a2a.Shapes
}

// Call handles a request of a principal. Its error is a problem of the HTTP request itself, of kind NotFound,
// Unauthenticated, Forbidden, Limited, Unavailable or Full. The agent does not exist or may not be used, the key has
// ended meanwhile, a limit is reached, or the disk is full. Errors that have a code in the protocol are in the reply. A
// stream takes its slot with takeSlot before it does anything else; Call returns the error of takeSlot.
func (s *Server) Call(
	ctx context.Context, p tenant.Principal, agent string, in Request, takeSlot func() error,
) (Reply, error) {
	a, err := s.Agent(ctx, p, agent)
	if err != nil {
		return Reply{}, err
	}
	c := &call{Server: s, who: p, agent: a, Shapes: a2a.Shapes{API: s.URL}}
	r, refused := c.read(in.Body)
	if refused != nil {
		return c.fault(refused), nil
	}
	if r.JSONRPC != "2.0" {
		return c.fault(&fault{bridge.InvalidRequest, `jsonrpc must be "2.0"`}), nil
	}
	if !served.MatchString(in.Version) {
		return c.fault(&fault{wrongVersion, "version " + in.Version + " is not supported; use 0.3 or 1.0"}), nil
	}
	m, known := methods[r.Method]
	if !known {
		return c.fault(&fault{bridge.MethodNotFound, "there is no method " + r.Method}), nil
	}
	c.Dialect = m.dialect
	if m.streamed {
		if err := takeSlot(); err != nil {
			return Reply{}, err
		}
	}
	reply, err := m.do(c, ctx, r.Params)
	if err == nil {
		return reply, nil
	}
	if ours, ok := problem.As(err); ok && slices.Contains(ofHTTP, ours.Kind) {
		return Reply{}, err
	}
	return c.fault(s.faultOf(err)), nil
}

// ofHTTP are the kinds of problem that are the answer to the HTTP request, outside the protocol.
var ofHTTP = []problem.Kind{
	problem.Unauthenticated, problem.Forbidden, problem.Limited, problem.Unavailable, problem.Full,
}

// read reads a request, and stores its id for the reply, also for the reply to a refused request.
func (c *call) read(body []byte) (r request, refused *fault) {
	var ok bool
	if c.id, ok = bridge.RequestID(body); !ok {
		return r, &fault{bridge.InvalidRequest, "id must be a string, a number or null"}
	}
	err := strictjson.Unmarshal(body, &r)
	if wrong, is := errors.AsType[*strictjson.TypeError](err); is && wrong.Location == "" { // batches above all
		return r, &fault{bridge.InvalidRequest, "the request must be one JSON object; batches are not supported"}
	} else if is {
		return r, &fault{bridge.InvalidRequest, err.Error()}
	}
	if err != nil {
		c.id = nil
		return r, &fault{bridge.ParseError, "the body is not JSON"}
	}
	return r, nil
}

// readParams reads the parameters of a method. It returns a fault.
func readParams(params json.RawMessage, into any) error {
	if len(params) == 0 { // as where all of them are left out
		return nil
	}
	err := strictjson.Unmarshal(params, into)
	if wrong, ok := errors.AsType[*strictjson.TypeError](err); ok {
		return &fault{bridge.InvalidParams, "params" + wrong.Location + " " + wrong.Wanted}
	}
	if err != nil {
		return &fault{bridge.InvalidParams, "params: " + err.Error()}
	}
	return nil
}

// extendedCard refuses: there is no extended card.
func (c *call) extendedCard(context.Context, json.RawMessage) (Reply, error) {
	code := noExtendedCard
	if c.Dialect == a2a.V10 {
		code = unsupported
	}
	return Reply{}, &fault{code, "this agent has no extended card; read its agent card"}
}

func (c *call) get(ctx context.Context, in taskParams) (any, error) {
	e, err := c.run(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return c.task(ctx, e, true, shown(in.HistoryLength))
}

func (c *call) cancel(ctx context.Context, in taskParams) (any, error) {
	e, err := c.run(ctx, in.ID)
	if err == nil && e.Value.Status.Terminal() {
		err = &fault{notCancelable, "the task has ended"}
	}
	if err == nil {
		e, err = c.Intake.Cancel(ctx, c.who, in.ID, "cancelled through A2A")
	}
	if err != nil {
		return nil, err
	}
	return c.task(ctx, e, true, shown(in.HistoryLength))
}

func (c *call) resubscribe(ctx context.Context, in taskParams) (Reply, error) {
	e, err := c.run(ctx, in.ID)
	if err == nil && e.Value.Status.Terminal() {
		err = &fault{unsupported, "the task has ended"}
	}
	if err != nil {
		return Reply{}, err
	}
	return c.follow(ctx, in.ID)
}

// run reads a run of the agent; other runs do not exist for the caller.
func (c *call) run(ctx context.Context, id string) (record.RunEntity, error) {
	if id == "" {
		return record.RunEntity{}, &fault{bridge.InvalidParams, "params.id is required: send the id of the task"}
	}
	if !host.ValidID(id) {
		return record.RunEntity{}, &fault{taskNotFound, "the task does not exist"}
	}
	e, err := c.Intake.Run(ctx, c.who, id)
	if ours, ok := problem.As(err); ok && ours.Kind == problem.NotFound || err == nil && e.Value.Agent != c.agent.ID {
		return e, &fault{taskNotFound, "the task does not exist"}
	}
	return e, err
}

func (c *call) sendStreamed(ctx context.Context, in sendParams) (Reply, error) {
	run, err := c.take(ctx, in, true)
	if err != nil {
		return Reply{}, err
	}
	return c.follow(ctx, run)
}

// take accepts a message, and returns the run that it has begun or answered.
func (c *call) take(ctx context.Context, in sendParams, streamed bool) (run string, err error) {
	m, err := c.parseMessage(in.Message)
	if config := in.Configuration.push(); err == nil && config != nil {
		m.push, err = c.push(ctx, *config, in.Message.TaskID)
	}
	switch {
	case err != nil:
		return "", err
	case in.Message.TaskID != "":
		return c.answer(ctx, in.Message, m)
	}
	return c.post(ctx, in.Message, m, in.Message.ContextID, streamed)
}

func (c *call) send(ctx context.Context, in sendParams) (Reply, error) {
	run, err := c.take(ctx, in, false)
	if err != nil {
		return Reply{}, err
	}
	window := c.Window
	if config := in.Configuration; config.ReturnImmediately || config.Blocking != nil && !*config.Blocking {
		window = 0
	}
	e, err := c.UntilEnd(ctx, c.who, run, window)
	if err != nil {
		return Reply{}, err
	}
	history := in.Configuration.HistoryLength
	reply, err := c.sent(ctx, e, history)
	if err == nil && window > 0 && !e.Value.Status.EndedOrWaiting() {
		c.await(ctx, &reply, e.Value, history)
	}
	return reply, err
}

// finalTime is how long reading the task may take that a wait ends with.
const finalTime = 5 * time.Second

// await has a reply follow the run that a message's client waits for.
func (c *call) await(ctx context.Context, reply *Reply, r record.Run, history *int) {
	run := r.ID()
	reply.Run, reply.Of = run, r.Whose()
	reply.Cut = c.fault(&fault{bridge.InternalError, "the stream ended early; read the task again"}).Message
	reply.Final = func() any {
		ctx, done := context.WithTimeout(ctx, finalTime)
		defer done()
		e, err := c.run(ctx, run)
		var now Reply
		if err == nil {
			now, err = c.sent(ctx, e, history)
		}
		if err != nil {
			now = c.fault(c.faultOf(err))
		}
		return now.Message
	}
	final := reply.Final
	reply.Follow = func(ctx context.Context, idle time.Duration, emit func(any) error, beat func() error) error {
		enough := func(r record.Run) bool { return r.Status.EndedOrWaiting() }
		for seen := int64(0); ; {
			e, err := c.Outlast(ctx, idle, func(left time.Duration) (record.RunEntity, error) {
				return c.Hub.UntilEnd(ctx, c.Store, c.who.Scope(), run, seen, left)
			})
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case err == nil && !enough(e.Value):
				seen = e.Version()
			case !problem.Is(err, "unavailable"):
				return emit(final())
			}
			if err := beat(); err != nil {
				return err
			}
		}
	}
}

// post sends a message. The message starts a run, in its context or in a new chat, or answers the question of the
// chat's run.
func (c *call) post(ctx context.Context, m message, in input, chat string, streamed bool) (string, error) {
	if in.text == "" && len(in.files)+len(in.known) == 0 {
		return "", &fault{bridge.InvalidParams, "message.parts must contain a text, data or file part"}
	}
	if len(m.MessageID) > maxMessageID {
		return "", &fault{bridge.InvalidParams,
			fmt.Sprintf("message.messageId must have at most %d printable ASCII characters", maxMessageID)}
	}
	posted, err := c.Post(ctx, c.who, intake.Message{
		AgentID: c.agent.ID, Text: in.text, ChatID: chat, Key: key(c.agent.ID, m.MessageID), Watched: streamed,
		Push: in.push, PushOf: m.TaskID,
	}, in.known, in.files)
	return posted.Run.ID(), err
}

// maxMessageID is the longest id of a message, in bytes: an idempotency key without the agent's id.
const maxMessageID = intake.MaxKey - len("a2a/0123456789abcdef01234567/")

// key is a message's idempotency key; empty for a message without id.
func key(agent, message string) string {
	if message == "" {
		return ""
	}
	return "a2a/" + agent + "/" + message
}

// answer resolves the interrupts that a task waits for.
func (c *call) answer(ctx context.Context, m message, in input) (string, error) {
	e, err := c.run(ctx, m.TaskID)
	if err != nil {
		return "", err
	}
	decisions, withFiles := in.decisions, len(in.files)+len(in.known) > 0
	switch waits := e.Value.Interrupts; {
	case m.ContextID != "" && m.ContextID != e.Value.Chat:
		return "", &fault{bridge.InvalidParams, "message.contextId is not the context of the task"}
	case e.Value.Status != lifecycle.AwaitingInput:
		if again, err := c.repeats(ctx, e.Value, in); again || err != nil {
			return m.TaskID, err
		}
		return "", &fault{unsupported, "the task is " + string(e.Value.Status) +
			" and accepts no message; to continue its context, send the message without taskId"}
	case decisions != nil:
	case !e.Value.Answerable():
		return "", &fault{bridge.InvalidParams,
			`the task waits for decisions: send a data part like ` +
				`{"decisions":[{"interrupt_id":"…","decision":"approve"}]}`}
	case withFiles:
	case in.text == "":
		return "", &fault{bridge.InvalidParams, "message.parts must contain a text part"}
	default:
		decisions = []record.Decision{{
			InterruptID: waits[0].ID, Decision: string(lifecycle.Answer), Message: in.text,
		}}
	}
	if decisions == nil { // there are files, which a decision cannot have
		run, err := c.post(ctx, m, in, e.Value.Chat, false)
		if err == nil && run != m.TaskID {
			err = &fault{unsupported, "the task accepts no more messages; the message started the task " + run}
		}
		return run, err
	}
	_, err = c.Resume(ctx, c.who, m.TaskID, e.Value.Pause, decisions, in.push, nil)
	return m.TaskID, err
}

// repeats reports whether a message has the decision that ended the last pause of a run: its client has sent it again.
func (c *call) repeats(ctx context.Context, r record.Run, in input) (bool, error) {
	last, found, err := c.Store.LastDecision(ctx, r.ID(), r.Passed())
	if err != nil || !found {
		return false, err
	}
	if len(in.decisions) == 0 {
		return len(last.List) == 1 && last.List[0].Decision == string(lifecycle.Answer) &&
			last.List[0].Message == in.text && len(last.List[0].Files)+len(in.files)+len(in.known) == 0, nil
	}
	return record.SameDecisions(last.List, in.decisions), nil
}

// sent returns the task of a message in its current state.
func (c *call) sent(ctx context.Context, e record.RunEntity, history *int) (Reply, error) {
	t, err := c.task(ctx, e, true, shown(history))
	return c.result(c.Wrap("task", t)), err
}

// shown reports whether a client that sends this length wants the history of a task.
func shown(length *int) bool { return length == nil || *length > 0 }

func (c *call) task(ctx context.Context, e record.RunEntity, artifacts, history bool) (object, error) {
	v, err := view.Of(ctx, c.Store, e)
	if err == nil && artifacts {
		v, err = v.For(ctx, c.Intake.Tenants.CitationFilter(c.who))
	}
	if err != nil {
		return nil, err
	}
	t := c.Task(v)
	if !artifacts {
		delete(t, "artifacts")
	}
	if !history {
		return t, nil
	}
	in, err := c.Store.Input(ctx, e.Value)
	var parts []a2a.Part // the user's message that began it
	if in.Message != "" || len(in.Files) == 0 {
		parts = append(parts, a2a.Part{Text: in.Message})
	}
	t["history"] = []object{c.Message(v, a2a.User, v.RunID+"-user", append(parts, c.FileParts(in.Files)...))}
	return t, err
}

// follow streams a task's events: first the task, then pieces of the answer as they are written, last the task's end or
// pause.
func (c *call) follow(ctx context.Context, run string) (Reply, error) {
	e, err := c.Intake.Run(ctx, c.who, run)
	reads, translate := c.Intake.Tenants.CitationFilter(c.who), c.translating()
	follow := func(ctx context.Context, idle time.Duration, emit func(any) error, beat func() error) error {
		return c.Hub.Follow(ctx, c.Store, c.who.Scope(), run, idle, func(e stream.Event) error {
			if e.Event == stream.Heartbeat {
				return beat()
			}
			e, err := e.For(ctx, reads)
			if err != nil {
				return err
			}
			messages, last := translate(e)
			for _, m := range messages {
				if err := emit(m); err != nil {
					return err
				}
			}
			if last {
				return stream.ErrStop
			}
			return nil
		})
	}
	return Reply{Run: run, Of: e.Value.Whose(), Follow: follow, translate: translate}, err
}

// translating returns a function that translates the events of a run.
func (c *call) translating() func(stream.Event) ([]any, bool) {
	text := false // whether any part of the answer has been sent
	var shown view.Run
	return func(e stream.Event) ([]any, bool) {
		switch e.Event {
		case stream.Init:
			first := shown.RunID == ""
			shown = *e.Run
			var list []any
			if first {
				v := shown
				v.Result = nil // it is sent in pieces
				list = append(list, c.event(c.Wrap("task", c.Task(v))))
			}
			if text || *e.Text != "" { // the frame replaces what was sent
				text = *e.Text != ""
				list = append(list, c.event(c.Piece(shown, *e.Text, false)))
			}
			if shown.Status == string(lifecycle.AwaitingInput) {
				return append(list, c.event(c.Status(shown))), true
			}
			return list, false
		case stream.Delta:
			begun := text
			text = true
			return []any{c.event(c.Piece(shown, *e.Text, begun))}, false
		case stream.Status:
			shown.Status, shown.Interrupts, shown.UpdatedAt = e.Status, *e.Interrupts, events.Time(c.Intake.Host.Now())
			return []any{c.event(c.Status(shown))}, e.Status == string(lifecycle.AwaitingInput)
		case stream.Done:
			var list []any
			if whole := c.Whole(*e.Run); whole != nil { // some clients keep nothing but the last event of an answer
				list = append(list, c.event(whole))
			}
			return append(list, c.event(c.Status(*e.Run))), true
		}
		return nil, false
	}
}

func (c *call) event(v object) any { return c.result(v).Message }

type input struct {
	text      string            // its texts and data
	decisions []record.Decision // of a data part that has them
	files     []files.Inline
	known     []string // ids of files that were sent before, or made by a task
	push      *record.Push
}

func (c *call) parseMessage(m message) (s input, err error) {
	if !slices.Contains([]string{"", "user", "agent", "ROLE_UNSPECIFIED", "ROLE_USER", "ROLE_AGENT"}, m.Role) {
		return s, &fault{bridge.InvalidParams,
			"message.role must be user or agent, or ROLE_USER or ROLE_AGENT in version 1.0"}
	}
	var texts []string
	for n, p := range m.Parts {
		at := fmt.Sprintf("message.parts[%d]", n)
		switch {
		case p.Text != nil:
			texts = append(texts, *p.Text)
		case len(p.Data) > 0:
			if decisions := decisionsOf(p.Data); decisions != nil && m.TaskID != "" {
				s.decisions = append(s.decisions, decisions...)
				continue
			}
			texts = append(texts, string(p.Data))
		case p.Raw != nil:
			err = s.take(at+".raw", p.Filename, p.MediaType, *p.Raw)
		case p.URL != "":
			err = c.refer(&s, p.URL)
		case p.File != nil && p.File.Bytes != nil:
			err = s.take(at+".file.bytes", p.File.Name, p.File.MimeType, *p.File.Bytes)
		case p.File != nil && p.File.URI != "":
			err = c.refer(&s, p.File.URI)
		default:
			err = &fault{contentType, "each of message.parts must be a text, data or file part"}
		}
		if err != nil {
			return s, err
		}
	}
	s.text = strings.Join(texts, "\n")
	return s, nil
}

func (s *input) take(field, name, contentType, text string) error {
	f, err := files.Decode(field, name, contentType, text)
	if s.files = append(s.files, f); len(s.files) > intake.MaxFiles {
		err = problem.InvalidField("message.parts", "at most %d files may be sent", intake.MaxFiles)
	}
	return err
}

// refer notes a file of ours by its address. Others are not fetched.
func (c *call) refer(s *input, url string) error {
	id, ours := c.FileOf(url)
	if !ours {
		return &fault{contentType,
			"the service does not fetch file URLs: send the bytes, or the URL of a file in this service"}
	}
	s.known = append(s.known, id)
	return nil
}

// decisionsOf are the decisions of a data part, in their stored form; nil: none.
func decisionsOf(data json.RawMessage) (list []record.Decision) {
	var body struct {
		Decisions []struct {
			InterruptID string          `json:"interrupt_id"`
			Decision    string          `json:"decision"`
			Arguments   json.RawMessage `json:"arguments"`
			Message     string          `json:"message"`
		} `json:"decisions"`
	}
	if strictjson.Unmarshal(data, &body) != nil || body.Decisions == nil {
		return nil
	}
	list = []record.Decision{}
	for _, d := range body.Decisions {
		if kept, err := strictjson.Object(d.Arguments, intake.EditLimits); err == nil {
			d.Arguments = kept
		}
		list = append(list, record.Decision{InterruptID: d.InterruptID, Decision: d.Decision,
			Arguments: d.Arguments, Message: d.Message})
	}
	return list
}
