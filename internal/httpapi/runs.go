package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"agentplatform/events"
	"agentplatform/internal/host"
	"agentplatform/internal/intake"
	"agentplatform/internal/lifecycle"
	"agentplatform/internal/problem"
	"agentplatform/internal/record"
	"agentplatform/internal/tenant"
	"agentplatform/internal/view"
)

// RunPath is the path of what belongs to a run.
type RunPath struct {
	RunID string `path:"run_id"`
}

func (s *Server) runRoutes() {
	register(s, operation{method: "GET", path: "/runs", level: tenant.LevelRead, id: "list-runs", summary: "List runs, newest first", tag: "runs"}, s.listRuns)
	register(s, operation{method: "POST", path: "/runs/cancel", level: tenant.LevelRun, id: "cancel-runs", summary: "Cancel all active runs that Match", tag: "runs"}, s.cancelMany)
	register(s, operation{method: "GET", path: "/runs/{run_id}", level: tenant.LevelRead, ofRun: true, id: "read-run", summary: "Read a run", tag: "runs"}, s.readRun)
	register(s, operation{method: "POST", path: "/runs/{run_id}/resume", level: tenant.LevelRun, ofRun: true, id: "resume-run", summary: "Decide what a paused run waits for", tag: "runs"}, s.resume)
	register(s, operation{method: "POST", path: "/runs/{run_id}/cancel", level: tenant.LevelRun, ofRun: true, id: "cancel-run", summary: "Cancel a run", tag: "runs"}, s.cancel)
	register(s, operation{method: "POST", path: "/runs/{run_id}/followups", level: tenant.LevelRun, status: http.StatusAccepted, id: "followup", summary: "Park a message on a run", tag: "runs"}, s.followup)
	register(s, operation{method: "GET", path: "/runs/{run_id}/parked", level: tenant.LevelRead, ofRun: true, id: "list-parked", summary: "List the messages parked on a run", tag: "runs"}, s.listParked)
	register(s, operation{method: "DELETE", path: "/runs/{run_id}/parked/{parked_id}", level: tenant.LevelRun, status: http.StatusNoContent, id: "withdraw", summary: "Take a parked message back", tag: "runs"}, s.withdraw)
	register(s, operation{method: "GET", path: "/runs/{run_id}/steps", level: tenant.LevelRead, ofRun: true, id: "list-steps", summary: "The run's journal", tag: "runs"}, s.listSteps)
	register(s, operation{method: "POST", path: "/runs/{run_id}/token", level: tenant.LevelRun, status: http.StatusCreated, id: "run-token", summary: "Make a token for this run alone", tag: "runs"}, s.runToken)
	register(s, operation{method: "GET", path: "/interrupts", level: tenant.LevelRead, id: "list-interrupts", summary: "What waits for a human, oldest first", tag: "runs"}, s.listInterrupts)
}

type notModified struct {
	Status int
	ETag   string `header:"ETag"`
	Body   *view.Run
}

func (s *Server) readRun(ctx context.Context, p tenant.Principal, in *struct {
	RunPath
	WaitMS      int    `query:"wait_ms" minimum:"0" maximum:"20000" doc:"wait this long for a change of status"`
	IfNoneMatch string `header:"If-None-Match"`
}) (*notModified, error) {
	e, err := s.Intake.Run(ctx, p, in.RunID)
	if err != nil {
		return nil, err
	}
	if in.WaitMS > 0 && !e.Value.Status.Rests() {
		before := e.Value.Status
		e, err = s.wait(ctx, p, in.RunID, time.Duration(in.WaitMS)*time.Millisecond, func(r record.Run) bool { return r.Status != before })
		if err != nil {
			return nil, err
		}
	}
	seen, err := s.viewed(ctx, e)
	if err != nil {
		return nil, err
	}
	out := &notModified{Status: http.StatusOK, ETag: seen.ETag, Body: &seen.Body}
	for tag := range strings.SplitSeq(in.IfNoneMatch, ",") {
		if strings.TrimPrefix(strings.TrimSpace(tag), "W/") == out.ETag {
			out.Status, out.Body = http.StatusNotModified, nil
		}
	}
	return out, nil
}

