package httpapi

import (
	"context"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"agentplatform/events"
	"agentplatform/internal/record"
	"agentplatform/internal/tenant"
	"agentplatform/internal/version"
)

type health struct {
	Status  string `json:"status" enum:"ok"`
	Version string `json:"version" doc:"of the program; dev where none was set"`
	Commit  string `json:"commit" doc:"that the program was built from; unknown where none was set"`
}

type me struct {
	Level        string                     `json:"level"`
	APIKey       keyView                    `json:"api_key"`
	User         userView                   `json:"user"`
	Organization nullable[organizationView] `json:"organization"`
	Limits       struct {
		ActiveRunsOfUser         int `json:"active_runs_of_user"`
		ActiveRunsOfOrganization int `json:"active_runs_of_organization" doc:"0: no limit"`
		RequestsPerMinute        int `json:"requests_per_minute"`
		Burst                    int `json:"burst"`
	} `json:"limits"`
	Activity struct {
		ActiveRunsOfUser         int `json:"active_runs_of_user"`
		ActiveRunsOfOrganization int `json:"active_runs_of_organization"`
	} `json:"activity"`
	Budgets []budgetView `json:"budgets" doc:"that hold for what this key sends, besides those of agents"`
}

type budgetView struct {
	Kind string `json:"kind" enum:"organization,group,user,api_key,agent"`
	ID   string `json:"id"`
	record.Budget
	Runs   int64  `json:"runs" doc:"accepted in the period"`
	Tokens int64  `json:"tokens" doc:"used by runs that have ended"`
	EndsAt string `json:"ends_at"`
}

func (s *Server) metaRoutes() {
	huma.Register(s.api, huma.Operation{
		Method: http.MethodGet, Path: Base + "/healthz", OperationID: "health", Summary: "Whether the service is up", Tags: []string{"meta"},
		Security: []map[string][]string{},
	}, func(context.Context, *struct{}) (*answer[health], error) {
		v, commit := version.Read()
		return &answer[health]{Body: health{Status: "ok", Version: v, Commit: commit}}, nil
	})
	register(s, operation{method: "GET", path: "/me", level: tenant.LevelRead, id: "me", summary: "Who this key is, and what it may", tag: "meta"}, s.me)
	s.docsRoutes()
	s.operatorRoutes()
}

func (s *Server) me(ctx context.Context, p tenant.Principal, _ *struct{}) (*answer[me], error) {
	var m me
	used, err := s.Store.KeyUses(ctx, p.Key.ID)
	if err != nil {
		return nil, err
	}
	m.Level, m.APIKey, m.User = string(p.Level), viewKey(p.Key, used[0]), viewUser(p.User)
	if p.Organization.ID != record.Nobody {
		o := s.viewOrganization(p.Organization)
		m.Organization.value = &o
	}
	m.Limits.RequestsPerMinute, m.Limits.Burst = s.Tenants.Rate(p.Organization)
	m.Limits.ActiveRunsOfUser, m.Limits.ActiveRunsOfOrganization, err = s.Tenants.Caps(ctx, p.Organization.ID, p.User.ID)
	if err != nil {
		return nil, err
	}
	if m.Activity.ActiveRunsOfUser, err = s.Store.CountingRunsOfUser(ctx, p.Organization.ID, p.User.ID); err != nil {
		return nil, err
	}
	if m.Activity.ActiveRunsOfOrganization, err = s.Store.CountingRuns(ctx, p.Organization.ID); err != nil {
		return nil, err
	}
	m.Budgets, err = s.budgets(ctx, p)
	return &answer[me]{Body: m}, err
}

func (s *Server) budgets(ctx context.Context, p tenant.Principal) ([]budgetView, error) {
	limits, err := s.Tenants.Limits(ctx, p, record.Agent{})
	if err != nil {
		return nil, err
	}
	now, list := s.Host.Now(), []budgetView{}
	for _, l := range limits {
		spent, err := s.Store.Spent(ctx, l.Name(now))
		if err != nil {
			return nil, err
		}
		list = append(list, budgetView{Kind: l.Kind, ID: l.ID, Budget: l.Budget, Runs: spent.Runs, Tokens: spent.Tokens, EndsAt: events.Time(l.Ends(now))})
	}
	return list, nil
}

// errorBody documents the one error body.
type errorBody struct {
	Status    string `json:"status" enum:"error"`
	Code      string `json:"code" doc:"machine-readable" enum:"invalid_request,callback_url_not_https,callback_url_forbidden,url_forbidden,payload_too_large,missing_api_key,invalid_api_key,insufficient_permission,outside_organization,not_found,method_not_allowed,chat_busy,parked_queue_full,run_not_active,interrupts_mismatch,not_awaiting_input,already_started,count_mismatch,conflict,precondition_failed,rate_limited,user_concurrency_cap,organization_concurrency_cap,budget_exhausted,internal,run_failed,unavailable"`
	Message   string `json:"message"`
	Detail    string `json:"detail" doc:"the same sentence as message"`
	RequestID string `json:"request_id"`
	Errors    []struct {
		Location string `json:"location"`
		Message  string `json:"message"`
	} `json:"errors,omitempty" doc:"for invalid_request: what is wrong, and where"`
	RetryAfter  int    `json:"retry_after,omitempty" doc:"seconds, as in the Retry-After header"`
	ActiveRunID string `json:"active_run_id,omitempty" doc:"for chat_busy and parked_queue_full"`
}

// finishDocument gives every operation the one error body.
func (s *Server) finishDocument() {
	document := s.api.OpenAPI()
	schema := huma.SchemaFromType(document.Components.Schemas, typeOf[errorBody]())
	document.Components.Schemas.Map()["Error"] = schema
	body := func(what string) *huma.Response {
		return &huma.Response{Description: what, Content: map[string]*huma.MediaType{
			"application/json": {Schema: &huma.Schema{Ref: "#/components/schemas/Error"}},
		}}
	}
	for path, item := range document.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Post, item.Put, item.Patch, item.Delete} {
			if op == nil {
				continue
			}
			delete(op.Responses, "422")
			for status, response := range op.Responses {
				if strings.HasPrefix(status, "4") || strings.HasPrefix(status, "5") || status == "default" {
					response.Content = body("").Content
				}
			}
			if strings.HasSuffix(path, "/healthz") {
				continue
			}
			op.Responses["default"] = body("An error; its code says which")
		}
	}
	delete(document.Components.Schemas.Map(), "ErrorModel")
	delete(document.Components.Schemas.Map(), "ErrorDetail")
}
