package record

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/blob"
	"agentplatform/internal/store/table"
)

// Run is a run's head as it is stored: the control state, and other small values.
type Run struct {
	lifecycle.Run

	Input   *Input          `json:"input,omitzero"`  // nil: in its own item
	Output  json.RawMessage `json:"output,omitzero"` // the result, when it is small
	Outside bool            `json:"output_outside,omitzero"`
	Removed bool            `json:"removed,omitzero"` // only the link in its chat is left
	// PassedOn lists the messages that were parked when the run ended. The first became the next run; the others wait
	// for that.
	PassedOn []string `json:"passed_on,omitzero"`
	// Dropped lists the messages that were parked when the run ended together with its chat. They are deleted with the
	// run.
	Dropped []string `json:"dropped,omitzero"`
}

// RunEntity is a run with the data that a write needs.
type RunEntity = Entity[Run]

func runPart(id string) string { return "run/" + id }

// RunKey is the key of a run's head.
func RunKey(id string) table.Key { return table.Key{Part: runPart(id), Sort: headSort} }

func inputKey(id string) table.Key  { return table.Key{Part: runPart(id), Sort: "input"} }
func outputKey(id string) table.Key { return table.Key{Part: runPart(id), Sort: "output"} }

// StepKey is the key of a step of a run's journal.
func StepKey(id string, n int) table.Key {
	return table.Key{Part: runPart(id), Sort: "step/" + padded(6, int64(n))}
}

const pausePrefix = "pause/"

func pauseKey(id string, n int) table.Key {
	return table.Key{Part: runPart(id), Sort: pausePrefix + padded(6, int64(n))}
}

func decisionKey(id string, n int) table.Key {
	return table.Key{Part: runPart(id), Sort: "decision/" + padded(6, int64(n))}
}

// runsOfChat is the listing of a chat's runs, by turn. A chat that is created again under its id counts turns from 1
// again. Until the runs of the earlier chat are deleted, the listing has those of all epochs.
func runsOfChat(chat table.Key) string { return "runs/" + chat.Part }
func runsOfOwner(owner string) string  { return "runs/" + owner }

// NewRun is PutRun for the run of a new message.
func (tx *Tx) NewRun(e RunEntity) RunEntity {
	e = tx.PutRun(e)
	tx.grows()
	return e
}

// PutRun writes a run's head, with its row in the listing of its owner when it is new. It returns the head as it is
// after the commit.
func (tx *Tx) PutRun(e RunEntity) RunEntity {
	r := e.Value
	if e.version == 0 {
		tx.putUserRun(r.Run)
	}
	item := table.Item{
		Key: RunKey(r.ID()), Owner: r.Organization, Due: r.Due,
		Lists: []table.Listing{
			{Index: table.ByOwner, Part: runsOfOwner(r.Organization), Sort: r.ID()},
			{Index: table.ByChat, Part: runsOfChat(chatKeyOf(r.RunSpec)), Sort: positionOfTurn(r.Turn)},
		},
	}
	if r.Removed {
		item.Lists = item.Lists[:0]
	}
	return put(tx, e, item)
}

func (r *Run) take(from *table.Item) {
	r.RunID, r.Organization, r.Due = strings.TrimPrefix(from.Part, runPart("")), from.Owner, from.Due
	// Earlier versions set the time of a parked message to that of its turn.
	if came := host.TimeOf(r.RunID); !came.IsZero() && r.CreatedAt.Sub(came) > formerWait {
		r.CreatedAt = came
	}
}

// formerWait is longer than the time between an identifier and its run, unless the run's message was parked.
const formerWait = 10 * time.Minute

// Run reads a run. It returns a problem of kind NotFound, also when only the link in its chat is left, or Forbidden.
func (s *Store) Run(ctx context.Context, scope Scope, id string) (RunEntity, error) {
	e, err := load[Run](ctx, s, scope, "run "+id, RunKey(id))
	if err == nil && e.Value.Removed {
		return RunEntity{}, problem.Missing("run " + id)
	}
	return e, err
}

// Link reads a run as a link of its chat, also when only that is left of it. It returns a problem of kind NotFound.
func (s *Store) Link(ctx context.Context, id string) (RunEntity, error) {
	return load[Run](ctx, s, System(), "run "+id, RunKey(id))
}

