package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/bits"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"agentplatform/events"
	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/model/demomodel"
	"agentplatform/internal/ai/tool"
	"agentplatform/internal/ai/tool/builtintool"
	"agentplatform/internal/knowledge/ingest"
	"agentplatform/internal/org/analytics"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/org/toolkit"
	"agentplatform/internal/proof/faulttable"
	"agentplatform/internal/run/agent"
	"agentplatform/internal/run/files"
	"agentplatform/internal/run/intake"
	"agentplatform/internal/run/removal"
	"agentplatform/internal/run/stream"
	"agentplatform/internal/run/sweep"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/run/webhook"
	"agentplatform/internal/run/worker"
	"agentplatform/internal/store/blob/memblob"
	"agentplatform/internal/store/queue"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
	"agentplatform/internal/store/table/cachetable"
	"agentplatform/internal/store/table/memtable"
	"agentplatform/internal/text/reader"
)

// The parameters of a simulated deployment.
const (
	lease         = 30 * time.Second
	pauseExpiry   = 72 * time.Hour
	startDeadline = 10 * time.Minute
	activeLimit   = 5 * time.Minute
	sweepPeriod   = time.Minute
	userCap       = 2
	orgCap        = 3
)

// world is a deployment: processes over one table, one queue, one webhook receiver.
type world struct {
	*scheduler
	seed    uint64
	work    *rand.Rand    // choices of clients
	chance  *rand.Rand    // choices of faults
	cuts    *rand.Rand    // choices of calls of models that break off
	skew    time.Duration // largest difference of two processes' clocks
	rate    float64       // of faults per call
	faults  map[string]int
	counted map[string]int // events in worlds with floods
	inner   *memtable.Table
	blobs   *memblob.Store
	frames  *memtable.Table
	trouble time.Duration // duration of clients' activity and of faults
	quiet   bool          // faults have ended
	away    time.Time     // until then the workers of worlds with floods accept no work
	// models misbehave and panic, users leave, the streams' table hangs: in every other world, as less gets done there
	strange     bool
	queueDown   bool
	streamsBack time.Time // until then the streams' table hangs
	queue       *bag
	checker     *checker
	pushes      map[string][]received
	effects     map[string]int // unsafe tool calls by key

	processes []*deployment
	people    []tenant.Principal
	left      map[string]bool     // deleted users, alone or with their organization
	files     map[string][]string // uploaded files, by organization
	agents    []string            // by organization: never, always
	modes     map[string]string   // of approval, by agent
	kits      [][2]string         // toolkits of the server's tools, by organization
	// rights, in four of eight worlds, where they change; nil: everybody has every right
	powers  *powers
	server  *server  // of tools, in every other pair of worlds; nil: the tools are the process's own
	library *library // in worlds with documents
	books   *books   // in worlds with accountants
	clients int
	atOnce  int // runs that were stored with a claim of the process that accepted them
	touched []table.Op
	sent    int // messages
}

// deployment is one process of the service.
type deployment struct {
	*process
	machine  *machine
	store    *record.Store
	intake   *intake.Intake
	worker   *worker.Worker
	sweeper  *sweep.Sweeper
	sender   *webhook.Sender
	remover  *removal.Remover
	hub      *stream.Hub
	executor *transition.Executor
	turns    *turns // in worlds with floods
	files    *files.Files
	tenants  *tenant.Tenants
	toolkits *toolkit.Toolkits
	ingester *ingest.Ingester // in worlds with documents
	accounts *analytics.Analytics
	replaced bool

	remembers bool // it caches for a while the owners of keys, and agents
}

