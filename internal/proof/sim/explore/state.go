package explore

import (
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentplatform/events"
	"agentplatform/internal/store/table"
	"agentplatform/internal/store/table/memtable"
)

// The jumps of the clock: one is longer than every lease, the other longer than every pause and start deadline.
const (
	lapse  = lease + time.Second
	expiry = pauseExpiry + time.Hour
)

// Faults has the faults that may happen in a world.
type Faults struct {
	Lost, Doubled   int // wakeups
	Unanswered      int // commits that succeed although their caller gets outcome unknown
	ClientsCrash    bool
	WorkersCrash    int // how often, over all workers
	Lapses, Expires int // jumps of the clock
}

// name identifies a set: there are few of each fault.
func (f Faults) name() uint64 {
	n := uint64(0)
	for _, left := range []int{f.Lost, f.Doubled, f.Unanswered, f.WorkersCrash, f.Lapses, f.Expires} {
		n = n<<8 | uint64(left) //nolint:gosec // never below zero
	}
	return n
}

// state is a world at one point. It is a value: a change makes a copy.
type state struct {
	table   *memtable.Table
	content uint64 // of the table
	now     time.Duration
	clients []*node
	crashed uint32 // clients whose process has crashed already, by bit
	workers []*node
	taken   []string // wakeups received so far, which name lives
	queue   []string // waiting wakeups, sorted
	alarms  []fuse
	left    Faults
}

// fuse is a timer that was set.
type fuse struct {
	at     time.Duration
	wakeup string
}

func (s *state) copy() *state {
	c := *s
	c.clients, c.workers = slices.Clone(s.clients), slices.Clone(s.workers)
	c.taken, c.queue, c.alarms = slices.Clone(s.taken), slices.Clone(s.queue), slices.Clone(s.alarms)
	return &c
}

// name identifies a state. Two states with one name have the same future. Workers are interchangeable.
func (s *state) name(seed maphash.Seed) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	number := func(n uint64) {
		var b [8]byte
		for i := range b {
			b[i] = byte(n >> (8 * i))
		}
		_, _ = h.Write(b[:])
	}
	nodes := func(list []*node) {
		for _, n := range list {
			number(nameOf(n))
		}
	}
	number(s.content)
	number(uint64(s.now)) //nolint:gosec // time does not go back
	nodes(s.clients)
	number(uint64(s.crashed))
	workers := slices.Clone(s.workers)
	slices.SortFunc(workers, func(a, b *node) int { return cmp.Compare(nameOf(a), nameOf(b)) })
	nodes(workers)
	for _, list := range [][]string{s.taken, s.queue} {
		for _, text := range list {
			_, _ = h.WriteString(text)
			_ = h.WriteByte(0)
		}
		_ = h.WriteByte(1)
	}
	for _, f := range s.alarms {
		number(uint64(f.at)) //nolint:gosec // as above
		_, _ = h.WriteString(f.wakeup)
	}
	number(s.left.name())
	return h.Sum64()
}

func nameOf(n *node) uint64 {
	if n == nil {
		return 0
	}
	return n.name
}

// choice is a possible next event.
type choice struct {
	what   event
	actor  int    // a client, or a worker from 100 on
	wakeup string // that is received
}

const firstWorker = 100

type event int

const (
	goOn event = iota
	loseIt
	doubleIt
	goOnUntold
	crash
	take
	passLease
	passPause
	sweeping
)

func (e event) String() string {
	return [...]string{
		"goes on", "goes on, the nudge is lost", "goes on, the nudge comes twice", "goes on, and is not told",
		"crashes",
		"takes", "a lease's time passes", "a pause's time passes", "the sweeper sweeps",
	}[e]
}

