package stream

import (
	"context"
	"time"

	"agentplatform/events"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
)

// topic is the shared state of a run's readers in this process.
type topic struct {
	feed[state]

	store *record.Store
	key   topicKey
	ask   string // the worker acknowledges this id in a frame, after it has stored all earlier output

	// The feed's mutex guards these.
	watched  time.Time     // when the watch row was stored
	polledAt time.Duration // when the run was polled last
	late     bool          // the poll before that was longer ago than usual
}

// topicKey is a run as seen in a scope. Readers of different scopes share nothing, not even a refusal.
type topicKey struct {
	scope record.Scope
	run   string
}

func newTopic(ctx context.Context, f *frameTable, s *record.Store, key topicKey) *topic {
	t := &topic{store: s, key: key, ask: f.host.NewID()}
	t.feed = feed[state]{frames: f, fetch: t.fetch}
	t.begin(ctx, key.run, framesPart(key.run))
	return t
}

// fetch reads the run. It stores the watch row first, so that no output is missed.
func (t *topic) fetch(ctx context.Context, known state) (fresh state, news bool, err error) {
	t.keepWatch(ctx)
	fresh, err = known.read(ctx, t.store, t.frames, t.key.scope, t.key.run)
	if err != nil {
		return fresh, false, err
	}
	news = known.version != fresh.version || known.seq != fresh.seq || len(known.text) != len(fresh.text)
	return fresh, news, nil
}

// mustWatch reports whether half of the life of the run's watch row is over, while the run can produce output.
func (t *topic) mustWatch() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.frames.host.Now().Sub(t.watched) >= watchLife/2 && !t.value.status.Terminal()
}

// keepWatch stores the watch row again if necessary. After a failure it is tried again later.
func (t *topic) keepWatch(ctx context.Context) {
	now := t.frames.host.Now()
	if t.mustWatch() && t.frames.watch(ctx, t.key.run, t.ask) == nil {
		t.mu.Lock()
		t.watched = now
		t.mu.Unlock()
	}
}

// isDue is that of the feed. If the run is polled, or there are notifications, such reads are rare.
func (t *topic) isDue(now, tick time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	wait := t.frames.pace(t.readAt - t.changed)
	switch {
	case t.value.partial: // stored frames cause no further notification
		wait = min(wait, callTime)
	case !t.unpollable():
		wait = watchLife / 2
	}
	return t.begun == t.ended && now+tick/2 > t.readAt+wait
}

// unpollable reports whether a poll could miss output, so that the topic must read for itself. The run was not read
// yet, or only in part. Or no frame of its attempt is known: earlier frames may have expired. The number of the next
// one is then unknown until the worker acknowledges the topic's ask. The caller holds the lock.
func (t *topic) unpollable() bool {
	return t.value.run == "" || t.value.partial || t.value.status == lifecycle.Running && t.value.seq == 0
}

// poll reports whether the run is due for a poll before the next tick, and records that it is polled now.
func (t *topic) poll(now, tick time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.frames.polls() || t.unpollable() || now+tick <= max(t.polledAt, t.readAt)+t.frames.pace(now-t.changed) {
		return false
	}
	t.late = now-t.polledAt > 2*tick
	t.polledAt = now
	return true
}

// framesAhead is the number of frames that a poll reads of a running run. If single words arrive, a worker stores one
// frame between two ticks, sometimes two.
const framesAhead = 2

// addNext adds the frames of a poll to the known state, up to the first missing one. It reports whether there may be
// more after them.
func (t *topic) addNext(items []*table.Item) (more bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, item := range items {
		if item == nil {
			return false
		}
		frame, err := decodeFrame(item)
		if err != nil {
			t.want() // the topic's own read handles it
			return false
		}
		// By now the topic may have read the frame, or may be reading, or the run may have changed.
		if t.reading || t.value.status != lifecycle.Running || item.Key != t.value.frameAt(1) {
			return false
		}
		t.value.add(frame)
		t.found(true)
		t.publish()
		// A short piece of text is stored alone. After a step or a long text there may be more.
		more = more || t.late || frame.Kind != events.FrameDelta || len(frame.Text) >= gatherText
	}
	return more
}
