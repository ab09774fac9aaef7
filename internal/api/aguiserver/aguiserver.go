// Package aguiserver serves front ends that speak AG-UI, the Agent-User Interaction protocol. A thread is a chat. The
// protocol's run is an exchange: a durable run of ours, or the part of one between two pauses.
//
// A thread is kept here. A front end sends all of its messages each time. Messages up to the last known one are
// ignored. Known are the messages of ours, and the last message of a request that began the chat's last run or a
// message parked behind it. In a new thread all messages are new. The id of an exchange is the message's idempotency
// key. A request without a new message follows the thread's last run: a front end whose connection was cut sends its
// request again, and receives the events that it missed.
//
// A call of a function of the front end ends the exchange as a success with the call pending. The next request has the
// call's output as a message of a tool, or goes on without it. Approvals and questions end the exchange as interrupted,
// and resume answers them. A message of the user that comes with such answers, or while the thread's last run works, is
// parked behind that run, and the stream follows both.
//
// Ids are made of the run's (ids.go). Not mapped are state and forwardedProps, which are ignored; the model's
// reasoning, which is not sent; and media of a message at addresses of others. All calls and questions of a pause must
// be answered in one request.
//
// The package must not know HTTP, and must not know how runs are executed. It imports intake, stream, files, view,
// record, citation, tenant, lifecycle, model (the names of the service's tools), events, strictjson, host, bridge and
// problem.
package aguiserver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"agentplatform/internal/api/bridge"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/run/intake"
	"agentplatform/internal/store/record"
)

// Server is the use case.
type Server struct{ bridge.Bridge }

// Exchange is a request whose run has begun or goes on. It keeps the request's messages for a snapshot.
type Exchange struct {
	thread, id string
	runs       []string // to follow, one after the other
	list       []clientMessage
	heavy      bool // they are too large to be kept in addition to the room of requests
	old        bool // the client is one from before protocol version 1.0
}

// clientMessage is a message that the front end has.
type clientMessage struct {
	id  string
	raw json.RawMessage // nil: it was not kept
}

// Run is the run that the exchange follows first.
func (x *Exchange) Run() string { return x.runs[0] }

// light is how many bytes of messages an exchange may keep until it ends.
const light = 64 << 10

func newExchange(t turn) *Exchange {
	x := &Exchange{thread: t.ThreadID, id: t.RunID, old: t.ProtocolVersion == ""}
	size := 0
	for _, m := range t.list {
		x.list = append(x.list, clientMessage{m.ID, m.raw})
		size += len(m.ID) + len(m.raw)
	}
	x.heavy = size > light
	return x
}

// begun is called when the first events were sent. It drops the messages where they are too large to be kept.
func (x *Exchange) begun() {
	if !x.heavy {
		return
	}
	for i := range x.list {
		x.list[i].raw = nil
	}
}

// Open carries out a request to an agent. request is its id. It returns problems: of kind Invalid with the field,
// NotFound for the agent, and those of [intake.Intake.Post] and [intake.Intake.Resume]. It returns Conflict
// (not_awaiting_input) for an answer to a pause that was decided differently.
func (s *Server) Open(
	ctx context.Context, p tenant.Principal, agent string, in RunAgentInput, request string,
) (*Exchange, error) {
	if _, err := s.Agent(ctx, p, agent); err != nil {
		return nil, err
	}
	t, err := readTurn(in)
	if err != nil {
		return nil, err
	}
	b := &beginning{Server: s, who: p, agent: agent, request: request, turn: t}
	x := newExchange(t)
	posted, found, err := s.Intake.Replay(ctx, p, b.key(), "") // before anything is judged
	if err != nil {
		return nil, bridge.Named(err, b.fresh.requestField)
	}
	if found {
		x.runs, err = b.runsOf(ctx, posted)
		return x, err
	}
	for range maxAttempts {
		if err = b.find(ctx); err == nil {
			x.runs, err = b.begin(ctx)
		}
		if !problem.Is(err, "chat_busy") {
			break // else another request was faster, or the thread is busy with another agent
		}
		b = &beginning{Server: s, who: p, agent: agent, request: request, turn: t}
	}
	return x, bridge.Named(err, b.fresh.requestField)
}

// maxAttempts is the largest number of attempts of a request. Another attempt follows where its thread had no run at
// first, and has one now.
const maxAttempts = 3

type beginning struct {
	*Server

	who     tenant.Principal
	agent   string
	request string
	turn    turn
	last    *record.Run // the thread's last run, if it is the agent's
	parked  []string    // the messages to the agent that wait behind it
	known   []string    // ids of the last messages that the thread received
	fresh   fresh
	message intake.Message // from the user, when it is prepared
	taken   []record.File  // of that message, until it is sent
}

