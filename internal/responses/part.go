package responses

import (
	"cmp"
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"agentplatform/internal/catalog"
	"agentplatform/internal/citation"
	"agentplatform/internal/lifecycle"
	"agentplatform/internal/problem"
	"agentplatform/internal/record"
	"agentplatform/internal/view"
)

// part is a response: a run from one pause to the next.
type part struct {
	ref

	of      record.Run
	input   record.Input
	told    echo
	before  *record.Decisions  // how the pause before it was decided; nil: the run begins with it
	asked   []record.Interrupt // the pause that ends it
	decided bool               // that pause was decided, or the run goes on without a decision
	prefix  string             // what the run had said before
	text    string             // what it says in this part
	quotes  []citation.Citation
	output  json.RawMessage // the JSON value, of a structured answer
	finish  string
	usage   lifecycle.Usage
	warmth  float64 // the temperature
}

// load reads a part of a run. It returns a problem of kind NotFound for one that has not begun.
func (s *Server) load(ctx context.Context, reads citation.Reader, e record.RunEntity, n int) (*part, error) {
	r := e.Value
	p := &part{ref: ref{run: r.ID(), part: n}, of: r}
	var err error
	if p.input, err = s.Store.Input(ctx, r); err != nil {
		return nil, err
	}
	if c := p.input.Context; c != nil && len(c.Echo) > 0 {
		if err := json.Unmarshal(c.Echo, &p.told); err != nil {
			return nil, err
		}
	}
	from, to, err := s.pauses(ctx, p)
	if err != nil {
		return nil, err
	}
	if p.warmth, err = s.temperature(ctx, p); err != nil {
		return nil, err
	}
	return p, s.said(ctx, reads, p, from, to)
}

// pauses reads the pause before a part and the one behind it. The part has the steps of the journal with an index above
// from, up to and with to; to is -1 for the last part.
func (s *Server) pauses(ctx context.Context, p *part) (from, to int, err error) {
	from, to = -1, -1
	if p.of.Pause == 0 {
		if p.part > 0 {
			return 0, 0, problem.Missing("response " + p.String())
		}
		return from, to, nil
	}
	list, err := s.Store.PausesOf(ctx, p.run, max(p.part-1, 0), 2)
	if err != nil {
		return 0, 0, err
	}
	for _, pause := range list {
		switch pause.Number {
		case p.part:
			if from = stepOf(pause.Interrupts); pause.Decided == nil {
				return 0, 0, problem.Missing("response " + p.String())
			}
			p.before = pause.Decided
		case p.part + 1:
			to = stepOf(pause.Interrupts)
			p.asked, p.decided = pause.Interrupts, pause.Decided != nil
		}
	}
	if p.part > 0 && p.before == nil {
		return 0, 0, problem.Missing("response " + p.String())
	}
	return from, to, nil
}

// stepOf is the index of the reply whose calls a pause is about.
func stepOf(list []record.Interrupt) int {
	step := -1
	for _, i := range list {
		index, _, _ := strings.Cut(i.Call, "-")
		if n, err := strconv.Atoi(index); err == nil {
			step = max(step, n)
		}
	}
	return step
}

// said reads what the run says in a part, and what it used. The last step of a completed run is in its result alone.
func (s *Server) said(ctx context.Context, reads citation.Reader, p *part, from, to int) error {
	var steps []record.Step
	var err error
	if p.of.Steps > 0 {
		if steps, err = s.Store.Journal(ctx, p.run); err != nil {
			return err
		}
	}
	var prefix, text strings.Builder
	used := lifecycle.Usage{} // before the part
	for _, step := range steps {
		switch {
		case step.Index <= from:
			prefix.WriteString(modelText(step))
			used.InputTokens += step.InputTokens
			used.OutputTokens += step.OutputTokens
		case to < 0 || step.Index <= to:
			text.WriteString(modelText(step))
			p.usage.InputTokens += step.InputTokens
			p.usage.OutputTokens += step.OutputTokens
		}
	}
	p.prefix, p.text = prefix.String(), text.String()
	if p.asked != nil || !p.of.Status.Terminal() {
		return nil
	}
	p.usage = lifecycle.Usage{
		InputTokens:  max(p.of.Usage.InputTokens-used.InputTokens, 0),
		OutputTokens: max(p.of.Usage.OutputTokens-used.OutputTokens, 0),
	}
	raw, err := view.ResultOf(ctx, s.Store, p.of, reads)
	if err != nil || raw == nil {
		return err
	}
	var result view.Result
	if err := json.Unmarshal(raw, &result); err != nil {
		return err
	}
	p.text = strings.TrimPrefix(result.Answer, p.prefix)
	p.quotes, p.output, p.finish = result.Citations, result.Output, result.FinishReason
	return nil
}

