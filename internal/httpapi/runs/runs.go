package runs

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
	"agentplatform/internal/httpapi"
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

func (h *handlers) runRoutes() {
	httpapi.Register(h.Server, httpapi.Operation{
		Method: "GET", Path: "/runs", Level: tenant.LevelRead,
		ID: "list-runs", Tag: "runs", Summary: "List runs, newest first",
	}, h.listRuns)
	httpapi.Register(h.Server, httpapi.Operation{
		Method: "POST", Path: "/runs/cancel", Level: tenant.LevelRun,
		ID: "cancel-runs", Tag: "runs", Summary: "Cancel all active runs that Match",
	}, h.cancelMany)
	httpapi.Register(h.Server, httpapi.Operation{
		Method: "GET", Path: "/runs/{run_id}", Level: tenant.LevelRead, OfRun: true,
		ID: "read-run", Tag: "runs", Summary: "Read a run",
	}, h.readRun)
	httpapi.Register(h.Server, httpapi.Operation{
		Method: "POST", Path: "/runs/{run_id}/resume", Level: tenant.LevelRun, OfRun: true,
		ID: "resume-run", Tag: "runs", Summary: "Decide what a paused run waits for",
	}, h.resume)
	httpapi.Register(h.Server, httpapi.Operation{
		Method: "POST", Path: "/runs/{run_id}/cancel", Level: tenant.LevelRun, OfRun: true,
		ID: "cancel-run", Tag: "runs", Summary: "Cancel a run",
	}, h.cancel)
	httpapi.Register(h.Server, httpapi.Operation{
		Method: "POST", Path: "/runs/{run_id}/followups", Level: tenant.LevelRun, Status: http.StatusAccepted,
		ID: "followup", Tag: "runs", Summary: "Park a message on a run",
	}, h.followup)
	httpapi.Register(h.Server, httpapi.Operation{
		Method: "GET", Path: "/runs/{run_id}/parked", Level: tenant.LevelRead, OfRun: true,
		ID: "list-parked", Tag: "runs", Summary: "List the messages parked on a run",
	}, h.listParked)
	httpapi.Register(h.Server, httpapi.Operation{
		Method:  "DELETE",
		Path:    "/runs/{run_id}/parked/{parked_id}",
		Level:   tenant.LevelRun,
		Status:  http.StatusNoContent,
		ID:      "withdraw",
		Tag:     "runs",
		Summary: "Take a parked message back",
	}, h.withdraw)
	httpapi.Register(h.Server, httpapi.Operation{
		Method: "GET", Path: "/runs/{run_id}/steps", Level: tenant.LevelRead, OfRun: true,
		ID: "list-steps", Tag: "runs", Summary: "The run's journal",
	}, h.listSteps)
	httpapi.Register(h.Server, httpapi.Operation{
		Method: "POST", Path: "/runs/{run_id}/token", Level: tenant.LevelRun, Status: http.StatusCreated,
		ID: "run-token", Tag: "runs", Summary: "Make a token for this run alone",
	}, h.runToken)
	httpapi.Register(h.Server, httpapi.Operation{
		Method: "GET", Path: "/interrupts", Level: tenant.LevelRead,
		ID: "list-interrupts", Tag: "runs", Summary: "What waits for a human, oldest first",
	}, h.listInterrupts)
}

type notModified struct {
	Status int
	ETag   string `header:"ETag"`
	Body   *view.Run
}

