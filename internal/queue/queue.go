// Package queue is the port to the queues of nudges. Delivery is at least once, unordered, and may be late by hours.
//
// What the caller guarantees: a delivery is answered by Ack or Retry, once. What the adapter guarantees: a message that
// Send accepted is delivered until acknowledged, as long as the queue lives; groups do not starve each other.
package queue

import (
	"context"
	"time"

	"agentplatform/events"
)

// Message is a nudge and the group it is fair to: the organisation.
type Message struct {
	Nudge events.Nudge
	Group string
}

// Queue is the sending side.
type Queue interface {
	// Send hands a message over; an error means that it may or may not have been taken.
	Send(ctx context.Context, m Message) error
}

// Delivery is a received message.
type Delivery struct {
	Message
	Receives int // how often it has been delivered, this time included
	Handle   any // the adapter's own
}

// Source is the receiving side.
type Source interface {
	// Receive waits for a message until ctx ends.
	Receive(ctx context.Context) (Delivery, error)
	// Ack removes the message for good.
	Ack(ctx context.Context, d Delivery) error
	// Retry has the message delivered again after a while.
	Retry(ctx context.Context, d Delivery, after time.Duration) error
}
