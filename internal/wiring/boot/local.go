// Package boot is the wiring of the single process. It makes adapters and passes them to the use cases; it contains no
// rules. With cloud it is the only importer of adapters.
package boot

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"agentplatform/events"
	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/provider"
	"agentplatform/internal/ai/provider/registry"
	"agentplatform/internal/ai/tool"
	"agentplatform/internal/api/a2a"
	"agentplatform/internal/api/bridge"
	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/api/httpapi/service"
	"agentplatform/internal/api/mcpserver"
	"agentplatform/internal/knowledge/ingest"
	"agentplatform/internal/org/analytics"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/org/toolkit"
	"agentplatform/internal/org/toolkit/adapters"
	"agentplatform/internal/platform/egress"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/metric"
	"agentplatform/internal/platform/setting"
	"agentplatform/internal/platform/share"
	"agentplatform/internal/platform/trace"
	"agentplatform/internal/platform/trace/otlp"
	"agentplatform/internal/run/agent"
	"agentplatform/internal/run/dispatch"
	"agentplatform/internal/run/files"
	"agentplatform/internal/run/intake"
	"agentplatform/internal/run/removal"
	"agentplatform/internal/run/stream"
	"agentplatform/internal/run/sweep"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/run/webhook"
	"agentplatform/internal/run/worker"
	"agentplatform/internal/store/blob/dirblob"
	"agentplatform/internal/store/queue"
	"agentplatform/internal/store/queue/localqueue"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/seal"
	"agentplatform/internal/store/seal/keyseal"
	"agentplatform/internal/store/table/disktable"
	"agentplatform/internal/store/table/memtable"
	"agentplatform/internal/text/index/diskindex"
	"agentplatform/internal/text/reader"
)

// Local is the whole service in one process with its data in one folder.
type Local struct {
	Settings setting.Settings
	Key      string       // the operator's API key
	First    bool         // the key was created at this start
	AgentID  string       // of the agent Demo, if it still exists
	URL      string       // of the API
	Server   *http.Server // running

	MetricsURL string // of METRICS_ADDR; empty: there is none

	metrics *http.Server // the same
	log     *slog.Logger
	tracer  *trace.Tracer  // nil: no traces
	traces  *otlp.Exporter // nil as well
	table   *disktable.Table
	index   *diskindex.Index
	queues  queues
	server  *httpapi.Server

	store    *record.Store
	sealer   seal.Sealer
	models   *provider.Set
	tenants  *tenant.Tenants
	toolkits *toolkit.Toolkits
	executor *transition.Executor
	hub      *stream.Hub

	served  chan error
	stop    context.CancelFunc // ends the background work
	working sync.WaitGroup
}

// queues sends each wakeup to the queue of its kind, so that no kind waits for another.
type queues map[events.WakeupKind]*localqueue.Queue

func (q queues) Send(ctx context.Context, m queue.Message) error {
	return q[m.Wakeup.Kind].Send(ctx, m)
}

// Limits on concurrent background work, and times of a stop.
const (
	webhooksAtOnce = 128
	jobsAtOnce     = 3
	sweepEvery     = time.Second
	tidyEvery      = time.Minute // so that deleted words leave the index within ten minutes
	pollEvery      = time.Second
	stopTime       = 8 * time.Second         // for requests; a stop may take 10 s in all
	drainTime      = 6 * time.Second         // for steps of runs that are in progress
	workTime       = 9500 * time.Millisecond // for all background work
)

// workers are the limits of the queue of runs: n workers for all users, and a quarter more for users with few.
func workers(n int) share.Limits {
	reserve := int64(n / 4)
	return share.Limits{All: int64(n) + reserve, Reserve: reserve}
}

// A 16th of the disk is the floor, which blobs leave free. These are its smallest and largest size in bytes.
const (
	leastFloor = 64 << 20
	mostFloor  = 2 << 30
)

// disks divides a disk of all bytes. Blobs may use the space above the floor, growing rows that above half of it. That
// half is kept for runs that end, for deletions, and for the work of the stores.
func disks(all int64, free func() int64) (blobs, rows *share.Disk) {
	floor := min(max(all/16, leastFloor), mostFloor)
	blobs = share.NewDisk(func() int64 { return free() - floor }, 0)
	rows = share.NewDisk(func() int64 { return free() - floor/2 }, floor/2)
	return blobs, rows
}

