package record

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"iter"
	"strconv"
	"strings"
	"time"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/store/table"
)

// The kinds of ledger entries.
const (
	OfRun       = "run"
	OfIngestion = "ingestion"
	OfSearch    = "search"
)

// Embeddings are the tokens of embedding models.
type Embeddings = lifecycle.Embeddings

// Embedded is the use of one embedding model.
type Embedded = lifecycle.Embedded

// Entry is the ledger's record of a use. An ended run has exactly one entry. Embeddings for documents, and for searches
// outside of runs, have one entry for each commit that records them. An entry outlives its subject, and never changes.
type Entry struct {
	ID              string    `json:"entry_id,omitzero"` // stored for entries outside of runs; a run's is the run's id
	Kind            string    `json:"kind,omitzero"`     // stored for entries outside of runs
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

	// Entries of earlier versions do not have these.
	APIKeyID string `json:"api_key_id,omitzero"`
	Model    string `json:"model,omitzero"` // provider/name; empty if a search used several
	Attempts int64  `json:"attempts,omitzero"`
	QueueMS  int64  `json:"queue_ms,omitzero"` // how long the run was queued, in all
	// Embedded is the part of the input tokens that other models than Model used. These are the embeddings of a run's
	// searches, or of a search that called several models.
	Embedded Embeddings `json:"embedded,omitzero"`

	SortKey string `json:"-"` // in the ledger: its sort key
}

// ModelTokens are the tokens of one model. Both names are empty if the model is not known.
type ModelTokens struct {
	Provider     string `json:"provider"`
	Model        string `json:"model"`
	InputTokens  int64  `json:"input_tokens"`
	OutputTokens int64  `json:"output_tokens"`
}

// Models are the tokens of the entry by model: those of Model, then of embeddings. A model without tokens is left out.
func (e Entry) Models() []ModelTokens {
	list := []ModelTokens{}
	add := func(name string, in, out int64) {
		if in != 0 || out != 0 {
			provider, model, _ := strings.Cut(name, "/")
			list = append(list, ModelTokens{provider, model, in, out})
		}
	}
	add(e.Model, e.InputTokens-e.Embedded.Tokens(), e.OutputTokens)
	for _, one := range e.Embedded {
		add(one.Model, one.Tokens, 0)
	}
	return list
}

func (e *Entry) take(from *table.Item) {
	e.SortKey = from.Sort
	if e.ID == "" {
		e.ID, e.Kind = e.RunID, OfRun
	}
}

// At is the time of the entry in the ledger: when it was finished. Earlier versions ordered entries by their ids, so
// theirs is when the run was accepted.
func (e Entry) At() time.Time { return timeOfLedger(e.SortKey) }

// The ledger of an organization's day has several partitions. So the writes are spread.
const ledgerShards = 4

func ledgerPart(organization, day string, shard int) string {
	return "ledger/" + organization + "/" + day + "/" + strconv.Itoa(shard)
}

// The sort key of an entry begins with its time, so the entries of a span of time are a range; the id follows. The
// run's head protects a run from a second entry: it is in the same commit, on condition of its version.
func ledgerKey(organization string, at time.Time, id string) table.Key {
	shard := int(id[len(id)-1]) % ledgerShards
	return table.Key{Part: ledgerPart(organization, at.UTC().Format(time.DateOnly), shard), Sort: ledgerTime(at) + id}
}

// ledgerTime is a time in the form that ids have, too: seconds and their fraction, in [ledgerDigits] digits. So the
// keys of earlier versions, which were ids, have the same order.
func ledgerTime(at time.Time) string { return host.FormatID(at, 0)[:ledgerDigits] }

const ledgerDigits = 12

// timeOfLedger is the time of a sort key, to the millisecond; zero if it is not a sort key of the ledger.
func timeOfLedger(sort string) time.Time {
	if len(sort) < ledgerDigits {
		return time.Time{}
	}
	raw, err := hex.DecodeString(sort[:ledgerDigits])
	if err != nil {
		return time.Time{}
	}
	seconds, fraction := binary.BigEndian.Uint32(raw), int64(binary.BigEndian.Uint16(raw[4:]))
	at := time.Unix(int64(seconds), fraction*1e9>>16).UTC()
	if !host.ValidID(sort) {
		at = at.Add(16 * time.Microsecond) // the digits are rounded down from a whole millisecond, by less than that
	}
	return at.Truncate(time.Millisecond)
}

// PutCharge writes the ledger entry of a run that ends. It belongs into the commit that writes the run's head, on
// condition of its version: a run ends once, so it has one entry. The key does not protect from a second entry, as it
// contains the time.
func (tx *Tx) PutCharge(r lifecycle.Run) {
	entry := Entry{
		RunID: r.ID(), ChatID: r.Chat, AgentID: r.Agent, UserID: r.User, Status: string(r.Status), Billed: r.Billed(),
		InputTokens: r.Usage.InputTokens, OutputTokens: r.Usage.OutputTokens, ActiveMS: r.ActiveMS,
		ModelCalls: r.Usage.ModelCalls, ToolCalls: r.Usage.ToolCalls, FinishedAt: r.FinishedAt,
		APIKeyID: r.APIKey, Model: r.Model, Attempts: int64(r.Attempt), QueueMS: r.QueueMS, Embedded: r.Usage.Embedded,
	}
	put(tx, Fresh(entry), table.Item{Key: ledgerKey(r.Organization, r.FinishedAt, r.ID()), Owner: r.Organization})
}

