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

// Entry is the ledger's record of an ended run, exactly one. It outlives the run.
type Entry struct {
	RunID        string    `json:"run_id"`
	ChatID       string    `json:"chat_id"`
	AgentID      string    `json:"agent_id"`
	UserID       string    `json:"user_id"`
	Status       string    `json:"status"`
	Billed       bool      `json:"billed"`
	InputTokens  int64     `json:"input_tokens"`
	OutputTokens int64     `json:"output_tokens"`
	ActiveMS     int64     `json:"active_ms"`
	ModelCalls   int64     `json:"model_calls"`
	ToolCalls    int64     `json:"tool_calls"`
	FinishedAt   time.Time `json:"finished_at"`
}

// The ledger of an organization's day has several partitions, so that none takes all writes.
const ledgerShards = 4

func ledgerPart(organization, day string, shard int) string {
	return fmt.Sprintf("ledger/%s/%s/%d", organization, day, shard)
}

func ledgerKey(r lifecycle.Run) table.Key {
	shard := int(r.ID()[len(r.ID())-1]) % ledgerShards
	// The day of the run's id, so that the entry has one key whatever day a repeated settlement falls on.
	return table.Key{Part: ledgerPart(r.Organization, host.TimeOf(r.ID()).Format(time.DateOnly), shard), Sort: r.ID()}
}

// PutCharge writes a run's ledger entry, which must not exist: a run is billed exactly once.
func (tx *Tx) PutCharge(r lifecycle.Run, c lifecycle.Charge) {
	entry := Entry{
		RunID: r.ID(), ChatID: r.Chat, AgentID: r.Agent, UserID: r.User, Status: string(c.Status), Billed: c.Billed,
		InputTokens: c.Usage.InputTokens, OutputTokens: c.Usage.OutputTokens, ActiveMS: c.ActiveMS,
		ModelCalls: c.Usage.ModelCalls, ToolCalls: c.Usage.ToolCalls, FinishedAt: r.FinishedAt,
	}
	put(tx, Fresh(entry), table.Item{Key: ledgerKey(r), Owner: r.Organization})
}

// ledgerDays is how many days a page of the ledger covers at most; so a page may be short and have a next one.
const ledgerDays = 31

// Ledger lists an organization's entries, newest run first, day by day: an index would cost each run a write. A page
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
			page.Next = page.Rows[limit-1].Value.RunID
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

// ledgerDay reads the newest entries of a day, from before the run after.
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
			entries = append(entries, e)
		}
	}
	slices.SortFunc(entries, func(a, b Entity[Entry]) int { return strings.Compare(b.Value.RunID, a.Value.RunID) })
	return entries[:min(limit, len(entries))], nil
}