// fullEvery is the time between two log lines about a full disk: there may be many refusals.
const fullEvery = 10 * time.Minute

// noteFull returns a function that logs refusals because of a full disk: the first one, and one after each fullEvery.
func (l *Local) noteFull(h host.Host) func(cause error) {
	var mu sync.Mutex
	next := h.Elapsed()
	return func(cause error) {
		mu.Lock()
		defer mu.Unlock()
		if now := h.Elapsed(); now >= next {
			next = now + fullEvery
			l.log.Error("the disk is full: free some space", "left_bytes", l.free(), "error", cause)
		}
	}
}

// free returns the free bytes of the disk.
func (l *Local) free() int64 {
	free, _, err := disktable.Usage(l.Settings.DataDir)
	if err != nil {
		return math.MaxInt64 // if the disk has a fault, the write fails
	}
	return free
}

// senders are the limits of webhook senders, whose receivers may never answer.
func senders() share.Limits {
	const part = webhooksAtOnce / 4
	return share.Limits{All: webhooksAtOnce, Reserve: part, Organization: part, User: part * 3 / 4}
}

// jobs are the limits of background jobs, which are done in pieces.
func jobs() share.Limits {
	return share.Limits{All: jobsAtOnce, Reserve: 1, Organization: jobsAtOnce - 1}
}

// ingesters are the limits of the queue of documents, as workers are. Each organization leaves some to the others.
func ingesters(n int) share.Limits {
	reserve := int64(max(2, n/4))
	return share.Limits{All: int64(n) + reserve, Reserve: reserve, Organization: int64(n)}
}

// StartLocal opens the data folder and starts serving. The caller must call Stop. It fails if another process uses the
// folder, if the folder cannot be opened, if a setting is unusable, or if the port is taken.
func StartLocal(ctx context.Context, s setting.Settings, log *slog.Logger) (*Local, error) {
	l := &Local{Settings: s, log: log, served: make(chan error, 1), queues: queues{
		events.WakeupRun:      localqueue.Shared(workers(s.Workers)),
		events.WakeupWebhook:  localqueue.Shared(senders()),
		events.WakeupJob:      localqueue.Shared(jobs()),
		events.WakeupDocument: localqueue.Shared(ingesters(s.IngestWorkers)),
	}}
	var listening net.ListenConfig
	listener, err := listening.Listen(ctx, "tcp", s.Addr)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on ADDR: %w", err)
	}
	if l.Settings.PublicURL == "" {
		l.Settings.PublicURL = "http://" + reachable(listener.Addr())
	}
	l.table, err = disktable.Open(filepath.Join(s.DataDir, "store"), disktable.Options{Log: log, Free: l.free})
	if err != nil {
		_ = listener.Close()
		if errors.Is(err, disktable.ErrInUse) {
			return nil, fmt.Errorf("DATA_DIR %s is in use by another process: stop that process or set another folder",
				s.DataDir)
		}
		return nil, err
	}
	if err := l.wire(ctx, listener); err != nil {
		_ = listener.Close()
		if l.metrics != nil {
			_ = l.metrics.Close()
		}
		if l.index != nil {
			l.index.Close()
		}
		return nil, errors.Join(err, l.table.Close())
	}
	return l, nil
}

