package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"agentplatform/events"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/run/files"
	"agentplatform/internal/run/intake"
	"agentplatform/internal/run/stream"
	"agentplatform/internal/store/record"
)

// client is a user of the service. It sends messages, follows up, answers, cancels, deletes and reads. It retries with
// the same key when it gets no response.
type client struct {
	*world
	who    tenant.Principal
	name   string
	names  string // prefix of its keys: other users have keys of the same name
	own    *process
	runs   []string
	parked [][2]string // run, parked id
	chats  []string
	keys   map[string]string // idempotency key -> first response
	sent   map[string]intake.Message
	text   text // of its API key, in worlds where powers change
}

func (w *world) client(n int) {
	c := &client{
		world: w, who: w.people[n%len(w.people)], name: fmt.Sprintf("client %d", n),
		own:  &process{name: fmt.Sprintf("client %d", n)},
		keys: map[string]string{}, sent: map[string]intake.Message{}, names: fmt.Sprint("key-", n/len(w.people)),
	}
	for i := range 2 {
		// shared by the organization's clients
		c.chats = append(c.chats, fmt.Sprintf("chat-%s-%d", c.who.Organization, i))
	}
	w.clients++
	w.spawn(c.own, c.name, func(a *actor) {
		defer func() { w.clients-- }()
		end := w.now.Add(w.trouble)
		for w.now.Before(end) && !w.left[c.who.User] {
			c.act(a)
			_ = w.sleep(a, context.Background(), time.Duration(w.work.Int64N(int64(90*time.Second))))
		}
	})
}

// ask calls a living process. It returns false if the process died before it responded.
func (c *client) ask(a *actor, do func(ctx context.Context, d *deployment)) bool {
	var alive []*deployment
	for _, d := range c.processes {
		if !d.dead {
			alive = append(alive, d)
		}
	}
	if len(alive) == 0 {
		return false
	}
	d := alive[c.work.IntN(len(alive))]
	finished := false
	c.spawn(d.process, c.name+" at "+d.name, func(*actor) {
		do(context.Background(), d)
		finished = true
	})
	c.until(a, func() bool { return finished || d.dead })
	return finished
}

var messages = []string{
	"hello", "hello\n/sleep 2s", "/sleep 20s", "/sleep 100s", "/ask Which?", "one\n/ask A?\ntwo\n/ask B?",
	"/ask A?\n/ask B?", "/tool effect {}", "/tool once {}",
	"/tool effect {}\n/tool effect {}\n/ask C?", "/fail no", "/flaky 2", "x\n/tool effect {}\n/sleep 5s\n/tool once {}",
	"/tool once {}\n/tool once {}", "/sleep 10m",
	"/tool effect {\"n\":1}\n/tool once {\"n\":2}\n/tool effect {\"n\":3}", "/tool broken {}",
	"/tool effect {}\n/tool broken {}\n/tool once {}",
	"/sleep 10s\n/tool effect {}\n/sleep 20s\n/tool effect {}\n/sleep 20s\n/tool effect {}",
}

// many has more calls in one turn than fit in one commit. It is rare, as it takes as many steps as all other
// messages together.
var many = strings.Repeat("/tool effect {}\n", 120)

// large is a message whose body is stored in the blob store.
var large = strings.Repeat("x", 10_000)

// message returns a new message. Its text is unique, so it identifies its run.
func (c *client) message() string {
	return c.numbered(c.words())
}

func (c *client) words() string {
	switch c.work.IntN(200) {
	case 0:
		return many
	case 1, 2, 3, 4:
		return large
	}
	return c.any(messages)
}

func (c *client) act(a *actor) {
	switch n := c.work.IntN(100); {
	case n < 40:
		c.send(a)
	case n < 50:
		c.followup(a)
	case n < 72:
		c.resume(a, c.any(c.runs))
	case n < 82:
		c.cancel(a)
	case n < 87:
		c.withdraw(a)
	case n < 90:
		c.deleteChat(a)
	case n < 93:
		c.watch(a)
	case n < 95:
		c.trespass(a)
	case n < 99 || !c.strange || c.work.IntN(3) > 0:
		c.upload(a)
	default:
		c.leave(a)
	}
}