// choices returns the possible next events. If a call commutes with all others at any time, its actor goes first. The
// other orders lead to the same states.
func (w *world) choices(s *state) (list []choice) {
	offer := func(n *node, actor int, mayCrash bool) {
		list = append(list, choice{what: goOn, actor: actor})
		if n.next.kind == send && s.left.Lost > 0 {
			list = append(list, choice{what: loseIt, actor: actor})
		}
		if n.next.kind == send && s.left.Doubled > 0 {
			list = append(list, choice{what: doubleIt, actor: actor})
		}
		if n.next.kind == commit && s.left.Unanswered > 0 {
			list = append(list, choice{what: goOnUntold, actor: actor})
		}
		if n.next.changes() && mayCrash {
			list = append(list, choice{what: crash, actor: actor})
		}
	}
	idle := -1
	for i, n := range slices.Concat(s.clients, s.workers) {
		actor, mayCrash := i, s.left.ClientsCrash && s.crashed&(1<<i) == 0
		if i >= len(s.clients) {
			actor, mayCrash = firstWorker+i-len(s.clients), s.left.WorkersCrash > 0
		}
		switch {
		case n == nil && idle < 0:
			idle = actor
		case n == nil || n.next == nil:
		case w.apart(s, n.next):
			list = list[:0]
			offer(n, actor, mayCrash)
			return list
		default:
			offer(n, actor, mayCrash)
		}
	}
	for i, wakeup := range s.queue {
		if idle >= 0 && (i == 0 || s.queue[i-1] != wakeup) {
			list = append(list, choice{what: take, actor: idle, wakeup: wakeup})
		}
	}
	if s.left.Lapses > 0 {
		list = append(list, choice{what: passLease})
	}
	if s.left.Expires > 0 {
		list = append(list, choice{what: passPause})
	}
	if s.now > 0 && w.overdue(s) {
		list = append(list, choice{what: sweeping})
	}
	return list
}

// apart reports whether a call commutes with all present and later calls of others. A queued message may be received at
// any later time. A response belongs to its client. An idempotency record belongs to one client. An item that is
// written once does not change.
func (w *world) apart(s *state, c *call) bool {
	switch c.kind {
	case send, answer:
		return true
	case get:
		return !slices.ContainsFunc(c.keys, func(k table.Key) bool {
			return !w.own(k) && (!w.once(k) || itemOf(s.table, k) == nil)
		})
	default:
		return false
	}
}

func (w *world) own(k table.Key) bool { return strings.HasPrefix(k.Part, "idem/") && !w.SharesKeys }

// once reports whether an item is never written again. Commits are checked for that. A parked message that is withdrawn
// is removed.
func (w *world) once(k table.Key) bool {
	kind, _, _ := strings.Cut(k.Sort, "/")
	return strings.HasPrefix(k.Part, "run/") &&
		(kind == "input" && !w.TakesBack || kind == "step" || kind == "pause" || kind == "decision")
}

func (w *world) overdue(s *state) bool {
	t := turn{table: s.content, now: s.now}
	known, there := w.overdues[t]
	if !there {
		known = s.overdue()
		w.overdues[t] = known
	}
	return known
}

func (s *state) overdue() bool {
	for shard := range table.DueShards {
		if found, _ := s.table.Due(context.Background(), shard, epoch.Add(s.now), 1); len(found) > 0 {
			return true
		}
	}
	return false
}

// after returns the state after a choice.
func (w *world) after(s *state, c choice) *state {
	s = s.copy()
	switch c.what {
	case take:
		i := slices.Index(s.queue, c.wakeup)
		s.queue = slices.Delete(s.queue, i, i+1)
		s.work(w, c.actor-firstWorker, c.wakeup)
	case passLease:
		s.left.Lapses--
		s.pass(lapse)
	case passPause:
		s.left.Expires--
		s.pass(expiry)
	case sweeping:
		w.through(s, w.sweep(s.now))
	case crash:
		if c.actor >= firstWorker {
			s.left.WorkersCrash--
			s.workers[c.actor-firstWorker] = nil // its received message is lost with it
			break
		}
		s.crashed |= 1 << c.actor
		s.clients[c.actor] = w.next(s.clients[c.actor], seen{now: s.now, crashed: true})
	default:
		n := s.clients
		i := c.actor
		if c.actor >= firstWorker {
			n, i = s.workers, c.actor-firstWorker
		}
		n[i] = w.step(s, n[i], c.what)
		if c.actor >= firstWorker && n[i].next == nil {
			s.workers[i] = nil
		}
	}
	return s
}

// turn is an actor's call in a table. Nothing else determines its result.
type turn struct {
	table uint64
	now   time.Duration
	node  uint64
	how   event
}

// turned is the result of a turn.
type turned struct {
	table   *memtable.Table
	content uint64
	next    *node
}

// step makes an actor's call.
func (w *world) step(s *state, n *node, how event) *node {
	if n.next.kind == send || n.next.kind == alarm || how == goOnUntold { // these change more than the table
		return w.next(n, w.make(s, n, how))
	}
	t := turn{s.content, s.now, n.name, how}
	known, there := w.turns[t]
	if !there {
		next := w.next(n, w.make(s, n, how))
		known = turned{s.table, s.content, next}
		w.turns[t] = known
	}
	s.table, s.content = known.table, known.content
	return known.next
}