// wire makes the adapters and the use cases, connects them, and starts the work.
func (l *Local) wire(ctx context.Context, listener net.Listener) error {
	s, log, machine := l.Settings, l.log, host.System()
	models, err := registry.Models(ctx, s, machine)
	if err != nil {
		return err
	}
	if err := l.open(ctx, machine); err != nil {
		return err
	}
	policy, err := egress.Read(s.WebhookAllowHosts, "WEBHOOK_CA_FILE", s.WebhookCAFile)
	if err != nil {
		return err
	}
	registry := newRegistry()
	if err := l.serveMetrics(ctx, registry); err != nil {
		return err
	}
	if err := l.trace(registry); err != nil {
		return err
	}
	meter := newRunMeter(registry)

	notifier := stream.NewLocalNotifier()
	l.hub = stream.New(memtable.New(machine.Now), notifier, machine, log)
	l.executor = &transition.Executor{
		Store: l.store, Queue: l.queues, Notifier: notifier, Host: machine, Log: log,
		Caps: l.tenants.Caps, StartDeadline: s.StartDeadline, ProcessID: machine.NewID(),
		OnTransition: meter.transition,
	}
	ingester, err := l.ingester(ctx, newKnowledgeMeter(registry))
	if err != nil {
		return err
	}
	hooks := &webhook.Sender{
		Sealer: l.sealer, Store: l.store, Host: machine, Client: policy.Client(time.Minute), Log: log,
		Secret: s.WebhookSecret, ProcessID: l.executor.ProcessID, OnAttempt: meter.delivered,
		CitationFilter: l.tenants.SenderReads, Form: a2a.Notification,
	}
	l.server = service.New(service.Config{
		Config: httpapi.Config{
			Tenants: l.tenants, Host: machine, Log: log, Tracer: l.tracer, Metrics: registry, MaxBody: s.MaxBody,
			PublicURL: s.PublicURL, Streams: s.Streams, Connections: s.Connections,
			AnonymousConnections: s.AddressConnections, Wakeup: l.sendWakeup,
			Shares: httpapi.Shares{Organization: s.OrganizationStreams, User: s.UserStreams, Key: s.KeyStreams},
		},
		Intake: &intake.Intake{
			Executor: l.executor, Store: l.store, Tenants: l.tenants, Host: machine, PausedRuns: s.PausedRuns,
			Tools: l.toolkits.Listed,
		},
		MCP:    func(b bridge.Bridge) service.MCP { return &mcpserver.Server{Bridge: b} },
		Sealer: l.sealer, Store: l.store, Files: &files.Files{Store: l.store, Log: log}, Hub: l.hub, Webhooks: hooks,
		Knowledge: ingester.Knowledge, Models: l.models, Toolkits: l.toolkits, ObserveWindow: s.ObserveWindow,
		Heartbeat: s.Heartbeat, Callbacks: policy, Pprof: s.Pprof, ResponseWindow: s.ResponseWindow,
	})
	l.background(l.worker(models, ingester), hooks, ingester)
	l.serve(listener)
	return nil
}

// newRegistry makes a registry that has the metrics of the process.
func newRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}

// open opens the store, makes its direct users, and completes the first start.
func (l *Local) open(ctx context.Context, machine host.Host) error {
	s := l.Settings
	_, size, err := disktable.Usage(s.DataDir)
	if err != nil {
		return err
	}
	forBlobs, forRows := disks(size, l.free)
	blobs, err := dirblob.Open(filepath.Join(s.DataDir, "blobs"), forBlobs)
	if err != nil {
		return err
	}
	l.store = record.New(l.table, blobs, machine).LimitFiles(record.FileLimits{
		User:         record.FileUse{Count: int64(s.UserFiles), Bytes: s.UserFileBytes},
		Organization: record.FileUse{Count: int64(s.OrgFiles), Bytes: s.OrgFileBytes},
	}).WithDisk(forRows, l.noteFull(machine))
	if s.SpreadSlots { // has no use here, but makes the service the same
		l.store = l.store.SpreadSlotsAbove(record.LargeCap)
	}
	if err := l.store.EnsureDeployment(ctx); err != nil {
		return err
	}
	if l.sealer, err = sealerOf(filepath.Join(s.DataDir, "sealing.key")); err != nil {
		return err
	}
	l.models = &provider.Set{Host: machine, Catalogues: registry.Catalogues(s)}
	l.tenants = tenant.New(l.store, l.store.Cached(), machine, tenant.Defaults{
		UserCap: s.UserCap, OrganizationCap: s.OrganizationCap, RateLimit: s.RateLimit, RateBurst: s.RateBurst,
		OrganizationRate: s.OrganizationRateLimit, OrganizationBurst: s.OrganizationRateBurst,
		UserKeys: s.UserAPIKeys, OrganizationKeys: s.OrganizationAPIKeys,
		ActiveLimit: s.ActiveLimit, CheckModel: l.models.Check, Alone: true,
		Tools: func(ctx context.Context, organization string, ids []string) (on, off []tool.Offer, err error) {
			return l.toolkits.ToolsOf(ctx, organization, ids) // made below
		},
	}, l.sealer)
	l.toolkits = &toolkit.Toolkits{Store: l.store, Cached: l.store.Cached(), Host: machine, Sealer: l.sealer}
	if err := adapters.Make(l.toolkits, s); err != nil {
		return err
	}
	return l.firstStart(ctx)
}

