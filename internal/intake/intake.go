// Package intake is the clients' side of runs: messages come in, and runs are resumed, cancelled, followed up.
//
// The order in which a message is judged: idempotency record, chat in scope, a question that it answers; then, as a new run
// needs them, its agent in scope, busy chat (park, 409), caps (429), accept. A refusal after the first look is given only when
// the record, read again, is still not there: two retries at once must not see "busy" with each other.
//
// intake.go turns messages into runs; runs.go is what clients do to runs that are there; limits.go is what they may say.
//
// It must not know HTTP, models or leases. It imports move, record, lifecycle, tenant, problem and host.
package intake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"agentplatform/internal/host"
	"agentplatform/internal/lifecycle"
	"agentplatform/internal/move"
	"agentplatform/internal/problem"
	"agentplatform/internal/record"
	"agentplatform/internal/tenant"
	"agentplatform/internal/view"
)

// Intake is the use case.
type Intake struct {
	Shell   *move.Shell
	Store   *record.Store
	Tenants *tenant.Tenants
	Host    host.Host
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
	Key         string // idempotency key
	Enqueue     bool   // park it when the chat is busy
	Watched     bool   // somebody streams the run from its start
	// Wrong is what its door could not read of what a new run needs. It does not matter when the message answers a question.
	Wrong error
}

// Posted is what became of a message.
type Posted struct {
	Run      record.Run   // the run that was started, answered, or that the message waits on
	Parked   *view.Parked // the parked message
	Replayed bool         // an earlier request with the same key had done it
}

// tries bounds how often a message is judged afresh because the world changed meanwhile.
const tries = 32

// Post judges a message.
func (in *Intake) Post(ctx context.Context, p tenant.Principal, m Message) (Posted, error) {
	if err := m.check(""); err != nil {
		return Posted{}, err
	}
	r := &request{Intake: in, who: p, message: m, runID: in.Host.NewID(), chatID: in.Host.NewID()}
	if m.Key != "" {
		r.record = record.IdempotencyName(p.Organization.ID, p.User.ID, m.Key)
	}
	for try := range tries {
		posted, err := r.judge(ctx)
		if !errors.Is(err, errAgain) {
			return posted, err
		}
		if err := in.pause(ctx, try); err != nil {
			return Posted{}, err
		}
	}
	return Posted{}, problem.Retry(errors.New("the chat kept changing"))
}

// pause is what lies between two tries: whoever is faster gets through meanwhile.
func (in *Intake) pause(ctx context.Context, try int) error {
	return in.Host.Sleep(ctx, host.Jitter(in.Host, min(time.Millisecond<<min(try, 6), 50*time.Millisecond)))
}

// errAgain says that what a decision rested on has changed.
var errAgain = errors.New("intake: judge the message again")

type request struct {
	*Intake

	who       tenant.Principal
	message   Message
	runID     string             // of the run that the message will be, at once or after parking
	chatID    string             // of the chat that is made when the message names none
	followsUp bool               // the message is for after the run, and never answers it
	record    string             // name of the idempotency record; empty without a key
	stale     record.Idempotency // a record that speaks of what has been removed since
	agent     record.Agent
	budgets   []lifecycle.Budget // that the run's tokens count against
}

func (r *request) judge(ctx context.Context) (Posted, error) {
	if posted, found, err := r.replay(ctx); found || err != nil {
		return posted, err
	}
	chat, err := r.chat(ctx)
	if err == nil {
		err = r.mayJoin(ctx, r.who, chat.Value)
	}
	if err == nil && chat.Value.ActiveRun != "" {
		return r.busy(ctx, chat.Value)
	}
	if err = cmp.Or(r.startable(ctx), err); err != nil {
		return r.refused(ctx, err)
	}
	return r.accept(ctx, chat)
}

// startable is nil when the message may become a run, at once or later. One that answers a question becomes none: neither its
// agent matters, nor what is said of a run.
func (r *request) startable(ctx context.Context) (err error) {
	if err = cmp.Or(r.message.Wrong, r.message.checkNew()); err == nil {
		r.agent, err = r.Tenants.Runnable(ctx, r.who, r.message.AgentID, r.message.Version)
	}
	return err
}

// refused gives a refusal, unless a request with the same key has got through meanwhile.
func (r *request) refused(ctx context.Context, refusal error) (Posted, error) {
	if posted, found, err := r.replay(ctx); found || err != nil {
		return posted, err
	}
	return Posted{}, refusal
}

