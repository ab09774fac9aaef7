package responses

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/api/bridge"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/run/view"
	"agentplatform/internal/store/citation"
	"agentplatform/internal/store/record"
)

// whole is a run in the form in which it was read: all of its responses.
type whole struct {
	of     record.Run
	input  record.Input
	pauses []record.Pause
	steps  []record.Step
	result *view.Result // the part that the reader may see; nil: none
	warmth float64      // the temperature of the agent
}

// part is a response: a run from one pause to the next.
type part struct {
	ref
	*whole
	given

	before *record.Pause // the pause before it; nil: the run begins with it
	after  *record.Pause // the pause that ends it; nil: none does
	first  []record.Step // before it
	text   string        // the text of the run in this part
	usage  lifecycle.Usage
	last   bool // it ends with the run
}

func (s *Server) read(ctx context.Context, reads citation.Reader, e record.RunEntity) (*whole, error) {
	r, w := e.Value, &whole{of: e.Value}
	var err error
	if w.input, err = s.Store.Input(ctx, r); err != nil {
		return nil, err
	}
	if r.Pause > 0 {
		if w.pauses, err = s.Store.AllPauses(ctx, r.ID()); err != nil {
			return nil, err
		}
	}
	if r.Steps > 0 {
		if w.steps, err = s.Store.Journal(ctx, r.ID()); err != nil {
			return nil, err
		}
	}
	raw, err := view.ResultOf(ctx, s.Store, r, reads)
	if err == nil && raw != nil {
		err = json.Unmarshal(raw, &w.result)
	}
	if err != nil {
		return nil, err
	}
	w.warmth, err = s.temperature(ctx, w)
	return w, err
}

// cut takes a response out of a run. It returns a problem of kind NotFound for one that has not begun.
func (w *whole) cut(n int) (*part, error) {
	p := &part{ref: ref{run: w.of.ID(), part: n}, whole: w}
	var err error
	if p.given, err = until(w.input, w.pauses, n); err != nil {
		return nil, err
	}
	from, to := -1, math.MaxInt // indexes of steps: the part has those above from, up to to
	for i := range w.pauses {
		switch pause := &w.pauses[i]; pause.Number {
		case n:
			p.before, from = pause, record.ReplyOf(pause.Interrupts)
		case n + 1:
			p.after = pause
			if reply := record.ReplyOf(pause.Interrupts); reply >= 0 {
				to = reply
			}
		}
	}
	if n > 0 && (p.before == nil || p.before.Decided == nil) {
		return nil, problem.Missing("response " + p.String())
	}
	begin, end := bridge.Until(w.steps, from), bridge.Until(w.steps, to)
	p.first, p.usage = w.steps[:begin], bridge.Used(w.steps[begin:end])
	p.last = p.after == nil && w.of.Status.Terminal()
	status := lifecycle.Running
	if p.last {
		status = w.of.Status
	}
	text, _ := view.Progress(w.steps[:end], status)
	if p.text = record.Behind(text, p.first); !p.last {
		return p, nil
	}
	used := bridge.Used(p.first)
	p.usage = lifecycle.Usage{
		InputTokens:  max(w.of.Usage.InputTokens-used.InputTokens, 0),
		OutputTokens: max(w.of.Usage.OutputTokens-used.OutputTokens, 0),
	}
	if w.result != nil { // it has the last step, which the journal of a completed run has not
		p.text = record.Behind(w.result.Answer, p.first)
	}
	return p, nil
}

// temperature is that of the agent, or 1, which providers take.
func (s *Server) temperature(ctx context.Context, w *whole) (float64, error) {
	a, err := record.Version[catalog.Agent](ctx, s.Store, record.Of(w.of.Organization), w.of.Agent, w.of.AgentVersion)
	if problem.Is(err, "not_found") {
		return 1, nil
	}
	if err != nil || a.Spec.Model.Temperature == nil {
		return 1, err
	}
	return *a.Spec.Model.Temperature, nil
}

// status is the status of a part, as the protocol has it. A part that a pause has ended stays completed, after any end
// of the run.
func (p *part) status() string {
	switch {
	case p.after != nil:
		return completed
	case p.of.Status == lifecycle.Queued:
		return "queued"
	case p.of.Status == lifecycle.Completed && p.result != nil && p.result.FinishReason == "length":
		return "incomplete" // its last reply was cut
	case p.of.Status == lifecycle.Completed:
		return completed
	case p.of.Status == lifecycle.Cancelled:
		return cancelled
	case p.of.Status.Terminal():
		return "failed"
	}
	return inProgress
}

const (
	completed   = "completed"
	cancelled   = "cancelled"
	inProgress  = "in_progress"
	serverError = "server_error" // the protocol's code for a fault that is not the client's
)

