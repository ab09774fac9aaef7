// Package explore is a model checker for a small deployment: a few clients and workers over one table. It visits every
// order of their calls, with lost and doubled wakeups, crashes, leases that end and timers that fire. The simulation
// runs random histories of a large world; this visits every state of a small one.
//
// The use cases are the real ones. An actor is a function of its observations. One run over a recording of them (tape)
// finds its next call. So states of the world are values, and a transition costs no more than the call itself. That
// makes the search affordable.
//
// It imports the use cases, as the simulation does. Only tests import it.
package explore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"hash/maphash"
	"time"

	"agentplatform/internal/platform/host"
	"agentplatform/internal/store/queue"
	"agentplatform/internal/store/table"
)

// call is an actor's call of a port.
type call struct {
	kind callKind

	keys    []table.Key
	reach   table.Range
	index   table.Index
	shard   int
	until   time.Time
	limit   int
	token   string
	ops     []table.Op
	message queue.Message
	at      time.Time
}

type callKind string

const (
	begin  callKind = "begin" // no call: the first thing that an actor observes is the time
	get    callKind = "get"
	query  callKind = "query"
	list   callKind = "list"
	due    callKind = "due"
	commit callKind = "commit"
	send   callKind = "send"
	alarm  callKind = "alarm"
	answer callKind = "answer" // a response to a client
)

// changes reports whether others can observe that the call was made. A crash before any other call equals one a little
// later.
func (c *call) changes() bool {
	return c.kind == commit || c.kind == send || c.kind == alarm || c.kind == answer
}

func (c *call) String() string {
	switch c.kind {
	case get:
		return fmt.Sprint("reads ", c.keys)
	case query, list:
		return fmt.Sprint("lists ", c.reach.Part, " ", c.reach.Prefix)
	case commit:
		var keys []table.Key
		for _, op := range c.ops {
			keys = append(keys, op.Item.Key)
		}
		return fmt.Sprint("writes ", keys)
	case send:
		return fmt.Sprint("sends ", c.message.Wakeup.Kind, " ", c.message.Wakeup.ID)
	default:
		return string(c.kind)
	}
}

// seen is the result of a call.
type seen struct {
	now     time.Duration // of the call, since the world began
	items   []*table.Item
	entries []table.Entry
	err     error
	crashed bool // the process died instead
}

// named returns a node's name. Nodes with one name continue in the same way.
func (n *node) named(seed maphash.Seed) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	_, _ = h.WriteString(n.life.name)
	_ = h.WriteByte(0)
	_, _ = h.WriteString(n.memory)
	for _, s := range n.path[n.since:] {
		_, _ = h.Write(binary.BigEndian.AppendUint64(nil, s.hash(seed)))
	}
	return h.Sum64()
}

// hash identifies a result. Two errors with one text are equal.
func (s seen) hash(seed maphash.Seed) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	number := func(n int64) { _, _ = h.Write(binary.AppendVarint(nil, n)) }
	number(int64(s.now))
	for _, item := range s.items {
		if item == nil {
			_ = h.WriteByte(0)
			continue
		}
		number(int64(hashItem(seed, item)))
	}
	for _, e := range s.entries {
		_, _ = h.WriteString(e.String() + e.At)
	}
	if refused, ok := errors.AsType[*table.Refused](s.err); ok {
		for _, c := range refused.Conflicts {
			number(int64(c.Op))
			if c.Current != nil {
				number(int64(hashItem(seed, c.Current)))
			}
		}
	} else if s.err != nil {
		_, _ = h.WriteString(s.err.Error())
	}
	if s.crashed {
		_ = h.WriteByte(1)
	}
	return h.Sum64()
}

func hashItem(seed maphash.Seed, i *table.Item) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, s := range []string{i.Part, i.Sort, i.Owner, i.WriteID} {
		_, _ = h.WriteString(s)
		_ = h.WriteByte(0)
	}
	for _, n := range []int64{i.Version, int64(i.Schema), i.Due.UnixNano(), i.Expires.UnixNano()} {
		_, _ = h.Write(binary.AppendVarint(nil, n))
	}
	for _, l := range i.Lists {
		_, _ = h.WriteString(string(l.Index) + l.Part + l.Sort)
	}
	_, _ = h.Write(i.Body)
	return h.Sum64()
}

// life is one run of an actor: a client's script, or a worker's handling of one wakeup.
type life struct {
	name  string // unique in a world
	works bool   // of a worker
	lead  func(t *tape) any
}

// mark returns a part of all identifiers that are made in a life.
func (l *life) mark() string { return fmt.Sprintf("%08x", l.number()) }

func (l *life) number() uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(l.name))
	return h.Sum32()
}

