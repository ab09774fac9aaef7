package accounts

import (
	"context"
	"slices"
	"strings"

	"agentplatform/events"
	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
)

func (h *handlers) budgetRoutes() {
	httpapi.Route(h.admins("organizations", ""), "GET /budgets", "list-budgets",
		"List the organization's budgets and their use", h.listBudgets)
}

// BudgetView is a budget with its usage. It is exported because it is embedded, as [KeyView] is.
type BudgetView struct {
	Kind string `json:"kind" enum:"organization,group,user,api_key,agent"`
	ID   string `json:"id"`
	record.Budget
	Runs   int64   `json:"runs" doc:"runs accepted in the period"`
	Tokens int64   `json:"tokens" doc:"tokens of runs, also while they run or wait; for organizations and users, tokens of embeddings too"`
	Used   float64 `json:"used" doc:"the used share of the budget, for tokens or runs, whichever is larger; 1: all"`
	EndsAt string  `json:"ends_at"`
}

// viewBudgets reads the usage of budgets.
func (h *handlers) viewBudgets(ctx context.Context, limits []record.Limit) ([]BudgetView, error) {
	now, views := h.Host.Now(), make([]BudgetView, 0, len(limits))
	names := make([]string, 0, len(limits))
	for _, l := range limits {
		names = append(names, l.Name(now))
	}
	spent, err := h.Store.SpentOf(ctx, names...)
	if err != nil {
		return nil, err
	}
	for i, l := range limits {
		views = append(views, BudgetView{
			Kind: l.Kind, ID: l.ID, Budget: l.Budget, Runs: spent[i].Runs, Tokens: spent[i].Tokens,
			Used: l.Used(spent[i]), EndsAt: events.Time(l.Ends(now)),
		})
	}
	return views, nil
}

type namedBudgetView struct {
	BudgetView
	Name string `json:"name" doc:"the name of the user, group, agent, key or organization"`
}

type budgetList struct {
	Budgets    []namedBudgetView `json:"budgets"`
	NextCursor *string           `json:"next_cursor"`
}

// BudgetQuery is the query of a list of budgets.
type BudgetQuery struct {
	httpapi.Paging
	Kind    string     `query:"kind" enum:"organization,group,user,api_key,agent"`
	ID      httpapi.ID `query:"id" doc:"with kind: only the budget of this resource"`
	MinUsed float64    `query:"min_used" minimum:"0" maximum:"1000000" doc:"budgets with at least this used share, like 0.8"`
}

// holder is a resource that may have a budget.
type holder struct {
	kind, id, name string
	budget         *record.Budget
}

// budgetKinds are the kinds of resources that may have a budget, in the order of the list.
var budgetKinds = []string{"organization", "group", "user", "api_key", "agent"}

func (h *handlers) listBudgets(ctx context.Context, p tenant.Principal, in *BudgetQuery) (*answer[budgetList], error) {
	kinds := budgetKinds
	switch {
	case in.Kind != "":
		kinds = []string{in.Kind}
	case in.ID != "":
		return nil, problem.InvalidField("query.id", "goes with kind")
	}
	page := h.used(h.holders(p, kinds, string(in.ID)))
	budgets, next, err := httpapi.Filter(ctx, in.Paging, page, func(b namedBudgetView) (namedBudgetView, bool, error) {
		return b, b.Kind != "" && b.Used >= in.MinUsed, nil
	})
	return httpapi.Body(budgetList{budgets, next}), err
}

// used reads the usage of the budgets of one page in one request. The view of a holder without a budget is empty.
func (h *handlers) used(holders record.Listing[holder]) record.Listing[namedBudgetView] {
	return func(ctx context.Context, after string, limit int) (page record.Page[namedBudgetView], err error) {
		of, err := holders(ctx, after, limit)
		if err != nil {
			return page, err
		}
		page.Rows, page.Positions, page.Next = make([]namedBudgetView, len(of.Rows)), of.Positions, of.Next
		var limits []record.Limit
		var rows []int
		for i, one := range of.Rows {
			if one.budget != nil {
				limits = append(limits, record.Limit{Kind: one.kind, ID: one.id, Budget: *one.budget})
				rows = append(rows, i)
			}
		}
		views, err := h.viewBudgets(ctx, limits)
		for n, v := range views {
			page.Rows[rows[n]] = namedBudgetView{v, of.Rows[rows[n]].name}
		}
		return page, err
	}
}

