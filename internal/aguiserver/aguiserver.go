// Package aguiserver serves front ends that speak AG-UI, the Agent-User Interaction protocol: a thread is a chat, and
// what the protocol calls a run is an exchange: a durable run of ours, or the part of one between two pauses.
//
// A thread is kept here. A front end sends all of its messages each time; those up to the last one that is known
// count no more: a message of ours, or the last one of the request that began the chat's last run. What the user has
// written since that request and not sent does count. Of a new thread all count. The id of an exchange is the message's
// idempotency key, and a request that brings nothing new follows the thread's last run: so a front end whose connection
// was cut asks again, and gets what it missed.
//
// A call of a function of the front end ends the exchange as a success with the call pending; the next request brings
// its output as a message of a tool, or goes on without. Approvals and questions end it as interrupted, and resume
// answers them. What the user says beside such answers, or while the thread's last run works, is parked behind that
// run, and the stream follows both.
//
// Ids are made of the run's (ids.go). Not mapped are state and forwardedProps, which are ignored, the model's
// reasoning, which is not shown, and media of a message at addresses of others. A thread waits for all that a pause
// asked for at once.
//
// The package must not know HTTP, nor how runs are executed. It imports intake, stream, files, view, record, catalog,
// citation, tenant, lifecycle, model (the names of the service's tools), events, strictjson, host and problem.
package aguiserver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"agentplatform/internal/catalog"
	"agentplatform/internal/files"
	"agentplatform/internal/host"
	"agentplatform/internal/intake"
	"agentplatform/internal/lifecycle"
	"agentplatform/internal/problem"
	"agentplatform/internal/record"
	"agentplatform/internal/stream"
	"agentplatform/internal/strictjson"
	"agentplatform/internal/tenant"
)

// Server is the use case.
type Server struct {
	Intake *intake.Intake
	Store  *record.Store
	Files  *files.Files
	Hub    *stream.Hub
	URL    string // of the API, under which files of messages are known
}

// Exchange is a request whose run has begun, or goes on. Of the request it keeps the messages, for a snapshot.
type Exchange struct {
	thread, id string
	agent      string   // of the run
	runs       []string // to follow, one after the other
	list       []heard
	heavy      bool // they are too many to be kept beside what requests may hold together
	old        bool // the client is one from before protocol version 1.0
}

// heard is a message that the front end has.
type heard struct {
	id  string
	raw json.RawMessage // nil: it was not kept
}

// Run is the run that the exchange follows first.
func (x *Exchange) Run() string { return x.runs[0] }

// Agent is the agent of that run.
func (x *Exchange) Agent() string { return x.agent }

// light is how many bytes of messages an exchange may keep until it ends.
const light = 64 << 10

// begun is called when the first events were told. Messages that are too many are forgotten.
func (x *Exchange) begun() {
	if !x.heavy {
		return
	}
	for i := range x.list {
		x.list[i].raw = nil
	}
}

// Open carries out a request to an agent. request is its id. Errors are problems: of kind Invalid with the field,
// NotFound for the agent, Conflict (not_awaiting_input) for an answer to what was decided otherwise, and those of
// [intake.Intake.Post] and [intake.Intake.Resume].
func (s *Server) Open(
	ctx context.Context, p tenant.Principal, agent string, in RunAgentInput, request string,
) (*Exchange, error) {
	if err := s.reachable(ctx, p, agent); err != nil {
		return nil, err
	}
	t, err := readTurn(in)
	if err != nil {
		return nil, err
	}
	b := &beginning{Server: s, who: p, agent: agent, request: request, turn: t}
	x := &Exchange{thread: t.ThreadID, id: t.RunID, agent: agent, old: t.ProtocolVersion == ""}
	size := 0
	for _, m := range t.list {
		x.list = append(x.list, heard{m.ID, m.raw})
		size += len(m.ID) + len(m.raw)
	}
	x.heavy = size > light
	posted, found, err := s.Intake.Replay(ctx, p, b.key()) // before anything is judged
	if err != nil {
		return nil, b.fresh.named(err)
	}
	if found {
		x.runs, x.agent = runsOf(posted), posted.Run.Agent
		return x, nil
	}
	if err := b.find(ctx); err != nil {
		return nil, err
	}
	if x.runs, err = b.begin(ctx); err != nil {
		return nil, b.fresh.named(err)
	}
	if b.last != nil && x.runs[0] == b.last.ID() {
		x.agent = b.last.Agent
	}
	return x, nil
}