func modelText(step record.Step) string {
	if step.Kind != record.ModelStep {
		return ""
	}
	return step.Text
}

// temperature is that of the request, of the agent, or 1, which providers take.
func (s *Server) temperature(ctx context.Context, p *part) (float64, error) {
	if c := p.input.Context; c != nil && c.Temperature != nil {
		return *c.Temperature, nil
	}
	a, err := record.Version[catalog.Agent](ctx, s.Store, record.Of(p.of.Organization), p.of.Agent, p.of.AgentVersion)
	if problem.Is(err, "not_found") {
		return 1, nil
	}
	if err != nil || a.Spec.Model.Temperature == nil {
		return 1, err
	}
	return *a.Spec.Model.Temperature, nil
}

// status is the status of a part, as the protocol has it.
func (p *part) status() string {
	switch {
	case p.asked != nil && (p.decided || p.of.Status != lifecycle.Cancelled):
		return completed // the client goes on with it
	case p.of.Status == lifecycle.Queued:
		return "queued"
	case p.of.Status == lifecycle.Completed && p.cutOff():
		return "incomplete"
	case p.of.Status == lifecycle.Completed:
		return completed
	case p.of.Status == lifecycle.Cancelled:
		return "cancelled"
	case p.of.Status.Terminal():
		return "failed"
	}
	return inProgress
}

const (
	completed   = "completed"
	inProgress  = "in_progress"
	serverError = "server_error" // the code of the protocol for what is not the client's fault
)

// cutOff reports whether the model's last reply was cut at the limit of its length.
func (p *part) cutOff() bool { return p.finish == "length" }

// answer is the text of a part: what was said, or the value of a structured answer that had to be repaired.
func (p *part) answer() string {
	if len(p.output) > 0 && string(p.output) != "null" && !json.Valid([]byte(strings.TrimSpace(p.text))) {
		return string(p.output)
	}
	return p.text
}

// response is the representation of a part.
func (s *Server) response(p *part) Response {
	r := Response{
		ID: p.String(), Object: "response", CreatedAt: p.of.CreatedAt.Unix(), Status: p.status(),
		Model: cmp.Or(p.told.Model, p.of.Agent), Conversation: ResponseConversation{ID: p.of.Chat}, Output: s.items(p),
		Tools: []FunctionTool{}, ToolChoice: "auto", Truncation: cmp.Or(p.told.Truncation, "auto"),
		ParallelToolCalls: true, Text: TextField{Format: TextFormat{Type: "text"}}, TopP: 1, Temperature: p.warmth,
		Reasoning: json.RawMessage("null"), Store: true, Background: p.told.Background, ServiceTier: "default",
		Metadata: map[string]string{}, SafetyIdentifier: optional(p.told.SafetyIdentifier),
		PromptCacheKey: optional(p.told.PromptCacheKey), PreviousResponseID: optional(p.told.Previous),
	}
	if p.part > 0 {
		r.PreviousResponseID = pointer(ref{p.run, p.part - 1}.String())
		r.CreatedAt = p.before.At.Unix()
	}
	if p.told.Format != nil {
		r.Text.Format = *p.told.Format
	}
	if p.input.Metadata != nil {
		r.Metadata = p.input.Metadata
	}
	if c := p.input.Context; c != nil {
		r.MaxOutputTokens = c.MaxTokens
		r.Instructions = optional(c.Instructions)
		for i, f := range c.Functions {
			t := FunctionTool{Type: "function", Name: f.Name, Description: optional(f.Description), Parameters: f.Parameters}
			if i < len(p.told.Strict) {
				t.Strict = p.told.Strict[i]
			}
			r.Tools = append(r.Tools, t)
		}
	}
	switch r.Status {
	case completed:
		r.CompletedAt = pointer(p.ended().Unix())
	case "incomplete":
		r.IncompleteDetails = &IncompleteDetails{Reason: "max_output_tokens"}
	case "failed":
		r.Error = &ResponseError{Code: serverError, Message: p.of.Error}
	}
	if r.Status != "queued" && r.Status != inProgress {
		r.Usage = &ResponseUsage{InputTokens: p.usage.InputTokens, OutputTokens: p.usage.OutputTokens,
			TotalTokens: p.usage.InputTokens + p.usage.OutputTokens}
	}
	return r
}

