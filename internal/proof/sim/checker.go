package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"reflect"
	"slices"
	"sort"
	"strings"
	"time"

	"agentplatform/events"
	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/tool"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/proof/invariant"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
	"agentplatform/internal/store/table/memtable"
)

// checker observes every commit and checks the invariants against the stored items.
type checker struct {
	world   *world
	commits int

	runs   map[string]record.Run
	slots  map[table.Key]string
	ledger map[string]record.Entry
	// entries are the keys of the ledger: a settlement that was refused had another time, and so another key.
	entries map[table.Key]bool
	hooks   map[table.Key]record.Delivery
	due     map[table.Key]time.Time

	runningMS   map[string]int64     // time observed as running
	since       map[string]time.Time // when it was last observed while running
	entered     map[string]int       // entered states that need a webhook delivery
	parkedOK    map[string]bool      // parked messages that a client knows to be accepted
	started     map[string]bool
	withdrawn   map[string]bool
	going       map[string]bool      // runs whose removal has begun
	removed     map[string]time.Time // runs that were deleted with their chat, with the time
	effects     map[string]int
	holders     map[string]*process // the process that claimed a run last
	allowed     map[string]int      // approved repetitions of unsafe calls
	counts      map[table.Key]int64 // use of budgets
	usedUp      map[string]bool     // runs that may not ask their model any more
	accepted    map[string]bool     // messages that became runs immediately, or were parked
	decided     map[string][]string // interrupts that the end of a run's pause resolved
	waited      map[string][]string // messages parked behind a run when it ended, in order
	fresh       []string            // runs that the current commit started
	winners     map[string]int      // decisions that clients know to have succeeded, by run and pause
	bodies      map[string]string
	delivered   map[string]bool    // by delivery id, recorded as delivered
	later       map[table.Key]bool // head items with the member of a later version
	begins      map[string]int     // how often a run was started since its last step
	sender      map[string]string  // of parked messages
	uncounted   int64              // tokens of embeddings that were charged to users who are gone
	charged     []record.Entry     // entries of the ledger that the current commit made
	files       map[string]record.File
	filers      map[[2]string]bool         // organizations with their users who ever had files
	fileHolders map[string]map[string]bool // holders of a file
	needed      map[string][]string        // files that a message brought, by its run
	shared      map[table.Key]shared       // items as they were committed
	made        map[string]string          // arguments of the last call, by its key
	messages    map[string]string          // runs, by the texts of their messages
	owners      map[string]string          // users who have begun chats, by the places of these chats
	whose       map[string]lifecycle.Whose // runs, also those that are removed
	heldBy      map[string]map[string]bool // holders of a file, also those that are removed
	rows        map[string][]string        // listings by user that a run is in
	cuts        map[string]*cuts           // by run
	held        []*held                    // sessions in which tools were called

	admissions map[*admission]bool
	works      map[string]works // by run
}

func newChecker(w *world) *checker {
	return &checker{
		world: w, runs: map[string]record.Run{}, slots: map[table.Key]string{}, ledger: map[string]record.Entry{},
		entries: map[table.Key]bool{}, hooks: map[table.Key]record.Delivery{},
		due: map[table.Key]time.Time{}, runningMS: map[string]int64{}, since: map[string]time.Time{},
		entered:  map[string]int{},
		parkedOK: map[string]bool{}, started: map[string]bool{}, withdrawn: map[string]bool{}, going: map[string]bool{},
		removed: map[string]time.Time{}, effects: map[string]int{}, holders: map[string]*process{},
		allowed: map[string]int{}, winners: map[string]int{}, bodies: map[string]string{}, delivered: map[string]bool{},
		counts: map[table.Key]int64{}, usedUp: map[string]bool{}, accepted: map[string]bool{},
		decided: map[string][]string{},
		waited:  map[string][]string{}, later: map[table.Key]bool{},
		begins: map[string]int{},
		sender: map[string]string{}, files: map[string]record.File{}, fileHolders: map[string]map[string]bool{},
		filers: map[[2]string]bool{}, needed: map[string][]string{}, shared: map[table.Key]shared{},
		made:     map[string]string{},
		messages: map[string]string{}, owners: map[string]string{}, whose: map[string]lifecycle.Whose{},
		heldBy: map[string]map[string]bool{}, rows: map[string][]string{}, cuts: map[string]*cuts{},
		works: map[string]works{},
	}
}

