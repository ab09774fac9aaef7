package analytics

import (
	"context"
	"errors"
	"fmt"
	"time"

	"agentplatform/internal/problem"
	"agentplatform/internal/record"
	"agentplatform/internal/rollup"
)

const (
	day = 24 * time.Hour
	// Grace is how long a quarter of an hour has been over when it is rolled up. An entry has the time at which its run
	// was settled by the clock of the one who did; the commit comes up to [record.Tx.Commit]'s patience later, and the
	// clocks of two machines may differ. None comes later than that, unless a machine stood still in between.
	Grace = 15 * time.Minute
	// late is how long a day has been over when it is rolled up, from the ledger anew: with what came after its quarter
	// had been. Who asks does it, too, where the daily work has not come for long: outside of organizations there is
	// none.
	late, missed = record.LateWrites, 2 * day

	// steps is how many pieces of a ledger one call rolls up, of a day at most each.
	steps = 100
	// patience is how many entries are rolled up for one who asks. Half a million runs a day are 5,000 in a quarter.
	patience = 100_000
)

// piece is a span of the ledger to roll up: quarters of an hour of one day, or the whole of it.
type piece struct {
	from, to time.Time
	whole    bool
}

// next is the next piece to roll up now; false: there is none. Days come last for who is in a hurry.
func next(r record.Rolled, now time.Time, hurry bool) (piece, bool) {
	whole := piece{from: r.Days, to: r.Days.Add(day), whole: true}
	wait := late
	if hurry {
		wait = missed
	}
	isOver := !whole.to.Add(wait).After(now)
	closed := now.Add(-Grace).Truncate(rollup.Quarter)
	if end := r.Quarters.Truncate(day).Add(day); end.Before(closed) {
		closed = end
	}
	if closed.After(r.Quarters) && (hurry || !isOver) {
		return piece{from: r.Quarters, to: closed}, true
	}
	return whole, isOver
}

// Daily is the daily work for an organization: it rolls up what has not been. behind says that there is more to do. The
// error is one of the store.
func (a *Analytics) Daily(ctx context.Context, organization string) (behind bool, err error) {
	budget := 10 * patience
	return a.roll(ctx, record.Of(organization), &budget, false)
}

// current rolls up what somebody who asks needs: quarters of an hour, and days as far as there is time. It returns how
// far the ledger is rolled up, or a problem of kind Unavailable when there is too much to do at once.
func (a *Analytics) current(ctx context.Context, scope record.Scope) (record.Rolled, error) {
	budget := patience
	if _, err := a.roll(ctx, scope, &budget, true); err != nil {
		if _, is := problem.As(err); !is && ctx.Err() == nil {
			err = problem.Retry(err) // what was rolled up is, or is not; both are good
		}
		return record.Rolled{}, err
	}
	e, err := a.Store.Rolled(ctx, scope)
	if err != nil {
		return record.Rolled{}, err
	}
	if p, any := next(e.Value, a.Host.Now(), true); any && !p.whole {
		behind := problem.Retry(nil)
		behind.Message = "the ledger of this organization is still being added up; ask again in a moment"
		return record.Rolled{}, behind
	}
	return e.Value, nil
}

// roll rolls up a piece after the other, until nothing is left, or the budget of entries is used up, or for long
// enough. After a conflict it looks again: somebody else has rolled up the same.
func (a *Analytics) roll(ctx context.Context, scope record.Scope, budget *int, hurry bool) (behind bool, err error) {
	for range steps {
		e, err := a.Store.Rolled(ctx, scope)
		if err != nil {
			return true, err
		}
		p, any := next(e.Value, a.Host.Now(), hurry)
		if !any {
			return false, nil
		}
		if *budget <= 0 {
			return true, nil
		}
		if err := a.piece(ctx, scope, e, p, budget, hurry); err != nil && !errors.Is(err, record.ErrConflict) {
			return true, err
		}
	}
	return true, nil
}

