// Package webhooks is the area of the API for deliveries of webhook pushes.
//
// It holds no rule about when a delivery is tried; those are webhook's. It imports the framework above it and no other
// area.
package webhooks

import (
	"cmp"
	"context"
	"slices"

	"agentplatform/events"
	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/egress"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/run/intake"
	"agentplatform/internal/run/webhook"
	"agentplatform/internal/store/record"
)

// Config has the dependencies of the area's operations.
type Config struct {
	Intake    *intake.Intake
	Store     *record.Store
	Sender    *webhook.Sender
	Prober    webhook.Prober
	Callbacks egress.Policy // where pushes may go
}

// answer is short for signatures.
type answer[T any] = httpapi.Answer[T]

// handlers are the operations of the area.
type handlers struct {
	Config
	*httpapi.Server
}

// Routes adds the area's operations to a server.
func Routes(s *httpapi.Server, c Config) {
	h := &handlers{Config: c, Server: s}
	h.describePushes()
	r := httpapi.Routes{Server: s, Tag: "webhooks", What: "delivery", Read: tenant.LevelRead, Write: tenant.LevelRun}
	httpapi.Route(r, "GET /webhooks/deliveries", "list-deliveries",
		"List webhook deliveries, newest first", h.listDeliveries)
	httpapi.Route(r, "GET /webhooks/deliveries/{id}", "read-delivery",
		"Read a webhook delivery with all its attempts", h.readDelivery)
	httpapi.Route(r, "POST /webhooks/deliveries/{id}/redeliver", "redeliver", "Send a delivery again", h.redeliver)
	httpapi.Route(r, "POST /webhooks/test", "test-webhook", "Send a test event to an address", h.testWebhook)
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
	Event         string        `json:"event" enum:"agent_run.awaiting_input,agent_run.terminal"`
	StatusOfRun   string        `json:"status_of_run" enum:"awaiting_input,completed,failed,cancelled,timed_out"`
	State         string        `json:"state" enum:"pending,delivered,failed"`
	Attempts      []attemptView `json:"attempts"`
	NextAttemptAt *string       `json:"next_attempt_at"`
	CallbackURL   string        `json:"callback_url"`
}

func viewAttempt(a record.DeliveryAttempt) attemptView {
	v := attemptView{At: events.Time(a.At), LatencyMS: a.LatencyMS, Error: httpapi.Optional(a.Error)}
	if a.Status != 0 {
		v.Status, v.ResponseExcerpt = &a.Status, &a.ResponseExcerpt
	}
	return v
}

func viewDelivery(d record.Delivery) deliveryView {
	return deliveryView{
		DeliveryID:    d.DeliveryID,
		RunID:         d.RunID,
		Event:         d.Event,
		StatusOfRun:   d.Status,
		State:         string(d.State),
		Attempts:      httpapi.Each(d.Attempts, viewAttempt),
		NextAttemptAt: httpapi.OptionalTime(d.NextAttempt),
		CallbackURL:   d.Address(),
	}
}

type deliveryList struct {
	Deliveries []deliveryView `json:"deliveries"`
	NextCursor *string        `json:"next_cursor"`
}

