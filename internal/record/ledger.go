package record

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
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

// firstDay is a day before which an organization has no entries: that of its creation or, for [Nobody], of the
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

// Idempotency is the outcome of a request with an idempotency key.
type Idempotency struct {
	Outcome IdempotentOutcome `json:"outcome"`
	RunID   string            `json:"run_id"`             // the run started or answered, or that the message waits on
	Parked  string            `json:"parked_id,omitzero"` // the parked message, which may have become a run

	version int64 // of the record; 0 when there is none yet
}

// IdempotentOutcome says what a request did.
type IdempotentOutcome string

// The outcomes.
const (
	StartedRun    IdempotentOutcome = "started"
	ParkedMessage IdempotentOutcome = "parked"
	AnsweredPause IdempotentOutcome = "answered"
)

// IdempotencyName is the name of the record of a key, which is unique per organization and user.
func IdempotencyName(organization, user, key string) string {
	sum := sha256.Sum256([]byte(key))
	return organization + "/" + user + "/" + hex.EncodeToString(sum[:])
}

func idempotencyKey(name string) table.Key { return table.Key{Part: "idem/" + name, Sort: headSort} }

// PutIdempotency writes an outcome under a name that has none, or in place of a record that was read before and whose
// run was deleted since.
func (tx *Tx) PutIdempotency(organization, name string, i, before Idempotency) {
	e := Fresh(i)
	e.version = before.version
	put(tx, e, table.Item{Key: idempotencyKey(name), Owner: organization})
}

// Idempotency reads the outcome under a name; found is false when there is none.
func (s *Store) Idempotency(ctx context.Context, name string) (i Idempotency, found bool, err error) {
	items, err := s.read(ctx, idempotencyKey(name))
	if err != nil || items[0] == nil {
		return i, false, err
	}
	e, err := decode[Idempotency](items[0])
	e.Value.version = e.version
	return e.Value, err == nil, err
}
