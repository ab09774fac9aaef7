package analytics

import (
	"context"
	"time"

	"agentplatform/internal/store/record"
	"agentplatform/internal/store/rollup"
)

// reading is the plan to read the data of a question.
type reading struct {
	Question

	view rollup.View // which separates the question's dimensions
	days bool        // days in UTC need not be divided further
}

// source is the source from which a span of time is read.
type source int

const (
	fromLedger source = iota
	fromQuarters
	fromDays
)

// span is a span of time that is read from one source.
type span struct {
	from, to time.Time
	of       source
}

// spans divides the range of a reading. Whole days are read from their rollups, as far as there are any, then quarters
// of an hour. The rest is read from the ledger.
func (r reading) spans(rolled record.Rolled, now time.Time) []span {
	to := earlier(r.To, now.Add(time.Hour)) // other clocks may be ahead; later than that nothing has happened
	days := earlier(to, rolled.Days).Truncate(day)
	quarters := earlier(to, rolled.Quarters).Truncate(rollup.Quarter)
	var list []span
	for at := r.From; at.Before(to); at = list[len(list)-1].to {
		next := span{at, to, fromLedger}
		switch quarter, midnight := ceiling(at, rollup.Quarter), ceiling(at, day); {
		case r.days && at.Equal(midnight) && at.Before(days):
			next = span{at, days, fromDays}
		case at.Equal(quarter) && at.Before(quarters):
			next = span{at, quarters, fromQuarters}
			if r.days && midnight.Before(days) {
				next.to = midnight
			}
		case quarter.Before(quarters):
			next.to = quarter
		}
		list = append(list, next)
	}
	return list
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// ceiling is the first multiple of a duration that is not before a time.
func ceiling(at time.Time, of time.Duration) time.Time {
	if down := at.Truncate(of); down.Before(at) {
		return down.Add(of)
	}
	return at
}

// read calls f with each row of a question, and with a time in the span that the row is of. The row is valid until f
// returns. The error is that of f, of the store, or of [Analytics.current]. It is a problem of kind NotFound if the
// organization is being removed.
func (a *Analytics) read(
	ctx context.Context, scope record.Scope, r reading, f func(at time.Time, k rollup.Key, row *rollup.Row) error,
) error {
	rolled, err := a.current(ctx, scope)
	if err != nil {
		return err
	}
	first, err := a.Store.FirstDay(ctx, scope)
	if err != nil {
		return err
	}
	r.From = later(r.From, first) // a day of quarters is a query: none are made of days that never were
	pages := func(view rollup.View) func(at time.Time, data []byte) error {
		return func(at time.Time, data []byte) error {
			var failed error
			err := rollup.Read(view, data, func(k rollup.Key, row *rollup.Row) {
				if failed == nil && r.Filter.Passes(k) {
					failed = f(at, k, row)
				}
			})
			if failed != nil {
				return failed
			}
			return err
		}
	}
	for _, s := range r.spans(rolled, a.Host.Now()) {
		switch s.of {
		case fromDays:
			err = a.Days(ctx, scope, r.view, r.Filter, s.from, s.to, pages(r.view))
		case fromQuarters:
			err = a.Store.Quarters(ctx, scope, s.from, s.to, pages(rollup.All))
		case fromLedger:
			err = a.ledger(ctx, scope, s, r.Filter, f)
		}
		if err != nil {
			return err
		}
	}
	// If an organization is being removed, some data may have been deleted before it was read.
	_, err = a.living(ctx, scope)
	return err
}

func (a *Analytics) ledger(
	ctx context.Context, scope record.Scope, s span, filter rollup.Filter,
	f func(at time.Time, k rollup.Key, row *rollup.Row) error,
) error {
	for e, err := range a.Store.Through(ctx, scope, s.from, s.to) {
		if err != nil {
			return err
		}
		if c := counted(e); filter.Passes(c.Key) {
			row := rollup.RowOf(c)
			if err := f(e.At(), c.Key, &row); err != nil {
				return err
			}
		}
	}
	return nil
}
