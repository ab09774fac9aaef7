// Package intake is the clients' side of runs: it accepts messages, and resumes, cancels and follows up runs.
//
// It decides a message in this order: idempotency record, chat in scope, a question that the message answers. A new run
// then needs: agent in scope, busy chat (park or 409), caps (429), accept. A refusal after the first read is returned
// only if a second read finds no idempotency record either. Two concurrent retries must not refuse each other as
// "busy".
//
// intake.go turns messages into runs; runs.go has the operations on existing runs, push.go the addresses of their
// webhooks. access.go decides access; limits.go and context.go bound the input of clients; files.go refers to their
// files.
//
// The package must not know HTTP, models or leases. It imports transition, record, lifecycle, tenant, view, problem,
// schema, strictjson and host.
//
// Errors are problems (see package problem). Every function also returns these errors, which its comment does not name:
//
//   - a problem of kind Unavailable if the store fails, or if the run or chat changed on every attempt
//   - the context's error if it ends between two attempts
//   - an error that is not a problem if the result of the write is not known
package intake

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/platform/strictjson"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/run/view"
	"agentplatform/internal/store/record"
)

// Intake is the use case. It is safe for concurrent use.
type Intake struct {
	Executor *transition.Executor
	Store    *record.Store
	Tenants  *tenant.Tenants
	Host     host.Host
	// PausedRuns is the number of paused runs of a user, and of an organization, up to which new ones are accepted; 0:
	// there is no limit.
	PausedRuns int
	// Tools lists the tools of toolkits as an agent's runs get them now; it calls none. Edits of calls are checked
	// against them. nil: only the run itself checks the arguments.
	Tools func(ctx context.Context, organization string, toolkits []string) ([]tool.Offer, error)
}

// Message is a message to an agent.
type Message struct {
	AgentID     string
	Version     int // of the agent; 0: the published one
	Text        string
	ChatID      string // empty: a new chat
	Title       string
	Files       []record.FileRef
	Metadata    map[string]string
	CallbackURL string
	Push        *record.Push // instead of CallbackURL; not of a message that may be parked
	PushOf      string       // the run whose push Push replaces if the message answers its question; empty: none
	Key         string       // idempotency key
	Digest      string       // of its request, by [Digest]; empty: requests are not compared
	Request     string       // id of its request; the run's id ends with its last digits; empty: none
	Enqueue     bool         // park it when the chat is busy
	FollowsUp   bool         // it is for after the chat's run, and never answers its question
	// Context is the client's context of the message. For a message that answers a question it is not used.
	Context *record.Context
	Watched bool // a reader streams the run from its start
	// Wrong is the endpoint's error about the fields for a new run, or nil. It is ignored if the message answers a
	// question.
	Wrong error
	// Answers returns the reason why the message may not answer the question of a run. nil: it may answer any question.
	Answers func(context.Context, record.Run) error
}

// Posted is the outcome of a message.
type Posted struct {
	Run      record.Run   // the run that was started or answered, or for which the message waits
	Version  int64        // stored version of the run if it was started; else 0
	Parked   *view.Parked // the parked message
	Replayed bool         // an earlier request with the same key had done it
	Mismatch bool         // that request had another digest
	Pause    int          // the pause of the run that the message answered; 0: none
}

// maxAttempts bounds the decisions about a message after conflicts.
const maxAttempts = 32