// runsOf are the runs that a message has begun or goes on with.
func runsOf(posted intake.Posted) []string {
	runs := []string{posted.Run.ID()}
	if posted.Parked != nil {
		runs = append(runs, posted.Parked.ParkedID)
	}
	return slices.Compact(runs)
}

func (s *Server) reachable(ctx context.Context, p tenant.Principal, agent string) error {
	if !host.ValidID(agent) {
		return problem.Missing("agent " + agent)
	}
	e, err := record.Resource[catalog.Agent](ctx, s.Store, p.Scope(), agent)
	if err == nil {
		err = p.MayUse(e.Value)
	}
	return err
}

// beginning is a request that is carried out.
type beginning struct {
	*Server

	who     tenant.Principal
	agent   string
	request string
	turn    turn
	last    *record.Run // the thread's last run, if it is the agent's
	parked  []string    // the messages to the agent that wait behind it
	told    echo        // of what the thread was told last
	from    int         // the first message that is not known
	fresh   fresh
	message intake.Message // that it says, when it is prepared
	taken   []record.File  // of that message, until it is sent
}

// find reads what the thread knows.
func (b *beginning) find(ctx context.Context) error {
	chat, err := b.Intake.Chat(ctx, b.who, b.turn.ThreadID)
	if err != nil {
		if problem.Is(err, "not_found") {
			b.fresh, err = b.turn.since(0)
		}
		return err
	}
	if chat.Value.LastRun != "" {
		e, err := b.Intake.Run(ctx, b.who, chat.Value.LastRun)
		if problem.Is(err, "not_found") { // its time was over; so was that of what it knew
			b.fresh, err = b.turn.since(0)
			return err
		}
		if err != nil {
			return err
		}
		in, err := b.Store.Input(ctx, e.Value)
		if err != nil {
			return err
		}
		if err := b.told.read(in); err != nil {
			return err
		}
		if e.Value.Agent == b.agent {
			b.last = &e.Value
		}
		if err := b.findParked(ctx); err != nil {
			return err
		}
	}
	if b.from, err = b.behindAnswer(ctx, b.firstUnknown()); err != nil {
		return err
	}
	b.fresh, err = b.turn.since(b.from, b.unsaid()...)
	return err
}

// findParked reads what waits behind the last run: the thread knows that, too.
func (b *beginning) findParked(ctx context.Context) error {
	if b.last == nil {
		return nil
	}
	for _, id := range b.last.Parked {
		p, err := b.Store.Parked(ctx, id)
		if problem.Is(err, "not_found") { // withdrawn since
			continue
		}
		if err != nil {
			return err
		}
		if p.Spec.Agent != b.agent {
			continue
		}
		b.parked = append(b.parked, id)
		if err := b.told.read(p.Input); err != nil {
			return err
		}
	}
	return nil
}

// firstUnknown is the place behind the last message that is known. Where none is, only what the user says last is new:
// the front end has forgotten the rest, or has got it from elsewhere.
func (b *beginning) firstUnknown() int {
	for i, m := range slices.Backward(b.turn.list) {
		answer := b.last != nil && m.Role == "tool" && strings.HasPrefix(m.ToolCallID, nameOf("call_", b.last.ID(), ""))
		if answer || isOurs(m.ID) || m.ID == b.told.Message {
			return i + 1
		}
	}
	return b.turn.lastUsers()
}