// holders reads pages of resources that may have a budget, one kind after the other. A place is a kind with a place in
// its listing.
func (h *handlers) holders(p tenant.Principal, kinds []string, id string) record.Listing[holder] {
	return func(ctx context.Context, after string, limit int) (record.Page[holder], error) {
		kind, position, _ := strings.Cut(after, "/")
		n := slices.Index(kinds, kind)
		if n < 0 {
			n, position = 0, ""
		}
		page, err := h.holdersOf(ctx, p, kinds[n], id, position, limit)
		for i, at := range page.Positions {
			page.Positions[i] = kinds[n] + "/" + at
		}
		switch {
		case page.Next != "":
			page.Next = kinds[n] + "/" + page.Next
		case n+1 < len(kinds):
			page.Next = kinds[n+1] + "/"
		}
		return page, err
	}
}

// holdersOf is a page of one kind, or the one resource with an id, without a next page.
func (h *handlers) holdersOf(
	ctx context.Context, p tenant.Principal, kind, id, after string, limit int,
) (page record.Page[holder], err error) {
	if after != "" && (id != "" || kind == "organization") {
		return page, nil
	}
	switch kind {
	case "group":
		return holdersIn(ctx, h.Store, p.Scope(), id, after, limit, func(g catalog.Group) holder {
			return holder{kind, g.ID, g.Name, g.Budget}
		})
	case "user":
		return holdersIn(ctx, h.Store, p.Scope(), id, after, limit, func(u catalog.User) holder {
			if u.Name == "" {
				u.Name = u.Email
			}
			return holder{kind, u.ID, u.Name, u.Budget}
		})
	case "api_key":
		return holdersIn(ctx, h.Store, p.Scope(), id, after, limit, func(k catalog.APIKey) holder {
			return holder{kind, k.ID, k.Name, k.Budget}
		})
	case "agent":
		return holdersIn(ctx, h.Store, p.Scope(), id, after, limit, func(a catalog.Agent) holder {
			return holder{kind, a.ID, a.Spec.Name, a.Spec.Budget}
		})
	}
	own := p.Organization
	if own == record.NoOrganization {
		return page, nil
	}
	if id != "" && id != own {
		return page, problem.Outside("organization " + id)
	}
	e, err := h.Tenants.ReadOrganization(ctx, own)
	page.Rows, page.Positions = []holder{{kind, own, e.Value.Name, e.Value.Budget}}, []string{own}
	return page, err
}

// holdersIn are the resources of a type as holders of budgets.
func holdersIn[T record.Resourceful](
	ctx context.Context, store *record.Store, scope record.Scope, id, after string, limit int, of func(T) holder,
) (page record.Page[holder], err error) {
	if id != "" {
		e, err := record.Resource[T](ctx, store, scope, id)
		page.Rows, page.Positions = []holder{of(e.Value)}, []string{id}
		return page, err
	}
	rows, err := record.Resources[T](ctx, store, scope, after, limit)
	for _, e := range rows.Rows {
		page.Rows = append(page.Rows, of(e.Value))
	}
	page.Positions, page.Next = rows.Positions, rows.Next
	return page, err
}

// budgets are the budgets that a principal's requests count against, besides those of agents.
func (h *handlers) budgets(ctx context.Context, p tenant.Principal) ([]BudgetView, error) {
	limits, err := h.Tenants.Limits(ctx, p, catalog.Agent{})
	if err != nil {
		return nil, err
	}
	return h.viewBudgets(ctx, limits)
}
