package trigger

import (
	"context"
	"log/slog"
	"time"

	lambdaevents "github.com/aws/aws-lambda-go/events"

	"agentplatform/internal/dispatch"
	"agentplatform/internal/queue"
	"agentplatform/internal/queue/sqsqueue"
)

const (
	// patience is how often a message that is only to come again may do so by itself. It is below each queue's limit,
	// after which a message is a dead letter: what is healthy never ends there. The sweeper brings it from then on.
	patience = 4
	// inPlace is for how long a function waits for what is to come again, rather than give the message back.
	inPlace = 2 * time.Second
	// reserve is the time a function needs to give messages back before its deadline.
	reserve = 20 * time.Second
	// longestBackOff bounds how long a message rests whose handling failed.
	longestBackOff = 5 * time.Minute
)

// Messages makes the handler of a queue's batches. A message whose handling failed, or that is to come again, is
// reported as failed and made visible again after a while; the others are gone. It never fails as a whole.
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
				_ = source.Retry(ctx, d, time.Second) // no time makes it better: on to the dead letters
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
			log.Error("a nudge could not be handled", "kind", d.Nudge.Kind, "id", d.Nudge.ID, "receives", d.Receives,
				"error", err)
			rest = min(time.Second<<min(d.Receives, 10), longestBackOff)
		case again == 0:
			return true
		case again <= inPlace && timeLeft(ctx) > reserve && sleep(ctx, again):
			continue
		case d.Receives >= patience:
			return true // what it is about is due in the store
		default:
			rest = again
		}
		if err := source.Retry(context.WithoutCancel(ctx), d, rest); err != nil {
			log.Warn("a message could not be put off; it comes again when its visibility ends", "kind", d.Nudge.Kind,
				"id", d.Nudge.ID, "error", err)
		}
		return false
	}
}

func timeLeft(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return time.Hour
	}
	return time.Until(deadline)
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