// worker makes the worker that executes runs.
func (l *Local) worker(models map[string]model.Model, ingester *ingest.Ingester) *worker.Worker {
	return &worker.Worker{
		Executor: l.executor, Store: l.store, Cached: l.store.Cached(), Hub: l.hub, Host: l.executor.Host, Log: l.log,
		Lease: l.Settings.Lease, PauseExpiry: l.Settings.PauseExpiry, Tick: pollEvery, Drain: drainTime,
		Loop: &agent.Loop{Models: models, Host: l.executor.Host}, Tools: l.toolkits,
		CanAccess: l.tenants.SenderMayReach, CitationFilter: l.tenants.SenderReads, TextOf: reader.Here(l.store),
		Search: ingester.SearchForRun,
	}
}

func (l *Local) sendWakeup(ctx context.Context, kind events.WakeupKind, id, group string) {
	// If it is lost, the sweeper finds the due item.
	_ = l.queues.Send(ctx, queue.Message{Wakeup: events.Wakeup{Kind: kind, ID: id}, Group: group})
}

// firstStart creates the first organization, user, key and agent, and writes the key to a file.
func (l *Local) firstStart(ctx context.Context) error {
	file := filepath.Join(l.Settings.DataDir, "operator.key")
	kept, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	l.Key = strings.TrimSpace(string(kept))
	if l.Key == "" {
		first, err := l.tenants.Bootstrap(ctx)
		if err != nil {
			return fmt.Errorf("the first organization could not be created: %w", err)
		}
		l.Key, l.First = first.Key, true
		if err := writeSecretFile(file, l.Key+"\n"); err != nil {
			return err
		}
	}
	p, bad := l.tenants.Authenticate(ctx, l.Key)
	if bad != nil {
		l.log.Warn("the key in the file is no longer valid", "file", file, "reason", bad)
		return nil
	}
	page, err := record.Resources[catalog.Agent](ctx, l.store, p.Scope(), "", 100)
	if err != nil {
		return err
	}
	for _, e := range page.Rows {
		if e.Value.Spec.Name == "Demo" {
			l.AgentID = e.Value.ID
		}
	}
	return nil
}

// sealerOf reads or creates the file with the key that seals secrets. It is next to the store, so that a copy of only
// the store reveals none.
func sealerOf(file string) (seal.Sealer, error) {
	kept, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err != nil {
		key := make([]byte, seal.KeySize)
		_, _ = rand.Read(key)
		kept = []byte(hex.EncodeToString(key))
		if err := writeSecretFile(file, string(kept)+"\n"); err != nil {
			return nil, err
		}
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(kept)))
	if err != nil {
		return nil, fmt.Errorf("%s does not contain a key: %w", file, err)
	}
	return keyseal.New(key)
}