// answer is the text of a part: the text of the model, or the value of a structured answer that had to be repaired.
func (p *part) answer() string {
	if p.last && p.result != nil && len(p.result.Output) > 0 && string(p.result.Output) != "null" &&
		!json.Valid([]byte(strings.TrimSpace(p.text))) {
		return string(p.result.Output)
	}
	return p.text
}

func (s *Server) response(p *part) Response {
	r := Response{
		ID: p.String(), Object: "response", CreatedAt: p.of.CreatedAt.Unix(), Status: p.status(),
		Model: cmp.Or(p.echo.Model, p.of.Agent), Conversation: ResponseConversation{ID: p.of.Chat}, Output: s.items(p),
		Tools: []FunctionTool{}, ToolChoice: shownChoice(p.context), Truncation: cmp.Or(p.echo.Truncation, "auto"),
		ParallelToolCalls: !p.context.OneCall, Text: TextField{Format: p.echo.Format.answer()}, TopP: 1,
		Temperature: p.warmth, Store: !p.context.Unstored,
		Background: p.echo.Background, ServiceTier: "default",
		Metadata: map[string]string{}, SafetyIdentifier: optional(p.echo.SafetyIdentifier),
		PromptCacheKey: optional(p.echo.PromptCacheKey), PreviousResponseID: optional(p.echo.Previous),
	}
	if p.before != nil {
		r.PreviousResponseID = new(ref{p.run, p.part - 1}.String())
		r.CreatedAt = p.before.Decided.At.Unix()
	}
	if p.metadata != nil {
		r.Metadata = p.metadata
	}
	p.addContext(&r)
	switch r.Status {
	case completed:
		r.CompletedAt = new(p.ended().Unix())
	case "incomplete":
		r.IncompleteDetails = &IncompleteDetails{Reason: "max_output_tokens"}
	case cancelled:
		r.IncompleteDetails = &IncompleteDetails{Reason: cancelled}
	case "failed":
		r.Error = &ResponseError{Type: serverError, Code: serverError, Message: p.of.Error}
	}
	if r.Status != "queued" && r.Status != inProgress {
		r.Usage = &ResponseUsage{InputTokens: p.usage.InputTokens, OutputTokens: p.usage.OutputTokens,
			TotalTokens: p.usage.InputTokens + p.usage.OutputTokens}
	}
	return r
}

// addContext adds the data that the client has given the run for this part.
func (p *part) addContext(r *Response) {
	c := p.context
	r.MaxOutputTokens = c.MaxTokens
	if c.Effort != "" {
		r.Reasoning = &reasoning{Effort: &c.Effort}
	}
	if c.Temperature != nil {
		r.Temperature = *c.Temperature
	}
	if c.TopP != nil {
		r.TopP = *c.TopP
	}
	own, _ := p.echo.instructions(c.Instructions)
	r.Instructions = optional(own)
	for i, f := range c.Functions {
		t := FunctionTool{
			Type: "function", Name: f.Name, Description: optional(f.Description), Parameters: f.Parameters,
		}
		if i < len(p.echo.Strict) {
			t.Strict = p.echo.Strict[i]
		}
		r.Tools = append(r.Tools, t)
	}
}

func (p *part) ended() time.Time {
	if p.after != nil && len(p.after.Interrupts) > 0 {
		if at, err := time.Parse(time.RFC3339, p.after.Interrupts[0].CreatedAt); err == nil {
			return at
		}
	}
	return p.of.FinishedAt
}

func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// items are the output of a part: its message, then the items that the client must answer.
func (s *Server) items(p *part) []ResponseItem {
	list := []ResponseItem{}
	if text := p.answer(); text != "" {
		list = append(list, message("msg_"+p.suffix(), "assistant", p.itemStatus(), outputText(text, s.annotations(p))))
	}
	return append(list, p.requests()...)
}

func (p *part) itemStatus() string {
	switch p.status() {
	case completed:
		return completed
	case "queued", inProgress:
		return inProgress
	}
	return "incomplete"
}

// requests are the items that the pause at the end of a part needs from the client. One question is a message, which
// the user's next message answers. Several questions, and questions with other calls, are calls of ask_user.
func (p *part) requests() (list []ResponseItem) {
	if p.after == nil {
		return nil
	}
	for _, i := range p.after.Interrupts {
		name, arguments := "", "{}"
		if i.Tool != nil {
			name, arguments = i.Tool.Name, string(i.Tool.Arguments)
		}
		id, call := nameOf("fc_", p.run, i.ID), nameOf("call_", p.run, i.ID)
		switch {
		case i.Kind == string(lifecycle.Approval):
			list = append(list, ResponseItem{
				Type: "mcp_approval_request", ID: nameOf("mcpr_", p.run, i.ID), Status: completed, ServerLabel: "agent",
				Name: name, Arguments: &arguments,
			})
		case i.Tool != nil:
			list = append(list, callItem(id, call, name, arguments))
		case record.IsQuestion(p.after.Interrupts):
			list = append(list,
				message(nameOf("msg_", p.run, i.ID), "assistant", completed, outputText(question(i), nil)))
		default:
			list = append(list, callItem(id, call, model.AskUser, string(model.Question(i.Prompt, i.Options))))
		}
	}
	return list
}

