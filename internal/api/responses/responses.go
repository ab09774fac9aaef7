// Package responses serves clients that speak Open Responses, as the official SDKs of OpenAI do. A response is a run, a
// conversation is a chat, the model is an agent.
//
// A run that pauses is several responses, one between each two pauses. A pause ends a response as completed, with the
// items that the client must answer: the output of one of its functions, an approval, an answer. The request with these
// answers goes on with the run. Ids are made of the run's, so nothing more is stored.
//
// Members that cannot be mapped are refused by their name (request.go); docs/limits.md has the others. The calls of the
// agent's own tools are not items of the output: GET /runs/{run_id}/steps has them. Reasoning is neither sent nor
// accepted. When a model call fails and is made again, the text of the failed call stays in a stream's deltas; the done
// event has the whole text.
//
// The package must not know HTTP, and must not know how runs are executed. It imports intake, stream, files, view,
// record, catalog, citation, tenant, lifecycle, model (the names of the service's tools), host, bridge, strictjson and
// problem.
package responses

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"agentplatform/internal/api/bridge"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/platform/strictjson"
	"agentplatform/internal/run/intake"
	"agentplatform/internal/store/record"
)

// Server is the use case.
type Server struct {
	bridge.Bridge

	Longer time.Duration // how long a request that has a place waits for its run, where that is longer than the window
}

// Begun is a response that a request has begun.
type Begun struct {
	ID       string
	Replayed bool // an earlier request with the same key had begun it
	Mismatch bool // that request was a different one
}

// Create carries out a request with an idempotency key and an id. It returns problems: of kind Invalid with the field,
// NotFound for the agent, the response before or a file, and those of [intake.Intake.Post] and [intake.Intake.Resume].
func (s *Server) Create(ctx context.Context, p tenant.Principal, r CreateResponse, key, id string) (Begun, error) {
	if err := s.conversation(ctx, p, &r); err != nil {
		return Begun{}, err
	}
	if err := r.check(); err != nil {
		return Begun{}, err
	}
	chat, err := r.chatID()
	if err != nil {
		return Begun{}, err
	}
	digest := ""
	if key != "" {
		digest = r.digest()
	}
	posted, found, err := s.Intake.Replay(ctx, p, key, digest)
	if found && err == nil {
		return begun(posted)
	}
	if err != nil {
		return Begun{}, bridge.Named(err, field)
	}
	in, err := readInput(r.Input, s.finder(ctx, p))
	if err != nil {
		return Begun{}, err
	}
	runContext, shown, err := r.context(in)
	if err != nil {
		return Begun{}, err
	}
	agent, err := s.agent(ctx, p, r.Model)
	if err != nil {
		return Begun{}, err
	}
	c := &creation{Server: s, who: p, request: r, in: in, runContext: runContext, echo: shown, agent: agent, chat: chat,
		key: key}
	next, err := c.goOn(ctx)
	if err == nil && next == nil {
		posted, err = c.Post(ctx, p, intake.Message{
			AgentID: agent, Text: in.message(), ChatID: c.chat, Metadata: r.Metadata, Key: key, Digest: digest,
			Request: id,
			Watched: r.Stream, Context: runContext, Answers: c.mayAnswer,
		}, in.fileIDs, in.files)
	}
	switch {
	case err != nil:
		return Begun{}, bridge.Named(err, field)
	case next != nil:
		return Begun{ID: next.String()}, nil
	}
	return begun(posted)
}

// conversation treats a previous_response_id that is the id of a chat as the member conversation. Some frameworks send
// conversation.id of a response as such, unless it begins with conv_.
func (s *Server) conversation(ctx context.Context, p tenant.Principal, r *CreateResponse) error {
	id := r.PreviousResponseID
	if _, is := parseRef(id); is || !intake.ValidChatID(id) || !bridge.IsNull(r.Conversation) {
		return nil
	}
	_, err := s.Intake.Chat(ctx, p, id)
	if bridge.Unseen(err) {
		return nil // it is not the id of a response, either
	}
	if err == nil {
		r.PreviousResponseID = ""
		r.Conversation, err = json.Marshal(id)
	}
	return err
}

// begun is the response that a message has begun: the first of a run, or the one after the pause that it answered. The
// error is a problem of kind Conflict for a message of POST /chat with the same key that waits behind a run.
func begun(posted intake.Posted) (Begun, error) {
	run := posted.Run.ID()
	if posted.Parked != nil {
		if posted.Parked.RunID == nil {
			return Begun{}, problem.New(problem.Conflict, "chat_busy",
				"the message with this key waits behind run %s", run).With("active_run_id", run)
		}
		run = *posted.Parked.RunID
	}
	return Begun{
		ID: ref{run, posted.Pause}.String(), Replayed: posted.Replayed, Mismatch: posted.Mismatch,
	}, nil
}

