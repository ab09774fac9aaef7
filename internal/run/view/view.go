// Package view is the representation of a run for clients (specification, Public view of a run), built from the stored
// data.
//
// It must not know HTTP. It imports record, citation, lifecycle, problem and events.
package view

import (
	"context"
	"encoding/json"
	"time"

	"agentplatform/events"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/citation"
	"agentplatform/internal/store/record"
)

// Run is the public representation of a run.
type Run struct {
	RunID           string             `json:"run_id"`
	ChatID          string             `json:"chat_id"`
	AgentID         string             `json:"agent_id"`
	AgentVersion    int                `json:"agent_version"`
	UserID          string             `json:"user_id"`
	APIKeyID        string             `json:"api_key_id"`
	Turn            int                `json:"turn" doc:"the number of the run in the chat, from 1"`
	Version         int64              `json:"version" doc:"increases with every change"`
	Status          string             `json:"status" enum:"queued,running,awaiting_input,completed,failed,cancelled,timed_out"`
	Interrupts      []events.Interrupt `json:"interrupts" doc:"pending requests for human input"`
	RequestedBy     *Person            `json:"asked_by,omitempty" doc:"only while the run waits for a human: the user of the run"`
	Error           *string            `json:"error"`
	Result          json.RawMessage    `json:"result" shape:"Result|null"` // null before [Run.For]
	Partial         *events.Partial    `json:"partial,omitempty" doc:"only for a cancelled run with partial text"`
	Usage           Usage              `json:"usage"`
	Parked          []Parked           `json:"parked"`
	Attempt         int                `json:"attempt" doc:"the number of times that a worker claimed the run; 0 before the first"`
	CreatedAt       string             `json:"created_at" doc:"the time when its message arrived; a parked message waits before its run is queued"`
	QueuedAt        *string            `json:"queued_at"`
	StartedAt       *string            `json:"started_at"`
	FinishedAt      *string            `json:"finished_at"`
	PausedAt        *string            `json:"paused_at"`
	UpdatedAt       string             `json:"updated_at"`
	ExpiresAt       *string            `json:"expires_at" doc:"the time when the pause expires"`
	ActiveMS        int64              `json:"active_ms"`
	CancelRequested bool               `json:"cancel_requested"`
	CancelReason    *string            `json:"cancel_reason"`
	DecidedBy       *string            `json:"decided_by"`
	Metadata        map[string]string  `json:"metadata"`

	stored json.RawMessage // the result with all its quotes
}

// Usage is the consumption of a run.
type Usage struct {
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	ActiveMS     int64 `json:"active_ms"`
	ModelCalls   int64 `json:"model_calls"`
	ToolCalls    int64 `json:"tool_calls"`
}

// Parked is a message that waits for a run's end, or has started as its own turn since.
type Parked struct {
	ParkedID  string  `json:"parked_id"`
	Position  int     `json:"position"`
	Message   string  `json:"message" doc:"empty if it is for another agent that only some groups may use"`
	CreatedAt string  `json:"created_at"`
	RunID     *string `json:"run_id" doc:"equal to parked_id once the message has started as its own turn"`
}

// Handle is the response for a run that has not ended.
type Handle struct {
	RunID      string             `json:"run_id"`
	Status     string             `json:"status" enum:"queued,running,awaiting_input"`
	Interrupts []events.Interrupt `json:"interrupts"`
	ChatID     string             `json:"chat_id"`
	AgentID    string             `json:"agent_id"`
	Parked     *Parked            `json:"parked,omitempty"`
}

// UsageOf is the public form of a run's usage.
func UsageOf(r lifecycle.Run) Usage {
	return Usage{
		InputTokens: r.Usage.InputTokens, OutputTokens: r.Usage.OutputTokens, ActiveMS: r.ActiveMS,
		ModelCalls: r.Usage.ModelCalls, ToolCalls: r.Usage.ToolCalls,
	}
}

