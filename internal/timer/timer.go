// Package timer is the port to durable alarms: at an instant, a nudge is sent.
//
// An alarm may come late, twice or not at all: the store's due index is the truth, a timer only makes it prompt. The
// adapter guarantees that a nudge is not sent before its instant.
package timer

import (
	"context"
	"time"

	"agentplatform/internal/queue"
)

// Timer is the port.
type Timer interface {
	// At has the message sent at that instant. Setting the same name again is no error and leaves the first alarm.
	At(ctx context.Context, name string, at time.Time, m queue.Message) error
	// Stop calls an alarm off, as well as it can; there being none is no error.
	Stop(ctx context.Context, name string) error
}
