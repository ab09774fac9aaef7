// Package events defines what one process sends to another: nudges, webhook bodies, stream frames. What the functions
// broker and reader are asked stands in the packages broker and reader: each has both ends.
//
// It is a leaf: both ends of each channel import it, and it imports only the standard library.
package events

import (
	"encoding/json"
	"time"
)

// Nudge is a wake-up message: it says that somebody should look at a thing. It is no command: the receiver loads
// the thing and does what its state and the clock ask for, so that a nudge may arrive twice, late, out of order,
// or not at all.
type Nudge struct {
	Kind NudgeKind `json:"kind"`
	ID   string    `json:"id"`
}

// NudgeKind says what a nudge is about.
type NudgeKind string

// The kinds of nudge.
const (
	NudgeRun      NudgeKind = "run"      // ID: the run's
	NudgeWebhook  NudgeKind = "webhook"  // ID: "<run id>/<transition number>"
	NudgeJob      NudgeKind = "job"      // ID: the job's
	NudgeDocument NudgeKind = "document" // ID: the document's
)

// The names of webhook events (specification, Webhooks).
const (
	WebhookAwaitingInput = "agent_run.awaiting_input"
	WebhookTerminal      = "agent_run.terminal"
	WebhookTest          = "agent_run.test"
)

// Webhook is the body of a webhook request.
type Webhook struct {
	Version     int               `json:"version"`
	Event       string            `json:"event"`
	DeliveryID  string            `json:"delivery_id"`
	RunID       string            `json:"run_id"`
	ChatID      string            `json:"chat_id"`
	AgentID     string            `json:"agent_id"`
	Status      string            `json:"status"`
	Interrupts  json.RawMessage   `json:"interrupts"`
	Error       *string           `json:"error"`
	Result      json.RawMessage   `json:"result"`
	Partial     *Partial          `json:"partial,omitempty"`
	UsageStatus *string           `json:"usage_status"`
	Metadata    map[string]string `json:"metadata"`
	OccurredAt  string            `json:"occurred_at"`
	Sequence    int               `json:"sequence"`
}

// Partial is what a cancelled run leaves instead of a result, if it has a text.
type Partial struct {
	Answer       string `json:"answer" doc:"the text that had come"`
	FinishReason string `json:"finish_reason" enum:"cancelled"`
}

// Interrupt is a pending request for human input, as clients see it.
type Interrupt struct {
	ID        string         `json:"id"`
	Kind      string         `json:"kind" enum:"approval,clarification"`
	Prompt    string         `json:"prompt"`
	Tool      *InterruptTool `json:"tool,omitempty"`
	Options   []string       `json:"options,omitempty"`
	CreatedAt string         `json:"created_at"`
}

// InterruptTool is the call that needs approval.
type InterruptTool struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments" shape:"object"`
}

// FrameKind says what a stream frame carries.
type FrameKind string

// The kinds of frames that a worker writes.
const (
	FrameText  FrameKind = "text"  // the whole text so far; replaces what came before
	FrameDelta FrameKind = "delta" // text to append
	FrameStep  FrameKind = "step"  // a step started or ended
)

// Frame is one piece of a run's live output, written by the worker while there are readers.
type Frame struct {
	Attempt int        `json:"attempt"` // readers ignore frames of lower attempts
	Seq     int64      `json:"seq"`     // ascending within the attempt
	Kind    FrameKind  `json:"kind"`
	Text    string     `json:"text,omitempty"`
	Offset  int        `json:"offset"` // delta: bytes of text before it, so that a reader can detect a gap
	Step    *StepEvent `json:"step,omitempty"`
	// by a reader who joined: everything that was emitted before is in the stream before this frame
	Asked string `json:"asked,omitempty"`
}

// StepEvent is a tool call or a search, as the stream shows it.
type StepEvent struct {
	Index     int             `json:"index"`
	Kind      string          `json:"kind" enum:"tool,search"`
	Name      string          `json:"name"`
	State     string          `json:"state" enum:"started,finished,failed"`
	Arguments json.RawMessage `json:"arguments,omitempty" shape:"object|string"`
	Outcome   string          `json:"outcome,omitempty"`
}

// Time formats an instant as the API shows it: ISO 8601, UTC, milliseconds.
func Time(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