// writeSecretFile writes a file that only its owner can read, atomically.
func writeSecretFile(path, content string) error {
	tmp, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = tmp.WriteString(content)
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// background starts the workers, the webhook senders, the job runners and the sweeper.
func (l *Local) background(w *worker.Worker, hooks *webhook.Sender, ingester *ingest.Ingester) {
	machine := l.executor.Host
	sweeper := &sweep.Sweeper{Executor: l.executor, Store: l.store, Queue: l.queues, Host: machine, Log: l.log}
	remover := &removal.Remover{
		Executor: l.executor, Store: l.store, Host: machine, Index: ingester.Index, More: ingester.Jobs(),
		Rollups:      &analytics.Analytics{Store: l.store, Host: machine, Log: l.log},
		DeliveryDays: l.Settings.WebhookDays,
	}
	ctx, cancel := context.WithCancel(trace.With(context.Background(), l.tracer))
	l.stop = cancel
	run := func(kind events.WakeupKind, width int, handle dispatch.Handler) {
		l.working.Go(func() { dispatch.Run(ctx, l.queues[kind], width, l.log, handle) })
	}
	pool := dispatch.NewPool(l.queues[events.WakeupRun], int(workers(l.Settings.Workers).All), l.log)
	l.executor.Starter = &worker.Starter{Worker: w, Room: pool.Reserve}
	l.working.Go(func() {
		pool.Run(ctx, func(ctx context.Context, id string) (time.Duration, error) { return 0, w.Handle(ctx, id) })
	})
	run(events.WakeupWebhook, webhooksAtOnce, hooks.Handle)
	run(events.WakeupJob, jobsAtOnce, remover.Handle)
	run(events.WakeupDocument, int(ingesters(l.Settings.IngestWorkers).All), ingester.Handle)
	if l.traces != nil {
		l.working.Go(func() { l.traces.Run(ctx) })
	}
	l.working.Go(func() { l.every(ctx, tidyEvery, l.index.Tidy) })
	l.working.Go(func() {
		l.sweep(ctx, sweeper.Adopt)
		l.every(ctx, sweepEvery, sweeper.Sweep)
	})
}

// every calls sweep at intervals until ctx ends.
func (l *Local) every(ctx context.Context, interval time.Duration, sweep func(context.Context) error) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			l.sweep(ctx, sweep)
		}
	}
}

// sweep runs the sweeper once. The next sweep retries failures.
func (l *Local) sweep(ctx context.Context, sweep func(context.Context) error) {
	died := host.Catch(func() {
		if err := sweep(ctx); err != nil && ctx.Err() == nil {
			l.log.Error("a sweep failed", "error", err)
		}
	})
	if died != nil {
		l.log.Error("a sweep panicked", "panic", died.Value, "stack", string(died.Stack))
	}
}

// reachable is an address that reaches a listener from this machine, also where it listens on all addresses.
func reachable(at net.Addr) string {
	tcp, ok := at.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return at.String()
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(tcp.Port))
}

func (l *Local) serve(listener net.Listener) {
	l.URL = "http://" + reachable(listener.Addr()) + httpapi.Base
	l.Server = l.server.HTTP()
	go func() { l.served <- l.Server.Serve(listener) }()
}

// serveMetrics serves only the metrics at METRICS_ADDR, if that is set.
func (l *Local) serveMetrics(ctx context.Context, registry *prometheus.Registry) error {
	if l.Settings.MetricsAddr == "" {
		return nil
	}
	var listening net.ListenConfig
	listener, err := listening.Listen(ctx, "tcp", l.Settings.MetricsAddr)
	if err != nil {
		return fmt.Errorf("cannot listen on METRICS_ADDR: %w", err)
	}
	routes := http.NewServeMux()
	routes.Handle("GET /metrics", promhttp.HandlerFor(metric.WithFormerNames(registry), promhttp.HandlerOpts{}))
	l.metrics = &http.Server{
		Handler: routes, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
	}
	l.MetricsURL = "http://" + reachable(listener.Addr()) + "/metrics"
	go func() { _ = l.metrics.Serve(listener) }()
	return nil
}

// Wait returns the server's error if it fails, or nil when ctx ends.
func (l *Local) Wait(ctx context.Context) error {
	select {
	case err := <-l.served:
		return err
	case <-ctx.Done():
		return nil
	}
}

// Stop ends the process's work within ten seconds. Requests finish, and streams get their last event. Running runs
// finish the step in progress and are released to the next start. It returns an error if work was still in progress at
// the end of its time, or if the store cannot be closed.
func (l *Local) Stop() error {
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	l.stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.server.Stop()
	}()
	if l.metrics != nil {
		_ = l.metrics.Close()
	}
	err := l.Server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, l.Server.Close())
	}
	<-ended
	if l.traces != nil {
		defer l.lastTraces(began)
	}
	if !within(workTime-time.Since(began), l.working.Wait) {
		return errors.Join(err,
			errors.New("some work did not end in time; it continues at the next start, as after a crash"))
	}
	for _, q := range l.queues {
		q.Close()
	}
	l.index.Close()
	return errors.Join(err, l.table.Close())
}

// within reports whether wait returned within d.
func within(d time.Duration, wait func()) bool {
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		wait()
	}()
	select {
	case <-returned:
		return true
	case <-time.After(d):
		return false
	}
}
