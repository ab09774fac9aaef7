package runs

import (
	"context"
	"encoding/json"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"agentplatform/events"
	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/run/intake"
	"agentplatform/internal/run/view"
	"agentplatform/internal/store/citation"
	"agentplatform/internal/store/record"
)

// RunPath is the path of a run's resources.
type RunPath struct {
	RunID string `path:"run_id"`
}

func (h *handlers) runRoutes() {
	r := h.routes("runs")
	httpapi.Route(r, "GET /runs", "list-runs", "List runs, newest first", h.listRuns)
	httpapi.Route(r, "POST /runs/cancel", "cancel-runs", "Cancel all active runs that match", h.cancelMany)
	httpapi.Route(r, "GET /runs/{run_id}", "read-run", "Read a run", h.readRun, httpapi.OfRun)
	httpapi.Route(r, "POST /runs/{run_id}/resume", "resume-run",
		"Decide the pending interrupts of a paused run", h.resume, httpapi.OfRun)
	httpapi.Route(r, "POST /runs/{run_id}/cancel", "cancel-run", "Cancel a run", h.cancel, httpapi.OfRun)
	httpapi.Route(r, "POST /runs/{run_id}/followups", "followup",
		"Park a message on a run", h.followup, httpapi.Accepted)
	httpapi.Route(r, "GET /runs/{run_id}/parked", "list-parked",
		"List the messages parked on a run", h.listParked, httpapi.OfRun)
	httpapi.Route(r, "DELETE /runs/{run_id}/parked/{parked_id}", "withdraw", "Withdraw a parked message", h.withdraw)
	httpapi.Route(r, "GET /runs/{run_id}/steps", "list-steps", "The run's journal", h.listSteps, httpapi.OfRun)
	httpapi.Route(r, "GET /runs/{run_id}/interrupts", "list-run-interrupts",
		"List all interrupts of a run and their decisions", h.listRunInterrupts, httpapi.OfRun)
	httpapi.Route(r, "GET /runs/{run_id}/messages", "list-run-messages",
		"Read the message and the answer of a run", h.listRunMessages, httpapi.OfRun)
	httpapi.Route(r, "POST /runs/{run_id}/token", "run-token",
		"Create a token for this run only", h.runToken, httpapi.Created)
	httpapi.Route(r, "GET /interrupts", "list-interrupts",
		"List the interrupts that wait for a human, oldest first", h.listInterrupts)
}

func (h *handlers) readRun(ctx context.Context, p tenant.Principal, in *struct {
	RunPath
	WaitMS int `query:"wait_ms" minimum:"0" maximum:"20000" doc:"wait at most this long for a change of status"`
}) (*answer[seenRun], error) {
	e, outside, err := h.Intake.RunToDecide(ctx, p, in.RunID)
	if err != nil || outside {
		return h.seen(ctx, p, e, outside, err)
	}
	if in.WaitMS > 0 && !e.Value.Status.EndedOrWaiting() {
		before, seen := e.Value.Status, e.Version()
		e, err = h.wait(ctx, p, e.Value, func(ctx context.Context) (record.RunEntity, error) {
			return h.Hub.Until(ctx, h.Store, p.Scope(), in.RunID, seen,
				time.Duration(in.WaitMS)*time.Millisecond, func(r record.Run) bool { return r.Status != before })
		})
	}
	return h.seen(ctx, p, e, false, err)
}

// seenRun is a run as a principal may see it: the whole run, or the part for an approver who may not use its agent.
type seenRun struct {
	whole    *view.Run
	toDecide *view.ToDecide
}

// MarshalJSON implements [json.Marshaler].
func (s seenRun) MarshalJSON() ([]byte, error) {
	if s.toDecide != nil {
		return json.Marshal(s.toDecide)
	}
	return json.Marshal(s.whole)
}

// Schema implements [huma.SchemaProvider].
func (seenRun) Schema(r huma.Registry) *huma.Schema {
	return &huma.Schema{
		Description: "The run; for an approver without access to the agent, only its pending decisions.",
		AnyOf: []*huma.Schema{
			r.Schema(reflect.TypeFor[view.Run](), true, ""), r.Schema(reflect.TypeFor[view.ToDecide](), true, ""),
		},
	}
}