// PutEmbedded writes the ledger entry of a use of embedding models outside of runs. The caller sets its kind, user,
// input tokens and models, and the API key and the document if there are any. A unit of work has at most one such
// entry, and its id is the write id.
func (tx *Tx) PutEmbedded(organization string, e Entry) {
	e.ID, e.Status, e.Billed, e.FinishedAt = tx.writeID, string(lifecycle.Completed), true, tx.store.host.Now()
	put(tx, Fresh(e), table.Item{Key: ledgerKey(organization, e.FinishedAt, e.ID), Owner: organization})
}

// LedgerDays is how many days of the ledger one answer may read. Each is a query of each of its shards.
const LedgerDays = 31

// Ledger lists an organization's entries of [from, to), the newest first, day by day. (An index would cost each run a
// write.) A zero time sets no bound. A page may be short, or even empty, and have a next one. It counts down in days
// how many days may still be read. So several pages together have a bound, too.
func (s *Store) Ledger(
	ctx context.Context, scope Scope, from, to time.Time, after string, limit int, days *int,
) (Page[Entity[Entry]], error) {
	page := Page[Entity[Entry]]{Next: after}
	if *days <= 0 {
		return page, nil
	}
	page.Next = ""
	first, err := s.FirstDay(ctx, scope)
	if err != nil {
		return page, err
	}
	newest := s.host.Now().Add(time.Hour) // other clocks may be ahead
	if !to.IsZero() && to.Before(newest) {
		if newest = to; to.Before(first) {
			return page, nil
		}
		if bound := ledgerTime(to); after == "" || after > bound {
			after = bound
		}
	}
	if after != "" {
		if newest = timeOfLedger(after); len(after) == ledgerDigits { // a bound, which no entry has
			newest = newest.Add(-time.Nanosecond)
		}
	}
	day := newest.UTC().Truncate(24 * time.Hour)
	for ; *days > 0; *days-- {
		if day.Before(first) || !day.Add(24*time.Hour).After(from) {
			return page, nil
		}
		r := table.Range{After: after, Reverse: true, Limit: limit + 1 - len(page.Rows)}
		for item, err := range s.ledgerDay(ctx, scope, day, r) {
			if err != nil {
				return page, err
			}
			e, err := decode[Entry](item)
			if err != nil || e.Value.At().Before(from) {
				return page, err
			}
			if len(page.Rows) == limit {
				page.Next = page.Positions[limit-1]
				*days--
				return page, nil
			}
			page.Rows, page.Positions = append(page.Rows, e), append(page.Positions, e.Value.SortKey)
		}
		day = day.AddDate(0, 0, -1)
	}
	page.Next = ledgerTime(day.AddDate(0, 0, 1))
	return page, nil
}

// FirstDay is a day before which an organization has no entries. It is the day of its creation or, for
// [NoOrganization], of the deployment's. The error is that of a read. For an organization nothing is read, as its id
// contains the time of its creation.
func (s *Store) FirstDay(ctx context.Context, scope Scope) (time.Time, error) {
	began := time.Time{}
	if scope.organization == NoOrganization {
		e, found, err := find[deployment](ctx, s, deploymentKey())
		if err != nil || !found {
			return began, err
		}
		began = e.Value.CreatedAt
	} else {
		began = host.TimeOf(scope.organization)
	}
	return began.AddDate(0, 0, -1).UTC().Truncate(24 * time.Hour), nil
}

// ledgerPage is how many items of a shard are in memory while the ledger is read through.
const ledgerPage = 1000

// Through visits the entries of [from, to), the oldest first. The error is that of a read; it is the last.
func (s *Store) Through(ctx context.Context, scope Scope, from, to time.Time) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for day := from.UTC().Truncate(24 * time.Hour); day.Before(to); day = day.Add(24 * time.Hour) {
			r := table.Range{Limit: ledgerPage}
			if day.Before(from) {
				r.After = ledgerTime(from)
			}
			for item, err := range s.ledgerDay(ctx, scope, day, r) {
				var e Entity[Entry]
				if err == nil {
					e, err = decode[Entry](item)
				}
				if err == nil && !e.Value.At().Before(to) {
					return
				}
				if !yield(e.Value, err) || err != nil {
					return
				}
			}
		}
	}
}

// ledgerDay visits the items that a range selects in each shard of a day, in the order of their sort keys.
func (s *Store) ledgerDay(
	ctx context.Context, scope Scope, day time.Time, r table.Range,
) iter.Seq2[*table.Item, error] {
	return func(yield func(*table.Item, error) bool) {
		shards := make([]*ledgerShard, 0, ledgerShards)
		for n := range ledgerShards {
			r.Part = ledgerPart(scope.organization, day.Format(time.DateOnly), n)
			shards = append(shards, &ledgerShard{Range: r})
		}
		for {
			var first *ledgerShard
			for _, one := range shards {
				if err := one.fill(ctx, s); err != nil {
					yield(nil, err)
					return
				}
				if len(one.items) > 0 && (first == nil || (one.items[0].Sort < first.items[0].Sort) != r.Reverse) {
					first = one
				}
			}
			if first == nil || !yield(first.items[0], nil) {
				return
			}
			first.items = first.items[1:]
		}
	}
}

// ledgerShard is a part of a day that is being read, a page at a time.
type ledgerShard struct {
	table.Range

	items []*table.Item
	ended bool
}

func (l *ledgerShard) fill(ctx context.Context, s *Store) (err error) {
	if len(l.items) > 0 || l.ended {
		return nil
	}
	if l.items, err = s.query(ctx, l.Range); err != nil {
		return err
	}
	if l.ended = len(l.items) < l.Limit; len(l.items) > 0 {
		l.After = l.items[len(l.items)-1].Sort
	}
	return nil
}
