package explore

import (
	"context"
	"fmt"
	"hash/maphash"
	"log/slog"
	"slices"
	"time"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/model/demomodel"
	"agentplatform/internal/ai/tool"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/run/agent"
	"agentplatform/internal/run/intake"
	"agentplatform/internal/run/stream"
	"agentplatform/internal/run/sweep"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/run/worker"
	"agentplatform/internal/store/blob/memblob"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
	"agentplatform/internal/store/table/memtable"
	"agentplatform/internal/text/reader"
)

// The parameters of a small deployment.
const (
	lease         = 30 * time.Second
	pauseExpiry   = 72 * time.Hour
	startDeadline = 10 * time.Minute
	orgCap        = 2
)

// World is a small deployment to explore.
type World struct {
	Name    string
	Clients []Script
	Workers int
	UserCap int
	Faults  Faults
	// TakesBack means that parked messages are withdrawn in this world.
	TakesBack bool
	// Deletes means that chats are deleted in this world.
	Deletes bool
	// FollowsUp means that messages are added to runs by id. Such runs never complete by themselves.
	FollowsUp bool
	// SharesKeys means that two clients send messages with the same idempotency key.
	SharesKeys bool
}

// Report is the result of an exploration.
type Report struct {
	States, Distinct int // visited; with different tables
	Ends, Depth      int
	Complete         bool   // all states were visited
	Violation        string // with the path to it; empty: none
}

// world is a World during exploration.
type world struct {
	World

	seed  maphash.Seed
	fixed *memtable.Table
	blobs *memblob.Store
	who   tenant.Principal
	agent string

	nodes    map[string]*node // the beginnings of lives
	alike    map[uint64]*node // all other nodes, by name
	turns    map[turn]turned
	overdues map[turn]bool
	visited  map[uint64]struct{}
	checked  map[uint64]struct{} // of tables
	drained  map[uint64]struct{}
	path     []step // to the current state
	limit    int
	report   Report
}

// step is a choice that was made in a state.
type step struct {
	state  *state
	choice choice
}

// deployment is a process: everything in it uses the tape of its only actor.
type deployment struct {
	store   *record.Store
	intake  *intake.Intake
	worker  *worker.Worker
	sweeper *sweep.Sweeper
}

func (w *world) deploy(t *tape) *deployment {
	d := &deployment{store: record.New(t, w.blobs, t)}
	log := slog.New(slog.DiscardHandler)
	tenants := w.tenants(d.store, t)
	executor := &transition.Executor{Store: d.store, Queue: t, Timer: t, Notifier: stream.Polling{}, Host: t, Log: log,
		Caps: tenants.Caps, StartDeadline: startDeadline}
	d.intake = &intake.Intake{Executor: executor, Store: d.store, Tenants: tenants, Host: t}
	d.worker = &worker.Worker{
		Executor: executor, Store: d.store, Cached: d.store.Cached(),
		Hub:  stream.New(nil, stream.Polling{Every: time.Second}, t, log),
		Host: t, Log: log, Lease: lease, PauseExpiry: pauseExpiry,
		Tick: lease, Loop: &agent.Loop{Models: map[string]model.Model{"demo": demomodel.New(t)}, Host: t},
		Tools:     toolbox{},
		CanAccess: tenants.SenderMayReach, CitationFilter: tenants.SenderReads,
		TextOf: reader.Here(d.store),
	}
	d.sweeper = &sweep.Sweeper{Executor: executor, Store: d.store, Queue: t, Host: t, Log: log}
	return d
}

// toolbox is empty: the scripts' messages use no tools.
type toolbox struct{}

func (toolbox) Open(context.Context, string, []string) ([]tool.Offer, error)   { return nil, nil }
func (toolbox) Listed(context.Context, string, []string) ([]tool.Offer, error) { return nil, nil }

func (w *world) tenants(store *record.Store, h host.Host) *tenant.Tenants {
	return tenant.New(store, store.Cached(), h, tenant.Defaults{
		UserCap: w.UserCap, OrganizationCap: orgCap, RateLimit: 1, RateBurst: 1, ActiveLimit: 5 * time.Minute,
	}, nil)
}

// found makes an organization with a user and an agent, which do not change.
func (w *world) found() error {
	ctx, h := context.Background(), &tape{life: &life{name: "founder"}}
	store := record.New(w.fixed, w.blobs, h)
	tenants := w.tenants(store, h)
	name, email, role := "o", "a@example.com", string(tenant.Admin)
	o, err := tenants.CreateOrganization(ctx, tenant.OrganizationEdit{Name: &name})
	if err != nil {
		return err
	}
	spec := tenants.DefaultSpec(o.Value.ID)
	spec.Name = "a"
	a, err := tenants.CreateAgent(ctx, o.Value.ID, spec, true)
	if err != nil {
		return err
	}
	w.agent = a.Value.ID
	u, err := tenants.CreateUser(ctx, tenant.Platform(), o.Value.ID, tenant.UserEdit{Email: &email, Role: &role})
	if err != nil {
		return err
	}
	_, key, err := tenants.CreateKey(ctx, tenant.Platform(), record.Of(o.Value.ID),
		tenant.NewKey{Name: "k", UserID: u.Value.ID, Level: tenant.LevelAdmin})
	if err != nil {
		return err
	}
	if w.who, err = tenants.Authenticate(ctx, key); err != nil {
		return err
	}
	var jobs []table.Op // of the setup; no process runs them here
	w.fixed.All(func(i *table.Item) {
		if !i.Due.IsZero() {
			jobs = append(jobs, table.Delete(i.Key, table.Always()))
		}
	})
	return w.fixed.Commit(ctx, "founded", jobs...)
}

