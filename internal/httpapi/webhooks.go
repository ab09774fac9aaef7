package httpapi

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"agentplatform/events"
	"agentplatform/internal/host"
	"agentplatform/internal/problem"
	"agentplatform/internal/record"
	"agentplatform/internal/tenant"
	"agentplatform/internal/webhook"
)

func (s *Server) webhookRoutes() {
	register(s, operation{method: "GET", path: "/webhooks/deliveries", level: tenant.LevelRead, id: "list-deliveries", summary: "List webhook deliveries, newest first", tag: "webhooks"}, s.listDeliveries)
	register(s, operation{method: "POST", path: "/webhooks/deliveries/{id}/redeliver", level: tenant.LevelRun, id: "redeliver", summary: "Try a delivery again", tag: "webhooks"}, s.redeliver)
	register(s, operation{method: "POST", path: "/webhooks/test", level: tenant.LevelRun, id: "test-webhook", summary: "Send a test event to an address", tag: "webhooks"}, s.testWebhook)
}

type attemptView struct {
	At              string  `json:"at"`
	Status          *int    `json:"status"`
	LatencyMS       int64   `json:"latency_ms"`
	Error           *string `json:"error"`
	ResponseExcerpt *string `json:"response_excerpt"`
}

type deliveryView struct {
	DeliveryID    string        `json:"delivery_id"`
	RunID         string        `json:"run_id"`
	Event         string        `json:"event"`
	StatusOfRun   string        `json:"status_of_run"`
	State         string        `json:"state" enum:"pending,delivered,failed"`
	Attempts      []attemptView `json:"attempts"`
	NextAttemptAt *string       `json:"next_attempt_at"`
	CallbackURL   string        `json:"callback_url"`
}

func viewAttempt(a record.HookAttempt) attemptView {
	v := attemptView{At: events.Time(a.At), LatencyMS: a.LatencyMS}
	if a.Status != 0 {
		v.Status, v.ResponseExcerpt = &a.Status, &a.ResponseExcerpt
	}
	if a.Error != "" {
		v.Error = &a.Error
	}
	return v
}

func viewDelivery(h record.Hook) deliveryView {
	v := deliveryView{
		DeliveryID: h.DeliveryID, RunID: h.RunID, Event: h.Event, StatusOfRun: h.Status, State: string(h.State), Attempts: []attemptView{},
		NextAttemptAt: optionalTime(h.NextAttempt), CallbackURL: h.CallbackURL,
	}
	for _, a := range h.Attempts {
		v.Attempts = append(v.Attempts, viewAttempt(a))
	}
	return v
}

type deliveryList struct {
	Deliveries []deliveryView `json:"deliveries"`
	NextCursor *string        `json:"next_cursor"`
}

func (s *Server) listDeliveries(ctx context.Context, p tenant.Principal, in *struct {
	Paging
	RunID string `query:"run_id"`
	State string `query:"state" enum:"pending,delivered,failed"`
}) (*answer[deliveryList], error) {
	after, err := decodeCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	list := deliveryList{Deliveries: []deliveryView{}}
	keep := func(h record.Hook) bool { return in.State == "" || string(h.State) == in.State }
	if in.RunID != "" {
		rows, err := s.Store.DeliveriesOfRun(ctx, p.Scope(), in.RunID)
		if err != nil {
			return nil, err
		}
		for _, e := range rows {
			if keep(e.Value) {
				list.Deliveries = append(list.Deliveries, viewDelivery(e.Value))
			}
		}
		return &answer[deliveryList]{Body: list}, nil
	}
	for looked := 0; looked < scanned && len(list.Deliveries) < in.Limit; looked += in.Limit {
		page, err := s.Store.Deliveries(ctx, p.Scope(), after, in.Limit-len(list.Deliveries))
		if err != nil {
			return nil, err
		}
		for _, e := range page.Rows {
			if keep(e.Value) {
				list.Deliveries = append(list.Deliveries, viewDelivery(e.Value))
			}
		}
		list.NextCursor, after = encodeCursor(page.Next), page.Next
		if after == "" {
			break
		}
	}
	return &answer[deliveryList]{Body: list}, nil
}

func (s *Server) redeliver(ctx context.Context, p tenant.Principal, in *struct {
	IDPath
	Body *struct {
		Force bool `json:"force,omitempty" doc:"also for deliveries that have not failed"`
	}
}) (*answer[deliveryView], error) {
	if !host.ValidID(in.ID) {
		return nil, problem.Missing("delivery " + in.ID)
	}
	h, err := s.Webhooks.Redeliver(ctx, p.Scope(), in.ID, in.Body != nil && in.Body.Force)
	if err != nil {
		return nil, err
	}
	s.nudgeHook(ctx, h)
	return &answer[deliveryView]{Body: viewDelivery(h)}, nil
}