func (h *handlers) listDeliveries(ctx context.Context, p tenant.Principal, in *struct {
	httpapi.Paging
	RunID httpapi.ID `query:"run_id"`
	State string     `query:"state" enum:"pending,delivered,failed"`
}) (*answer[deliveryList], error) {
	keep := func(d record.Delivery) bool { return in.State == "" || string(d.State) == in.State }
	var hidden map[string]bool
	if in.RunID != "" {
		if _, err := h.Intake.Run(ctx, p, string(in.RunID)); problem.Is(err, "insufficient_permission") {
			return nil, err
		}
		rows, err := h.Store.DeliveriesOfRun(ctx, p.Scope(), string(in.RunID))
		if err != nil {
			return nil, err
		}
		if hidden, err = h.hiddenRuns(ctx, p, rows); err != nil {
			return nil, err
		}
		rows = slices.DeleteFunc(rows, func(e record.DeliveryEntity) bool {
			return !keep(e.Value) || hidden[e.Value.RunID]
		})
		return httpapi.Body(deliveryList{httpapi.Views(rows, viewDelivery), nil}), nil
	}
	own, err := h.Tenants.ListsOwn(ctx, p, "")
	if err != nil {
		return nil, err
	}
	list, next, err := httpapi.Filter(ctx, in.Paging,
		func(ctx context.Context, after string, limit int) (page record.Page[record.DeliveryEntity], err error) {
			if own {
				page, err = h.Store.DeliveriesOfUser(ctx, p.Scope(), p.User, after, limit)
			} else {
				page, err = h.Store.Deliveries(ctx, p.Scope(), after, limit)
			}
			if err == nil {
				hidden, err = h.hiddenRuns(ctx, p, page.Rows)
			}
			return page, err
		},
		func(e record.DeliveryEntity) (deliveryView, bool, error) {
			return viewDelivery(e.Value), keep(e.Value) && !hidden[e.Value.RunID], nil
		})
	return httpapi.Body(deliveryList{list, next}), err
}

func (h *handlers) readDelivery(
	ctx context.Context, p tenant.Principal, in *httpapi.IDPath,
) (*answer[deliveryView], error) {
	d, err := h.delivery(ctx, p, in.ID)
	return httpapi.Body(viewDelivery(d)), err
}

// delivery reads a delivery of a run that the principal may reach.
func (h *handlers) delivery(ctx context.Context, p tenant.Principal, id string) (record.Delivery, error) {
	e, err := h.Store.Delivery(ctx, p.Scope(), id)
	if err == nil {
		_, err = h.Intake.Run(ctx, p, e.Value.RunID)
	}
	return e.Value, err
}

// hiddenRuns are those runs of some deliveries that the principal may not see. Of a deleted run, the owner is known, or
// for deliveries of earlier versions the sender.
func (h *handlers) hiddenRuns(
	ctx context.Context, p tenant.Principal, rows []record.DeliveryEntity,
) (map[string]bool, error) {
	ids := make([]string, 0, len(rows))
	for _, e := range rows {
		ids = append(ids, e.Value.RunID)
	}
	runs, err := h.Store.Runs(ctx, p.Scope(), ids...)
	if err != nil {
		return nil, err
	}
	hidden, sees, reachable := map[string]bool{}, h.Intake.Sees(ctx, p), h.Tenants.Reachable(ctx, p)
	for _, e := range rows {
		may, err := reachable(lifecycle.Whose{Owner: cmp.Or(e.Value.Owner, e.Value.User)})
		if err != nil {
			return nil, err
		}
		hidden[e.Value.RunID] = !may
	}
	for _, e := range runs {
		may, err := sees(e.Value)
		if err != nil {
			return nil, err
		}
		hidden[e.Value.ID()] = !may
	}
	return hidden, nil
}

func (h *handlers) redeliver(ctx context.Context, p tenant.Principal, in *struct {
	httpapi.IDPath
	Body *struct {
		Force bool `json:"force,omitempty" doc:"true: also send deliveries that have not failed"`
	}
}) (*answer[deliveryView], error) {
	if _, err := h.delivery(ctx, p, in.ID); err != nil {
		return nil, err
	}
	d, err := h.Sender.Redeliver(ctx, p.Scope(), in.ID, in.Body != nil && in.Body.Force)
	if err != nil {
		return nil, err
	}
	h.Wake(ctx, events.WakeupWebhook, d.WakeupID(), d.Organization)
	return httpapi.Body(viewDelivery(d)), nil
}

func (h *handlers) testWebhook(ctx context.Context, p tenant.Principal, in *struct {
	Body struct {
		CallbackURL string `json:"callback_url" required:"true"`
	}
}) (*answer[attemptView], error) {
	if err := webhook.CheckURL(h.Callbacks, in.Body.CallbackURL); err != nil {
		return nil, err
	}
	attempt, err := h.Prober.Probe(ctx, p.Organization, in.Body.CallbackURL)
	return httpapi.Body(viewAttempt(attempt)), err
}
