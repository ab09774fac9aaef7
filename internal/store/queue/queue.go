// Package queue is the port to the queues of wakeups (messages that wake a worker). Delivery is at least once,
// unordered, and may be late by hours.
//
// The caller guarantees that each delivery is answered by Ack or Retry, once. The adapter guarantees two things. A
// message that Send accepted is delivered until it is acknowledged, as long as the queue exists. Groups do not starve
// each other. A message that is sent while an equal one waits may be delivered together with it.
package queue

import (
	"context"
	"time"

	"agentplatform/events"
)

// Message is a wakeup with its organization and user, so that these take turns.
type Message struct {
	Wakeup events.Wakeup
	Group  string // the organization
	// User is the user in the organization; empty if there is none. An adapter need not deliver it.
	User string
	// Base is the knowledge base of a document; empty for other kinds. An adapter need not deliver it.
	Base string
}

// OfDocument is the message for a document that a user has sent to a knowledge base.
func OfDocument(id, organization, user, base string) Message {
	return Message{
		Wakeup: events.Wakeup{Kind: events.WakeupDocument, ID: id}, Group: organization, User: user, Base: base,
	}
}

// Queue is the sending side. Implementations are safe for concurrent use.
type Queue interface {
	// Send adds a message. An error means that it may or may not have been accepted.
	Send(ctx context.Context, m Message) error
}

// Batcher is a [Queue] that sends many messages with fewer calls. [SendAll] uses it.
type Batcher interface {
	// SendAll adds messages. The result has one error for each of them, nil if the message was accepted. An error is
	// that of Send: the message may or may not have been accepted.
	SendAll(ctx context.Context, ms []Message) []error
}

// SendAll sends messages by a [Batcher]'s calls if the queue is one, otherwise one after the other. The result has one
// error for each message, nil if it was accepted.
func SendAll(ctx context.Context, q Queue, ms []Message) []error {
	if b, can := q.(Batcher); can {
		return b.SendAll(ctx, ms)
	}
	errs := make([]error, len(ms))
	for i, m := range ms {
		errs[i] = q.Send(ctx, m)
	}
	return errs
}

// Delivery is a received message.
type Delivery struct {
	Message
	Receives int // number of deliveries so far, including this one
	Handle   any // private to the adapter
}

// Now is the delay of [Source.Retry] that is none.
const Now = time.Nanosecond

// Source is the receiving side. Implementations are safe for concurrent use.
type Source interface {
	// Receive waits for a message. The error is ctx's, or means that the queue cannot be read now.
	Receive(ctx context.Context) (Delivery, error)
	// Ack removes the message. An error means that it may be delivered again.
	Ack(ctx context.Context, d Delivery) error
	// Retry delivers the message again after a delay. An error means that it may be delivered earlier, later or, if
	// the queue is in memory, not at all.
	Retry(ctx context.Context, d Delivery, after time.Duration) error
}