// begin carries the request out after it has read the state of the thread. It returns the runs to follow.
func (b *beginning) begin(ctx context.Context) ([]string, error) {
	defer func() { b.Files.Drop(ctx, b.taken...) }() // of a message that was not sent
	last, err := b.lastPause(ctx)
	if err != nil {
		return nil, err
	}
	if err := b.correlate(ctx, last); err != nil {
		return nil, err
	}
	hasMessage := b.fresh.asks() || b.endsWithOutput()
	if hasMessage { // before anything is decided: a refusal leaves all as it was
		if err := b.prepare(ctx); err != nil {
			return nil, err
		}
	}
	resumed, err := b.resume(ctx, last)
	if err != nil {
		return nil, err
	}
	switch {
	case resumed && !hasMessage:
		return b.going(), nil
	case resumed:
		return b.post(ctx, true)
	case !hasMessage && b.follows():
		return b.going(), nil
	case !hasMessage: // the user wants it to run again
		if b.fresh, err = b.turn.since(b.turn.lastUsers()); err == nil && !b.fresh.asks() {
			err = problem.InvalidField("body.messages",
				"must end with a user message or the output of a call")
		}
		if err == nil {
			err = b.prepare(ctx)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := b.mayAnswer(); err != nil {
		return nil, err
	}
	return b.post(ctx, b.last != nil && b.last.Status.Active() && b.last.Status != lifecycle.AwaitingInput)
}

// follows reports whether a request without a new message follows the thread's last run. It does while that run is
// active. It does where the request has answers, which are history then. It also does where the request does not end
// with a message of the user.
func (b *beginning) follows() bool {
	if b.last == nil {
		return false
	}
	again := slices.ContainsFunc(b.turn.list[b.turn.lastUsers():], func(m message) bool { return m.Role == "user" })
	return b.last.Status.Active() || len(b.turn.Resume) > 0 || !again
}

// going are the thread's last run and the messages parked behind it.
func (b *beginning) going() []string { return append([]string{b.last.ID()}, b.parked...) }

func (b *beginning) endsWithOutput() bool {
	n := len(b.fresh.before)
	return n > 0 && b.fresh.before[n-1].Role == record.RoleTool
}

// key is the request's idempotency key. It depends on the thread, as a front end may count its exchanges in each
// thread.
func (b *beginning) key() string {
	thread := sha256.Sum256([]byte(b.turn.ThreadID))
	return "agui/" + b.agent + "/" + hex.EncodeToString(thread[:8]) + "/" + b.turn.RunID
}

// prepare makes the message, with its files stored, and checks it.
func (b *beginning) prepare(ctx context.Context) error {
	c, err := b.turn.runContext(b.fresh)
	if err != nil {
		return err
	}
	b.message = intake.Message{
		AgentID: b.agent, Text: b.fresh.message(), ChatID: b.turn.ThreadID, Context: c, Key: b.key(),
		Request: b.request, Watched: true, Answers: b.mayDecide,
	}
	if b.fresh.media.addresses, err = b.addressed(ctx); err != nil {
		return err
	}
	var ids []string
	for _, a := range b.fresh.media.addresses {
		ids = append(ids, a.id)
	}
	if b.message.Files, b.taken, err = b.Bring(ctx, b.who, ids, b.fresh.media.files); err != nil {
		return err
	}
	return b.message.Check()
}

// mayDecide refuses to answer a run of another agent, which the thread is busy with.
func (b *beginning) mayDecide(_ context.Context, run record.Run) error {
	if run.Agent == b.agent {
		return nil
	}
	return problem.New(problem.Conflict, "chat_busy", "the thread is busy with a run of another agent").
		With("active_run_id", run.ID())
}

// addressed are the addresses of files of ours that the message names. Others are not fetched.
func (b *beginning) addressed(ctx context.Context) (good []address, err error) {
	for _, a := range b.fresh.media.addresses {
		id, ours := b.FileOf(a.url)
		switch {
		case ours && a.earlier:
			_, err := b.Files.Attach(ctx, b.who.Scope(), []string{id}, b.MayRead(ctx, b.who))
			if p, is := problem.As(err); is && p.Kind != problem.Unavailable {
				continue
			}
			if err != nil {
				return nil, err
			}
		case a.earlier:
			continue
		case !ours:
			return nil, problem.InvalidField(a.at,
				"must be the URL of a file in this service: other URLs are not fetched, so send the bytes as data")
		}
		a.id = id
		good = append(good, a)
	}
	return good, nil
}

// post sends the message. With behind, the message waits behind the thread's last run.
func (b *beginning) post(ctx context.Context, behind bool) ([]string, error) {
	b.message.Enqueue, b.message.FollowsUp = behind, behind
	posted, err := b.Intake.Post(ctx, b.who, b.message)
	if err != nil {
		return nil, err
	}
	if !posted.Replayed {
		b.taken = nil // the run holds them
	}
	runs, err := b.runsOf(ctx, posted)
	if err != nil {
		return nil, err
	}
	if behind || b.last != nil && runs[0] == b.last.ID() { // it waits, or it was an answer
		runs = append(b.going(), runs...)
	}
	return distinct(runs), nil
}

// runsOf are the runs to follow for a message. These are the run that it has begun or answered; or the run that it
// waits for, the messages in front of it, and its own.
func (b *beginning) runsOf(ctx context.Context, posted intake.Posted) ([]string, error) {
	runs := []string{posted.Run.ID()}
	if posted.Parked == nil || posted.Parked.ParkedID == runs[0] {
		return runs, nil
	}
	waiting, err := b.waitingBehind(ctx, posted.Run)
	if err != nil {
		return nil, err
	}
	for _, p := range waiting {
		if p.Spec.RunID == posted.Parked.ParkedID {
			break
		}
		runs = append(runs, p.Spec.RunID)
	}
	return append(runs, posted.Parked.ParkedID), nil
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
