package runs

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"agentplatform/events"
	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/run/intake"
	"agentplatform/internal/run/view"
	"agentplatform/internal/run/webhook"
	"agentplatform/internal/store/citation"
	"agentplatform/internal/store/record"
)

// completed documents the 200 answer of a run that ended within the window.
type completed struct {
	RunID        string              `json:"run_id"`
	ChatID       string              `json:"chat_id"`
	AgentID      string              `json:"agent_id"`
	UsageStatus  string              `json:"usage_status" enum:"billed"`
	Answer       string              `json:"answer"`
	Output       json.RawMessage     `json:"output,omitempty" doc:"only if the agent has an output_schema"`
	Citations    []citation.Citation `json:"citations"`
	Files        []record.FileRef    `json:"files"`
	Steps        []view.ResultStep   `json:"steps"`
	Usage        view.Usage          `json:"usage"`
	FinishReason string              `json:"finish_reason" enum:"stop,tool_calls,length,empty" doc:"empty: the model sent no text"`
}

// Example implements [apidoc.Exampler].
func (completed) Example() any {
	r := view.Result{}.Example().(view.Result)
	return completed{
		r.RunID, r.ChatID, view.ExampleAgent, "billed", r.Answer, r.Output, r.Citations, r.Files, r.Steps, r.Usage,
		r.FinishReason,
	}
}

// refusal is the content of an error, as an example.
func refusal(code, message string, more map[string]any) map[string]*huma.MediaType {
	more["status"], more["code"], more["message"], more["detail"] = "error", code, message, message
	more["request_id"] = view.ExampleRequest
	return map[string]*huma.MediaType{"application/json": {Example: more}}
}

// cancelledRun documents the 200 answer of a run that was cancelled within the window.
type cancelledRun struct {
	RunID   string          `json:"run_id"`
	Status  string          `json:"status" enum:"cancelled"`
	AgentID string          `json:"agent_id"`
	Partial *events.Partial `json:"partial,omitempty" doc:"the text so far, if the agent had begun to answer"`
}

func (h *handlers) chatRoutes() {
	httpapi.SchemaOf[view.Result](h.Server) // of runs and of pushes
	content := func(kind string, schema *huma.Schema) map[string]*huma.MediaType {
		return map[string]*huma.MediaType{kind: {Schema: schema}}
	}
	ended := content("application/json", &huma.Schema{OneOf: []*huma.Schema{
		httpapi.SchemaOf[completed](h.Server), httpapi.SchemaOf[cancelledRun](h.Server),
	}})
	ended["application/x-ndjson"] = &huma.MediaType{Schema: httpapi.SchemaOf[runEvent](h.Server)}
	replayed := map[string]*huma.Param{"X-Agent-Run-Id": {}, "Idempotent-Replayed": {}, "Idempotent-Mismatch": {}}
	h.Describe(huma.Operation{
		Method: http.MethodPost, Path: "/chat", OperationID: "chat", Tags: []string{"chat"},
		Summary:     "Send a message to an agent",
		Description: "Starts or continues a durable run. Needs level `run`.",
		Parameters: []*huma.Param{{
			Name: httpapi.IdempotencyKey, In: "header", Schema: &huma.Schema{Type: huma.TypeString},
			Description: "same as the part idempotency_key",
		}},
		RequestBody: &huma.RequestBody{
			Required: true, Content: content("multipart/form-data", h.NamedSchema("ChatFields", chatFields.Schema())),
		},
		Responses: map[string]*huma.Response{
			"200": {
				Description: "The run ended within the observe window: its result, or, if it was cancelled, " +
					"run_id, status, agent_id and the text until then. With streaming=true: NDJSON, an event on " +
					"each line.",
				Content: ended, Headers: replayed,
			},
			"202": {
				Description: "The run continues: its handle",
				Content:     content("application/json", httpapi.SchemaOf[view.Handle](h.Server)),
				Headers:     replayed,
			},
			"409": {
				Description: "The chat is busy, or five messages are already parked",
				Content: refusal("chat_busy", "the chat is busy with run "+view.ExampleRun, map[string]any{
					"active_run_id": view.ExampleRun,
				}),
			},
			"429": {Description: "A rate limit or a concurrency cap; see Retry-After"},
			"500": {
				Description: "The run failed within the observe window; detail has the reason",
				Content: refusal("run_failed", "the model's provider refused the call: invalid_api_key", map[string]any{
					"run_id": view.ExampleRun, "agent_id": view.ExampleAgent, "run_status": "failed",
				}),
				Headers: replayed,
			},
		},
	})
	h.Handle("POST", "/chat", tenant.LevelRun, h.chat)
}

