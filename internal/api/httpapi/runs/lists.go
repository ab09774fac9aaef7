package runs

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/run/intake"
	"agentplatform/internal/run/view"
	"agentplatform/internal/store/record"
)

type runList struct {
	Runs       []view.Run `json:"runs"`
	NextCursor *string    `json:"next_cursor"`
}

// RunQuery is the query of a list of runs; an empty member matches all.
type RunQuery struct {
	Status        []string       `query:"status" nullable:"false" enum:"queued,running,awaiting_input,completed,failed,cancelled,timed_out" doc:"one or more statuses, separated by commas; filters for active runs are always fast"`
	AgentID       httpapi.ID     `query:"agent_id"`
	ChatID        httpapi.ChatID `query:"chat_id"`
	UserID        httpapi.ID     `query:"user_id"`
	APIKeyID      httpapi.ID     `query:"api_key_id"`
	CreatedAfter  time.Time      `query:"created_after"`
	CreatedBefore time.Time      `query:"created_before"`
}

func (q RunQuery) matches(r record.Run) bool {
	created := r.CreatedAt.Truncate(time.Millisecond) // the resolution of answers
	return (len(q.Status) == 0 || slices.Contains(q.Status, string(r.Status))) &&
		(q.AgentID == "" || r.Agent == string(q.AgentID)) && (q.ChatID == "" || r.Chat == string(q.ChatID)) &&
		(q.UserID == "" || r.User == string(q.UserID)) && (q.APIKeyID == "" || r.APIKey == string(q.APIKeyID)) &&
		(q.CreatedAfter.IsZero() || created.After(q.CreatedAfter)) &&
		(q.CreatedBefore.IsZero() || created.Before(q.CreatedBefore))
}

// listing is the shortest listing that has all runs of a query.
func (h *handlers) listing(
	ctx context.Context, p tenant.Principal, q RunQuery,
) (record.Listing[record.RunEntity], error) {
	switch {
	case q.ChatID != "":
		chat, err := h.findChat(ctx, p, string(q.ChatID))
		if refused, is := problem.As(err); is && refused.Kind != problem.Unavailable {
			return nothing, nil
		}
		return h.runsOfChat(p, chat), err
	case len(q.Status) > 0 && !slices.ContainsFunc(q.Status, terminal):
		return h.activePage(p, q), nil
	default:
		own, err := h.Tenants.ListsOwn(ctx, p, string(q.AgentID))
		return httpapi.Between(q.CreatedAfter, q.CreatedBefore, func(
			ctx context.Context, after string, limit int,
		) (record.Page[record.RunEntity], error) {
			if own {
				return h.Store.RunsOfUser(ctx, p.Scope(), p.User, after, limit)
			}
			return h.Store.RunsOfOrganization(ctx, p.Scope(), after, limit)
		}), err
	}
}

// runsOfChat lists the runs of a chat, newest first.
func (h *handlers) runsOfChat(p tenant.Principal, chat record.ChatEntity) record.Listing[record.RunEntity] {
	return func(ctx context.Context, after string, limit int) (record.Page[record.RunEntity], error) {
		return h.Store.RunsOfChat(ctx, p.Scope(), chat.Value, after, limit)
	}
}

// nothing is an empty page of a listing.
func nothing(context.Context, string, int) (page record.Page[record.RunEntity], err error) {
	return page, nil
}

func terminal(status string) bool { return lifecycle.Status(status).Terminal() }

// activePage reads the active runs of a query, which are few. Their ids are read once, by the first page.
func (h *handlers) activePage(p tenant.Principal, q RunQuery) record.Listing[record.RunEntity] {
	var active []string // newest first
	return func(ctx context.Context, after string, limit int) (page record.Page[record.RunEntity], err error) {
		if active == nil {
			if active, err = h.activeIDs(ctx, p, q); err != nil {
				return page, err
			}
			slices.Reverse(active)
		}
		ids := slices.DeleteFunc(slices.Clone(active), func(id string) bool { return after != "" && id >= after })
		if len(ids) > limit {
			ids = ids[:limit]
			page.Next = ids[limit-1]
		}
		page.Rows, err = h.Store.Runs(ctx, p.Scope(), ids...)
		for _, e := range page.Rows {
			page.Positions = append(page.Positions, e.Value.ID())
		}
		return page, err
	}
}