// seen is the answer with a run, or the error with which it was read.
func (h *handlers) seen(
	ctx context.Context, p tenant.Principal, e record.RunEntity, outside bool, err error,
) (*answer[seenRun], error) {
	if err != nil {
		return nil, err
	}
	if outside {
		v, err := view.ToDecideOf(ctx, h.Store, e.Value)
		return httpapi.Body(seenRun{toDecide: &v}), err
	}
	v, err := h.shown(ctx, p, e)
	return httpapi.Body(seenRun{whole: &v}), err
}

// shown is a run as a principal may see it.
func (h *handlers) shown(ctx context.Context, p tenant.Principal, e record.RunEntity) (view.Run, error) {
	v, err := view.Of(ctx, h.Store, e)
	if err != nil {
		return v, err
	}
	return v.For(ctx, h.Tenants.CitationFilter(p))
}

// viewed is the answer with a run, unless that could not be had.
func (h *handlers) viewed(
	ctx context.Context, p tenant.Principal, e record.RunEntity, err error,
) (*answer[view.Run], error) {
	if err != nil {
		return nil, err
	}
	v, err := h.shown(ctx, p, e)
	return httpapi.Body(v), err
}

type decisionBody struct {
	InterruptID string          `json:"interrupt_id" required:"true"`
	Decision    string          `json:"decision" required:"true" enum:"approve,reject,edit,answer"`
	Arguments   json.RawMessage `json:"arguments,omitempty" shape:"object" doc:"for edit: the new arguments"`
	Message     string          `json:"message,omitempty" doc:"for answer: the answer; for reject: the reason"`
}

func (h *handlers) resume(ctx context.Context, p tenant.Principal, in *struct {
	RunPath
	Body struct {
		Decisions []decisionBody `json:"decisions" required:"true" doc:"one decision for each pending interrupt"`
		DecidedBy string         `json:"decided_by,omitempty" maxLength:"200"`
	}
}) (*answer[seenRun], error) {
	list := make([]record.Decision, 0, len(in.Body.Decisions))
	for _, d := range in.Body.Decisions {
		list = append(list, record.Decision{
			InterruptID: d.InterruptID, Decision: d.Decision, Arguments: d.Arguments, Message: d.Message,
		})
	}
	e, err := h.Intake.Resume(ctx, p, in.RunID, in.Body.DecidedBy, list, nil, nil)
	reached := true
	if err == nil {
		reached, err = h.Intake.Sees(ctx, p)(e.Value)
	}
	return h.seen(ctx, p, e, !reached, err)
}

func (h *handlers) cancel(ctx context.Context, p tenant.Principal, in *struct {
	RunPath
	Body *struct {
		Reason string `json:"reason,omitempty" maxLength:"1000"`
	}
}) (*answer[view.Run], error) {
	reason := ""
	if in.Body != nil {
		reason = in.Body.Reason
	}
	e, err := h.Intake.Cancel(ctx, p, in.RunID, reason)
	return h.viewed(ctx, p, e, err)
}

type handleAnswer struct {
	Replayed string `header:"Idempotent-Replayed"`
	Mismatch string `header:"Idempotent-Mismatch"`
	Body     view.Handle
}

func (h *handlers) followup(ctx context.Context, p tenant.Principal, in *struct {
	RunPath
	Key  string `header:"Idempotency-Key" doc:"same as the field idempotency_key"`
	Body struct {
		Message        string `json:"message" required:"true" minLength:"1"`
		IdempotencyKey string `json:"idempotency_key,omitempty"`
	}
}) (*handleAnswer, error) {
	if !host.ValidID(in.RunID) {
		return nil, problem.Missing("run " + in.RunID)
	}
	key, err := httpapi.KeyOf(ctx, "body.idempotency_key", in.Body.IdempotencyKey, intake.CheckKey)
	if err != nil {
		return nil, err
	}
	posted, err := h.Intake.Followup(ctx, p, in.RunID, in.Body.Message, key)
	if err != nil {
		return nil, err
	}
	handle, err := view.HandleOf(ctx, h.Store, posted.Run, posted.Parked)
	out := &handleAnswer{Body: handle}
	if posted.Replayed {
		out.Replayed = "true"
	}
	if posted.Mismatch {
		out.Mismatch = "true"
	}
	return out, err
}

