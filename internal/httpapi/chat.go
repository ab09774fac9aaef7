package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"agentplatform/internal/intake"
	"agentplatform/internal/lifecycle"
	"agentplatform/internal/problem"
	"agentplatform/internal/record"
	"agentplatform/internal/tenant"
	"agentplatform/internal/view"
	"agentplatform/internal/webhook"
)

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }

// chatFields documents the form; it is read by hand, as it streams in.
type chatFields struct {
	AgentID        string   `json:"agent_id" required:"true" doc:"the agent that runs the message"`
	Message        string   `json:"message,omitempty" doc:"required unless a file is sent; at most 256 KiB"`
	ChatID         string   `json:"chat_id,omitempty" doc:"the conversation; omitted: a new one"`
	Streaming      string   `json:"streaming,omitempty" doc:"true: answer with NDJSON as the run goes"`
	Wait           string   `json:"wait,omitempty" doc:"false: answer at once with a handle"`
	CallbackURL    string   `json:"callback_url,omitempty" doc:"HTTPS address that receives webhook pushes"`
	IdempotencyKey string   `json:"idempotency_key,omitempty" doc:"a retry with the same key re-attaches"`
	OnConflict     string   `json:"on_conflict,omitempty" enum:"reject,enqueue"`
	Metadata       string   `json:"metadata,omitempty" doc:"a JSON object of at most 16 string pairs"`
	Title          string   `json:"title,omitempty" doc:"of a new chat"`
	AgentVersion   int      `json:"agent_version,omitempty" doc:"tries a version that need not be published (level manage)"`
	FileIDs        []string `json:"file_ids,omitempty" doc:"files sent through POST /files"`
}

// completed documents the 200 answer of a run that ended within the window.
type completed struct {
	RunID        string            `json:"run_id"`
	ChatID       string            `json:"chat_id"`
	AgentID      string            `json:"agent_id"`
	UsageStatus  string            `json:"usage_status" enum:"billed"`
	Answer       string            `json:"answer"`
	Output       json.RawMessage   `json:"output,omitempty" doc:"of an agent with an output_schema"`
	Citations    []any             `json:"citations"`
	Files        []record.FileRef  `json:"files"`
	Steps        []json.RawMessage `json:"steps"`
	Usage        view.Usage        `json:"usage"`
	FinishReason string            `json:"finish_reason"`
}

func (s *Server) chatRoutes() {
	schemas := s.api.OpenAPI().Components.Schemas
	object := func(t reflect.Type) map[string]*huma.MediaType {
		return map[string]*huma.MediaType{"application/json": {Schema: schemas.Schema(t, true, "")}}
	}
	s.api.OpenAPI().AddOperation(&huma.Operation{
		Method: http.MethodPost, Path: Base + "/chat", OperationID: "chat", Summary: "Send a message to an agent", Tags: []string{"chat"},
		Description: "Starts or continues a durable run. Needs level `run`.",
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
			"multipart/form-data": {Schema: schemas.Schema(typeOf[chatFields](), true, "")},
		}},
		Responses: map[string]*huma.Response{
			"200": {
				Description: "The run ended within the observe window: its result, or, when it was cancelled, run_id, status and agent_id. With streaming=true: NDJSON events.",
				Content: map[string]*huma.MediaType{
					"application/json":     {Schema: schemas.Schema(typeOf[completed](), true, "")},
					"application/x-ndjson": {Schema: &huma.Schema{Type: "string"}},
				},
			},
			"202": {Description: "The run goes on: its handle", Content: object(typeOf[view.Handle]())},
			"409": {Description: "The chat is busy, or five messages are parked already"},
			"429": {Description: "A rate limit or a concurrency cap; see Retry-After"},
			"500": {Description: "The run failed within the observe window; detail says why"},
		},
	})
	s.mux.HandleFunc("POST "+Base+"/chat", s.chat)
}

func (s *Server) chat(w http.ResponseWriter, r *http.Request) {
	c := callOf(r.Context())
	if err := s.postChat(w, r, c); err != nil {
		s.answerFor(c, err).write(w)
	}
}