func (s *Server) testWebhook(ctx context.Context, p tenant.Principal, in *struct {
	Body struct {
		CallbackURL string `json:"callback_url" required:"true"`
	}
}) (*answer[attemptView], error) {
	if err := webhook.CheckURL(s.Callbacks, in.Body.CallbackURL); err != nil {
		return nil, err
	}
	attempt, err := s.Webhooks.Probe(ctx, p.Organization.ID, in.Body.CallbackURL)
	return &answer[attemptView]{Body: viewAttempt(attempt)}, err
}

func (s *Server) nudgeHook(ctx context.Context, h record.Hook) {
	if s.Redelivered != nil {
		s.Redelivered(context.WithoutCancel(ctx), h)
	}
}

func readJSON(r *http.Request, into any) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	var wrong *json.UnmarshalTypeError
	err = json.Unmarshal(body, into)
	if errors.As(err, &wrong) {
		return problem.InvalidField("body."+wrong.Field, "must not be a %s", wrong.Value)
	}
	if err != nil {
		return problem.InvalidField("body", "is not valid JSON: %s", err)
	}
	return nil
}

type ledgerEntry struct {
	RunID        string `json:"run_id"`
	ChatID       string `json:"chat_id"`
	AgentID      string `json:"agent_id"`
	UserID       string `json:"user_id"`
	Status       string `json:"status"`
	Billed       bool   `json:"billed"`
	InputTokens  int64  `json:"input_tokens"`
	OutputTokens int64  `json:"output_tokens"`
	ActiveMS     int64  `json:"active_ms"`
	ModelCalls   int64  `json:"model_calls"`
	ToolCalls    int64  `json:"tool_calls"`
	FinishedAt   string `json:"finished_at"`
}

func (e ledgerEntry) cells() []string {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	return []string{
		e.RunID, e.ChatID, e.AgentID, e.UserID, e.Status, strconv.FormatBool(e.Billed), number(e.InputTokens), number(e.OutputTokens),
		number(e.ActiveMS), number(e.ModelCalls), number(e.ToolCalls), e.FinishedAt,
	}
}

var ledgerColumns = []string{
	"run_id", "chat_id", "agent_id", "user_id", "status", "billed", "input_tokens", "output_tokens", "active_ms", "model_calls", "tool_calls", "finished_at",
}

func viewEntry(e record.Entry) ledgerEntry {
	return ledgerEntry{
		RunID: e.RunID, ChatID: e.ChatID, AgentID: e.AgentID, UserID: e.UserID, Status: e.Status, Billed: e.Billed, InputTokens: e.InputTokens,
		OutputTokens: e.OutputTokens, ActiveMS: e.ActiveMS, ModelCalls: e.ModelCalls, ToolCalls: e.ToolCalls, FinishedAt: events.Time(e.FinishedAt),
	}
}

type ledgerList struct {
	Entries    []ledgerEntry `json:"entries"`
	NextCursor *string       `json:"next_cursor"`
}

func (s *Server) usage(ctx context.Context, p tenant.Principal, in *struct {
	Paging
	Accept string `header:"Accept" doc:"text/csv gives CSV, whole"`
}) (*huma.StreamResponse, error) {
	after, err := decodeCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(in.Accept, "text/csv") {
		return &huma.StreamResponse{Body: func(c huma.Context) { s.usageCSV(ctx, p, c) }}, nil
	}
	page, err := s.Store.Ledger(ctx, p.Scope(), after, in.Limit)
	if err != nil {
		return nil, err
	}
	list := ledgerList{Entries: []ledgerEntry{}, NextCursor: encodeCursor(page.Next)}
	for _, e := range page.Rows {
		list.Entries = append(list.Entries, viewEntry(e.Value))
	}
	body, err := json.Marshal(list)
	return &huma.StreamResponse{Body: func(c huma.Context) {
		c.SetHeader("Content-Type", "application/json")
		_, _ = c.BodyWriter().Write(append(body, '\n'))
	}}, err
}

// usageCSV writes the whole ledger, a page at a time. Cells that a spreadsheet would take for a formula are defused.
func (s *Server) usageCSV(ctx context.Context, p tenant.Principal, c huma.Context) {
	c.SetHeader("Content-Type", "text/csv; charset=utf-8")
	w := csv.NewWriter(c.BodyWriter())
	_ = w.Write(ledgerColumns)
	after := ""
	for {
		page, err := s.Store.Ledger(ctx, p.Scope(), after, 100)
		if err != nil {
			panic(http.ErrAbortHandler) // half a table must not look like a whole one
		}
		for _, e := range page.Rows {
			cells := viewEntry(e.Value).cells()
			for i, cell := range cells {
				cells[i] = defuse(cell)
			}
			_ = w.Write(cells)
		}
		w.Flush()
		if page.Next == "" || w.Error() != nil {
			return
		}
		after = page.Next
	}
}

func defuse(cell string) string {
	if cell != "" && strings.ContainsRune("=+-@", rune(cell[0])) {
		return "'" + cell
	}
	return cell
}
