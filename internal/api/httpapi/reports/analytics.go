package reports

import (
	"context"
	"strings"
	"time"

	"agentplatform/events"
	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/org/analytics"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/rollup"
)

// Every read rolls up the entries that are not rolled up yet, with a key of any level. The rollup follows from the
// ledger, and does not depend on the request.
func (h *handlers) analyticsRoutes() {
	r := httpapi.Routes{Server: h.Server, Tag: "analytics", Read: tenant.LevelAdmin}
	httpapi.Route(r, "GET /analytics/summary", "analytics-summary", "Read the totals of a time range", h.summary,
		httpapi.Stores)
	httpapi.Route(r, "GET /analytics/timeseries", "analytics-timeseries",
		"A metric over time, each interval of the range", h.timeseries, httpapi.Stores)
	r.Read = tenant.LevelRead
	httpapi.Route(r, "GET /analytics/me", "analytics-me",
		"Read the usage of the key's own user in a time range", h.mine,
		httpapi.Stores)
}

// Span is the query of a range of time.
type Span struct {
	From string `query:"from" maxLength:"40" doc:"inclusive: a time (RFC 3339), or a date in the time zone; by default 30 days before to"`
	To   string `query:"to" maxLength:"40" doc:"exclusive; the end of the present minute by default. At most 400 days after from"`
}

// About is the part of a query that selects entries by agent, key and model.
type About struct {
	AgentID  httpapi.ID `query:"agent_id"`
	APIKeyID httpapi.ID `query:"api_key_id"`
	Model    string     `query:"model" maxLength:"300" doc:"provider/name"`
}

// Counting is the query that summaries and series have in common, without its subject.
type Counting struct {
	Span
	About

	Kind     string `query:"kind" enum:"run,ingestion,search" default:"run" doc:"the kind of ledger entries: runs, or embeddings of documents (ingestion) and of searches (search)"`
	Timezone string `query:"timezone" maxLength:"64" default:"UTC" doc:"the IANA name of a time zone"`
}

// Everyone is the part of a query that selects a user, for callers who may read the entries of others.
type Everyone struct {
	UserID httpapi.ID `query:"user_id"`
}

// defaultRange is the range that is counted without from and to.
const defaultRange = 30 * 24 * time.Hour

// within reads a range. With open, an absent bound is not a bound; without it, the default is the last 30 days.
func (s Span) within(now time.Time, zone *time.Location, open bool) (from, to time.Time, err error) {
	if to, err = instant("query.to", s.To, zone); err != nil {
		return from, to, err
	}
	if from, err = instant("query.from", s.From, zone); err != nil || open {
		return from, to, err
	}
	if to.IsZero() { // whole minutes, so that requests within one minute without new entries have the same ETag
		to = now.Truncate(time.Minute).Add(time.Minute)
	}
	if from.IsZero() {
		from = to.Add(-defaultRange)
	}
	return from, to, nil
}

// instant reads a time or a date; zero for an empty text.
func instant(field, text string, zone *time.Location) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		if at, err = time.ParseInLocation(time.DateOnly, text, zone); err != nil {
			return at, problem.InvalidField(field,
				"must be a time like 2026-01-31T12:00:00Z, or a date like 2026-01-31")
		}
	}
	if at = at.UTC(); at.Year() < 2000 || at.Year() > 2100 {
		return at, problem.InvalidField(field, "must be between the years 2000 and 2100")
	}
	return at, nil
}

// zoneOf finds a time zone by its name.
func zoneOf(name string) (*time.Location, error) {
	switch name {
	case "UTC", "Etc/UTC", "Z", "":
		return time.UTC, nil
	}
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, problem.InvalidField("query.timezone", "must be the name of a time zone, like Europe/Berlin")
	}
	return zone, nil
}

// filter returns the filter of a query. user is the user to whom the entries must belong; empty: any user.
func (a About) filter(kind, user string) (rollup.Filter, error) {
	if a.Model != "" && !strings.Contains(a.Model, "/") {
		return rollup.Filter{}, problem.InvalidField("query.model", "must be provider/name")
	}
	return rollup.Filter{
		Kind: kind, Model: a.Model, Agent: string(a.AgentID), User: user, APIKey: string(a.APIKeyID),
	}, nil
}

func (h *handlers) question(in Counting, user string) (q analytics.Question, zone *time.Location, err error) {
	if zone, err = zoneOf(in.Timezone); err != nil {
		return q, zone, err
	}
	if q.From, q.To, err = in.within(h.Analytics.Host.Now(), zone, false); err != nil {
		return q, zone, err
	}
	q.Filter, err = in.filter(in.Kind, user)
	return q, zone, err
}

type runsView struct {
	Total     int64 `json:"total"`
	Completed int64 `json:"completed"`
	Failed    int64 `json:"failed"`
	Cancelled int64 `json:"cancelled"`
	TimedOut  int64 `json:"timed_out"`
}

type tokensView struct {
	Input  int64 `json:"input"`
	Output int64 `json:"output"`
}

type percentilesView struct {
	P50 *int64 `json:"p50" doc:"null: no runs"`
	P95 *int64 `json:"p95"`
}

