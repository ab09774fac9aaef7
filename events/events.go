// Package events defines the messages that one process sends to another: wakeups, webhook bodies and stream frames. The
// requests to the functions broker and reader are in the packages broker and reader. Each of these has both ends.
//
// It is a leaf: both ends of each channel import it, and it imports only the standard library.
package events

import (
	"encoding/json"
	"time"
)

// Wakeup is a wakeup message. It names a thing that the receiver should look at, and is not a command. The receiver
// loads the thing and acts on its state and the clock. So a Wakeup may arrive twice, late, out of order, or not at all.
type Wakeup struct {
	Kind WakeupKind `json:"kind"`
	ID   string     `json:"id"`
}

// WakeupKind is the kind of thing that a Wakeup names.
type WakeupKind string

// The kinds of wakeup.
const (
	WakeupRun      WakeupKind = "run"      // ID: the run's
	WakeupWebhook  WakeupKind = "webhook"  // ID: "<run id>/<transition number>"
	WakeupJob      WakeupKind = "job"      // ID: the job's
	WakeupDocument WakeupKind = "document" // ID: the document's
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

// Partial is the part of an answer that a cancelled run keeps instead of a result. A run without any text has none.
type Partial struct {
	Answer       string `json:"answer" doc:"the text that had come"`
	FinishReason string `json:"finish_reason" enum:"cancelled"`
}

// Interrupt is a pending request for human input, in the form that clients see.
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

// FrameKind is the kind of content of a stream frame.
type FrameKind string

// The kinds of frames that a worker writes.
const (
	FrameText  FrameKind = "text"  // the whole text so far; replaces what came before
	FrameDelta FrameKind = "delta" // text to append
	FrameStep  FrameKind = "step"  // a step started or ended
)

// Frame is one piece of a run's live output. The worker writes it while there are readers.
type Frame struct {
	Attempt int        `json:"attempt"` // readers ignore frames of lower attempts
	Seq     int64      `json:"seq"`     // ascending within the attempt
	Kind    FrameKind  `json:"kind"`
	Text    string     `json:"text,omitempty"`
	Offset  int        `json:"offset"` // delta: bytes of text before it, so that a reader can detect a gap
	Step    *StepEvent `json:"step,omitempty"`
	// by a reader who joined: everything that was emitted before is in the stream before this frame
	Acknowledged string `json:"asked,omitempty"`
}

// StepEvent is a tool call or a search, in the form that the stream has.
type StepEvent struct {
	Index     int             `json:"index"`
	Kind      string          `json:"kind" enum:"tool,search"`
	Name      string          `json:"name"`
	State     string          `json:"state" enum:"started,finished,failed"`
	Arguments json.RawMessage `json:"arguments,omitempty" shape:"object|string"`
	Outcome   string          `json:"outcome,omitempty"`
}

// Time formats an instant for the API: ISO 8601, UTC, milliseconds.
func Time(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
