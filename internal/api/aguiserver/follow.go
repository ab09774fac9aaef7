package aguiserver

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentplatform/events"
	"agentplatform/internal/api/bridge"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/run/stream"
	"agentplatform/internal/run/view"
	"agentplatform/internal/store/citation"
	"agentplatform/internal/store/record"
)

// maxOutput is how many bytes of a call's output are sent: a front end sends them back each time.
const maxOutput = 16 << 10

// Codes of RUN_ERROR that are not the status of a run.
const (
	cutCode     = "stream_ended"
	deletedCode = "deleted"
)

// Follow sends the events of an exchange to emit, until the exchange ends. It calls beat after idle without an event.
// It calls begun when the first events were sent; from then on it keeps little of the request. It returns nil after the
// last event, or the error of the store, of ctx, of emit or of beat. After an error the caller should send [Cut].
func (s *Server) Follow(
	ctx context.Context, p tenant.Principal, x *Exchange, idle time.Duration, emit func(AGUIEvent) error,
	beat func() error, begun func(),
) error {
	if err := emit(AGUIEvent{
		Type: "RUN_STARTED", ThreadID: x.thread, RunID: x.id, ProtocolVersion: version,
		Metadata: &AGUIMetadata{Run: AGUIRun{RunID: x.Run()}},
	}); err != nil {
		return err
	}
	end, err := s.followAll(ctx, p, x, idle, emit, beat, begun)
	if problem.Is(err, "not_found") {
		end, err = AGUIEvent{Type: "RUN_ERROR", Message: "the run was deleted", Code: deletedCode}, nil
	}
	if err != nil {
		return err
	}
	if x.old {
		end = end.old()
	}
	return emit(end)
}

// followAll sends the events of one run after the other, and returns the last event.
func (s *Server) followAll(
	ctx context.Context, p tenant.Principal, x *Exchange, idle time.Duration, emit func(AGUIEvent) error,
	beat func() error, begun func(),
) (end AGUIEvent, err error) {
	for i, run := range x.runs {
		f, err := s.follower(ctx, p, x, run, emit)
		if i > 0 && problem.Is(err, "not_found") {
			return s.notBegun(ctx, run, end)
		}
		if err != nil {
			return end, err
		}
		f.onBegun = begun
		if err := f.follow(ctx, idle, beat); err != nil {
			return end, err
		}
		f.end.Usage = append(end.Usage, f.end.Usage...)
		if end = f.end; !end.goesOn() {
			break
		}
		if err := f.keep(); err != nil {
			return end, err
		}
	}
	return end, nil
}

// notBegun is the last event of an exchange whose next message has no run. The message was withdrawn, or waits behind
// runs that the exchange does not follow.
func (s *Server) notBegun(ctx context.Context, run string, end AGUIEvent) (AGUIEvent, error) {
	switch _, err := s.Store.Parked(ctx, run); {
	case problem.Is(err, "not_found"):
		return end, nil
	case err != nil:
		return end, err
	}
	return Cut(), nil
}

// Cut is the last event of a stream that ends before its exchange does. Without it, clients take the end of a stream
// for a success. It has no data of the run: its reader may have lost the right to the run.
func Cut() AGUIEvent {
	return AGUIEvent{
		Type: "RUN_ERROR", Code: cutCode,
		Message: "the stream ended before the run; send the request again with the same runId",
	}
}

// old is the last event for clients from before version 1.0. These throw on an outcome that has more than its type, or
// another type than success and interrupt. They find pending calls by the events of these calls.
func (e AGUIEvent) old() AGUIEvent {
	switch {
	case e.Outcome == nil:
	case e.Outcome.Type == "success":
		e.Outcome = &AGUIOutcome{Type: "success"}
	case e.Outcome.Type == "cancelled":
		e = AGUIEvent{Type: "RUN_ERROR", Message: "the run was cancelled", Code: string(lifecycle.Cancelled)}
	}
	return e
}

// keep stores the part's messages as messages that the front end has, for snapshots of the next run of the exchange.
func (f *follower) keep() error {
	list, at := f.others()
	size := 0
	for i, m := range f.items {
		raw, err := json.Marshal(m)
		if err != nil {
			return err
		}
		list = slices.Insert(list, at+i, clientMessage{m.ID, raw})
		size += len(raw)
	}
	f.x.list = list
	f.x.heavy = f.x.heavy || size > light
	return nil
}

// others are the front end's messages that are not of the part, and the index of the part among them.
func (f *follower) others() (list []clientMessage, at int) {
	at = slices.IndexFunc(f.x.list, f.isPart)
	list = slices.DeleteFunc(slices.Clone(f.x.list), f.isPart)
	if at < 0 {
		at = len(list)
	}
	return list, at
}