type creation struct {
	*Server

	who        tenant.Principal
	request    CreateResponse
	in         input
	runContext *record.Context
	echo       echo
	agent      string
	chat       string
	key        string
}

// goOn finds the chat or the waiting run with which the request goes on. It notes a chat, and resumes a run. It returns
// the response that has begun by that; nil: the request is a message.
func (c *creation) goOn(ctx context.Context) (*ref, error) {
	const field = "body.previous_response_id"
	id := c.request.PreviousResponseID
	if id == "" {
		return c.answered(ctx)
	}
	before, ok := parseRef(id)
	if !ok {
		return nil, missing(field, "response "+id)
	}
	e, err := c.Intake.Run(ctx, c.who, before.run)
	if err != nil {
		return nil, err
	}
	last := e.Value.Passed()
	if before.part > last {
		return nil, missing(field, "response "+id)
	}
	c.chat = e.Value.Chat
	if len(c.in.outputs) > 0 {
		return c.resume(ctx, e, before.part)
	}
	if err := c.mayFollow(ctx, e.Value); err != nil {
		return nil, err
	}
	next, newest := ref{before.run, before.part + 1}, before.run
	if before.part == last {
		if e.Value.Status == lifecycle.AwaitingInput {
			return nil, c.answerable(e.Value)
		}
		chat, err := c.Intake.Chat(ctx, c.who, e.Value.Chat)
		if err != nil || chat.Value.LastRun == before.run {
			return nil, err
		}
		newest = chat.Value.LastRun
		next = ref{run: newest}
	}
	again, err := c.repeats(ctx, e.Value, next)
	if err == nil && !again {
		err = problem.InvalidField(field, "must be the last response of its conversation: resp_ and run id %s",
			newest)
	}
	return &next, err
}

// repeats reports whether the request has already begun the response next, directly after one of a run. Then its client
// has not received the answer, and sends it again. A request with a key is found by its key alone.
func (c *creation) repeats(ctx context.Context, before record.Run, next ref) (bool, error) {
	if c.key != "" || len(c.in.files)+len(c.in.fileIDs) > 0 {
		return false, nil
	}
	if next.part > 0 { // as the answer to a question
		pause, err := c.Store.PauseOf(ctx, next.run, next.part)
		if err != nil || pause == nil || pause.Decided == nil || !record.IsQuestion(pause.Interrupts) {
			return false, err
		}
		if d := pause.Decided.List[0]; d.Message != c.in.message() || len(d.Files) > 0 {
			return false, nil
		}
		before.Pause = next.part
		err = c.mayAnswer(ctx, before)
		if p, is := problem.As(err); is && p.Kind == problem.Invalid {
			return false, nil
		}
		return err == nil, err
	}
	e, err := c.Intake.Run(ctx, c.who, next.run)
	if err != nil || e.Value.Previous != before.ID() {
		return false, err
	}
	in, err := c.Store.Input(ctx, e.Value)
	return err == nil && in.Message == c.in.message() && len(in.Files) == 0 && e.Value.Agent == c.agent &&
		maps.Equal(in.Metadata, c.request.Metadata) && strictjson.Same(in.Context, c.runContext), err
}

// mayFollow returns nil when a message may follow a run. If the run's client wants nothing stored, no message follows
// it.
func (c *creation) mayFollow(ctx context.Context, r record.Run) error {
	if !r.Status.Terminal() {
		return nil
	}
	if c.runContext.Unstored {
		return problem.InvalidField("body.store", "must be true if conversation is sent")
	}
	in, err := c.Store.Input(ctx, r)
	if err == nil && in.Context != nil && in.Context.Unstored {
		err = missing("body.previous_response_id", "response "+c.request.PreviousResponseID)
	}
	return err
}

func missing(field, what string) error {
	p := problem.Missing(what)
	p.Fields = []problem.Field{{Location: field, Message: p.Message}}
	return p
}

// answerable returns nil for a run that waits for an answer to one question. The request's message is then that answer.
func (c *creation) answerable(r record.Run) error {
	if r.Answerable() {
		return nil
	}
	var ids []string
	for _, i := range r.Interrupts {
		ids = append(ids, answerID(r.ID(), i.ID, i.Kind))
	}
	return problem.InvalidField("body.input", "must answer %s: the response waits for this", strings.Join(ids, ", "))
}

