package aguiserver

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"agentplatform/internal/api/bridge"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
)

func (b *beginning) find(ctx context.Context) error {
	from, err := b.behindKnown(ctx)
	if err == nil {
		b.fresh, err = b.turn.since(from)
	}
	return err
}

// behindKnown is the index after the last known message. It is 0 where there is no such thread, or where the thread's
// last run is gone: then nothing of the thread is known any more.
func (b *beginning) behindKnown(ctx context.Context) (int, error) {
	chat, err := b.Intake.Chat(ctx, b.who, b.turn.ThreadID)
	if problem.Is(err, "not_found") {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if chat.Value.LastRun != "" {
		e, err := b.Intake.Run(ctx, b.who, chat.Value.LastRun)
		if problem.Is(err, "not_found") {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		in, err := b.Store.Input(ctx, e.Value)
		if err == nil {
			err = b.note(in)
		}
		if err != nil {
			return 0, err
		}
		if e.Value.Agent == b.agent {
			b.last = &e.Value
			err = b.findParked(ctx)
		}
		if err != nil {
			return 0, err
		}
	}
	return b.behindAnswer(ctx, b.firstUnknown())
}

// findParked reads the messages behind the last run: the thread knows them, too.
func (b *beginning) findParked(ctx context.Context) error {
	waiting, err := b.waitingBehind(ctx, *b.last)
	if err != nil {
		return err
	}
	for _, p := range waiting {
		b.parked = append(b.parked, p.Spec.RunID)
		if err := b.note(p.Input); err != nil {
			return err
		}
	}
	return nil
}

// note adds the id of the last message of the request that began a run or a parked message. The id is empty if the
// request did not come through this server.
func (b *beginning) note(in record.Input) error {
	echoed, err := bridge.Echo[echo](in)
	b.known = append(b.known, echoed.Message)
	return err
}

// waitingBehind are the messages to the agent that wait behind a run, in their order.
func (b *beginning) waitingBehind(ctx context.Context, run record.Run) (list []record.Parked, err error) {
	for _, id := range run.Parked {
		p, err := b.Store.Parked(ctx, id)
		if problem.Is(err, "not_found") { // withdrawn since
			continue
		}
		if err != nil {
			return nil, err
		}
		if p.Spec.Agent == b.agent {
			list = append(list, p)
		}
	}
	return list, nil
}

// firstUnknown is the index after the last known message. Where none is known, only the user's last messages are new:
// the front end has lost the others, or has them from elsewhere.
func (b *beginning) firstUnknown() int {
	for i, m := range slices.Backward(b.turn.list) {
		answer := b.last != nil && m.Role == "tool" && strings.HasPrefix(m.ToolCallID, nameOf("call_", b.last.ID(), ""))
		if answer || isOurs(m.ID) || slices.Contains(b.known, m.ID) {
			return i + 1
		}
	}
	return b.turn.lastUsers()
}

// behindAnswer is the index after those of the user's messages, from one on, that were the answer to a question. The
// run that was answered does not have their ids. They are known by their text, as long as the front end has no message
// that came after the answer.
func (b *beginning) behindAnswer(ctx context.Context, from int) (int, error) {
	if b.last == nil || !b.last.Status.Active() || b.last.Passed() == 0 || b.hasMessageOf(b.last.Passed()) {
		return from, nil
	}
	pause, err := b.Store.PauseOf(ctx, b.last.ID(), b.last.Passed())
	if err != nil || pause == nil || !record.IsQuestion(pause.Interrupts) {
		return from, err
	}
	d := pause.Decided
	if d == nil || d.Idempotency == "" { // resume answered it without a message
		return from, nil
	}
	answer := d.List[0].Message
	for i := from; i < len(b.turn.list) && b.turn.list[i].Role == "user"; i++ {
		text, _, err := content(fmt.Sprintf("body.messages[%d].content", i), b.turn.list[i].Content)
		rest, is := strings.CutPrefix(answer, text)
		if err != nil || !is {
			return from, err
		}
		if rest == "" {
			return i + 1, nil
		}
		answer = strings.TrimPrefix(rest, "\n\n")
	}
	return from, nil
}

// hasMessageOf reports whether the front end has a message of a part of the last run.
func (b *beginning) hasMessageOf(part int) bool {
	messagePrefix, resultPrefix := ofPart("msg_", b.last.ID(), part), ofPart("res_", b.last.ID(), part)
	return slices.ContainsFunc(b.turn.list, func(m message) bool {
		return strings.HasPrefix(m.ID, messagePrefix) || strings.HasPrefix(m.ID, resultPrefix)
	})
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