func (h *handlers) chat(w http.ResponseWriter, r *http.Request, c *httpapi.Call) error {
	ctx, p := r.Context(), c.Principal
	if err := h.BoundBody(w, r); err != nil {
		return err
	}
	f, err := h.readChatForm(ctx, p, r)
	if err != nil {
		return err
	}
	if f.CallbackURL != "" {
		f.mistake(webhook.CheckURL(h.Callbacks, f.CallbackURL))
	}
	if f.Watched {
		if err := h.TakeSlot(ctx, c); err != nil {
			h.Files.Drop(ctx, f.uploaded...)
			return err
		}
	}
	f.Request, f.Digest = c.ID(), f.digest()
	posted, err := h.post(ctx, p, f)
	if err != nil {
		return err
	}
	c.Run = posted.Run.ID()
	w.Header().Set("X-Agent-Run-Id", c.Run)
	httpapi.Replayed(w, posted.Replayed, posted.Mismatch)
	waiting := posted.Parked != nil && posted.Parked.RunID == nil
	switch {
	case waiting:
		return h.handle(ctx, w, posted.Run, posted.Parked)
	case f.Watched:
		return h.streamLines(ctx, w, c)
	case f.wait != nil && !*f.wait:
		return h.waitAndAnswer(ctx, w, p, posted, 0)
	default:
		return h.waitAndAnswer(ctx, w, p, posted, h.ObserveWindow)
	}
}

// post hands the message to intake, with its files; those of a message that was not accepted are removed.
func (h *handlers) post(ctx context.Context, p tenant.Principal, f chatForm) (intake.Posted, error) {
	var posted intake.Posted
	var err error
	if f.Version > 0 {
		f.mistake(p.Authorize(tenant.LevelManage)) // it may be one that is not published
	}
	if f.Files, err = h.attach(ctx, p, f); err == nil {
		posted, err = h.Intake.Post(ctx, p, f.Message)
	}
	if err != nil || posted.Replayed {
		h.Files.Drop(ctx, f.uploaded...)
	}
	return posted, err
}

// waitAndAnswer waits for a run to end or to need a human, for the window at most, and answers with its state then.
func (h *handlers) waitAndAnswer(
	ctx context.Context, w http.ResponseWriter, p tenant.Principal, posted intake.Posted, window time.Duration,
) error {
	r := posted.Run
	if window > 0 && !r.Status.EndedOrWaiting() {
		e, err := h.wait(ctx, p, r, func(ctx context.Context) (record.RunEntity, error) {
			return h.Hub.UntilEnd(ctx, h.Store, p.Scope(), r.ID(), posted.Version, window)
		})
		if err != nil {
			return err
		}
		r = e.Value
	}
	switch r.Status {
	case lifecycle.Completed:
		return h.completed(ctx, w, p, r)
	case lifecycle.Cancelled:
		partial, err := view.PartialOf(ctx, h.Store, r)
		if err != nil {
			return err
		}
		return httpapi.WriteJSON(w, http.StatusOK, cancelledRun{r.ID(), string(r.Status), r.Agent, partial})
	case lifecycle.Failed, lifecycle.TimedOut:
		return problem.New(problem.Internal, "run_failed", "%s", r.Error).
			With("run_id", r.ID()).
			With("agent_id", r.Agent).
			With("run_status", r.Status)
	default:
		return h.handle(ctx, w, r, posted.Parked)
	}
}

// wait ends one of the hub's waits for a run when the server stops, and when the right to read the run ends.
func (h *handlers) wait(
	ctx context.Context, p tenant.Principal, r record.Run, until func(context.Context) (record.RunEntity, error),
) (e record.RunEntity, err error) {
	done := false
	err = h.WhileAllowed(ctx, p, r.Whose(), func(ctx context.Context) (err error) {
		e, err = until(ctx)
		done = err == nil
		return err
	})
	if err == nil && !done { // the server stops
		e, err = h.Store.LiveRun(ctx, p.Scope(), r.ID())
	}
	return e, err
}

// completed writes the result with the two members that the chat's answer has beyond it.
func (h *handlers) completed(ctx context.Context, w http.ResponseWriter, p tenant.Principal, r record.Run) error {
	result, err := view.ResultOf(ctx, h.Store, r, h.Tenants.CitationFilter(p))
	if err != nil {
		return err
	}
	extra, err := json.Marshal(struct {
		AgentID     string `json:"agent_id"`
		UsageStatus string `json:"usage_status"`
	}{r.Agent, "billed"})
	if err != nil {
		return err
	}
	if len(result) < 2 || result[0] != '{' {
		return errors.New("httpapi: a result is no object")
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(slices.Concat(result[:len(result)-1], []byte{','}, extra[1:], []byte{'\n'}))
	return nil
}

func (h *handlers) handle(ctx context.Context, w http.ResponseWriter, r record.Run, parked *view.Parked) error {
	handle, err := view.HandleOf(ctx, h.Store, r, parked)
	if err != nil {
		return err
	}
	return httpapi.WriteJSON(w, http.StatusAccepted, handle)
}
