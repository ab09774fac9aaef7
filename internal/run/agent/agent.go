// Package agent is the loop that does the work of a run. It calls the model, and the tools that the model requests,
// until there is an answer.
//
// Every model reply and tool result is journalled before the next call. The loop begins from the journal, so that a new
// attempt continues where the last one stopped. Calls that need a person become interrupts.
//
// A model's reply is untrusted until [session.take] has checked it. The package must not know leases, statuses or
// storage. It imports the model and tool ports, lifecycle, the shapes of record and events, citation, schema,
// strictjson, trace and host.
package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentplatform/events"
	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/tool"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/schema"
	"agentplatform/internal/store/citation"
	"agentplatform/internal/store/record"
)

// Loop runs agents. Its methods are safe for concurrent use; each call of Work has its own state.
type Loop struct {
	Models map[string]model.Model // by name of the provider
	Host   host.Host
	// Called is called after each attempt to call a model or a tool, unless the end of the work cut the attempt short.
	// It may be nil. Several goroutines call it at the same time.
	Called func(c Called)
	// Worked is called at the end of each [Loop.Work] with the loop's own time. This is the time in which no model or
	// tool call was under way and no retry was waiting. A search, and the commits between the calls of one reply, count
	// as time of the calls. It may be nil.
	Worked func(own time.Duration)
}

// Called is a finished call of a model or a tool.
type Called struct {
	Tool     bool   // false: a call of a model
	Provider string // of the model
	Took     time.Duration
	Failed   bool // because of the provider or the tool
}

// Output receives the output of the loop while it is produced. Its methods do not block and do not fail.
type Output interface {
	Append(ctx context.Context, text string)
	Replace(ctx context.Context, text string)
	Step(ctx context.Context, e events.StepEvent)
}

// Task is a run to work on.
type Task struct {
	Run     string
	Attempt int
	Agent   catalog.Agent
	// Published is the policy of the agent's published version. A call needs an approval if either version requires it.
	Published catalog.Policy
	Message   model.Message // the user's message
	Tools     []tool.Offer  // the tools that the agent may call
	// Search finds passages in the agent's knowledge bases, without their numbers. It also returns the tokens that it
	// used. A [tool.Error] is an error that the model may read. nil: the agent has no knowledge base.
	Search         func(ctx context.Context, query string) (found []record.Source, used record.Embeddings, err error)
	CitationFilter citation.Reader // finds what the sender may not read now; needed once the run has found passages
	History        []model.Message // the conversation before this run; its oldest turns may be left out
	// Unanswered are the indexes in History of the messages of turns without an answer. These are left out first.
	Unanswered []int
	// The client may send more than the message: a conversation (Before), instructions, and functions that it executes
	// itself. The conversation follows the history and is never cut.
	Before       []model.Message
	Instructions string
	Functions    []record.Function
	Options      model.Options
	NoTools      bool // the model gets no tools, and its calls fail
	Whole        bool // no part of a conversation is left out: if it is too long, the run fails
	// Since is the index of the model reply that led to the last pause; -1: there was no pause. Up to this reply,
	// Options.MustCall is fulfilled.
	Since         int
	Steps         []record.Step // the journal so far
	Pauses        [][]record.Interrupt
	Decided       map[string]record.Decision // by interrupt id
	AttachedFiles map[string]model.Message   // contents of the files attached to decisions, by interrupt id
	Output        Output
	// Journal stores steps before the next ones begin. An error ends the loop: this attempt no longer holds the run.
	Journal func(ctx context.Context, steps []record.Step) error
	// Keep stores data that is too large for the journal, as a file of the run. A key always names the same content, so
	// a repeated call stores no second file.
	Keep func(ctx context.Context, key string, f tool.File) (record.FileRef, error)
	// BudgetExceeded returns the budget that is exceeded, or empty. used is the number of tokens that this run has
	// used; more is the part of them that is not journalled. It may be nil.
	BudgetExceeded func(ctx context.Context, used, more int64) (string, error)
	// CheckLease is called before each call of a model or tool. It returns nil if the call may begin, or the error that
	// ends the loop.
	CheckLease func() error
	// Log receives details that users and the model must not see. It may be nil.
	Log *slog.Logger
}

// Result is the end of the loop. Exactly one of Answer, Interrupts and Failure is set.
type Result struct {
	Answer     *Answer
	Interrupts []record.Interrupt
	Failure    string
	Refused    bool          // the provider refuses the content of the message
	Last       []record.Step // steps that are not journalled yet; they must be stored with the result
	All        []record.Step // all steps of the run, including Last
}

// Answer is the agent's answer.
type Answer struct {
	Text   string
	Finish string
	Output json.RawMessage // the JSON value, if the agent's answers are structured
}

