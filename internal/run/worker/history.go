package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/store/record"
)

// Limits of the history for a model.
const (
	maxTurns      = 50 // with an answer
	maxFailed     = 10 // without an answer: they do not displace the others
	maxChars      = 200_000
	maxUnanswered = maxChars / 2 // characters of turns without an answer: they do not displace the others
	maxLinks      = 4 * maxTurns // runs that are read, also of turns that are left out
	maxPauses     = 50           // pauses of a turn

	pausesAtOnce = 4 // that are read together, as one may have 256 KiB
)

// earlier is a turn as messages for a model.
type earlier struct {
	messages []model.Message
	answered bool
}

// history returns the conversation before a run: the turns of its chat that have ended, oldest first. unanswered has
// the indexes of the messages of turns without an answer. It follows the exact links from turn to turn, because
// listings may lag. It omits turns of agents that the run's sender may not access now.
func (w *Worker) history(ctx context.Context, run record.Run) (all []model.Message, unanswered []int, err error) {
	may := w.CanAccess(ctx, run.Organization, run.User, run.APIKey)
	owner, err := w.ownerOf(ctx, run) // of the whole chat
	if err != nil {
		return nil, nil, err
	}
	var turns []earlier
	id, left, words, answered, failed, fit := run.Previous, maxChars, maxUnanswered, 0, 0, true
	for links := 0; id != "" && links < maxLinks && answered < maxTurns && left > 0 && fit; links++ {
		e, err := w.Store.Link(ctx, id)
		if isGone(err) {
			break // removed by the retention period
		}
		if err != nil {
			return nil, nil, err
		}
		r := e.Value
		id = r.Previous
		if !r.Status.Terminal() || r.Removed || r.Epoch != run.Epoch {
			continue
		}
		if r.Status != lifecycle.Completed && failed == maxFailed {
			continue
		}
		reached, err := may(lifecycle.Whose{Agent: r.Agent, Owner: owner})
		if err != nil {
			return nil, nil, err
		}
		if !reached {
			continue
		}
		room := left
		if r.Status != lifecycle.Completed {
			room = min(left, words)
		}
		var one earlier
		if one, fit, err = w.turn(ctx, r, room); err != nil {
			return nil, nil, err
		}
		size := model.Size(one.messages...)
		if left -= size; one.answered {
			answered++
		} else {
			failed++
			words -= size
		}
		turns = append(turns, one)
	}
	all = []model.Message{}
	for _, one := range slices.Backward(turns) {
		for _, m := range one.messages {
			if !one.answered {
				unanswered = append(unanswered, len(all))
			}
			all = append(all, m)
		}
	}
	return all, unanswered, nil
}

// ownerOf returns the user who owns the chat of a run. Runs of earlier versions have it only in their chat.
func (w *Worker) ownerOf(ctx context.Context, run record.Run) (string, error) {
	if owner := run.Owner(); owner != "" {
		return owner, nil
	}
	chat, _, err := w.Store.ChatOf(ctx, run.RunSpec)
	if chat.Value.Epoch != run.Epoch {
		return "", err // another chat has the id by now
	}
	return chat.Value.User, err
}

// turn converts an earlier run to messages for a model: the user's message, the run's questions, and the answer or a
// line about the end. room is the number of bytes left for it. If a turn without an answer has more, parts are left
// out. fit reports whether all questions of a turn with an answer had room. If not, the history ends with this turn.
func (w *Worker) turn(ctx context.Context, r record.Run, room int) (one earlier, fit bool, err error) {
	one.answered = r.Status == lifecycle.Completed
	in, err := w.Store.Input(ctx, r)
	if err != nil {
		return one, false, err
	}
	ends := model.Message{Role: model.Assistant, Text: endOf(r)}
	if one.answered {
		answer, err := answerOf(ctx, w.Store, r)
		if err != nil {
			return one, false, err
		}
		if !model.Blank(answer) {
			ends.Text = answer
		}
	}
	if in.Context != nil { // the conversation that the client sent with the message
		one.messages = modelMessages(in.Context.Before, r.Turn)
	}
	if text := withNames(in.Message, in.Files); text != "" || one.messages == nil {
		one.messages = append(one.messages, model.Message{Role: model.User, Text: text})
	}
	withheld := ""
	switch {
	case one.answered:
	case r.Refused:
		withheld = "[This message is left out: the model's provider refused it.]"
	case model.Size(one.messages...) > room:
		withheld = "[This message is left out: it is too long.]"
	}
	if withheld != "" {
		one.messages = []model.Message{{Role: model.User, Text: withheld}, ends}
		return one, true, nil
	}
	questions, fit, err := w.questions(ctx, r, room-model.Size(append(slices.Clip(one.messages), ends)...))
	one.messages = append(append(one.messages, questions...), ends)
	return one, fit || !one.answered, err
}