// viewed is a run as clients see it. Its tag is one of all that is shown: some of that is told by other runs, so that
// it may change while this one's version stays.
func (s *Server) viewed(ctx context.Context, e record.RunEntity) (*answer[view.Run], error) {
	v, err := view.Of(ctx, s.Store, e)
	if err != nil {
		return nil, err
	}
	shown, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(shown)
	return &answer[view.Run]{ETag: fmt.Sprintf(`"%x"`, sum[:12]), Body: v}, nil
}

type decisionBody struct {
	InterruptID string          `json:"interrupt_id" required:"true"`
	Decision    string          `json:"decision" required:"true" enum:"approve,reject,edit,answer"`
	Arguments   json.RawMessage `json:"arguments,omitempty" doc:"for edit: the arguments to call with"`
	Message     string          `json:"message,omitempty" doc:"for answer: the answer; for reject: why"`
}

func (s *Server) resume(ctx context.Context, p tenant.Principal, in *struct {
	RunPath
	Body struct {
		Decisions []decisionBody `json:"decisions" required:"true" doc:"exactly one for each pending interrupt"`
		DecidedBy string         `json:"decided_by,omitempty" maxLength:"200"`
	}
}) (*answer[view.Run], error) {
	list := make([]record.Decision, 0, len(in.Body.Decisions))
	for _, d := range in.Body.Decisions {
		list = append(list, record.Decision{InterruptID: d.InterruptID, Decision: d.Decision, Arguments: d.Arguments, Message: d.Message})
	}
	e, err := s.Intake.Resume(ctx, p, in.RunID, in.Body.DecidedBy, list)
	if err != nil {
		return nil, err
	}
	return s.viewed(ctx, e)
}

func (s *Server) cancel(ctx context.Context, p tenant.Principal, in *struct {
	RunPath
	Body *struct {
		Reason string `json:"reason,omitempty" maxLength:"1000"`
	}
}) (*answer[view.Run], error) {
	reason := ""
	if in.Body != nil {
		reason = in.Body.Reason
	}
	e, err := s.Intake.Cancel(ctx, p, in.RunID, reason)
	if err != nil {
		return nil, err
	}
	return s.viewed(ctx, e)
}

type handleAnswer struct {
	Replayed string `header:"Idempotent-Replayed"`
	Body     view.Handle
}

func (s *Server) followup(ctx context.Context, p tenant.Principal, in *struct {
	RunPath
	Body struct {
		Message        string `json:"message" required:"true" minLength:"1"`
		IdempotencyKey string `json:"idempotency_key,omitempty"`
	}
}) (*handleAnswer, error) {
	if !host.ValidID(in.RunID) {
		return nil, problem.Missing("run " + in.RunID)
	}
	posted, err := s.Intake.Followup(ctx, p, in.RunID, in.Body.Message, in.Body.IdempotencyKey)
	if err != nil {
		return nil, err
	}
	h, err := view.HandleOf(ctx, s.Store, posted.Run, posted.Parked)
	out := &handleAnswer{Body: h}
	if posted.Replayed {
		out.Replayed = "true"
	}
	return out, err
}

type parkedList struct {
	Parked     []view.Parked `json:"parked"`
	NextCursor *string       `json:"next_cursor"`
}

func (s *Server) listParked(ctx context.Context, p tenant.Principal, in *RunPath) (*answer[parkedList], error) {
	e, err := s.Intake.Run(ctx, p, in.RunID)
	if err != nil {
		return nil, err
	}
	list, err := view.ParkedOf(ctx, s.Store, e.Value)
	return &answer[parkedList]{Body: parkedList{Parked: list}}, err
}

func (s *Server) withdraw(ctx context.Context, p tenant.Principal, in *struct {
	RunPath
	ParkedID string `path:"parked_id"`
}) (*struct{}, error) {
	if !host.ValidID(in.RunID) || !host.ValidID(in.ParkedID) {
		return nil, problem.Missing("parked message " + in.ParkedID)
	}
	return nil, s.Intake.Withdraw(ctx, p, in.RunID, in.ParkedID)
}