// take records the receipt of a wakeup, and returns how often it was received before.
func (s *state) take(wakeup string) (before int) {
	for _, t := range s.taken {
		if t == wakeup {
			before++
		}
	}
	s.taken = append(s.taken, wakeup)
	slices.Sort(s.taken)
	return before
}

// work starts a worker's handling of a wakeup.
func (s *state) work(w *world, worker int, wakeup string) {
	s.workers[worker] = w.next(w.begin(w.handling(wakeup, s.take(wakeup))), seen{now: s.now})
	if s.workers[worker].next == nil {
		s.workers[worker] = nil
	}
}

// through runs a life from beginning to end without concurrency.
func (w *world) through(s *state, l *life) {
	for n := w.next(w.begin(l), seen{now: s.now}); n.next != nil; {
		n = w.next(n, w.make(s, n, goOn))
	}
}

// pass advances the clock and fires timers.
func (s *state) pass(d time.Duration) {
	s.now += d
	now := epoch.Add(s.now)
	s.table = s.table.Copy(func() time.Time { return now })
	s.alarms = slices.DeleteFunc(s.alarms, func(f fuse) bool {
		if f.at > s.now {
			return false
		}
		s.put(f.wakeup)
		return true
	})
}

func (s *state) put(wakeup string) {
	s.queue = append(s.queue, wakeup)
	slices.Sort(s.queue)
}

var errUntold = &table.Error{Kind: table.Unknown, Err: errors.New("nobody knows")}

// make makes a call.
func (w *world) make(s *state, n *node, how event) (result seen) {
	ctx, c := context.Background(), n.next
	result.now = s.now
	switch c.kind {
	case get:
		result.items, result.err = s.table.Get(ctx, c.keys...)
	case query:
		result.items, result.err = s.table.Query(ctx, c.reach)
	case list:
		result.entries, result.err = s.table.List(ctx, c.index, c.reach)
	case due:
		result.entries, result.err = s.table.Due(ctx, c.shard, c.until, c.limit)
	case commit:
		result.err = w.commit(s, n.life, c)
		if how == goOnUntold {
			s.left.Unanswered--
			if result.err == nil {
				result.err = errUntold
			}
		}
	case send:
		if c.message.Wakeup.Kind != events.WakeupRun {
			break // there are no webhook senders here
		}
		switch wakeup := c.message.Wakeup.ID; how {
		case loseIt:
			s.left.Lost--
		case doubleIt:
			s.left.Doubled--
			s.put(wakeup)
			s.put(wakeup)
		default:
			s.put(wakeup)
		}
	case alarm:
		if c.at.Sub(epoch) <= s.now {
			s.put(c.message.Wakeup.ID)
			break
		}
		s.alarms = append(s.alarms, fuse{c.at.Sub(epoch), c.message.Wakeup.ID})
		slices.SortFunc(s.alarms, func(a, b fuse) int { return cmp.Compare(a.at, b.at) })
	case begin, answer:
	}
	return result
}

func (w *world) commit(s *state, who *life, c *call) error {
	now := epoch.Add(s.now)
	changed := s.table.Copy(func() time.Time { return now })
	if err := changed.Commit(context.Background(), c.token, c.ops...); err != nil {
		return err
	}
	before := s.table
	for _, op := range c.ops {
		was, is := itemOf(before, op.Item.Key), itemOf(changed, op.Item.Key)
		for _, item := range []*table.Item{was, is} {
			if item != nil {
				s.content ^= hashItem(w.seed, item)
			}
		}
		if was != nil && op.Kind != table.CheckOp && w.once(op.Item.Key) {
			w.violated("%s is written again", op.Item.Key)
		}
		if was != nil && itemOf(w.fixed, op.Item.Key) != nil && op.Kind != table.CheckOp {
			w.violated("%s was to stay as it is", op.Item.Key)
		}
		w.checkStep(who, op.Item.Key, was, is)
	}
	s.table = changed
	w.checkTable(s)
	return nil
}

func itemOf(t *memtable.Table, key table.Key) *table.Item {
	items, _ := t.Get(context.Background(), key)
	return items[0]
}

func (c choice) words(s *state) string {
	n := (*node)(nil)
	who := ""
	switch {
	case c.what >= passLease:
	case c.actor >= firstWorker:
		n, who = s.workers[c.actor-firstWorker], "worker "+strconv.Itoa(c.actor-firstWorker)+" "
	default:
		n, who = s.clients[c.actor], "client "+strconv.Itoa(c.actor)+" "
	}
	what := ""
	if n != nil && n.next != nil {
		what = ": " + n.next.String()
	}
	return who + c.what.String() + " " + c.wakeup + what
}