// ended is when a part was completed.
func (p *part) ended() time.Time {
	if len(p.asked) > 0 {
		if at, err := time.Parse(time.RFC3339, p.asked[0].CreatedAt); err == nil {
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

// items are the output of a part: its message, then what the client is asked for.
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

// requests are what the pause that ends a part asks of the client. One question is a message, which the user's next one
// answers; several, and those beside other calls, are calls of ask_user.
func (p *part) requests() (list []ResponseItem) {
	for _, i := range p.asked {
		arguments := "{}"
		if i.Tool != nil {
			arguments = string(i.Tool.Arguments)
		}
		switch {
		case i.Kind == string(lifecycle.Approval):
			list = append(list, ResponseItem{
				Type: "mcp_approval_request", ID: nameOf("mcpr_", p.run, i.ID), ServerLabel: "agent", Name: i.Tool.Name,
				Arguments: &arguments,
			})
		case i.Tool != nil:
			list = append(list, callItem(p.run, i.ID, i.Tool.Name, arguments))
		case len(p.asked) == 1:
			list = append(list, message(nameOf("msg_", p.run, i.ID), "assistant", completed, outputText(question(i), nil)))
		default:
			asked, _ := json.Marshal(map[string]any{"question": i.Prompt, "options": i.Options})
			list = append(list, callItem(p.run, i.ID, "ask_user", string(asked)))
		}
	}
	return list
}

func callItem(run, interrupt, name, arguments string) ResponseItem {
	return ResponseItem{
		Type: "function_call", ID: nameOf("fc_", run, interrupt), Status: completed,
		CallID: nameOf("call_", run, interrupt), Name: name, Arguments: &arguments,
	}
}

// question is a question as a message.
func question(i record.Interrupt) string {
	text := i.Prompt
	for _, option := range i.Options {
		text += "\n- " + option
	}
	return text
}

// annotations are the citations of a part's text. Those of documents that the reader may not read are left out.
func (s *Server) annotations(p *part) []URLCitation {
	list := []URLCitation{}
	if p.answer() != p.text {
		return list
	}
	skipped := utf8.RuneCountInString(p.prefix)
	for _, c := range p.quotes {
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
	return list
}

// inputs are the items that a part was given.
func (p *part) inputs() []ResponseItem {
	list := []ResponseItem{}
	if p.part > 0 {
		for _, d := range p.before.List {
			list = append(list, p.decision(d))
		}
		return list
	}
	if c := p.input.Context; c != nil {
		for i, said := range c.Before {
			list = append(list, saidItems(p.run, i, said)...)
		}
	}
	var content []ResponseContent
	if p.input.Message != "" {
		content = append(content, inputText(p.input.Message))
	}
	for _, f := range p.input.Files {
		content = append(content, ResponseContent{Type: "input_file", FileID: f.FileID, Filename: f.Name})
	}
	if content != nil {
		list = append(list, message("msg_"+p.run+"_in", "user", completed, content...))
	}
	return list
}

func (p *part) decision(d record.Decision) ResponseItem {
	if v := lifecycle.Verb(d.Decision); v != lifecycle.Answer {
		return ResponseItem{
			Type: "mcp_approval_response", ID: nameOf("mcpa_", p.run, d.InterruptID),
			Request: nameOf("mcpr_", p.run, d.InterruptID), Approve: pointer(v != lifecycle.Reject), Reason: optional(d.Message),
		}
	}
	return ResponseItem{
		Type: "function_call_output", ID: nameOf("fco_", p.run, d.InterruptID), Status: completed,
		CallID: nameOf("call_", p.run, d.InterruptID), Output: pointer(d.Message),
	}
}

func saidItems(run string, i int, said record.Said) []ResponseItem {
	id := run + "_in_" + strconv.Itoa(i)
	switch said.Role {
	case record.RoleUser:
		return []ResponseItem{message("msg_"+id, "user", completed, inputText(said.Text))}
	case record.RoleTool:
		return []ResponseItem{{Type: "function_call_output", ID: "fco_" + id, Status: completed, CallID: said.Call,
			Output: pointer(said.Text)}}
	case record.RoleAssistant:
		var list []ResponseItem
		if said.Text != "" {
			list = append(list, message("msg_"+id, "assistant", completed, outputText(said.Text, nil)))
		}
		for n, c := range said.Calls {
			list = append(list, ResponseItem{Type: "function_call", ID: "fc_" + id + "_" + strconv.Itoa(n), Status: completed,
				CallID: c.ID, Name: c.Name, Arguments: pointer(string(c.Arguments))})
		}
		return list
	}
	return nil
}
