package view

import (
	"bytes"
	"context"
	"encoding/json"

	"agentplatform/events"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/store/citation"
	"agentplatform/internal/store/record"
)

// Result is the answer object of a completed run. It is stored with all its quotes of documents. Clients get the part
// that [Rendered] returns.
type Result struct {
	RunID        string              `json:"run_id"`
	ChatID       string              `json:"chat_id"`
	Answer       string              `json:"answer"`
	Output       json.RawMessage     `json:"output,omitempty" doc:"only if the agent has an output_schema"` // the value, if the agent's answers are structured
	Citations    []citation.Citation `json:"citations"`
	Files        []record.FileRef    `json:"files"`
	Steps        []ResultStep        `json:"steps"`
	Usage        Usage               `json:"usage"`
	FinishReason string              `json:"finish_reason" enum:"stop,tool_calls,length,empty" doc:"empty: the model sent no text"`
}

// ResultStep is a tool call in a [Result].
type ResultStep struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments" shape:"object|string" doc:"a text if they could not be parsed"`
	Outcome   string          `json:"outcome"`
	Output    string          `json:"output"`
	Found     []record.Source `json:"found,omitempty" hidden:"true"` // stored only: search results, not an output
}

// mark is part of every stored result that quotes documents. Elsewhere it occurs only in the arguments of tools: in a
// text its quotation marks would be escaped.
var mark = []byte(`"found":[`)

// Quotes reports whether JSON may be a stored result that quotes documents.
func Quotes(raw []byte) bool { return bytes.Contains(raw, mark) }

// Rendered returns a stored result as a reader may see it now. The error is the reader's.
func Rendered(ctx context.Context, stored json.RawMessage, reader citation.Reader) (json.RawMessage, error) {
	if !Quotes(stored) {
		return stored, nil
	}
	var r Result
	if err := json.Unmarshal(stored, &r); err != nil {
		return nil, err
	}
	steps := make([]record.Step, len(r.Steps))
	for i, s := range r.Steps {
		steps[i].Found = s.Found
	}
	hidden, err := reader(ctx, citation.Documents(steps))
	if err != nil {
		return nil, err
	}
	for i, s := range r.Steps {
		if s.Found != nil {
			r.Steps[i].Output, r.Steps[i].Found = citation.Passages(s.Found, hidden), nil
		}
	}
	r.Citations = citation.Visible(r.Citations, hidden)
	return json.Marshal(r)
}

// left reads the stored result of a run, or the text of a cancelled one; nil: there is none. The error is one of the
// store.
func left(ctx context.Context, s *record.Store, r record.Run) (result json.RawMessage, p *events.Partial, err error) {
	stored, err := s.Output(ctx, r)
	if err != nil || stored == nil || r.Status != lifecycle.Cancelled {
		return stored, nil, err
	}
	err = json.Unmarshal(stored, &p)
	return nil, p, err
}

// PartialOf reads the text of a cancelled run; nil: it has none, or was not cancelled. Like the answer of a result it
// quotes no documents, so each client that may read the run may read it. The error is one of the store.
func PartialOf(ctx context.Context, s *record.Store, r record.Run) (*events.Partial, error) {
	_, p, err := left(ctx, s, r)
	return p, err
}

// ResultOf reads the result of a run as a reader may see it now; nil: it has none. The error is one of the store or of
// the reader.
func ResultOf(ctx context.Context, s *record.Store, r record.Run, reader citation.Reader) (json.RawMessage, error) {
	stored, _, err := left(ctx, s, r)
	if err != nil || stored == nil {
		return nil, err
	}
	return Rendered(ctx, stored, reader)
}