// goesOn reports whether the message behind a run begins with this event: the run waits for nothing, and has not
// failed.
func (e AGUIEvent) goesOn() bool {
	return e.Type == "RUN_FINISHED" && e.Outcome.Type != "interrupt" && len(e.Outcome.Pending) == 0
}

// follower translates the stream of a run, from its last pause on.
type follower struct {
	*Server
	encoder

	who     tenant.Principal
	right   *tenant.Right // to the run's agent, which may be another than the exchange's
	x       *Exchange
	run     string
	begun   bool
	onBegun func()          // called when it has begun
	again   bool            // the front end has a part of it already
	prefix  int             // bytes of text before the part
	reply   int             // the step of the calls of the pause before; -1: there was none
	used    lifecycle.Usage // before the part
	decided []decidedCall   // the calls of that pause
	calls   map[int]string  // ids of calls that were sent, by step
	ended   map[int]bool    // steps whose results were sent
	journal []record.Step
	end     AGUIEvent
}

// decidedCall is a call that a pause was about.
type decidedCall struct {
	key       string // as the journal names it
	approval  bool
	id        string
	name      string
	arguments json.RawMessage // as they were decided
	sent      bool
}

func (s *Server) follower(
	ctx context.Context, p tenant.Principal, x *Exchange, run string, emit func(AGUIEvent) error,
) (*follower, error) {
	e, err := s.Intake.Run(ctx, p, run)
	if err != nil {
		return nil, err
	}
	n := e.Value.Passed()
	f := &follower{
		Server: s, who: p, x: x, run: run, onBegun: func() {}, reply: -1,
		calls: map[int]string{}, ended: map[int]bool{},
		encoder: encoder{emit: emit, messagePrefix: ofPart("msg_", run, n), resultPrefix: ofPart("res_", run, n)},
	}
	f.right = s.Intake.Tenants.RightTo(&f.who, e.Value.Whose())
	f.again = slices.ContainsFunc(x.list, f.isPart)
	if n == 0 {
		return f, nil
	}
	pause, err := s.Store.PauseOf(ctx, run, n)
	if err != nil || pause == nil {
		return f, err
	}
	f.before(*pause)
	if err := f.read(ctx, 0); err != nil {
		return nil, err
	}
	first := f.journal[:bridge.Until(f.journal, f.reply)]
	text, _ := view.Progress(first, lifecycle.Running)
	f.prefix, f.used = len(text), bridge.Used(first)
	return f, nil
}

// isPart reports whether a message is one of the part's.
func (f *follower) isPart(m clientMessage) bool {
	return strings.HasPrefix(m.id, f.messagePrefix) || strings.HasPrefix(m.id, f.resultPrefix)
}

// before notes the calls of the pause before the part.
func (f *follower) before(p record.Pause) {
	f.reply = record.ReplyOf(p.Interrupts)
	for _, i := range p.Interrupts {
		c := decidedCall{
			key: i.Call, id: nameOf("call_", f.run, i.ID), approval: i.Kind == string(lifecycle.Approval),
		}
		if i.Tool != nil {
			c.name, c.arguments = i.Tool.Name, i.Tool.Arguments
		}
		if p.Decided != nil {
			for _, d := range p.Decided.List {
				if d.InterruptID == i.ID && d.Decision == string(lifecycle.Edit) {
					c.arguments = d.Arguments
				}
			}
		}
		f.decided = append(f.decided, c)
	}
}

// read reads the journal from a step on, as the reader may see it.
func (f *follower) read(ctx context.Context, from int) error {
	steps, err := f.Store.JournalFrom(ctx, f.run, from)
	if err == nil {
		steps, err = citation.Shown(ctx, steps, f.Intake.Tenants.CitationFilter(f.who))
	}
	if err != nil {
		return err
	}
	known := slices.IndexFunc(f.journal, func(s record.Step) bool { return s.Index >= from })
	if known < 0 {
		known = len(f.journal)
	}
	f.journal = append(f.journal[:known], steps...)
	return nil
}

// earlier reports whether a step of the journal was sent before the pause.
func (f *follower) earlier(step record.Step) bool {
	reply, _, _ := strings.Cut(step.CallID, "-")
	return step.Index <= f.reply || reply == strconv.Itoa(f.reply) &&
		!slices.ContainsFunc(f.decided, func(c decidedCall) bool { return c.key == step.CallID })
}

