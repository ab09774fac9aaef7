package analytics

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"sync"
	"time"

	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/rollup"
)

const (
	day = 24 * time.Hour
	// Grace is how long a quarter of an hour has been over when it is rolled up. An entry has the time at which its run
	// was settled, by the clock of the process that did. The commit comes up to [record.Tx.Commit]'s patience later,
	// and the clocks of two machines may differ. None comes later than that, unless a machine stood still in between or
	// its clock was set.
	Grace = 15 * time.Minute
	// late is how long a day has been over when its quarters are rolled up again, for entries later than Grace.
	late = record.LateWrites
	// suspect is how much is rolled up again when a clock turns out to have been ahead. Since then, entries came with
	// times before the end of its rollups.
	suspect = 31 * day

	// patience is how many entries one query may roll up. Half a million runs a day are 5,000 in a quarter. One query
	// also rolls up as many empty days as a question may cover.
	patience = 100_000
	// a day costs as much of that, and two writes, with or without entries.
	daily = 200
)

// work is a kind of work on a span of the ledger.
type work int

const (
	rollQuarters work = iota // for the first time
	rollAgain                // and write the differences
	sumDays                  // out of their quarters
)

// piece is a span of the ledger to roll up.
type piece struct {
	from, to time.Time
	of       work
}

// ends are the time until which quarters may be rolled up, and the time until which their sums are final.
func ends(now time.Time) (closed, final time.Time) {
	return now.Add(-Grace).Truncate(rollup.Quarter), now.Add(-late).Truncate(day)
}

// next is the next piece to roll up now; false: there is none. The pieces that every question needs come first.
func next(r record.Rolled, now time.Time) (piece, bool) {
	closed, final := ends(now)
	switch full := r.Checked.Truncate(day); {
	case r.Quarters.Before(closed):
		return piece{r.Quarters, closed, rollQuarters}, true
	case r.Checked.Before(final):
		return piece{r.Checked, final, rollAgain}, true
	default:
		return piece{r.Days, full, sumDays}, r.Days.Before(full)
	}
}

// takenBack corrects how far a ledger is rolled up when a clock that was ahead went too far. Quarters that are not over
// yet are rolled up again. So are those of the time suspect before now, as nobody knows for how long the clock was
// ahead. Clocks that are set right differ by less.
func takenBack(r record.Rolled, now time.Time) (record.Rolled, bool) {
	if !r.Quarters.After(now) && !r.Checked.After(now.Add(-Grace)) {
		return r, false
	}
	to := now.Add(-suspect).Truncate(day)
	return record.Rolled{
		Quarters: earlier(r.Quarters, to), Checked: earlier(r.Checked, to), Days: earlier(r.Days, to),
	}, true
}

// Daily is the daily work for an organization: it rolls up the rest of its ledger. behind reports whether more is left.
// For an organization that is being removed it does nothing. The error is one of the store.
func (a *Analytics) Daily(ctx context.Context, organization string) (behind bool, err error) {
	behind, err = a.roll(ctx, record.Of(organization), 10*patience)
	if problem.Is(err, "not_found") {
		return false, nil
	}
	return behind, err
}

// Again makes the next query or the daily work roll up an organization's ledger again, from a time on. The error is one
// of the store, or [record.ErrConflict].
func (a *Analytics) Again(ctx context.Context, organization string, from time.Time) error {
	e, err := a.Store.Rolled(ctx, record.Of(organization))
	if err != nil {
		return err
	}
	require, err := a.living(ctx, record.Of(organization))
	if err != nil {
		return err
	}
	e.Value.Checked = earlier(e.Value.Checked, from.Truncate(day))
	e.Value.Days = earlier(e.Value.Days, e.Value.Checked)
	tx := a.Store.Begin(a.Host.NewID())
	require(tx)
	tx.PutRolled(organization, e)
	return tx.Commit(ctx)
}

// living returns a condition for each commit that rolls up a ledger: its organization is as it was read. So nothing is
// written of an organization that is being removed, however long the writing process has stood still. It returns a
// problem of kind NotFound for such an organization.
func (a *Analytics) living(ctx context.Context, scope record.Scope) (require func(*record.Tx), err error) {
	if scope.Organization() == record.NoOrganization {
		return func(*record.Tx) {}, nil
	}
	o, err := record.Resource[catalog.Organization](ctx, a.Store, record.System(), scope.Organization())
	if err == nil && o.Value.Deleted {
		err = problem.Missing("organization " + scope.Organization())
	}
	return func(tx *record.Tx) { record.Unchanged(tx, o) }, err
}

