package stream

import (
	"cmp"
	"context"
	"slices"
	"time"

	"agentplatform/events"
	"agentplatform/internal/host"
	"agentplatform/internal/lifecycle"
	"agentplatform/internal/problem"
	"agentplatform/internal/record"
	"agentplatform/internal/table"
)

// glancer looks for news of all runs that have readers in this process, where no notification tells of them. At each
// tick its goroutine looks at those that are due, a hundred keys in a call, and has one reader of each run of which
// there is news read it. It looks at two rows of a run: its head, whose version says whether it has changed, and,
// while the run is running, the place of its next frame. Frames are numbered without gaps, so that the next one is
// found without another row that each frame would have to write. Of a run that speaks it does not only look at that
// place: it reads the next frames for the readers, so that a thousand runs that speak cost a few calls as well.
//
// The hub's mutex guards it.
type glancer struct {
	store   *record.Store
	readers int    // groups
	stop    func() // ends the goroutine and waits for it
	died    string // the last panic that was logged
}

// polls reports whether news must be looked for.
func (h *Hub) polls() bool { return h.notifier.Gather() > 0 }

// beginGlances has a group's run be looked at. The caller holds the mutex, and must call endGlances when done.
func (h *Hub) beginGlances(ctx context.Context, s *record.Store) {
	if !h.polls() {
		return
	}
	g := h.glancers[s]
	if g == nil {
		g = &glancer{store: s}
		h.glancers[s] = g
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		wait := h.host.Go(func() { h.glances(ctx, g) })
		g.stop = func() { cancel(); wait() }
	}
	g.readers++
}

// endGlances is the end of a group. The caller holds the mutex, and must call stop without it.
func (h *Hub) endGlances(s *record.Store) (stop func()) {
	g := h.glancers[s]
	if g == nil {
		return func() {}
	}
	if g.readers--; g.readers > 0 {
		return func() {}
	}
	delete(h.glancers, s)
	return g.stop
}

// glances looks for news until ctx ends. The calls of a tick are made side by side, each with a time of its own and as
// many keys as one request has, so that one that fails takes no other along.
func (h *Hub) glances(ctx context.Context, g *glancer) {
	tick := h.notifier.Pace(0)
	for h.host.Sleep(ctx, tick) == nil {
		var looks []func()
		look := func(how func(context.Context, *record.Store, []*group), groups []*group, most int) {
			for some := range slices.Chunk(groups, most) {
				looks = append(looks, func() {
					if died := host.Catch(func() { how(ctx, g.store, some) }); died != nil {
						h.logged(g, died, len(some))
						tell(some) // by a frame of one of them, at which its own readers panic, and no others
					}
				})
			}
		}
		due := h.due(g, tick)
		quiet, speaking := bySpeech(due)
		look(h.lookAtHeads, due, table.MaxGetKeys)
		look(h.lookForFrames, quiet, table.MaxGetKeys)
		look(h.hear, speaking, table.MaxGetKeys/ahead)
		host.All(h.host, looks...)
	}
}

// logged logs a panic of a glance at some runs, unless it logged the same last: while the cause is there it comes again
// with each tick.
func (h *Hub) logged(g *glancer, died *host.Panic, runs int) {
	h.mu.Lock()
	known := g.died == died.Error()
	g.died = died.Error()
	h.mu.Unlock()
	if !known {
		h.log.Error("a glance panicked", "panic", died.Value, "runs", runs, "stack", string(died.Stack))
	}
}

// due lists the groups to look at now, rather than at the next tick, in a fixed order.
func (h *Hub) due(g *glancer, tick time.Duration) []*group {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.host.Elapsed()
	var due []*group
	for _, one := range h.groups {
		if one.store == g.store && one.toGlance(now, tick) {
			due = append(due, one)
		}
	}
	slices.SortFunc(due, func(a, b *group) int {
		return cmp.Or(cmp.Compare(a.place.run, b.place.run), cmp.Compare(a.number, b.number))
	})
	return due
}

// bySpeech divides the groups whose runs are running into those whose runs are quiet and those whose runs speak.
func bySpeech(groups []*group) (quiet, speaking []*group) {
	for _, g := range groups {
		switch _, running, speaks := g.nextFrames(); {
		case speaks:
			speaking = append(speaking, g)
		case running:
			quiet = append(quiet, g)
		}
	}
	return quiet, speaking
}

// lookAtHeads looks whether the runs have changed.
func (h *Hub) lookAtHeads(ctx context.Context, s *record.Store, groups []*group) {
	ctx, cancel := h.host.WithTimeout(ctx, callTime)
	defer cancel()
	ids := make([]string, 0, len(groups))
	for _, g := range groups {
		ids = append(ids, g.place.run)
	}
	versions, err := s.Versions(ctx, ids...)
	if err != nil {
		return // they are looked at again when they are due again
	}
	for i, version := range versions {
		groups[i].saw(func(known state) bool { return version == 0 || version > known.version })
	}
}

// lookForFrames looks whether quiet runs have said something.
func (h *Hub) lookForFrames(ctx context.Context, _ *record.Store, groups []*group) {
	ctx, cancel := h.host.WithTimeout(ctx, callTime)
	defer cancel()
	places := make([]table.Key, 0, len(groups))
	for _, g := range groups {
		keys, _, _ := g.nextFrames()
		places = append(places, keys[0])
	}
	marks, err := table.Glance(ctx, h.table, places...)
	for i, g := range groups {
		if err != nil || !marks[i].There {
			g.foundNothing()
			continue
		}
		g.saw(func(known state) bool { return places[i] == next(known, 1) })
	}
}

// A glance reads the next two frames of a run that speaks, and three times at most where there may be more: of words
// that come one after the other a worker stores one frame between two ticks, at times two; but several of a text that
// grows by kilobytes, and with steps. What says still more is read by a reader, in pages.
const (
	ahead  = 2
	rounds = 3
)