type stepView struct {
	Index        int             `json:"index"`
	Kind         string          `json:"kind" enum:"model,tool,tool_started"`
	Attempt      int             `json:"attempt"`
	StartedAt    string          `json:"started_at"`
	FinishedAt   *string         `json:"finished_at"`
	DurationMS   int64           `json:"duration_ms"`
	Text         string          `json:"text,omitempty"`
	Calls        []record.Call   `json:"calls,omitempty"`
	InputTokens  int64           `json:"input_tokens"`
	OutputTokens int64           `json:"output_tokens"`
	FinishReason string          `json:"finish_reason,omitempty"`
	Tries        int             `json:"tries,omitempty"`
	RequestID    string          `json:"request_id,omitempty" doc:"by which the model's provider knows the call"`
	LeftOut      int             `json:"left_out,omitempty" doc:"messages of the conversation that did not fit the model"`
	Name         string          `json:"name,omitempty"`
	Arguments    json.RawMessage `json:"arguments,omitempty"`
	Outcome      string          `json:"outcome,omitempty"`
	Output       string          `json:"output,omitempty"`
}

type stepList struct {
	Steps      []stepView `json:"steps"`
	NextCursor *string    `json:"next_cursor"`
}

func (s *Server) listSteps(ctx context.Context, p tenant.Principal, in *RunPath) (*answer[stepList], error) {
	run, err := s.Intake.Run(ctx, p, in.RunID)
	if err != nil {
		return nil, err
	}
	steps, err := s.Store.Steps(ctx, run.Value)
	if err != nil {
		return nil, err
	}
	list := stepList{Steps: []stepView{}}
	for _, step := range steps {
		v := stepView{
			Index: step.Index, Kind: string(step.Kind), Attempt: step.Attempt, StartedAt: events.Time(step.StartedAt), Text: step.Text,
			Calls: step.Calls, InputTokens: step.InputTokens, OutputTokens: step.OutputTokens, FinishReason: step.Finish, Tries: step.Tries,
			RequestID: step.RequestID, LeftOut: step.LeftOut,
			Name: step.Name, Arguments: step.Arguments, Outcome: step.Outcome, Output: step.Output,
		}
		if !step.FinishedAt.IsZero() {
			at := events.Time(step.FinishedAt)
			v.FinishedAt, v.DurationMS = &at, step.FinishedAt.Sub(step.StartedAt).Milliseconds()
		}
		list.Steps = append(list.Steps, v)
	}
	return &answer[stepList]{Body: list}, nil
}

type tokenBody struct {
	Token     string `json:"token"`
	RunID     string `json:"run_id"`
	ExpiresAt string `json:"expires_at"`
}

func (s *Server) runToken(ctx context.Context, p tenant.Principal, in *struct {
	RunPath
	Body *struct {
		ExpiresIn int `json:"expires_in,omitempty" minimum:"1" maximum:"3600" doc:"seconds; an hour by default"`
	}
}) (*answer[tokenBody], error) {
	if !host.ValidID(in.RunID) {
		return nil, problem.Missing("run " + in.RunID)
	}
	if _, err := s.Intake.Run(ctx, p, in.RunID); err != nil {
		return nil, err
	}
	life := tenant.MaxRunToken
	if in.Body != nil && in.Body.ExpiresIn > 0 {
		life = time.Duration(in.Body.ExpiresIn) * time.Second
	}
	token, end, err := s.Tenants.RunToken(ctx, p, in.RunID, life)
	if err != nil {
		return nil, err
	}
	return &answer[tokenBody]{Body: tokenBody{Token: token, RunID: in.RunID, ExpiresAt: events.Time(end)}}, nil
}

type runList struct {
	Runs       []view.Run `json:"runs"`
	NextCursor *string    `json:"next_cursor"`
}

// scanned bounds how many runs a page of a filtered listing looks at; it may be short and still have a cursor.
const scanned = 500

type runFilter struct {
	Status       string
	AgentID      string
	ChatID       string
	UserID       string
	CreatedAfter time.Time
}

