package record

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/store/table"
)

// Budget is a limit of use in a period, a day or month in UTC.
type Budget struct {
	Period    string `json:"period" enum:"day,month"`
	MaxTokens *int64 `json:"max_tokens" minimum:"1" nullable:"true" doc:"input and output tokens of runs accepted in the period; for organizations and users, tokens of embeddings too; null: no limit"`
	MaxRuns   *int64 `json:"max_runs" minimum:"1" nullable:"true" doc:"runs accepted in the period; null: no limit"`
}

// Limit is a budget with its owner.
type Limit struct {
	Budget

	Kind string // organization, group, user, agent, api_key
	ID   string
}

// period returns the name of the current period, and when it ends.
func (l Limit) period(now time.Time) (name string, ends time.Time) {
	year, month, day := now.UTC().Date()
	if l.Period == "month" {
		return now.UTC().Format("2006-01"), time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC)
	}
	return now.UTC().Format(time.DateOnly), time.Date(year, month, day+1, 0, 0, 0, 0, time.UTC)
}

// Name is the name under which the use of the budget in the current period is counted.
func (l Limit) Name(now time.Time) string {
	name, _ := l.period(now)
	return l.Kind + "/" + l.ID + "/" + name
}

// Ends is when the current period ends.
func (l Limit) Ends(now time.Time) time.Time {
	_, ends := l.period(now)
	return ends
}

// Used is the used share of a budget, of runs or of tokens, the larger one: 1 is all.
func (l Limit) Used(s Spent) float64 {
	share := 0.0
	if l.MaxRuns != nil {
		share = float64(s.Runs) / float64(*l.MaxRuns)
	}
	if l.MaxTokens != nil {
		share = max(share, float64(s.Tokens)/float64(*l.MaxTokens))
	}
	return share
}

// Exhausted names the used-up part of a budget, as text for a human; empty for none.
func (l Limit) Exhausted(s Spent) string {
	if l.MaxRuns != nil && s.Runs >= *l.MaxRuns {
		return fmt.Sprintf("%d of %d runs", s.Runs, *l.MaxRuns)
	}
	return l.TokensExhausted(s)
}

// TokensExhausted is Exhausted for tokens alone: for work that is not a run.
func (l Limit) TokensExhausted(s Spent) string {
	if l.MaxTokens != nil && s.Tokens >= *l.MaxTokens {
		return fmt.Sprintf("%d of %d tokens", s.Tokens, *l.MaxTokens)
	}
	return ""
}

// Spent is the use of a budget in a period: accepted runs, and the tokens of runs and of embeddings.
type Spent struct {
	Runs   int64
	Tokens int64

	runs int64 // version of the item that counts runs
	open int64 // runs with an item of their own
}

// tally is an item that counts. Runs are counted in one item, so the limit is exact. The tokens of a running run are in
// an item of its own, which only its worker writes: no two steps conflict. When the run stops running, they move to one
// of several items. So runs that stop at the same time seldom conflict.
//
// An earlier version of this program reads the first nine items of a name. These must be those that it knows.
type tally struct {
	N int64 `json:"n"`
}

const (
	runsSort    = "runs"
	tallyShards = 8
	openPrefix  = "unsettled/"
	tallyPage   = 1000
	tallyLife   = 100 * 24 * time.Hour // after the last count; longer than a month and what its runs may still take
)

func tallyKey(name, sort string) table.Key { return table.Key{Part: "spent/" + name, Sort: sort} }

// Spent reads the use that is counted under a name; zero for an unused name. It reads the items of running runs first.
// So the tokens of a run that stops meanwhile may count twice, but are not missed.
func (s *Store) Spent(ctx context.Context, name string) (sum Spent, err error) {
	all := table.Range{Part: tallyKey(name, "").Part, Reverse: true, Limit: tallyPage}
	for item, err := range s.items(ctx, all) {
		var e Entity[tally]
		if err == nil {
			e, err = decode[tally](item)
		}
		if err != nil {
			return Spent{}, err
		}
		if item.Sort == runsSort {
			sum.Runs, sum.runs = e.Value.N, e.version
		} else {
			sum.Tokens += e.Value.N
		}
		if strings.HasPrefix(item.Sort, openPrefix) {
			sum.open++
		}
	}
	return sum, nil
}

// spentAtOnce is how many of several names are read at the same time.
const spentAtOnce = 16

