package runs

import (
	"github.com/danielgtaylor/huma/v2"

	"agentplatform/events"
	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/run/stream"
	"agentplatform/internal/run/view"
)

// These types describe each event of a stream to the OpenAPI document: the members of [stream.Event] under the event's
// name.

type eventInit struct {
	Event string             `json:"event" enum:"init"`
	RunID string             `json:"run_id"`
	Seq   int64              `json:"seq"`
	Run   view.Run           `json:"run"`
	Text  string             `json:"text" doc:"the complete answer so far"`
	Steps []events.StepEvent `json:"steps" doc:"the steps so far"`
}

type eventStatus struct {
	Event      string             `json:"event" enum:"status"`
	RunID      string             `json:"run_id"`
	Seq        int64              `json:"seq"`
	Status     string             `json:"status" enum:"queued,running,awaiting_input"`
	Interrupts []events.Interrupt `json:"interrupts"`
}

type eventDelta struct {
	Event string `json:"event" enum:"delta"`
	RunID string `json:"run_id"`
	Seq   int64  `json:"seq"`
	Text  string `json:"text" doc:"to append"`
}

type eventStep struct {
	Event string           `json:"event" enum:"step"`
	RunID string           `json:"run_id"`
	Seq   int64            `json:"seq"`
	Step  events.StepEvent `json:"step"`
}

type eventParked struct {
	Event  string      `json:"event" enum:"parked"`
	RunID  string      `json:"run_id"`
	Seq    int64       `json:"seq"`
	Parked view.Parked `json:"parked"`
}

type eventDone struct {
	Event string   `json:"event" enum:"done"`
	RunID string   `json:"run_id"`
	Seq   int64    `json:"seq"`
	Run   view.Run `json:"run"`
}

type eventHeartbeat struct {
	Event string `json:"event" enum:"heartbeat" doc:"only in NDJSON; Server-Sent Events have comments instead"`
	RunID string `json:"run_id"`
	Seq   int64  `json:"seq"`
}

// runEvent is one of them.
type runEvent struct{}

// TransformSchema implements [huma.SchemaTransformer].
func (runEvent) TransformSchema(r huma.Registry, _ *huma.Schema) *huma.Schema {
	return httpapi.Union(r, "event", "An event of a run; the field event has its type.",
		httpapi.Member[eventInit](stream.Init), httpapi.Member[eventStatus](stream.Status),
		httpapi.Member[eventDelta](stream.Delta), httpapi.Member[eventStep](stream.StepEvent),
		httpapi.Member[eventParked](stream.ParkedMsg), httpapi.Member[eventDone](stream.Done),
		httpapi.Member[eventHeartbeat](stream.Heartbeat))
}