// answered resumes the run whose calls the request answers with the outputs at its end. A client that keeps the
// conversation itself sends it whole each time, and its run is the one that waits.
func (c *creation) answered(ctx context.Context) (*ref, error) {
	if len(c.in.outputs) == 0 {
		return nil, c.passedOver(ctx)
	}
	run := c.in.outputs[0].run
	if run == "" {
		return nil, c.unanswered()
	}
	e, err := c.Intake.Run(ctx, c.who, run)
	if problem.Is(err, "not_found") || err == nil && c.chat != "" && c.chat != e.Value.Chat {
		return nil, c.unanswered()
	}
	if err != nil {
		return nil, err
	}
	part, found, err := c.answeredPart(ctx, e.Value, c.in.outputs)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, c.unanswered()
	}
	return c.resume(ctx, e, part)
}

// unanswered is the refusal of outputs that answer nothing. Outputs whose calls are in the request are its
// conversation.
func (c *creation) unanswered() error {
	for _, o := range c.in.outputs {
		if o.alone || o.approve != nil {
			return problem.InvalidField(o.at, "must answer a call or an approval that a response waits for")
		}
	}
	return nil
}

// passedOver refuses a request with a message after its answers, where a run of its conversation still waits for these.
// Only the last run that has asked counts. A message of its own would leave that run waiting.
func (c *creation) passedOver(ctx context.Context) error {
	if len(c.in.passed) == 0 {
		return nil
	}
	e, err := c.Intake.Run(ctx, c.who, c.in.passed[len(c.in.passed)-1].run)
	if bridge.Unseen(err) {
		return nil // a conversation from elsewhere
	}
	if err != nil || e.Value.Status != lifecycle.AwaitingInput {
		return err
	}
	part, found, err := c.answeredPart(ctx, e.Value, c.in.passed)
	if err == nil && found && part == e.Value.Passed() {
		err = c.tooEarly()
	}
	return err
}

// tooEarly refuses a message of the user that comes while a run waits for answers.
func (c *creation) tooEarly() error {
	return problem.InvalidField(cmp.Or(c.in.last, "body.input"),
		"user messages are accepted only after the pending calls and approvals have answers")
}

// answeredPart finds the part whose pause the outputs answer. That is the last part, or the one before when the request
// is sent again.
func (c *creation) answeredPart(ctx context.Context, r record.Run, outputs []output) (part int, found bool, err error) {
	if r.Pause == 0 {
		return 0, false, nil
	}
	list, err := c.Store.PausesOf(ctx, r.ID(), max(r.Pause-2, 0), 2)
	for _, pause := range slices.Backward(list) {
		if coversAll(outputs, r.ID(), pause.Interrupts) {
			return pause.Number - 1, true, nil
		}
	}
	return 0, false, err
}

// coversAll reports whether there is an output for each interrupt of a pause.
func coversAll(outputs []output, run string, list []record.Interrupt) bool {
	return !slices.ContainsFunc(list, func(i record.Interrupt) bool {
		return !slices.ContainsFunc(outputs, func(o output) bool { return o.run == run && o.interrupt == i.ID })
	})
}

// resume decides the pause that ended a part of a run. One that was decided in the same way before has gone on with it:
// the request is sent again.
func (c *creation) resume(ctx context.Context, e record.RunEntity, part int) (*ref, error) {
	if len(c.in.text)+c.in.current() > 0 {
		return nil, c.tooEarly()
	}
	changed, err := c.changed(ctx, e.Value)
	if err != nil {
		return nil, err
	}
	pause, err := c.Store.PauseOf(ctx, e.Value.ID(), part+1)
	if err != nil {
		return nil, err
	}
	if pause == nil {
		return nil, problem.InvalidField("body.input",
			"the response %s does not wait for input", ref{e.Value.ID(), part})
	}
	decisions, outputs, err := c.decisions(e.Value.ID(), pause.Interrupts)
	if err != nil {
		return nil, err
	}
	next := &ref{e.Value.ID(), part + 1}
	if d := pause.Decided; d != nil && record.SameDecisions(d.List, decisions) {
		return next, nil
	}
	var taken []record.File
	for i, o := range outputs {
		var of []record.File
		if decisions[i].Files, of, err = c.Bring(ctx, c.who, o.fileIDs, o.files); err != nil {
			break
		}
		taken = append(taken, of...)
	}
	replayed := false
	if err == nil {
		replayed, err = c.Resume(ctx, c.who, e.Value.ID(), next.part, decisions, nil, changed)
	}
	if err != nil || replayed {
		c.Files.Drop(ctx, taken...)
	}
	return next, err
}