// upload uploads a file that everybody in the organization may use.
func (c *client) upload(a *actor) (f record.File, ok bool) {
	var err error
	n := files.New{Organization: c.who.Organization, User: c.who.User, Name: "a.txt", ContentType: "text/plain"}
	if !c.ask(a, func(ctx context.Context, d *deployment) {
		f, err = d.files.Take(ctx, n, strings.NewReader("content"))
	}) {
		return f, false
	}
	c.expect(err, "unavailable", "not_found")
	if err == nil {
		c.files[n.Organization] = append(c.files[n.Organization], f.ID)
	}
	return f, err == nil
}

// sendWith sends a message with its own file, which is removed when the message is not accepted.
func (c *client) sendWith(a *actor, m intake.Message) {
	f, ok := c.upload(a)
	if !ok {
		return
	}
	m.Files = append(m.Files, f.Ref())
	if taken := c.post(a, m); !taken {
		c.ask(a, func(ctx context.Context, d *deployment) { d.files.Drop(ctx, f) })
	}
}

// attached returns references to some of the organization's files, for a message.
func (c *client) attached(a *actor) (refs []record.FileRef) {
	var ids []string
	for range c.work.IntN(3) {
		if id := c.any(c.files[c.who.Organization]); id != "" {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	var err error
	if !c.ask(a, func(ctx context.Context, d *deployment) { refs, err = c.attach(ctx, d, ids) }) {
		return nil
	}
	c.expect(err, "unavailable", "not_found")
	return refs
}

// leave deletes the client's user, or sometimes the whole organization.
func (c *client) leave(a *actor) {
	all := c.work.IntN(3) == 0
	c.ask(a, func(ctx context.Context, d *deployment) {
		for _, p := range c.people {
			if p.User == c.who.User || all && p.Organization == c.who.Organization {
				c.left[p.User] = true // from now on, as the outcome of a request without response is unknown
			}
		}
		var err error
		if all && c.library != nil {
			c.library.closed[c.who.Organization] = true
		}
		if all {
			_, err = d.tenants.RemoveOrganization(ctx, c.who.Organization)
		} else {
			_, err = d.tenants.RemoveUser(ctx, tenant.Platform(), c.who.Scope(), c.who.User)
		}
		c.expect(err, "unavailable", "not_found")
	})
}

func (c *client) any(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[c.work.IntN(len(list))]
}

func (c *client) agentOf() string {
	organization := 0
	if c.who.Organization != c.people[0].Organization {
		organization = 2
	}
	return c.agents[organization+c.work.IntN(2)]
}

func (c *client) send(a *actor) {
	m := intake.Message{AgentID: c.agentOf(), Text: c.message(), Enqueue: c.work.IntN(2) == 0}
	if c.work.IntN(3) > 0 {
		m.ChatID = c.any(c.chats)
	}
	if c.work.IntN(3) == 0 {
		m.CallbackURL = "https://receiver.example/hook"
	}
	if c.work.IntN(2) == 0 {
		m.Files = c.attached(a)
	}
	if c.work.IntN(2) == 0 {
		m.Key = fmt.Sprintf("%s-%d", c.names, len(c.keys))
		c.keys[m.Key] = ""
		c.sent[m.Key] = m
	}
	if c.work.IntN(4) == 0 {
		c.sendWith(a, m)
		return
	}
	if m.Key != "" && c.work.IntN(4) == 0 { // an impatient client sends it twice concurrently
		c.spawn(c.own, c.name+" again", func(b *actor) { c.post(b, m) })
	}
	c.post(a, m)
	if len(c.sent) > 0 && c.work.IntN(4) == 0 {
		keys := sortedKeys(c.sent)
		c.post(a, c.sent[keys[c.work.IntN(len(keys))]])
	}
}

// post sends a message. taken is false if it was certainly not accepted, or had been accepted before.
func (c *client) post(a *actor, m intake.Message) (taken bool) {
	var posted intake.Posted
	var err error
	for range 3 {
		if answered := c.ask(a, func(ctx context.Context, d *deployment) {
			began, chat := c.now, c.checker.chat(c.who.Organization, m.ChatID)
			p, t, refusal := c.as(ctx, d, tenant.LevelRun)
			if err = refusal; err == nil {
				admission, end := c.checker.watchAdmission(c.who.Organization, c.who.User)
				posted, err = d.intake.Post(ctx, p, m)
				end()
				c.passed(admission, posted, err)
			}
			wanted := m.AgentID
			// a replayed response's own agent does not matter
			if posted.Replayed || err == nil && posted.Parked == nil {
				wanted = posted.Run.Agent
			}
			must := need{level: tenant.LevelRun, agents: []string{wanted}}
			if err == nil {
				must.owner = c.checker.whose[posted.Run.RunID].Owner
			}
			c.checkRights(d, t, began, must, c.toPost(m, chat), err)
		}); answered {
			break
		}
		if m.Key == "" {
			return true // the outcome is unknown
		}
	}
	if err != nil || posted.Run.RunID == "" {
		if before := c.keys[m.Key]; m.Key != "" && before != "" && isRefusal(err) &&
			!c.checker.isFree(before) && !c.left[c.who.User] {
			c.checker.violated(8, "key %s led to %s, and now to %v", m.Key, c.keys[m.Key], err)
		}
		codes := []string{"chat_busy", "parked_queue_full", "user_concurrency_cap", "organization_concurrency_cap",
			"unavailable", "not_found", "budget_exhausted"}
		if c.pausedRuns() > 0 {
			codes = append(codes, "paused_runs_limit")
		}
		c.expect(err, codes...)
		return false
	}
	c.accepted(m.Key, posted)
	if !posted.Replayed {
		c.checker.needs(posted, m.Files)
	}
	return !posted.Replayed
}

func (c *client) accepted(key string, p intake.Posted) {
	outcome := "run " + p.Run.RunID
	if p.Parked != nil {
		outcome = "parked " + p.Parked.ParkedID
		c.checker.parkedOK[p.Parked.ParkedID] = true
		c.checker.sender[p.Parked.ParkedID] = c.who.User
		c.parked = append(c.parked, [2]string{p.Run.RunID, p.Parked.ParkedID})
	}
	if key != "" {
		// Responses may arrive in another order than the service made them: an earlier one may refer to what is
		// removed by now.
		before := c.keys[key]
		if before != "" && before != outcome && !c.checker.isFree(before) && !c.checker.isFree(outcome) &&
			!c.left[c.who.User] {
			c.checker.violated(8, "key %s led to %s and then to %s", key, before, outcome)
		}
		if before == "" || !c.checker.isFree(outcome) {
			c.keys[key] = outcome
		}
	}
	if p.Parked == nil && p.Run.User != c.who.User && !c.checker.answeredBy(p.Run, c.who.User) {
		c.checker.violated(8, "key %s of user %s led to run %s of user %s", key, c.who.User, p.Run.RunID, p.Run.User)
	}
	c.runs = append(c.runs, p.Run.RunID)
}

// isRefusal reports whether a message was checked and refused.
func isRefusal(err error) bool {
	p, ok := problem.As(err)
	return ok && (p.Kind == problem.Conflict || p.Kind == problem.Limited)
}

// there checks that a run known to a client is found. The service may return not_found only if the run was removed.
func (c *client) there(run string, err error) {
	if _, known := c.checker.runs[run]; known && !c.checker.isGone(run) && problem.Is(err, "not_found") {
		c.checker.violated(15, "run %s is there, and a client was told: %v", run, err)
	}
}

// expect checks that an error is one that the contract allows; any other would be a 500.
func (c *client) expect(err error, codes ...string) {
	if err == nil {
		return
	}
	p, ok := problem.As(err)
	if !ok {
		if !strings.Contains(err.Error(), "not known whether") { // an honest 500
			c.fail(fmt.Sprintf("a client got an internal error: %v", err))
		}
		return
	}
	if slices.Contains(codes, p.Code) || c.powers != nil && refused(err) { // rights are checked elsewhere
		return
	}
	c.fail(fmt.Sprintf("a client got %s, which this request must not get: %v", p.Code, err))
}

func (c *client) followup(a *actor) {
	run := c.any(c.runs)
	if run == "" {
		return
	}
	var posted intake.Posted
	var err error
	if c.ask(a, func(ctx context.Context, d *deployment) {
		began := c.now
		p, t, refusal := c.as(ctx, d, tenant.LevelRun)
		if err = refusal; err == nil {
			posted, err = d.intake.Followup(ctx, p, run, c.message(), "")
		}
		c.checkRights(d, t, began, c.to(run), c.toWrite(run), err)
	}) {
		c.there(run, err)
		c.expect(err, "run_not_active", "parked_queue_full", "not_found", "unavailable", "budget_exhausted")
		if err == nil {
			c.accepted("", posted)
		}
	}
}

func (c *client) resume(a *actor, run string) {
	if run == "" {
		return
	}
	c.ask(a, func(ctx context.Context, d *deployment) {
		e, err := d.store.LiveRun(ctx, c.who.Scope(), run)
		if err != nil || e.Value.Status != lifecycle.AwaitingInput {
			return
		}
		interrupts, err := d.store.Interrupts(ctx, run, e.Value.Pause)
		if err != nil {
			return
		}
		var then catalog.AgentSpec
		if c.powers != nil {
			then = c.powers.paused[run]
		}
		// it may have been removed between the two requests
		if len(interrupts) != len(e.Value.Interrupts) && !c.checker.isGone(run) {
			c.checker.violated(6, "run %s waits for %d decisions and shows %d", run, len(e.Value.Interrupts),
				len(interrupts))
		}
		var list []record.Decision
		unsure := false
		for _, i := range interrupts {
			verb := lifecycle.Answer
			if i.Kind == string(lifecycle.Approval) {
				verb = []lifecycle.Verb{lifecycle.Approve, lifecycle.Approve, lifecycle.Reject}[c.work.IntN(3)]
				unsure = unsure || i.Unsure
			}
			one := record.Decision{InterruptID: i.ID, Decision: string(verb), Message: "m"}
			if verb == lifecycle.Approve && c.work.IntN(6) == 0 {
				one.Decision, one.Arguments = string(lifecycle.Edit), json.RawMessage(`{"edited":true}`)
			}
			list = append(list, one)
		}
		if unsure {
			c.checker.allowed[run]++ // before the response: the decision may count though the response is lost
		}
		if c.work.IntN(8) == 0 && len(list) > 1 {
			list = list[1:]
		}
		complete := len(list) == len(interrupts)
		began := c.now
		p, t, err := c.as(ctx, d, tenant.LevelRun)
		if err == nil {
			_, err = d.intake.Resume(ctx, p, run, "", list, nil, nil)
		}
		// otherwise it is at another pause by now
		if c.powers != nil && c.checker.runs[run].Pause == e.Value.Pause {
			n := c.toDecide(e.Value, list, then)
			may := n
			if len(n.agents) > 0 { // a user who may post to the chat may answer questions
				may.agents = c.all()
			}
			c.checkRights(d, t, began, n, may, err)
		}
		c.there(run, err)
		c.expect(err, "not_awaiting_input", "interrupts_mismatch", "unavailable", "not_found")
		if err == nil {
			c.checker.winners[fmt.Sprintf("%s/%d", run, e.Value.Pause)]++
			if !complete {
				c.checker.violated(6, "a partial resume of run %s succeeded", run)
			}
		}
	})
}

// toDecide returns the rights that a decision on a pause needs.
func (c *client) toDecide(r record.Run, list []record.Decision, then catalog.AgentSpec) (n need) {
	n.level = tenant.LevelRun
	for _, i := range r.Interrupts {
		if i.Kind != lifecycle.Approval {
			n.agents, n.owner = []string{r.Agent}, c.checker.whose[r.ID()].Owner
			continue
		}
		n.call = &call{r.Agent, r.User, then, !slices.ContainsFunc(list, func(d record.Decision) bool {
			return d.Decision == string(lifecycle.Approve) || d.Decision == string(lifecycle.Edit)
		})}
	}
	return n
}

func (c *client) cancel(a *actor) {
	run := c.any(c.runs)
	if run == "" {
		return
	}
	c.ask(a, func(ctx context.Context, d *deployment) {
		began := c.now
		p, t, err := c.as(ctx, d, tenant.LevelRun)
		if err == nil {
			_, err = d.intake.Cancel(ctx, p, run, "")
		}
		c.checkRights(d, t, began, c.to(run), c.to(run), err)
		c.there(run, err)
		c.expect(err, "not_found", "unavailable")
	})
}

func (c *client) withdraw(a *actor) {
	if len(c.parked) == 0 {
		return
	}
	p := c.parked[c.work.IntN(len(c.parked))]
	c.checker.withdrawn[p[1]] = c.checker.withdrawn[p[1]] || !c.checker.started[p[1]] // it may be removed from now on
	c.ask(a, func(ctx context.Context, d *deployment) {
		began := c.now
		who, t, err := c.as(ctx, d, tenant.LevelRun)
		if err == nil {
			err = d.intake.Withdraw(ctx, who, p[0], p[1])
		}
		c.checkRights(d, t, began, c.to(p[0]), c.toWrite(p[0]), err)
		c.expect(err, "not_found", "already_started", "unavailable")
	})
}

func (c *client) deleteChat(a *actor) {
	chat := c.any(c.chats)
	c.ask(a, func(ctx context.Context, d *deployment) {
		began, whose := c.now, c.checker.chat(c.who.Organization, chat)
		p, t, err := c.as(ctx, d, tenant.LevelRun)
		if err == nil {
			_, err = d.intake.DeleteChat(ctx, p, chat)
		}
		must, may := need{level: tenant.LevelRun}, need{level: tenant.LevelRun, agents: c.all(), owner: nobody}
		if owner, known := c.checker.still(whose); known && owner != "" {
			must.owner, may.owner = owner, owner
		}
		c.checkRights(d, t, began, must, may, err)
		c.expect(err, "not_found", "unavailable")
	})
}

// recordStep records a received step. No step may come twice since the last init, or as started after it has ended.
func (c *client) recordStep(shown map[int]string, run string, e events.StepEvent) {
	if was, there := shown[e.Index]; there && (was != "started" || e.State == "started") {
		c.checker.violated(11, "the stream of %s shows step %d as %s after it was shown as %s", run, e.Index, e.State,
			was)
	}
	shown[e.Index] = e.State
}

// watch reads a run's stream to its end, as long as the process lives.
func (c *client) watch(a *actor) {
	run := c.any(c.runs)
	if run == "" {
		return
	}
	c.ask(a, func(ctx context.Context, d *deployment) {
		began, text, first := c.now, "", true
		steps := map[int]string{}
		p, t, err := c.as(ctx, d, tenant.LevelRead)
		var e record.RunEntity
		if err == nil {
			e, err = d.intake.Run(ctx, p, run)
		}
		n := c.to(run)
		n.level = tenant.LevelRead
		c.checkRights(d, t, began, n, n, err)
		if err != nil {
			c.there(run, err)
			c.expect(err, "not_found", "unavailable")
			return
		}
		right, ended := d.tenants.RightTo(&p, e.Value.Whose()), false
		var last stream.Event
		const idle = 15 * time.Second
		err = d.hub.Follow(ctx, d.store, c.who.Scope(), run, idle, func(e stream.Event) error {
			e, err := e.For(ctx, d.tenants.CitationFilter(p))
			if err != nil {
				return err
			}
			if c.powers != nil {
				if ended = !right.Lasts(ctx); ended {
					return stream.ErrStop
				}
				if may, certain := c.powers.certain(c.who.Organization, t, n, c.now.Add(-c.streamsOn())); certain &&
					!may {
					c.checker.violated(22, "user %s is still shown run %s", c.who.User, run)
				}
			}
			if first && e.Event != stream.Init {
				c.checker.violated(11, "the stream of %s began with %s", run, e.Event)
			}
			first = false
			switch e.Event {
			case stream.Init:
				text = *e.Text
				clear(steps)
				for _, step := range *e.Steps {
					c.recordStep(steps, run, step)
				}
			case stream.Delta:
				text += *e.Text
			case stream.StepEvent:
				c.recordStep(steps, run, *e.Step)
			}
			last = e
			// A process that was suspended may send a heartbeat before it checks.
			r, slack := c.checker.runs[run], 2*time.Minute+c.skew
			if e.Event == stream.Heartbeat && r.Status.Terminal() && c.now.Sub(r.FinishedAt) > slack &&
				c.now.Sub(d.frozen) > slack {
				c.checker.violated(11, "the stream of %s goes on though it ended at %s", run, r.FinishedAt)
			}
			if c.now.Sub(began) > 10*time.Minute {
				return stream.ErrStop
			}
			return nil
		})
		if err != nil && !ended {
			c.expect(err, "not_found", "unavailable")
			return
		}
		var result struct {
			Answer string `json:"answer"`
		}
		if last.Event == stream.Done && last.Run.Partial != nil && !strings.HasPrefix(text, last.Run.Partial.Answer) {
			c.checker.violated(11, "the stream of %s joined to %q, and %q is kept", run, text, last.Run.Partial.Answer)
		}
		if last.Event == stream.Done {
			_ = json.Unmarshal(last.Run.Result, &result)
		}
		if last.Event == stream.Done && last.Run.Status == string(lifecycle.Completed) && text != result.Answer {
			c.checker.violated(11, "the stream of %s joined to %q, and the result is %s", run, text, last.Run.Result)
		}
		if ended {
			if may, certain := c.powers.certain(c.who.Organization, t, n, began); certain && may &&
				!c.left[c.who.User] {
				c.checker.violated(22, "user %s, who may see it, is not shown run %s any more", c.who.User, run)
			}
			return
		}
		if last.Event != stream.Done && c.now.Sub(began) <= 10*time.Minute {
			c.checker.violated(11, "the stream of %s ended with %s", run, last.Event)
		}
	})
}

// trespass tries to access another organization's run.
func (c *client) trespass(a *actor) {
	other := c.people[len(c.people)-1]
	if other.Organization == c.who.Organization {
		other = c.people[0]
	}
	run := ""
	for _, id := range sortedKeys(c.checker.runs) {
		if c.checker.runs[id].Organization == other.Organization {
			run = id
		}
	}
	if run == "" {
		return
	}
	c.ask(a, func(ctx context.Context, d *deployment) {
		_, cancelled := d.intake.Cancel(ctx, c.who, run, "")
		_, followed := d.intake.Followup(ctx, c.who, run, "x", "")
		_, read := d.store.LiveRun(ctx, c.who.Scope(), run)
		for _, err := range []error{cancelled, followed, read} {
			if !problem.Is(err, "outside_organization") && !problem.Is(err, "not_found") &&
				!problem.Is(err, "unavailable") {
				c.checker.violated(12, "run %s of another organisation could be reached: %v", run, errors.Join(err))
			}
		}
	})
}