// Limits of the loop.
const (
	defaultMaxSteps = 100
	parallelCalls   = 10
	modelAttempts   = 8
	maxOutput       = 256 << 10 // bytes of a tool result that the model gets
	partOutput      = 32 << 10  // bytes of the part of a longer result
	maxFiles        = 20        // files of a result that are stored
	callTime        = 10 * time.Minute
)

// Work executes the loop. The error is that of ctx, of [Task.Journal], of [Task.CheckLease] or of
// [Task.BudgetExceeded]. After an error the run has not ended, and the Result has only its steps. Every other failure,
// also of the model, is a Result with a Failure.
func (l *Loop) Work(ctx context.Context, t Task) (Result, error) {
	s := &session{Loop: l, Task: t}
	s.past.add(t.Steps...)
	for _, m := range t.Before {
		for _, c := range m.Calls {
			s.labels[c.ID] = true
		}
	}
	if l.Worked != nil {
		begun := l.Host.Now()
		defer func() { l.Worked(max(l.Host.Now().Sub(begun)-s.elsewhere, 0)) }()
	}
	if len(t.Agent.Spec.OutputSchema) > 0 && string(t.Agent.Spec.OutputSchema) != "null" {
		wanted, err := schema.Compile(t.Agent.Spec.OutputSchema)
		if err != nil {
			failure := "the agent's output_schema cannot be read: " + err.Error()
			return Result{Failure: failure}, nil //nolint:nilerr // a failed run, not a failed loop
		}
		s.wanted = &wanted
	}
	if m, ok := l.Models[t.Agent.Spec.Model.Provider]; ok {
		s.model = m
	} else {
		return Result{Failure: fmt.Sprintf("this deployment has no model provider %q",
			t.Agent.Spec.Model.Provider)}, nil
	}
	if name := s.twiceNamed(); name != "" {
		return Result{Failure: fmt.Sprintf("the client's function %s has the name of another tool", name)}, nil
	}
	if n := len(s.specs()); n > tool.MaxOffered {
		return Result{Failure: fmt.Sprintf("the agent and its client have %d tools, but the limit is "+
			"%d: disable some tools of its toolkits", n, tool.MaxOffered)}, nil
	}
	for {
		result, err := s.round(ctx)
		if err != nil || result != nil {
			if result == nil {
				result = &Result{}
			}
			if err == nil && len(s.unsaved) > StepsAtOnce {
				err = s.save(ctx)
			}
			result.All, result.Last = s.steps, s.unsaved
			return *result, err
		}
	}
}

type session struct {
	*Loop
	Task
	past

	model     model.Model
	wanted    *schema.Schema // the schema of the answer; nil: any text
	unsaved   []record.Step  // the last steps, not journalled yet
	ahead     int            // the first index after those reserved for the calls of the round
	hidden    citation.Hidden
	refused   bool // the provider has refused the message
	validated *validated

	elsewhere time.Duration // time spent in calls, and in waiting for a retry
}

// round makes the next model call, or the tool calls of the last reply. If the result is nil, the loop continues.
func (s *session) round(ctx context.Context) (*Result, error) {
	last := s.lastOfModel
	bad := false
	if last != nil && len(last.Calls) == 0 {
		if r := s.checkAnswer(ctx, *last); r != nil {
			return r, nil
		}
		bad = true
	}
	if err := errors.Join(ctx.Err(), s.CheckLease()); err != nil {
		return nil, err
	}
	if bad { // the model must answer again; like any step, the bad answer is journalled first
		if err := s.save(ctx); err != nil {
			return nil, err
		}
	}
	reason, err := s.guard(ctx)
	if err != nil {
		return nil, err
	}
	switch {
	case reason != "" && bad && s.wanted == nil: // the answer stays empty
		return s.answered(*last), nil
	case reason != "":
		return &Result{Failure: reason}, nil
	case bad:
		s.Output.Replace(ctx, s.answer.Kept())
	}
	if last == nil {
		if err := s.searchFirst(ctx); err != nil {
			return nil, err
		}
	}
	if last == nil || s.allDone(*last) {
		return s.askModel(ctx)
	}
	return s.callTools(ctx, *last)
}

// callKey names a call within its run, by the index of the step and the call's id in the step.
func callKey(step int, call string) string { return strconv.Itoa(step) + "-" + call }

func (s *session) allDone(last record.Step) bool {
	return !slices.ContainsFunc(last.Calls,
		func(c record.Call) bool { return s.done(callKey(last.Index, c.ID)) == nil })
}