// behindAnswer is the place behind the user's messages from one on that were the answer to a question: the run that has
// it names none of them. They are known by their words, as long as the front end has heard nothing of what came then.
func (b *beginning) behindAnswer(ctx context.Context, from int) (int, error) {
	if b.last == nil || !b.last.Status.Active() || b.last.Passed() == 0 || b.heardOf(b.last.Passed()) {
		return from, nil
	}
	pauses, err := b.Store.PausesOf(ctx, b.last.ID(), b.last.Passed()-1, 1)
	if err != nil || len(pauses) == 0 || !isQuestion(pauses[0].Interrupts) || pauses[0].Decided == nil {
		return from, err
	}
	answer := pauses[0].Decided.List[0].Message
	for i := from; i < len(b.turn.list) && b.turn.list[i].Role == "user"; i++ {
		text, _, err := content("", b.turn.list[i].Content)
		rest, is := strings.CutPrefix(answer, text)
		if err != nil || !is { // what is wrong is named when it is read as a message
			return from, nil
		}
		if rest == "" {
			return i + 1, nil
		}
		answer = strings.TrimPrefix(rest, "\n\n")
	}
	return from, nil
}

// heardOf reports whether the front end has a message of a part of the last run.
func (b *beginning) heardOf(part int) bool {
	said, got := ofPart("msg_", b.last.ID(), part), ofPart("res_", b.last.ID(), part)
	return slices.ContainsFunc(b.turn.list, func(m message) bool {
		return strings.HasPrefix(m.ID, said) || strings.HasPrefix(m.ID, got)
	})
}

// unsaid are the messages of the user among those that are known, behind those of the last request: they were written
// while the last run spoke, and not sent. Between two parts of the run may be its answers, which are known.
func (b *beginning) unsaid() (list []int) {
	told := slices.IndexFunc(b.turn.list, func(m message) bool { return m.ID == b.told.Message })
	if b.last == nil || told < 0 {
		return nil
	}
	var users []int
	part := 0
	for i := told + 1; i < b.from; i++ {
		m := b.turn.list[i]
		if m.Role == "user" {
			users = append(users, i)
		}
		n, is := partOf(m.ID, b.last.ID())
		if !is {
			continue
		}
		if n == part {
			list = append(list, users...)
		}
		users, part = nil, n
	}
	return list
}

// lastUsers is where the messages of the user begin that a thread ends with.
func (t *turn) lastUsers() int {
	for i, m := range slices.Backward(t.list) {
		if m.Role == "assistant" || m.Role == "tool" {
			return i + 1
		}
	}
	return 0
}

// correlate refuses answers to what the thread's last run has not asked, in its last pause or one before.
func (b *beginning) correlate(ctx context.Context) error {
	const page = 20
	asked, unknown := map[string]bool{}, 0
	for unread := b.lastPause(); ; unread -= page {
		unknown = slices.IndexFunc(b.turn.Resume, func(e AGUIResume) bool { return !asked[e.InterruptID] })
		if unknown < 0 {
			return nil
		}
		if unread <= 0 {
			break
		}
		pauses, err := b.Store.PausesOf(ctx, b.last.ID(), max(unread-page, 0), min(unread, page))
		if err != nil {
			return err
		}
		for _, p := range pauses {
			for _, i := range p.Interrupts {
				asked[nameOf("int_", b.last.ID(), i.ID)] = !isCall(i.Kind, i.Tool != nil)
			}
		}
	}
	return problem.InvalidField(fmt.Sprintf("body.resume[%d].interruptId", unknown),
		"is no interrupt of the thread's last run")
}

func (b *beginning) lastPause() int {
	if b.last == nil {
		return 0
	}
	return b.last.Pause
}

// begin returns the runs to follow.
func (b *beginning) begin(ctx context.Context) ([]string, error) {
	if err := b.correlate(ctx); err != nil {
		return nil, err
	}
	says := b.fresh.users > 0 || b.endsWithOutput()
	if says { // before anything is decided: a refusal leaves all as it was
		if err := b.prepare(ctx); err != nil {
			return nil, err
		}
		defer b.drop(ctx)
	}
	resumed, err := b.resume(ctx)
	if err != nil {
		return nil, err
	}
	switch {
	case resumed && !says:
		return b.going(), nil
	case resumed:
		return b.post(ctx, true)
	case !says && b.last != nil && (b.last.Status.Active() || b.turn.lastUsers() == len(b.turn.list)):
		return b.going(), nil
	case !says: // the user wants to hear it again
		if b.fresh, err = b.turn.since(b.turn.lastUsers()); err != nil {
			return nil, err
		}
		if b.fresh.users > 0 {
			if err := b.prepare(ctx); err != nil {
				return nil, err
			}
			defer b.drop(ctx)
		}
	}
	if b.fresh.users == 0 && !b.endsWithOutput() {
		return nil, problem.InvalidField("body.messages",
			"must end with a message of the user, or with the output of a call")
	}
	if err := b.mayAnswer(ctx); err != nil {
		return nil, err
	}
	return b.post(ctx, b.last != nil && b.last.Status.Active() && b.last.Status != lifecycle.AwaitingInput)
}