func (f runFilter) matches(r record.Run) bool {
	return (f.Status == "" || string(r.Status) == f.Status) && (f.AgentID == "" || r.Agent == f.AgentID) &&
		(f.ChatID == "" || r.Chat == f.ChatID) && (f.UserID == "" || r.User == f.UserID) &&
		(f.CreatedAfter.IsZero() || r.CreatedAt.After(f.CreatedAfter))
}

func (s *Server) listRuns(ctx context.Context, p tenant.Principal, in *struct {
	Paging
	Status       string    `query:"status" enum:"queued,running,awaiting_input,completed,failed,cancelled,timed_out"`
	AgentID      string    `query:"agent_id"`
	ChatID       string    `query:"chat_id"`
	CreatedAfter time.Time `query:"created_after"`
}) (*answer[runList], error) {
	after, err := decodeCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	f := runFilter{Status: in.Status, AgentID: in.AgentID, ChatID: in.ChatID, CreatedAfter: in.CreatedAfter}
	list, room := runList{Runs: []view.Run{}}, page{}
	reachable := s.Tenants.Reachable(ctx, p)
	for looked := 0; looked < scanned; {
		rows, err := s.Store.RunsOfOrganization(ctx, p.Scope(), after, in.Limit)
		if err != nil {
			return nil, err
		}
		looked += in.Limit
		for _, e := range rows.Rows {
			before := after
			after = e.Value.ID()
			if !f.matches(e.Value) {
				continue
			}
			may, err := reachable(e.Value.Agent)
			if err != nil {
				return nil, err
			}
			if !may {
				continue
			}
			live, err := s.Store.LiveRun(ctx, p.Scope(), after)
			if problem.Is(err, "not_found") {
				continue // its chat is being removed
			}
			if err != nil {
				return nil, err
			}
			v, err := view.Of(ctx, s.Store, live)
			if err != nil {
				return nil, err
			}
			if !room.takes(v) {
				list.NextCursor = encodeCursor(before)
				return &answer[runList]{Body: list}, nil
			}
			if list.Runs = append(list.Runs, v); len(list.Runs) == in.Limit {
				list.NextCursor = s.moreRuns(ctx, p.Scope(), after)
				return &answer[runList]{Body: list}, nil
			}
		}
		if rows.Next == "" {
			return &answer[runList]{Body: list}, nil
		}
		after = rows.Next
	}
	list.NextCursor = encodeCursor(after)
	return &answer[runList]{Body: list}, nil
}

// moreRuns is a cursor if anything follows, so that a last page says that it is the last.
func (s *Server) moreRuns(ctx context.Context, scope record.Scope, after string) *string {
	page, err := s.Store.RunsOfOrganization(ctx, scope, after, 1)
	if err == nil && len(page.Rows) == 0 && page.Next == "" {
		return nil
	}
	return encodeCursor(after)
}

type cancelledList struct {
	Matched int        `json:"matched"`
	Runs    []view.Run `json:"runs"`
}

func (s *Server) cancelMany(ctx context.Context, p tenant.Principal, in *struct {
	Body struct {
		Filter struct {
			AgentID string `json:"agent_id,omitempty"`
			ChatID  string `json:"chat_id,omitempty"`
			UserID  string `json:"user_id,omitempty"`
			Status  string `json:"status,omitempty" enum:"queued,running,awaiting_input"`
		} `json:"filter" required:"true"`
		ConfirmCount int `json:"confirm_count" required:"true" minimum:"0" doc:"must equal the number of active runs that match"`
	}
	RawBody []byte
}) (*answer[cancelledList], error) {
	if err := checkFilter(in.RawBody); err != nil {
		return nil, err
	}
	f := runFilter{AgentID: in.Body.Filter.AgentID, ChatID: in.Body.Filter.ChatID, UserID: in.Body.Filter.UserID, Status: in.Body.Filter.Status}
	runs, err := s.activeRuns(ctx, p)
	if err != nil {
		return nil, err
	}
	runs = slices.DeleteFunc(runs, func(e record.RunEntity) bool { return !f.matches(e.Value) })
	if len(runs) != in.Body.ConfirmCount {
		return nil, problem.New(problem.Conflict, "count_mismatch", "%d runs match, and confirm_count says %d; nothing was done", len(runs), in.Body.ConfirmCount).
			With("matched", len(runs))
	}
	out := cancelledList{Matched: len(runs), Runs: []view.Run{}}
	for _, e := range runs {
		after, err := s.Intake.Cancel(ctx, p, e.Value.ID(), "stopped by an operator")
		if problem.Is(err, "not_found") {
			continue
		}
		if err != nil {
			return nil, err
		}
		v, err := view.Of(ctx, s.Store, after)
		if err != nil {
			return nil, err
		}
		out.Runs = append(out.Runs, v)
	}
	return &answer[cancelledList]{Body: out}, nil
}

