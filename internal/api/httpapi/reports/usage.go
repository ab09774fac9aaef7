package reports

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
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

func (h *handlers) usageRoutes() {
	r := httpapi.Routes{Server: h.Server, Tag: "analytics", Read: tenant.LevelAdmin}
	httpapi.Route(r, "GET /analytics/usage", "usage",
		"Read the ledger: one entry for each ended run and each use of embeddings outside runs",
		h.usage, httpapi.Or("text/csv"))
}

// ledgerEntry is an entry as clients see it. Those that are of no run have empty ids of run, chat and agent.
type ledgerEntry struct {
	RunID           string `json:"run_id"`
	ChatID          string `json:"chat_id"`
	AgentID         string `json:"agent_id"`
	UserID          string `json:"user_id"`
	Status          string `json:"status" enum:"completed,failed,cancelled,timed_out"`
	Billed          bool   `json:"billed"`
	InputTokens     int64  `json:"input_tokens"`
	OutputTokens    int64  `json:"output_tokens"`
	ActiveMS        int64  `json:"active_ms"`
	ModelCalls      int64  `json:"model_calls"`
	ToolCalls       int64  `json:"tool_calls"`
	FinishedAt      string `json:"finished_at"`
	Kind            string `json:"kind" enum:"run,ingestion,search"`
	EntryID         string `json:"entry_id"`
	DocumentID      string `json:"document_id"`
	KnowledgeBaseID string `json:"knowledge_base_id"`

	APIKeyID string   `json:"api_key_id" doc:"empty for a document's entry"`
	Model    string   `json:"model" doc:"provider/name; empty if a search used several models, and in entries of older versions"`
	Attempts int64    `json:"attempts" doc:"the number of times that a worker started or continued the run"`
	QueueMS  int64    `json:"queue_ms" doc:"the total time that the run was queued"`
	Cost     *float64 `json:"cost" doc:"the cost by the organization's present prices. Embedding tokens are part of a run's input tokens and use the price of their model; null if no model has a price"`

	Models []record.ModelTokens `json:"models" doc:"the tokens of each model, without models that used none; the sum is that of the entry. In CSV this is JSON"`
}

// table are the names of an entry's members, in their order, and their values as cells. Null is an empty cell.
func (e ledgerEntry) table() (names, cells []string) {
	v := reflect.ValueOf(e)
	for i := range v.NumField() {
		cell := ""
		switch of := v.Field(i).Interface().(type) {
		case *float64:
			if of != nil {
				cell = strconv.FormatFloat(*of, 'f', -1, 64)
			}
		case []record.ModelTokens:
			b, _ := json.Marshal(of) // names and numbers can be encoded
			cell = string(b)
		default:
			cell = fmt.Sprint(of)
		}
		names, cells = append(names, v.Type().Field(i).Tag.Get("json")), append(cells, cell)
	}
	return names, cells
}

func viewEntry(e record.Entry, prices analytics.Prices) ledgerEntry {
	v := ledgerEntry{
		RunID:           e.RunID,
		ChatID:          e.ChatID,
		AgentID:         e.AgentID,
		UserID:          e.UserID,
		Status:          e.Status,
		Billed:          e.Billed,
		InputTokens:     e.InputTokens,
		OutputTokens:    e.OutputTokens,
		ActiveMS:        e.ActiveMS,
		ModelCalls:      e.ModelCalls,
		ToolCalls:       e.ToolCalls,
		FinishedAt:      events.Time(e.FinishedAt),
		Kind:            e.Kind,
		EntryID:         e.ID,
		DocumentID:      e.DocumentID,
		KnowledgeBaseID: e.KnowledgeBaseID,
		APIKeyID:        e.APIKeyID,
		Model:           e.Model,
		Attempts:        e.Attempts,
		QueueMS:         e.QueueMS,
		Models:          e.Models(),
	}
	if cost, priced := prices.CostOf(e); priced {
		v.Cost = &cost
	}
	return v
}

type ledgerList struct {
	Entries    []ledgerEntry `json:"entries"`
	NextCursor *string       `json:"next_cursor"`
}

// UsageQuery selects a part of the ledger; an empty query is the whole ledger.
type UsageQuery struct {
	httpapi.Paging
	About
	Everyone

	From   string `query:"from" maxLength:"40" doc:"inclusive: a time (RFC 3339), or a date in UTC; by default all"`
	To     string `query:"to" maxLength:"40" doc:"exclusive"`
	Kind   string `query:"kind" enum:"run,ingestion,search" doc:"by default all"`
	Accept string `header:"Accept" hidden:"true"` // text/csv gives CSV, whole
}

// part is a part of the ledger.
type part struct {
	scope    record.Scope
	from, to time.Time
	filter   rollup.Filter
	prices   analytics.Prices
}

func (h *handlers) part(ctx context.Context, p tenant.Principal, in *UsageQuery) (l part, err error) {
	l.scope = p.Scope()
	if l.from, l.to, err = (Span{in.From, in.To}).within(time.Time{}, time.UTC, true); err != nil {
		return l, err
	}
	if !l.to.IsZero() && !l.to.After(l.from) {
		return l, problem.InvalidField("query.from", "must be before to")
	}
	if l.filter, err = in.filter(in.Kind, string(in.UserID)); err != nil {
		return l, err
	}
	l.prices, err = h.Analytics.Prices(ctx, l.scope)
	return l, err
}

func (h *handlers) usage(ctx context.Context, p tenant.Principal, in *UsageQuery) (*answer[ledgerList], error) {
	l, err := h.part(ctx, p, in)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(in.Accept, "text/csv") {
		h.usageCSV(ctx, l, httpapi.Writer(ctx))
		return nil, nil
	}
	days := record.LedgerDays
	entries, next, err := httpapi.Filter(ctx, in.Paging, func(
		ctx context.Context, after string, limit int,
	) (record.Page[record.Entity[record.Entry]], error) {
		return h.Store.Ledger(ctx, l.scope, l.from, l.to, after, limit, &days)
	}, func(e record.Entity[record.Entry]) (ledgerEntry, bool, error) {
		return viewEntry(e.Value, l.prices), l.filter.Passes(analytics.KeyOf(e.Value)), nil
	})
	return httpapi.Body(ledgerList{entries, next}), err
}

// usageCSV writes all of a part of the ledger, a page at a time. Cells that a spreadsheet would take for a formula are
// defused.
func (h *handlers) usageCSV(ctx context.Context, l part, to http.ResponseWriter) {
	to.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w := csv.NewWriter(to)
	columns, _ := ledgerEntry{}.table()
	_ = w.Write(columns)
	after := ""
	for {
		days := record.LedgerDays
		page, err := h.Store.Ledger(ctx, l.scope, l.from, l.to, after, 100, &days)
		if err != nil {
			panic(http.ErrAbortHandler) // half a table must not look like a whole one
		}
		for _, e := range page.Rows {
			if !l.filter.Passes(analytics.KeyOf(e.Value)) {
				continue
			}
			_, cells := viewEntry(e.Value, l.prices).table()
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
