// Command worker executes runs. As a Lambda function the run queue triggers it, one run per invocation. In a container
// it takes many runs in parallel from that queue, until a signal stops it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	_ "golang.org/x/crypto/x509roots/fallback" // the image holds only programs

	"agentplatform/events"
	"agentplatform/internal/wiring/cloud"
	"agentplatform/internal/wiring/cloud/function"
	"agentplatform/internal/wiring/cloud/runworker"
	"agentplatform/internal/wiring/trigger"
)

func main() {
	if os.Getenv("AWS_LAMBDA_RUNTIME_API") != "" {
		function.Run(handler)
	}
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}

func handler(p *cloud.Platform) (any, error) {
	w, err := runworker.New(context.Background(), p)
	if err != nil {
		return nil, err
	}
	return trigger.Messages(p.Queues[events.WakeupRun], p.Log,
		p.TraceWakeups(func(ctx context.Context, id string) (time.Duration, error) {
			return 0, w.Handle(ctx, id)
		})), nil
}

func serve() error {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	p, err := cloud.Open(ctx, cloud.ReadWrite)
	if err != nil {
		return err
	}
	return runworker.Serve(ctx, p)
}
