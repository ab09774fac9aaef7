package sim

import (
	"context"
	"fmt"
	"time"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/run/intake"
	"agentplatform/internal/store/record"
)

// So many runs are paused in small floods, beside clients who do everything, and in large ones.
const few, lots = 4, 48

// pausedRuns is how many runs may be paused while new ones are accepted; 0: any number.
func (w *world) pausedRuns() int {
	switch {
	case !hasFloods(w.seed):
		return 0
	case w.seed/16%4 == 1 || w.seed/16%4 == 2:
		return few
	default:
		return lots
	}
}

// floods makes one or two users who flood the process with runs that pause, and users who post small messages. In half
// of these worlds all workers are away for a while.
func (w *world) floods() {
	first := w.work.IntN(len(w.people))
	both := w.work.IntN(2) == 0 // users of the first organization
	for n, one := range w.people {
		c := &client{
			world: w, who: one, name: fmt.Sprintf("flood %d", n), own: &process{name: fmt.Sprintf("flood %d", n)},
			keys: map[string]string{}, sent: map[string]intake.Message{},
		}
		hog := n == first || both && first < 2 && n < 2
		w.spawn(c.own, c.name, func(a *actor) {
			for end := w.now.Add(w.trouble); w.now.Before(end) && !w.left[c.who.User]; {
				if hog {
					c.flood(a)
				} else {
					c.post(a, intake.Message{AgentID: c.agentOf(), Text: c.numbered("hello")})
				}
				_ = w.sleep(a, context.Background(), time.Duration(w.work.Int64N(int64(30*time.Second))))
			}
		})
	}
	if w.rate > 0 && w.work.IntN(2) == 0 {
		w.at(w.now.Add(time.Duration(w.work.Int64N(int64(8*time.Minute)))), func() {
			w.count("workers away")
			w.away = w.now.Add(startDeadline + time.Duration(w.work.Int64N(int64(startDeadline))))
			w.at(w.away, func() {})
		})
	}
}

// long are what runs of a flood do after they are answered.
var long = []string{"/ask A?\n/sleep 20s", "/ask A?\n/sleep 10m", "/ask A?\n/sleep 4m", "/ask A?\n/sleep 4m",
	"/tool effect {}\n/ask A?\n/sleep 4m", "/ask A?\n/sleep 10s\n/ask B?\n/sleep 10s"}

// flood sends messages whose runs pause, until no more may, and decides all of them together.
func (c *client) flood(a *actor) {
	for n := range 2 * c.pausedRuns() {
		m := intake.Message{AgentID: c.agentOf(), Text: c.numbered(c.any(long))}
		if !c.post(a, m) && n > c.pausedRuns() {
			break
		}
		_ = c.sleep(a, context.Background(), time.Duration(c.work.Int64N(int64(3*time.Second))))
	}
	_ = c.sleep(a, context.Background(), time.Duration(c.work.Int64N(int64(2*time.Minute))))
	for _, run := range c.runs {
		if c.checker.runs[run].Status == lifecycle.AwaitingInput {
			c.resume(a, run)
		}
	}
}

// admission is what a user and its organization had paused while a request was under way: at least, and at most.
type admission struct {
	organization, user string
	least, greatest    [2]int // of the user, of the organization
}

// watchAdmission begins to watch what is paused; the result ends it.
func (c *checker) watchAdmission(organization, user string) (d *admission, end func()) {
	d = &admission{organization: organization, user: user}
	d.least = c.paused(organization, user)
	d.greatest = d.least
	if c.admissions == nil {
		c.admissions = map[*admission]bool{}
	}
	c.admissions[d] = true
	return d, func() { delete(c.admissions, d) }
}

// paused is how many runs of a user and of its organization wait for people.
func (c *checker) paused(organization, user string) (n [2]int) {
	for _, r := range c.runs {
		if r.Status == lifecycle.AwaitingInput && r.Organization == organization {
			if n[1]++; r.User == user {
				n[0]++
			}
		}
	}
	return n
}

// watched has those who watch see what is paused now.
func (c *checker) watched() {
	for d := range c.admissions {
		for i, n := range c.paused(d.organization, d.user) {
			d.least[i], d.greatest[i] = min(d.least[i], n), max(d.greatest[i], n)
		}
	}
}

