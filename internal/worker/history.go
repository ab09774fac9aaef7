package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"agentplatform/internal/lifecycle"
	"agentplatform/internal/model"
	"agentplatform/internal/record"
)

// Limits of the history that a model is shown.
const (
	maxTurns = 50
	maxChars = 200_000
)

// history is the conversation before a run: the completed turns of its chat, oldest first. It follows the links from
// turn to turn, which are exact, while listings may lag. Turns of agents that the run's sender may not reach now are
// omitted.
func (a *attempt) history(ctx context.Context, run record.Run) ([]model.Message, error) {
	s, may := a.Store, a.MayReach(ctx, run.Organization, run.User, run.APIKey)
	var turns [][]model.Message
	chars := 0
	for id := run.Previous; id != "" && len(turns) < maxTurns && chars < maxChars; {
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
			turn = told(in.Context.Before, fmt.Sprintf("before_%d_", len(turns)+1))
		}
		if in.Message != "" || turn == nil {
			turn = append(turn, model.Message{Role: model.User, Text: in.Message})
		}
		turn = append(turn, model.Message{Role: model.Assistant, Text: answer})
		for _, m := range turn {
			chars += sizeOf(m)
		}
		turns = append(turns, turn)
	}
	slices.Reverse(turns)
	return append([]model.Message{}, slices.Concat(turns...)...), nil
}

// sizeOf is how many bytes of text a message has.
func sizeOf(m model.Message) int {
	n := len(m.Text)
	for _, c := range m.Calls {
		n += len(c.Arguments)
	}
	for _, r := range m.Results {
		n += len(r.Text)
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