// Post decides a message: it starts a run, is parked on the active run of its chat, or answers that run's question. If
// the same user has used the idempotency key before, Post returns the outcome of the first request as it is now, with
// Replayed set.
//
// It returns problems of these kinds:
//
//   - Invalid, with the field: the message is malformed, Message.Wrong, a bad agent_version; and the error of
//     Message.Answers
//   - NotFound (not_found): the agent, a deleted chat, or a file, whose field is file_ids[n]
//   - Forbidden (outside_organization, insufficient_permission): the principal has no access to the agent, or to an
//     agent that took part in the chat
//   - Conflict: chat_busy with active_run_id, or parked_queue_full with active_run_id when Enqueue is set
//   - Limited, with RetryAfter: user_concurrency_cap and organization_concurrency_cap with limit and active,
//     paused_runs_limit with limit, scope, max and used, budget_exhausted with the budget
//   - Unavailable: nothing was done
func (in *Intake) Post(ctx context.Context, p tenant.Principal, m Message) (Posted, error) {
	if err := m.check(""); err != nil {
		return Posted{}, err
	}
	m.Wrong = cmp.Or(m.Wrong, m.checkNew()) // once, not at each attempt
	r := &request{Intake: in, who: p, message: m, runID: host.After(in.Host.NewID(), m.Request),
		chatID: in.Host.NewID(), record: recordOf(p, m.Key)}
	return r.until(ctx, "the chat kept changing", r.decide)
}

// Replay returns the outcome of an earlier request with the same key, as it is now; found is false if there was none.
// It is for callers that must decide before [Intake.Post]. digest is as in [Message]. Its errors are those of Post.
func (in *Intake) Replay(
	ctx context.Context, p tenant.Principal, key, digest string,
) (posted Posted, found bool, err error) {
	if key == "" {
		return Posted{}, false, nil
	}
	if err := CheckKey("idempotency_key", key); err != nil {
		return Posted{}, false, err
	}
	r := &request{Intake: in, who: p, message: Message{Digest: digest}, record: recordOf(p, key)}
	return r.replay(ctx)
}

