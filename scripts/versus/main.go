// Command versus measures ours next to DBOS Go and Restate, on this machine, with one load.
//
// A client sends a message over HTTP and waits for the durable result; then it sends the next. The work is two steps
// that take no time. They stand for a model that answers immediately, and for the work on its answer:
//
//   - ours: POST /chat with wait=true to the agent Demo, each message in a chat of its own. One process, Pebble.
//   - dbos: an HTTP handler runs a workflow of two steps and waits for its result, as in DBOS's own examples.
//     PostgreSQL, and the pool that DBOS makes (20 connections).
//   - restate: restate-server with its own settings (24 partitions), the message posted to its ingress, and a service
//     of Restate's Go SDK whose handler makes two runs.
//
// Durability when the answer comes: ours syncs its log for each commit, and commits that come together share a sync.
// PostgreSQL is as initdb leaves it: fsync and synchronous_commit are on. Restate syncs its log, too
// (rocksdb-disable-wal-fsync is false), and keeps one copy, as a single server does. DBOS may also use SQLite, which it
// opens with synchronous=NORMAL. That survives the end of a process, not of the machine, and is not compared here.
//
// Differences in favour of the others: ours authenticates, parses a form, bills, holds the chat, counts against caps
// and keeps a ledger. Neither of the others does. The service of Restate is a plain one: it has no idempotency key and
// no lock of a key.
//
// Differences in favour of ours: it is one process. DBOS is a library that goes over TCP to a database which many can
// share. Restate goes over TCP to its service. Both can be spread over several machines without changes, but ours needs
// other adapters for that. Its settings are those for this load: caps and rate limits are out of the way. PostgreSQL
// and Restate have settings for larger machines, which are not used. And the people who measure have made ours.
//
// This program makes the load, on the same machine. It uses the same HTTP client for all, which takes 0.05 ms of
// processor time a run. In each round each system is started with an empty folder, warmed up, loaded and stopped before
// the next one is started, so that none costs another anything. The order changes from round to round. Processor time
// is that of all processes of a system, from /proc, between the beginning and the end of the load.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

var (
	rounds   = flag.Int("rounds", 5, "how many rounds there are; each has all systems")
	seconds  = flag.Float64("seconds", 8, "how long each load lasts")
	root     = flag.String("root", "../..", "the `FOLDER` of ours")
	cache    = flag.String("cache", "../../.cache/versus", "the `FOLDER` with the servers that npm installed")
	serve    = flag.String("serve", "", "be the server of this system; versus starts itself with it")
	listen   = flag.String("listen", "", "where that server listens")
	database = flag.String("database", "", "the URL of its database")
)

func main() {
	flag.Parse()
	log.SetFlags(0)
	if *serve != "" {
		log.Fatal(serveSystem(*serve, *listen, *database))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := compare(ctx)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

const (
	clients = 64              // of a load
	warm    = 2 * time.Second // how long a load lasts that is not counted, before the one that is
)

// report has all that is printed at the end.
type report struct {
	date    time.Time
	machine string
	samples []sample
}

func compare(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "versus")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // PostgreSQL may run as another user
		return err
	}
	t, err := prepare(ctx, dir)
	if err != nil {
		return err
	}
	r := report{date: time.Now().UTC(), machine: machine()}
	for round := range *rounds {
		for i := range systems {
			at := systems[(i+round)%len(systems)]
			measured, err := t.measure(ctx, at, round)
			if err != nil {
				return fmt.Errorf("%s, round %d: %w", at.name, round+1, err)
			}
			r.samples = append(r.samples, measured)
			log.Printf("round %d of %d: %s", round+1, *rounds, measured)
		}
	}
	fmt.Print(r.markdown(t.versions(ctx)))
	return nil
}

// measure starts a system with an empty folder, loads it, and stops it.
func (t *tools) measure(ctx context.Context, of system, round int) (measured sample, err error) {
	s := &stage{tools: t, name: of.name, dir: filepath.Join(t.dir, fmt.Sprintf("%s-%d", of.name, round))}
	if err := os.Mkdir(s.dir, 0o755); err != nil { //nolint:gosec // PostgreSQL may run as another user
		return sample{}, err
	}
	defer func() { err = errors.Join(err, s.close(), os.RemoveAll(s.dir)) }()
	starting, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	server, err := of.start(starting, s)
	if err != nil {
		return sample{}, err
	}
	if _, err := load(ctx, server, warm); err != nil {
		return sample{}, s.explain(err)
	}
	before, err := treeTime(s.pids())
	if err != nil {
		return sample{}, err
	}
	if measured, err = load(ctx, server, time.Duration(*seconds*float64(time.Second))); err != nil {
		return sample{}, s.explain(err)
	}
	after, err := treeTime(s.pids())
	measured.system, measured.round, measured.processor = of.name, round+1, after-before
	return measured, err
}