// withNames returns a message of an earlier turn with the names of its files.
func withNames(text string, files []record.FileRef) string {
	if len(files) == 0 {
		return text
	}
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = f.Name
	}
	return strings.TrimSpace(text + "\n\n[Attached, and not shown again: " + strings.Join(names, ", ") + "]")
}

// endOf is the line about the end of a turn without a text. It has no reason: that is for readers of the run. A run
// with steps besides those of the model has started or answered calls.
func endOf(r record.Run) string {
	line := map[lifecycle.Status]string{
		lifecycle.Completed: "This turn ended",
		lifecycle.Failed:    "This turn failed",
		lifecycle.TimedOut:  "This turn ran out of time",
		lifecycle.Cancelled: "This turn was cancelled",
	}[r.Status] + " and has no answer."
	if r.Steps > int(r.Usage.ModelCalls) {
		line += " Earlier effects of tools were not undone."
	}
	return "[" + line + "]"
}

// questions converts the questions of a run to its client, and its calls of the client's functions, to messages, with
// the client's answers. It returns the last of them, within left bytes of text. fit reports whether all had room. The
// ids of its calls are ours: the turn and two numbers, so that each later run has the same. It reads only the pauses of
// runs that have paused. The steps also have the agent's own calls, which are not a part of the conversation.
func (w *Worker) questions(
	ctx context.Context, r record.Run, left int,
) (messages []model.Message, fit bool, err error) {
	var rounds [][]model.Message
	fit = true
	for last, first := r.Pause, max(r.Pause-maxPauses, 0); last > first && fit && left > 0; {
		after := max(last-pausesAtOnce, first)
		pauses, err := w.Store.PausesOf(ctx, r.ID(), after, last-after)
		if err != nil {
			return nil, false, err
		}
		for _, pause := range slices.Backward(pauses) {
			round := questionsIn(pause, fmt.Sprintf("paused_%d_%d_", r.Turn, pause.Number))
			if left -= model.Size(round...); left < 0 {
				fit = false
				break
			}
			rounds = append(rounds, round)
		}
		last = after
	}
	slices.Reverse(rounds)
	return slices.Concat(rounds...), fit, nil
}

// questionsIn converts a pause to messages for a model: calls, and their results. It leaves out approvals.
func questionsIn(pause record.Pause, prefix string) []model.Message {
	calls, results := model.Message{Role: model.Assistant}, model.Message{Role: model.Tool}
	_, decided := record.Decided([]record.Pause{pause})
	for _, i := range pause.Interrupts {
		d, found := decided[i.ID]
		if !found || i.Kind != string(lifecycle.Clarification) {
			continue
		}
		c := model.Call{ID: prefix + strconv.Itoa(len(calls.Calls)), Name: model.AskUser}
		if i.Tool != nil {
			c.Name, c.Arguments = i.Tool.Name, i.Tool.Arguments
		} else {
			c.Arguments = model.Question(i.Prompt, i.Options)
		}
		calls.Calls = append(calls.Calls, c)
		results.Results = append(results.Results,
			model.Result{CallID: c.ID, Name: c.Name, Outcome: model.Answered, Text: withNames(d.Message, d.Files)})
	}
	if len(calls.Calls) == 0 {
		return nil
	}
	return []model.Message{calls, results}
}

func answerOf(ctx context.Context, s *record.Store, r record.Run) (string, error) {
	out, err := s.Output(ctx, r)
	if err != nil || out == nil {
		return "", err
	}
	var result struct {
		Answer string `json:"answer"`
	}
	err = json.Unmarshal(out, &result)
	return result.Answer, err
}
