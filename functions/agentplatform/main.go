// Command agentplatform runs the whole service in one process with its data in one folder.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"agentplatform/internal/platform/logline"
	"agentplatform/internal/platform/setting"
	"agentplatform/internal/platform/version"
	"agentplatform/internal/wiring/boot"
)

func main() {
	show := flag.Bool("version", false, "print the version and the commit of this program")
	health := flag.Bool("health", false, "ask the process that listens on ADDR whether it is up; fail if it is not")
	flag.Parse()
	if *show {
		v, commit := version.Read()
		fmt.Printf("agent-platform %s (%s)\n", v, commit)
		return
	}
	do := run
	if *health {
		do = healthy
	}
	if err := do(); err != nil {
		fmt.Fprintln(os.Stderr, "agent-platform:", err)
		os.Exit(1)
	}
}

// healthy checks the process that listens on ADDR. A container has no other program that could.
func healthy() error {
	s, err := setting.Read(os.Environ())
	if err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); host == "" || ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	address := "http://" + net.JoinHostPort(host, port) + "/healthz"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("GET /healthz: %s", answer.Status)
	}
	return nil
}

func run() error {
	s, err := setting.Read(os.Environ())
	if err != nil {
		return err
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.LogLevel)); err != nil {
		return err
	}
	log := logline.New(os.Stderr, level)
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	local, err := boot.StartLocal(ctx, s, log)
	if err != nil {
		return err
	}
	greet(local)
	err = local.Wait(ctx)
	cancel() // a second signal ends the process immediately
	if stopped := local.Stop(); err == nil {
		err = stopped
	}
	return err
}

// greet prints the first steps. It prints the key only at the first start: output is kept in logs.
func greet(l *boot.Local) {
	file := filepath.Join(l.Settings.DataDir, "operator.key")
	key, shown := "$(cat '"+strings.ReplaceAll(file, "'", `'\''`)+"')", "kept in "+file
	if l.First {
		key, shown = l.Key, fmt.Sprintf("%s   (stored in %s and not shown again)", l.Key, file)
	}
	metrics := ""
	if l.MetricsURL != "" {
		metrics = "  metrics         " + l.MetricsURL + "   (without a key)\n"
	}
	fmt.Printf(`Agent Platform at %s
  admin panel     %s/admin/
  documentation   %s/docs
  operator key    %s
%s
Send the first message:

  curl -s %s/chat -H "Authorization: Bearer %s" -F agent_id=%s -F message="Hello there"

`, l.URL, l.Settings.PublicURL, l.Settings.PublicURL, shown, metrics, l.URL, key, l.AgentID)
}
