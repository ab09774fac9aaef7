package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/store/record"
)

// Limits of the history that a model is shown.
const (
	maxTurns = 50
	maxChars = 200_000
	maxAsked = 50 // pauses of a turn

	pausesAtOnce = 4 // that are read, as one may have 256 KiB
)

// history is the conversation before a run: the completed turns of its chat, oldest first. It follows the links from
// turn to turn, which are exact, while listings may lag. Turns of agents that the run's sender may not reach now are
// omitted.
func (w *Worker) history(ctx context.Context, run record.Run) ([]model.Message, error) {
	s, may := w.Store, w.MayReach(ctx, run.Organization, run.User, run.APIKey)
	var turns [][]model.Message
	chars, full := 0, false
	for id := run.Previous; id != "" && len(turns) < maxTurns && chars < maxChars && !full; {
		e, err := s.Link(ctx, id)
		if isGone(err) {
			break // removed by the retention period
		}
		if err != nil {
			return nil, err
		}
		r := e.Value
		id = r.Previous
		if r.Status != lifecycle.Completed || r.Removed || r.Epoch != run.Epoch {
			continue
		}
		reached, err := may(r.Agent)
		if err != nil {
			return nil, err
		}
		if !reached {
			continue
		}
		in, err := s.Input(ctx, r)
		if err != nil {
			return nil, err
		}
		answer, err := answerOf(ctx, s, r)
		if err != nil {
			return nil, err
		}
		var turn []model.Message
		if in.Context != nil { // the conversation that the client began it with
			turn = told(in.Context.Before, r.Turn)
		}
		if in.Message != "" || turn == nil {
			turn = append(turn, model.Message{Role: model.User, Text: in.Message})
		}
		answered := model.Message{Role: model.Assistant, Text: answer}
		chars += sizeOf(append(slices.Clip(turn), answered)...)
		asked, fit, err := w.asked(ctx, r, maxChars-chars)
		if err != nil {
			return nil, err
		}
		full = !fit
		chars += sizeOf(asked...)
		turn = append(append(turn, asked...), answered)
		turns = append(turns, turn)
	}
	slices.Reverse(turns)
	return append([]model.Message{}, slices.Concat(turns...)...), nil
}

// asked is what a run has asked its client for, functions and questions, with what the client said to it: the last of
// it, within left bytes of text. fit says whether these left room for all. The ids of its calls are ours: the turn and
// two numbers, so that each later run has the same. Only runs that have paused are read for it, their pauses alone: the
// steps have the agent's own calls, too, which are no part of the conversation.
func (w *Worker) asked(ctx context.Context, r record.Run, left int) (messages []model.Message, fit bool, err error) {
	var rounds [][]model.Message
	fit = true
	for last, first := r.Pause, max(r.Pause-maxAsked, 0); last > first && fit && left > 0; {
		after := max(last-pausesAtOnce, first)
		pauses, err := w.Store.PausesOf(ctx, r.ID(), after, last-after)
		if err != nil {
			return nil, false, err
		}
		for _, pause := range slices.Backward(pauses) {
			round := askedIn(pause, fmt.Sprintf("paused_%d_%d_", r.Turn, pause.Number))
			if left -= sizeOf(round...); left < 0 {
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

// askedIn is a pause as a model is shown it: calls, and their results. An approval is no part of it.
func askedIn(pause record.Pause, prefix string) []model.Message {
	calls, results := model.Message{Role: model.Assistant}, model.Message{Role: model.Tool}
	for _, i := range pause.Interrupts {
		d, found := decisionOf(pause, i.ID)
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
			model.Result{CallID: c.ID, Name: c.Name, Outcome: model.Answered, Text: d.Message})
	}
	if len(calls.Calls) == 0 {
		return nil
	}
	return []model.Message{calls, results}
}

func decisionOf(pause record.Pause, interrupt string) (record.Decision, bool) {
	if pause.Decided == nil {
		return record.Decision{}, false
	}
	n := slices.IndexFunc(pause.Decided.List, func(d record.Decision) bool { return d.InterruptID == interrupt })
	if n < 0 {
		return record.Decision{}, false
	}
	return pause.Decided.List[n], true
}

// sizeOf is how many bytes of text messages have.
func sizeOf(messages ...model.Message) (n int) {
	for _, m := range messages {
		n += len(m.Text)
		for _, c := range m.Calls {
			n += len(c.Arguments)
		}
		for _, r := range m.Results {
			n += len(r.Text)
		}
	}
	return n
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