// conversation is the messages for the model: the history, the message, and the steps of this run so far. It extends
// the conversation of the last call: all calls of those steps have ended.
func (s *session) conversation(ctx context.Context) []model.Message {
	if s.talk == nil {
		s.talk = append(slices.Clone(s.History), s.Before...)
		if message := s.withPassages(s.Message); len(s.Before) == 0 || !empty(message) {
			s.talk = append(s.talk, message)
		}
	}
	for _, step := range s.steps[s.talked:] {
		if step.Kind == record.ModelStep {
			s.talk = append(s.talk, s.roundOf(ctx, step)...)
		}
	}
	s.talked = len(s.steps)
	return slices.Clip(s.talk)
}

// roundOf returns the messages for a model step and the results of its calls.
func (s *session) roundOf(ctx context.Context, step record.Step) []model.Message {
	reply := model.Message{Role: model.Assistant, Text: step.Text}
	results := model.Message{Role: model.Tool}
	for _, c := range step.Calls {
		id, arguments := label(step.Index, c), c.Arguments
		if d := s.done(callKey(step.Index, c.ID)); d != nil {
			note := s.noteOn(c, *d)
			if note != "" {
				arguments = d.Arguments
			}
			results.Results = append(results.Results, model.Result{
				CallID: id, Name: tool.Name(c.Name), Outcome: model.Outcome(d.Outcome), Text: s.outputOf(*d),
				Note: note,
			})
		}
		reply.Calls = append(reply.Calls, model.Call{ID: id, Name: tool.Name(c.Name), Arguments: arguments})
	}
	round := []model.Message{reply}
	if len(step.Calls) == 0 {
		round = append(round, model.Message{Role: model.User, Text: s.objection(ctx, step)})
	}
	if len(results.Results) > 0 {
		round = append(round, results)
	}
	if files := s.attachedFiles(step); len(files.Texts)+len(files.Images) > 0 {
		round = append(round, files)
	}
	return round
}

// empty reports whether a user's message has no content. The client's conversation then ends with the output of a call.
func empty(m model.Message) bool {
	return m.Text == "" && len(m.Texts) == 0 && m.Passages == "" && len(m.Images) == 0
}

// attachedFiles returns the files that are attached to the answers to a step's questions.
func (s *session) attachedFiles(step record.Step) model.Message {
	m := model.Message{Role: model.User}
	for _, c := range step.Calls {
		for i := range s.decided(callKey(step.Index, c.ID)) {
			m.Texts = append(m.Texts, s.AttachedFiles[i.ID].Texts...)
			m.Images = append(m.Images, s.AttachedFiles[i.ID].Images...)
		}
	}
	return m
}

func (s *session) askModel(ctx context.Context) (*Result, error) {
	if err := s.hide(ctx); err != nil {
		return nil, err
	}
	request := model.Request{
		Name: s.Agent.Spec.Model.Name, Temperature: s.Agent.Spec.Model.Temperature,
		MaxTokens:    s.Agent.Spec.Model.MaxTokens,
		Instructions: s.instructions(), Messages: s.conversation(ctx), Tools: s.specs(), Options: s.Options,
	}
	if s.NoTools {
		request.Tools = nil
	}
	if s.calling > s.Since+1 { // the model has made a call since the last pause
		request.Options.MustCall = false
	}
	step := record.Step{Index: s.next(), Kind: record.ModelStep, Attempt: s.Attempt, StartedAt: s.Host.Now()}
	reply, streamed, failure, err := s.converse(ctx, &request, &step)
	step.FinishedAt = s.Host.Now()
	s.elsewhere += step.FinishedAt.Sub(step.StartedAt)
	switch {
	case err != nil:
		s.cutShort(step, "stopped")
		return nil, err
	case failure != "" && streamed <= maxReply:
		s.cutShort(step, "failed")
	default:
		failure = cmp.Or(failure, s.take(ctx, &step, request, reply, streamed))
	}
	if failure != "" {
		return &Result{Failure: failure, Refused: s.refused}, nil
	}
	return nil, nil // the step is journalled before its calls, or with the pause that they cause
}

// cutShort adds a call without a reply to the journal, if it used tokens or has a text.
func (s *session) cutShort(step record.Step, outcome string) {
	if step.Text == "" && step.InputTokens == 0 && step.OutputTokens == 0 {
		return
	}
	step.Kind, step.Outcome = record.CutStep, outcome
	s.add(step)
}

