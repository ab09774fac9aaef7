package sim

import (
	"context"
	"fmt"
	"time"

	"agentplatform/internal/platform/share"
	"agentplatform/internal/run/worker"
	"agentplatform/internal/store/queue"
	"agentplatform/internal/store/queue/localqueue"
)

// hasFloods reports whether a world is a laptop's: one process, whose queue shares its workers out, with users who let
// many runs pause and answer them together.
func hasFloods(seed uint64) bool { return seed%16 == 3 || seed%16 == 5 || seed%16 == 8 }

// units are the workers of a laptop in a world with floods, with the reserve.
var units = share.Limits{All: 4, Reserve: 2}

// most is how many of them an organization may have: all but half of the reserve.
const most = 3

// turns is the queue of a process that shares its workers out, and an account of its own of who has which turn. It
// knows only who waits and who has workers.
type turns struct {
	*world
	process *process
	queue   *localqueue.Queue
	changes int // of what may be delivered
	begun   int // without a message

	reserved map[*reservation]bool // neither begun nor given back

	waiting map[queue.Message]share.Holder
	workers map[share.Holder]int // workers, of a user, and of an organization: without a user
	passed  map[[2]share.Holder]int
}

// reservation is a worker that is reserved for what a request accepts.
type reservation struct{ request *actor }

func newTurns(w *world, p *process) *turns {
	return &turns{
		world: w, process: p, queue: localqueue.Shared(units), waiting: map[queue.Message]share.Holder{},
		workers: map[share.Holder]int{}, passed: map[[2]share.Holder]int{}, reserved: map[*reservation]bool{},
	}
}

// owner is whose run a message is for, not who the message names.
func (t *turns) owner(m queue.Message) share.Holder {
	if r, there := t.checker.runs[m.Nudge.ID]; there {
		return share.Holder{Organization: r.Organization, User: r.User}
	}
	return share.Holder{Organization: m.Group, User: m.User}
}

// whole is the organization of a user.
func whole(user share.Holder) share.Holder { return share.Holder{Organization: user.Organization} }

func (t *turns) send(m queue.Message) error {
	if err := t.queue.Send(context.Background(), m); err != nil {
		return err
	}
	t.changes++
	t.waiting[m] = t.owner(m)
	return nil
}

// retry sends a message again after what failed has had some time.
func (t *turns) retry(m queue.Message) {
	t.at(t.now.Add(2*time.Second), func() {
		if !t.process.dead {
			must(t.send(m))
		}
	})
}

// lost is a context that has ended: who receives with it does not wait.
var lost = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// deliver hands messages to workers, as long as workers are there.
func (t *turns) deliver(a *actor, handle func(a *actor, run string) error) {
	for n, seen := 1, -1; ; n++ {
		t.until(a, func() bool { return t.changes != seen && !t.away.After(t.now) })
		d, err := t.queue.Receive(lost)
		if err != nil {
			seen = t.changes
			t.idle()
			continue
		}
		who := t.waiting[d.Message]
		delete(t.waiting, d.Message)
		t.turn(who)
		t.take(who)
		t.spawn(t.process, fmt.Sprintf("%s work %d", t.process.name, n), func(a *actor) {
			err := handle(a, d.Nudge.ID)
			must(t.queue.Ack(context.Background(), d))
			if t.giveBack(who); err != nil {
				t.retry(d.Message)
			}
		})
	}
}

// turn checks whose turn it is: who has no worker is passed by each other organization, or user of the same one, once
// at most before its own turn.
func (t *turns) turn(who share.Holder) {
	for _, other := range t.without(who) {
		t.counted["waited for a turn"]++
		mine := who
		if other.User == "" {
			mine = whole(who)
		}
		pair := [2]share.Holder{mine, other}
		if t.passed[pair]++; t.passed[pair] > 1 {
			t.checker.violated(36, "%v has a second turn while %v, who has no worker, waits", mine, other)
		}
	}
	for pair := range t.passed {
		if pair[1] == who || pair[1] == whole(who) {
			delete(t.passed, pair)
		}
	}
}

