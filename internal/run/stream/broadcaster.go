package stream

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"agentplatform/internal/platform/host"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
)

// broadcaster has the topics of this process. Where nothing notifies, its poll loop looks for news of their runs. At
// each tick it polls the topics that are due, a hundred keys in a call, and has one reader of each run with news read
// it. Of a run it polls two rows: the head, whose version says whether it has changed, and, while the run is running,
// the next frame. Of an active run it reads the next frames for the readers.
type broadcaster struct {
	frames *frameTable
	log    *slog.Logger

	mu     sync.Mutex
	topics map[topicKey]*topic
	joined int    // topics so far
	stop   func() // ends the poll loop and waits for it; nil: it does not run
	died   string // the last panic that was logged
}

func newBroadcaster(f *frameTable, log *slog.Logger) *broadcaster {
	return &broadcaster{frames: f, log: log, topics: map[topicKey]*topic{}}
}

// join adds the caller to the readers of a run. The caller must call leave when done.
func (b *broadcaster) join(ctx context.Context, s *record.Store, key topicKey) *topic {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.topics[key]
	if t == nil {
		b.joined++
		t = &topic{
			frames: b.frames, store: s, key: key, number: b.joined, changed: b.frames.host.Elapsed(),
			ask: b.frames.host.NewID(), empty: maxEmpty,
		}
		b.topics[key] = t
	}
	t.readers++
	if b.stop == nil && b.frames.polls() {
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		wait := b.frames.host.Go(func() { b.poll(ctx) })
		b.stop = func() { cancel(); wait() }
	}
	return t
}

// leave removes a reader of a topic. It ends the poll loop with the last reader of all.
func (b *broadcaster) leave(t *topic) {
	if stop := b.remove(t); stop != nil {
		stop()
	}
}

func (b *broadcaster) remove(t *topic) (stop func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t.readers--; t.readers == 0 {
		delete(b.topics, t.key)
	}
	if len(b.topics) == 0 {
		stop, b.stop = b.stop, nil
	}
	return stop
}

// poll looks for news until ctx ends. The calls of a tick are made in parallel, each with a time of its own and as many
// keys as one request has. So a call that fails affects no other.
func (b *broadcaster) poll(ctx context.Context) {
	tick := b.frames.notifier.Pace(0)
	for b.frames.host.Sleep(ctx, tick) == nil {
		due := b.due(tick)
		var quiet, active []*topic
		for _, t := range due {
			switch _, running, isActive := t.nextFrames(); {
			case isActive:
				active = append(active, t)
			case running:
				quiet = append(quiet, t)
			}
		}
		calls := b.calls(ctx, due, table.MaxGetKeys, b.pollHeads)
		calls = append(calls, b.calls(ctx, quiet, table.MaxGetKeys, b.pollFrames)...)
		calls = append(calls, b.calls(ctx, active, table.MaxGetKeys/framesAhead, b.readFrames)...)
		host.All(b.frames.host, calls...)
	}
}

// due lists the topics to poll now, rather than at the next tick, in a fixed order.
func (b *broadcaster) due(tick time.Duration) (due []*topic) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.frames.host.Elapsed()
	for _, t := range b.topics {
		if t.due(now, tick) {
			due = append(due, t)
		}
	}
	slices.SortFunc(due, func(x, y *topic) int {
		return cmp.Or(cmp.Compare(x.key.run, y.key.run), cmp.Compare(x.number, y.number))
	})
	return due
}

// calls divides topics into calls of at most so many. Where a call panics, the topics' readers read by themselves: the
// cause is mostly a frame of one topic, and then only its own readers panic.
func (b *broadcaster) calls(
	ctx context.Context, topics []*topic, most int, call func(context.Context, []*topic),
) (calls []func()) {
	for some := range slices.Chunk(topics, most) {
		calls = append(calls, func() {
			if died := host.Catch(func() { call(ctx, some) }); died != nil {
				b.logPanic(died, len(some))
				requestAll(some)
			}
		})
	}
	return calls
}

// logPanic logs a panic, unless it logged the same last: while its cause is there it repeats with each tick.
func (b *broadcaster) logPanic(died *host.Panic, runs int) {
	b.mu.Lock()
	known := b.died == died.Error()
	b.died = died.Error()
	b.mu.Unlock()
	if !known {
		b.log.Error("a poll of streams panicked", "panic", died.Value, "runs", runs, "stack", string(died.Stack))
	}
}

func requestAll(topics []*topic) {
	for _, t := range topics {
		t.requestIf(func(state) bool { return true })
	}
}

// pollHeads looks whether the runs have changed.
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
		topics[i].requestIf(func(known state) bool { return version == 0 || version > known.version })
	}
}

// pollFrames looks whether quiet runs have a next frame.
func (b *broadcaster) pollFrames(ctx context.Context, topics []*topic) {
	next := make([]table.Key, 0, len(topics))
	for _, t := range topics {
		keys, _, _ := t.nextFrames()
		next = append(next, keys[0])
	}
	marks, err := b.frames.look(ctx, next)
	for i, t := range topics {
		if err != nil || !marks[i].There {
			t.foundNothing()
			continue
		}
		t.requestIf(func(known state) bool { return next[i] == known.frameAt(1) })
	}
}

// maxRounds is how many times in a tick the next frames of an active run are read, where there may be more. What is
// left then is read by a reader, in pages.
const maxRounds = 3

// readFrames reads the next frames of active runs.
func (b *broadcaster) readFrames(ctx context.Context, topics []*topic) {
	for round := 0; round < maxRounds && len(topics) > 0; round++ {
		topics = b.readRound(ctx, topics)
	}
	requestAll(topics)
}

// readRound reads the next frames of each run, and returns the topics for which there may be more.
func (b *broadcaster) readRound(ctx context.Context, topics []*topic) (more []*topic) {
	next := make([]table.Key, 0, framesAhead*len(topics))
	for _, t := range topics {
		keys, _, _ := t.nextFrames()
		next = append(next, keys[:]...)
	}
	items, err := b.frames.get(ctx, next)
	for i, t := range topics {
		if err != nil { // after some of these the run counts as quiet, and its readers read it
			t.foundNothing()
		} else if t.addNext(items[i*framesAhead : (i+1)*framesAhead]) {
			more = append(more, t)
		}
	}
	return more
}
