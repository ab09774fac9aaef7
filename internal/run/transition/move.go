package transition

import (
	"context"
	"log/slog"

	"agentplatform/internal/core/lifecycle"
)

// Move is a committed transition.
type Move struct {
	// Event is the name of its event, as in [lifecycle.Transitions], or [Accepted] or [Promoted] for a new run.
	Event string
	// Before is the run before the transition. For a new run it has no status. For a promoted run it has the parked
	// messages that the run takes over, so that counts of parked messages do not include them again.
	Before lifecycle.Run
	After  lifecycle.Run
}

// The events of a [Move] that makes a run.
const (
	Accepted = "accept"  // of a message that did not have to wait
	Promoted = "promote" // of the first parked message, at the end of the run that it waited for
)

// entered are the log's messages for a run that enters a status.
var entered = map[lifecycle.Status]string{
	lifecycle.Queued:        "run queued",
	lifecycle.Running:       "run started",
	lifecycle.AwaitingInput: "run paused",
	lifecycle.Completed:     "run completed",
	lifecycle.Failed:        "run failed",
	lifecycle.TimedOut:      "run timed out",
	lifecycle.Cancelled:     "run cancelled",
}

// moved calls OnTransition, and logs a status that the run has entered. A failure and a timeout are logged at the level
// info, not as warnings: most have their cause in an agent. The error is not logged: it may contain text of the client.
func (x *Executor) moved(ctx context.Context, m Move) {
	if x.OnTransition != nil {
		x.OnTransition(m)
	}
	r := m.After
	if r.Status == m.Before.Status {
		return
	}
	level := slog.LevelDebug
	if r.Status == lifecycle.TimedOut || r.Status == lifecycle.Failed {
		level = slog.LevelInfo
	}
	if x.Log.Enabled(ctx, level) { // most levels are not: the arguments would be allocated for nothing
		x.Log.Log(ctx, level, entered[r.Status], "run_id", r.ID(), "status", r.Status, "attempt", r.Attempt,
			"active_ms", r.ActiveMS, "limit_ms", r.LimitMS, "organization_id", r.Organization)
	}
}