func (s *Server) postChat(w http.ResponseWriter, r *http.Request, c *call) error {
	ctx, p := r.Context(), c.principal
	if err := p.May(tenant.LevelRun); err != nil {
		return err
	}
	r.Body = http.MaxBytesReader(w, r.Body, s.MaxBody)
	f, err := s.readChatForm(ctx, p, r)
	if err != nil {
		return err
	}
	if f.callbackURL != "" {
		f.mistake(webhook.CheckURL(s.Callbacks, f.callbackURL))
	}
	if f.streaming {
		if err := s.seat(c); err != nil {
			s.Files.Drop(ctx, f.files...)
			return err
		}
	}
	posted, err := s.post(ctx, p, f)
	if err != nil {
		return err
	}
	c.run = posted.Run.ID()
	w.Header().Set("X-Agent-Run-Id", c.run)
	if posted.Replayed {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	waiting := posted.Parked != nil && posted.Parked.RunID == nil
	switch {
	case waiting:
		return s.handle(ctx, w, posted.Run, posted.Parked)
	case f.streaming:
		return s.streamLines(ctx, w, c)
	case f.wait != nil && !*f.wait:
		return s.settled(ctx, w, p, posted, 0)
	default:
		return s.settled(ctx, w, p, posted, s.ObserveWindow)
	}
}

// post hands the message to intake, with its files; those of a message that was not accepted are removed.
func (s *Server) post(ctx context.Context, p tenant.Principal, f chatForm) (intake.Posted, error) {
	var posted intake.Posted
	var refs []record.FileRef
	var err error
	if f.agentVersion > 0 {
		f.mistake(p.May(tenant.LevelManage)) // it may be one that is not published
	}
	if refs, err = s.attach(ctx, p, f); err == nil {
		posted, err = s.Intake.Post(ctx, p, intake.Message{
			AgentID: f.agentID, Version: f.agentVersion, Text: f.message, ChatID: f.chatID, Title: f.title, Files: refs, Metadata: f.metadata,
			CallbackURL: f.callbackURL, Key: f.key, Enqueue: f.enqueue, Watched: f.streaming, Wrong: f.wrong,
		})
	}
	if err != nil || posted.Replayed {
		s.Files.Drop(ctx, f.files...)
	}
	return posted, err
}

// settled waits for a run to end or to need a human, for the window at most, and answers with how it then stands.
func (s *Server) settled(
	ctx context.Context, w http.ResponseWriter, p tenant.Principal, posted intake.Posted, window time.Duration,
) error {
	r := posted.Run
	if window > 0 && !r.Status.Rests() {
		e, err := s.wait(ctx, p, r.ID(), window, func(r record.Run) bool { return r.Status.Rests() })
		if err != nil {
			return err
		}
		r = e.Value
	}
	switch r.Status {
	case lifecycle.Completed:
		return s.completed(ctx, w, r)
	case lifecycle.Cancelled:
		return writeJSON(w, http.StatusOK, map[string]string{"run_id": r.ID(), "status": string(r.Status), "agent_id": r.Agent})
	case lifecycle.Failed, lifecycle.TimedOut:
		return problem.New(problem.Internal, "run_failed", "%s", r.Error).With("run_id", r.ID()).With("agent_id", r.Agent).With("run_status", r.Status)
	default:
		return s.handle(ctx, w, r, posted.Parked)
	}
}

// wait is feed.Until, cut short when the server stops, for one who may still read the run when it is over.
func (s *Server) wait(ctx context.Context, p tenant.Principal, run string, d time.Duration, enough func(record.Run) bool) (record.RunEntity, error) {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.stopping, cancel)()
	e, err := s.Feed.Until(waiting, s.Store, p.Scope(), run, d, enough)
	if err != nil && s.stopping.Err() != nil && errors.Is(err, context.Canceled) {
		e, err = s.Store.LiveRun(ctx, p.Scope(), run)
	}
	if err == nil {
		_, err = s.Tenants.Still(ctx, p, e.Value.Agent)
	}
	return e, err
}

// completed writes the result as it is stored, with the two members that the chat's answer has beyond it.
func (s *Server) completed(ctx context.Context, w http.ResponseWriter, r record.Run) error {
	result, err := s.Store.Output(ctx, r)
	if err != nil {
		return err
	}
	extra, err := json.Marshal(map[string]string{"agent_id": r.Agent, "usage_status": "billed"})
	if err != nil {
		return err
	}
	if len(result) < 2 || result[0] != '{' {
		return errors.New("httpapi: a result is no object")
	}
	body := append(append(append([]byte{}, result[:len(result)-1]...), ','), extra[1:]...)
	w.Header().Set("Content-Type", "application/json")
	_, err = w.Write(append(body, '\n'))
	return ignoreGone(err)
}

func (s *Server) handle(ctx context.Context, w http.ResponseWriter, r record.Run, parked *view.Parked) error {
	h, err := view.HandleOf(ctx, s.Store, r, parked)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusAccepted, h)
}

func writeJSON(w http.ResponseWriter, status int, body any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, err = w.Write(append(b, '\n'))
	return ignoreGone(err)
}

// ignoreGone drops the error of a write to a client that has gone: there is nobody to tell.
func ignoreGone(error) error { return nil }
