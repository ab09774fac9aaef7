package record

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"agentplatform/internal/host"
	"agentplatform/internal/lifecycle"
	"agentplatform/internal/table"
)

// The kinds of ledger entries.
const (
	OfRun       = "run"
	OfIngestion = "ingestion"
	OfSearch    = "search"
)

// Entry is the ledger's record of what was used. An ended run has exactly one; what embedding models used for documents
// and for searches outside of runs has one for each commit that records it. It outlives what it is about, and never
// changes.
type Entry struct {
	ID              string    `json:"entry_id,omitzero"` // stored for what is no run; a run's is the run's id
	Kind            string    `json:"kind,omitzero"`     // stored for what is no run
	RunID           string    `json:"run_id"`
	ChatID          string    `json:"chat_id"`
	AgentID         string    `json:"agent_id"`
	UserID          string    `json:"user_id"`
	Status          string    `json:"status"`
	Billed          bool      `json:"billed"`
	InputTokens     int64     `json:"input_tokens"`
	OutputTokens    int64     `json:"output_tokens"`
	ActiveMS        int64     `json:"active_ms"`
	ModelCalls      int64     `json:"model_calls"`
	ToolCalls       int64     `json:"tool_calls"`
	FinishedAt      time.Time `json:"finished_at"`
	DocumentID      string    `json:"document_id,omitzero"`
	KnowledgeBaseID string    `json:"knowledge_base_id,omitzero"`
}

// The ledger of an organization's day has several partitions, so that none takes all writes.
const ledgerShards = 4

func ledgerPart(organization, day string, shard int) string {
	return fmt.Sprintf("ledger/%s/%s/%d", organization, day, shard)
}

func ledgerKey(organization, id string) table.Key {
	shard := int(id[len(id)-1]) % ledgerShards
	// The day of the id, so that the entry has one key whatever day a repeated settlement falls on.
	return table.Key{Part: ledgerPart(organization, host.TimeOf(id).Format(time.DateOnly), shard), Sort: id}
}

// PutCharge writes a run's ledger entry, which must not exist: a run is billed exactly once.
func (tx *Tx) PutCharge(r lifecycle.Run, c lifecycle.Charge) {
	entry := Entry{
		RunID: r.ID(), ChatID: r.Chat, AgentID: r.Agent, UserID: r.User, Status: string(c.Status), Billed: c.Billed,
		InputTokens: c.Usage.InputTokens, OutputTokens: c.Usage.OutputTokens, ActiveMS: c.ActiveMS,
		ModelCalls: c.Usage.ModelCalls, ToolCalls: c.Usage.ToolCalls, FinishedAt: r.FinishedAt,
	}
	put(tx, Fresh(entry), table.Item{Key: ledgerKey(r.Organization, r.ID()), Owner: r.Organization})
}

// PutEmbedded writes the ledger entry of what an embedding model used outside of runs. The entry says its kind, user,
// input tokens, and the document if there is one. A unit of work has at most one, whose id is the write id: so what is
// recorded once is charged once.
func (tx *Tx) PutEmbedded(organization string, e Entry) {
	e.ID, e.Status, e.Billed, e.FinishedAt = tx.writeID, string(lifecycle.Completed), true, tx.store.host.Now()
	put(tx, Fresh(e), table.Item{Key: ledgerKey(organization, e.ID), Owner: organization})
}

// ledgerDays is how many days a page of the ledger covers at most; so a page may be short and have a next one.
const ledgerDays = 31

// Ledger lists an organization's entries, newest id first, day by day: an index would cost each run a write. A page
// may be short, or even empty, and have a next one.
func (s *Store) Ledger(ctx context.Context, scope Scope, after string, limit int) (Page[Entity[Entry]], error) {
	var page Page[Entity[Entry]]
	first, err := s.firstDay(ctx, scope)
	if err != nil {
		return page, err
	}
	day := s.host.Now().Add(time.Hour) // other clocks may be ahead
	if after != "" {
		day = host.TimeOf(after).Add(-time.Nanosecond)
	}
	day = day.UTC().Truncate(24 * time.Hour)
	for range ledgerDays {
		if day.Before(first) {
			return page, nil
		}
		entries, err := s.ledgerDay(ctx, scope, day, after, limit+1-len(page.Rows))
		if err != nil {
			return page, err
		}
		page.Rows = append(page.Rows, entries...)
		if len(page.Rows) > limit {
			page.Rows = page.Rows[:limit]
			page.Next = page.Rows[limit-1].Value.ID
			return page, nil
		}
		day = day.AddDate(0, 0, -1)
	}
	page.Next = host.FormatID(day.AddDate(0, 0, 1), 0)
	return page, nil
}

// firstDay is a day before which an organization has no entries: that of its creation or, for [NoOrganization], of the
// deployment's.
func (s *Store) firstDay(ctx context.Context, scope Scope) (time.Time, error) {
	began := time.Time{}
	if scope.organization == NoOrganization {
		item, err := s.read(ctx, deploymentKey())
		if err != nil || item[0] == nil {
			return began, err
		}
		e, err := decode[deployment](item[0])
		if err != nil {
			return began, err
		}
		began = e.Value.CreatedAt
	} else {
		began = host.TimeOf(scope.organization)
	}
	return began.AddDate(0, 0, -1).UTC().Truncate(24 * time.Hour), nil
}

// ledgerDay reads the newest entries of a day, from before the id after.
func (s *Store) ledgerDay(
	ctx context.Context, scope Scope, day time.Time, after string, limit int,
) ([]Entity[Entry], error) {
	var entries []Entity[Entry]
	for shard := range ledgerShards {
		items, err := s.query(ctx, table.Range{
			Part: ledgerPart(scope.organization, day.Format(time.DateOnly), shard), After: after, Reverse: true,
			Limit: limit,
		})
		if err != nil {
			return nil, err
		}
		for _, item := range items {
			e, err := decode[Entry](item)
			if err != nil {
				return nil, err
			}
			if e.Value.ID == "" {
				e.Value.ID, e.Value.Kind = e.Value.RunID, OfRun
			}
			entries = append(entries, e)
		}
	}
	slices.SortFunc(entries, func(a, b Entity[Entry]) int { return strings.Compare(b.Value.ID, a.Value.ID) })
	return entries[:min(limit, len(entries))], nil
}