// going are the thread's last run and what waits behind it.
func (b *beginning) going() []string { return append([]string{b.last.ID()}, b.parked...) }

func (b *beginning) endsWithOutput() bool {
	n := len(b.fresh.before)
	return n > 0 && b.fresh.before[n-1].Role == record.RoleTool
}

// mayAnswer refuses a message to a thread that waits for what a message does not answer: all but one question.
func (b *beginning) mayAnswer(ctx context.Context) error {
	if b.last == nil || b.last.Status != lifecycle.AwaitingInput {
		return nil
	}
	list, err := b.Store.Interrupts(ctx, b.last.ID(), b.last.Pause)
	if err != nil || isQuestion(list) {
		return err
	}
	for _, i := range list {
		return b.unanswered(i)
	}
	return nil
}

// unanswered is the refusal of a request that leaves out what the thread waits for.
func (b *beginning) unanswered(i record.Interrupt) error {
	if isCall(i.Kind, i.Tool != nil) {
		return problem.InvalidField("body.messages", "must have the output of the call %s, which the thread waits for",
			nameOf("call_", b.last.ID(), i.ID))
	}
	return problem.InvalidField("body.resume", "must have an entry for %s, which the thread waits for",
		nameOf("int_", b.last.ID(), i.ID))
}

// isQuestion reports whether a pause asked for nothing but one answer, which a message may be.
func isQuestion(list []record.Interrupt) bool {
	return len(list) == 1 && list[0].Kind == string(lifecycle.Clarification) && list[0].Tool == nil
}

// isCall reports whether an interrupt is a call of a function of the client.
func isCall(kind string, tool bool) bool { return tool && kind == string(lifecycle.Clarification) }

// resume decides the last pause of the thread's last run, where the request answers it. It reports whether the run goes
// on by that, or has gone on by the same answers, and the front end has seen nothing of it yet.
func (b *beginning) resume(ctx context.Context) (bool, error) {
	if b.lastPause() == 0 {
		return false, nil
	}
	pauses, err := b.Store.PausesOf(ctx, b.last.ID(), b.last.Pause-1, 1)
	if err != nil || len(pauses) == 0 {
		return false, err
	}
	decisions, err := b.decisions(pauses[0].Interrupts)
	if err != nil || len(decisions) == 0 {
		return false, err
	}
	if d := pauses[0].Decided; d != nil {
		return b.decided(*d, decisions)
	}
	if b.last.Status != lifecycle.AwaitingInput { // nobody has decided, and nothing waits any more
		return false, nil
	}
	if len(decisions) < len(pauses[0].Interrupts) {
		i := slices.IndexFunc(pauses[0].Interrupts, func(i record.Interrupt) bool { return !about(decisions, i.ID) })
		return false, b.unanswered(pauses[0].Interrupts[i])
	}
	_, err = b.Intake.Resume(ctx, b.who, b.last.ID(), "", decisions)
	if problem.Is(err, "not_awaiting_input") { // somebody was faster: perhaps this very request
		d, found, readErr := b.Store.LastDecision(ctx, b.last.ID(), b.last.Pause)
		if readErr == nil && found && record.SameDecisions(d.List, decisions) {
			return true, nil
		}
	}
	return err == nil, err
}

func about(list []record.Decision, interrupt string) bool {
	return slices.ContainsFunc(list, func(d record.Decision) bool { return d.InterruptID == interrupt })
}