// Erase deletes a part of the rollups of an organization that is being removed. It returns where the next part begins,
// empty at the end; after is empty for the first one. The error is one of the store.
func (a *Analytics) Erase(ctx context.Context, organization, after string) (next string, err error) {
	var views []string
	for _, v := range rollup.Views() {
		for _, part := range v.PartsOf(rollup.Filter{}) {
			views = append(views, nameOf(v, part))
		}
	}
	return a.Store.EraseRollups(ctx, record.Of(organization), views, after)
}

// current rolls up the part that a query needs: quarters of an hour, and days as far as there is time. It returns how
// far the ledger is rolled up. If the rest is too much for one query, it returns a problem of kind Unavailable.
func (a *Analytics) current(ctx context.Context, scope record.Scope) (record.Rolled, error) {
	if _, err := a.roll(ctx, scope, patience); err != nil {
		if _, is := problem.As(err); !is && ctx.Err() == nil {
			err = problem.Retry(err) // each piece is rolled up or not; both are right
		}
		return record.Rolled{}, err
	}
	e, err := a.Store.Rolled(ctx, scope)
	if err != nil {
		return record.Rolled{}, err
	}
	if p, any := next(e.Value, a.Host.Now()); any && p.of == rollQuarters {
		behind := problem.Retry(nil)
		behind.Message = "the ledger of this organization is not ready yet; try again in a moment"
		return record.Rolled{}, behind
	}
	return e.Value, nil
}

// roll rolls up a piece after the other, until nothing is left, or the budget of entries is used up. After a conflict
// it reads again: another process has rolled up the same. A piece that cannot be stored is divided, and each part is
// rolled up by itself. If a part cannot be stored even so, its entries are added up under [rollup.Other]. So no entry
// of the ledger keeps later ones from being rolled up.
func (a *Analytics) roll(ctx context.Context, scope record.Scope, budget int) (behind bool, err error) {
	const alone, folded = 1, 2
	defer a.turn(ctx, scope.Organization())()
	for care := 0; ; {
		e, err := a.Store.Rolled(ctx, scope)
		if err != nil {
			return true, err
		}
		now := a.Host.Now()
		w := &roller{
			Analytics: a, scope: scope, rolled: e, stored: e.Value, budget: &budget, by: a.Host.NewID(),
			folds: care == folded,
		}
		back, ahead := takenBack(e.Value, now)
		p, any := next(e.Value, now)
		if !ahead && !any || budget <= 0 {
			return ahead || any, nil
		}
		if w.require, err = a.living(ctx, scope); err != nil {
			return false, err
		}
		if w.tx = w.begin(w.by); ahead {
			w.rolled.Value = back
			err = w.flush(ctx)
		} else {
			err = w.do(ctx, p, care > 0)
		}
		switch {
		case err == nil:
			care = min(care, alone)
		case errors.Is(err, record.ErrConflict):
			budget -= daily
		case record.Unstorable(err) && care < folded:
			care++
			if care == folded && a.Log != nil {
				a.Log.Error("a part of a ledger cannot be stored, and is rolled up without telling anything apart",
					"organization_id", scope.Organization(), "from", p.from, "error", err)
			}
		default:
			return true, err
		}
	}
}

// turn waits while others in this process roll up the same ledger, for a while. After that the caller works at the same
// time as they do. The returned function ends the turn.
func (a *Analytics) turn(ctx context.Context, organization string) (end func()) {
	const pollInterval, maxPolls = 20 * time.Millisecond, 100
	one, _ := a.rolling.LoadOrStore(organization, new(sync.Mutex))
	lock := one.(*sync.Mutex)
	for range maxPolls {
		if lock.TryLock() {
			return lock.Unlock
		}
		if a.Host.Sleep(ctx, pollInterval) != nil {
			break
		}
	}
	return func() {}
}