// checkFilter refuses what would be no condition at all, though it is written like one: a member that is null or
// empty, an id that nothing can have.
func checkFilter(body []byte) error {
	var raw struct {
		Filter map[string]json.RawMessage `json:"filter"`
	}
	if err := decode("body", body, &raw); err != nil {
		return err
	}
	for name, valid := range map[string]func(string) bool{
		"agent_id": host.ValidID, "user_id": host.ValidID, "chat_id": intake.ValidChatID, "status": func(s string) bool { return s != "" },
	} {
		value, there := raw.Filter[name]
		var text *string
		if there && (decode("", value, &text) != nil || text == nil || !valid(*text)) {
			return problem.InvalidField("body.filter."+name, "must be a valid value, or left out")
		}
	}
	return nil
}

// activeRuns reads the heads of the organisation's active runs, as far as the principal may have to do with them.
func (s *Server) activeRuns(ctx context.Context, p tenant.Principal) ([]record.RunEntity, error) {
	ids, err := s.Store.ActiveRuns(ctx, p.Scope().Organization())
	if err != nil {
		return nil, err
	}
	runs, err := s.Store.Runs(ctx, p.Scope(), ids...)
	if err != nil {
		return nil, err
	}
	return s.Intake.RunsFor(ctx, p, slices.DeleteFunc(runs, func(e record.RunEntity) bool { return !e.Value.Status.Active() }))
}

type inboxRow struct {
	events.Interrupt
	RunID     string `json:"run_id"`
	ChatID    string `json:"chat_id"`
	AgentID   string `json:"agent_id"`
	ExpiresAt string `json:"expires_at"`
}

type inbox struct {
	Interrupts []inboxRow `json:"interrupts"`
	NextCursor *string    `json:"next_cursor"`
}

func (s *Server) listInterrupts(ctx context.Context, p tenant.Principal, in *struct {
	Paging
	Status  string `query:"status" enum:"pending" default:"pending"`
	AgentID string `query:"agent_id"`
	ChatID  string `query:"chat_id"`
}) (*answer[inbox], error) {
	after, err := decodeCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	runs, err := s.activeRuns(ctx, p)
	if err != nil {
		return nil, err
	}
	f := runFilter{AgentID: in.AgentID, ChatID: in.ChatID, Status: string(lifecycle.AwaitingInput)}
	var rows []inboxRow
	for _, e := range runs {
		if !f.matches(e.Value) {
			continue
		}
		list, err := s.Store.Interrupts(ctx, e.Value.ID(), e.Value.Pause)
		if err != nil {
			return nil, err
		}
		for _, i := range record.Public(list) {
			rows = append(rows, inboxRow{
				Interrupt: i, RunID: e.Value.ID(), ChatID: e.Value.Chat, AgentID: e.Value.Agent, ExpiresAt: events.Time(e.Value.ExpiresAt),
			})
		}
	}
	place := func(r inboxRow) string { return r.CreatedAt + " " + r.ID }
	slices.SortFunc(rows, func(a, b inboxRow) int { return strings.Compare(place(a), place(b)) })
	rows = slices.DeleteFunc(rows, func(r inboxRow) bool { return after != "" && place(r) <= after })
	out, room := inbox{Interrupts: []inboxRow{}}, page{}
	for n, r := range rows {
		if n == in.Limit || !room.takes(r) {
			out.NextCursor = encodeCursor(place(rows[n-1]))
			break
		}
		out.Interrupts = append(out.Interrupts, r)
	}
	return &answer[inbox]{Body: out}, nil
}