// LiveRun reads a run for a client. It returns a problem of kind NotFound or Forbidden. NotFound is also the kind for a
// run whose chat was deleted, even while the deletion is under way.
func (s *Store) LiveRun(ctx context.Context, scope Scope, id string) (RunEntity, error) {
	e, err := s.Run(ctx, scope, id)
	if err != nil || e.Value.Status.Active() && !e.Value.Deleted {
		return e, err
	}
	chat, found, err := find[lifecycle.Chat](ctx, s, chatKeyOf(e.Value.RunSpec))
	if err != nil {
		return RunEntity{}, err
	}
	if !found || chat.Value.Deleted || chat.Value.Epoch != e.Value.Epoch {
		return RunEntity{}, problem.Missing("run " + id)
	}
	return e, nil
}

// Runs reads several heads; those that do not exist, or not in the scope, are left out.
func (s *Store) Runs(ctx context.Context, scope Scope, ids ...string) ([]RunEntity, error) {
	items, err := s.readAll(ctx, keysOf(ids, RunKey))
	if err != nil {
		return nil, err
	}
	runs, err := seen[Run](scope, items)
	return slices.DeleteFunc(runs, func(e RunEntity) bool { return e.Value.Removed }), err
}

// Versions returns the stored versions of runs, 0 for a run that does not exist. It costs a poll of the table
// ([table.Poll]) and may lag behind Run. The errors are those of a read of the table.
func (s *Store) Versions(ctx context.Context, ids ...string) ([]int64, error) {
	marks, err := table.Poll(ctx, s.table, keysOf(ids, RunKey)...)
	versions := make([]int64, len(marks))
	for i, mark := range marks {
		versions[i] = mark.Version
	}
	return versions, err
}

// RunsOfOrganization lists an organization's runs, newest first, from before the id after.
func (s *Store) RunsOfOrganization(ctx context.Context, scope Scope, after string, limit int) (Page[RunEntity], error) {
	return s.runPage(ctx, scope, table.ByOwner,
		table.Range{Part: runsOfOwner(scope.organization), After: after, Reverse: true, Limit: limit})
}

// OldRunsOfOrganization lists an organization's runs, oldest first, for retention.
func (s *Store) OldRunsOfOrganization(ctx context.Context, owner, after string, limit int) (Page[RunEntity], error) {
	return s.runPage(ctx, System(), table.ByOwner, table.Range{Part: runsOfOwner(owner), After: after, Limit: limit})
}

// RunsOfChat lists a chat's runs, newest first. The listing may lag; the chat itself names the active run.
func (s *Store) RunsOfChat(
	ctx context.Context, scope Scope, c lifecycle.Chat, after string, limit int,
) (Page[RunEntity], error) {
	r := table.Range{Part: runsOfChat(ChatKey(c)), After: after, Reverse: true, Limit: limit}
	return s.chatPage(ctx, scope, c, r)
}

// TurnsOfChat lists a chat's runs, oldest first, from the turn after. next is the turn to go on after; 0 at the end.
func (s *Store) TurnsOfChat(
	ctx context.Context, scope Scope, c lifecycle.Chat, after, limit int,
) (runs []RunEntity, next int, err error) {
	r := table.Range{Part: runsOfChat(ChatKey(c)), Limit: limit}
	if after > 0 {
		r.After = positionOfTurn(after)
	}
	page, err := s.chatPage(ctx, scope, c, r)
	if err != nil || page.Next == "" {
		return page.Rows, 0, err
	}
	next, err = strconv.Atoi(page.Next)
	return page.Rows, next, err
}

func positionOfTurn(turn int) string { return padded(10, int64(turn)) }

// padded is a number with leading zeros: so the order of the texts is that of the numbers. It is not below zero.
func padded(width int, n int64) string {
	digits := strconv.FormatInt(n, 10)
	return zeros[:max(0, width-len(digits))] + digits
}

const zeros = "0000000000000"

// chatPage is a page of a chat's runs, without those of other epochs: it may be short without being the last.
func (s *Store) chatPage(ctx context.Context, scope Scope, c lifecycle.Chat, r table.Range) (Page[RunEntity], error) {
	page, err := s.runPage(ctx, scope, table.ByChat, r)
	page.keep(func(e RunEntity) bool { return e.Value.Epoch == c.Epoch })
	return page, err
}