func newWorld(seed uint64, rate float64) *world {
	s := newScheduler(seed)
	w := &world{
		scheduler: s, seed: seed, rate: rate, strange: seed/4%2 == 1, work: rand.New(rand.NewPCG(seed, 2)),
		chance: rand.New(rand.NewPCG(seed, 3)), cuts: newCuts(seed),
		faults: map[string]int{}, modes: map[string]string{}, blobs: &memblob.Store{}, pushes: map[string][]received{},
		effects: map[string]int{}, counted: map[string]int{},
		left: map[string]bool{}, files: map[string][]string{}, trouble: 20 * time.Minute,
	}
	clock := func() time.Time { return s.now }
	w.inner, w.frames = memtable.New(clock), memtable.New(clock)
	w.queue = &bag{world: w}
	w.checker = newChecker(w)
	if seed/8%2 == 1 {
		w.server = newServer(w)
	}
	switch {
	case seed%512 >= 480: // a skew that no operator would tolerate
		w.skew = 10 * time.Minute
	case seed/32%2 == 1:
		w.skew = 4 * time.Second
	}
	if seed/16%2 == 1 {
		w.powers = &powers{world: w, groups: map[string]string{}, texts: map[string]text{}, past: map[string][]rights{},
			paused: map[string]catalog.AgentSpec{}}
	}
	if hasLibrary(seed) {
		w.library = newLibrary(w)
	}
	if hasAccountants(seed) {
		w.books = newBooks(w)
	}
	return w
}

func (w *world) toolkits(box *toolbox, store *record.Store) *toolkit.Toolkits {
	return &toolkit.Toolkits{Store: store, Cached: store.Cached(), Host: box.machine,
		Kinds: map[string]tool.Kind{toolkit.Builtin: box.builtin, "mcp": hostile{box}}}
}

func (w *world) tenants(m *machine, store *record.Store, known record.CachedReader) *tenant.Tenants {
	return tenant.New(store, known, m, tenant.Defaults{
		UserCap: userCap, OrganizationCap: orgCap, RateLimit: 1, RateBurst: 1, ActiveLimit: activeLimit,
	}, nil) // no secrets are set here
}