// without is who waits and has no worker: other organizations than somebody's, and other users of the same one.
func (t *turns) without(who share.Holder) (list []share.Holder) {
	seen := map[share.Holder]bool{who: true}
	for _, other := range t.waiting {
		if whole(other) != whole(who) {
			other = whole(other)
		}
		if !seen[other] && t.workers[other] == 0 {
			list = append(list, other)
		}
		seen[other] = true
	}
	return list
}

// idle checks that no worker is free, where nobody is given one, while an organization that has none waits.
func (t *turns) idle() {
	for one := range t.reserved {
		if one.request.done {
			t.checker.violated(36, "%s has ended and keeps the worker that it reserved", one.request.name)
		}
	}
	all := int64(0)
	for who, n := range t.workers {
		if who.User == "" {
			all += int64(n)
		}
	}
	for _, other := range t.without(share.Holder{}) {
		if all < units.All {
			t.checker.violated(36, "%v waits, and %d of %d workers have something to do", other, all, units.All)
		}
	}
}

func (t *turns) take(who share.Holder) {
	t.workers[who]++
	if t.workers[whole(who)]++; t.workers[whole(who)] == most {
		t.counted["organization has all but the reserve"]++
	}
	if t.workers[whole(who)] > most {
		t.checker.violated(36, "organization %s has %d of %d workers", who.Organization, t.workers[whole(who)],
			units.All)
	}
}

func (t *turns) giveBack(who share.Holder) {
	t.workers[who]--
	t.workers[whole(who)]--
	t.changes++
}

// reserve is where a process executes what it accepts, if nobody waits for a worker who may have it.
func (t *turns) reserve(organization, user string) func(func(context.Context)) {
	if t.away.After(t.now) || t.work.IntN(4) == 0 {
		return nil
	}
	free := t.queue.Reserve(organization, user)
	if free == nil {
		return nil
	}
	t.counted["began at once"]++
	who := share.Holder{Organization: organization, User: user}
	if before := t.without(share.Holder{}); len(before) > 0 {
		t.checker.violated(36, "%v begins at once, and %v, who has no worker, waits", who, before)
	}
	t.take(who)
	one := &reservation{t.awake}
	t.reserved[one] = true
	return func(attempt func(context.Context)) {
		delete(t.reserved, one)
		end := func() {
			free()
			t.giveBack(who)
		}
		if attempt == nil {
			end()
			return
		}
		t.begun++
		t.spawn(t.process, fmt.Sprintf("%s start %d", t.process.name, t.begun), func(a *actor) {
			attempt(context.Background())
			t.checker.left(a, "that it had accepted")
			end()
		})
	}
}

// room is where a process executes what it accepts: two runs beside each other, if it is not busy otherwise.
func (w *world) room(d *deployment) func(_, _ string) func(func(context.Context)) {
	free, begun := 2, 0
	return func(_, _ string) func(func(context.Context)) {
		if free == 0 || w.work.IntN(4) == 0 {
			return nil
		}
		free--
		return func(attempt func(context.Context)) {
			if attempt == nil {
				free++
				return
			}
			begun++
			w.spawn(d.process, fmt.Sprintf("%s start %d", d.name, begun), func(a *actor) {
				attempt(context.Background())
				w.checker.left(a, "that it had accepted")
				free++
			})
		}
	}
}

// alone has a process be the only one, with a queue of its own, as on a laptop.
func (w *world) alone(d *deployment) {
	d.turns = newTurns(w, d.process)
	d.executor.Queue, d.executor.Timer, d.executor.ProcessID = &portal{w, d.process, d.turns}, nil, d.name
	if d.executor.Starter != nil {
		d.executor.Starter = &worker.Starter{Worker: d.worker, Room: d.turns.reserve}
	}
	w.spawn(d.process, d.name+" dispatcher", func(a *actor) {
		d.turns.deliver(a, func(a *actor, run string) error {
			err := d.worker.Handle(context.Background(), run)
			w.checker.left(a, run)
			return err
		})
	})
}