func (s *Store) runPage(ctx context.Context, scope Scope, index table.Index, r table.Range) (Page[RunEntity], error) {
	page, err := listedIn[Run](ctx, s, scope, index, r)
	page.keep(func(e RunEntity) bool { return !e.Value.Removed })
	return page, err
}

// Input reads the message of a run's request.
func (s *Store) Input(ctx context.Context, r Run) (Input, error) {
	if r.Input != nil {
		return *r.Input, nil
	}
	p, err := s.Parked(ctx, r.ID())
	return p.Input, err
}

// parkedRequest is a request that is kept for later, or is too large for the head.
type parkedRequest struct {
	Spec  lifecycle.RunSpec `json:"ticket"`
	Input Input             `json:"input"`
	At    time.Time         `json:"at"`
}

// Parked is a message that waits on an active run, or has become a run.
type Parked struct {
	Spec  lifecycle.RunSpec
	Input Input
	At    time.Time

	version int64
	outside bool // its document is in the blob store
}

// Parked reads a parked message. It returns a problem of kind NotFound.
func (s *Store) Parked(ctx context.Context, id string) (Parked, error) {
	items, err := s.read(ctx, inputKey(id))
	if err != nil {
		return Parked{}, err
	}
	if items[0] == nil {
		return Parked{}, problem.Missing("parked message " + id)
	}
	var p parkedRequest
	if err := s.open(ctx, items[0], &p); err != nil {
		return Parked{}, err
	}
	d, err := decode[document](items[0])
	p.Spec.RunID, p.Spec.Organization = id, items[0].Owner
	return Parked{
		Spec: p.Spec, Input: p.Input, At: p.At, version: items[0].Version, outside: d.Value.Blob != "",
	}, err
}

// StillParked reads a message that a run names as parked. It returns [ErrConflict] when the message was withdrawn, or
// has become a run, since the run was read.
func (s *Store) StillParked(ctx context.Context, id string) (Parked, error) {
	p, err := s.Parked(ctx, id)
	if problem.Is(err, "not_found") {
		return p, fmt.Errorf("%w: %w", ErrConflict, err)
	}
	return p, err
}

// PutInput writes a request under its run's id. A request that goes to the blob store first gets a job, which deletes
// the blob unless this unit of work is committed. So a refused or crashed request leaves nothing.
func (tx *Tx) PutInput(ctx context.Context, t lifecycle.RunSpec, in Input, at time.Time) {
	if tx.err != nil {
		return
	}
	v := parkedRequest{Spec: t, Input: in, At: at}
	if b, err := json.Marshal(v); err == nil && len(b) > inlineLimit {
		job, err := tx.store.announceBody(ctx, t.Organization, t.RunID)
		tx.fail(err)
		tx.DeleteJob(job)
	}
	tx.putDocument(ctx, t.Organization, inputKey(t.RunID), v)
}

// DropParked deletes a parked message with its idempotency record and its holds of files. A job deletes its body soon
// after, when it is large.
func (tx *Tx) DropParked(ctx context.Context, p Parked) {
	id := p.Spec.RunID
	tx.delete(inputKey(id), table.VersionIs(p.version))
	tx.dropNames(ctx, id, p.Input.Idempotency)
	tx.releases(ctx, id)
	if p.outside && tx.err == nil {
		job, err := tx.store.bodyJob(ctx, p.Spec.Organization, id, tx.store.host.Now())
		tx.fail(err)
		tx.PutJob(job)
	}
}

// EraseParked deletes a parked message, if it exists. Its errors are those of a read and of [Tx.Commit].
func (s *Store) EraseParked(ctx context.Context, id string) error {
	p, err := s.Parked(ctx, id)
	if err == nil {
		tx := s.Begin(s.host.NewID())
		tx.DropParked(ctx, p)
		err = tx.Commit(ctx)
	}
	if problem.Is(err, "not_found") {
		return nil
	}
	return err
}

// FitsHead reports whether a request is small enough for the run's head.
func FitsHead(in Input) bool {
	if len(in.Message) > 256 {
		return false
	}
	b, err := json.Marshal(in)
	return err == nil && len(b) <= headLimit
}

