package agent

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/tool"
	"agentplatform/internal/platform/trace"
	"agentplatform/internal/store/citation"
	"agentplatform/internal/store/record"
)

// searchOffer is the search tool for one call. The step of the call gets the results.
func (s *session) searchOffer(j *job) tool.Offer {
	o := tool.Offer{
		Spec: tool.Spec{Name: model.SearchTool.Name, Parameters: model.SearchTool.Parameters, RetrySafe: true},
	}
	o.Call = func(ctx context.Context, i tool.Invocation) (tool.Result, error) {
		var arguments struct {
			Query string `json:"query"`
		}
		if err := json.Unmarshal(i.Arguments, &arguments); err != nil {
			return tool.Result{}, tool.Fail("%s%s", unfit, err)
		}
		found, used, err := s.Search(ctx, arguments.Query)
		j.step.InputTokens, j.step.Embedded = used.Tokens(), used
		if err != nil || len(found) > 0 {
			j.step.Found = found
			return tool.Result{}, err
		}
		return tool.TextResult(citation.Passages(nil, nil)), nil
	}
	return o
}

// number numbers the passages of a search. Steps get their numbers one after the other.
func (s *session) number(step *record.Step) {
	if step.Outcome != string(model.Succeeded) { // the search ended too late
		step.Found = nil
	}
	if step.Found != nil {
		step.Found = citation.Numbered(s.steps, step.Found)
	}
}

// outputOf is the result of a call for the model.
func (s *session) outputOf(step record.Step) string {
	if step.Found == nil {
		return step.Output
	}
	return citation.Passages(step.Found, s.hidden)
}

// hide determines which documents that the run has found its sender may not read now. The error is that of
// CitationFilter.
func (s *session) hide(ctx context.Context) error {
	if len(s.found) == 0 {
		return nil
	}
	hidden, err := s.CitationFilter(ctx, slices.Clone(s.found))
	if err != nil {
		return err
	}
	if !maps.Equal(hidden, s.hidden) {
		s.forgetTalk() // it has passages that are hidden now, or lacks some that are not
	}
	s.hidden = hidden
	return nil
}

// firstSearch is the key of the search before the first model call. No call of a model has this key.
const firstSearch = "first"

// first returns the first n characters of a text.
func first(text string, n int) string {
	characters := []rune(text)
	return string(characters[:min(n, len(characters))])
}

// firstQuery is the user's message, after the one before it: "And in Lisbon?" finds nothing alone. It is empty if the
// message has no text.
func (s *session) firstQuery() string {
	query := first(strings.TrimSpace(s.Message.Text), maxQuery)
	room := min(maxQuery-utf8.RuneCountInString(query)-1, maxEarlier)
	if query == "" || room <= 0 {
		return query
	}
	for _, m := range slices.Backward(slices.Concat(s.History, s.Before)) {
		if text := strings.TrimSpace(m.Text); m.Role == model.User && text != "" {
			return first(text, room) + "\n" + query
		}
	}
	return query
}

// searchFirst searches for [session.firstQuery] as the run's first step, if the agent requires that and no search needs
// an approval. The error is that of ctx, Journal or Search. After an error, another attempt searches again: a model
// without the passages would answer without them.
func (s *session) searchFirst(ctx context.Context) error {
	if s.Search == nil || !s.Agent.Spec.Knowledge.Always || s.searchNeedsApproval() || len(s.steps) > 0 {
		return nil
	}
	query := s.firstQuery()
	arguments, err := json.Marshal(map[string]string{"query": query})
	if err != nil || query == "" {
		return err
	}
	j := &job{key: firstSearch, run: true, repeat: true, Call: record.Call{Name: model.Search}}
	j.offer = s.searchOffer(j)
	j.step = s.stepOf(record.ToolStep, j, arguments)
	s.showStart(ctx, j.step)
	call, cancel := s.Host.WithTimeout(ctx, callTime)
	defer cancel()
	call, span := s.spanOfTool(call, j)
	result, err := j.offer.Call(call, tool.Invocation{Name: model.Search, Arguments: arguments})
	if err != nil {
		trace.Fail(span, "tool_failed")
	}
	span.End()
	var toolErr *tool.Error
	switch {
	case err == nil:
		j.end(s, model.Succeeded, result.Text)
	case errors.As(err, &toolErr):
		j.end(s, model.Failed, toolErr.Message)
	default:
		return err
	}
	return s.journalResults(ctx, []record.Step{j.step})
}

// Maximum numbers of characters in a query: of both messages together, and of the earlier one.
const (
	maxQuery   = 4000
	maxEarlier = 500
)

// withPassages is the user's message with the passages that were found before the first model call.
func (s *session) withPassages(m model.Message) model.Message {
	if first := s.done(firstSearch); first != nil {
		m.Passages = s.outputOf(*first)
	}
	return m
}