// replay answers from the idempotency record, if there is one.
func (r *request) replay(ctx context.Context) (Posted, bool, error) {
	if r.record == "" {
		return Posted{}, false, nil
	}
	r.stale = record.Idempotency{} // of an earlier look: it may be gone by now
	known, found, err := r.Store.Idempotency(ctx, r.record)
	if err != nil || !found {
		return Posted{}, false, err
	}
	posted, err := r.replayOf(ctx, r.who.Scope(), known)
	if problem.Is(err, "not_found") { // what it led to has been removed: the key is free, and its record is replaced
		r.stale = known
		return Posted{}, false, nil
	}
	if err == nil {
		err = r.Tenants.MayReach(ctx, r.who, posted.Run.Agent)
	}
	return posted, true, err
}

// replayOf tells what an earlier request led to, as it is now.
func (in *Intake) replayOf(ctx context.Context, scope record.Scope, known record.Idempotency) (Posted, error) {
	if known.Outcome != record.ParkedMessage {
		e, err := in.Store.LiveRun(ctx, scope, known.RunID)
		return Posted{Run: e.Value, Replayed: true}, err
	}
	// The message may start between the two looks; then the second round finds its run.
	for try := 0; ; try++ {
		posted, err := in.replayParked(ctx, scope, known.Parked)
		if !problem.Is(err, "not_found") || try == 2 {
			return posted, err
		}
	}
}

// replayParked finds a parked message as the run it has become, or on the run it waits on.
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

// waitsOn finds the run that a message waits on: the active one of its chat.
func (in *Intake) waitsOn(ctx context.Context, scope record.Scope, p record.Parked) (record.Run, int, error) {
	for range tries {
		chat, found, err := in.Store.ChatOf(ctx, p.Ticket)
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
			if id == p.Ticket.RunID {
				return e.Value, i + 1, nil
			}
		}
		if e.Value.ID() == p.Ticket.RunID || e.Value.Status.Active() {
			break
		}
	}
	return record.Run{}, 0, problem.Missing("parked message " + p.Ticket.RunID)
}