// Output reads the output of a run as JSON. It is the result of a completed run, or the [events.Partial] of a cancelled
// one; nil if there is none.
func (s *Store) Output(ctx context.Context, r Run) (json.RawMessage, error) {
	if !r.Outside {
		return r.Output, nil
	}
	var out json.RawMessage
	_, err := s.document(ctx, outputKey(r.ID()), &out)
	return out, err
}

// SetOutput stores the output of a run. A small one is in the head, which the caller writes afterwards, else it has its
// own item. In the run it is, byte for byte, as it is read later.
func (tx *Tx) SetOutput(ctx context.Context, r *Run, result json.RawMessage) {
	if len(result) <= headLimit {
		var err error
		r.Output, err = asStored(result)
		tx.fail(err)
		return
	}
	r.Outside = true
	tx.putDocument(ctx, r.Organization, outputKey(r.ID()), result)
}

// PutStep writes a journal entry.
func (tx *Tx) PutStep(ctx context.Context, r Run, step Step) {
	tx.putDocument(ctx, r.Organization, StepKey(r.ID(), step.Index), step)
}

// Steps returns all steps of a run in order. The last one of a completed run is not always in the journal. Then it is
// rebuilt from the run's result and usage, less those of the journal.
func (s *Store) Steps(ctx context.Context, r Run) ([]Step, error) {
	steps, err := s.Journal(ctx, r.ID())
	if err != nil || r.Status != lifecycle.Completed || len(steps) >= r.Steps {
		return steps, err
	}
	output, err := s.Output(ctx, r)
	if err != nil {
		return nil, err
	}
	var result struct {
		Answer string `json:"answer"`
		Finish string `json:"finish_reason"`
	}
	if err := json.Unmarshal(output, &result); err != nil {
		return nil, fmt.Errorf("record: the result of run %s: %w", r.ID(), err)
	}
	last := Step{
		Kind: ModelStep, Attempt: r.Attempt, StartedAt: r.StartedAt, FinishedAt: r.FinishedAt,
		Text:        Behind(result.Answer, steps),
		InputTokens: r.Usage.InputTokens, OutputTokens: r.Usage.OutputTokens, Finish: result.Finish, ModelAttempts: 1,
	}
	for _, step := range steps {
		last.Index = step.Index + 1
		last.StartedAt = step.FinishedAt
		last.InputTokens -= step.InputTokens
		last.OutputTokens -= step.OutputTokens
	}
	return append(steps, last), nil
}

// Reconstructible reports whether a step that has ended its run can be rebuilt from the run's result and the earlier
// steps. Such a step need not be in the journal.
func (step Step) Reconstructible(before []Step, answer, finish string) bool {
	return step.Kind == ModelStep && len(step.Calls) == 0 && step.ModelAttempts <= 1 && step.RequestID == "" &&
		step.LeftOut == 0 && !step.AnsweredOnly && step.Shortened == 0 &&
		step.Finish == finish && step.Text == Behind(answer, before)
}

// Journal reads a run's stored steps in order.
func (s *Store) Journal(ctx context.Context, id string) ([]Step, error) {
	return s.JournalFrom(ctx, id, 0)
}

// JournalFrom reads a run's stored steps in order, from one with an index on.
func (s *Store) JournalFrom(ctx context.Context, id string, index int) ([]Step, error) {
	return s.journal(ctx, id, index, func(StepKind) bool { return true })
}

// ModelSteps reads those of a run's stored steps that are calls of the model, in order. It reads no blobs of the other
// steps.
func (s *Store) ModelSteps(ctx context.Context, id string) ([]Step, error) {
	return s.journal(ctx, id, 0, StepKind.ofModel)
}

// journal reads the stored steps of the kinds that are wanted.
func (s *Store) journal(ctx context.Context, id string, index int, wanted func(StepKind) bool) ([]Step, error) {
	var steps []Step
	after := ""
	if index > 0 {
		after = StepKey(id, index-1).Sort
	}
	r := table.Range{Part: runPart(id), Prefix: "step/", After: after, Limit: 100}
	for item, err := range s.items(ctx, r) {
		var step Step
		var e Entity[document]
		if err == nil {
			e, err = decode[document](item)
		}
		if err == nil && e.Value.Kind != "" && !wanted(e.Value.Kind) {
			continue
		}
		if err == nil {
			err = s.openDocument(ctx, item.Key, e.Value, &step)
		}
		if err != nil {
			return nil, err
		}
		if wanted(step.Kind) {
			steps = append(steps, step)
		}
	}
	return steps, nil
}