// Lives.

func (w *world) begin(l *life) *node {
	if n, known := w.nodes[l.name]; known {
		return n
	}
	n := follow(l, nil, w.fixed)
	w.nodes[l.name] = n
	return n
}

// next returns the node that an actor reaches when its call returns.
func (w *world) next(n *node, s seen) *node {
	name := s.hash(w.seed)
	if known, there := n.after[name]; there {
		return known
	}
	after := follow(n.life, append(n.path[:len(n.path):len(n.path)], s), w.fixed)
	after.name = after.named(w.seed)
	if alike, there := w.alike[after.name]; there {
		after = alike
	}
	w.alike[after.name], n.after[name] = after, after
	return after
}

// handling returns the life of a worker's handling of a wakeup that was received n times before.
func (w *world) handling(run string, n int) *life {
	return &life{name: fmt.Sprintf("nudge %s %d", run, n), works: true, lead: func(t *tape) any {
		_ = w.deploy(t).worker.Handle(context.Background(), run)
		return nil
	}}
}

func (w *world) sweep(now time.Duration) *life {
	return &life{name: fmt.Sprintf("sweep at %s", now), lead: func(t *tape) any {
		_ = w.deploy(t).sweeper.Sweep(context.Background())
		return nil
	}}
}

// Script makes a client's requests. It is run repeatedly over its observations, so it must depend on nothing else.
type Script func(c *Client)

// Client makes requests. When a process dies during a request, the client makes the same request to the next
// process.
type Client struct {
	world     *world
	tape      *tape
	name      string
	at        int // number of the request
	keys      int
	run       string    // that it found to be active
	parked    [2]string // the run that it is parked behind, and its own id
	again     bool      // the request is repeated, as a process died
	confirmed confirmed
}

// confirmed has a client's knowledge from responses.
type confirmed struct {
	accepted  []string // messages, by the ids of the runs that they are or will become
	cancelled []string
	withdrawn []string
	deleted   bool     // a chat, with everything in it
	resumed   []string // pauses that it ended
}

func (w *world) client(n int, script Script) *life {
	name := fmt.Sprintf("client %d", n)
	return &life{name: name, lead: func(t *tape) any {
		c := &Client{world: w, tape: t, name: name}
		script(c)
		return c.confirmed
	}}
}

// request repeats a request until there is a response.
func (c *Client) request(do func(ctx context.Context, d *deployment)) {
	c.at++
	c.again = false
	for before := c.confirmed; ; c.again = true {
		died := false
		func() {
			defer func() {
				r := recover()
				if _, ok := r.(crashed); r != nil && !ok {
					panic(r)
				}
				if died = r != nil; died {
					c.confirmed = before // it got no response to the completed request
				}
			}()
			c.tape.rest(fmt.Sprint(c.at, c.again, c.keys, c.parked, c.run, c.confirmed))
			do(context.Background(), c.world.deploy(c.tape))
			c.tape.call(call{kind: answer})
		}()
		if !died {
			return
		}
	}
}

// Post sends a message with a key of its own.
func (c *Client) Post(chat, text string, enqueue bool) {
	c.keys++
	m := intake.Message{AgentID: c.world.agent, Text: text, ChatID: chat, Enqueue: enqueue,
		Key: fmt.Sprintf("%s-%d", c.name, c.keys)}
	c.post(m, "chat_busy", "parked_queue_full", "user_concurrency_cap", "organization_concurrency_cap")
}

// PostAs sends a message with a key that other clients use as well. The message must not be refused.
func (c *Client) PostAs(key, chat, text string) {
	c.post(intake.Message{AgentID: c.world.agent, Text: text, ChatID: chat, Key: key})
}

func (c *Client) post(m intake.Message, refusals ...string) {
	var posted intake.Posted
	var err error
	c.request(func(ctx context.Context, d *deployment) { posted, err = d.intake.Post(ctx, c.world.who, m) })
	switch {
	case err != nil:
		c.expect(err, refusals...)
	case posted.Parked != nil:
		c.confirmed.accepted = append(c.confirmed.accepted, posted.Parked.ParkedID)
		c.parked = [2]string{posted.Run.RunID, posted.Parked.ParkedID}
	default:
		c.confirmed.accepted = append(c.confirmed.accepted, posted.Run.RunID)
	}
}

// active finds the active run of a chat, if any.
func (c *Client) active(chat string) bool {
	c.request(func(ctx context.Context, d *deployment) {
		c.run = ""
		if e, found, err := d.store.FindChat(ctx, c.world.who.Scope(), chat); err == nil && found {
			c.run = e.Value.ActiveRun
		}
	})
	return c.run != ""
}