// found makes the tenants: two organizations, the first with two users, each with two agents.
func (w *world) found() {
	founder := &process{name: "founder"}
	m := &machine{scheduler: w.scheduler, process: founder, work: w.work}
	w.spawn(founder, "founder", func(*actor) {
		ctx := context.Background()
		store := record.New(w.inner, w.blobs, m)
		tenants := w.tenants(m, store, store.Cached())
		for _, users := range []int{2, 1} {
			name, visibility := "org", catalog.SeesAll
			if hasSight(w.seed) {
				visibility = w.visibility()
			}
			o, err := tenants.CreateOrganization(ctx, tenant.OrganizationEdit{Name: &name, Visibility: &visibility})
			must(err)
			kit := ""
			if w.server != nil {
				kit = w.server.found(ctx, w.toolkits(&toolbox{builtintool.New(m), w, founder, m}, store), o.Value.ID)
				w.kits = append(w.kits, [2]string{o.Value.ID, kit})
			}
			group, level, role := "", tenant.LevelAdmin, string(tenant.Admin)
			if w.powers != nil {
				group, level, role = w.powers.found(ctx, tenants, o.Value.ID), tenant.LevelRun, string(tenant.Member)
			}
			for _, mode := range []string{"never", "always"} {
				spec := tenants.DefaultSpec(o.Value.ID)
				spec.Name, spec.Approval.Mode = mode, mode
				if hasVoice(w.seed) {
					spec.Model.Provider = voiced
				}
				if hasVoice(w.seed) && mode == "always" {
					spec.OutputSchema = json.RawMessage(cities)
				}
				if group != "" && mode == "never" {
					spec.GroupIDs = append(spec.GroupIDs, group)
				}
				if group != "" && mode == "always" {
					spec.ApproverGroupIDs = append(spec.ApproverGroupIDs, group)
				}
				if kit != "" {
					spec.ToolkitIDs = append(spec.ToolkitIDs, kit)
				}
				a, err := tenants.CreateAgent(ctx, o.Value.ID, spec, true)
				must(err)
				w.agents = append(w.agents, a.Value.ID)
				w.modes[a.Value.ID] = mode
			}
			for range users {
				email := fmt.Sprintf("u%d@example.com", len(w.people))
				edit := tenant.UserEdit{Email: &email, Role: &role, Budget: budgetOf(w.seed)}
				if group != "" {
					edit.GroupIDs = &[]string{group}
				}
				u, err := tenants.CreateUser(ctx, tenant.Platform(), o.Value.ID, edit)
				must(err)
				k, text, err := tenants.CreateKey(ctx, tenant.Platform(), record.Of(o.Value.ID),
					tenant.NewKey{Name: "k", UserID: u.Value.ID, Level: level})
				must(err)
				p, err := tenants.Authenticate(ctx, text)
				must(err)
				w.people = append(w.people, p)
				if w.powers != nil {
					w.powers.hand(u.Value.ID, newText(k.Value.ID, text))
				}
			}
		}
	})
	w.run(w.now.Add(time.Second), func() {})
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// deploy starts a process.
func (w *world) deploy(name string) {
	p := &process{name: name}
	m := &machine{scheduler: w.scheduler, process: p, work: w.work}
	d := &deployment{process: p, machine: m}
	version := table.Table(w.inner)
	if len(w.processes)%2 == 1 {
		version = later{w.inner} // a rolling deployment: every other process runs the next version
	}
	faulty := &faulttable.Table{
		Inner: version, Sleep: m.Sleep, Delay: 3 * time.Second,
		Before: func(c faulttable.Call) faulttable.Fault {
			w.port(p, "table")
			if c.Commit {
				w.touched = c.Ops
			}
			if c.Commit && w.books != nil {
				w.books.linger(c.Ops)
			}
			return w.tableFault(c)
		},
		After: func(c faulttable.Call) {
			if c.Commit { // after a read, the next call is where the turn may be lost
				for _, op := range c.Ops {
					w.logf("committed: %s %s", [...]string{"put", "delete", "check"}[op.Kind], op.Item.Key)
				}
				w.checker.committed(w.inner, c.Ops)
				w.port(p, "table done")
			}
		},
	}
	log := slog.New(slog.DiscardHandler)
	if w.log != nil {
		options := &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: withoutTime}
		log = slog.New(slog.NewTextHandler(w.scheduler, options))
	}
	d.store = record.New(faulty, &bucket{w.blobs, w, p}, m)
	if w.seed%8 == 7 {
		d.store = d.store.SpreadSlotsAbove(0)
	}
	known := d.store.Cached()
	if w.powers != nil && len(w.processes)%2 == 0 { // as where a store is far away
		d.remembers = true
		known = record.New(cachetable.New(faulty, cachetable.Life{Found: remembered, Missing: 5 * time.Second},
			m.Elapsed), &bucket{w.blobs, w, p}, m).Cached()
	}
	tenants := w.tenants(m, d.store, known)
	d.tenants, d.files = tenants, &files.Files{Store: d.store, Log: log}
	frames := &faulttable.Table{
		Inner: w.frames, Sleep: m.Sleep, Delay: 24 * time.Hour, // no caller waits that long: it hangs
		Before: func(faulttable.Call) faulttable.Fault { return w.streamFault(p) },
		After:  func(c faulttable.Call) { w.checker.shown(c.Ops) },
	}
	d.hub = stream.New(frames, stream.Polling{Every: time.Second}, m, log)
	d.executor = &transition.Executor{
		Store: d.store, Queue: &portal{w, p, nil}, Timer: &portal{w, p, nil}, Notifier: stream.Polling{}, Host: m,
		Log: log, Caps: tenants.Caps, StartDeadline: startDeadline,
	}
	d.intake = &intake.Intake{Executor: d.executor, Store: d.store, Tenants: tenants, Host: m,
		PausedRuns: w.pausedRuns()}
	box := &toolbox{builtintool.New(m), w, p, m}
	d.toolkits = w.toolkits(box, d.store)
	d.worker = &worker.Worker{
		Executor: d.executor, Store: d.store, Cached: known, Hub: d.hub, Host: m, Log: log, Lease: lease,
		PauseExpiry: pauseExpiry, Tick: 2 * time.Second, ReleaseAfter: 40 * time.Second, Drain: 5 * time.Second,
		Loop: &agent.Loop{
			Models: map[string]model.Model{
				"demo": witness{&meter{&liar{shaky{demomodel.New(m), w}, w}, w}, w},
				voiced: witness{&meter{&liar{shaky{&voice{demomodel.New(m), w}, w}, w}, w}, w},
			},
			Host: m,
		},
		Tools: box, CanAccess: tenants.SenderMayReach, CitationFilter: tenants.SenderReads,
		TextOf: reader.Here(d.store),
	}
	d.intake.Tools = box.Open
	if w.server != nil {
		d.intake.Tools = d.toolkits.Listed
		d.worker.Tools = opener{d.toolkits, w.server}
	}
	if startsAtOnce(w.seed) {
		d.executor.Starter = &worker.Starter{Worker: d.worker, Room: w.room(d)}
	}
	if hasFloods(w.seed) {
		w.alone(d)
	}
	d.sweeper = &sweep.Sweeper{Executor: d.executor, Store: d.store, Queue: d.executor.Queue, Host: m, Log: log}
	d.sender = &webhook.Sender{Store: d.store, Host: m, Client: &postman{w, p, m}, Log: log, Secret: "s"}
	d.remover = &removal.Remover{Executor: d.executor, Store: d.store, Host: m, DeliveryDays: 90}
	if w.library != nil {
		d.ingester = w.library.ingester(d, log)
		d.remover.Index, d.remover.More = d.ingester.Index, d.ingester.Jobs()
	}
	if w.books != nil {
		d.account()
	}
	for n := range 3 {
		w.spawn(p, fmt.Sprintf("%s worker %d", name, n), func(a *actor) { w.consume(a, d) })
	}
	if w.skew > 0 {
		w.stray(p)
	}
	w.spawn(p, name+" sweeper", func(a *actor) { w.sweep(a, d) })
	w.processes = append(w.processes, d)
}

