package localqueue_test

import (
	"context"
	"fmt"

	"agentplatform/events"
	"agentplatform/internal/store/queue"
	"agentplatform/internal/store/queue/localqueue"
)

// Groups take turns, so that a busy organization does not delay the others. A retried message is delivered again.
func ExampleQueue() {
	ctx := context.Background()
	q := localqueue.New()
	defer q.Close()
	for _, m := range []struct{ id, group string }{{"run-1", "busy"}, {"run-2", "busy"}, {"run-3", "quiet"}} {
		_ = q.Send(ctx, queue.Message{Wakeup: events.Wakeup{Kind: events.WakeupRun, ID: m.id}, Group: m.group})
	}
	for n := range 4 {
		d, err := q.Receive(ctx)
		fmt.Println(d.Wakeup.ID, d.Group, d.Receives, err)
		if n == 0 {
			_ = q.Retry(ctx, d, 0)
			continue
		}
		_ = q.Ack(ctx, d)
	}
	// Output:
	// run-1 busy 1 <nil>
	// run-3 quiet 1 <nil>
	// run-2 busy 1 <nil>
	// run-1 busy 2 <nil>
}
