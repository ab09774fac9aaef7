// Package planted is a catalogue of bugs that careless versions of such a service have. Each is a replacement of text
// in a source file. The simulation must find every one. A bug that it does not find is a hole in the simulation.
//
// A bug is planted through the compiler's -overlay, so the tree does not change. `make planted` plants all of them in
// one program. It switches on one after the other, with the seeds of seeds.txt. `make planted-anew` records those
// seeds.
//
// The package knows the sources only as text, and imports only the standard library.
package planted

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Bug is a bug to plant: in each file the old text, which must occur exactly once, is replaced by the new one.
type Bug struct {
	Name  string
	Edits []Edit
	// Explored means that the simulation finds it too rarely. The exploration of small worlds must find it.
	Explored bool
	// Kind is the kind of the simulation's worlds in which the bug can have an effect, where its file leaves that open.
	Kind string
}

// Edit is a change of a file, by its path from the root of the module.
type Edit struct{ File, Old, New string }

// Planted returns the changed files of a bug, by their paths from the root. It fails where a file cannot be read
// or an old text does not occur exactly once.
func (b Bug) Planted(root string) (map[string]string, error) {
	files := map[string]string{}
	for _, e := range b.Edits {
		if _, read := files[e.File]; !read {
			text, err := os.ReadFile(filepath.Join(root, e.File))
			if err != nil {
				return nil, err
			}
			files[e.File] = string(text)
		}
		if n := strings.Count(files[e.File], e.Old); n != 1 {
			return nil, fmt.Errorf("%s: %q stands %d times in %s", b.Name, e.Old, n, e.File)
		}
		files[e.File] = strings.Replace(files[e.File], e.Old, e.New, 1)
	}
	return files, nil
}

// Overlay writes a bug's changed files into dir, and a list of them for the compiler's -overlay. Errors as of
// [Bug.Planted], and those of writing.
func (b Bug) Overlay(root, dir string) (list string, err error) {
	files, err := b.Planted(root)
	if err != nil {
		return "", err
	}
	return overlay(files, root, dir)
}

// overlay writes files, which are named from the root, into dir, and a list of them for the compiler's -overlay.
func overlay(files map[string]string, root, dir string) (list string, err error) {
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for name, text := range files {
		at, err := filepath.Abs(filepath.Join(root, name))
		if err != nil {
			return "", err
		}
		copied := filepath.Join(dir, strconv.Itoa(len(overlay.Replace))+".go")
		if err := os.WriteFile(copied, []byte(text), 0o600); err != nil {
			return "", err
		}
		overlay.Replace[at] = copied
	}
	raw, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	list = filepath.Join(dir, "overlay.json")
	return list, os.WriteFile(list, raw, 0o600)
}

const (
	lifecycleEvent       = "internal/core/lifecycle/event.go"
	lifecycleTransition  = "internal/core/lifecycle/transition.go"
	lifecycleRun         = "internal/core/lifecycle/run.go"
	transitionTransition = "internal/run/transition/transition.go"
	intakeIntake         = "internal/run/intake/intake.go"
	intakeRuns           = "internal/run/intake/runs.go"
	intakeDecide         = "internal/run/intake/decide.go"
	workerAttempt        = "internal/run/worker/attempt.go"
	workerJournal        = "internal/run/worker/journal.go"
	workerLease          = "internal/run/worker/lease.go"
	workerSettle         = "internal/run/worker/settle.go"
	workerTally          = "internal/run/worker/tally.go"
	workerTask           = "internal/run/worker/task.go"
	workerHistory        = "internal/run/worker/history.go"
	agentAgent           = "internal/run/agent/agent.go"
	agentCalls           = "internal/run/agent/calls.go"
	agentEdit            = "internal/run/agent/edit.go"
	agentReply           = "internal/run/agent/reply.go"
	agentAnswer          = "internal/run/agent/answer.go"
	toolkitTools         = "internal/org/toolkit/tools.go"
	tenantTenants        = "internal/org/tenant/tenants.go"
	tenantAccess         = "internal/org/tenant/access.go"
	webhookWebhook       = "internal/run/webhook/webhook.go"
	sweepSweep           = "internal/run/sweep/sweep.go"
	recordStore          = "internal/store/record/store.go"
	recordTx             = "internal/store/record/tx.go"
	recordRun            = "internal/store/record/run.go"
	recordFile           = "internal/store/record/file.go"
	recordAnswer         = "internal/store/record/answer.go"
	recordBudget         = "internal/store/record/budget.go"
	recordSlot           = "internal/store/record/slot.go"
	recordIdempotency    = "internal/store/record/idempotency.go"
	streamReader         = "internal/run/stream/reader.go"
	streamProgress       = "internal/run/stream/progress.go"
	ingestionIngestion   = "internal/core/docstate/docstate.go"
	ingestStages         = "internal/knowledge/ingest/stages.go"
	knowledgeSearch      = "internal/knowledge/knowledge/search.go"
	knowledgeDocument    = "internal/knowledge/knowledge/document.go"
	knowledgeRebuild     = "internal/knowledge/knowledge/rebuild.go"
	removalKnowledge     = "internal/run/removal/knowledge.go"
	analyticsRoll        = "internal/org/analytics/roll.go"
	analyticsRead        = "internal/org/analytics/read.go"
	recordLedger         = "internal/store/record/ledger.go"
	removalRemoval       = "internal/run/removal/removal.go"
	localQueue           = "internal/store/queue/localqueue/localqueue.go"
	platformShare        = "internal/platform/share/share.go"
	shareLine            = "internal/platform/share/line.go"
	indexFolder          = "internal/text/index/diskindex/"
)

// Worlds returns the kind of the simulation's worlds in which the bug can have an effect; empty: any.
func (b Bug) Worlds() string {
	if b.Kind != "" {
		return b.Kind
	}
	switch file := b.Edits[0].File; file {
	case ingestionIngestion, ingestStages, knowledgeSearch, knowledgeDocument, knowledgeRebuild, removalKnowledge:
		return "documents"
	case analyticsRoll, analyticsRead, recordLedger, removalRemoval:
		return "accountants"
	case localQueue, platformShare, shareLine:
		return "floods"
	default:
		return ""
	}
}