// step finds a step of the journal that is a call.
func (f *follower) step(index int) (record.Step, bool) {
	n := slices.IndexFunc(f.journal, func(s record.Step) bool { return s.Kind == record.ToolStep && s.Index == index })
	if n < 0 {
		return record.Step{}, false
	}
	return f.journal[n], true
}

func (f *follower) follow(ctx context.Context, idle time.Duration, beat func() error) error {
	return f.Hub.Follow(ctx, f.Store, f.who.Scope(), f.run, idle, func(e stream.Event) error {
		if !f.right.Lasts(ctx) {
			f.end = Cut()
			return stream.ErrStop
		}
		if e.Event == stream.Heartbeat {
			return beat()
		}
		return f.take(ctx, e)
	})
}

func (f *follower) take(ctx context.Context, e stream.Event) error {
	switch e.Event {
	case stream.Init:
		if err := f.start(ctx, *e.Text, *e.Steps); err != nil {
			return err
		}
		f.x.begun()
		f.onBegun()
		if e.Run.Status == string(lifecycle.AwaitingInput) {
			return f.pause(ctx)
		}
	case stream.Delta:
		return f.text(*e.Text)
	case stream.StepEvent:
		return f.takeStep(ctx, *e.Step)
	case stream.Status:
		if e.Status == string(lifecycle.AwaitingInput) {
			return f.pause(ctx)
		}
	case stream.Done:
		return f.finish(ctx)
	}
	return nil
}

// start sends the text and the calls so far: as events, or as a snapshot where the front end has some of it.
func (f *follower) start(ctx context.Context, text string, steps []events.StepEvent) error {
	if len(steps) > 0 {
		if err := f.read(ctx, 0); err != nil {
			return err
		}
	}
	replaces := f.again && !f.begun || f.begun && len(f.items) > 0
	if replaces && f.begun && f.x.heavy { // the snapshot's messages were not kept: the front end sends them again
		f.end = Cut()
		return stream.ErrStop
	}
	f.begun = true
	clear(f.calls)
	clear(f.ended)
	for i := range f.decided {
		f.decided[i].sent = false
	}
	replay := func() error { return f.replay(ctx, text, steps) }
	if !replaces {
		return replay()
	}
	list, at := f.others()
	var others []json.RawMessage
	for _, m := range list {
		others = append(others, m.raw)
	}
	return f.replace(others[:at], others[at:], replay)
}