// roller rolls up a piece of a ledger. Each of its commits requires that how far the ledger is rolled up is as it was
// read. It moves that on over its writes: the first page of each table. Other pages are written before, under a name
// that only this first page contains. So each table comes into force as a whole. (A day may take several commits; in
// its middle nothing is moved on. These writes come into force with the last commit. They are the same for any writer.)
type roller struct {
	*Analytics

	scope  record.Scope
	rolled record.RolledEntity
	stored record.Rolled // how far it was when it was last read or written
	budget *int
	by     string // is in the names of pages
	tx     *record.Tx
	folds  bool // all keys are folded into one

	require func(*record.Tx) // is part of each commit, see [Analytics.living]

	marks map[time.Time]hash.Hash // of the pages of the quarters of the day that is looked at
	day   time.Time
}

// begin begins a unit of work.
func (w *roller) begin(id string) *record.Tx {
	tx := w.Store.Begin(id)
	w.require(tx)
	return tx
}

func (w *roller) do(ctx context.Context, p piece, alone bool) error {
	if p.of == sumDays {
		if alone {
			p.to = p.from.Add(day)
		}
		return w.days(ctx, p)
	}
	if alone {
		p.to = earlier(p.to, p.from.Add(rollup.Quarter))
	}
	return w.quarters(ctx, p)
}

// quarters rolls up quarters of an hour. It ends with the one in which the budget is used up.
func (w *roller) quarters(ctx context.Context, p piece) error {
	fresh := w.rolled.Value.Checked.Equal(w.rolled.Value.Quarters)
	_, final := ends(w.Host.Now())
	moveTo := func(at time.Time) {
		r := &w.rolled.Value
		r.Quarters = later(r.Quarters, at)
		if p.of == rollAgain || fresh { // rollups as late as that are final immediately
			r.Checked = later(r.Checked, earlier(at, final))
		}
	}
	if most := p.from.Truncate(day).Add(time.Duration(max(1, *w.budget/daily)) * day); most.Before(p.to) {
		p.to = most
	}
	*w.budget -= daily * int((p.to.Sub(p.from)+day-1)/day)
	at, quarter := p.from, rollup.New(rollup.All)
	end := func() error {
		pages := quarter.Pages(record.MaxRollupPage)
		if same, err := w.stands(ctx, at, pages); err != nil || same {
			return err
		}
		if !w.tx.Roomy() {
			moveTo(at)
			if err := w.flush(ctx); err != nil {
				return err
			}
		}
		return w.write(ctx, pages, func(tx *record.Tx, page record.RollupPage) {
			tx.PutQuarter(w.scope.Organization(), at, page)
		})
	}
	for entry, err := range w.Store.Through(ctx, w.scope, p.from, p.to) {
		if err != nil {
			return err
		}
		if q := entry.At().Truncate(rollup.Quarter); q.After(at) {
			if err := end(); err != nil {
				return err
			}
			at, quarter = q, rollup.New(rollup.All)
			if *w.budget <= 0 {
				p.to = q
				break
			}
		}
		c := counted(entry)
		c.Key = w.fold(c.Key)
		quarter.Add(c)
		*w.budget--
	}
	if err := end(); err != nil {
		return err
	}
	moveTo(p.to)
	return w.flush(ctx)
}

// fold is the part of a key that stays separate.
func (w *roller) fold(k rollup.Key) rollup.Key {
	if w.folds {
		k.Model, k.Agent, k.User, k.APIKey = rollup.Other, rollup.Other, rollup.Other, rollup.Other
	}
	return k
}

// stands reports whether these are the pages of a quarter as they are stored.
func (w *roller) stands(ctx context.Context, at time.Time, pages [][]byte) (bool, error) {
	if len(pages) == 0 {
		return true, nil // no entries now, so there were none before
	}
	if d := at.Truncate(day); w.marks == nil || !d.Equal(w.day) {
		w.marks, w.day = map[time.Time]hash.Hash{}, d
		err := w.Store.Quarters(ctx, w.scope, d, d.Add(day), func(at time.Time, data []byte) error {
			if w.marks[at] == nil {
				w.marks[at] = sha256.New()
			}
			_, err := w.marks[at].Write(data)
			return err
		})
		if err != nil {
			return false, err
		}
	}
	stored, now := w.marks[at], sha256.New()
	for _, data := range pages {
		_, _ = now.Write(data) // it never fails
	}
	return stored != nil && bytes.Equal(stored.Sum(nil), now.Sum(nil)), nil
}