func callItem(id, call, name, arguments string) ResponseItem {
	return ResponseItem{
		Type: "function_call", ID: id, Status: completed, CallID: call, Name: name, Arguments: &arguments,
	}
}

func outputItem(id, call, output string) ResponseItem {
	return ResponseItem{Type: "function_call_output", ID: id, Status: completed, CallID: call, Output: output}
}

func question(i record.Interrupt) string {
	text := i.Prompt
	for _, option := range i.Options {
		text += "\n- " + option
	}
	return text
}

// annotations are the citations of a part's text, in its order: each has its own place. Those of documents that the
// reader may not read are left out.
func (s *Server) annotations(p *part) []URLCitation {
	list := []URLCitation{}
	if !p.last || p.result == nil || p.answer() != p.text {
		return list
	}
	skipped := utf8.RuneCountInString(strings.TrimSuffix(p.result.Answer, p.text))
	for _, c := range p.result.Citations {
		if c.State != "" {
			continue
		}
		title := ""
		if c.Title != nil {
			title = *c.Title
		}
		for _, at := range c.At {
			if at[0] >= skipped {
				list = append(list, URLCitation{
					Type: "url_citation", Title: title, StartIndex: at[0] - skipped, EndIndex: at[1] - skipped,
					URL: s.URL + "/knowledge-bases/" + c.KnowledgeBase + "/documents/" + c.Document,
				})
			}
		}
	}
	slices.SortFunc(list, func(a, b URLCitation) int { return cmp.Compare(a.StartIndex, b.StartIndex) })
	return list
}

// inputs are the items that a part was given.
func (p *part) inputs() []ResponseItem {
	list := []ResponseItem{}
	if p.before != nil {
		for _, d := range p.before.Decided.List {
			list = append(list, p.decision(d))
		}
		return list
	}
	if c := p.input.Context; c != nil {
		_, joined := p.echo.instructions(c.Instructions)
		for i, msg := range joined { // wherever they stood: the model is shown them first
			list = append(list, message(fmt.Sprintf("msg_%s_sys_%d", p.run, i), msg.role, completed,
				inputText(msg.text)))
		}
		for i, msg := range c.Before {
			list = append(list, messageItems(p.run, i, msg)...)
		}
	}
	if content := userContent(p.input.Message, p.input.Files); content != nil {
		list = append(list, message("msg_"+p.run+"_in", "user", completed, content...))
	}
	return list
}

// userContent is the message of a user, with its files.
func userContent(text string, files []record.FileRef) (content []ResponseContent) {
	if text != "" {
		content = append(content, inputText(text))
	}
	for _, f := range files {
		one := ResponseContent{Type: "input_file", FileID: f.FileID, Filename: f.Name}
		if strings.HasPrefix(f.ContentType, "image/") {
			one = ResponseContent{
				Type: "input_image", FileID: f.FileID, ImageURL: json.RawMessage("null"), Detail: "auto",
			}
		}
		content = append(content, one)
	}
	return content
}

func (p *part) decision(d record.Decision) ResponseItem {
	if v := lifecycle.Verb(d.Decision); v != lifecycle.Answer {
		return ResponseItem{
			Type: "mcp_approval_response", Status: completed, ID: nameOf("mcpa_", p.run, d.InterruptID),
			Request: nameOf("mcpr_", p.run, d.InterruptID), Approve: new(v != lifecycle.Reject),
			Reason: optional(d.Message),
		}
	}
	if record.IsQuestion(p.before.Interrupts) {
		return message(nameOf("msg_", p.run, d.InterruptID)+"_in", "user", completed,
			userContent(d.Message, d.Files)...)
	}
	item := outputItem(nameOf("fco_", p.run, d.InterruptID), nameOf("call_", p.run, d.InterruptID), d.Message)
	if len(d.Files) > 0 {
		item.Output = userContent(d.Message, d.Files)
	}
	return item
}

func messageItems(run string, i int, msg record.ContextMessage) []ResponseItem {
	id := run + "_in_" + strconv.Itoa(i)
	switch msg.Role {
	case record.RoleUser:
		return []ResponseItem{message("msg_"+id, "user", completed, inputText(msg.Text))}
	case record.RoleTool:
		return []ResponseItem{outputItem("fco_"+id, msg.Call, msg.Text)}
	case record.RoleAssistant:
		var list []ResponseItem
		if msg.Text != "" {
			list = append(list, message("msg_"+id, "assistant", completed, outputText(msg.Text, nil)))
		}
		for n, c := range msg.Calls {
			list = append(list, callItem("fc_"+id+"_"+strconv.Itoa(n), c.ID, c.Name, string(c.Arguments)))
		}
		return list
	}
	return nil
}
