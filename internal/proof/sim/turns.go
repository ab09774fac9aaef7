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

// hasFloods reports whether a world is a laptop's. It has one process, whose queue shares its workers out. Its users
// let many runs pause and answer them together.
func hasFloods(seed uint64) bool { return seed%16 == 3 || seed%16 == 5 || seed%16 == 8 }

// units are the workers of a laptop in a world with floods, with the reserve.
var units = share.Limits{All: 4, Reserve: 2}

// most is the largest number of these workers that an organization may have: all but half of the reserve.
const most = 3

// turns is the queue of a process that shares its workers out, with a record of its own of the turns. It knows only
// which users wait and which have workers.
type turns struct {
	*world
	process *process
	queue   *localqueue.Queue
	changes int // of the messages that may be delivered
	begun   int // without a message

	reserved map[*reservation]bool // neither begun nor given back

	waiting map[queue.Message]share.Holder
	workers map[share.Holder]int // workers, of a user, and of an organization: without a user
	passed  map[[2]share.Holder]int
}

// reservation is a worker that is reserved for a request's run.
type reservation struct{ request *actor }

func newTurns(w *world, p *process) *turns {
	return &turns{
		world: w, process: p, queue: localqueue.Shared(units), waiting: map[queue.Message]share.Holder{},
		workers: map[share.Holder]int{}, passed: map[[2]share.Holder]int{}, reserved: map[*reservation]bool{},
	}
}

// owner returns the owner of a message's run, not the user whom the message names.
func (t *turns) owner(m queue.Message) share.Holder {
	if r, there := t.checker.runs[m.Wakeup.ID]; there {
		return share.Holder{Organization: r.Organization, User: r.User}
	}
	return share.Holder{Organization: m.Group, User: m.User}
}

// whole returns the organization of a user.
func whole(user share.Holder) share.Holder { return share.Holder{Organization: user.Organization} }

func (t *turns) send(m queue.Message) error {
	if err := t.queue.Send(context.Background(), m); err != nil {
		return err
	}
	t.changes++
	t.waiting[m] = t.owner(m)
	return nil
}

// retry sends a message again after a pause of two seconds.
func (t *turns) retry(m queue.Message) {
	t.at(t.now.Add(2*time.Second), func() {
		if !t.process.dead {
			must(t.send(m))
		}
	})
}

// lost is a context that has ended. A receive with it does not wait.
var lost = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// deliver gives messages to workers, as long as there are free workers.
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
			err := handle(a, d.Wakeup.ID)
			must(t.queue.Ack(context.Background(), d))
			if t.giveBack(who); err != nil {
				t.retry(d.Message)
			}
		})
	}
}

// turn checks the order of turns. A waiting user without a worker may be passed at most once by each other
// organization, or by each other user of its own, before its own turn.
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

// without returns the waiting holders without a worker: other organizations, and other users of the same one.
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

// idle checks the state in which nobody is given a worker. No worker may be free while an organization without one
// waits.
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

// reserve reserves a worker for the run of a request. It returns a function that executes the run, or nil if no worker
// may be reserved.
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

// room returns a function that admits an accepted run to a process, two at the same time. Its result executes the run.
// It is nil if the process is busy.
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

// alone makes a process the only one, with a queue of its own, as on a laptop.
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
