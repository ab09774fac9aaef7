package worker

import (
	"context"
	"encoding/json"
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
	var turns [][2]model.Message
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
		chars += len(in.Message) + len(answer)
		turns = append(turns,
			[2]model.Message{{Role: model.User, Text: in.Message}, {Role: model.Assistant, Text: answer}})
	}
	slices.Reverse(turns)
	messages := make([]model.Message, 0, 2*len(turns))
	for _, t := range turns {
		messages = append(messages, t[0], t[1])
	}
	return messages, nil
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
