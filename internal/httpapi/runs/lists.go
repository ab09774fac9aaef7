package runs

import (
	"context"
	"encoding/json"
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
			v, err := h.shown(ctx, p, live)
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
		v, err := h.shown(ctx, p, after)
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