// decided compares answers with how a pause was decided before. Answers in a thread that has gone on since are its
// history.
func (b *beginning) decided(d record.Decisions, decisions []record.Decision) (bool, error) {
	switch {
	case b.heardOf(b.last.Pause):
		return false, nil
	case b.fresh.users > 0 && b.last.Status.Terminal(): // it ended without a word, and the user goes on
		return false, nil
	case record.SameDecisions(d.List, decisions):
		return true, nil
	case b.fresh.users > 0 || len(b.turn.Resume) == 0:
		return false, nil
	}
	return false, problem.New(problem.Conflict, "not_awaiting_input",
		"what the thread waited for was decided otherwise: send a message of the user, or no resume")
}

// decisions are what the request says to what a pause asked for. It may be incomplete.
func (b *beginning) decisions(list []record.Interrupt) (decisions []record.Decision, err error) {
	for _, i := range list {
		var d record.Decision
		var found bool
		if isCall(i.Kind, i.Tool != nil) {
			d, found, err = b.outputOf(i)
		} else {
			d, found, err = b.entryOf(i)
		}
		if err != nil {
			return nil, err
		}
		if d.InterruptID = i.ID; found {
			decisions = append(decisions, d)
		}
	}
	return decisions, nil
}

// wentOn is the output of a call that the front end has left without one when the user says something else.
const wentOn = "(no output: the user went on)"

func (b *beginning) outputOf(i record.Interrupt) (d record.Decision, found bool, err error) {
	call := nameOf("call_", b.last.ID(), i.ID)
	n := slices.IndexFunc(b.turn.list, func(m message) bool { return m.Role == "tool" && m.ToolCallID == call })
	if n < 0 && b.fresh.users > 0 { // the exchange that ended with the call was complete: the application may leave it
		return record.Decision{Decision: string(lifecycle.Answer), Message: wentOn}, true, nil
	}
	if n < 0 {
		return d, false, nil
	}
	text, err := b.turn.list[n].output("body.messages[" + strconv.Itoa(n) + "]")
	if text == "" {
		text = "(no output)"
	}
	return record.Decision{Decision: string(lifecycle.Answer), Message: text}, true, err
}

func (b *beginning) entryOf(i record.Interrupt) (d record.Decision, found bool, err error) {
	name := nameOf("int_", b.last.ID(), i.ID)
	n := slices.IndexFunc(b.turn.Resume, func(e AGUIResume) bool { return e.InterruptID == name })
	if n < 0 {
		return d, false, nil
	}
	approval := i.Kind == string(lifecycle.Approval)
	d, err = b.turn.Resume[n].decision("body.resume["+strconv.Itoa(n)+"]", approval)
	return d, true, err
}

// decision is what an entry of resume decides.
func (e AGUIResume) decision(at string, approval bool) (d record.Decision, err error) {
	null := len(e.Payload) == 0 || string(e.Payload) == "null"
	switch {
	case e.Status == "cancelled" && approval:
		return record.Decision{Decision: string(lifecycle.Reject), Message: "it was dismissed"}, nil
	case e.Status == "cancelled":
		return record.Decision{
			Decision: string(lifecycle.Answer), Message: "(no answer: the question was dismissed)",
		}, nil
	case e.Status != "resolved":
		return d, problem.InvalidField(at+".status", "must be resolved or cancelled")
	case null:
		return d, problem.InvalidField(at+".payload", "is required")
	case approval:
		return approvalOf(at+".payload", e.Payload)
	}
	d.Decision, d.Message = string(lifecycle.Answer), answerOf(e.Payload)
	if d.Message == "" {
		err = problem.InvalidField(at+".payload", "must not be empty")
	}
	return d, err
}

// answerOf is an answer to a question: a text, a text in an object's member answer, or whatever else the payload is.
func answerOf(payload json.RawMessage) (text string) {
	var of struct {
		Answer string `json:"answer"`
	}
	switch {
	case json.Unmarshal(payload, &text) == nil:
	case json.Unmarshal(payload, &of) == nil && of.Answer != "":
		text = of.Answer
	default:
		text = string(payload)
	}
	return text
}

