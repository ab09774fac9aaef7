package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"agentplatform/events"
	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/tool"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/platform/schema"
	"agentplatform/internal/platform/trace"
	"agentplatform/internal/store/record"
)

// job is a call that the model requested, and its result.
type job struct {
	record.Call
	key       string
	step      record.Step // the result
	interrupt *record.Interrupt
	offer     tool.Offer
	run       bool // the call is to be made
	repeat    bool // the call may be made twice
	resumed   bool // an earlier attempt has called the same toolkit
	answers   []tool.Answer
	begun     bool // the call was started
}

// callTools handles the calls of a reply. Results that need no call (refusals, decisions) are journalled with the
// reply. Each other result is journalled when its call ends. So a later attempt neither repeats a call that has ended
// nor asks about it. If the result is nil, the loop continues.
func (s *session) callTools(ctx context.Context, last record.Step) (*Result, error) {
	var jobs, made []*job
	var ended []record.Step
	for _, c := range last.Calls {
		key := callKey(last.Index, c.ID)
		if s.done(key) != nil {
			continue
		}
		j := s.plan(ctx, &job{Call: c, key: key})
		jobs = append(jobs, j)
		if j.run {
			made = append(made, j)
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err // plan may have failed because ctx has ended
	}
	s.journalStarts(made[:min(len(made), parallelCalls)])
	index := s.next()
	for _, j := range jobs {
		if j.interrupt != nil {
			continue
		}
		j.step.Index = index
		index++
		if !j.run {
			ended = append(ended, j.step)
		}
	}
	s.ahead = index
	s.add(ended...)
	// Results without a call follow from the decisions. With an interrupt, they are therefore journalled with the
	// pause.
	unsavedReply := slices.ContainsFunc(s.unsaved, func(step record.Step) bool { return step.Kind == record.ModelStep })
	if len(made) > 0 || (unsavedReply && len(interruptsOf(jobs)) == 0) {
		if err := s.save(ctx); err != nil {
			return nil, err
		}
	}
	s.showSteps(ctx, ended...)
	begun := s.Host.Now()
	err := s.runCalls(ctx, made)
	s.elsewhere += s.Host.Now().Sub(begun)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(ctx.Err(), s.CheckLease()); err != nil {
		return nil, err
	}
	if interrupts := interruptsOf(jobs); len(interrupts) > 0 { // servers may have asked questions in the calls
		return &Result{Interrupts: interrupts}, nil
	}
	return nil, nil
}

func interruptsOf(jobs []*job) (list []record.Interrupt) {
	for _, j := range jobs {
		if j.interrupt != nil {
			list = append(list, *j.interrupt)
		}
	}
	return list
}

// plan decides how to handle a call: make it, answer it from a decision, refuse it, or ask a person.
func (s *session) plan(ctx context.Context, j *job) *job {
	j.step = s.stepOf(record.ToolStep, j, s.edited(j.key, j.Arguments))
	offer, known := s.find(j.Name)
	if j.Name == model.Search {
		offer, known = s.searchOffer(j), true
	}
	function, delegated := s.function(j.Name)
	var decision record.Decision
	decisions := s.decisions(j.key, false)
	decided := len(decisions) > 0
	if decided {
		decision = decisions[0]
	}
	switch {
	case j.Fault == noCall:
		return j.end(s, model.Failed, noCall+": answer without one")
	case j.Fault != "":
		return j.end(s, model.Failed, unfit+j.Fault)
	case decided && decision.Decision == string(lifecycle.Answer): // the function may be gone since
		return j.end(s, model.Answered, decision.Message)
	case delegated:
		return s.delegate(ctx, j, function)
	case j.Name == model.AskUser && !s.Agent.Spec.CanAsk:
		return j.end(s, model.Failed, "this agent may not ask questions")
	case j.Name == model.AskUser:
		return s.ask(j)
	case j.Name == model.Search && s.Search == nil:
		return j.end(s, model.Failed, "no knowledge base")
	case !known:
		return j.end(s, model.Failed, fmt.Sprintf("the tool %q does not exist", j.Name))
	case !offer.Is(j.Source, j.Fingerprint):
		// The model requested another tool, or another version of it. A person may have approved that one.
		return j.end(s, model.Failed,
			fmt.Sprintf("the tool %q no longer exists: it has changed, or another tool has its name", j.Name))
	case decided && decision.Decision == string(lifecycle.Reject):
		return j.end(s, model.Rejected, cmp.Or(decision.Message, "no reason was given"))
	}
	j.offer, j.run, j.repeat = offer, true, offer.RetrySafe
	j.answers = s.answersTo(j.key)
	j.resumed = len(j.answers) > 0 || s.calledBefore(offer)
	if !j.repeat {
		s.checkOutcome(j)
	}
	if !j.run {
		return j
	}
	if err := schema.Fits(ctx, offer.Parameters, j.step.Arguments); err != nil {
		return j.end(s, model.Failed, unfit+err.Error())
	}
	if why, asks := s.needsApproval(offer, j.step.Arguments); asks && !decided {
		return s.approve(j, fmt.Sprintf("May the agent call %s?", j.Name)+why, false)
	}
	return j
}

// checkOutcome handles a call that must not be made twice. If an earlier attempt started it, a person must approve each
// repetition.
func (s *session) checkOutcome(j *job) {
	decisions := s.decisions(j.key, true)
	for _, d := range decisions {
		if d.Decision == string(lifecycle.Reject) {
			j.end(s, model.Rejected, cmp.Or(d.Message, "its outcome is not known"))
			return
		}
	}
	if s.starts[j.key] > len(decisions) {
		s.approve(j, fmt.Sprintf("The call of %s started, but its outcome is not known. May the agent repeat it?",
			j.Name), true)
	}
}

func (j *job) end(s *session, o model.Outcome, text string) *job {
	j.run = false
	j.step.Outcome, j.step.Output, j.step.FinishedAt = string(o), text, s.Host.Now()
	return j
}

func (s *session) find(name string) (tool.Offer, bool) {
	for _, o := range s.Tools {
		if o.Name == name {
			return o, true
		}
	}
	return tool.Offer{}, false
}

// needsApproval reports whether a call needs a person's approval, with the reason of the tool. The agent's version of
// the run, its published version or the tool can require it.
func (s *session) needsApproval(o tool.Offer, arguments json.RawMessage) (why string, asks bool) {
	if o.Name == model.Search {
		return "", s.searchNeedsApproval()
	}
	for _, p := range []catalog.Policy{s.Agent.Spec.Policy(s.Tools), s.Published} {
		asks = asks || p.Asks(s.Tools, o)
		if len(p.Unknown) > 0 {
			why = fmt.Sprintf(" The agent's policy names the tool %q, which the agent does not have.", p.Unknown[0])
		}
	}
	if asks {
		return why, true
	}
	if why, asks = o.Approval.Required(arguments); asks {
		return " " + strings.ToUpper(why[:1]) + why[1:] + ".", true
	}
	return "", false
}

// searchNeedsApproval reports whether the agent's approvals list searches. Otherwise searches need none: they change
// nothing, and find only documents that the run's sender may read.
func (s *session) searchNeedsApproval() bool {
	return s.Agent.Spec.Approval.NamesSearch() || s.Published.NamesSearch()
}

// decided are the decisions about a call, in order, each with its interrupt.
func (s *session) decided(key string) iter.Seq2[record.Interrupt, record.Decision] {
	return func(yield func(record.Interrupt, record.Decision) bool) {
		for _, pause := range s.Pauses {
			for _, i := range pause {
				if d, found := s.Decided[i.ID]; found && i.Call == key && !yield(i, d) {
					return
				}
			}
		}
	}
}

// decisions returns the decisions about a call in order. If unsure is set, they are those about its unknown outcome,
// else the others. Answers to questions of its server are not decisions.
func (s *session) decisions(key string, unsure bool) (list []record.Decision) {
	for i, d := range s.decided(key) {
		if i.Unsure == unsure && i.Question == "" {
			list = append(list, d)
		}
	}
	return list
}

// answersTo are the answers to the questions that the server asked in earlier attempts of a call.
func (s *session) answersTo(key string) (list []tool.Answer) {
	for i, d := range s.decided(key) {
		if i.Question != "" {
			list = append(list, tool.Answer{Question: i.Question, Text: d.Message})
		}
	}
	return list
}

func (s *session) interrupt(j *job, kind lifecycle.InterruptKind, prompt string) *record.Interrupt {
	j.run = false
	return &record.Interrupt{Call: j.key, Interrupt: events.Interrupt{
		ID: s.Host.NewID(), Kind: string(kind), Prompt: prompt, CreatedAt: events.Time(s.Host.Now()),
	}}
}

// calledBefore reports whether an earlier attempt of the run has called a tool of the same toolkit. The session of that
// attempt has ended.
func (s *session) calledBefore(o tool.Offer) bool {
	return slices.ContainsFunc(s.steps, func(step record.Step) bool {
		if step.Attempt == s.Attempt || step.Kind != record.ToolStep && step.Kind != record.StartStep {
			return false
		}
		other, known := s.find(step.Name)
		return known && toolkitOf(other) != "" && toolkitOf(other) == toolkitOf(o)
	})
}

// toolkitOf returns the id of a tool's toolkit, or empty if it has none.
func toolkitOf(o tool.Offer) string {
	toolkit, _, _ := strings.Cut(o.Source, "/")
	return toolkit
}

// putQuestion makes an interrupt of a server's question in a call. The call has ended without a result. It is made
// again with the answer.
func (s *session) putQuestion(j *job, q *tool.Question) {
	switch {
	case !s.Agent.Spec.CanAsk:
		j.end(s, model.Failed, tool.Clip(q.Error(), maxQuestion/2)+" (this agent may not ask questions)")
		return
	case len(j.answers) >= maxQuestions:
		j.end(s, model.Failed, fmt.Sprintf("the server asked its user over %d times in one call", maxQuestions))
		return
	}
	prompt := fmt.Sprintf("The server of %s asks: %s", j.Name, tool.Clip(q.Text, maxQuestion/2))
	if !j.repeat {
		prompt += "\nThe call then starts again. Its earlier effects may happen twice."
	}
	j.interrupt = s.interrupt(j, lifecycle.Clarification, prompt)
	j.interrupt.Question = q.ID
	if options := q.Options[:min(len(q.Options), maxOptions)]; tool.FitOptions(options) { // else any text can answer
		j.interrupt.Options = options
	}
}

func (s *session) approve(j *job, prompt string, unsure bool) *job {
	j.interrupt = s.interrupt(j, lifecycle.Approval, prompt)
	j.interrupt.Unsure, j.interrupt.Source, j.interrupt.Fingerprint = unsure, j.Source, j.Fingerprint
	j.interrupt.Tool = &events.InterruptTool{Name: j.Name, Arguments: j.step.Arguments}
	return j
}

func (s *session) ask(j *job) *job {
	var a struct {
		Question string   `json:"question"`
		Options  []string `json:"options"`
	}
	if err := json.Unmarshal(j.Arguments, &a); err != nil {
		return j.end(s, model.Failed, unfit+err.Error())
	}
	if model.Blank(a.Question) {
		return j.end(s, model.Failed, unfit+"question is blank")
	}
	if len(a.Question) > maxQuestion || len(a.Options) > maxOptions || !tool.FitOptions(a.Options) {
		return j.end(s, model.Failed, fmt.Sprintf(unfit+"a question may have %d bytes and %d options of %d bytes, in "+
			"all %d", maxQuestion, maxOptions, tool.MaxOption, tool.MaxOptions))
	}
	j.interrupt = s.interrupt(j, lifecycle.Clarification, a.Question)
	j.interrupt.Options = a.Options
	return j
}

// journalStarts adds start steps for calls that must not be made twice. They are journalled before the calls.
func (s *session) journalStarts(jobs []*job) {
	for _, j := range jobs {
		if !j.repeat {
			start := s.stepOf(record.StartStep, j, j.step.Arguments)
			start.Outcome = "started"
			s.add(start)
		}
	}
}

// stepOf is a step of a call, after all others.
func (s *session) stepOf(kind record.StepKind, j *job, arguments json.RawMessage) record.Step {
	return record.Step{
		Index: s.next(), Kind: kind, Attempt: s.Attempt, StartedAt: s.Host.Now(), CallID: j.key, Name: j.Name,
		Arguments: arguments,
	}
}

// runCalls makes the calls, parallelCalls at a time, and journals each result when its call ends. If the journal fails,
// the running calls are cancelled. The error is that of ctx, CheckLease or Journal.
func (s *session) runCalls(ctx context.Context, jobs []*job) error {
	calling, end := context.WithCancel(ctx)
	defer end()
	for first := true; len(jobs) > 0; first = false {
		n := min(len(jobs), parallelCalls)
		if !first { // callTools has journalled the starts of the first batch
			if err := errors.Join(ctx.Err(), s.CheckLease()); err != nil {
				return err
			}
			s.journalStarts(jobs[:n])
			if err := s.save(ctx); err != nil {
				return err
			}
		}
		err := s.runBatch(calling, jobs[:n], end)
		s.revokeStarts(jobs[:n])
		if err != nil {
			return err
		}
		jobs = jobs[n:]
	}
	return nil
}

// revokeStarts adds steps that revoke start steps, so that no person is asked about the outcome of these calls. They
// are calls that were not started, or in which the server asked a question.
func (s *session) revokeStarts(jobs []*job) {
	for _, j := range jobs {
		if !j.repeat && (!j.begun || j.interrupt != nil) {
			revoked := s.stepOf(record.StartStep, j, nil)
			revoked.Outcome = notBegun
			s.add(revoked)
		}
	}
}

// notBegun is the outcome of a step that revokes a start step.
const notBegun = "not begun"

func (s *session) runBatch(ctx context.Context, jobs []*job, end func()) (err error) {
	var mu sync.Mutex
	var ended []record.Step // results that are not journalled yet
	left := len(jobs)
	open, wait := s.Host.Gate()
	waits := make([]func(), 0, len(jobs))
	for _, j := range jobs {
		s.showStart(ctx, j.step)
		waits = append(waits, s.Host.Go(func() {
			defer func() { // also if the call panics; wait reports the panic to its owner
				mu.Lock()
				defer mu.Unlock()
				if left--; j.step.Outcome != "" {
					ended = append(ended, j.step)
				}
				open()
			}()
			s.call(ctx, j)
		}))
	}
	for {
		wait()
		mu.Lock()
		finished, last := ended, left == 0
		ended = nil
		open, wait = s.Host.Gate()
		mu.Unlock()
		if err == nil {
			if err = s.journalResults(ctx, finished); err != nil {
				end()
			}
		}
		if last {
			break
		}
	}
	for _, wait := range waits {
		wait()
	}
	return err
}

// journalResults journals results even if the work is cancelled at the same time. Then it sends their events.
func (s *session) journalResults(ctx context.Context, finished []record.Step) error {
	ctx = context.WithoutCancel(ctx)
	for i := range finished { // in order: each number depends on the earlier results
		s.number(&finished[i])
		s.add(finished[i])
	}
	if err := s.save(ctx); err != nil {
		return err
	}
	s.showSteps(ctx, finished...)
	return nil
}

// call makes a call. If it sets no outcome, the call was not started, or the end of the work cut it short.
func (s *session) call(ctx context.Context, j *job) {
	if s.CheckLease() != nil {
		return // the round checks the lease, too, and ends
	}
	limit := callTime
	if j.offer.Timeout > 0 {
		limit = min(limit, j.offer.Timeout)
	}
	call, cancel := s.Host.WithTimeout(ctx, limit)
	defer cancel()
	j.begun = true
	begun := s.Host.Now()
	call, span := s.spanOfTool(call, j)
	defer span.End()
	result, err := j.offer.Call(call, tool.Invocation{
		Name: j.Name, Arguments: j.step.Arguments, IdempotencyKey: s.Run + "-" + j.key, Answers: j.answers,
		Resumed: j.resumed,
	})
	if ctx.Err() != nil && err != nil {
		trace.Fail(span, "stopped")
		return
	}
	// Even if there is a result: a connection that is being closed may deliver an empty one.
	if host.OutOfTime(call, ctx) {
		err = tool.Fail("the tool did not respond within %s", limit)
	}
	var question *tool.Question
	isQuestion := errors.As(err, &question)
	if s.Called != nil && j.Name != model.Search { // a search is not a tool of another party
		s.Called(Called{Tool: true, Took: s.Host.Now().Sub(begun), Failed: err != nil && !isQuestion})
	}
	if isQuestion {
		s.putQuestion(j, question)
		return
	}
	if err != nil {
		trace.Fail(span, "tool_failed")
		j.end(s, model.Failed, s.failureText(j, err))
		return
	}
	j.end(s, model.Succeeded, s.resultText(ctx, j, result))
}

// failureText is the result of a failed call for the model: the message of a [tool.Error]. Any other error may contain
// addresses or credentials, so it is only logged.
func (s *session) failureText(j *job, err error) string {
	var toolErr *tool.Error
	if errors.As(err, &toolErr) {
		return toolErr.Message
	}
	if s.Log != nil {
		s.Log.Warn("a tool could not be called", "run_id", s.Run, "call", j.key, "tool", j.Name, "error", err)
	}
	return "the tool could not be called"
}

// resultText stores the files of a result, and a long text, as files of the run. It returns the text for the model.
func (s *session) resultText(ctx context.Context, j *job, r tool.Result) string {
	output := r.Text
	if len(output) > maxOutput {
		output = s.storeLong(ctx, j, output)
	}
	for n, f := range r.Files {
		if n == maxFiles {
			output += fmt.Sprintf("\n[%d more files are not stored]", len(r.Files)-n)
			break
		}
		if f.Name == "" {
			f.Name = fmt.Sprintf("%s-%d%s", j.Name, n+1, extensions[f.ContentType])
		}
		output += fmt.Sprintf("\n[%d bytes of %s", len(f.Data), f.ContentType)
		ref, err := s.Keep(ctx, fmt.Sprintf("%s/%d", j.key, n), f)
		if err == nil {
			j.step.Files = append(j.step.Files, ref)
			output += "; the user has them as the file " + ref.Name
		} else {
			output += "; they are not stored" + noRoom(err)
		}
		output += "]"
	}
	return strings.TrimPrefix(output, "\n")
}

// storeLong stores a long result as a file and returns its beginning with a note for the model.
func (s *session) storeLong(ctx context.Context, j *job, output string) string {
	begins := strings.ToValidUTF8(output[:partOutput], "")
	f, err := s.Keep(ctx, j.key, tool.File{Name: j.Name + ".txt", ContentType: "text/plain; charset=utf-8",
		Data: []byte(output)})
	if err != nil {
		return fmt.Sprintf("%s\n[cut: the result has %d bytes%s]", begins, len(output), noRoom(err))
	}
	j.step.Files = append(j.step.Files, f)
	return fmt.Sprintf("%s\n[cut: the result has %d bytes; the user has all of it as the file %s]", begins,
		len(output), f.Name)
}

// noRoom is the reason why a file was not stored, if a limit or the disk is the cause.
func noRoom(err error) string {
	if p, is := problem.As(err); is && (p.Kind == problem.Limited || p.Kind == problem.Full) {
		return ": " + p.Message
	}
	return ""
}