// The line that gives a name its next turn, and one that would keep its old turn.
const (
	keeps = "		l.turn = append(l.turn, name)\n	}\n	return one\n"
	kept  = "			l.turn = slices.Insert(l.turn, l.found, name)\n			return one\n		}\n" + keeps
)

// Bugs returns the catalogue.
func Bugs() []Bug {
	one := func(name, file, old, new string) Bug { return Bug{Name: name, Edits: []Edit{{file, old, new}}} }
	return []Bug{
		// Leases and fences.
		one("a lease that is alive protects nobody", lifecycleRun, `return l.Holder == "" || !l.Until.After(now)`, `return true || l.Holder == "" || !l.Until.After(now)`).explored(),
		{Name: "reports of an attempt that is gone are taken", Explored: true, Edits: []Edit{
			{lifecycleEvent, `if r.Attempt != w.Attempt || r.Lease.Holder == "" {`, `if false {`},
			{workerLease, `if !l.owns(r) {`, `if false {`},
		}},
		one("a run is written whatever it has become meanwhile", recordRun, "	return put(tx, e, item)\n}\n\nfunc (r *Run) take", "	e = put(tx, e, item)\n	if n := len(tx.ops); n > 0 {\n		tx.ops[n-1] = table.Put(*tx.ops[n-1].Item, table.Always())\n	}\n	return e\n}\n\nfunc (r *Run) take"),
		one("no clock is asked before a call", workerLease, `if l.Host.Elapsed()-l.renewed >= l.trusted() || !l.Host.Now().Before(l.end) {`, `if false {`),
		one("a panic leaves a heartbeat alive", workerAttempt, "	defer func() {\n		stop(nil)\n		host.Wait(a.others...)\n	}()\n", "").and(workerAttempt, "	p.cause = context.Cause(work)\n", "	p.cause = context.Cause(work)\n	stop(nil)\n	host.Wait(a.others...)\n"),
		one("a session of tools outlives its attempt", workerAttempt, "	defer tool.End(t.Tools, a.Host.Go)", "	defer tool.End(nil, a.Host.Go)"),
		one("attempts that panic are not counted", lifecycleEvent, `if r.Crashes++; r.Crashes >= MaxCrashes {`, `if r.Crashes >= MaxCrashes {`),
		one("an unsafe call is made again without a word", agentCalls, "	if !j.repeat {\n		s.checkOutcome(j)\n", "	if false {\n		s.checkOutcome(j)\n"),
		one("an unsafe call is not announced", agentCalls, "			s.add(start)\n", ""),

		// Owners who use the same names.
		one("a key is everybody's in its organization", recordIdempotency, `return organization + "/" + user + "/" + hex`, `return organization + "/" + hex`),
		one("a key is everybody's", recordIdempotency, `return organization + "/" + user + "/" + hex`, `return hex`),

		// Models that lie.
		one("a call goes by the id that the model gave it", agentReply, `call := record.Call{ID: strconv.Itoa(n), Name`, `_ = strconv.Itoa(n)
	call := record.Call{ID: c.ID, Name`),
		one("a call that was rejected is made", agentCalls, `case decided && decision.Decision == string(lifecycle.Reject):`, `case decided && decision.Decision == string(lifecycle.Reject) && decision.Message == "":`),
		one("an edit of a call's arguments is forgotten", agentCalls, "s.edited(j.key, j.Arguments)", "j.Arguments"),
		one("an edit of a call's arguments is not shown", agentAgent, "				arguments = d.Arguments\n", ""),
		one("an edit of a call's arguments is not noted", agentEdit, "if !sameValue(c.Arguments, done.Arguments) {", "if false {"),
		one("a call that may have been made before is not noted", agentEdit, "if len(s.decisions(done.CallID, true)) > 0 {", "if false {"),
		one("a turn that was cancelled is missing in the next", workerHistory, "if !r.Status.Terminal() ||", "if r.Status == lifecycle.Cancelled ||"),
		one("the files of an earlier turn are not named", workerHistory, "withNames(in.Message, in.Files); text", "in.Message; text"),
		one("a turn with a blank answer seems to go on", workerHistory, "if !model.Blank(answer) {", "if true {"),
		one("how a turn ended is said of its neighbour", workerHistory, "		turns = append(turns, one)\n", `		if n := len(turns); n > 0 {
			a, b := turns[n-1].messages, one.messages
			a[len(a)-1], b[len(b)-1] = b[len(b)-1], a[len(a)-1]
		}
		turns = append(turns, one)
`),
		one("turns are shown in the wrong order", workerHistory, "range slices.Backward(turns)", "range turns"),
		one("what was approved with other arguments is made", agentReply, `if call.Arguments, err = strictjson.Object(c.Arguments, argumentLimits); err != nil {`, `if call.Arguments = c.Arguments; !json.Valid(c.Arguments) {
		err = strconv.ErrSyntax`).and(agentCalls, `Name: j.Name, Arguments: j.step.Arguments, IdempotencyKey`, `Name: j.Name, Arguments: json.RawMessage("{}"), IdempotencyKey`),
		one("a claim to have used less than nothing counts", agentReply, `if claim < int64(size+longToken-1)/longToken || claim >`, `if claim >`),
		one("what an earlier attempt used is forgotten", workerTally, `usage: r.Usage`, `usage: lifecycle.Usage{}`),
		one("steps are not journalled", workerJournal, "return transition.Change{Event: lifecycle.Step{Work: w}, Steps: steps}", "return transition.Change{Event: lifecycle.Step{Work: w}}"),

		// Clocks that are set.
		one("active time is measured by the wall clock", workerTally, `claimed: h.Elapsed()`, `claimed: time.Duration(h.Now().UnixNano())`).and(workerTally, `return t.before() + t.host.Elapsed() - t.claimed`, `return t.before() + time.Duration(t.host.Now().UnixNano()) - t.claimed`),
		one("the age of a pause has no sign", lifecycleEvent, "	if now.Before(r.ExpiresAt) {\n		return o.refuse(TooEarly)\n	}\n	r.CancelReason", "	if uint64(now.Sub(r.PausedAt)) < uint64(r.ExpiresAt.Sub(r.PausedAt)) {\n		return o.refuse(TooEarly)\n	}\n	r.CancelReason").and(lifecycleEvent, "	case AwaitingInput:\n		if !now.Before(r.ExpiresAt) {", "	case AwaitingInput:\n		if uint64(now.Sub(r.PausedAt)) >= uint64(r.ExpiresAt.Sub(r.PausedAt)) {"),
		one("the age of a queued run has no sign", lifecycleEvent, "	r := &o.After\n	if now.Before(r.StartBy) {\n", "	r := &o.After\n	if uint64(now.Sub(r.QueuedAt)) < uint64(r.StartBy.Sub(r.QueuedAt)) {\n").and(lifecycleEvent, "	case Queued:\n		if !now.Before(r.StartBy) {", "	case Queued:\n		if uint64(now.Sub(r.QueuedAt)) >= uint64(r.StartBy.Sub(r.QueuedAt)) {"),

		// Powers that change.
		one("what rights rest on is remembered for ever", "internal/store/table/cachetable/cachetable.go", `known && now < a.until`, `known`),
		one("a reader changes the item that it reads", recordRun, "	r.RunID, r.Organization, r.Due = strings.TrimPrefix(from.Part", "	from.Schema = 0\n	r.RunID, r.Organization, r.Due = strings.TrimPrefix(from.Part"),
		one("the text that a key had before never ends", tenantTenants, "		p.ends = earlier(p.ends, read.Key.PreviousUntil)\n", ""),
		one("a new text of a key is not good", tenantTenants, `case sameHash(read.Key.Hash, text):`, `case read.Key.PreviousHash == "" && sameHash(read.Key.Hash, text):`),
		one("a key keeps its level when its user falls", tenantTenants, `lower(Level(read.Key.Level), Role(read.User.Role).Most())`, `Level(read.Key.Level)`),
		one("what waited is begun though its key is gone", workerTask, `{"the API key that sent the message has been revoked",
				second(record.Resource[catalog.APIKey](ctx, w.Store, record.System(), run.APIKey))},`, ``),
		one("the approvers of now alone decide", tenantAccess, `cmp.Or(request.Version, current)}`, `cmp.Or(now.Version, current)}`),
		one("the approvers of then alone decide", tenantAccess, `current, max(current, request.Began), `, ``),
		one("a colleague approves", tenantAccess, `case !own && !p.Level.Covers(LevelManage):`, `case !own && p.Level == "":`),
		one("who sent a run approves it though others must", tenantAccess, `case own && !request.Rejects && a.Spec.Approval.OthersOnly():`, `case own && request.Rejects && !request.Rejects:`),
		one("who may see a run is not asked", "internal/run/intake/access.go", "	if err := in.MaySee(ctx, p, &e.Value); err != nil {\n		return record.RunEntity{}, err\n	}\n", ""),
		one("a stream looks at the right to it once", "internal/org/tenant/right.go", `n == r.seen && now < r.next`, `r.next > 0`),

		// Chats that are their users' own.
		one("the visibility of an agent is not asked", tenantAccess, `p.Shared && a.Spec.ChatVisibility != catalog.SeesOwn {`, `p.Shared {`).sighted(),
		one("a chat is everybody's as soon as it is somebody's", tenantAccess, `owner != "" && owner == p.User ||`, `owner != "" ||`).sighted(),
		one("managers see their own chats alone", tenantAccess, `p.seesOthers() || owner`, `p.SeesAll || owner`).sighted(),
		one("every key is for monitoring", tenantTenants, `read.Key.Sees == catalog.SeesAll`, `read.Key.Sees != catalog.SeesOwn`).sighted(),
		one("chats are shared whatever their organization says", tenantTenants, `shares(read.Home), read.Key.Sees`, `true, read.Key.Sees`).sighted(),
		one("a parked message takes over its chat", transitionTransition, `o.Inherit(slots, chatUser)`, `o.Inherit(slots, parked.Spec.User)`).sighted(),
		one("a model is told the turns of a chat that its user does not see", workerHistory, `if owner := run.Owner(); owner != "" {`, `if owner := run.User; owner != "" {`).sighted(),
		one("a key leads into a chat that its user does not see", intakeIntake, `err = r.MaySee(ctx, r.who, &posted.Run)`, `err = r.Tenants.CanAccess(ctx, r.who, lifecycle.Whose{Agent: posted.Run.Agent, Owner: r.who.User})`).sighted(),
		one("a colleague answers a question", intakeDecide, "	refusal := in.MaySee(ctx, p, &e.Value)\n", "	var refusal error\n").and(intakeDecide, "		err = in.MaySee(ctx, p, &run)\n	}\n	if err == nil {\n		err = in.mayJoin(ctx, p, chat.Value)\n", "		_ = chat\n").sighted(),
		one("a chat that is busy takes messages of colleagues", intakeIntake, `if err := r.mayJoin(ctx, r.who, chat.Value); err != nil {`, `if err := r.mayJoin(ctx, r.who, chat.Value); err != nil && chat.Value.ActiveRun == "" {`).sighted(),
		one("a chat is deleted by colleagues", intakeRuns, "			err = in.mayJoin(ctx, who, chat.Value)\n		}\n		if err == nil {\n			job, err", "			err = in.mayJoin(ctx, who, lifecycle.Chat{User: who.User, Agents: chat.Value.Agents})\n		}\n		if err == nil {\n			job, err").sighted(),
		one("a file is everybody's who may use the agent that held it", tenantAccess, `refusal := t.mayReachOne(ctx, p, "", f.Agents)`, `refusal := t.mayReachOne(ctx, p, p.User, f.Agents)`).sighted(),
		one("a file that was held is its uploader's alone", tenantAccess, `if err != nil || len(agents) == 0 {`, `if refusal != nil {`).sighted(),
		one("a file that no run holds is everybody's", tenantAccess, `case len(f.Agents) == 0 && !p.Shared && !p.Level.Covers(LevelAdmin):`, `case p.User == "":`).sighted(),
		one("a run that was parked is in no list of its user", recordRun, "	if e.version == 0 {\n		tx.putUserRun", "	if e.version == 0 && !r.Waited {\n		tx.putUserRun").sighted(),
		one("a run that is removed stays in the list of its user", recordRun, "	tx.deleteUserRun(r.Run)\n", "").sighted(),

		// Servers of tools that are hostile.
		one("a tool that has changed stays enabled", toolkitTools, "			d.Changed = append(d.Changed, now[i].Name)\n", "			d.Changed, now[i].Enabled = append(d.Changed, now[i].Name), was.Enabled\n"),
		one("a refresh enables what was off", toolkitTools, "			d.Added = append(d.Added, now[i].Name)\n			continue\n		}\n		was := before[at]\n", "			d.Added = append(d.Added, now[i].Name)\n			continue\n		}\n		was := before[at]\n		was.Enabled = true\n"),
		one("a toolkit that moves keeps its tools enabled", "internal/org/toolkit/toolkit.go", `tools[i].Enabled = one.Enabled && slices.Contains(now, one.Origin())`, `tools[i].Enabled = one.Enabled`),
		one("what was approved of a tool is made of what it has become", agentCalls, `case !offer.Is(j.Source, j.Fingerprint):`, `case offer.Source == "" && j.Source != "":`),
		one("any failure of a tool is told", agentCalls, "	return \"the tool could not be called\"\n", "	return err.Error()\n"),
		one("a long answer of a tool is told whole", agentCalls, `if len(output) > maxOutput {`, `if false {`),
		one("the answers of calls beside each other change places", agentCalls, "			s.call(ctx, j)\n", "			s.call(ctx, j)\n			jobs[0].step.Output, j.step.Output = j.step.Output, jobs[0].step.Output\n"),
		one("each tool of a toolkit is called as its last", toolkitTools, `from.call(ctx, &n.Tool.Definition, i)`, `from.call(ctx, &named[len(named)-1].Tool.Definition, i)`),

		// The end of runs.
		one("a late answer wins over a cancel", lifecycleEvent, "	if o.After.CancelRequested {\n		o.enter(Cancelled, now)\n		return nil\n	}\n	o.After.Error = reason", "	o.After.Error = reason"),
		one("a pause wins over a cancel", lifecycleEvent, "	if r.CancelRequested {\n		o.enter(Cancelled, now)\n		return nil\n	}\n	o.enter(AwaitingInput, now)", "	o.enter(AwaitingInput, now)").explored(),
		one("a cancelled run without a worker is executed again", lifecycleEvent, "	case r.CancelRequested:\n		return &ending{Cancelled, \"\"}\n", ""),
		one("a failed run keeps its chat", transitionTransition, `if o.After.Status.Terminal() || c.Chat != nil {`, `if (o.After.Status.Terminal() && o.After.Status != lifecycle.Failed) || c.Chat != nil {`),
		one("a queued run fails before its deadline", lifecycleEvent, "	case Queued:\n		if !now.Before(r.StartBy) {", "	case Queued:\n		if !now.Add(9 * time.Minute).Before(r.StartBy) {\n			r.StartBy = now\n			return PendingWork{Event: Unstartable{}}\n		}\n		if !now.Before(r.StartBy) {"),
		one("the old start deadline holds for a resumed run", lifecycleEvent, "	r.StartBy = time.Time{} // the start deadline no longer applies\n", "").and(lifecycleTransition, "r.Slots, r.QueuedAt, r.StartBy, r.PausedAt = slots, now, startBy, time.Time{}", "r.Slots, r.QueuedAt, r.PausedAt = slots, now, time.Time{}").and(lifecycleEvent, "	r := &o.After\n	if now.Before(r.StartBy) {\n		return o.refuse(TooEarly)\n	}\n	r.Error", "	r := &o.After\n	r.Error"),

		// Billing.
		one("active time counts the pauses", workerTally, `func (t *tally) active() time.Duration { return t.before() + t.host.Elapsed() - t.claimed }`, `func (t *tally) active() time.Duration { return t.host.Now().Sub(t.from.CreatedAt) }`),
		one("reports of active time add up", lifecycleEvent, `r.ActiveMS = max(r.ActiveMS, w.Active.Milliseconds())`, `r.ActiveMS += w.Active.Milliseconds()`),
		one("failed runs are billed", lifecycleRun, `{ return r.Status == Completed }`, `{ return r.Status == Completed || r.Status == Failed }`),
		one("cancelled runs have no ledger entry", transitionTransition, `if after.Status.Terminal() {`, `if after.Status.Terminal() && after.Status != lifecycle.Cancelled {`),
		one("a run's end is written whatever came between", recordRun, "		item.Lists = item.Lists[:0]\n	}\n	return put(tx, e, item)\n", "		item.Lists = item.Lists[:0]\n	}\n	written := put(tx, e, item)\n	if r.Status.Terminal() {\n		tx.ops[len(tx.ops)-1] = table.Put(*tx.ops[len(tx.ops)-1].Item, table.Always())\n	}\n	return written\n"),
		one("a run is billed by a commit before the one that ends it", transitionTransition, "		tx.PutCharge(after.Run)\n", "		before := x.Store.Begin(x.Host.NewID())\n		before.PutCharge(after.Run)\n		if err := before.Commit(ctx); err != nil {\n			return err\n		}\n"),
		one("a run has another ledger entry a millisecond later", transitionTransition, "		tx.PutCharge(after.Run)\n", "		tx.PutCharge(after.Run)\n		again := after.Run\n		again.FinishedAt = again.FinishedAt.Add(time.Millisecond)\n		tx.PutCharge(again)\n"),
		one("budgets do not count what failed runs used", transitionTransition, "	tx.CountTokens(ctx, &after.Run)\n", "	if o.After.Status != lifecycle.Failed {\n		tx.CountTokens(ctx, &after.Run)\n	}\n"),
		one("budgets count what a run used at its end", transitionTransition, "	tx.CountTokens(ctx, &after.Run)\n", "	if o.After.Status.Terminal() {\n		tx.CountTokens(ctx, &after.Run)\n	}\n"),
		one("budgets do not count at a pause", transitionTransition, "	tx.CountTokens(ctx, &after.Run)\n", "	if o.After.Status != lifecycle.AwaitingInput {\n		tx.CountTokens(ctx, &after.Run)\n	}\n"),
		one("budgets count again what an attempt used that was lost", recordBudget, "	before, open := c.Open, r.Usage.Tokens()-c.Settled\n", "	before, open := c.Open, r.Usage.Tokens()-c.Settled\n	if r.Status != lifecycle.Running && r.Attempt > 1 {\n		open += before\n	}\n"),
		one("the tokens of a run stay in its own counter when it stops", recordBudget, "			tx.delete(own, table.Always())\n", ""),
		one("budgets count in a commit before the one that uses the tokens", transitionTransition, "	tx.CountTokens(ctx, &after.Run)\n", "	earlier := x.Store.Begin(x.Host.NewID())\n	earlier.CountTokens(ctx, &after.Run)\n	if err := earlier.Commit(ctx); err != nil {\n		return err\n	}\n"),
		one("a budget does not see what running runs have used", recordBudget, "		if item.Sort == runsSort {\n", "		if strings.HasPrefix(item.Sort, openPrefix) {\n			continue\n		}\n		if item.Sort == runsSort {\n"),
		one("a run that has paused may use more than its budgets", workerTask, "	if t.Tools, err = w.Tools.Open(", "	if run.Pause > 0 {\n		t.BudgetExceeded = nil\n	}\n	if t.Tools, err = w.Tools.Open("),
		one("budgets do not count parked messages", intakeIntake, "r.spend(ctx, tx); err != nil {\n			return transition", "r.spend(ctx, r.Store.Begin(r.runID)); err != nil {\n			return transition"),

		one("what a call used that a cancel cut short is not counted", workerSettle, `return s.stopped(ctx, p.Last, cancelled)`, `return s.stopped(ctx, nil, cancelled)`),
		one("what an attempt used is forgotten when it is made again", agentReply, `step.InputTokens += in // beside what failed attempts used`, `step.InputTokens = in`),
		one("what a call used that a hand-over cut short is counted twice", workerAttempt, "	text, _ := view.Progress(t.Steps, lifecycle.Running)\n", "	text, _ := view.Progress(t.Steps, lifecycle.Running)\n	for _, step := range t.Steps {\n		if step.Kind == record.CutStep {\n			a.used.add([]record.Step{step})\n		}\n	}\n"),

		// Slots and caps.
		one("slots are not given back", recordSlot, `if side.beforeRow != "" && !same {`, `if false {`),
		one("a pause holds its slots", lifecycleEvent, "	r.Slots = Slots{User: row, Organization: row}\n", "	_ = row\n"),
		one("a resumed run holds no slots", lifecycleTransition, `r.Slots, r.QueuedAt, r.StartBy, r.PausedAt = slots, now, startBy, time.Time{}`, `r.QueuedAt, r.StartBy, r.PausedAt = now, startBy, time.Time{}`),
		one("admission lets one too many in", recordSlot, `d.Cap == Uncapped || (d.Active < d.Cap && d.Free != "")`, `d.Cap == Uncapped || d.Active <= d.Cap`),
		one("resumed work does not count for admission", recordSlot, "				d.Active++\n", "				if !strings.HasPrefix(item.Sort, \"over/\") {\n					d.Active++\n				}\n"),
		one("a slot of a shard is not given back", recordSlot, `tx.delete(slotKey(side.beforePart, side.beforeRow), table.Always())`, `tx.delete(table.Key{Part: side.beforePart, Sort: side.beforeRow}, table.Always())`),
		one("a parked turn inherits the slots of a paused run", transitionTransition, `paused := o.Before.Status == lifecycle.AwaitingInput`, `paused := false`),
		one("a parked turn inherits the slots of another user", transitionTransition, `if paused || parked.Spec.User != o.Before.User {`, `if paused {`),

		// Turns and shares.
		one("an organization keeps its turn", shareLine, keeps, "		if len(below.turn) > 0 && len(below.by[below.turn[0]].turn) > 0 {\n"+kept),
		one("a user keeps its turn", shareLine, keeps, "		if len(below.turn) > 0 && len(below.by[below.turn[0]].turn) == 0 {\n"+kept),
		one("what is accepted passes who waits", localQueue, "		part.Give()\n		return nil\n", "		part.Give()\n"),
		one("a worker is not given back", localQueue, "	part.Give()\n	if len(q.all) > 0 {", "	if len(q.all) > 0 {"),
		one("one who is refused keeps the worker", "internal/run/worker/starter.go", `func (r *reserved) Free() { r.hand(nil) }`, `func (r *reserved) Free() {}`).flooded(),
		one("an organization takes all of the reserve", platformShare, `half := left - left/2`, `half := left`),
		one("who holds much takes of the reserve", platformShare, `reserved > 0 && (organization.reserved+reserved > half || user+n > half)`, `reserved > left && half >= 0`),
		one("a nudge does not say of which organization it is", transitionTransition, `ID: next.ID()}, Group: next.Organization,`, `ID: next.ID()},`).flooded(),
		one("each run has a turn of its own", transitionTransition, "			User: next.User})\n", "			User: next.ID()})\n").flooded(),
		one("the sweeper does not say whose a run is", sweepSweep, "		t.wakeup.User = e.Value.User\n", "").flooded(),
		one("a resumed run waits for the caps", "internal/run/intake/runs.go", "			if event.Slots, err = in.Executor.Slots(", "			u, o, err := in.Executor.Admissions(ctx, run.Organization, run.User)\n			if err == nil && !(u.Allows() && o.Allows()) {\n				return transition.Change{}, capped(\"user_concurrency_cap\", \"this user\", u)\n			}\n			if event.Slots, err = in.Executor.Slots("),
		one("paused runs of a user are not limited", intakeIntake, `{{"user", user}, {"organization", organization}} {`, `{{"user", record.Admission{}}, {"organization", organization}} {`).flooded(),
		one("who has nothing paused is refused for others", intakeIntake, `paused >= r.PausedRuns && ofUser >= few`, `paused >= r.PausedRuns && ofUser <= max(ofUser, few)`).flooded(),
		one("one paused run too many lets others begin", intakeIntake, `paused >= r.PausedRuns && ofUser`, `paused > r.PausedRuns && ofUser`).flooded(),
		one("a start deadline runs while runs of the organization are at work", transitionTransition, "		if held {\n", "		if held && false {\n").flooded(),
		one("a start deadline does not run", transitionTransition, "		if held {\n", "		if held || true {\n"),

		// Parked messages.
		one("parked messages are forgotten at a promotion", lifecycleTransition, `Parked: slices.Clone(o.After.Parked[1:]), Slots: slots}`, `Slots: slots}`),
		one("parked messages change their order", lifecycleTransition, "	r := o.Before\n	return ChatPosition{", "	r := o.Before\n	slices.Reverse(o.After.Parked[1:])\n	return ChatPosition{"),
		one("a sixth message is parked", lifecycleEvent, `if len(o.After.Parked) >= MaxParked {`, `if len(o.After.Parked) > MaxParked {`),
		one("a cancelled run promotes nobody", lifecycleTransition, `if len(r.Parked) > 0 {`, `if len(r.Parked) > 0 && r.Status != Cancelled {`),
		one("a message that is taken back hides its run", recordRun, "	if problem.Is(err, \"not_found\") {\n		return p, fmt.Errorf(\"%w: %w\", ErrConflict, err)\n	}\n", "").explored(),
		one("a message waits on a run that asks for it", intakeIntake, "		if run.Answerable() && !r.message.FollowsUp {\n", "		if false {\n").explored(),
		one("a withdrawal takes the first message", lifecycleEvent, `slices.Delete(o.After.Parked, at, at+1)`, `slices.Delete(o.After.Parked, 0, 1)`),

		// Humans.
		one("a message answers an approval", lifecycleRun, ` && r.Interrupts[0].Kind == Clarification`, ``),
		one("a message answers one of several", lifecycleRun, `len(r.Interrupts) == 1 && r.Interrupts[0].Kind == Clarification`, `len(r.Interrupts) >= 1 && r.Interrupts[0].Kind == Clarification`),
		one("some of the decisions are enough", lifecycleEvent, `if len(decided) != len(kinds) {`, `if len(decided) == 0 {`),
		one("a pause expires at any nudge", lifecycleEvent, "	case AwaitingInput:\n		if !now.Before(r.ExpiresAt) {", "	case AwaitingInput:\n		if now.After(r.PausedAt.Add(time.Minute)) {").and(lifecycleEvent, "	if now.Before(r.ExpiresAt) {\n		return o.refuse(TooEarly)\n	}\n	r.CancelReason", "	r.CancelReason"),
		one("nobody looks at a paused run", lifecycleEvent, `e.Interrupts, now, e.ExpiresAt, e.ExpiresAt, 0`, `e.Interrupts, now, e.ExpiresAt, time.Time{}, 0`),

		// Files.
		one("a run that is removed keeps its files", recordRun, "	if err := s.releaseAll(ctx, r.ID()); err != nil {\n		return err\n	}\n", ""),
		one("a file is let go of twice", recordFile, "	tx.delete(referenceKey(run, file), table.VersionIs(items[0].Version))\n", ""),
		one("a file is removed though it is needed", recordFile, `if !f.Removed && wanted(*f, tx) {`, `if false {`),
		one("a file's bytes go while it can be reached", recordFile, "	e, err := Change(ctx, s, System(), id, 0, func(f *File, tx *Tx) error {\n		if !f.Removed && wanted(*f, tx) {", "	if err := s.dropBlobs(ctx, id, fileBlobs(id)); err != nil {\n		return err\n	}\n	e, err := Change(ctx, s, System(), id, 0, func(f *File, tx *Tx) error {\n		if !f.Removed && wanted(*f, tx) {"),
		one("a file that goes can still be taken", recordFile, `if err == nil && (e.Value.Removed || !e.Value.Uploaded) {`, `if err == nil && !e.Value.Uploaded {`).and(recordFile, "	if err == nil && e.Value.Removed {\n", "	if false {\n"),
		one("a file that nobody uses stays", recordFile, `CreatedAt: now, Due: now.Add(UnusedLife),`, `CreatedAt: now,`),
		one("a parked message does not hold its files", intakeIntake, "r.referenceFiles(ctx, tx, r.agent.ID, r.runID); err != nil {\n			return transition", "r.referenceFiles(ctx, r.Store.Begin(r.runID), r.agent.ID, r.runID); err != nil {\n			return transition"),
		one("parked messages that go with their chat leave their files", transitionTransition, "			after.Dropped = o.Before.Parked\n", "			after.Dropped = nil\n"),
		one("a message taken back leaves its files", recordRun, "	tx.releases(ctx, id)\n", ""),
		one("a message that is refused leaves its body", recordRun, `err == nil && len(b) > inlineLimit {`, `err == nil && len(b) > documentLimit {`),

		// Idempotency.
		one("a run's key is not kept", transitionTransition, `if a.Idempotency != nil {`, `if false {`),
		one("a parked message's key is not kept", intakeIntake, `r.idempotency(ctx, tx, kept)`, `r.idempotency(ctx, r.Store.Begin(r.runID), kept)`),
		one("an answer's key is not kept", intakeIntake, "r.idempotency(ctx, tx, record.Idempotency{\n			Outcome: record.AnsweredPause", "r.idempotency(ctx, r.Store.Begin(r.runID), record.Idempotency{\n			Outcome: record.AnsweredPause"),
		one("the caps are asked before the key", intakeIntake, "	if posted, found, err := r.replay(ctx); found || err != nil {\n		return posted, err\n	}\n	chat, err := r.chat(ctx)\n", "	if user, _, err := r.Executor.Admissions(ctx, r.who.Organization, r.who.User); err == nil && !user.Allows() {\n		return Posted{}, capped(\"user_concurrency_cap\", \"this user\", user)\n	}\n	if posted, found, err := r.replay(ctx); found || err != nil {\n		return posted, err\n	}\n	chat, err := r.chat(ctx)\n"),
		one("a refusal does not look for the key again", intakeIntake, "	if posted, found, err := r.replay(ctx); found || err != nil {\n		return posted, err\n	}\n	return Posted{}, refusal\n", "	return Posted{}, refusal\n"),
		one("a removal takes a key that leads elsewhere by now", recordRun, `if found && (known.RunID == run || known.Parked == run) {`, `if found {`),

		// Commits.
		one("what a later version wrote is dropped", "internal/store/record/codec.go", `Unknown: e.unknown})`, `Unknown: nil})`),
		one("own writes are not recognised", recordTx, `if c.Current != nil && c.Current.WriteID == writeID`, `if c.Current != nil && c.Current.WriteID == writeID+"?"`),
		one("a transition is two commits", transitionTransition, "	written = tx.PutRun(written)\n", "	head := x.Store.Begin(tx.WriteID())\n	written = head.PutRun(written)\n	if err := head.Commit(ctx); err != nil {\n		return e, err\n	}\n"),
		one("another organization's runs can be reached", recordStore, `return s.all || (s.organization != "" && s.organization == owner)`, `return s.all || s.organization != ""`),
		one("what was not stored is started", transitionTransition, "			worker.Free()\n		default:", "			worker.Start(stored)\n		default:"),
		one("a lost nudge is lost", sweepSweep, "	case todo.Execute:\n", "	case todo.Execute && now.IsZero():\n"),

		// Pushes.
		one("only the first pause is pushed", lifecycleTransition, `if r.Callback && s.EndedOrWaiting() {`, `if r.Callback && (s.Terminal() || (s == AwaitingInput && r.Pause == 0)) {`),
		one("a delivery's row is not in the commit", transitionTransition, `if o.Announce && tx.Err() == nil {`, `if o.Announce && tx.Err() == nil && o.After.Status != lifecycle.Failed {`),
		one("what was delivered is pushed again", webhookWebhook, `if h.State != record.DeliveryPending && !h.Redeliver {`, `if h.State == record.DeliveryFailed && !h.Redeliver {`),
		one("a claimed delivery is tried by others", webhookWebhook, `if h.Claimed(now, s.ProcessID) {`, `if false {`),
		one("a try outlives its claim", webhookWebhook, "s.Host.WithTimeout(ctx, left)", "s.Host.WithTimeout(ctx, time.Hour)"),
		one("each try has other bytes", webhookWebhook, `http.MethodPost, h.CallbackURL, bytes.NewReader(body))`, `http.MethodPost, h.CallbackURL, bytes.NewReader(append(bytes.TrimSuffix(body, []byte("}")), []byte(fmt.Sprintf(",\"try\":%d}", h.CountedAttempts))...)))`),
		one("a delivery is given up after two tries", webhookWebhook, `case o.final || h.CountedAttempts >= maxCountedAttempts:`, `case o.final || h.CountedAttempts >= 2:`),
		one("what was removed is pushed", webhookWebhook, "	if problem.Is(err, \"not_found\") {\n		return true, nil\n	}\n	return false, err\n", "	if problem.Is(err, \"not_found\") {\n		return false, nil\n	}\n	return false, err\n"),

		// Streams.
		one("a stream of an ended run does not end", streamReader, "	if now.status.Terminal() {\n		r.emit(", "	if now.status.Terminal() && before.run != \"\" && before.version != now.version {\n		r.emit("),
		one("a stream leaves out what no frame brought", streamProgress, "		p.more(text, 0)\n	case completed", "	case completed"),
		one("a stream tells what its init has told", streamProgress, "	if !slices.ContainsFunc(p.steps,\n		func(s placed) bool { return s.Index == e.Index && (s.State == e.State || s.State != started) }) {\n", "	if e.Index >= 0 {\n"),

		// Texts.
		one("the texts of steps are glued", recordAnswer, `return paragraph.Break(a.kept.String()), paragraph.Begin(text)`, `return "", text`),
		one("an answer that was replaced stays", recordAnswer, "	a.last = \"\"\n	if paragraph.Blank(step.Text) || step.Withdrawn {", "	a.kept.WriteString(a.last)\n	a.last = \"\"\n	if paragraph.Blank(step.Text) {"),
		one("an empty reply is asked for without an end", agentAnswer, ` && s.calling == 0 && s.answers <= repairs`, ` && s.calling == 0`),
		one("a better answer is asked for before the first is journalled", agentAgent, "	if bad { // the", "	if false { // the"),

		// Documents.
		one("an ingester that has lost its lease goes on", ingestionIngestion, "func (e Advance) apply(s State, _ time.Time) (State, error) {\n	if s.Lease.Claim != e.Claim {", "func (e Advance) apply(s State, _ time.Time) (State, error) {\n	if s.Lease.Claim == \"\" {"),
		one("a document that is held can be claimed", ingestionIngestion, `return s.Lease.Claim != "" && s.Lease.Until.After(now) &&`, `return false && s.Lease.Until.After(now) &&`),
		one("a stage is tried for ever", ingestionIngestion, "	if s.Attempts >= MaxAttempts {\n		return s.fail(now, e.Code, e.Message), nil\n	}\n	wait", "	wait").and(ingestionIngestion, "	case s.Attempts >= MaxAttempts:\n", "	case false:\n"),
		one("another attempt embeds all batches again", ingestionIngestion, `s.Lease, s.Due = Lease{}, now.Add(wait)`, `s.Lease, s.Due, s.Done = Lease{}, now.Add(wait), 0`),
		one("the sweeper ignores documents", sweepSweep, "		return s.document(ctx, due.ID)\n", "		return nil, nil\n"),
		one("the last batch is charged twice", ingestStages, "		w.unpaid = 0\n", "		w.unpaid += 0\n"),
		one("a document is ready with its first chunks", ingestStages, "	for n := 0; n*perPiece < w.d.Work.Count; n++ {\n		chunks, err := w.pieceOf", "	for n := 0; n < 1; n++ {\n		chunks, err := w.pieceOf"),
		one("who may read a document is not asked", knowledgeSearch, `if searched && mayOpen(s.p, b, d) == nil && s.q.Filter.admits(d) {`, `if searched && s.q.Filter.admits(d) {`),
		one("a document that has enough hits ends the page", knowledgeSearch, "			over++\n			continue\n", "			return hits, over, true, nil\n"),
		one("a build that was replaced stays in the index", knowledgeDocument, "			forget(tx, k.Host.NewID(), *d, b, k.now())\n", "			_ = b\n"),
		one("what was made of a document that is reprocessed stays", knowledgeDocument, "	drop(tx, d, []catalog.Build{d.Work}, append(kept, d.Ready)...)\n", ""),
		one("bytes that were replaced stay", knowledgeDocument, "	if d.Bytes != \"\" {\n		tx.DropBlob(*d, d.Bytes)\n	}\n", ""),
		one("a document is not found while its content is replaced", knowledgeDocument, "		d.Source, d.UserID = n.Source, p.User\n", "		d.Source, d.UserID, d.Ready = n.Source, p.User, catalog.Build{}\n"),
		one("bytes that were replaced stay reserved", knowledgeDocument, "bytes.hash()\n	return k.moveReservation(ctx, tx, d)\n", "bytes.hash()\n	return nil\n"),
		one("a document that is deleted stays in the index", removalKnowledge, "	if err := r.unindex(ctx, j); err != nil {\n		return 0, err\n	}\n	if err := record.EraseBlobs", "	if err := record.EraseBlobs"),
		one("counts of a base keep what is deleted", knowledgeDocument, "		Count(ctx, tx, &e.Value, nil)\n", ""),
		one("a rebuild is in force before it is whole", knowledgeRebuild, `if n[built(j.ID)] >= foundIn(n) && !k.Lost(b) {`, `if n[built(j.ID)] >= 0 && !k.Lost(b) {`).and(knowledgeRebuild, `n[built(j.ID)] != foundIn(n) {`, `n[built(j.ID)] < 0 {`),

		// Rollups.
		one("a quarter of an hour is rolled up as soon as it is over", analyticsRoll, `return now.Add(-Grace).Truncate(rollup.Quarter), now`, `return now.Truncate(rollup.Quarter), now`),
		one("a part of the ledger is not rolled up", recordLedger, "		shards := make([]*ledgerShard, 0, ledgerShards)\n		for n := range ledgerShards {\n", "		shards := make([]*ledgerShard, 0, ledgerShards)\n		for n := range ledgerShards {\n			if n == ledgerShards-1 && !r.Reverse {\n				continue\n			}\n"),
		one("how far a ledger is rolled up is said before it is", analyticsRoll, "		w.rolled = w.tx.PutRolled(w.scope.Organization(), w.rolled)", "		before := w.Store.Begin(w.Host.NewID())\n		w.rolled = before.PutRolled(w.scope.Organization(), w.rolled)\n		if err := before.Commit(ctx); err != nil {\n			return err\n		}"),
		one("what is not rolled up yet is forgotten", analyticsRead, `for at := r.From; at.Before(to);`, `for at := r.From; at.Before(quarters);`),
		one("a day is rolled up as far as it had got", analyticsRoll, `w.Store.Quarters(ctx, w.scope, at, at.Add(day), func`, `w.Store.Quarters(ctx, w.scope, at, at.Add(day-rollup.Quarter), func`),
		one("what came late is not looked for", analyticsRoll, `return stored != nil && bytes.Equal(stored.Sum(nil), now.Sum(nil)), nil`,
			`_ = bytes.Equal; return stored != nil, nil`),
		one("what a clock that was ahead has rolled up stands", analyticsRoll, `if !r.Quarters.After(now) && `, `if true || !r.Quarters.After(now) && `),
		one("a quarter of an hour has what the one before had, too", analyticsRoll, "			at, quarter = q, rollup.New(rollup.All)\n", "			at = q\n"),
		one("the last quarter of an hour is not written", analyticsRoll, "		*w.budget--\n	}\n	if err := end(); err != nil {\n		return err\n	}\n	moveTo(p.to)\n", "		*w.budget--\n	}\n	moveTo(p.to)\n"),
		one("rollups outlive their organization", removalRemoval, "if r.Rollups != nil {", "if false {"),
		one("the ledger of a removed organization is rolled up anew", analyticsRoll, `if err == nil && o.Value.Deleted {`, `if false {`),
	}
}

func (b Bug) explored() Bug {
	b.Explored = true
	return b
}

// flooded marks a bug that needs worlds with floods.
func (b Bug) flooded() Bug {
	b.Kind = "floods"
	return b
}

// sighted marks a bug that needs worlds where it changes who sees chats.
func (b Bug) sighted() Bug {
	b.Kind = "sight"
	return b
}

// and adds an edit to a bug.
func (b Bug) and(file, old, new string) Bug {
	b.Edits = append(b.Edits, Edit{file, old, new})
	return b
}