// converse makes one model call and retries temporary failures. At its return, r is the last request, and reply the
// number of bytes of text that were streamed for it. The step then has the tokens of failed attempts, and the text of
// an attempt that was stopped. failure is the reason why the run must fail. err is that of ctx, CheckLease or
// BudgetExceeded.
func (s *session) converse(
	ctx context.Context, r *model.Request, step *record.Step,
) (reply model.Reply, streamed int, failure string, err error) {
	whole := r.Messages
	s.begin(step)
	for r.Attempt = 0; ; r.Attempt++ {
		step.ModelAttempts = r.Attempt + 1
		r.Messages = s.fitted(whole, *step)
		var text string
		reply, text, err = s.attempt(ctx, *r)
		streamed = len(text)
		if streamed > maxReply && ctx.Err() == nil {
			reply.Calls = nil
			return reply, streamed, tooMuchText, nil
		}
		if err == nil {
			return reply, streamed, "", nil
		}
		spend(step, *r, reply, streamed, err)
		if ctx.Err() != nil {
			step.Text = text
			return reply, streamed, "", ctx.Err()
		}
		kind := model.KindOf(err)
		if s.Log != nil {
			s.Log.Warn("a model call failed", "run_id", s.Run, "kind", kind, "try", step.ModelAttempts,
				"error", model.Unredacted(err))
		}
		s.Output.Replace(ctx, s.answer.Kept())
		otherwise := s.leaveOutFor(kind, step, whole)
		wait, again := model.MayRetry(err)
		if !otherwise && (!again || step.ModelAttempts >= modelAttempts) {
			s.refused = kind == model.Refused && s.lastOfModel == nil
			return reply, streamed, err.Error(), nil
		}
		if over, failed := s.overBudget(ctx, *step); over != "" || failed != nil { // a retry is one more call
			return reply, streamed, over, failed
		}
		if otherwise {
			continue
		}
		wait = max(wait, host.Jitter(s.Host, min(50*time.Millisecond<<r.Attempt, 5*time.Second)))
		if err := errors.Join(s.Host.Sleep(ctx, wait), s.CheckLease()); err != nil {
			return reply, streamed, "", err
		}
	}
}

// attempt calls the model once. text is the streamed text; if it is over maxReply bytes, the rest was not read.
func (s *session) attempt(ctx context.Context, r model.Request) (reply model.Reply, text string, err error) {
	call, cancel := s.Host.WithTimeout(ctx, callTime)
	defer cancel()
	var streamed strings.Builder
	begun := s.Host.Now()
	stream := s.streaming(ctx)
	call, span := s.spanOfModel(call, r)
	reply, err = s.model.Converse(call, r, func(piece string) {
		piece = strings.ToValidUTF8(piece, "\uFFFD")
		if streamed.Len() > maxReply {
			return
		}
		if streamed.WriteString(piece); streamed.Len() > maxReply {
			cancel()
			return
		}
		stream(piece)
	})
	endOfModel(ctx, span, reply, streamed.Len(), err)
	if kind := model.KindOf(err); s.Called != nil && ctx.Err() == nil && streamed.Len() <= maxReply {
		s.Called(Called{Provider: s.Agent.Spec.Model.Provider, Took: s.Host.Now().Sub(begun),
			Failed: kind == model.Retryable || kind == model.Throttled})
	}
	return reply, streamed.String(), err
}

// next is the index of the next step. Indexes may be skipped: the index of a call whose attempt was lost is not used
// again.
func (s *session) next() int {
	if len(s.steps) == 0 {
		return s.ahead
	}
	return max(s.ahead, s.steps[len(s.steps)-1].Index+1)
}

// add adds steps that are not journalled yet.
func (s *session) add(steps ...record.Step) {
	s.past.add(steps...)
	s.unsaved = append(s.unsaved, steps...)
}

// StepsAtOnce is the number of steps in one commit. The commit needs space for other operations: two for each budget.
const StepsAtOnce = 30

// save journals the steps that are not journalled yet, in as many commits as needed.
func (s *session) save(ctx context.Context) error {
	for len(s.unsaved) > 0 {
		n := min(len(s.unsaved), StepsAtOnce)
		if err := s.Journal(ctx, s.unsaved[:n]); err != nil {
			return err
		}
		s.unsaved = s.unsaved[n:]
	}
	return nil
}

// showSteps sends the events of journalled steps. A client that receives the end of a call can rely on it.
func (s *session) showSteps(ctx context.Context, steps ...record.Step) {
	for _, step := range steps {
		if e, ok := step.Event(); ok {
			s.Output.Step(ctx, e)
		}
	}
}

// showStart sends the event of a call that begins.
func (s *session) showStart(ctx context.Context, step record.Step) {
	e, _ := step.Event()
	e.State = "started"
	s.Output.Step(ctx, e)
}

// extensions are the suffixes for the names of files that have no name.
var extensions = map[string]string{
	"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp", "image/svg+xml": ".svg",
	"application/pdf": ".pdf",
	"audio/wav":       ".wav", "audio/mpeg": ".mp3", "application/zip": ".zip",
}