// mayAnswer returns nil when the request's message may answer the question of a run. Then the request has nothing that
// the run, which goes on, would lack.
func (c *creation) mayAnswer(ctx context.Context, r record.Run) error {
	if len(c.in.before) > 0 {
		return problem.InvalidField("body.input",
			"must contain only the answer: the waiting run already has its conversation")
	}
	return c.unchanged(ctx, r)
}

// decisions returns a decision for each interrupt of the run, without files, and the outputs from which it is made.
func (c *creation) decisions(run string, list []record.Interrupt) (all []record.Decision, of []output, err error) {
	left := slices.Clone(c.in.outputs)
	for _, i := range list {
		id := answerID(run, i.ID, lifecycle.InterruptKind(i.Kind))
		n := slices.IndexFunc(left, func(o output) bool { return o.run == run && o.interrupt == i.ID })
		if n < 0 {
			return nil, nil, problem.InvalidField("body.input", "must answer %s: the response waits for this", id)
		}
		o := left[n]
		left = slices.Delete(left, n, n+1)
		verb, text := lifecycle.Answer, cmp.Or(o.text, o.noText())
		switch approval := i.Kind == string(lifecycle.Approval); {
		case approval != (o.approve != nil):
			return nil, nil, problem.InvalidField(o.at,
				"has the wrong type for %s: send the output of a call or the decision of an approval", id)
		case approval && *o.approve:
			verb, text = lifecycle.Approve, o.text
		case approval:
			verb, text = lifecycle.Reject, o.text
		}
		of = append(of, o)
		d := record.Decision{InterruptID: i.ID, Decision: string(verb), Message: text}
		if len(o.files)+len(o.fileIDs) > 0 {
			d.Sent = intake.Digest([]any{o.files, o.fileIDs})
		}
		all = append(all, d)
	}
	for _, o := range left {
		if o.alone {
			return nil, nil, problem.InvalidField(o.at, "must answer a call or an approval that the response waits for")
		}
	}
	return all, of, nil
}

// answerID is the id by which a client answers.
func answerID(run, interrupt string, kind lifecycle.InterruptKind) string {
	if kind == lifecycle.Approval {
		return nameOf("mcpr_", run, interrupt)
	}
	return nameOf("call_", run, interrupt)
}

// agent finds the agent that a request names as its model.
func (s *Server) agent(ctx context.Context, p tenant.Principal, model string) (string, error) {
	if host.ValidID(model) {
		return model, nil // intake checks that it exists
	}
	var found string
	for a, err := range s.Agents(ctx, p) {
		switch {
		case err != nil:
			return "", err
		case a.Spec.Name != model:
		case found != "":
			return "", problem.InvalidField("body.model", "is the name of several agents, %s and %s: send the id",
				found, a.ID)
		default:
			found = a.ID
		}
	}
	if found == "" {
		return "", missing("body.model", "the agent "+model)
	}
	return found, nil
}

// maxRuns is how many runs a request may name items of: each is read whole.
const maxRuns = 5

// finder finds items of earlier responses by their ids.
func (s *Server) finder(ctx context.Context, p tenant.Principal) lookup {
	known := map[string]*whole{}
	return func(id string) (ResponseItem, error) {
		_, rest, _ := strings.Cut(id, "_")
		run, _, _ := strings.Cut(rest, "_")
		if !host.ValidID(run) {
			return ResponseItem{}, problem.Missing("item " + id)
		}
		w, there := known[run]
		if !there {
			if len(known) == maxRuns {
				return ResponseItem{}, problem.InvalidField("body.input",
					"may refer to items of %d runs: send the others in full", maxRuns)
			}
			e, err := s.Intake.Run(ctx, p, run)
			if err != nil {
				return ResponseItem{}, err
			}
			if w, err = s.read(ctx, s.Intake.Tenants.CitationFilter(p), e); err != nil {
				return ResponseItem{}, err
			}
			known[run] = w
		}
		for n := range w.of.Passed() + 1 {
			one, err := w.cut(n)
			if err != nil {
				return ResponseItem{}, err
			}
			for _, item := range append(one.inputs(), s.items(one)...) {
				if item.ID == id {
					return item, nil
				}
			}
		}
		return ResponseItem{}, problem.Missing("item " + id)
	}
}

// Response reads a response. It returns a problem of kind NotFound or Forbidden, as [intake.Intake.Run].
func (s *Server) Response(ctx context.Context, p tenant.Principal, id string) (Response, error) {
	return s.shown(s.find(ctx, p, id))
}

