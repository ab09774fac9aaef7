package aguiserver

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"agentplatform/internal/api/bridge"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/platform/strictjson"
	"agentplatform/internal/run/intake"
	"agentplatform/internal/store/record"
)

// correlate refuses answers to questions that no run of the agent has asked in the thread. Answers to another run than
// the last, or to a pause before the last, are history.
func (b *beginning) correlate(ctx context.Context, last *record.Pause) error {
	var runs []string
	for _, e := range b.turn.Resume {
		if run, is := runOf("int_", e.InterruptID); is {
			runs = append(runs, run)
		}
	}
	found, err := b.Store.Runs(ctx, b.who.Scope(), distinct(runs)...)
	if err == nil {
		found, err = b.Intake.RunsFor(ctx, b.who, found)
	}
	if err != nil {
		return err
	}
	for n, e := range b.turn.Resume {
		if !slices.ContainsFunc(found, func(r record.RunEntity) bool { return b.mayHaveInterrupt(r.Value, last, e) }) {
			return problem.InvalidField(fmt.Sprintf("body.resume[%d].interruptId", n),
				"must be the id of an interrupt in this thread")
		}
	}
	return nil
}

// mayHaveInterrupt reports whether a run may have asked the question that an entry answers. Of its pauses, it reads
// only the thread's last.
func (b *beginning) mayHaveInterrupt(run record.Run, last *record.Pause, e AGUIResume) bool {
	of, _ := runOf("int_", e.InterruptID)
	if of != run.ID() || run.Agent != b.agent || run.Chat != b.turn.ThreadID {
		return false
	}
	if b.last == nil || of != b.last.ID() {
		return true
	}
	if last == nil {
		return false
	}
	for _, i := range last.Interrupts {
		if e.InterruptID == nameOf("int_", of, i.ID) {
			return !isCall(i)
		}
	}
	return last.Number > 1
}

// lastPause reads the last pause of the thread's last run; nil: there was none.
func (b *beginning) lastPause(ctx context.Context) (*record.Pause, error) {
	if b.last == nil || b.last.Pause == 0 {
		return nil, nil
	}
	return b.Store.PauseOf(ctx, b.last.ID(), b.last.Pause)
}

// mayAnswer refuses a message to a thread that waits for anything except one question: a message answers nothing else.
func (b *beginning) mayAnswer() error {
	if b.last == nil || len(b.last.Interrupts) == 0 || b.last.Answerable() {
		return nil
	}
	return b.unanswered(b.last.Interrupts[0])
}

// unanswered is the refusal of a request without the output or the entry that the thread waits for.
func (b *beginning) unanswered(i lifecycle.Pending) error {
	if i.Call {
		return problem.InvalidField("body.messages", "must have the output of the call %s, which the thread waits for",
			nameOf("call_", b.last.ID(), i.ID))
	}
	return problem.InvalidField("body.resume", "must have an entry for %s, which the thread waits for",
		nameOf("int_", b.last.ID(), i.ID))
}

// isCall reports whether an interrupt is a call of a function of the client.
func isCall(i record.Interrupt) bool {
	return i.Tool != nil && i.Kind == string(lifecycle.Clarification)
}

// resume decides the last pause of the thread's last run, where the request answers it. It reports whether the run goes
// on after these answers. That is also true of a run that has gone on after the same answers, if the front end has
// nothing of that part yet.
func (b *beginning) resume(ctx context.Context, last *record.Pause) (bool, error) {
	if last == nil {
		return false, nil
	}
	decisions, err := b.decisions(last.Interrupts)
	if err != nil || len(decisions) == 0 {
		return false, err
	}
	if d := last.Decided; d != nil {
		return b.decided(*d, decisions)
	}
	if b.last.Status != lifecycle.AwaitingInput { // nobody has decided, and the run waits no more
		return false, nil
	}
	if len(decisions) < len(last.Interrupts) {
		i := slices.IndexFunc(b.last.Interrupts, func(i lifecycle.Pending) bool { return !about(decisions, i.ID) })
		return false, b.unanswered(b.last.Interrupts[i])
	}
	_, err = b.Resume(ctx, b.who, b.last.ID(), b.last.Pause, decisions, nil, nil)
	return err == nil, bridge.Named(err, func(field string) string { return b.edited(field, decisions) })
}

