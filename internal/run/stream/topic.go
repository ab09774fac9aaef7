package stream

import (
	"context"
	"slices"
	"sync"
	"time"

	"agentplatform/events"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
)

// topic is what the readers of a run share in this process. The run is read once at a time however many readers it
// has, and its text is held once.
type topic struct {
	frames  *frameTable
	store   *record.Store
	key     topicKey
	number  int    // counts the topics of the broadcaster
	ask     string // the worker acknowledges this id in a frame; all of its earlier output is stored before that
	readers int    // guarded by the broadcaster's mutex

	mu       sync.Mutex
	wait     func()                // waits for the read in progress; nil if there is none
	reads    int                   // number of reads begun
	lastRead int                   // number of the last read with a result
	failed   error                 // the error of that read; not_found is final
	readAt   time.Duration         // when that read ended, or the poll loop has read a frame since
	changed  time.Duration         // when something new was found last
	polledAt time.Duration         // when the run was polled last
	late     bool                  // the poll before that was longer ago than usual
	empty    int                   // polls without a frame since the last frame
	active   bool                  // before the last frame there were few such polls, too
	news     bool                  // a poll has seen news that no reader has begun to read
	waiters  []*context.CancelFunc // readers that wait for the poll loop, in the order in which they began
	known    state
	first    snapshot // is made once for all readers that need it
	watched  time.Time
}

// topicKey is a run as seen in a scope. Readers of different scopes share nothing, not even a refusal.
type topicKey struct {
	scope record.Scope
	run   string
}

// pace is how long to wait after a read, if there is no news.
func (t *topic) pace() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.paced()
}

// paced is pace, under the lock. It is constant until the next read, so that a reader that has waited it finds a read
// due.
func (t *topic) paced() time.Duration {
	if t.frames.polls() && !t.unpollable() {
		return watchLife / 2 // the poll loop looks for news
	}
	pace := t.frames.notifier.Pace(t.readAt - t.changed)
	if t.known.partial { // stored frames cause no further notification
		pace = min(pace, callTime)
	}
	return pace
}

// keepWatch renews the run's watch row when half of its life is over, while the run can produce output.
func (t *topic) keepWatch(ctx context.Context) {
	now := t.frames.host.Now()
	t.mu.Lock()
	before := t.watched
	fresh := now.Sub(before) < watchLife/2 || t.known.status.Terminal()
	if !fresh {
		t.watched = now
	}
	t.mu.Unlock()
	if fresh || t.frames.watch(ctx, t.key.run, t.ask) == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watched = before // the write is tried again later; if it fails, frames cannot be read either
}

// snapshot returns the snapshot of a state.
func (t *topic) snapshot(s state) snapshot {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.first; p.calls == nil || p.cut != s.cut || p.steps != len(s.steps) || len(p.text) != len(s.text) {
		t.first = snapshot{cut: s.cut, steps: len(s.steps), text: string(s.text), calls: s.calls()}
	}
	return t.first
}

// current returns the known state if that is recent or another read is in progress. If must is set (a new reader, or a
// notification), it returns the result of a read that began after the call. The error is ctx's, or that of the store.
func (t *topic) current(ctx context.Context, must bool) (state, error) {
	t.mu.Lock()
	asked := t.reads
	t.mu.Unlock()
	for ctx.Err() == nil {
		s, more, err := t.latest(ctx, must, asked)
		if more == nil {
			return s, err
		}
		more()
	}
	return state{}, ctx.Err()
}

// latest returns the known state if that is enough for the reader. Otherwise more is set: the caller must call it, to
// read or to wait for the read of another, and call latest again.
func (t *topic) latest(ctx context.Context, must bool, asked int) (known state, more func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.lastRead > asked || problem.Is(t.failed, "not_found"):
		return t.known, nil, t.failed
	case !must && (t.wait != nil || t.frames.host.Elapsed()-t.readAt < t.paced()):
		return t.known, nil, nil
	case t.wait == nil:
		t.reads++
		known := t.known
		var open func()
		open, t.wait = t.frames.host.Gate()
		return state{}, func() { t.read(ctx, known, open) }, nil
	}
	return state{}, t.wait, nil
}