// chat finds the message's chat, or makes up a new one.
func (r *request) chat(ctx context.Context) (record.ChatEntity, error) {
	now := r.Host.Now()
	fresh := lifecycle.Chat{Organization: r.who.Organization.ID, User: r.who.User.ID, Title: r.title(), CreatedAt: now, UpdatedAt: now}
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

func (r *request) ticket(chat lifecycle.Chat) lifecycle.Ticket {
	return lifecycle.Ticket{
		RunID: r.runID, Organization: r.who.Organization.ID, User: r.who.User.ID, APIKey: r.who.Key.ID,
		Agent: r.agent.ID, AgentVersion: r.agent.Version, Chat: chat.ID, OwnChatID: chat.OwnID,
		LimitMS: r.Tenants.ActiveLimit(r.agent).Milliseconds(), Callback: r.callback() != "", Watched: r.message.Watched, Budgets: r.budgets,
	}
}

func (r *request) callback() string {
	if r.message.CallbackURL != "" {
		return r.message.CallbackURL
	}
	return r.agent.Spec.CallbackURL
}

func (r *request) input() record.Input {
	return record.Input{
		Message: r.message.Text, Files: r.message.Files, Metadata: r.message.Metadata, CallbackURL: r.callback(), Idempotency: r.record,
	}
}

// accept starts a run in a chat that is free.
func (r *request) accept(ctx context.Context, chat record.ChatEntity) (Posted, error) {
	user, organization, err := r.Shell.Doors(ctx, r.who.Organization.ID, r.who.User.ID)
	if err != nil {
		return Posted{}, err
	}
	if !user.Admits() {
		return r.refused(ctx, capped("user_concurrency_cap", "this user", user))
	}
	if !organization.Admits() {
		return r.refused(ctx, capped("organization_concurrency_cap", "this organization", organization))
	}
	tx := r.Store.Begin(r.runID)
	if err := r.spend(ctx, tx); err != nil {
		return r.refused(ctx, err)
	}
	if err := r.hold(ctx, tx, r.agent.ID, r.runID); err != nil {
		return r.refused(ctx, err)
	}
	a := move.Acceptance{
		Ticket: r.ticket(chat.Value), Input: r.input(), Chat: chat,
		Slots: lifecycle.Slots{User: user.Row(r.runID), Organization: organization.Row(r.runID)},
	}
	if r.record != "" {
		a.Idempotency = &record.Idempotency{Outcome: record.StartedRun, RunID: r.runID}
		a.Stale = r.stale
	}
	run, err := r.Shell.Accept(ctx, tx, a)
	if errors.Is(err, record.ErrStale) {
		return Posted{}, errAgain
	}
	return Posted{Run: run}, err
}

// hold has a run of an agent, or a parked message for it, take hold of the message's files.
func (r *request) hold(ctx context.Context, tx *record.Tx, agent, run string) error {
	tx.Hold(ctx, r.who.Organization.ID, agent, run, r.message.Files)
	var none *record.NoFile
	if errors.As(tx.Err(), &none) {
		return errors.Join(errNoFile, NoFile(slices.IndexFunc(r.message.Files, func(f record.FileRef) bool { return f.FileID == none.ID }), none.ID))
	}
	return tx.Err()
}

// errNoFile says that one of the message's files is not there.
var errNoFile = errors.New("intake: a file is not there")

// NoFile is the answer for a message whose nth file is not there.
func NoFile(n int, id string) error {
	p := problem.Missing("file " + id)
	p.Fields = []problem.Field{{Location: fmt.Sprintf("file_ids[%d]", n), Message: p.Message}}
	return p
}

// spend looks at the budgets that hold for the message, and counts its run; it notes those that its tokens will count against.
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
			p := problem.New(problem.Limited, "budget_exhausted", "the budget of %s %s for this %s is used up: %s", l.Kind, l.ID, l.Period, what).
				With("budget", map[string]string{"kind": l.Kind, "id": l.ID, "period": l.Period})
			p.RetryAfter = l.Ends(now).Sub(now)
			return p
		}
		if l.MaxTokens != nil {
			r.budgets = append(r.budgets, lifecycle.Budget{Name: name, MaxTokens: *l.MaxTokens})
		}
		if l.MaxRuns != nil {
			tx.CountRun(r.who.Organization.ID, name, spent)
		}
	}
	return nil
}

// retryAtCap is what a client at its cap is told to wait. Nobody knows when a run will end; a second is polite.
const retryAtCap = time.Second

func capped(code, whose string, d record.Door) error {
	p := problem.New(problem.Limited, code, "%s has %d active runs and may have %d", whose, d.Active, d.Cap).
		With("limit", d.Cap).With("active", d.Active)
	p.RetryAfter = retryAtCap
	return p
}

// busy judges a message for a chat that has an active run.
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
	case e.Value.Answerable():
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

// answer gives the message to the run that asked for it.
func (r *request) answer(ctx context.Context, e record.RunEntity) (Posted, error) {
	after, _, err := r.Shell.From(ctx, e, func(run record.Run, tx *record.Tx) (move.Change, error) {
		if !run.Answerable() {
			return move.Change{}, errAgain
		}
		if err := r.idempotency(ctx, tx, record.Idempotency{Outcome: record.AnsweredPause, RunID: run.ID()}); err != nil {
			return move.Change{}, err
		}
		if err := r.hold(ctx, tx, run.Agent, run.ID()); err != nil {
			return move.Change{}, err
		}
		slots, err := r.Shell.Slots(ctx, run.Ticket)
		if err != nil {
			return move.Change{}, err
		}
		now := r.Host.Now()
		return move.Change{
			Event: lifecycle.AnswerMessage{By: r.who.User.ID, Slots: slots, StartBy: now.Add(r.Shell.StartDeadline)},
			Decisions: &record.Decisions{By: r.who.User.ID, At: now, Idempotency: r.record, List: []record.Decision{{
				InterruptID: run.Interrupts[0].ID, Decision: string(lifecycle.Answer), Message: r.message.Text, Files: r.message.Files,
			}}},
		}, nil
	})
	if errors.Is(err, errNoFile) {
		return r.refused(ctx, err)
	}
	if errors.Is(err, lifecycle.ErrRefused) || problem.Is(err, "not_found") {
		return Posted{}, errAgain
	}
	return Posted{Run: after.Value}, err
}

// idempotency writes the record, if the request has a key; [errAgain] when it is there by now.
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
	tx.PutIdempotency(r.who.Organization.ID, r.record, i, known)
	return nil
}