// node is a point in a life. Its observations so far determine the next call.
type node struct {
	life  *life
	path  []seen
	next  *call // nil: the life has ended
	left  any   // its result
	name  uint64
	after map[uint64]*node

	memory string // all that remains of the observations before the last resting point
	since  int    // the position of that in the path
}

// tape implements table, queue, timer and host for an actor that is run over its observations. At the end of the
// tape it stops the actor, whose call has no result yet.
type tape struct {
	life  *life
	path  []seen
	fixed table.Table // items that never change: read without a step
	at    int
	ids   int
	now   time.Duration
	open  *unanswered

	memory string
	since  int
}

// rest marks a point at which an actor has forgotten everything but memory.
func (t *tape) rest(memory string) {
	t.memory, t.since = fmt.Sprint(memory, " ", t.ids, " ", t.now), t.at
}

// unanswered stops an actor at a call.
type unanswered struct{ call call }

// crashed ends the work of a process.
type crashed struct{}

// follow runs a life to the end of its tape.
func follow(l *life, path []seen, fixed table.Table) (n *node) {
	n = &node{life: l, path: path, after: map[uint64]*node{}}
	t := &tape{life: l, path: path, fixed: fixed}
	defer func() {
		n.memory, n.since = t.memory, t.since
		switch r := recover().(type) {
		case nil:
			if t.open != nil { // and the panic that stopped it was recovered as its own
				n.next, n.left = &t.open.call, nil
				return
			}
			n.memory, n.since = fmt.Sprint("over ", n.left), len(path)
		case unanswered:
			n.next = &r.call
		case *host.Panic: // its owner passed it on
			if t.open == nil {
				panic(r)
			}
			n.next = &t.open.call
		default:
			panic(r)
		}
	}()
	t.call(call{kind: begin})
	n.left = l.lead(t)
	return n
}

func (t *tape) call(c call) seen {
	if t.open != nil {
		panic(*t.open) // again: while it unwinds, it must not make another call
	}
	if t.at == len(t.path) {
		t.open = &unanswered{c}
		panic(*t.open)
	}
	s := t.path[t.at]
	t.at++
	t.now = s.now
	if s.crashed {
		panic(crashed{})
	}
	return s
}

// The table.

func (t *tape) Get(ctx context.Context, keys ...table.Key) ([]*table.Item, error) {
	if fixed, err := t.fixed.Get(ctx, keys...); err == nil && !hasNil(fixed) {
		return fixed, nil
	}
	s := t.call(call{kind: get, keys: keys})
	return s.items, s.err
}

func hasNil(items []*table.Item) bool {
	for _, item := range items {
		if item == nil {
			return true
		}
	}
	return false
}

func (t *tape) Query(_ context.Context, r table.Range) ([]*table.Item, error) {
	s := t.call(call{kind: query, reach: r})
	return s.items, s.err
}

func (t *tape) List(_ context.Context, index table.Index, r table.Range) ([]table.Entry, error) {
	s := t.call(call{kind: list, index: index, reach: r})
	return s.entries, s.err
}

func (t *tape) Due(_ context.Context, shard int, until time.Time, limit int) ([]table.Entry, error) {
	s := t.call(call{kind: due, shard: shard, until: until, limit: limit})
	return s.entries, s.err
}

func (t *tape) Commit(_ context.Context, token string, ops ...table.Op) error {
	return t.call(call{kind: commit, token: token, ops: ops}).err
}

// The queue and the timer.

func (t *tape) Send(_ context.Context, m queue.Message) error {
	return t.call(call{kind: send, message: m}).err
}

func (t *tape) At(_ context.Context, _ string, at time.Time, m queue.Message) error {
	return t.call(call{kind: alarm, message: m, at: at}).err
}

// Stop does nothing, as if it always came too late. The timer that it would have stopped must do no harm.
func (t *tape) Stop(context.Context, string) error { return nil }

// The host.

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func (t *tape) Now() time.Time         { return epoch.Add(t.now) }
func (t *tape) Elapsed() time.Duration { return t.now }

func (t *tape) Sleep(ctx context.Context, _ time.Duration) error { return ctx.Err() }

func (t *tape) WithTimeout(ctx context.Context, _ time.Duration) (context.Context, context.CancelFunc) {
	return context.WithCancel(ctx)
}

// Go runs f when the actor waits for it: heartbeats then find nothing to renew.
func (t *tape) Go(f func()) func() { return f }
func (t *tape) Gate() (open, wait func()) {
	return func() {}, func() { panic("nobody else is there who could open it") }
}

// NewID returns an id that is different in every life, and the same whenever the life is repeated.
func (t *tape) NewID() string {
	t.ids++
	return host.FormatID(t.Now(), uint64(t.life.number())<<16|uint64(t.ids))
}

func (t *tape) Int64N(int64) int64 { return 0 }