// startsAtOnce reports whether the processes of a world execute the runs that they accept. They do in half of the
// worlds of every kind.
func startsAtOnce(seed uint64) bool { return bits.OnesCount64(seed)%2 == 1 }

// stray sets a process's clock wrong, and moves it forward or back from time to time. It differs from the right time by
// at most half of the skew.
func (w *world) stray(p *process) {
	if w.quiet || p.dead {
		return
	}
	p.astray = time.Duration(w.chance.Int64N(int64(w.skew))) - w.skew/2
	w.count("clock set")
	w.note("clock set", int(p.astray))
	w.at(w.now.Add(time.Duration(w.chance.Int64N(int64(6*time.Minute)))), func() { w.stray(p) })
}

// bucket is a process's connection to the blob store.
type bucket struct {
	*memblob.Store
	world   *world
	process *process
}

func (b *bucket) Put(ctx context.Context, key string, r io.Reader, limit int64) (int64, error) {
	b.world.port(b.process, "blob")
	if b.fails(key) {
		return 0, errUnreachable
	}
	n, err := b.Store.Put(ctx, key, r, limit)
	b.world.port(b.process, "blob done")
	return n, err
}

func (b *bucket) DeleteAll(ctx context.Context, below string) error {
	b.world.port(b.process, "blobs")
	if b.world.maybe("blob store unreachable") {
		return errUnreachable
	}
	if err := b.Store.DeleteAll(ctx, below); err != nil {
		return err
	}
	b.world.checker.dropped(below)
	b.world.port(b.process, "blobs done")
	return nil
}

// later is the table as used by a later version of the program, which has another member in the head items of runs
// and chats. Processes of this version must preserve it.
type later struct{ *memtable.Table }

const laterMember = `"later":{"of":"the next version"}`

func (l later) Commit(ctx context.Context, token string, ops ...table.Op) error {
	ops = slices.Clone(ops)
	for i := range ops {
		body := ops[i].Item.Body
		if ops[i].Kind == table.PutOp && hasLater(ops[i].Item.Key) && !bytes.Contains(body, []byte(laterMember)) {
			own := *ops[i].Item
			own.Body = slices.Concat([]byte("{"+laterMember+","), bytes.TrimPrefix(body, []byte("{")))
			ops[i].Item = &own
		}
	}
	return l.Table.Commit(ctx, token, ops...)
}

func hasLater(key table.Key) bool {
	return key.Sort == "head" && (strings.HasPrefix(key.Part, "run/") || strings.HasPrefix(key.Part, "chat/"))
}

// withoutTime leaves the machine's time out of a line of the log: the world has its own.
func withoutTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