// activeIDs are the runs that may have one of the active statuses of a query, in order; without statuses, all active
// runs. It finds them by the slots that they hold.
func (h *handlers) activeIDs(ctx context.Context, p tenant.Principal, q RunQuery) (ids []string, err error) {
	own, err := h.Tenants.ListsOwn(ctx, p, string(q.AgentID))
	switch waits := slices.Contains(q.Status, string(lifecycle.AwaitingInput)); {
	case err != nil:
		return nil, err
	case own:
		return h.Store.ActiveRunsOfUser(ctx, p.Scope(), p.User)
	case waits && len(q.Status) == 1:
		var paused []record.PausedRun
		paused, _, err = h.Store.PausedRuns(ctx, p.Organization)
		for _, r := range paused {
			ids = append(ids, r.RunID)
		}
	case waits || len(q.Status) == 0:
		ids, err = h.Store.ActiveRuns(ctx, p.Organization)
	default:
		ids, err = h.Store.CountedRuns(ctx, p.Organization)
	}
	slices.Sort(ids)
	return ids, err
}

func (h *handlers) listRuns(ctx context.Context, p tenant.Principal, in *struct {
	httpapi.Paging
	RunQuery
}) (*answer[runList], error) {
	page, err := h.listing(ctx, p, in.RunQuery)
	if err != nil {
		return nil, err
	}
	seen := h.seer(ctx, p)
	runs, next, err := httpapi.Filter(ctx, in.Paging, page, httpapi.Bounded(
		func(e record.RunEntity) (v view.Run, may bool, err error) {
			if !in.matches(e.Value) {
				return v, false, nil
			}
			return seen(e.Value)
		}))
	return httpapi.Body(runList{runs, next}), err
}

// seer returns the present state of a run of a listing. may is false for a run that the principal may not read, or that
// is being removed.
func (h *handlers) seer(
	ctx context.Context, p tenant.Principal,
) func(record.Run) (v view.Run, may bool, err error) {
	sees := h.Intake.Sees(ctx, p)
	return func(r record.Run) (v view.Run, may bool, err error) {
		if may, err = sees(r); err != nil || !may {
			return v, false, err
		}
		live, err := h.Store.LiveRun(ctx, p.Scope(), r.ID())
		if problem.Is(err, "not_found") {
			return v, false, nil // its chat is being removed
		}
		if err != nil {
			return v, false, err
		}
		v, err = h.shown(ctx, p, live)
		return v, true, err
	}
}

type cancelledList struct {
	Matched int        `json:"matched"`
	Runs    []view.Run `json:"runs"`
}

func (h *handlers) cancelMany(ctx context.Context, p tenant.Principal, in *struct {
	Body struct {
		_ struct{} `json:"-" additionalProperties:"false"`

		Filter struct {
			_ struct{} `json:"-" additionalProperties:"false"`

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
	f := in.Body.Filter
	q := RunQuery{
		AgentID: httpapi.ID(f.AgentID), ChatID: httpapi.ChatID(f.ChatID), UserID: httpapi.ID(f.UserID),
	}
	if f.Status != "" {
		q.Status = []string{f.Status}
	}
	runs, err := h.activeRuns(ctx, p, q)
	if err != nil {
		return nil, err
	}
	if len(runs) != in.Body.ConfirmCount {
		return nil, problem.New(problem.Conflict, "count_mismatch",
			"%d runs match, but confirm_count is %d: nothing was cancelled; send the current number",
			len(runs), in.Body.ConfirmCount).
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
	return httpapi.Body(out), nil
}

// checkFilter refuses filters that look like a condition and are none: a member that is null or empty, an id that
// nothing can have.
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
			return problem.InvalidField("body.filter."+name, "must be a valid value, or omitted")
		}
	}
	return nil
}

// activeRuns reads the heads of the active runs that match, and that the principal may see.
func (h *handlers) activeRuns(ctx context.Context, p tenant.Principal, q RunQuery) ([]record.RunEntity, error) {
	ids, err := h.activeIDs(ctx, p, q)
	if err != nil {
		return nil, err
	}
	runs, err := h.Store.Runs(ctx, p.Scope(), ids...)
	if err != nil {
		return nil, err
	}
	return h.Intake.RunsFor(ctx, p, slices.DeleteFunc(runs, func(e record.RunEntity) bool {
		return !e.Value.Status.Active() || !q.matches(e.Value)
	}))
}