// replay sends the text and the calls so far in the order of the journal. Text and calls that are not in the journal
// come last.
func (f *follower) replay(ctx context.Context, text string, steps []events.StepEvent) error {
	at := min(f.prefix, len(text))
	var answer record.Answer
	for _, step := range f.journal {
		answer.Add(step)
		if end := len(answer.Kept()); at < end && strings.HasPrefix(text, answer.Kept()) {
			if err := f.text(text[at:end]); err != nil {
				return err
			}
			at = end
		}
		n := slices.IndexFunc(steps, func(e events.StepEvent) bool { return e.Index == step.Index })
		if step.Kind != record.ToolStep || n < 0 {
			continue
		}
		if err := f.takeStep(ctx, steps[n]); err != nil {
			return err
		}
	}
	if err := f.text(text[at:]); err != nil {
		return err
	}
	for _, e := range steps {
		if err := f.takeStep(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// takeStep sends the events of one of the agent's own calls.
func (f *follower) takeStep(ctx context.Context, e events.StepEvent) error {
	over := e.State != "started"
	if f.ended[e.Index] {
		return nil
	}
	step, there := f.step(e.Index)
	if over && !there { // it was journalled before it was sent
		if err := f.read(ctx, e.Index); err != nil {
			return err
		}
		step, there = f.step(e.Index)
	}
	if there && f.earlier(step) {
		f.ended[e.Index] = true
		return nil
	}
	if err := f.begin(e); err != nil || !over {
		return err
	}
	f.ended[e.Index] = true
	output := step.Output
	if !there {
		output = e.Outcome
	}
	return f.result(e.Index, f.calls[e.Index], short(output))
}

// begin sends the beginning of a call. An approved call has its id from the approval, and was sent with the approval.
func (f *follower) begin(e events.StepEvent) error {
	if f.calls[e.Index] != "" {
		return nil
	}
	for i, c := range f.decided {
		if c.approval && !c.sent && c.name == e.Name && bytes.Equal(c.arguments, e.Arguments) {
			f.decided[i].sent, f.calls[e.Index] = true, c.id
			return nil
		}
	}
	f.calls[e.Index] = nameOf("tool_", f.run, strconv.Itoa(e.Index))
	return f.call(f.calls[e.Index], e.Name, e.Arguments)
}

func short(text string) string {
	if len(text) <= maxOutput {
		return text
	}
	return strings.ToValidUTF8(text[:maxOutput], "") + "…"
}

const (
	approvalSchema = `{"type":"object","properties":{"approved":{"type":"boolean"},"editedArgs":{"type":"object",` +
		`"description":"instead of the call's arguments"},"reason":{"type":"string"}},"required":["approved"]}`
	answerSchema = `{"type":"string","minLength":1}`
)

// pause ends the exchange with the calls and questions that the run waits for. The event may be of a pause that is
// over: then the exchange goes on.
func (f *follower) pause(ctx context.Context) error {
	e, err := f.Store.LiveRun(ctx, f.who.Scope(), f.run)
	if err != nil || e.Value.Status != lifecycle.AwaitingInput {
		return err
	}
	list, err := f.Store.Interrupts(ctx, f.run, e.Value.Pause)
	if err != nil {
		return err
	}
	outcome := AGUIOutcome{Type: "success"}
	for _, i := range list {
		one := AGUIInterrupt{
			ID: nameOf("int_", f.run, i.ID), Reason: "input_required", Message: i.Prompt,
			ResponseSchema: answerOneOf(i.Options),
		}
		if at := e.Value.ExpiresAt; !at.IsZero() {
			one.ExpiresAt = events.Time(at)
		}
		if i.Tool != nil {
			one.Reason, one.ToolCallID = "tool_call", nameOf("call_", f.run, i.ID)
			one.ResponseSchema = json.RawMessage(approvalSchema)
			if err := f.call(one.ToolCallID, i.Tool.Name, i.Tool.Arguments); err != nil {
				return err
			}
		}
		if isCall(i) {
			outcome.Pending = append(outcome.Pending, one.ToolCallID)
		} else {
			outcome.Interrupts = append(outcome.Interrupts, one)
		}
	}
	if len(outcome.Interrupts) > 0 {
		outcome.Type, outcome.Pending = "interrupt", nil // calls are found by their events then
	}
	return f.over(AGUIEvent{Type: "RUN_FINISHED", Outcome: &outcome, Usage: f.usage(e.Value)})
}

func answerOneOf(options []string) json.RawMessage {
	if len(options) == 0 {
		return json.RawMessage(answerSchema)
	}
	// texts alone: it cannot fail
	raw, _ := json.Marshal(map[string]any{"type": "string", "minLength": 1, "examples": options})
	return raw
}

// finish ends the exchange with the end of the run.
func (f *follower) finish(ctx context.Context) error {
	e, err := f.Store.LiveRun(ctx, f.who.Scope(), f.run)
	if err != nil {
		return err
	}
	end := AGUIEvent{Type: "RUN_FINISHED", Outcome: &AGUIOutcome{Type: "success"}, Usage: f.usage(e.Value)}
	switch e.Value.Status {
	case lifecycle.Completed:
		end.Result, err = f.resultOf(ctx, e.Value)
	case lifecycle.Cancelled:
		end.Outcome.Type = "cancelled"
	default:
		end.Type, end.Outcome, end.Code = "RUN_ERROR", nil, string(e.Value.Status)
		end.Message = cmp.Or(e.Value.Error, "the run has "+end.Code)
	}
	if err != nil {
		return err
	}
	return f.over(end)
}

// over stores the exchange's last event. It closes an open message before.
func (f *follower) over(end AGUIEvent) error {
	if err := f.close(); err != nil {
		return err
	}
	if end.Type == "RUN_FINISHED" {
		end.ThreadID, end.RunID = f.x.thread, f.x.id
	}
	f.end = end
	return stream.ErrStop
}

func (f *follower) usage(r record.Run) []AGUIUsage {
	u := AGUIUsage{
		InputTokens:  max(r.Usage.InputTokens-f.used.InputTokens, 0),
		OutputTokens: max(r.Usage.OutputTokens-f.used.OutputTokens, 0),
	}
	if u.TotalTokens = u.InputTokens + u.OutputTokens; u.TotalTokens == 0 {
		return nil
	}
	return []AGUIUsage{u}
}

func (f *follower) resultOf(ctx context.Context, r record.Run) (*AGUIResult, error) {
	raw, err := view.ResultOf(ctx, f.Store, r, f.Intake.Tenants.CitationFilter(f.who))
	if err != nil || raw == nil {
		return nil, err
	}
	var of AGUIResult
	if err := json.Unmarshal(raw, &of); err != nil {
		return nil, err
	}
	if string(of.Output) == "null" {
		of.Output = nil
	}
	return &of, nil
}