func (h *handlers) readRun(ctx context.Context, p tenant.Principal, in *struct {
	RunPath
	WaitMS      int    `query:"wait_ms" minimum:"0" maximum:"20000" doc:"wait this long for a change of status"`
	IfNoneMatch string `header:"If-None-Match"`
}) (*notModified, error) {
	e, err := h.Intake.Run(ctx, p, in.RunID)
	if err != nil {
		return nil, err
	}
	if in.WaitMS > 0 && !e.Value.Status.Rests() {
		before := e.Value.Status
		e, err = h.wait(
			ctx,
			p,
			in.RunID,
			time.Duration(in.WaitMS)*time.Millisecond,
			func(r record.Run) bool { return r.Status != before },
		)
		if err != nil {
			return nil, err
		}
	}
	seen, err := h.viewed(ctx, e)
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
func (h *handlers) viewed(ctx context.Context, e record.RunEntity) (*httpapi.Answer[view.Run], error) {
	v, err := view.Of(ctx, h.Store, e)
	if err != nil {
		return nil, err
	}
	shown, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(shown)
	return &httpapi.Answer[view.Run]{ETag: fmt.Sprintf(`"%x"`, sum[:12]), Body: v}, nil
}

type decisionBody struct {
	InterruptID string          `json:"interrupt_id" required:"true"`
	Decision    string          `json:"decision" required:"true" enum:"approve,reject,edit,answer"`
	Arguments   json.RawMessage `json:"arguments,omitempty" doc:"for edit: the arguments to call with"`
	Message     string          `json:"message,omitempty" doc:"for answer: the answer; for reject: why"`
}

func (h *handlers) resume(ctx context.Context, p tenant.Principal, in *struct {
	RunPath
	Body struct {
		Decisions []decisionBody `json:"decisions" required:"true" doc:"exactly one for each pending interrupt"`
		DecidedBy string         `json:"decided_by,omitempty" maxLength:"200"`
	}
}) (*httpapi.Answer[view.Run], error) {
	list := make([]record.Decision, 0, len(in.Body.Decisions))
	for _, d := range in.Body.Decisions {
		list = append(
			list,
			record.Decision{
				InterruptID: d.InterruptID,
				Decision:    d.Decision,
				Arguments:   d.Arguments,
				Message:     d.Message,
			},
		)
	}
	e, err := h.Intake.Resume(ctx, p, in.RunID, in.Body.DecidedBy, list)
	if err != nil {
		return nil, err
	}
	return h.viewed(ctx, e)
}

func (h *handlers) cancel(ctx context.Context, p tenant.Principal, in *struct {
	RunPath
	Body *struct {
		Reason string `json:"reason,omitempty" maxLength:"1000"`
	}
}) (*httpapi.Answer[view.Run], error) {
	reason := ""
	if in.Body != nil {
		reason = in.Body.Reason
	}
	e, err := h.Intake.Cancel(ctx, p, in.RunID, reason)
	if err != nil {
		return nil, err
	}
	return h.viewed(ctx, e)
}

type handleAnswer struct {
	Replayed string `header:"Idempotent-Replayed"`
	Body     view.Handle
}

func (h *handlers) followup(ctx context.Context, p tenant.Principal, in *struct {
	RunPath
	Body struct {
		Message        string `json:"message" required:"true" minLength:"1"`
		IdempotencyKey string `json:"idempotency_key,omitempty"`
	}
}) (*handleAnswer, error) {
	if !host.ValidID(in.RunID) {
		return nil, problem.Missing("run " + in.RunID)
	}
	posted, err := h.Intake.Followup(ctx, p, in.RunID, in.Body.Message, in.Body.IdempotencyKey)
	if err != nil {
		return nil, err
	}
	handle, err := view.HandleOf(ctx, h.Store, posted.Run, posted.Parked)
	out := &handleAnswer{Body: handle}
	if posted.Replayed {
		out.Replayed = "true"
	}
	return out, err
}

type parkedList struct {
	Parked     []view.Parked `json:"parked"`
	NextCursor *string       `json:"next_cursor"`
}

func (h *handlers) listParked(
	ctx context.Context, p tenant.Principal, in *RunPath,
) (*httpapi.Answer[parkedList], error) {
	e, err := h.Intake.Run(ctx, p, in.RunID)
	if err != nil {
		return nil, err
	}
	list, err := view.ParkedOf(ctx, h.Store, e.Value)
	return &httpapi.Answer[parkedList]{Body: parkedList{Parked: list}}, err
}

func (h *handlers) withdraw(ctx context.Context, p tenant.Principal, in *struct {
	RunPath
	ParkedID string `path:"parked_id"`
}) (*struct{}, error) {
	if !host.ValidID(in.RunID) || !host.ValidID(in.ParkedID) {
		return nil, problem.Missing("parked message " + in.ParkedID)
	}
	return nil, h.Intake.Withdraw(ctx, p, in.RunID, in.ParkedID)
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

func (h *handlers) listSteps(ctx context.Context, p tenant.Principal, in *RunPath) (*httpapi.Answer[stepList], error) {
	run, err := h.Intake.Run(ctx, p, in.RunID)
	if err != nil {
		return nil, err
	}
	steps, err := h.Store.Steps(ctx, run.Value)
	if err != nil {
		return nil, err
	}
	list := stepList{Steps: []stepView{}}
	for _, step := range steps {
		v := stepView{
			Index:        step.Index,
			Kind:         string(step.Kind),
			Attempt:      step.Attempt,
			StartedAt:    events.Time(step.StartedAt),
			Text:         step.Text,
			Calls:        step.Calls,
			InputTokens:  step.InputTokens,
			OutputTokens: step.OutputTokens,
			FinishReason: step.Finish,
			Tries:        step.Tries,
			RequestID:    step.RequestID,
			LeftOut:      step.LeftOut,
			Name:         step.Name,
			Arguments:    step.Arguments,
			Outcome:      step.Outcome,
			Output:       step.Output,
		}
		if !step.FinishedAt.IsZero() {
			at := events.Time(step.FinishedAt)
			v.FinishedAt, v.DurationMS = &at, step.FinishedAt.Sub(step.StartedAt).Milliseconds()
		}
		list.Steps = append(list.Steps, v)
	}
	return &httpapi.Answer[stepList]{Body: list}, nil
}

type tokenBody struct {
	Token     string `json:"token"`
	RunID     string `json:"run_id"`
	ExpiresAt string `json:"expires_at"`
}

func (h *handlers) runToken(ctx context.Context, p tenant.Principal, in *struct {
	RunPath
	Body *struct {
		ExpiresIn int `json:"expires_in,omitempty" minimum:"1" maximum:"3600" doc:"seconds; an hour by default"`
	}
}) (*httpapi.Answer[tokenBody], error) {
	if !host.ValidID(in.RunID) {
		return nil, problem.Missing("run " + in.RunID)
	}
	if _, err := h.Intake.Run(ctx, p, in.RunID); err != nil {
		return nil, err
	}
	life := tenant.MaxRunToken
	if in.Body != nil && in.Body.ExpiresIn > 0 {
		life = time.Duration(in.Body.ExpiresIn) * time.Second
	}
	token, end, err := h.Tenants.RunToken(ctx, p, in.RunID, life)
	if err != nil {
		return nil, err
	}
	return &httpapi.Answer[tokenBody]{Body: tokenBody{Token: token, RunID: in.RunID, ExpiresAt: events.Time(end)}}, nil
}

type runList struct {
	Runs       []view.Run `json:"runs"`
	NextCursor *string    `json:"next_cursor"`
}

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

func (h *handlers) listRuns(ctx context.Context, p tenant.Principal, in *struct {
	httpapi.Paging
	Status       string    `query:"status" enum:"queued,running,awaiting_input,completed,failed,cancelled,timed_out"`
	AgentID      string    `query:"agent_id"`
	ChatID       string    `query:"chat_id"`
	CreatedAfter time.Time `query:"created_after"`
}) (*httpapi.Answer[runList], error) {
	after, err := httpapi.DecodeCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	f := runFilter{Status: in.Status, AgentID: in.AgentID, ChatID: in.ChatID, CreatedAfter: in.CreatedAfter}
	list, room := runList{Runs: []view.Run{}}, httpapi.Page{}
	reachable := h.Tenants.Reachable(ctx, p)
	for looked := 0; looked < httpapi.Scanned; {
		rows, err := h.Store.RunsOfOrganization(ctx, p.Scope(), after, in.Limit)
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
			live, err := h.Store.LiveRun(ctx, p.Scope(), after)
			if problem.Is(err, "not_found") {
				continue // its chat is being removed
			}
			if err != nil {
				return nil, err
			}
			v, err := view.Of(ctx, h.Store, live)
			if err != nil {
				return nil, err
			}
			if !room.Takes(v) {
				list.NextCursor = httpapi.EncodeCursor(before)
				return &httpapi.Answer[runList]{Body: list}, nil
			}
			if list.Runs = append(list.Runs, v); len(list.Runs) == in.Limit {
				list.NextCursor = h.moreRuns(ctx, p.Scope(), after)
				return &httpapi.Answer[runList]{Body: list}, nil
			}
		}
		if rows.Next == "" {
			return &httpapi.Answer[runList]{Body: list}, nil
		}
		after = rows.Next
	}
	list.NextCursor = httpapi.EncodeCursor(after)
	return &httpapi.Answer[runList]{Body: list}, nil
}

// moreRuns is a cursor if anything follows, so that a last page says that it is the last.
func (h *handlers) moreRuns(ctx context.Context, scope record.Scope, after string) *string {
	page, err := h.Store.RunsOfOrganization(ctx, scope, after, 1)
	if err == nil && len(page.Rows) == 0 && page.Next == "" {
		return nil
	}
	return httpapi.EncodeCursor(after)
}

type cancelledList struct {
	Matched int        `json:"matched"`
	Runs    []view.Run `json:"runs"`
}

func (h *handlers) cancelMany(ctx context.Context, p tenant.Principal, in *struct {
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
}) (*httpapi.Answer[cancelledList], error) {
	if err := checkFilter(in.RawBody); err != nil {
		return nil, err
	}
	f := runFilter{
		AgentID: in.Body.Filter.AgentID,
		ChatID:  in.Body.Filter.ChatID,
		UserID:  in.Body.Filter.UserID,
		Status:  in.Body.Filter.Status,
	}
	runs, err := h.activeRuns(ctx, p)
	if err != nil {
		return nil, err
	}
	runs = slices.DeleteFunc(runs, func(e record.RunEntity) bool { return !f.matches(e.Value) })
	if len(runs) != in.Body.ConfirmCount {
		return nil, problem.New(problem.Conflict, "count_mismatch",
			"%d runs match, and confirm_count says %d; nothing was done", len(runs), in.Body.ConfirmCount).
			With("matched", len(runs))
	}
	out := cancelledList{Matched: len(runs), Runs: []view.Run{}}
	for _, e := range runs {
		after, err := h.Intake.Cancel(ctx, p, e.Value.ID(), "stopped by an operator")
		if problem.Is(err, "not_found") {
			continue
		}
		if err != nil {
			return nil, err
		}
		v, err := view.Of(ctx, h.Store, after)
		if err != nil {
			return nil, err
		}
		out.Runs = append(out.Runs, v)
	}
	return &httpapi.Answer[cancelledList]{Body: out}, nil
}

// checkFilter refuses what would be no condition at all, though it is written like one: a member that is null or
// empty, an id that nothing can have.
func checkFilter(body []byte) error {
	var raw struct {
		Filter map[string]json.RawMessage `json:"filter"`
	}
	if err := httpapi.Decode("body", body, &raw); err != nil {
		return err
	}
	for name, valid := range map[string]func(string) bool{
		"agent_id": host.ValidID, "user_id": host.ValidID, "chat_id": intake.ValidChatID,
		"status": func(s string) bool { return s != "" },
	} {
		value, there := raw.Filter[name]
		var text *string
		if there && (httpapi.Decode("", value, &text) != nil || text == nil || !valid(*text)) {
			return problem.InvalidField("body.filter."+name, "must be a valid value, or left out")
		}
	}
	return nil
}

// activeRuns reads the heads of the organisation's active runs, as far as the principal may have to do with them.
func (h *handlers) activeRuns(ctx context.Context, p tenant.Principal) ([]record.RunEntity, error) {
	ids, err := h.Store.ActiveRuns(ctx, p.Scope().Organization())
	if err != nil {
		return nil, err
	}
	runs, err := h.Store.Runs(ctx, p.Scope(), ids...)
	if err != nil {
		return nil, err
	}
	return h.Intake.RunsFor(
		ctx, p, slices.DeleteFunc(runs, func(e record.RunEntity) bool { return !e.Value.Status.Active() }),
	)
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

func (h *handlers) listInterrupts(ctx context.Context, p tenant.Principal, in *struct {
	httpapi.Paging
	Status  string `query:"status" enum:"pending" default:"pending"`
	AgentID string `query:"agent_id"`
	ChatID  string `query:"chat_id"`
}) (*httpapi.Answer[inbox], error) {
	after, err := httpapi.DecodeCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	runs, err := h.activeRuns(ctx, p)
	if err != nil {
		return nil, err
	}
	f := runFilter{AgentID: in.AgentID, ChatID: in.ChatID, Status: string(lifecycle.AwaitingInput)}
	var rows []inboxRow
	for _, e := range runs {
		if !f.matches(e.Value) {
			continue
		}
		list, err := h.Store.Interrupts(ctx, e.Value.ID(), e.Value.Pause)
		if err != nil {
			return nil, err
		}
		for _, i := range record.Public(list) {
			rows = append(rows, inboxRow{
				Interrupt: i,
				RunID:     e.Value.ID(),
				ChatID:    e.Value.Chat,
				AgentID:   e.Value.Agent,
				ExpiresAt: events.Time(e.Value.ExpiresAt),
			})
		}
	}
	place := func(r inboxRow) string { return r.CreatedAt + " " + r.ID }
	slices.SortFunc(rows, func(a, b inboxRow) int { return strings.Compare(place(a), place(b)) })
	rows = slices.DeleteFunc(rows, func(r inboxRow) bool { return after != "" && place(r) <= after })
	out, room := inbox{Interrupts: []inboxRow{}}, httpapi.Page{}
	for n, r := range rows {
		if n == in.Limit || !room.Takes(r) {
			out.NextCursor = httpapi.EncodeCursor(place(rows[n-1]))
			break
		}
		out.Interrupts = append(out.Interrupts, r)
	}
	return &httpapi.Answer[inbox]{Body: out}, nil
}
