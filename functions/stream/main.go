// Command stream is the service of long-lived streams: Server-Sent Events of runs, in a container on Fargate
// behind an internal load balancer.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	_ "golang.org/x/crypto/x509roots/fallback" // the image holds only this program

	"agentplatform/internal/wiring/cloud"
	"agentplatform/internal/wiring/cloud/httpedge"
)

// stopTime limits a stop; streams end immediately.
const stopTime = 20 * time.Second

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "stream:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	p, err := cloud.Open(ctx, cloud.ReadOnly) // its role may not write to the core table
	if err != nil {
		return err
	}
	handler, err := httpedge.New(p, 0)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", p.Settings.Addr)
	if err != nil {
		return err
	}
	server := handler.HTTP()
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer p.Report(ctx, cloud.OpenStreams, handler.OpenStreams)()
	p.Log.Info("serving streams", "addr", listener.Addr().String())
	select {
	case err := <-served:
		cancel()
		return err
	case <-ctx.Done():
	}
	cancel() // a second signal ends the process immediately
	handler.Stop()
	stopping, done := context.WithTimeout(context.Background(), stopTime)
	defer done()
	if err := server.Shutdown(stopping); err != nil {
		return errors.Join(err, server.Close())
	}
	return nil
}
