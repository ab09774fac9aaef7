// Package timer is the port to durable alarms: at a point in time, a wakeup is sent.
//
// An alarm may be late, repeated or lost: the store's due index is authoritative, and a timer only makes the reaction
// prompt. The adapter guarantees that a wakeup is not sent before its time.
package timer

import (
	"context"
	"time"

	"agentplatform/internal/store/queue"
)

// Timer is the port. Implementations are safe for concurrent use.
type Timer interface {
	// At sets an alarm: the message is sent at that time, or immediately if it has passed. If the name is in use, the
	// first alarm stays and the error is nil. An error means that the alarm may or may not be set.
	At(ctx context.Context, name string, at time.Time, m queue.Message) error
	// Stop removes an alarm, if possible. The error is nil if there is none.
	Stop(ctx context.Context, name string) error
}
