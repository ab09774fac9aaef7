package httpapi

import (
	"context"
	"slices"

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
		if _, err := s.Intake.Run(ctx, p, in.RunID); problem.Is(err, "insufficient_permission") {
			return nil, err
		}
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
		seen, err := s.deliveriesFor(ctx, p, page.Rows)
		if err != nil {
			return nil, err
		}
		for _, e := range seen {
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

// deliveriesFor leaves out the deliveries of runs that the principal may have nothing to do with.
func (s *Server) deliveriesFor(
	ctx context.Context, p tenant.Principal, rows []record.HookEntity,
) ([]record.HookEntity, error) {
	ids := make([]string, 0, len(rows))
	for _, e := range rows {
		ids = append(ids, e.Value.RunID)
	}
	runs, err := s.Store.Runs(ctx, p.Scope(), ids...)
	if err != nil {
		return nil, err
	}
	hidden := map[string]bool{}
	for _, e := range runs {
		hidden[e.Value.ID()] = true
	}
	if runs, err = s.Intake.RunsFor(ctx, p, runs); err != nil {
		return nil, err
	}
	for _, e := range runs {
		delete(hidden, e.Value.ID())
	}
	return slices.DeleteFunc(rows, func(e record.HookEntity) bool { return hidden[e.Value.RunID] }), nil
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
	e, err := s.Store.Delivery(ctx, p.Scope(), in.ID)
	if err != nil {
		return nil, err
	}
	if _, err := s.Intake.Run(ctx, p, e.Value.RunID); err != nil {
		return nil, err
	}
	h, err := s.Webhooks.Redeliver(ctx, p.Scope(), in.ID, in.Body != nil && in.Body.Force)
	if err != nil {
		return nil, err
	}
	if err := s.Store.NoteDeed(ctx, h.Organization, "delivery", h.DeliveryID); err != nil {
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