// port marks a point at which another actor may run, and the process may die.
func (w *world) port(p *process, what string) {
	a := w.awake
	if p.dead {
		die()
	}
	w.logf("%s", what)
	if !w.quiet && w.chance.Float64() < w.rate/20 {
		w.count("crash")
		p.dead = true
		w.note("crash at "+what, 0)
		die()
	}
	if !w.quiet && w.chance.Float64() < w.rate/20 {
		w.count("freeze")
		still := time.Duration(w.chance.Int64N(int64(3 * lease)))
		// where a lease has ended by one clock and not by another
		if w.skew > 0 && w.skew < lease && w.chance.IntN(2) == 0 {
			still = lease - time.Duration(w.chance.Int64N(int64(w.skew)))
		}
		w.logf("freeze for %s", still)
		p.frozen = w.now.Add(still)
	}
	w.yield(a)
}

func (w *world) count(fault string) { w.faults[fault]++ }

// maybe draws a fault.
func (w *world) maybe(name string) bool {
	if w.quiet || w.chance.Float64() >= w.rate {
		return false
	}
	w.count(name)
	w.note(name, 0)
	return true
}

func (w *world) tableFault(c faulttable.Call) faulttable.Fault {
	if w.quiet || w.chance.Float64() >= w.rate {
		return faulttable.None
	}
	all := faulttable.Faults()
	f := all[1+w.chance.IntN(len(all)-1)]
	w.count("table " + f.String())
	w.note(f.String(), len(c.Ops))
	if !c.Commit {
		w.logf("the fault is that of a read, which fails")
	}
	return f
}

// streamFault makes the streams' table hang for minutes, for all readers and writers, or fail once. Only writers of
// frames and checks for readers are affected here. The final text of readers is checked.
func (w *world) streamFault(p *process) faulttable.Fault {
	if p.dead {
		die()
	}
	if !w.quiet && w.strange && w.chance.Float64() < w.rate/20 {
		w.count("frames hang")
		w.note("frames hang", 0)
		w.streamsBack = w.now.Add(time.Duration(w.chance.Int64N(int64(3 * lease))))
	}
	switch {
	case w.quiet:
		return faulttable.None
	case w.streamsBack.After(w.now):
		return faulttable.Slow
	case w.maybe("frames down"):
		return faulttable.Down
	default:
		return faulttable.None
	}
}

// portal is a process's connection to the queue and the timer.
type portal struct {
	*world
	process *process
	turns   *turns // of the process; nil: it has none
}

var errUnreachable = errors.New("unreachable")

func (q *portal) Send(_ context.Context, m queue.Message) error {
	q.port(q.process, "queue")
	if q.turns != nil && m.Wakeup.Kind == events.WakeupRun {
		return q.turns.send(m)
	}
	if q.queueDown || q.maybe("queue unreachable") {
		return errUnreachable
	}
	if q.maybe("nudge lost") {
		return nil
	}
	delay := time.Duration(q.chance.Int64N(int64(50 * time.Millisecond)))
	if q.maybe("nudge delayed") {
		delay = time.Duration(q.chance.Int64N(int64(12 * time.Hour)))
	}
	q.deliver(m, delay)
	if q.maybe("nudge doubled") {
		q.deliver(m, time.Duration(q.chance.Int64N(int64(time.Hour))))
	}
	if q.maybe("nudge sent, answer lost") {
		return errUnreachable
	}
	return nil
}

// deliver puts a message into the queue after a delay, by an alarm.
func (w *world) deliver(m queue.Message, after time.Duration) {
	w.queue.put(m, after)
	w.at(w.now.Add(after), func() {})
}

func (q *portal) At(_ context.Context, _ string, at time.Time, m queue.Message) error {
	q.port(q.process, "timer")
	if q.maybe("timer unreachable") {
		return errUnreachable
	}
	if q.maybe("timer lost") {
		return nil
	}
	after := at.Sub(q.now)
	if q.maybe("timer early") {
		after = time.Duration(q.chance.Int64N(int64(after) + 1))
	}
	if q.maybe("timer late") {
		after += time.Duration(q.chance.Int64N(int64(time.Hour)))
	}
	q.deliver(m, after)
	if q.maybe("timer twice") {
		q.deliver(m, after+time.Duration(q.chance.Int64N(int64(time.Hour))))
	}
	return nil
}