// shown is the representation of a part, or the error with which the part was read.
func (s *Server) shown(one *part, err error) (Response, error) {
	if err != nil {
		return Response{}, err
	}
	return s.response(one), nil
}

func (s *Server) find(ctx context.Context, p tenant.Principal, id string) (*part, error) {
	r, ok := parseRef(id)
	if !ok {
		return nil, problem.Missing("response " + id)
	}
	e, err := s.Intake.Run(ctx, p, r.run)
	if problem.Is(err, "not_found") {
		return nil, problem.Missing("response " + id)
	}
	if err != nil {
		return nil, err
	}
	return s.cut(ctx, p, e, r.part)
}

// cut returns one of a run's responses.
func (s *Server) cut(ctx context.Context, p tenant.Principal, e record.RunEntity, n int) (*part, error) {
	w, err := s.read(ctx, s.Intake.Tenants.CitationFilter(p), e)
	if err != nil {
		return nil, err
	}
	return w.cut(n)
}

// Wait is Response of a new response after its run has ended or paused, or after a while. The while is longer if
// takeSlot, which takes a stream slot for it, returns nil. The caller watches the right to the run's agent.
func (s *Server) Wait(ctx context.Context, p tenant.Principal, id string, takeSlot func() error) (Response, error) {
	r, _ := parseRef(id) // which Create has made
	enough := func(run record.Run) bool { return run.Status.EndedOrWaiting() || run.Passed() > r.part }
	var e record.RunEntity
	until := func(left time.Duration) (record.RunEntity, error) {
		return s.Hub.Until(ctx, s.Store, p.Scope(), r.run, e.Version(), left, enough)
	}
	e, err := s.Outlast(ctx, s.Window, until)
	if err == nil && s.Longer > s.Window && !enough(e.Value) && takeSlot() == nil {
		e, err = s.Outlast(ctx, s.Longer-s.Window, until)
	}
	if err != nil {
		return Response{}, err
	}
	return s.shown(s.cut(ctx, p, e, r.part))
}

// RunOf is the run of a response; "" for an id that no response has.
func RunOf(id string) string {
	r, ok := parseRef(id)
	if !ok {
		return ""
	}
	return r.run
}

// Cancel cancels the run of a response, and returns it as it then is. Its errors are those of [Server.Response].
func (s *Server) Cancel(ctx context.Context, p tenant.Principal, id string) (Response, error) {
	one, err := s.find(ctx, p, id)
	if err != nil {
		return Response{}, err
	}
	e, err := s.Intake.Cancel(ctx, p, one.run, "cancelled through /responses")
	if err != nil {
		return Response{}, err
	}
	return s.shown(s.cut(ctx, p, e, one.part))
}

// Delete removes a response with its conversation, and returns the job that does it. Besides the errors of
// [Server.Response], it returns a problem of kind Conflict when the conversation has other responses.
func (s *Server) Delete(ctx context.Context, p tenant.Principal, id string) (job string, err error) {
	one, err := s.find(ctx, p, id)
	if err != nil {
		return "", err
	}
	chat, err := s.Intake.Chat(ctx, p, one.of.Chat)
	if err != nil {
		return "", err
	}
	if chat.Value.LastRun != one.run || one.of.Previous != "" || one.of.Passed() > 0 {
		return "", problem.New(problem.Conflict, "conflict",
			"the conversation has other responses: send DELETE /chats/%s to delete all of them", one.of.Chat)
	}
	return s.Intake.DeleteChat(ctx, p, one.of.Chat)
}

// Inputs is a page of the items that a response was given. It has at most limit of them after the item after, the
// newest first unless oldest is set. Besides the errors of [Server.Response], it returns a problem of kind Invalid
// (query.after).
func (s *Server) Inputs(
	ctx context.Context, p tenant.Principal, id string, after string, limit int, oldest bool,
) (ResponseItems, error) {
	one, err := s.find(ctx, p, id)
	if err != nil {
		return ResponseItems{}, err
	}
	items := one.inputs()
	if !oldest {
		slices.Reverse(items)
	}
	if after != "" {
		n := slices.IndexFunc(items, func(i ResponseItem) bool { return i.ID == after })
		if n < 0 {
			return ResponseItems{}, problem.InvalidField("query.after", "must be the id of an item of this response")
		}
		items = items[n+1:]
	}
	page := ResponseItems{Object: "list", Data: items[:min(limit, len(items))], HasMore: len(items) > limit}
	if n := len(page.Data); n > 0 {
		page.FirstID, page.LastID = &page.Data[0].ID, &page.Data[n-1].ID
	}
	return page, nil
}