type summaryView struct {
	From       string          `json:"from" format:"date-time"`
	To         string          `json:"to" format:"date-time"`
	Runs       runsView        `json:"runs"`
	Errors     int64           `json:"errors" doc:"failed and timed out"`
	Tokens     tokensView      `json:"tokens" doc:"tokens of all runs, billed or not"`
	ModelCalls int64           `json:"model_calls"`
	ToolCalls  int64           `json:"tool_calls"`
	ActiveMS   percentilesView `json:"active_ms" doc:"accurate to 1 %"`
	QueueMS    percentilesView `json:"queue_ms" doc:"accurate to 1 %"`
	Users      int64           `json:"users" doc:"distinct; above 1,024 an estimate, accurate to a few percent"`
	Agents     int64           `json:"agents" doc:"distinct; above 1,024 an estimate, accurate to a few percent"`
	Cost       *float64        `json:"cost,omitempty" doc:"the cost by the organization's present prices and each token's model; models without a price count as 0; absent without prices"`
	Currency   string          `json:"currency,omitempty"`
}

func percentiles(times []int64) (v percentilesView) {
	if len(times) == 2 {
		v.P50, v.P95 = &times[0], &times[1]
	}
	return v
}

func (h *handlers) summary(ctx context.Context, p tenant.Principal, in *struct {
	Counting
	Everyone
}) (*answer[summaryView], error) {
	return h.summarize(ctx, p.Scope(), in.Counting, string(in.UserID))
}

// mine is the summary of the sender's own usage.
func (h *handlers) mine(ctx context.Context, p tenant.Principal, in *Counting) (*answer[summaryView], error) {
	return h.summarize(ctx, p.Scope(), *in, p.User)
}

func (h *handlers) summarize(
	ctx context.Context, scope record.Scope, in Counting, user string,
) (*answer[summaryView], error) {
	q, _, err := h.question(in, user)
	if err != nil {
		return nil, err
	}
	s, err := h.Analytics.Summarize(ctx, scope, q)
	if err != nil {
		return nil, err
	}
	v := summaryView{
		From: events.Time(q.From), To: events.Time(q.To),
		Runs: runsView{
			Total: s.Total, Completed: s.Entries[rollup.Completed], Failed: s.Entries[rollup.Failed],
			Cancelled: s.Entries[rollup.Cancelled], TimedOut: s.Entries[rollup.TimedOut],
		},
		Errors: s.Entries[rollup.Failed] + s.Entries[rollup.TimedOut],
		Tokens: tokensView{s.Input, s.Output}, ModelCalls: s.ModelCalls, ToolCalls: s.ToolCalls,
		ActiveMS: percentiles(s.Active), QueueMS: percentiles(s.Queue), Users: s.Users, Agents: s.Agents,
	}
	if s.Cost != nil {
		v.Cost, v.Currency = &s.Cost.Amount, s.Cost.Currency
	}
	return httpapi.Body(v), nil
}

type pointView struct {
	At    string  `json:"at" doc:"the start of the interval; the first may start before from"`
	Value float64 `json:"value"`
	Group *string `json:"group" doc:"null without group_by; empty for entries without a value, like runs that an old version stored without a model"`
}

type seriesView struct {
	From     string      `json:"from" format:"date-time"`
	To       string      `json:"to" format:"date-time"`
	Metric   string      `json:"metric"`
	Interval string      `json:"interval" enum:"hour,day"`
	GroupBy  *string     `json:"group_by"`
	Timezone string      `json:"timezone"`
	Currency string      `json:"currency,omitempty" doc:"of costs"`
	Points   []pointView `json:"points" doc:"sorted by time, then by group; each group has every interval"`
}

func (h *handlers) timeseries(ctx context.Context, p tenant.Principal, in *struct {
	Counting
	Everyone
	Metric   string `query:"metric" default:"runs" enum:"runs,completed,failed,cancelled,timed_out,errors,input_tokens,output_tokens,active_ms,queue_ms,model_calls,tool_calls,cost" doc:"errors: failed and timed out; cost needs prices in the organization's settings"`
	Interval string `query:"interval" enum:"hour,day" default:"day"`
	GroupBy  string `query:"group_by" enum:"agent,user,status,api_key,model"`
}) (*answer[seriesView], error) {
	q, zone, err := h.question(in.Counting, string(in.UserID))
	if err != nil {
		return nil, err
	}
	s, err := h.Analytics.Series(ctx, p.Scope(), analytics.SeriesQuestion{
		Question: q, Metric: rollup.Metric(in.Metric), Interval: rollup.Interval(in.Interval),
		GroupBy: rollup.Dimension(in.GroupBy), Zone: zone,
	})
	if err != nil {
		return nil, err
	}
	v := seriesView{
		From: events.Time(q.From), To: events.Time(q.To), Metric: in.Metric, Interval: in.Interval,
		GroupBy: httpapi.Optional(in.GroupBy), Timezone: zone.String(), Currency: s.Currency,
		Points: make([]pointView, 0, len(s.Steps)*len(s.Groups)),
	}
	for n, at := range s.Steps {
		begins := events.Time(at)
		for i, group := range s.Groups {
			point := pointView{At: begins, Value: s.Values[group][n]}
			if in.GroupBy != "" {
				point.Group = &s.Groups[i]
			}
			v.Points = append(v.Points, point)
		}
	}
	return httpapi.Body(v), nil
}
