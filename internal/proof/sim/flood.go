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

// few is the number of paused runs in small floods, next to clients who do everything. lots is that of large floods.
const few, lots = 4, 48

// pausedRuns returns how many runs may be paused while new ones are accepted; 0: any number.
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

// long has the messages of a flood. They determine the work of its runs after they are answered.
var long = []string{"/ask A?\n/sleep 20s", "/ask A?\n/sleep 10m", "/ask A?\n/sleep 4m", "/ask A?\n/sleep 4m",
	"/tool effect {}\n/ask A?\n/sleep 4m", "/ask A?\n/sleep 10s\n/ask B?\n/sleep 10s"}

// flood sends messages whose runs pause, up to the limit, and decides all of them together.
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

// admission has the numbers of paused runs of a user and of its organization during a request: the least and the
// greatest.
type admission struct {
	organization, user string
	least, greatest    [2]int // of the user, of the organization
}

// watchAdmission begins to record the numbers of paused runs. end ends it.
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

// paused returns how many runs of a user and of its organization wait for people.
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

// watched updates all recorded admissions with the present numbers of paused runs.
func (c *checker) watched() {
	for d := range c.admissions {
		for i, n := range c.paused(d.organization, d.user) {
			d.least[i], d.greatest[i] = min(d.least[i], n), max(d.greatest[i], n)
		}
	}
}

// passed checks the outcome of a message: a new run or a refusal must be correct for the number of paused runs.
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

// slackOfDeadlines returns how long before a commit about a start deadline the decision may have been made.
func (c *checker) slackOfDeadlines() time.Duration { return 3*lease + 2*time.Minute + c.world.skew }

// works has the time since which a worker has worked on a run without a pause. It also has the time until which others
// must assume that.
type works struct {
	organization string
	since, until time.Time
}

// atWork records that a worker works on a run.
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

// deadline checks the start deadline of a queued run. It does not expire while workers execute runs of its
// organization. It does expire when none does.
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

// busy reports whether a worker of a living process was executing another run of the organization during the whole time
// of a decision on a run's start deadline. Two runs that follow each other must overlap for some time: a decision may
// no longer see the first and not yet see the second.
func (c *checker) busy(r record.Run) bool {
	const both = 10 * time.Second
	slack := c.slackOfDeadlines()
	if hasFloods(c.world.seed) { // the executing process itself decides: while it stands still, no lease is extended
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