// park keeps the message until the run has ended.
func (r *request) park(ctx context.Context, e record.RunEntity) (Posted, error) {
	now := r.Host.Now()
	input := r.input()
	after, _, err := r.Shell.From(ctx, e, func(run record.Run, tx *record.Tx) (move.Change, error) {
		if run.Answerable() && !r.followsUp {
			return move.Change{}, errAgain // it has begun to ask since it was judged: the message is the answer
		}
		if err := r.spend(ctx, tx); err != nil {
			return move.Change{}, err
		}
		ticket := r.ticket(lifecycle.Chat{ID: e.Value.Chat, OwnID: e.Value.OwnChatID})
		ticket.Waited, ticket.Watched = true, false
		kept := record.Idempotency{Outcome: record.ParkedMessage, RunID: run.ID(), Parked: r.runID}
		if err := r.idempotency(ctx, tx, kept); err != nil {
			return move.Change{}, err
		}
		if err := r.hold(ctx, tx, r.agent.ID, r.runID); err != nil {
			return move.Change{}, err
		}
		tx.PutInput(ctx, ticket, input, now)
		return move.Change{Event: lifecycle.Park{ID: r.runID}}, nil
	})
	switch {
	case problem.Is(err, "budget_exhausted"), errors.Is(err, errNoFile):
		return r.refused(ctx, err)
	case errors.Is(err, record.ErrStale):
		return Posted{}, errAgain
	case lifecycle.RefusedFor(err, lifecycle.ParkedFull):
		return r.refused(ctx, parkedFull(e.Value.ID()))
	case errors.Is(err, lifecycle.ErrRefused), problem.Is(err, "not_found"):
		return Posted{}, errAgain
	case err != nil:
		return Posted{}, err
	}
	parked := view.ParkedRecord(r.runID, len(after.Value.Parked), r.message.Text, now, false)
	return Posted{Run: after.Value, Parked: &parked}, nil
}

func parkedFull(run string) error {
	return problem.New(problem.Conflict, "parked_queue_full", "run %s has %d parked messages, as many as it may", run, lifecycle.MaxParked).
		With("active_run_id", run)
}

// Followup parks a message on a run that the client names. It never answers a question.
func (in *Intake) Followup(ctx context.Context, p tenant.Principal, run, text, key string) (Posted, error) {
	r := &request{Intake: in, who: p, message: Message{Text: text, Key: key, Enqueue: true}, runID: in.Host.NewID(), followsUp: true}
	if err := r.message.check("body."); err != nil {
		return Posted{}, err
	}
	if key != "" {
		r.record = record.IdempotencyName(p.Organization.ID, p.User.ID, key)
	}
	for try := range tries {
		posted, err := r.followup(ctx, run)
		if !errors.Is(err, errAgain) {
			return posted, err
		}
		if err := in.pause(ctx, try); err != nil {
			return Posted{}, err
		}
	}
	return Posted{}, problem.Retry(errors.New("the run kept changing"))
}

func (r *request) followup(ctx context.Context, run string) (Posted, error) {
	if posted, found, err := r.replay(ctx); found || err != nil {
		return posted, err
	}
	e, err := r.Run(ctx, r.who, run)
	if err != nil {
		return r.refused(ctx, err)
	}
	chat, _, err := r.Store.ChatOf(ctx, e.Value.Ticket)
	if err == nil {
		err = r.mayJoin(ctx, r.who, chat.Value)
	}
	if err != nil {
		return r.refused(ctx, err)
	}
	if !e.Value.Status.Active() {
		return r.refused(ctx, problem.New(problem.Conflict, "run_not_active", "run %s has ended as %s; send the message through POST /chat", run, e.Value.Status).
			With("run_status", e.Value.Status))
	}
	standing, err := r.Tenants.Standing(ctx, r.who.Scope(), e.Value.Agent)
	if err != nil {
		return Posted{}, err
	}
	if r.agent, err = r.Store.AgentVersion(ctx, r.who.Scope(), e.Value.Agent, e.Value.AgentVersion); err != nil {
		return Posted{}, err
	}
	r.agent.Spec.Budget = standing.Spec.Budget
	r.agent.Spec.CallbackURL = "" // a followup has the run's agent and no callback
	return r.park(ctx, e)
}