// Of reads the data of a run and builds its public representation, without the result. Not every client may see the
// quotes in a result, so [Run.For] adds it. The error is one of the store.
func Of(ctx context.Context, s *record.Store, e record.RunEntity) (Run, error) {
	r := e.Value
	v := Run{
		RunID: r.ID(), ChatID: r.Chat, AgentID: r.Agent, AgentVersion: r.AgentVersion, UserID: r.User,
		APIKeyID: r.APIKey,
		Turn:     r.Turn, Version: e.Version(), Status: string(r.Status), Error: text(r.Error), Usage: UsageOf(r.Run),
		Attempt:   r.Attempt,
		CreatedAt: events.Time(r.CreatedAt), QueuedAt: instant(r.QueuedAt), StartedAt: instant(r.StartedAt),
		FinishedAt: instant(r.FinishedAt), PausedAt: instant(r.PausedAt), UpdatedAt: events.Time(r.UpdatedAt),
		ExpiresAt: instant(r.ExpiresAt), ActiveMS: r.ActiveMS, CancelRequested: r.CancelRequested,
		CancelReason: text(r.CancelReason), DecidedBy: text(r.DecidedBy), Metadata: map[string]string{},
	}
	var err error
	if v.Interrupts, err = Interrupts(ctx, s, r); err != nil {
		return v, err
	}
	if r.Status == lifecycle.AwaitingInput {
		user, err := Persons(ctx, s, record.Of(r.Organization))(r.User)
		if err != nil {
			return v, err
		}
		v.RequestedBy = &user
	}
	v.Result = json.RawMessage("null")
	if v.stored, v.Partial, err = left(ctx, s, r); err != nil {
		return v, err
	}
	in, err := s.Input(ctx, r)
	if err != nil {
		return v, err
	}
	if in.Metadata != nil {
		v.Metadata = in.Metadata
	}
	v.Parked, err = ParkedOf(ctx, s, r)
	return v, err
}

// For returns the representation for a reader: with the result, as the reader may see it now. The error is the
// reader's.
func (v Run) For(ctx context.Context, reader citation.Reader) (Run, error) {
	if v.stored == nil {
		return v, nil
	}
	var err error
	v.Result, err = Rendered(ctx, v.stored, reader)
	return v, err
}

// Interrupts reads the pending interrupts of a run. The list is never nil. The error is one of the store.
func Interrupts(ctx context.Context, s *record.Store, r record.Run) ([]events.Interrupt, error) {
	if r.Status != lifecycle.AwaitingInput {
		return []events.Interrupt{}, nil
	}
	list, err := s.Interrupts(ctx, r.ID(), r.Pause)
	return record.Public(list), err
}

// HandleOf builds the response for a run that has not ended. The error is one of the store.
func HandleOf(ctx context.Context, s *record.Store, r record.Run, parked *Parked) (Handle, error) {
	interrupts, err := Interrupts(ctx, s, r)
	return Handle{RunID: r.ID(), Status: string(r.Status), Interrupts: interrupts, ChatID: r.Chat, AgentID: r.Agent,
		Parked: parked}, err
}

// ParkedOf lists a run's parked messages, including those that were passed on to the next run when it ended. The list
// is never nil if there is no error. It omits the text of a message for another agent if that agent is for some groups
// only, or has private chats. Not every reader of the run may read that text. The error is one of the store.
func ParkedOf(ctx context.Context, s *record.Store, r record.Run) ([]Parked, error) {
	list := []Parked{}
	ids := append(append([]string{}, r.Parked...), r.PassedOn...)
	if len(ids) == 0 {
		return list, nil
	}
	started := map[string]bool{}
	runs, err := s.Runs(ctx, record.Of(r.Organization), ids...)
	if err != nil {
		return nil, err
	}
	for _, run := range runs {
		started[run.Value.ID()] = true
	}
	for i, id := range ids {
		p, err := s.Parked(ctx, id)
		if problem.Is(err, "not_found") {
			continue // withdrawn, or removed with its user
		}
		if err != nil {
			return nil, err
		}
		message := p.Input.Message
		if p.Spec.Agent != r.Agent {
			other, err := catalog.Standing(ctx, s, record.Of(r.Organization), p.Spec.Agent)
			if err != nil && !problem.Is(err, "not_found") {
				return nil, err
			}
			if err != nil || len(other.Spec.GroupIDs) > 0 || other.Spec.ChatVisibility == catalog.SeesOwn {
				message = ""
			}
		}
		list = append(list, ParkedRecord(id, i+1, message, p.At, started[id]))
	}
	return list, nil
}

// ParkedRecord builds the public form of a parked message; position counts from 1.
func ParkedRecord(id string, position int, message string, at time.Time, started bool) Parked {
	p := Parked{ParkedID: id, Position: position, Message: message, CreatedAt: events.Time(at)}
	if started {
		p.RunID = &id
	}
	return p
}

// Progress is the output so far of a run with this status, from its journal: its text, as in [record.TextOf], and the
// tool calls.
func Progress(steps []record.Step, status lifecycle.Status) (text string, calls []events.StepEvent) {
	calls = []events.StepEvent{}
	for _, s := range steps {
		if e, ok := s.Event(); ok && s.Kind == record.ToolStep {
			calls = append(calls, e)
		}
	}
	return record.TextOf(steps, status), calls
}

func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func instant(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	s := events.Time(t)
	return &s
}