// edited bounds the arguments that a human gives a call.
var edited = strictjson.Limits{Bytes: 256 << 10, Depth: 64}

func approvalOf(at string, payload json.RawMessage) (d record.Decision, err error) {
	var yes bool
	var of struct {
		Approved *bool           `json:"approved"`
		Edited   json.RawMessage `json:"editedArgs"`
		Reason   string          `json:"reason"`
	}
	if json.Unmarshal(payload, &yes) == nil {
		of.Approved = &yes
	} else if err := intake.Decode(at, payload, &of); err != nil {
		return d, err
	}
	switch {
	case of.Approved == nil:
		return d, problem.InvalidField(at+".approved", "is required")
	case !*of.Approved:
		return record.Decision{Decision: string(lifecycle.Reject), Message: of.Reason}, nil
	case len(of.Edited) > 0 && string(of.Edited) != "null":
		if of.Edited, err = strictjson.Object(of.Edited, edited); err != nil {
			return d, problem.InvalidField(at+".editedArgs", "must be an object: %s", err)
		}
		return record.Decision{Decision: string(lifecycle.Edit), Arguments: of.Edited, Message: of.Reason}, nil
	}
	return record.Decision{Decision: string(lifecycle.Approve), Message: of.Reason}, nil
}

// key is the request's idempotency key: a front end may count the ids of its exchanges in each thread.
func (b *beginning) key() string {
	thread := sha256.Sum256([]byte(b.turn.ThreadID))
	return "agui/" + b.agent + "/" + hex.EncodeToString(thread[:8]) + "/" + b.turn.RunID
}

// prepare makes the message, with its files stored, and checks it.
func (b *beginning) prepare(ctx context.Context) error {
	c, err := b.turn.brought(b.fresh)
	if err != nil {
		return err
	}
	b.message = intake.Message{
		AgentID: b.agent, Text: b.fresh.message(), ChatID: b.turn.ThreadID, Context: c, Key: b.key(),
		Request: b.request, Watched: true,
	}
	ids, err := b.known()
	if err != nil {
		return err
	}
	b.message.Files, b.taken, err = b.Files.Bring(ctx, b.who.Scope(), b.who.Organization, b.who.User, ids,
		b.fresh.media.files, func(f record.File) error { return b.Intake.Tenants.MayReadFile(ctx, b.who, f) })
	if err != nil {
		return err
	}
	if err = b.message.Check(); err != nil {
		b.drop(ctx)
	}
	return err
}

// known are the ids of the files that the message names by their addresses. Others than ours are not fetched.
func (b *beginning) known() (ids []string, err error) {
	var good []address
	for _, a := range b.fresh.media.known {
		id, ours := strings.CutPrefix(a.url, b.URL+"/files/")
		switch {
		case ours && host.ValidID(id):
			ids, good = append(ids, id), append(good, a)
		case !a.earlier:
			return nil, problem.InvalidField(a.at,
				"is not fetched: send the bytes as data, or the address of a file of this service")
		}
	}
	b.fresh.media.known = good
	return ids, nil
}

// drop removes the files of a message that was not sent.
func (b *beginning) drop(ctx context.Context) {
	b.Files.Drop(ctx, b.taken...)
	b.taken = nil
}

// post sends the message, behind what the thread's last run goes on with, if it does.
func (b *beginning) post(ctx context.Context, behind bool) ([]string, error) {
	b.message.Enqueue, b.message.FollowsUp = behind, behind
	posted, err := b.Intake.Post(ctx, b.who, b.message)
	if err != nil {
		return nil, err
	}
	if !posted.Replayed {
		b.taken = nil // the run holds them
	}
	runs := runsOf(posted)
	switch {
	case behind:
		runs = append(b.going(), runs...)
	case b.last != nil && runs[0] == b.last.ID(): // it was an answer
		runs = b.going()
	}
	return distinct(runs), nil
}

// distinct are the runs in their order, each once.
func distinct(runs []string) (list []string) {
	for _, run := range runs {
		if !slices.Contains(list, run) {
			list = append(list, run)
		}
	}
	return list
}
