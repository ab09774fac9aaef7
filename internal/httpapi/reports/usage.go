package reports

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"agentplatform/events"
	"agentplatform/internal/httpapi"
	"agentplatform/internal/record"
	"agentplatform/internal/tenant"
)

func (h *handlers) usageRoutes() {
	httpapi.Register(h.Server, httpapi.Operation{
		Method: "GET", Path: "/analytics/usage", Level: tenant.LevelAdmin,
		ID: "usage", Tag: "analytics",
		Summary: "The ledger: one entry for each ended run, and those of embeddings outside of runs",
	}, h.usage)
}

// ledgerEntry is an entry as clients see it. Those that are of no run have empty ids of run, chat and agent.
type ledgerEntry struct {
	RunID           string `json:"run_id"`
	ChatID          string `json:"chat_id"`
	AgentID         string `json:"agent_id"`
	UserID          string `json:"user_id"`
	Status          string `json:"status"`
	Billed          bool   `json:"billed"`
	InputTokens     int64  `json:"input_tokens"`
	OutputTokens    int64  `json:"output_tokens"`
	ActiveMS        int64  `json:"active_ms"`
	ModelCalls      int64  `json:"model_calls"`
	ToolCalls       int64  `json:"tool_calls"`
	FinishedAt      string `json:"finished_at"`
	Kind            string `json:"kind"`
	EntryID         string `json:"entry_id"`
	DocumentID      string `json:"document_id"`
	KnowledgeBaseID string `json:"knowledge_base_id"`
}

var ledgerColumns = []string{
	"run_id",
	"chat_id",
	"agent_id",
	"user_id",
	"status",
	"billed",
	"input_tokens",
	"output_tokens",
	"active_ms",
	"model_calls",
	"tool_calls",
	"finished_at",
	"kind",
	"entry_id",
	"document_id",
	"knowledge_base_id",
}

func (e ledgerEntry) cells() []string {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	return []string{
		e.RunID,
		e.ChatID,
		e.AgentID,
		e.UserID,
		e.Status,
		strconv.FormatBool(e.Billed),
		number(e.InputTokens),
		number(e.OutputTokens),
		number(e.ActiveMS),
		number(e.ModelCalls),
		number(e.ToolCalls),
		e.FinishedAt,
		e.Kind,
		e.EntryID,
		e.DocumentID,
		e.KnowledgeBaseID,
	}
}

func viewEntry(e record.Entry) ledgerEntry {
	return ledgerEntry{
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
	}
}

type ledgerList struct {
	Entries    []ledgerEntry `json:"entries"`
	NextCursor *string       `json:"next_cursor"`
}

func (h *handlers) usage(ctx context.Context, p tenant.Principal, in *struct {
	httpapi.Paging
	Accept string `header:"Accept" doc:"text/csv gives CSV, whole"`
}) (*huma.StreamResponse, error) {
	after, err := httpapi.DecodeCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(in.Accept, "text/csv") {
		return &huma.StreamResponse{Body: func(c huma.Context) { h.usageCSV(ctx, p, c) }}, nil
	}
	page, err := h.Store.Ledger(ctx, p.Scope(), after, in.Limit)
	if err != nil {
		return nil, err
	}
	list := ledgerList{Entries: []ledgerEntry{}, NextCursor: httpapi.EncodeCursor(page.Next)}
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
func (h *handlers) usageCSV(ctx context.Context, p tenant.Principal, c huma.Context) {
	c.SetHeader("Content-Type", "text/csv; charset=utf-8")
	w := csv.NewWriter(c.BodyWriter())
	_ = w.Write(ledgerColumns)
	after := ""
	for {
		page, err := h.Store.Ledger(ctx, p.Scope(), after, 100)
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