func (q *portal) Stop(context.Context, string) error {
	q.port(q.process, "timer")
	return nil // always too late: the timer that it would have stopped must do no harm
}

// consume is a worker's loop: one wakeup at a time.
func (w *world) consume(a *actor, d *deployment) {
	for {
		w.until(a, w.queue.ready)
		m, ok := w.queue.take()
		if !ok {
			continue
		}
		w.note(m.Wakeup.ID, 0)
		var again time.Duration
		var err error
		ctx := context.Background()
		switch m.Wakeup.Kind {
		case events.WakeupRun:
			err = d.worker.Handle(ctx, m.Wakeup.ID)
			w.checker.left(a, m.Wakeup.ID)
		case events.WakeupWebhook:
			again, err = d.sender.Handle(ctx, m.Wakeup.ID)
		case events.WakeupJob:
			again, err = d.remover.Handle(ctx, m.Wakeup.ID)
		case events.WakeupDocument:
			w.library.documents.handled[a] = m.Wakeup.ID
			again, err = d.ingester.Handle(ctx, m.Wakeup.ID)
			w.checker.left(a, m.Wakeup.ID)
		}
		if err != nil && w.work.IntN(2) == 0 {
			again = 2 * time.Second
		}
		if again > 0 {
			w.deliver(m, again)
		}
	}
}

// sweep is the sweeper's loop. When nothing is due for long, it skips the sweeps that would find nothing.
func (w *world) sweep(a *actor, d *deployment) {
	if d.turns != nil {
		_ = d.sweeper.Adopt(context.Background())
	}
	for {
		wait := sweepPeriod
		if next, ok := w.checker.nextDue(); ok {
			wait = max(wait, next.Sub(w.now))
		} else {
			wait = 24 * time.Hour
		}
		if w.quiet && wait > sweepPeriod {
			// Something may become due sooner: check again then.
			until := w.now.Add(wait)
			w.at(until, func() {})
			seen := w.checker.commits
			w.until(a, func() bool { return !w.now.Before(until) || w.checker.commits != seen })
			if w.checker.commits != seen {
				_ = w.sleep(a, context.Background(), sweepPeriod)
			}
		} else {
			_ = w.sleep(a, context.Background(), w.pause(d.process))
		}
		_ = d.sweeper.Sweep(context.Background())
	}
}

// pause returns the time between two sweeps. Where clocks differ, some sweeps run exactly when the next thing is due by
// the process's own clock.
func (w *world) pause(p *process) time.Duration {
	next, ok := w.checker.nextDue()
	if w.skew == 0 || w.skew > lease || !ok || w.work.IntN(2) == 0 {
		return sweepPeriod
	}
	return min(sweepPeriod, max(time.Second, next.Sub(w.now.Add(p.astray))))
}

// received is a webhook request at the receiver.
type received struct {
	id, body string
	at       time.Time
	ok       bool
}

// postman is the HTTP client for webhooks, including the receiver.
type postman struct {
	*world
	process *process
	machine *machine
}

func (p *postman) Do(r *http.Request) (*http.Response, error) {
	p.port(p.process, "webhook")
	if p.maybe("receiver unreachable") {
		return nil, errUnreachable
	}
	if p.maybe("receiver hangs") {
		_ = p.machine.Sleep(r.Context(), time.Hour)
		return nil, context.DeadlineExceeded
	}
	if err := r.Context().Err(); err != nil {
		return nil, err // the process was suspended until its deadline
	}
	body, _ := io.ReadAll(r.Body)
	status := http.StatusOK
	switch {
	case p.maybe("receiver 5xx"):
		status = http.StatusBadGateway
	case p.maybe("receiver 4xx"):
		status = http.StatusGone
	}
	push := received{id: r.Header.Get("Webhook-Id"), body: string(body), at: p.now, ok: status == http.StatusOK}
	var b events.Webhook
	must(json.Unmarshal(body, &b))
	p.checker.pushed(b, push)
	p.port(p.process, "webhook done")
	if p.maybe("receiver's reply lost") {
		return nil, errUnreachable
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader("ok")), Header: http.Header{}}, nil
}