// piece rolls up a piece of the ledger, and moves on how far it is rolled up. Where the budget ends it stops at the end
// of a quarter; of a day that is whole it does all, or nothing for who is in a hurry.
func (a *Analytics) piece(
	ctx context.Context, scope record.Scope, e record.RolledEntity, p piece, budget *int, hurry bool,
) error {
	w := &writer{Analytics: a, organization: scope.Organization(), rolled: e}
	w.begin()
	days := map[rollup.View]*rollup.Table{}
	if p.whole {
		for _, v := range rollup.Views() {
			days[v] = rollup.New(v)
		}
	}
	at, quarter := p.from, rollup.New(rollup.All)
	end := func() {
		for n, data := range quarter.Pages(record.MaxRollupPage) {
			w.write(ctx, func(tx *record.Tx) { tx.PutQuarter(w.organization, at, n, data) })
		}
		for _, d := range days {
			d.Merge(quarter)
		}
	}
	for entry, err := range a.Store.Through(ctx, scope, p.from, p.to) {
		if err != nil {
			return err
		}
		if q := entry.At().Truncate(rollup.Quarter); q.After(at) {
			end()
			at, quarter = q, rollup.New(rollup.All)
			if *budget <= 0 && !p.whole {
				p.to = q
				break
			} else if *budget <= 0 && hurry {
				return nil
			}
		}
		quarter.Add(counted(entry))
		*budget--
	}
	end()
	for v, d := range days {
		for part, rows := range d.Split() {
			for n, data := range rows.Pages(record.MaxRollupPage) {
				w.write(ctx, func(tx *record.Tx) { tx.PutDay(w.organization, nameOf(v, part), p.from, n, data) })
			}
		}
	}
	return w.done(ctx, p)
}

// nameOf is how a part of a view is called where it is kept.
func nameOf(v rollup.View, part int) string { return fmt.Sprintf("%s/%02d", v, part) }

// Days reads the rows of days that a view shows and a filter may let pass, as they are kept. The errors are those of
// [record.Store.Days].
func (a *Analytics) Days(
	ctx context.Context, scope record.Scope, v rollup.View, filter rollup.Filter, from, to time.Time,
	f func(at time.Time, data []byte) error,
) error {
	for _, part := range v.PartsOf(filter) {
		if err := a.Store.Days(ctx, scope, nameOf(v, part), from, to, f); err != nil {
			return err
		}
	}
	return nil
}

// KeyOf says of whom and what an entry speaks. Earlier versions took models with names of any length.
func KeyOf(e record.Entry) rollup.Key {
	return rollup.Key{
		Kind: e.Kind, Status: e.Status, Model: rollup.Name(e.Model), Agent: e.AgentID, User: e.UserID,
		APIKey: e.APIKeyID,
	}
}

// counted is what counts of an entry.
func counted(e record.Entry) rollup.Entry {
	return rollup.Entry{
		Key:         KeyOf(e),
		InputTokens: e.InputTokens, OutputTokens: e.OutputTokens, ActiveMS: e.ActiveMS, QueueMS: e.QueueMS,
		ModelCalls: e.ModelCalls, ToolCalls: e.ToolCalls,
	}
}

// writer writes rollups in as few units of work as hold them. What the earlier ones wrote is in force with the last
// one; each requires that nobody else has gone on meanwhile.
type writer struct {
	*Analytics

	organization string
	rolled       record.RolledEntity
	tx           *record.Tx
	err          error
}

func (w *writer) begin() { w.tx = w.Store.Begin(w.Host.NewID()) }

func (w *writer) write(ctx context.Context, put func(*record.Tx)) {
	if w.err == nil && !w.tx.Roomy() {
		w.tx.RequireRolled(w.organization, w.rolled)
		w.err = w.tx.Commit(ctx)
		w.begin()
	}
	put(w.tx)
}

func (w *writer) done(ctx context.Context, p piece) error {
	if w.err != nil {
		return w.err
	}
	to := &w.rolled.Value
	if p.to.After(to.Quarters) {
		to.Quarters = p.to
	}
	if p.whole {
		to.Days = p.to
	}
	w.tx.PutRolled(w.organization, w.rolled)
	return w.tx.Commit(ctx)
}