type parkedList struct {
	Parked     []view.Parked `json:"parked"`
	NextCursor *string       `json:"next_cursor"`
}

func (h *handlers) listParked(ctx context.Context, p tenant.Principal, in *RunPath) (*answer[parkedList], error) {
	e, err := h.Intake.Run(ctx, p, in.RunID)
	if err != nil {
		return nil, err
	}
	list, err := view.ParkedOf(ctx, h.Store, e.Value)
	return httpapi.Body(parkedList{Parked: list}), err
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
	State        string          `json:"state,omitempty" enum:"failed,stopped" doc:"for a model call without a reply"`
	Attempt      int             `json:"attempt"`
	StartedAt    string          `json:"started_at"`
	FinishedAt   *string         `json:"finished_at"`
	DurationMS   int64           `json:"duration_ms"`
	Text         string          `json:"text,omitempty"`
	Calls        []record.Call   `json:"calls,omitempty"`
	InputTokens  int64           `json:"input_tokens"`
	OutputTokens int64           `json:"output_tokens"`
	FinishReason string          `json:"finish_reason,omitempty" enum:"stop,tool_calls,length"`
	Attempts     int             `json:"tries,omitempty"`
	RequestID    string          `json:"request_id,omitempty" doc:"the id of the call at the model's provider"`
	LeftOut      int             `json:"left_out,omitempty" doc:"the number of messages that did not fit the model's context"`
	AnsweredOnly bool            `json:"answered_only,omitempty" doc:"true: earlier turns without an answer were left out, because the provider refused them"`
	Shortened    int             `json:"shortened,omitempty" doc:"the bytes that long results were cut to for the model"`
	Name         string          `json:"name,omitempty"`
	Arguments    json.RawMessage `json:"arguments,omitempty" shape:"object|string"`
	Outcome      string          `json:"outcome,omitempty"`
	Output       string          `json:"output,omitempty"`
}

type stepList struct {
	Steps      []stepView `json:"steps"`
	NextCursor *string    `json:"next_cursor"`
}

func (h *handlers) listSteps(ctx context.Context, p tenant.Principal, in *RunPath) (*answer[stepList], error) {
	run, err := h.Intake.Run(ctx, p, in.RunID)
	if err != nil {
		return nil, err
	}
	steps, err := h.Store.Steps(ctx, run.Value)
	if err == nil {
		steps, err = citation.Shown(ctx, steps, h.Tenants.CitationFilter(p))
	}
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
			Attempts:     step.ModelAttempts,
			RequestID:    step.RequestID,
			LeftOut:      step.LeftOut,
			AnsweredOnly: step.AnsweredOnly,
			Shortened:    step.Shortened,
			Name:         step.Name,
			Arguments:    step.Arguments,
			Outcome:      step.Outcome,
			Output:       step.Output,
		}
		if step.Kind == record.CutStep {
			v.Kind, v.State, v.Outcome = string(record.ModelStep), step.Outcome, ""
		}
		if !step.FinishedAt.IsZero() {
			at := events.Time(step.FinishedAt)
			v.FinishedAt, v.DurationMS = &at, step.FinishedAt.Sub(step.StartedAt).Milliseconds()
		}
		list.Steps = append(list.Steps, v)
	}
	return httpapi.Body(list), nil
}

type tokenBody struct {
	Token     string `json:"token"`
	RunID     string `json:"run_id"`
	ExpiresAt string `json:"expires_at"`
}

func (h *handlers) runToken(ctx context.Context, p tenant.Principal, in *struct {
	RunPath
	Body *struct {
		ExpiresIn int `json:"expires_in,omitempty" minimum:"1" maximum:"3600" doc:"seconds; one hour by default"`
	}
}) (*answer[tokenBody], error) {
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
	return httpapi.Body(tokenBody{Token: token, RunID: in.RunID, ExpiresAt: events.Time(end)}), nil
}