// SpentOf reads the use under each of several names, some at the same time.
func (s *Store) SpentOf(ctx context.Context, names ...string) ([]Spent, error) {
	sums, errs := make([]Spent, len(names)), make([]error, len(names))
	readers := make([]func(), min(spentAtOnce, len(names)))
	for first := range readers {
		readers[first] = func() {
			for i := first; i < len(names); i += spentAtOnce {
				sums[i], errs[i] = s.Spent(ctx, names[i])
			}
		}
	}
	host.All(s.host, readers...)
	if err := cmp.Or(errs...); err != nil {
		return nil, err
	}
	return sums, nil
}

// unread is how many tokens a run may use before it reads a budget again that has much left.
const unread = 50_000

// Overspent returns a function that finds which of a run's budgets is used up, as text for a human; empty for none. Its
// arguments are the tokens that the run has used, and those of them that are not counted yet.
//
// A read of a budget has an item of each running run, so it costs more the more there are. If the rest is twice as much
// as all of them may use unread, a run reads a budget once for so many tokens. Otherwise it reads it before each call.
func (s *Store) Overspent(budgets []lifecycle.Budget) func(ctx context.Context, used, more int64) (string, error) {
	again := make([]int64, len(budgets)) // the use at which each is read again
	return func(ctx context.Context, used, more int64) (string, error) {
		for i, b := range budgets {
			if used < again[i] {
				continue
			}
			sum, err := s.Spent(ctx, b.Name)
			if err == nil && sum.Tokens+more >= b.MaxTokens {
				sum, err = s.Spent(ctx, b.Name) // a run that stopped meanwhile may count twice
			}
			if err != nil {
				return "", err
			}
			left := b.MaxTokens - sum.Tokens - more
			if left <= 0 {
				named := strings.Split(b.Name, "/")
				return fmt.Sprintf("the budget of %s %s for %s is used up: %d of %d tokens",
					named[0], named[1], named[2], b.MaxTokens-left, b.MaxTokens), nil
			}
			if left >= 2*unread*max(sum.open, 100) {
				again[i] = used + unread
			}
		}
		return "", nil
	}
}

// CountRun counts one more run. before is the result of the read.
func (tx *Tx) CountRun(organization, name string, before Spent) {
	e := Fresh(tally{N: before.Runs + 1})
	e.version = before.runs
	tx.putTally(e.asRead(), e, organization, tallyKey(name, runsSort))
}

// CountTokens counts a run's uncounted tokens in its budgets, and notes that in the run. It belongs into the commit
// that writes the run's head, on condition of its version: so each token is counted once.
func (tx *Tx) CountTokens(ctx context.Context, r *lifecycle.Run) {
	c := &r.Counting
	before, open := c.Open, r.Usage.Tokens()-c.Settled
	if len(c.Budgets) == 0 || open == 0 || (r.Status == lifecycle.Running && open == before) {
		return
	}
	for _, b := range c.Budgets {
		own := tallyKey(b.Name, openPrefix+r.ID())
		switch {
		case r.Status == lifecycle.Running:
			tx.putTally(table.Always(), Fresh(tally{N: open}), r.Organization, own)
			continue
		case before != 0:
			tx.delete(own, table.Always())
		}
		tx.spend(ctx, r.Organization, b.Name, r.ID(), open)
	}
	if c.Open = open; r.Status != lifecycle.Running {
		c.Settled, c.Open = c.Settled+open, 0
	}
}

// SpendEmbedded counts the tokens of embeddings in those budgets that limit tokens, in their current periods.
func (tx *Tx) SpendEmbedded(ctx context.Context, organization string, limits []Limit, tokens int64) {
	for _, l := range limits {
		if l.MaxTokens != nil {
			tx.spend(ctx, organization, l.Name(tx.store.host.Now()), tx.writeID, tokens)
		}
	}
}

// spend counts tokens under a name, in the item that the id chooses.
func (tx *Tx) spend(ctx context.Context, organization, name, id string, tokens int64) {
	if tx.err != nil {
		return
	}
	key := tallyKey(name, fmt.Sprintf("tokens/%d", int(id[len(id)-1])%tallyShards))
	e, _, err := find[tally](ctx, tx.store, key)
	tx.fail(err)
	e.Value.N += tokens
	tx.putTally(e.asRead(), e, organization, key)
}

func (tx *Tx) putTally(cond table.Condition, e Entity[tally], organization string, key table.Key) {
	putIf(tx, cond, e, table.Item{Key: key, Owner: organization, Expires: tx.store.host.Now().Add(tallyLife)})
}