// days adds up the quarters of whole days. These are final, so every process gets the same tables. It ends with the day
// in which the budget is used up.
func (w *roller) days(ctx context.Context, p piece) error {
	r := &w.rolled.Value
	for ; r.Days.Before(p.to) && *w.budget > 0; r.Days = r.Days.Add(day) {
		*w.budget -= daily
		views, err := w.sum(ctx, r.Days)
		if err != nil {
			return err
		}
		for _, v := range rollup.Views() {
			parts := views[v].Split()
			for n := range rollup.Parts {
				if parts[n] == nil {
					continue
				}
				if !w.tx.Roomy() {
					if err := w.flush(ctx); err != nil {
						return err
					}
				}
				err := w.write(ctx, parts[n].Pages(record.MaxRollupPage), func(tx *record.Tx, page record.RollupPage) {
					tx.PutDay(w.scope.Organization(), nameOf(v, n), r.Days, page)
				})
				if err != nil {
					return err
				}
			}
		}
	}
	return w.flush(ctx)
}

// sum adds up the quarters of a day.
func (w *roller) sum(ctx context.Context, at time.Time) (map[rollup.View]*rollup.Table, error) {
	views := map[rollup.View]*rollup.Table{}
	for _, v := range rollup.Views() {
		views[v] = rollup.New(v)
	}
	err := w.Store.Quarters(ctx, w.scope, at, at.Add(day), func(_ time.Time, data []byte) error {
		return rollup.Read(rollup.All, data, func(k rollup.Key, row *rollup.Row) {
			for _, t := range views {
				t.Put(w.fold(k), *row)
			}
			*w.budget--
		})
	})
	return views, err
}

// write writes a table: its first page with the unit of work, others before it.
func (w *roller) write(ctx context.Context, pages [][]byte, put func(*record.Tx, record.RollupPage)) error {
	rest := w.begin(w.Host.NewID())
	for n, data := range pages[1:] {
		if !rest.Roomy() {
			if err := rest.Commit(ctx); err != nil {
				return err
			}
			rest = w.begin(w.Host.NewID())
		}
		put(rest, record.RollupPage{Number: n + 1, By: w.by, Data: data})
	}
	if len(pages) > 1 {
		if err := rest.Commit(ctx); err != nil {
			return err
		}
	}
	put(w.tx, record.RollupPage{By: w.by, Data: pages[0]})
	return nil
}

// flush commits the writes so far, and moves on how far the ledger is rolled up. A next unit of work begins.
func (w *roller) flush(ctx context.Context) error {
	if w.rolled.Value == w.stored { // in the middle of a day
		w.tx.RequireRolled(w.scope.Organization(), w.rolled)
	} else {
		w.rolled = w.tx.PutRolled(w.scope.Organization(), w.rolled)
	}
	w.stored = w.rolled.Value
	err := w.tx.Commit(ctx)
	w.tx = w.begin(w.Host.NewID())
	return err
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// nameOf is the stored name of a part of a view.
func nameOf(v rollup.View, part int) string { return fmt.Sprintf("%s/%02d", v, part) }

// Days reads the stored rows of days that a view shows and a filter may let pass. The errors are those of
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

// KeyOf is the key of an entry. Earlier versions took models with names of any length.
func KeyOf(e record.Entry) rollup.Key {
	return rollup.Key{
		Kind: e.Kind, Status: e.Status, Model: rollup.Name(e.Model), Agent: e.AgentID, User: e.UserID,
		APIKey: e.APIKeyID,
	}
}

// counted is the part of an entry that counts.
func counted(e record.Entry) rollup.Entry {
	c := rollup.Entry{
		Key:         KeyOf(e),
		InputTokens: e.InputTokens, OutputTokens: e.OutputTokens, ActiveMS: e.ActiveMS, QueueMS: e.QueueMS,
		ModelCalls: e.ModelCalls, ToolCalls: e.ToolCalls,
	}
	for _, one := range e.Embedded {
		c.Embedded = append(c.Embedded, rollup.Tokens{Model: one.Model, Input: one.Tokens})
	}
	return c
}
