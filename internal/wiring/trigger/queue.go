package trigger

import (
	"context"
	"log/slog"
	"time"

	lambdaevents "github.com/aws/aws-lambda-go/events"

	"agentplatform/internal/platform/host"
	"agentplatform/internal/run/dispatch"
	"agentplatform/internal/store/queue"
	"agentplatform/internal/store/queue/sqsqueue"
)

const (
	// patience is the maximum number of receives of a message that requests another delivery. It is below each queue's
	// receive limit, after which a message becomes a dead letter, so that no healthy message does. After that many
	// receives the message is dropped, and the sweeper finds the item when it is due.
	patience = 4
	// inPlace is the longest delay for which a function waits itself instead of returning the message to the queue.
	inPlace = 2 * time.Second
	// reserve is the time before its deadline that a function needs to return messages.
	reserve = 20 * time.Second
	// longestBackOff is the longest delay of a message whose handling failed.
	longestBackOff = 5 * time.Minute
)

// Messages makes the handler of a queue's batches. A message whose handling failed, or that requests another delivery,
// is reported as failed and becomes visible again after a delay. The others are removed. The handler never returns an
// error.
func Messages(
	source queue.Source, log *slog.Logger, handle dispatch.Handler,
) func(context.Context, lambdaevents.SQSEvent) (lambdaevents.SQSEventResponse, error) {
	return func(ctx context.Context, batch lambdaevents.SQSEvent) (lambdaevents.SQSEventResponse, error) {
		var answer lambdaevents.SQSEventResponse
		for _, m := range batch.Records {
			d, err := sqsqueue.Delivered(m.Body, m.ReceiptHandle, m.Attributes)
			done := false
			if err != nil {
				log.Error("a message is no nudge", "message_id", m.MessageId, "error", err)
				_ = source.Retry(ctx, d, time.Second) // it never becomes valid, so it becomes a dead letter
			} else {
				done = one(ctx, source, d, log, handle)
			}
			if !done {
				answer.BatchItemFailures = append(answer.BatchItemFailures,
					lambdaevents.SQSBatchItemFailure{ItemIdentifier: m.MessageId})
			}
		}
		return answer, nil
	}
}

func one(
	ctx context.Context, source queue.Source, d queue.Delivery, log *slog.Logger, handle dispatch.Handler,
) (done bool) {
	for {
		again, err := dispatch.Guarded(ctx, d, log, handle)
		var rest time.Duration
		switch {
		case err != nil:
			log.Error("a nudge could not be handled", "kind", d.Wakeup.Kind, "id", d.Wakeup.ID, "receives", d.Receives,
				"error", err)
			rest = min(time.Second<<min(d.Receives, 10), longestBackOff)
		case again == 0:
			return true
		case again <= inPlace && timeLeft(ctx) > reserve && host.System().Sleep(ctx, again) == nil:
			continue
		case d.Receives >= patience:
			return true // the store has a due time for its item
		default:
			rest = again
		}
		if err := source.Retry(context.WithoutCancel(ctx), d, rest); err != nil {
			log.Warn("a message could not be put off; it comes again when its visibility ends", "kind", d.Wakeup.Kind,
				"id", d.Wakeup.ID, "error", err)
		}
		return false
	}
}

// ReleaseAfter ends the context of a handler after a time, and always some time before the function itself is ended.
// The handler then releases its work. Its recorded work stays, and the message is delivered again, so that another
// invocation continues.
func ReleaseAfter(handle dispatch.Handler, after time.Duration) dispatch.Handler {
	const later = inPlace + time.Second // in another invocation
	return func(ctx context.Context, id string) (time.Duration, error) {
		left := timeLeft(ctx) - 2*reserve
		if left <= 0 { // of an invocation in which it was called before
			return later, nil
		}
		limited, cancel := context.WithTimeout(ctx, min(after, left))
		defer cancel()
		again, err := handle(limited, id)
		if err == nil && again == 0 && limited.Err() != nil {
			again = later
		}
		return again, err
	}
}

func timeLeft(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return time.Hour
	}
	return time.Until(deadline)
}
