// Package events is the shape of everything that crosses a process border: nudges, webhook bodies, stream frames.
//
// It is a leaf: both ends of each border import it, and it imports the standard library alone.
package events

import (
	"encoding/json"
	"time"
)

// Nudge says that somebody should look at a thing. It commands nothing: the receiver loads the thing and does what its
// state and the clock ask for, so that a nudge may come twice, late, out of order, or not at all.
type Nudge struct {
	Kind NudgeKind `json:"kind"`
	ID   string    `json:"id"`
}

// NudgeKind says what a nudge is about.
type NudgeKind string

// The kinds of nudge.
const (
	NudgeRun     NudgeKind = "run"     // ID: the run's
	NudgeWebhook NudgeKind = "webhook" // ID: "<run id>/<transition number>"
	NudgeJob     NudgeKind = "job"     // ID: the job's
)

// Webhook event names (specification, Events).
const (
	WebhookAwaitingInput = "agent_run.awaiting_input"
	WebhookTerminal      = "agent_run.terminal"
	WebhookTest          = "agent_run.test"
)

// Webhook is the body of a push.
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
	UsageStatus *string           `json:"usage_status"`
	Metadata    map[string]string `json:"metadata"`
	OccurredAt  string            `json:"occurred_at"`
	Sequence    int               `json:"sequence"`
}

// Interrupt is a pending request for human input, as clients see it.
type Interrupt struct {
	ID        string         `json:"id"`
	Kind      string         `json:"kind"`
	Prompt    string         `json:"prompt"`
	Tool      *InterruptTool `json:"tool,omitempty"`
	Options   []string       `json:"options,omitempty"`
	CreatedAt string         `json:"created_at"`
}

// InterruptTool is the call that needs approval.
type InterruptTool struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// FrameKind says what a stream frame carries.
type FrameKind string

// The kinds of frame a worker writes.
const (
	FrameText  FrameKind = "text"  // the whole text so far; supersedes what came before
	FrameDelta FrameKind = "delta" // text to append
	FrameStep  FrameKind = "step"  // a step began or ended
)

// Frame is one piece of a run's live output, written by the worker while somebody watches.
type Frame struct {
	Attempt int        `json:"attempt"` // readers ignore frames of lower attempts
	Seq     int64      `json:"seq"`     // ascending within the attempt
	Kind    FrameKind  `json:"kind"`
	Text    string     `json:"text,omitempty"`
	Offset  int        `json:"offset"` // delta: bytes of text before it, so that a reader can see a gap
	Step    *StepEvent `json:"step,omitempty"`
	Asked   string     `json:"asked,omitempty"` // by a reader who came: all that was said before stands before this
}

// StepEvent is a tool call or search as the stream shows it.
type StepEvent struct {
	Index     int             `json:"index"`
	Kind      string          `json:"kind"` // tool or search
	Name      string          `json:"name"`
	State     string          `json:"state"` // started, finished or failed
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Outcome   string          `json:"outcome,omitempty"`
}

// Time formats an instant as the API shows it: ISO 8601, UTC, milliseconds.
func Time(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