// Digest is a digest of a request. Requests that are equal as JSON have equal digests, in any spelling.
func Digest(request any) string {
	raw, err := strictjson.Canonical(request)
	if err != nil {
		return "" // it is not compared
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// recordOf is the name of the idempotency record of a key; empty without a key.
func recordOf(p tenant.Principal, key string) string {
	if key == "" {
		return ""
	}
	return record.IdempotencyName(p.Organization, p.User, key)
}

// errAgain means that the data of a decision has changed.
var errAgain = errors.New("intake: decide about the message again")

// untilDone decides again while the data of the decision changes. After too many attempts it returns a problem of kind
// Unavailable that wraps why.
func (in *Intake) untilDone(ctx context.Context, why string, decide func() error) error {
	for attempt := range maxAttempts {
		err := decide()
		if !errors.Is(err, errAgain) && !errors.Is(err, record.ErrConflict) && !errors.Is(err, lifecycle.ErrRefused) {
			return err
		}
		if err := in.Executor.Pause(ctx, attempt); err != nil {
			return err
		}
	}
	return problem.Retry(errors.New(why))
}

// until is untilDone for a message.
func (r *request) until(
	ctx context.Context, why string, decide func(context.Context) (Posted, error),
) (posted Posted, err error) {
	err = r.untilDone(ctx, why, func() (err error) {
		posted, err = decide(ctx)
		return err
	})
	return posted, err
}

type request struct {
	*Intake

	who     tenant.Principal
	message Message
	runID   string             // of the run that the message becomes, immediately or after parking
	chatID  string             // of the chat that is created if the message names none
	record  string             // name of the idempotency record; empty without a key
	stale   record.Idempotency // a record whose run has been deleted since
	owner   string             // of the chat
	agent   catalog.Agent
	budgets []lifecycle.Budget // budgets that include the run's tokens
}

func (r *request) decide(ctx context.Context) (Posted, error) {
	if posted, found, err := r.replay(ctx); found || err != nil {
		return posted, err
	}
	chat, err := r.chat(ctx)
	r.owner = r.who.User // of a chat that does not exist
	if err == nil {
		r.owner = chat.Value.User
		if err := r.mayJoin(ctx, r.who, chat.Value); err != nil { // before any other refusal
			return r.refused(ctx, err)
		}
	}
	if err == nil && chat.Value.ActiveRun != "" {
		return r.busy(ctx, chat.Value)
	}
	if err = cmp.Or(r.startable(ctx), err); err != nil {
		return r.refused(ctx, err)
	}
	return r.accept(ctx, chat)
}

// startable returns nil if the message may become a run, immediately or later. A message that answers a question
// becomes none, so its agent and the fields for a new run do not matter.
func (r *request) startable(ctx context.Context) (err error) {
	if err = r.message.Wrong; err == nil {
		r.agent, err = r.Tenants.Runnable(ctx, r.who, r.message.AgentID, r.message.Version)
	}
	if err == nil && r.owner != r.who.User { // no user starts a run without access to it
		err = r.Tenants.CanAccess(ctx, r.who, lifecycle.Whose{Agent: r.agent.ID, Owner: r.owner})
	}
	if err == nil && r.message.Context != nil {
		err = r.goesWith(ctx, r.message.Context, r.agent)
	}
	return err
}

// goesWith returns nil if a client's context fits an agent and its tools. Otherwise it returns a problem of kind
// Invalid, or the error of counting the tools.
func (in *Intake) goesWith(ctx context.Context, c *record.Context, a catalog.Agent) error {
	err := suits(c, a.Spec)
	if err == nil && len(c.Functions) > 0 {
		err = in.Tenants.CheckTools(ctx, a.Organization, a.Spec, "context.functions", len(c.Functions))
	}
	return err
}

// refused returns the refusal, unless a concurrent request with the same key has succeeded.
func (r *request) refused(ctx context.Context, refusal error) (Posted, error) {
	if posted, found, err := r.replay(ctx); found || err != nil {
		return posted, err
	}
	return Posted{}, refusal
}

// replay answers from the idempotency record; found is false when there is none.
func (r *request) replay(ctx context.Context) (Posted, bool, error) {
	if r.record == "" {
		return Posted{}, false, nil
	}
	r.stale = record.Idempotency{} // of an earlier attempt
	known, found, err := r.Store.Idempotency(ctx, r.record)
	if err != nil || !found {
		return Posted{}, false, err
	}
	posted, err := r.replayOf(ctx, r.who.Scope(), known)
	if problem.Is(err, "not_found") { // its run was deleted: the key is free again
		r.stale = known
		return Posted{}, false, nil
	}
	if err == nil {
		err = r.MaySee(ctx, r.who, &posted.Run)
	}
	if err != nil {
		return Posted{}, true, err
	}
	posted.Mismatch = known.Digest != "" && r.message.Digest != "" && known.Digest != r.message.Digest
	return posted, true, nil
}

// replayOf returns the outcome of an earlier request as it is now.
func (in *Intake) replayOf(ctx context.Context, scope record.Scope, known record.Idempotency) (Posted, error) {
	if known.Outcome != record.ParkedMessage {
		e, err := in.Store.LiveRun(ctx, scope, known.RunID)
		return Posted{Run: e.Value, Replayed: true, Pause: known.Pause}, err
	}
	// The message may start between the two reads; then the next round finds its run.
	for attempt := 0; ; attempt++ {
		posted, err := in.replayParked(ctx, scope, known.Parked)
		if !problem.Is(err, "not_found") || attempt == 2 {
			return posted, err
		}
	}
}

// replayParked finds a parked message as the run that it has become, or on the run that it waits on.
func (in *Intake) replayParked(ctx context.Context, scope record.Scope, id string) (Posted, error) {
	e, err := in.Store.LiveRun(ctx, scope, id)
	started := err == nil
	if err != nil && !problem.Is(err, "not_found") {
		return Posted{}, err
	}
	parked, err := in.Store.Parked(ctx, id)
	if err != nil {
		return Posted{}, err
	}
	run, position := e.Value, 1
	if !started {
		if run, position, err = in.waitsOn(ctx, scope, parked); err != nil {
			return Posted{}, err
		}
	}
	v := view.ParkedRecord(id, position, parked.Input.Message, parked.At, started)
	return Posted{Run: run, Parked: &v, Replayed: true}, nil
}

// waitsOn finds the active run of a chat for which a message waits, and the message's position there, from 1. It
// returns a problem of kind NotFound if the message does not wait.
func (in *Intake) waitsOn(ctx context.Context, scope record.Scope, p record.Parked) (record.Run, int, error) {
	for range maxAttempts {
		chat, found, err := in.Store.ChatOf(ctx, p.Spec)
		if err != nil {
			return record.Run{}, 0, err
		}
		if !found || chat.Value.ActiveRun == "" {
			break
		}
		e, err := in.Store.Run(ctx, scope, chat.Value.ActiveRun)
		if err != nil && !problem.Is(err, "not_found") {
			return record.Run{}, 0, err
		}
		for i, id := range e.Value.Parked {
			if id == p.Spec.RunID {
				return e.Value, i + 1, nil
			}
		}
		if e.Value.ID() == p.Spec.RunID || e.Value.Status.Active() {
			break
		}
	}
	return record.Run{}, 0, problem.Missing("parked message " + p.Spec.RunID)
}

// chat finds the message's chat, or prepares a new one.
func (r *request) chat(ctx context.Context) (record.ChatEntity, error) {
	now := r.Host.Now()
	fresh := lifecycle.Chat{
		Organization: r.who.Organization, User: r.who.User, Title: r.title(), CreatedAt: now, UpdatedAt: now,
	}
	id := r.message.ChatID
	if id == "" {
		fresh.ID = r.chatID
		return record.Fresh(fresh), nil
	}
	e, found, err := r.Store.FindChat(ctx, r.who.Scope(), id)
	switch {
	case err != nil:
		return e, err
	case !found:
		fresh.ID, fresh.OwnID = id, true
		return record.Fresh(fresh), nil
	case e.Value.Deleted && !e.Value.OwnID:
		return e, problem.Missing("chat " + id)
	case e.Value.Deleted:
		fresh.ID, fresh.OwnID, fresh.Epoch = id, true, e.Value.Epoch
		e.Value = fresh
	}
	return e, nil
}

func (r *request) title() string {
	if r.message.Title != "" {
		return r.message.Title
	}
	const most = 80
	short := []rune(r.message.Text)
	for i, c := range short {
		if c == '\n' {
			short = short[:i]
			break
		}
	}
	if len(short) > most {
		short = append(short[:most-1], '…')
	}
	return string(short)
}

func (r *request) spec(chat lifecycle.Chat) lifecycle.RunSpec {
	return lifecycle.RunSpec{
		RunID: r.runID, Organization: r.who.Organization, User: r.who.User, APIKey: r.who.Key,
		Agent: r.agent.ID, AgentVersion: r.agent.Version, Chat: chat.ID, OwnChatID: chat.OwnID,
		LimitMS: r.Tenants.ActiveLimit(r.agent).Milliseconds(), Callback: r.message.Push != nil || r.callback() != "",
		Watched: r.message.Watched, Budgets: r.budgets, Model: r.agent.Spec.Model.FullName(),
	}
}

// callback is the URL for the run's webhooks; empty if they go to its push.
func (r *request) callback() string {
	if r.message.Push != nil {
		return ""
	}
	if r.message.CallbackURL != "" {
		return r.message.CallbackURL
	}
	return r.agent.Spec.CallbackURL
}

func (r *request) input() record.Input {
	return record.Input{
		Message: r.message.Text, Files: r.message.Files, Metadata: r.message.Metadata, CallbackURL: r.callback(),
		Idempotency: r.record, Context: r.message.Context,
	}
}

// accept starts a run in a chat without an active one.
func (r *request) accept(ctx context.Context, chat record.ChatEntity) (Posted, error) {
	user, organization, err := r.Executor.Admissions(ctx, r.who.Organization, r.who.User)
	if err != nil {
		return Posted{}, err
	}
	if !user.Allows() {
		return r.refused(ctx, capped("user_concurrency_cap", "this user", user))
	}
	if !organization.Allows() {
		return r.refused(ctx, capped("organization_concurrency_cap", "this organization", organization))
	}
	if err := r.mayPause(ctx, user, organization); err != nil {
		return r.refused(ctx, err)
	}
	tx := r.Store.Begin(r.runID)
	if err := r.spend(ctx, tx); err != nil {
		return r.refused(ctx, err)
	}
	if err := r.referenceFiles(ctx, tx, r.agent.ID, r.runID); err != nil {
		return r.refused(ctx, err)
	}
	a := transition.Acceptance{
		Spec: r.spec(chat.Value), Input: r.input(), Chat: chat,
		Slots: lifecycle.Slots{User: user.Slot(r.runID), Organization: organization.Slot(r.runID)},
	}
	if c := r.message.Context; c != nil && c.Unstored {
		tx.PutJob(record.Fresh(record.Job{
			ID: r.Host.NewID(), Organization: r.who.Organization, Kind: record.ForgetChat, Subject: r.runID,
			Due: r.Host.Now().Add(record.ForgetAfter),
		}))
	}
	if r.message.Push != nil {
		tx.PutPush(r.who.Organization, r.runID, record.Fresh(*r.message.Push))
	}
	if r.record != "" {
		a.Idempotency = &record.Idempotency{Outcome: record.StartedRun, RunID: r.runID, Digest: r.message.Digest}
		a.Stale = r.stale
	}
	run, err := r.Executor.Accept(ctx, tx, a)
	return Posted{Run: run.Value, Version: run.Version()}, err
}

// spend checks the budgets that apply to the message and counts its run in them. It notes the budgets that will count
// the run's tokens. It returns a problem of kind Limited (budget_exhausted), with RetryAfter to the end of the period.
func (r *request) spend(ctx context.Context, tx *record.Tx) error {
	limits, err := r.Tenants.Limits(ctx, r.who, r.agent)
	if err != nil {
		return err
	}
	now := r.Host.Now()
	r.budgets = nil
	for _, l := range limits {
		name := l.Name(now)
		spent, err := r.Store.Spent(ctx, name)
		if err != nil {
			return err
		}
		if what := l.Exhausted(spent); what != "" {
			return tenant.Exhausted(l, what, now)
		}
		if l.MaxTokens != nil {
			r.budgets = append(r.budgets, lifecycle.Budget{Name: name, MaxTokens: *l.MaxTokens})
		}
		if l.MaxRuns != nil {
			tx.CountRun(r.who.Organization, name, spent)
		}
	}
	return nil
}

// retryAtPaused is the Retry-After if too many runs are paused: people decide them.
const retryAtPaused = time.Minute

// mayPause refuses a new run while too many runs wait for a person. A running run may always pause, so the number can
// exceed the limit by the number of running runs. An organization at its limit refuses only users with a share of its
// paused runs, so that one user cannot stop all others. It returns a problem of kind Limited (paused_runs_limit).
func (r *request) mayPause(ctx context.Context, user, organization record.Admission) error {
	if r.PausedRuns == 0 {
		return nil
	}
	ofUser, few := 0, max(1, r.PausedRuns/100)
	for _, of := range []struct {
		scope  string
		active record.Admission
	}{{"user", user}, {"organization", organization}} {
		paused, err := r.Store.Paused(ctx, of.active, r.PausedRuns)
		if err != nil {
			return err
		}
		if of.scope == "user" {
			ofUser = paused
		}
		if paused >= r.PausedRuns && ofUser >= few {
			p := problem.New(problem.Limited, "paused_runs_limit",
				"%d runs of this %s wait for input, and the limit is %d; decide, answer or cancel some",
				paused, of.scope, r.PausedRuns).
				With("limit", "paused_runs").With("scope", of.scope).With("max", r.PausedRuns).With("used", paused)
			p.RetryAfter = retryAtPaused
			return p
		}
	}
	return nil
}

// retryAtCap is the Retry-After of a client at its cap: the end of a run is not known.
const retryAtCap = time.Second

func capped(code, whose string, d record.Admission) error {
	p := problem.New(problem.Limited, code, "%s has %d active runs, and the limit is %d", whose, d.Active, d.Cap).
		With("limit", d.Cap).With("active", d.Active)
	p.RetryAfter = retryAtCap
	return p
}

// busy decides a message for a chat that has an active run.
func (r *request) busy(ctx context.Context, chat lifecycle.Chat) (Posted, error) {
	e, err := r.Store.Run(ctx, r.who.Scope(), chat.ActiveRun)
	if problem.Is(err, "not_found") {
		return Posted{}, errAgain
	}
	if err != nil {
		return Posted{}, err
	}
	switch {
	case !e.Value.Status.Active():
		return Posted{}, errAgain
	case e.Value.Answerable() && !r.message.FollowsUp:
		if may := r.message.Answers; may != nil {
			if err := may(ctx, e.Value); err != nil {
				return r.refused(ctx, err)
			}
		}
		return r.answer(ctx, e)
	}
	if err := r.startable(ctx); err != nil {
		return r.refused(ctx, err)
	}
	if r.message.Enqueue {
		return r.park(ctx, e)
	}
	return r.refused(ctx, problem.New(problem.Conflict, "chat_busy", "the chat is busy with run %s", chat.ActiveRun).
		With("active_run_id", chat.ActiveRun))
}

// answer stores the message as the answer to the run's question.
func (r *request) answer(ctx context.Context, e record.RunEntity) (Posted, error) {
	after, err := r.Executor.From(ctx, e, func(run record.Run, tx *record.Tx) (transition.Change, error) {
		if !run.Answerable() {
			return transition.Change{}, errAgain
		}
		if err := r.idempotency(ctx, tx, record.Idempotency{
			Outcome: record.AnsweredPause, RunID: run.ID(), Pause: run.Pause,
		}); err != nil {
			return transition.Change{}, err
		}
		if err := r.referenceFiles(ctx, tx, run.Agent, run.ID()); err != nil {
			return transition.Change{}, err
		}
		slots, err := r.Executor.Slots(ctx, run.RunSpec)
		if err != nil {
			return transition.Change{}, err
		}
		var push *record.Push
		if r.message.PushOf == run.ID() {
			push = r.message.Push
		}
		if err := r.replacePush(ctx, run, push, tx); err != nil {
			return transition.Change{}, err
		}
		now := r.Host.Now()
		return transition.Change{
			Event: lifecycle.AnswerMessage{By: r.who.User, Slots: slots, StartBy: now.Add(r.Executor.StartDeadline)},
			Decisions: &record.Decisions{By: r.who.User, At: now, Idempotency: r.record, List: []record.Decision{{
				InterruptID: run.Interrupts[0].ID, Decision: string(lifecycle.Answer), Message: r.message.Text,
				Files: r.message.Files,
			}}},
			Callback: push != nil,
		}, nil
	})
	if errors.Is(err, errNoFile) {
		return r.refused(ctx, err)
	}
	if problem.Is(err, "not_found") {
		return Posted{}, errAgain
	}
	return Posted{Run: after.Value, Pause: after.Value.Pause}, err
}

// idempotency adds the write of the idempotency record, if the request has a key. It returns [errAgain] if the record
// exists by now.
func (r *request) idempotency(ctx context.Context, tx *record.Tx, i record.Idempotency) error {
	if r.record == "" {
		return nil
	}
	known, found, err := r.Store.Idempotency(ctx, r.record)
	if err != nil {
		return err
	}
	if found && known != r.stale {
		return errAgain
	}
	i.Digest = r.message.Digest
	tx.PutIdempotency(r.who.Organization, r.record, i, known)
	return nil
}

// park stores the message until the run has ended.
func (r *request) park(ctx context.Context, e record.RunEntity) (Posted, error) {
	now := r.Host.Now()
	input := r.input()
	after, err := r.Executor.From(ctx, e, func(run record.Run, tx *record.Tx) (transition.Change, error) {
		if run.Answerable() && !r.message.FollowsUp {
			return transition.Change{}, errAgain // the run now has a question: the message is the answer
		}
		if err := r.spend(ctx, tx); err != nil {
			return transition.Change{}, err
		}
		spec := r.spec(lifecycle.Chat{ID: e.Value.Chat, OwnID: e.Value.OwnChatID})
		spec.Waited, spec.Watched = true, false
		kept := record.Idempotency{Outcome: record.ParkedMessage, RunID: run.ID(), Parked: r.runID}
		if err := r.idempotency(ctx, tx, kept); err != nil {
			return transition.Change{}, err
		}
		if err := r.referenceFiles(ctx, tx, r.agent.ID, r.runID); err != nil {
			return transition.Change{}, err
		}
		tx.PutInput(ctx, spec, input, now)
		return transition.Change{Event: lifecycle.Park{ID: r.runID}}, nil
	})
	switch {
	case problem.Is(err, "budget_exhausted"), errors.Is(err, errNoFile):
		return r.refused(ctx, err)
	case lifecycle.RefusedFor(err, lifecycle.ParkedFull):
		return r.refused(ctx, parkedFull(e.Value.ID()))
	case problem.Is(err, "not_found"):
		return Posted{}, errAgain
	case err != nil:
		return Posted{}, err
	}
	parked := view.ParkedRecord(r.runID, len(after.Value.Parked), r.message.Text, now, false)
	return Posted{Run: after.Value, Parked: &parked}, nil
}

func parkedFull(run string) error {
	return problem.New(problem.Conflict, "parked_queue_full",
		"run %s has %d parked messages, which is the limit", run, lifecycle.MaxParked).
		With("active_run_id", run)
}

// Followup parks a message on an active run that the client names; it never answers a question. The new run has the
// run's agent in the run's version. Idempotency keys work as with [Intake.Post].
//
// It returns problems of kind Invalid (body.message, body.idempotency_key); NotFound or Forbidden, as [Intake.Run]; and
// Forbidden for a chat with agents out of reach. It also returns Conflict (run_not_active with run_status, or
// parked_queue_full) and Limited (budget_exhausted).
func (in *Intake) Followup(ctx context.Context, p tenant.Principal, run, text, key string) (Posted, error) {
	r := &request{
		Intake: in, who: p, message: Message{
			Text: text, Key: key, Enqueue: true, FollowsUp: true, Digest: Digest([]string{run, text}),
		},
		runID: in.Host.NewID(), record: recordOf(p, key),
	}
	if err := r.message.check("body."); err != nil {
		return Posted{}, err
	}
	return r.until(ctx, "the run kept changing",
		func(ctx context.Context) (Posted, error) { return r.followup(ctx, run) })
}

func (r *request) followup(ctx context.Context, run string) (Posted, error) {
	if posted, found, err := r.replay(ctx); found || err != nil {
		return posted, err
	}
	e, err := r.Run(ctx, r.who, run)
	if err != nil {
		return r.refused(ctx, err)
	}
	chat, _, err := r.Store.ChatOf(ctx, e.Value.RunSpec)
	if err == nil {
		err = r.mayJoin(ctx, r.who, chat.Value)
	}
	if err != nil {
		return r.refused(ctx, err)
	}
	if !e.Value.Status.Active() {
		return r.refused(ctx, problem.New(problem.Conflict, "run_not_active",
			"run %s has ended as %s; send the message through POST /chat", run, e.Value.Status).
			With("run_status", e.Value.Status))
	}
	standing, err := r.Tenants.Standing(ctx, r.who.Scope(), e.Value.Agent)
	if err != nil {
		return Posted{}, err
	}
	r.agent, err = record.Version[catalog.Agent](ctx, r.Store, r.who.Scope(), e.Value.Agent, e.Value.AgentVersion)
	if err != nil {
		return Posted{}, err
	}
	r.agent.Spec.Budget = standing.Spec.Budget
	r.agent.Spec.CallbackURL = "" // a followup has the run's agent and no callback
	return r.park(ctx, e)
}