// edited is the name that the request has for edited arguments; another field keeps its own.
func (b *beginning) edited(field string, decisions []record.Decision) string {
	for i, d := range decisions {
		at := slices.IndexFunc(b.turn.Resume, func(e AGUIResume) bool {
			return e.InterruptID == nameOf("int_", b.last.ID(), d.InterruptID)
		})
		if at >= 0 && field == fmt.Sprintf("body.decisions[%d].arguments", i) {
			return fmt.Sprintf("body.resume[%d].payload.editedArgs", at)
		}
	}
	return field
}

func about(list []record.Decision, interrupt string) bool {
	return slices.ContainsFunc(list, func(d record.Decision) bool { return d.InterruptID == interrupt })
}

// decided compares answers with how a pause was decided before. Answers in a thread that has gone on since are its
// history.
func (b *beginning) decided(d record.Decisions, decisions []record.Decision) (bool, error) {
	switch {
	case b.hasMessageOf(b.last.Pause):
		return false, nil
	case b.fresh.asks() && b.last.Status.Terminal(): // it ended without a word, and the user goes on
		return false, nil
	case record.SameDecisions(d.List, decisions):
		return true, nil
	case b.fresh.asks() || len(b.turn.Resume) == 0:
		return false, nil
	}
	return false, problem.New(problem.Conflict, "not_awaiting_input",
		"the interrupt already has another answer: send a user message, or leave resume out")
}

// decisions are the answers of the request to a pause. The list may be incomplete.
func (b *beginning) decisions(list []record.Interrupt) (decisions []record.Decision, err error) {
	for _, i := range list {
		decide := b.entryOf
		if isCall(i) {
			decide = b.outputOf
		}
		d, err := decide(i)
		if err != nil {
			return nil, err
		}
		if d.InterruptID = i.ID; d.Decision != "" {
			decisions = append(decisions, d)
		}
	}
	return decisions, nil
}

// wentOn is the output of a call that the front end has left without one when the user says something else.
const wentOn = "(no output: the user continued without it)"

// outputOf is the decision of a call by its output; an empty one: the request has none.
func (b *beginning) outputOf(i record.Interrupt) (d record.Decision, err error) {
	call := nameOf("call_", b.last.ID(), i.ID)
	n := slices.IndexFunc(b.turn.list, func(m message) bool { return m.Role == "tool" && m.ToolCallID == call })
	if n < 0 && b.fresh.asks() { // the exchange that ended with the call was complete: the application may leave it
		return decision(lifecycle.Answer, wentOn), nil
	}
	if n < 0 {
		return d, nil
	}
	text, err := b.turn.list[n].output("body.messages[" + strconv.Itoa(n) + "]")
	return decision(lifecycle.Answer, cmp.Or(text, "(no output)")), err
}

// entryOf is the decision of an interrupt by its entry in resume; an empty one: the request has none.
func (b *beginning) entryOf(i record.Interrupt) (d record.Decision, err error) {
	name := nameOf("int_", b.last.ID(), i.ID)
	n := slices.IndexFunc(b.turn.Resume, func(e AGUIResume) bool { return e.InterruptID == name })
	if n < 0 {
		return d, nil
	}
	return b.turn.Resume[n].decision("body.resume["+strconv.Itoa(n)+"]", i.Kind == string(lifecycle.Approval))
}

func decision(verb lifecycle.Verb, message string) record.Decision {
	return record.Decision{Decision: string(verb), Message: message}
}

func (e AGUIResume) decision(at string, approval bool) (d record.Decision, err error) {
	switch {
	case e.Status == "cancelled" && approval:
		return decision(lifecycle.Reject, "it was dismissed"), nil
	case e.Status == "cancelled":
		return decision(lifecycle.Answer, "(no answer: the question was dismissed)"), nil
	case e.Status != "resolved":
		return d, problem.InvalidField(at+".status", "must be resolved or cancelled")
	case bridge.IsNull(e.Payload):
		return d, problem.InvalidField(at+".payload", "is required")
	case approval:
		return approvalOf(at+".payload", e.Payload)
	}
	answer := answerOf(e.Payload)
	return decision(lifecycle.Answer, answer), problem.InvalidIf(answer == "", at+".payload", "must not be empty")
}

// answerOf is an answer to a question: a text, a text in an object's member answer, or the payload as JSON.
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
		return decision(lifecycle.Reject, of.Reason), nil
	case !bridge.IsNull(of.Edited):
		if of.Edited, err = strictjson.Object(of.Edited, intake.EditLimits); err != nil {
			return d, problem.InvalidField(at+".editedArgs", "must be an object: %s", err)
		}
		d = decision(lifecycle.Edit, of.Reason)
		d.Arguments = of.Edited
		return d, nil
	}
	return decision(lifecycle.Approve, of.Reason), nil
}