// EraseRun deletes all items and blobs of a run; with keepLinks its head stays as a link in its chat. Items that name
// other things (the request, the decisions) are deleted together with these in one commit, which a repetition
// recognises as its own. So a crash forgets none of them, and nothing is deleted that was written again since. The head
// is deleted last.
//
// The errors are those of a read, of the blob store and of [Tx.Commit]; [ErrConflict] when the run has changed.
func (s *Store) EraseRun(ctx context.Context, e RunEntity, writeID string, keepLinks bool) error {
	r := e.Value
	for _, id := range r.Dropped {
		if err := s.EraseParked(ctx, id); err != nil {
			return err
		}
	}
	if err := s.releaseAll(ctx, r.ID()); err != nil {
		return err
	}
	if err := s.eraseBeside(ctx, r.ID()); err != nil {
		return err
	}
	if err := s.DropBodies(ctx, r.Organization, r.ID()); err != nil {
		return err
	}
	tx := s.Begin(writeID)
	if r.Input != nil {
		tx.dropNames(ctx, r.ID(), r.Input.Idempotency)
	}
	tx.recheck(ctx, r)
	tx.deleteUserRun(r.Run)
	if !keepLinks {
		tx.delete(RunKey(r.ID()), table.VersionIs(e.version))
		return tx.Commit(ctx)
	}
	e.Value = Run{Removed: true, Run: lifecycle.Run{
		RunSpec: lifecycle.RunSpec{RunID: r.ID(), Organization: r.Organization, Chat: r.Chat, OwnChatID: r.OwnChatID},
		Epoch:   r.Epoch, Turn: r.Turn, Previous: r.Previous, Status: r.Status,
	}}
	tx.PutRun(e)
	return tx.Commit(ctx)
}

// eraseBeside deletes a run's items except its head and its holds of files, each with the idempotency record that it
// names.
func (s *Store) eraseBeside(ctx context.Context, id string) error {
	for page, err := range s.pages(ctx, table.Range{Part: runPart(id), Limit: table.MaxOps / 2}) {
		if err != nil {
			return err
		}
		tx, names := s.Begin(s.host.NewID()), map[string]bool{}
		for _, item := range page {
			if item.Sort == headSort || strings.HasPrefix(item.Sort, referencePrefix) {
				continue
			}
			name, err := s.nameIn(ctx, item)
			if err != nil {
				return err
			}
			cond := table.Always()
			if name != "" {
				// The version makes a repetition recognise the commit: by then the name may belong to another run.
				cond = table.VersionIs(item.Version)
				names[name] = true
			}
			tx.delete(item.Key, cond)
		}
		tx.dropNames(ctx, id, slices.Sorted(maps.Keys(names))...)
		if err := tx.Commit(ctx); err != nil {
			return err
		}
	}
	return nil
}

// nameIn is the idempotency record that an item next to a run's head names: its request, or a decision. It is empty if
// there is none, or if the blob with the name is gone.
func (s *Store) nameIn(ctx context.Context, item *table.Item) (name string, err error) {
	switch {
	case item.Sort == "input":
		var p parkedRequest
		err = s.open(ctx, item, &p)
		name = p.Input.Idempotency
	case strings.HasPrefix(item.Sort, "decision/"):
		var d Decisions
		err = s.open(ctx, item, &d)
		name = d.Idempotency
	}
	if errors.Is(err, blob.ErrMissing) {
		err = nil
	}
	return name, err
}

// dropNames deletes those of the idempotency records that lead to a run.
func (tx *Tx) dropNames(ctx context.Context, run string, names ...string) {
	for _, name := range names {
		if name == "" || tx.err != nil {
			continue
		}
		known, found, err := tx.store.Idempotency(ctx, name)
		tx.fail(err)
		if found && (known.RunID == run || known.Parked == run) {
			tx.delete(idempotencyKey(name), table.VersionIs(known.version))
		}
	}
}