func (c *checker) violated(invariant int, format string, args ...any) {
	c.world.fail(fmt.Sprintf("invariant %d: ", invariant) + fmt.Sprintf(format, args...))
}

func (c *checker) gone(run string) {
	if !c.isGone(run) {
		c.removed[run] = c.world.now
	}
}

func (c *checker) isGone(run string) bool {
	_, there := c.removed[run]
	return there
}

// isGoing reports whether a run's removal has begun: its idempotency key may be free before the run is removed.
func (c *checker) isGoing(run string) bool { return c.going[run] || c.isGone(run) }

// isFree reports whether a key that led to a run or a parked message may lead to something else.
func (c *checker) isFree(what string) bool {
	_, id, _ := strings.Cut(what, " ")
	return c.isGoing(id) || c.withdrawn[id]
}

func (c *checker) nextDue() (time.Time, bool) {
	var next time.Time
	for _, at := range c.due {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next, !next.IsZero()
}

// committed records the items that a commit changed, and checks the invariants.
func (c *checker) committed(t *memtable.Table, ops []table.Op) {
	c.commits++
	rights := false
	c.charged = c.charged[:0]
	for _, op := range ops {
		items, _ := t.Get(context.Background(), op.Item.Key)
		c.item(op.Item.Key, items[0])
		c.unchanged(op.Item.Key, items[0])
		kind, id, _ := strings.Cut(op.Item.Part, "/")
		if op.Kind == table.DeleteOp && kind == "run" && !strings.HasPrefix(op.Item.Sort, "file/") {
			c.going[id] = true
		}
		rights = rights || op.Item.Sort == "head" &&
			slices.Contains([]string{"organization", "user", "api_key", "group", "agent"}, kind)
	}
	if rights && c.world.powers != nil {
		c.world.powers.snapshot()
	}
	for _, id := range c.fresh {
		c.begun(c.runs[id])
	}
	c.fresh = c.fresh[:0]
	for _, e := range c.charged {
		spent := slices.ContainsFunc(ops, func(op table.Op) bool { return strings.HasPrefix(op.Item.Part, "spent/") })
		if e.RunID == "" && c.world.left[e.UserID] && !spent { // no budget is left to count in
			c.uncounted += e.InputTokens
		}
	}
	if c.world.books != nil {
		c.world.books.committed()
	}
	c.standing()
	c.listed(ops)
	if c.world.library != nil {
		c.world.library.documents.committed(ops, c.charged)
	}
	for _, op := range ops {
		if _, file, is := invariant.Held(op.Item.Key); is {
			c.file(file)
		} else if kind, id, _ := strings.Cut(op.Item.Part, "/"); kind == "file" {
			c.file(id)
		}
	}
}

// shown checks frames as they are written. A reader may rely on the end of a call, so that must be journalled before.
func (c *checker) shown(ops []table.Op) {
	for _, op := range ops {
		var frame events.Frame
		if err := json.Unmarshal(op.Item.Body, &frame); err != nil {
			c.violated(11, "a frame at %s cannot be read: %s", op.Item.Key, err)
			return
		}
		if strings.Contains(string(op.Item.Body), secret) {
			c.violated(21, "a frame at %s tells a secret", op.Item.Key)
		}
		if frame.Kind != events.FrameStep || frame.Step.Outcome != string(model.Succeeded) {
			continue
		}
		run := strings.TrimPrefix(op.Item.Part, "run/")
		journalled, _ := c.world.inner.Get(context.Background(), record.StepKey(run, frame.Step.Index))
		if journalled[0] == nil && !c.isGone(run) {
			c.violated(11, "step %d of run %s is shown as finished, and not journalled", frame.Step.Index, run)
		}
	}
}

// left checks that a worker that has finished with a run has left nothing running: no call, and above all no
// heartbeat.
func (c *checker) left(worker *actor, run string) {
	for _, a := range c.world.actors {
		if a.process == worker.process && !a.done && strings.HasPrefix(a.name, worker.name+"+") {
			c.violated(19, "%s has left run %s, and %s goes on", worker.name, run, a.name)
		}
	}
}

// begun checks how a run started: by admission, where the caps apply, or as the first message parked behind the
// previous run.
func (c *checker) begun(r record.Run) {
	if r.Waited {
		if waited, there := c.waited[r.Previous]; there &&
			(len(waited) == 0 || waited[0] != r.ID() || !slices.Equal(waited[1:], r.Parked)) {
			c.violated(5, "run %s with %v parked follows %s, on which %v waited", r.ID(), r.Parked, r.Previous, waited)
		}
		return
	}
	for part, limit := range map[string]int{"active/user/" + r.Organization + "/" + r.User: userCap,
		"active/org/" + r.Organization: orgCap} {
		held := 0
		for key, holder := range c.slots {
			if invariant.SlotsOf(key) != part || strings.HasPrefix(key.Sort, "paused/") {
				continue
			}
			if holder == r.ID() && strings.HasPrefix(key.Sort, "over/") {
				c.violated(4, "run %s came through the door and holds %s", r.ID(), key)
			}
			// A newer run may not have existed when admission was checked: the process may have been suspended since.
			if holder == r.ID() || c.world.now.Sub(c.runs[holder].QueuedAt) > 3*lease+time.Minute+c.world.skew {
				held++
			}
		}
		if held > limit {
			c.violated(4, "run %s was let in as number %d of %d", r.ID(), held, limit)
		}
	}
}

func (c *checker) item(key table.Key, item *table.Item) {
	delete(c.due, key)
	if item != nil && !item.Due.IsZero() {
		c.due[key] = item.Due
	}
	if hasLater(key) {
		is := item != nil && bytes.Contains(item.Body, []byte(laterMember))
		if c.later[key] && item != nil && !is {
			c.violated(16, "%s has lost what a later version wrote", key)
		}
		c.later[key] = is
	}
	kind, rest, _ := strings.Cut(key.Part, "/")
	a := invariant.NewAudit()
	if item != nil {
		if err := a.Add(item); err != nil {
			c.violated(14, "%s cannot be read: %v", key, err)
		}
	}
	switch {
	case kind == "run" && key.Sort == "head":
		if item == nil {
			if _, there := c.runs[rest]; there {
				delete(c.runs, rest)
				c.gone(rest)
			}
			return
		}
		c.head(rest, a.Runs[rest])
	case kind == "run" && key.Sort == "input" && item != nil:
		c.accepted[rest] = true
	case kind == "run" && strings.HasPrefix(key.Sort, "step/") && len(a.Steps) > 0 && c.world.server != nil:
		c.world.server.journalled(rest, a.Steps[0])
	case kind == "run" && strings.HasPrefix(key.Sort, "decision/") && item != nil:
		c.decided[rest] = a.Decided[rest]
	case kind == "run" && strings.HasPrefix(key.Sort, "file/"):
		run, file, _ := invariant.Held(key)
		if c.fileHolders[file] == nil {
			c.fileHolders[file], c.heldBy[file] = map[string]bool{}, map[string]bool{}
		}
		if delete(c.fileHolders[file], run); item != nil {
			c.fileHolders[file][run], c.heldBy[file][run] = true, true
		}
	case kind == "file" && item == nil:
		delete(c.files, rest)
	case kind == "file":
		c.files[rest] = a.Files[0]
		c.filers[[2]string{a.Files[0].Organization, a.Files[0].UserID}] = true
	case kind == "spent":
		c.counts[key] = a.Counts[key]
	case kind == "chat" && item != nil:
		for id, r := range c.runs {
			if chat := a.Chats[0]; r.Organization == chat.Organization && r.Chat == chat.ID && r.Epoch < chat.Epoch {
				c.gone(id) // its chat was deleted
			}
		}
	case kind == "active" && item == nil:
		delete(c.slots, key)
	case kind == "active":
		c.slots[key] = a.Slots[key]
	case kind == "ledger":
		for run, entries := range a.Ledger {
			before, there := c.ledger[run]
			if there && !reflect.DeepEqual(before, entries[0]) {
				c.violated(3, "the ledger entry of %s changed", run)
			}
			if !there {
				c.charged = append(c.charged, entries[0])
			}
			c.ledger[run] = entries[0]
		}
		if c.entries[key] && item == nil {
			c.violated(3, "a ledger entry vanished: %s", key)
		}
		c.entries[key] = item != nil
		if c.world.books != nil {
			c.world.books.entered(key, item, a.Ledger)
		}
	case kind == "runs-of":
		c.rows[key.Sort] = slices.DeleteFunc(c.rows[key.Sort], func(of string) bool { return of == rest })
		if item != nil {
			c.rows[key.Sort] = append(c.rows[key.Sort], rest)
		}
	case kind == "rolled" && c.world.books != nil && item != nil:
		c.world.books.moved(rest)
	case kind == "hook" && item == nil:
		delete(c.hooks, key)
	case kind == "hook":
		before, there := c.hooks[key]
		if there && before.Body != a.Deliveries[0].Body {
			c.violated(7, "the body of %s changed", key)
		}
		if !there && item.Due.Before(a.Deliveries[0].NextAttempt.Add(lifecycle.DispatchGrace)) {
			c.violated(7, "the new delivery %s is due before its own nudge had time to come", key)
		}
		c.hooks[key] = a.Deliveries[0]
		if h := a.Deliveries[0]; h.State == record.DeliveryFailed && h.CountedAttempts < 8 && len(h.Attempts) > 0 {
			if last := h.Attempts[len(h.Attempts)-1].Status; last == 0 || last >= 500 {
				c.violated(7, "delivery %s was given up after %d tries, the last with %d",
					h.DeliveryID, h.CountedAttempts, last)
			}
		}
		if a.Deliveries[0].State == record.DeliveryDelivered {
			c.delivered[a.Deliveries[0].DeliveryID] = true
		}
	}
}

// head checks a transition of a run.
func (c *checker) head(id string, r record.Run) {
	now := c.world.now
	before, known := c.runs[id]
	if r.Removed {
		delete(c.runs, id)
		c.watched()
		c.gone(id)
		return
	}
	if known && before.Status == lifecycle.Running {
		c.runningMS[id] += now.Sub(c.since[id]).Milliseconds() + 1
	}
	if r.Status == lifecycle.Running {
		c.since[id] = now
		if r.Attempt != before.Attempt {
			c.holders[id] = c.world.awake.process
		}
	}
	c.mayAsk(id, before, r)
	c.atWork(before, r)
	if known {
		c.deadline(before, r)
	}
	c.runs[id] = r
	c.watched()
	c.started[id] = true
	if !known {
		c.accepted[id] = true
		c.fresh = append(c.fresh, id)
		in, err := c.store().Input(context.Background(), r)
		must(err)
		c.messages[in.Message] = id
		c.owned(r)
		switch {
		case r.Status == lifecycle.Running && r.Attempt == 1 && r.Transition == 2: // its own process started it
			c.begins[id] = 1
			c.world.atOnce++
		case r.Status != lifecycle.Queued:
			c.violated(2, "run %s began as %s", id, r.Status)
		}
		return
	}
	c.counted(before, r)
	switch {
	case r.Steps != before.Steps || r.Hops != before.Hops || r.Status != before.Status && r.Status != lifecycle.Running:
		c.begins[id] = 0
	case r.Attempt > before.Attempt:
		if c.begins[id]++; c.begins[id] > lifecycle.MaxCrashes {
			c.violated(19, "run %s was begun %d times since its last step", id, c.begins[id])
		}
	}
	if before.Status.Terminal() &&
		(r.Status != before.Status || r.Error != before.Error || string(r.Output) != string(before.Output)) {
		c.violated(2, "run %s was %s and became %s", id, before.Status, r.Status)
	}
	if before.Status != r.Status && !legal(before.Status, r.Status) {
		c.violated(2, "run %s went from %s to %s", id, before.Status, r.Status)
	}
	if before.Status != r.Status && r.Status.EndedOrWaiting() {
		c.accounted(r)
	}
	if before.Status.Active() && r.Status.Terminal() {
		c.waited[id] = before.Parked
	}
	if before.Status != lifecycle.AwaitingInput && r.Status == lifecycle.AwaitingInput && c.world.powers != nil {
		c.world.powers.waits(r)
	}
	if before.Status == lifecycle.AwaitingInput && r.Status == lifecycle.Queued {
		if ids, pending := c.decided[id], before.PendingIDs(); ids != nil &&
			(len(ids) != len(pending) ||
				slices.ContainsFunc(pending, func(one string) bool { return !slices.Contains(ids, one) })) {
			c.violated(6, "run %s waited for %v and goes on with %v", id, pending, ids)
		}
	}
	if r.Attempt > before.Attempt && before.CancelRequested {
		c.violated(2, "run %s was told to cancel and was begun again", id)
	}
	// A process may have stood still, several times, between the deadline of a resumed run and its commit.
	early := now.Before(before.StartBy.Add(-c.world.skew)) ||
		c.world.rate == 0 && now.Sub(before.QueuedAt) < startDeadline-3*lease-time.Minute-c.world.skew
	if strings.Contains(r.Error, "could not be started") && before.Status == lifecycle.Queued && early {
		c.violated(2, "run %s could not be started %s after it was queued", id, now.Sub(before.QueuedAt))
	}
	removed := r.CancelReason == lifecycle.ReasonRemoved
	if r.Transition != before.Transition && r.Callback && !removed && r.Status.EndedOrWaiting() {
		c.entered[id]++
	}
	if before.Status == lifecycle.AwaitingInput && strings.Contains(r.CancelReason, "expired") &&
		before.CancelReason == "" && now.Sub(before.PausedAt) < pauseExpiry-c.world.skew {
		c.violated(13, "pause %d of run %s expired after %s", before.Pause, id, now.Sub(before.PausedAt))
	}
	if removed && before.Status.Active() { // parked messages are deleted with the chat
		for _, id := range before.Parked {
			c.withdrawn[id] = true
		}
	}
	if len(r.Parked) > lifecycle.MaxParked {
		c.violated(5, "run %s has %d parked messages", id, len(r.Parked))
	}
	if before.CancelRequested && before.Status == lifecycle.Running && r.Status != lifecycle.Running &&
		r.Status != lifecycle.Cancelled {
		c.violated(2, "run %s was told to cancel and became %s", id, r.Status)
	}
}

func legal(from, to lifecycle.Status) bool {
	return slices.ContainsFunc(lifecycle.Transitions(),
		func(m lifecycle.Transition) bool { return slices.Contains(m.From, from) && slices.Contains(m.To, to) })
}

// standing checks the invariants that hold after every commit.
func (c *checker) standing() {
	active := map[string]string{}
	held := map[string]map[string]int{} // run -> slot rows that name it, by kind of partition
	for key, run := range c.slots {
		if held[run] == nil {
			held[run] = map[string]int{}
		}
		held[run][strings.Split(key.Part, "/")[1]]++
		r, there := c.runs[run]
		switch paused := strings.HasPrefix(key.Sort, "paused/"); {
		case !there || !r.Status.Active():
			c.violated(4, "%s names run %s, which is %s", key, run, r.Status)
		case paused != (r.Status == lifecycle.AwaitingInput):
			c.violated(4, "%s names run %s, which is %s", key, run, r.Status)
		}
		if n := strings.TrimLeft(key.Sort, "0123456789"); n == "" {
			limit := userCap
			if strings.HasPrefix(key.Part, "active/org/") {
				limit = orgCap
			}
			if key.Sort >= fmt.Sprint(limit) {
				c.violated(4, "%s is above the cap", key)
			}
		}
	}
	for id, r := range c.runs {
		_, charged := c.ledger[id]
		if r.Status.Terminal() != charged {
			c.violated(3, "run %s is %s and charged is %v", id, r.Status, charged)
		}
		if !r.Status.Active() {
			continue
		}
		want := 0 // of a run whose chat was deleted: its worker may still have to end it
		if !r.Deleted {
			want = 1
			chat := r.Organization + "/" + r.Chat
			if other, busy := active[chat]; busy {
				c.violated(1, "chat %s has the active runs %s and %s", chat, other, id)
			}
			active[chat] = id
		}
		if held[id]["user"] != want || held[id]["org"] != want {
			c.violated(4, "run %s is %s and holds %v", id, r.Status, held[id])
		}
		if _, due := c.due[record.RunKey(id)]; !due {
			c.violated(10, "run %s is %s and nobody will look at it", id, r.Status)
		}
	}
	c.budgets()
	for id, e := range c.ledger {
		if e.Billed != (e.Status == string(lifecycle.Completed)) {
			c.violated(3, "run %s is %s and billed is %v", id, e.Status, e.Billed)
		}
		if r, there := c.runs[id]; there && e.ActiveMS > c.runningMS[id]+5 {
			c.violated(3, "run %s was running for %d ms and is charged %d (%s)", id, c.runningMS[id], e.ActiveMS,
				r.Status)
		}
	}
}

// borne is the clock skew up to which a lease is exclusive. With more, the previous holder may not know that it lost
// the lease. It may then repeat a retry-safe call or a delivery once more.
const borne = lease / 6

// effect checks that a tool is called by the holder of the current attempt.
func (c *checker) effect(p *process, i tool.Invocation) {
	run, _, _ := strings.Cut(i.IdempotencyKey, "-")
	r, there := c.runs[run]
	if !there {
		return // removed meanwhile; the worker does not know yet
	}
	// A call may begin just before its worker learns that the run has ended; never while another process holds the
	// lease.
	if holder := c.holders[run]; r.Status == lifecycle.Running && holder != p && c.world.skew <= borne {
		c.violated(9, "%s is called by %s, and %s holds the run", i.IdempotencyKey, p.name, holder.name)
	}
	c.approved(r, i)
	c.made[i.IdempotencyKey] = string(i.Arguments)
	if c.world.powers != nil {
		c.world.powers.begun(r)
	}
	c.effects[i.Name+" "+i.IdempotencyKey]++
	if n := c.effects["once "+i.IdempotencyKey]; i.Name == "once" && n > 1+c.allowed[run] {
		c.violated(9, "%s was called %d times, %d repetitions were allowed", i.IdempotencyKey, n, c.allowed[run])
	}
}

func (c *checker) pushed(b events.Webhook, p received) {
	if strings.Contains(p.body, secret) {
		c.violated(21, "delivery %s tells a secret", p.id)
	}
	if before, there := c.bodies[p.id]; there && before != p.body {
		c.violated(7, "delivery %s came with other bytes", p.id)
	}
	c.bodies[p.id] = p.body
	if c.delivered[p.id] && c.world.skew <= borne {
		c.violated(7, "delivery %s came again after it was recorded as delivered", p.id)
	}
	// A sender checks right before it posts; a request in flight cannot be recalled.
	if since, there := c.removed[b.RunID]; there && p.at.Sub(since) > time.Minute {
		c.violated(7, "delivery %s came %s after its run was removed", p.id, p.at.Sub(since))
	}
}

// final checks the invariants that hold after everything has settled.
func (c *checker) final() {
	for _, id := range sortedKeys(c.runs) {
		r := c.runs[id]
		if r.Status.Active() {
			c.violated(10, "run %s is still %s (due %s)", id, r.Status, c.due[record.RunKey(id)])
		}
		rows := 0
		for key, h := range c.hooks {
			if key.Part == "hook/"+id {
				rows++
				if h.State == record.DeliveryPending {
					c.violated(7, "delivery %s is still pending", key)
				}
			}
		}
		if rows != c.entered[id] {
			c.violated(7, "run %s entered %d states that want a push and has %d rows", id, c.entered[id], rows)
		}
	}
	c.kept()
	c.heldByNobody()
	for _, key := range slices.SortedFunc(maps.Keys(c.shared), func(a, b table.Key) int {
		return strings.Compare(a.String(), b.String())
	}) {
		c.unchanged(key, nil)
	}
	if c.world.library != nil {
		c.world.library.documents.final()
	}
	if c.world.books != nil {
		c.world.books.final()
	}
	if len(c.slots) > 0 {
		c.violated(4, "%d slots are held by nobody", len(c.slots))
	}
	for _, id := range sortedKeys(c.parkedOK) {
		if !c.started[id] && !c.withdrawn[id] && !c.isGone(id) && !c.world.left[c.sender[id]] {
			c.violated(5, "the parked message %s was accepted and forgotten", id)
		}
	}
	for pause, n := range c.winners {
		if n > 1 {
			c.violated(6, "pause %s was decided %d times", pause, n)
		}
	}
}

// shared is an item that readers and the table share, with its content at the commit.
type shared struct {
	item *table.Item
	sum  uint64
}

// unchanged checks that an item has not changed before another one, or none, replaces it.
func (c *checker) unchanged(key table.Key, next *table.Item) {
	before, known := c.shared[key]
	if known && before.item == next {
		return
	}
	if known && before.sum != sum(before.item) {
		c.violated(31, "somebody has changed the item %s, which others share", key)
	}
	delete(c.shared, key)
	if next != nil {
		c.shared[key] = shared{next, sum(next)}
	}
}

func sum(i *table.Item) uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%q %d %q %d %s %s %v ", i.Owner, i.Version, i.WriteID, i.Schema, i.Due, i.Expires, i.Lists)
	_, _ = h.Write(i.Body)
	return h.Sum64()
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

// store reads the stored data as the service would.
func (c *checker) store() *record.Store { return record.New(c.world.inner, c.world.blobs, nil) }

// answeredBy reports whether a user has ended a pause of a run, or the run is removed.
func (c *checker) answeredBy(r record.Run, user string) bool {
	for n := 1; n <= r.Pause; n++ {
		d, found, err := c.store().LastDecision(context.Background(), r.ID(), n)
		must(err)
		if found && d.By == user {
			return true
		}
	}
	return c.isGone(r.ID())
}

// approved checks that a call of an agent with approval for every call was approved by a human with these
// arguments.
func (c *checker) approved(r record.Run, i tool.Invocation) {
	if c.world.modes[r.Agent] != "always" {
		return
	}
	_, key, _ := strings.Cut(i.IdempotencyKey, "-")
	pauses, decided, err := c.store().Pauses(context.Background(), r.ID())
	must(err)
	passed := ""
	for _, pause := range pauses {
		for _, one := range pause {
			if one.Call != key {
				continue
			}
			switch d := decided[one.ID]; lifecycle.Verb(d.Decision) {
			case lifecycle.Approve:
				passed = string(one.Tool.Arguments)
			case lifecycle.Edit:
				passed = string(d.Arguments)
			default: // rejected, or undecided, with any earlier decision
				passed = ""
			}
		}
	}
	if passed != string(i.Arguments) {
		c.violated(17, "%s is called with %s, and what was let pass is %q", i.IdempotencyKey, i.Arguments, passed)
	}
}