// passed checks what came of a message: a new run, or a refusal, and that it had to.
func (c *client) passed(d *admission, posted intake.Posted, err error) {
	limit := c.pausedRuns()
	if limit == 0 || c.left[c.who.User] {
		return
	}
	little := max(1, limit/100)
	switch p, is := problem.As(err); {
	case err == nil && posted.Parked == nil && !posted.Replayed && posted.Pause == 0:
		if d.least[0] >= limit || d.least[1] >= limit && d.least[0] >= little {
			c.checker.violated(37, "run %s came through the door, and %v runs of its user and organization, of %d, "+
				"were paused", posted.Run.RunID, d.least, limit)
		}
	case is && p.Code == "paused_runs_limit":
		c.counted["refused for paused runs"]++
		scope := map[any]int{"user": 0, "organization": 1}[p.Extras["scope"]]
		if d.greatest[scope] < limit || d.greatest[0] < little {
			c.checker.violated(37, "a message was refused for paused runs of its %v: %v of its user and "+
				"organization, of %d", p.Extras["scope"], d.greatest, limit)
		}
	}
}

// slackOfDeadlines is how long before a commit about a start deadline it may have been decided.
func (c *checker) slackOfDeadlines() time.Duration { return 3*lease + 2*time.Minute + c.world.skew }

// works is since when a worker has been at work on a run without a pause, and until when others must think so.
type works struct {
	organization string
	since, until time.Time
}

// atWork records who is at work.
func (c *checker) atWork(before, r record.Run) {
	now, w := c.world.now, c.works[r.ID()]
	switch {
	case r.Status == lifecycle.Running:
		if before.Status != lifecycle.Running || before.Attempt != r.Attempt || w.until.Before(now) {
			w.since = now
		}
		c.works[r.ID()] = works{r.Organization, w.since, r.Lease.Until}
	case w.until.After(now):
		c.works[r.ID()] = works{r.Organization, w.since, now}
	}
}

// deadline checks what became of the start deadline of a run that was queued: it does not run while the runs of its
// organization are at work, and it does when none is.
func (c *checker) deadline(before, r record.Run) {
	if before.Status != lifecycle.Queued {
		return
	}
	now, slack, perhaps := c.world.now, c.slackOfDeadlines(), false
	for id, w := range c.works {
		perhaps = perhaps || w.organization == r.Organization && id != r.ID() && now.Sub(w.until) <= slack
	}
	unstartable, moved := r.Status == lifecycle.Failed, r.Status == lifecycle.Queued && r.StartBy.After(before.StartBy)
	switch {
	case unstartable:
		c.world.counted["could not be started"]++
	case moved:
		c.world.counted["start deadlines moved"]++
	}
	switch {
	case unstartable && now.Sub(before.QueuedAt) < lifecycle.MaxQueued-c.world.skew && c.busy(r):
		c.violated(38, "run %s could not be started, while runs of its organization are at work", r.ID())
	case unstartable && c.world.rate == 0 && c.world.skew <= lease:
		c.violated(38, "run %s could not be started, and no worker was lost", r.ID())
	case moved && !perhaps:
		c.violated(38, "the start deadline of run %s was moved, and no run of its organization is at work", r.ID())
	}
}

// busy reports whether, as long as a decision about the start deadline of a run may be under way, at every time a
// worker of a living process was at work on another run of its organization. Where one run follows another, both are at
// work for some time: who decides may see the one no more and the other not yet.
func (c *checker) busy(r record.Run) bool {
	const both = 10 * time.Second
	slack := c.slackOfDeadlines()
	if hasFloods(c.world.seed) { // who decides is of the process at work: while it stands still, no lease goes on
		slack = 2*time.Minute + c.world.skew
	}
	for at := c.world.now; c.world.now.Sub(at) < slack; {
		earliest := at
		for id, w := range c.works {
			lost := c.runs[id].Status == lifecycle.Running && c.holders[id].dead
			if w.organization == r.Organization && id != r.ID() && !lost && w.until.After(at.Add(c.world.skew)) &&
				w.since.Before(earliest) {
				earliest = w.since
			}
		}
		if at.Sub(earliest) <= both {
			return false
		}
		at = earliest.Add(both)
	}
	return true
}