// hear reads what runs that speak have said.
func (h *Hub) hear(ctx context.Context, _ *record.Store, groups []*group) {
	for round := 0; round < rounds && len(groups) > 0; round++ {
		groups = h.hearOnce(ctx, groups)
	}
	tell(groups)
}

// hearOnce reads the next frames of each of the groups' runs, and returns the groups of which there may be more.
func (h *Hub) hearOnce(ctx context.Context, groups []*group) (more []*group) {
	ctx, cancel := h.host.WithTimeout(ctx, callTime)
	defer cancel()
	var all []table.Key
	for _, g := range groups {
		keys, _, _ := g.nextFrames()
		all = append(all, keys[:]...)
	}
	items, err := h.table.Get(ctx, all...)
	for i, g := range groups {
		if err != nil { // in the end it counts as quiet: its readers read it in calls of their own
			g.foundNothing()
			continue
		}
		goesOn := false
		for _, item := range items[i*ahead : (i+1)*ahead] {
			did, others := g.heard(item)
			if goesOn = did && (goesOn || others); !did {
				break
			}
		}
		if goesOn {
			more = append(more, g)
		}
	}
	return more
}

// tell has one of the readers of each group read.
func tell(groups []*group) {
	for _, g := range groups {
		g.saw(func(state) bool { return true })
	}
}

// next is the key of the nth frame from now on of a running run.
func next(s state, n int64) table.Key {
	return frameKey(s.run, s.attempt, s.seq+n)
}

// silence is how many looks that find nothing make a run one that does not speak. They are counted, not timed: when
// calls take long, runs that speak must not be taken for others, whose readers make more calls.
const silence = 8

// nextFrames are the keys of the run's next frames; there can be some only while it is running. speaks says that there
// was news a few looks ago, and a few looks before that, too: there will be more, which a glance may as well read as
// look for.
func (g *group) nextFrames() (keys [ahead]table.Key, running, speaks bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	running = g.known.status == lifecycle.Running
	speaks = running && g.speaks && g.silent < silence
	return [ahead]table.Key{next(g.known, 1), next(g.known, 2)}, running, speaks
}

// heard has the readers have the run's next frame, and reports whether it did. It does nothing without one, while a
// reader reads, or if it is the next one no more: a reader has read it, or the run is not what it was. more says that
// others may be there behind it and one more: it is no short piece of text, which a worker stores one at a time, or the
// last glance was long ago.
func (g *group) heard(item *table.Item) (did, more bool) {
	if item == nil {
		g.foundNothing()
		return false, false
	}
	frames, err := decoded([]*table.Item{item})
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil {
		g.tell() // who reads it knows what to do with a frame that nobody can read
		return false, false
	}
	if g.wait != nil || g.known.status != lifecycle.Running || item.Key != next(g.known, 1) {
		return false, false
	}
	g.known.add(frames[0])
	g.polledAt = g.hub.host.Elapsed()
	g.found(true, true)
	return true, g.late || frames[0].Kind != events.FrameDelta || len(frames[0].Text) >= gatherText
}

// foundNothing counts a look for a frame that was not there.
func (g *group) foundNothing() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.silent++
}

// toGlance reports whether the run is due for a glance before the next tick, and takes it that it is given one.
func (g *group) toGlance(now, tick time.Duration) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.blind() || now+tick <= max(g.glanced, g.polledAt)+g.hub.notifier.Pace(now-g.changed) {
		return false
	}
	g.late = now-g.glanced > 2*tick
	g.glanced = now
	return true
}

// blind reports whether a glance could miss something, or would be of no use, so that readers read by themselves: the
// run was not read yet, or some of it could not be; or no frame of its attempt is known, and so no place of the next
// one: earlier frames may have expired. The worker's answer to the group's question is a frame. The caller holds the
// lock.
func (g *group) blind() bool {
	return g.known.run == "" || g.known.partial || g.known.status == lifecycle.Running && g.known.seq == 0
}

// saw has one of the readers read the run if it has news compared with what is known.
func (g *group) saw(news func(known state) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if news(g.known) {
		g.tell()
	}
}

// tell has one of the readers read the run. The caller holds the lock.
func (g *group) tell() {
	g.news = true
	if len(g.asleep) > 0 {
		g.asleep[0].wake()
	}
}

// sleeper is a reader that waits.
type sleeper struct{ wake func() }

// await waits until a glance has seen news, which the caller must read then, or another state than that of the given
// number is known, or for d. The error is ctx's.
func (g *group) await(ctx context.Context, state int, d time.Duration) (must bool, err error) {
	early, wake := context.WithCancel(ctx)
	defer wake()
	me := &sleeper{wake}
	if g.fallAsleep(me, state) {
		_ = g.hub.host.Sleep(early, d) // ctx is asked below
	}
	return g.awake(me, ctx.Err() == nil), ctx.Err()
}

// fallAsleep adds a reader to those that wait, unless there is something for it already.
func (g *group) fallAsleep(me *sleeper, state int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.news || g.known.number != state || problem.Is(g.failed, "not_found") {
		return false
	}
	g.asleep = append(g.asleep, me)
	return true
}

// awake removes a reader from those that wait, and reports whether it is to read. One that leaves is not: the next one
// is, then.
func (g *group) awake(me *sleeper, stays bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asleep = slices.DeleteFunc(g.asleep, func(other *sleeper) bool { return other == me })
	must := g.news && stays
	g.news = g.news && !must
	if g.news {
		g.tell()
	}
	return must
}

// wakeAll wakes all who wait. The caller holds the lock.
func (g *group) wakeAll() {
	for _, s := range g.asleep {
		s.wake()
	}
}