// read reads for all readers that wait.
func (t *topic) read(ctx context.Context, known state, open func()) {
	defer func() { // after a panic, too: another reader reads then
		t.mu.Lock()
		t.wait = nil
		t.mu.Unlock()
		open()
	}()
	var fresh state
	var err error
	// A read needs a large stack. That of a goroutine of its own does not stay with the reader.
	t.frames.host.Go(func() { fresh, err = known.read(ctx, t.store, t.frames, t.key.scope, t.key.run) })()
	if ctx.Err() != nil {
		return // the reader has gone; the error says nothing about the run
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lastRead, t.failed, t.readAt = t.reads, err, t.frames.host.Elapsed()
	switch {
	case err == nil:
		t.known = fresh
		output := known.seq != fresh.seq || len(known.text) != len(fresh.text)
		t.found(output || known.version != fresh.version, output)
	case problem.Is(err, "not_found"):
		t.wakeAll()
	}
}

// found wakes the readers for what is known now: whether there is news, and whether the run has new output. The caller
// holds the lock.
func (t *topic) found(news, output bool) {
	if news {
		t.changed = t.readAt
	}
	if output {
		t.active, t.empty = t.empty < maxEmpty, 0
	}
	t.known.number++
	t.wakeAll()
}

func (t *topic) wakeAll() {
	for _, wake := range t.waiters {
		(*wake)()
	}
}

// await waits until a poll has seen news, which the caller must read then, or another state than that of the given
// number is known, or for d. The error is ctx's: then another reader reads the news.
func (t *topic) await(ctx context.Context, number int, d time.Duration) (must bool, err error) {
	early, wake := context.WithCancel(ctx)
	defer wake()
	if t.enqueue(&wake, number) {
		_ = t.frames.host.Sleep(early, d) // ctx is checked below
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiters = slices.DeleteFunc(t.waiters, func(other *context.CancelFunc) bool { return other == &wake })
	err = ctx.Err()
	must = t.news && err == nil
	if t.news = t.news && !must; t.news {
		t.request()
	}
	return must, err
}

// enqueue adds a reader to those that wait, unless there is something for it already.
func (t *topic) enqueue(wake *context.CancelFunc, number int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.news || t.known.number != number || problem.Is(t.failed, "not_found") {
		return false
	}
	t.waiters = append(t.waiters, wake)
	return true
}

// request has one of the readers read the run. The caller holds the lock.
func (t *topic) request() {
	t.news = true
	if len(t.waiters) > 0 {
		(*t.waiters[0])()
	}
}

// requestIf has one of the readers read the run if there is news compared with the known state.
func (t *topic) requestIf(news func(known state) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if news(t.known) {
		t.request()
	}
}

// unpollable reports whether a poll could miss something, so that readers read by themselves. The run was not read
// yet, or some of it could not be. Or no frame of its attempt is known: earlier frames may have expired, and so the
// number of the next one is unknown until the worker acknowledges the topic's ask. The caller holds the lock.
func (t *topic) unpollable() bool {
	return t.known.run == "" || t.known.partial || t.known.status == lifecycle.Running && t.known.seq == 0
}

// due reports whether the run is due for a poll before the next tick, and records that it is polled now.
func (t *topic) due(now, tick time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.unpollable() || now+tick <= max(t.polledAt, t.readAt)+t.frames.notifier.Pace(now-t.changed) {
		return false
	}
	t.late = now-t.polledAt > 2*tick
	t.polledAt = now
	return true
}

const (
	// framesAhead is how many frames a poll reads of an active run. Of words that come one after the other a worker
	// stores one frame between two ticks, at times two.
	framesAhead = 2
	// maxEmpty is after how many polls without a frame a run is quiet. They are counted, not timed. While calls take
	// long, active runs must not be taken for quiet ones, whose readers make more calls.
	maxEmpty = 8
)

// nextFrames are the keys of the run's next frames; there can be some only while it is running. active says that there
// was a frame a few polls ago, and another one a few polls before that. There will be more: a poll may as well read
// them as look for them.
func (t *topic) nextFrames() (keys [framesAhead]table.Key, running, active bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	running = t.known.status == lifecycle.Running
	active = running && t.active && t.empty < maxEmpty
	return [framesAhead]table.Key{t.known.frameAt(1), t.known.frameAt(2)}, running, active
}

// addNext adds frames that a poll has read to the known state, up to the first that is missing. It reports whether
// there may be more behind them.
func (t *topic) addNext(items []*table.Item) (more bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, item := range items {
		if item == nil {
			t.empty++
			return false
		}
		frame, err := decodeFrame(item)
		if err != nil {
			t.request() // a reader's own read handles it
			return false
		}
		// Meanwhile a reader may have read the frame, or may be reading, or the run may have changed.
		if t.wait != nil || t.known.status != lifecycle.Running || item.Key != t.known.frameAt(1) {
			return false
		}
		t.known.add(frame)
		t.readAt = t.frames.host.Elapsed()
		t.found(true, true)
		// A short piece of text is stored alone. Behind a step or a long text there may be more.
		more = more || t.late || frame.Kind != events.FrameDelta || len(frame.Text) >= gatherText
	}
	return more
}

// foundNothing counts a poll without a frame.
func (t *topic) foundNothing() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.empty++
}