// Cancel cancels the active run of a chat.
func (c *Client) Cancel(chat string) {
	if !c.active(chat) {
		return
	}
	c.request(func(ctx context.Context, d *deployment) {
		e, err := d.intake.Cancel(ctx, c.world.who, c.run, "")
		c.expect(err)
		if e.Value.Status.Active() || e.Value.Status == lifecycle.Cancelled {
			c.confirmed.cancelled = append(c.confirmed.cancelled, c.run)
		}
	})
}

// Withdraw withdraws the message that the client parked last.
func (c *Client) Withdraw() {
	if c.parked[1] == "" {
		return
	}
	c.request(func(ctx context.Context, d *deployment) {
		err := d.intake.Withdraw(ctx, c.world.who, c.parked[0], c.parked[1])
		// It may have been removed before: by a process that died, by a commit with unknown outcome, or with the
		// chat.
		mayHaveGone := c.again || c.world.Faults.Unanswered > 0 || c.world.Deletes
		if !mayHaveGone || !problem.Is(err, "not_found") {
			c.expect(err, "already_started")
		}
		if err == nil || problem.Is(err, "not_found") {
			c.confirmed.withdrawn = append(c.confirmed.withdrawn, c.parked[1])
		}
	})
}

// Delete deletes a chat with an active run.
func (c *Client) Delete(chat string) {
	if !c.active(chat) {
		return
	}
	c.request(func(ctx context.Context, d *deployment) {
		_, err := d.intake.DeleteChat(ctx, c.world.who, chat)
		if !c.again || !problem.Is(err, "not_found") { // the process that died may have done it
			c.expect(err)
		}
		c.confirmed.deleted = true
	})
}

// expect checks that an error is nil or has one of the codes that the contract allows.
func (c *Client) expect(err error, codes ...string) {
	if err != nil && !slices.ContainsFunc(codes, func(code string) bool { return problem.Is(err, code) }) {
		c.world.violated("%s got an answer that it must not get: %v", c.name, err)
	}
}

// Resume answers the question of a chat's run, if it is paused.
func (c *Client) Resume(chat string) {
	if !c.active(chat) {
		return
	}
	c.request(func(ctx context.Context, d *deployment) {
		e, err := d.store.LiveRun(ctx, c.world.who.Scope(), c.run)
		if err != nil || len(e.Value.Interrupts) == 0 {
			return
		}
		list := []record.Decision{{InterruptID: e.Value.Interrupts[0].ID, Decision: string(lifecycle.Answer),
			Message: "this"}}
		_, err = d.intake.Resume(ctx, c.world.who, c.run, c.name, list, nil, nil)
		c.expect(err, "not_awaiting_input", "interrupts_mismatch")
		if err == nil {
			c.confirmed.resumed = append(c.confirmed.resumed, fmt.Sprintf("%s/%d", c.run, e.Value.Pause))
		}
	})
}

// Followup adds a message to the active run of a chat.
func (c *Client) Followup(chat, text string) {
	if !c.active(chat) {
		return
	}
	c.keys++
	key := fmt.Sprintf("%s-%d", c.name, c.keys)
	c.request(func(ctx context.Context, d *deployment) {
		posted, err := d.intake.Followup(ctx, c.world.who, c.run, text, key)
		c.expect(err, "run_not_active", "parked_queue_full")
		if err == nil {
			c.confirmed.accepted = append(c.confirmed.accepted, posted.Parked.ParkedID)
		}
	})
}

// The search.

// stuck ends the search at a violation.
type stuck string

func (w *world) violated(format string, args ...any) { panic(stuck(fmt.Sprintf(format, args...))) }

// Explore visits the states of a world, at most limit. Violations are in the report; the error is of the setup.
func Explore(what World, limit int) (report Report, err error) {
	w := &world{
		World: what, seed: maphash.MakeSeed(), blobs: &memblob.Store{}, nodes: map[string]*node{},
		alike: map[uint64]*node{}, turns: map[turn]turned{}, overdues: map[turn]bool{}, visited: map[uint64]struct{}{},
		checked: map[uint64]struct{}{}, drained: map[uint64]struct{}{}, limit: limit,
	}
	w.fixed = memtable.New(func() time.Time { return epoch })
	if err := w.found(); err != nil {
		return Report{}, err
	}
	s := &state{table: w.fixed.Copy(func() time.Time { return epoch }), workers: make([]*node, w.Workers),
		left: w.Faults}
	for i, script := range w.Clients {
		s.clients = append(s.clients, w.next(w.begin(w.client(i, script)), seen{}))
	}
	defer func() {
		w.report.States, w.report.Distinct = len(w.visited), len(w.checked)
		if r := recover(); r != nil {
			reason, ok := r.(stuck)
			if !ok {
				panic(r)
			}
			w.report.Violation = string(reason) + "\n" + w.way()
		}
		report = w.report
	}()
	w.report.Complete = w.visit(s)
	return // the deferred function returns the result
}
