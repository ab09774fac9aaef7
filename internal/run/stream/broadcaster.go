package stream

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/store/table"
)

// broadcaster owns the shared reads of this process: the topics, and the inboxes of organizations. Its loop starts the
// reads of due sources. Without notifications it also polls the runs of the topics. At each tick it polls the due
// topics, a hundred keys in a call. It reads the version of a run's head, which changes when the run must be read
// again. While the run is running, it also reads the next frames for the topic.
type broadcaster struct {
	frames *frameTable
	log    *slog.Logger

	mu      sync.Mutex
	sources map[any]*shared // by topicKey, or by organization
	made    int             // sources so far
	stop    func()          // ends the loop and waits for it; nil: it does not run
	died    string          // the last panic that was logged
}

// source is a feed.
type source interface {
	isDue(now, tick time.Duration) bool
	ring()
	end()
}

type shared struct {
	source

	number int // counts the sources
	users  int
}

func newBroadcaster(f *frameTable, log *slog.Logger) *broadcaster {
	return &broadcaster{frames: f, log: log, sources: map[any]*shared{}}
}

// join adds a user to the source of a key. The first user makes the source, and the first of all starts the loop. The
// caller must call leave when done.
func join[S source](ctx context.Context, b *broadcaster, key any, make func() S) (s S, leave func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	x := b.sources[key]
	if x == nil {
		b.made++
		x = &shared{source: make(), number: b.made}
		b.sources[key] = x
	}
	x.users++
	if b.stop == nil {
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		wait := b.frames.host.Go(func() { b.run(ctx) })
		b.stop = func() { cancel(); wait() }
	}
	return x.source.(S), func() { b.leave(key, x) }
}

// leave removes a user. The last one ends the source, and the last of all ends the loop.
func (b *broadcaster) leave(key any, x *shared) {
	b.mu.Lock()
	var ends []func()
	if x.users--; x.users == 0 {
		delete(b.sources, key)
		ends = append(ends, x.end)
	}
	if len(b.sources) == 0 {
		ends = append(ends, b.stop)
		b.stop = nil
	}
	b.mu.Unlock()
	for _, end := range ends {
		end()
	}
}

// run starts the reads of due sources, and polls, until ctx ends. The calls of a tick are made in parallel. Each has
// its own timeout and as many keys as one request may have. So a call that fails affects no other.
func (b *broadcaster) run(ctx context.Context) {
	tick := cmp.Or(b.frames.notifier.Interval(), callTime)
	for b.frames.host.Sleep(ctx, tick) == nil {
		var watched, polled, running []*topic
		for _, t := range b.due(tick) {
			if t.mustWatch() {
				watched = append(watched, t)
			}
			if !t.poll(b.frames.host.Elapsed(), tick) {
				continue
			}
			polled = append(polled, t)
			if t.known().status == lifecycle.Running { // else there is no next frame
				running = append(running, t)
			}
		}
		calls := b.calls(ctx, watched, 1, func(ctx context.Context, one []*topic) { one[0].keepWatch(ctx) })
		calls = append(calls, b.calls(ctx, polled, table.MaxGetKeys, b.pollHeads)...)
		calls = append(calls, b.calls(ctx, running, table.MaxGetKeys/framesAhead, b.readFrames)...)
		host.All(b.frames.host, calls...)
	}
}

// due starts the reads of due sources. It returns the topics, in the order in which they were made.
func (b *broadcaster) due(tick time.Duration) (topics []*topic) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.frames.host.Elapsed()
	byNumber := func(x, y *shared) int { return cmp.Compare(x.number, y.number) }
	for _, x := range slices.SortedFunc(maps.Values(b.sources), byNumber) {
		if x.isDue(now, tick) {
			x.ring()
		}
		if t, ok := x.source.(*topic); ok {
			topics = append(topics, t)
		}
	}
	return topics
}

// calls divides topics into calls of at most most topics. After a panic in a call, its topics read for themselves. The
// cause is mostly a frame of one topic, and then only its own readers panic.
func (b *broadcaster) calls(
	ctx context.Context, topics []*topic, most int, call func(context.Context, []*topic),
) (calls []func()) {
	for some := range slices.Chunk(topics, most) {
		calls = append(calls, func() {
			if died := host.Catch(func() { call(ctx, some) }); died != nil {
				b.logPanic(died, len(some))
				readAll(some)
			}
		})
	}
	return calls
}

// logPanic logs a panic, unless it is the one that was logged last: it repeats with each tick while its cause exists.
func (b *broadcaster) logPanic(died *host.Panic, runs int) {
	b.mu.Lock()
	known := b.died == died.Error()
	b.died = died.Error()
	b.mu.Unlock()
	if !known {
		b.log.Error("a poll of streams panicked", "panic", died.Value, "runs", runs, "stack", string(died.Stack))
	}
}

// readAll makes topics read for themselves.
func readAll(topics []*topic) {
	for _, t := range topics {
		t.ring()
	}
}

// pollHeads checks whether the runs have changed.
func (b *broadcaster) pollHeads(ctx context.Context, topics []*topic) {
	ctx, cancel := b.frames.host.WithTimeout(ctx, callTime)
	defer cancel()
	ids := make([]string, 0, len(topics))
	for _, t := range topics {
		ids = append(ids, t.key.run)
	}
	versions, err := topics[0].store.Versions(ctx, ids...)
	if err != nil {
		return // they are polled again when they are due again
	}
	for i, version := range versions {
		if version == 0 || version > topics[i].known().version {
			topics[i].ring()
		}
	}
}

// maxRounds is the number of reads of a run's next frames in a tick, if there may be more. The topic reads the rest in
// pages.
const maxRounds = 3

// readFrames reads the next frames of running runs.
func (b *broadcaster) readFrames(ctx context.Context, topics []*topic) {
	for round := 0; round < maxRounds && len(topics) > 0; round++ {
		topics = b.readRound(ctx, topics)
	}
	readAll(topics)
}

// readRound reads the next frames of each run, and returns the topics for which there may be more.
func (b *broadcaster) readRound(ctx context.Context, topics []*topic) (more []*topic) {
	next := make([]table.Key, 0, framesAhead*len(topics))
	for _, t := range topics {
		known := t.known()
		for n := range int64(framesAhead) {
			next = append(next, known.frameAt(1+n))
		}
	}
	items, err := b.frames.get(ctx, next)
	if err != nil {
		return nil // they are polled again when they are due again
	}
	for i, t := range topics {
		if t.addNext(items[i*framesAhead : (i+1)*framesAhead]) {
			more = append(more, t)
		}
	}
	return more
}
