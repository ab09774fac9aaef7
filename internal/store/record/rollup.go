package record

import (
	"context"
	"fmt"
	"strings"
	"time"

	"agentplatform/internal/store/table"
)

// Rolled is how far an organization's ledger has been rolled up. Rollups from before that time are valid, each table as
// a whole (see [RollupPage]), also while it is replaced. Later rollups are not read. They are left from work that did
// not get to its last commit, or of a clock that was ahead, and will be written again.
type Rolled struct {
	Quarters time.Time `json:"quarters"`         // quarters of an hour are rolled up until then
	Checked  time.Time `json:"checked,omitzero"` // they are final until then: rolled up when nothing came late any more
	Days     time.Time `json:"days"`             // days, in UTC
}

// RolledEntity is how far the ledger has been rolled up, with the data that a write needs.
type RolledEntity = Entity[Rolled]

// MaxRollupPage bounds the bytes of a page of a rollup, which are stored as text.
const MaxRollupPage = 256 << 10

// RollupPage is a page of a rollup. The first page of a table names its writer, and only other pages of that writer
// count. So a new first page replaces the table as a whole, even if old pages are left.
type RollupPage struct {
	Number int    `json:"-"`
	By     string `json:"by,omitzero"`
	Data   []byte `json:"data"` // means something to those who roll up
}

// sort is the sort key of a page, behind the one of its table.
func (p RollupPage) sort(of string) string {
	if p.Number == 0 {
		return of + firstPage
	}
	return of + "/" + p.By + "/" + padded(3, int64(p.Number))
}

const firstPage = "/000"

func rolledKey(organization string) table.Key {
	return table.Key{Part: "rolled/" + organization, Sort: headSort}
}

// The quarters of a day are a partition, and so are the days of a view. A query reads a range of one.
func quarterPart(organization string, at time.Time) string {
	return "rollup/" + organization + "/quarters/" + at.UTC().Format(time.DateOnly)
}

func dayPart(organization, view string) string { return "rollup/" + organization + "/days/" + view }

// Rolled reads how far an organization's ledger has been rolled up. If it has not been rolled up at all, that is the
// day before it began.
func (s *Store) Rolled(ctx context.Context, scope Scope) (RolledEntity, error) {
	e, found, err := find[Rolled](ctx, s, rolledKey(scope.organization))
	if found || err != nil {
		if e.Value.Checked.Before(e.Value.Days) { // of an earlier version, which checked a quarter with its day
			e.Value.Checked = e.Value.Days
		}
		return e, err
	}
	first, err := s.FirstDay(ctx, scope)
	return Fresh(Rolled{first, first, first}), err
}

// PutRolled writes how far the ledger has been rolled up. It returns the entity as it is after the commit. The rollups
// and this mark become visible together in one unit of work. Another unit of work that has read the same mark is
// refused.
func (tx *Tx) PutRolled(organization string, e RolledEntity) RolledEntity {
	return put(tx, e, table.Item{Key: rolledKey(organization), Owner: organization})
}

// RequireRolled makes the commit require that how far the ledger has been rolled up is as it was read.
func (tx *Tx) RequireRolled(organization string, e RolledEntity) {
	tx.add(table.Check(rolledKey(organization), e.asRead()))
}

// PutQuarter writes a page of the rollup of the quarter of an hour from at on, over any page there.
func (tx *Tx) PutQuarter(organization string, at time.Time, page RollupPage) {
	tx.putRollup(organization, quarterPart(organization, at), at.UTC().Format("15:04"), page)
}

// PutDay writes a page of the rollup of a day as a view shows it, over any page there.
func (tx *Tx) PutDay(organization, view string, at time.Time, page RollupPage) {
	tx.putRollup(organization, dayPart(organization, view), at.UTC().Format(time.DateOnly), page)
}

func (tx *Tx) putRollup(organization, part, of string, page RollupPage) {
	key := table.Key{Part: part, Sort: page.sort(of)}
	putIf(tx, table.Always(), Fresh(page), table.Item{Key: key, Owner: organization})
}

// Roomy reports whether the unit of work has room for another page of a rollup, and for how far the ledger is rolled
// up.
func (tx *Tx) Roomy() bool {
	const page, rest = MaxRollupPage * 4 / 3, 4096 // a page is text
	size := 0
	for _, op := range tx.ops {
		size += op.Item.Size()
	}
	return len(tx.ops)+2 <= table.MaxOps && size+page+rest <= table.MaxCommitBytes
}

// EraseRollups deletes a part of an organization's rollups. A part is the rollups of some days; the last part is the
// views with these names and the [Rolled]. It returns where the next part begins, empty at the end; after is empty for
// the first one. The caller ensures that nothing rolls up this ledger any more.
func (s *Store) EraseRollups(ctx context.Context, scope Scope, views []string, after string) (next string, err error) {
	const last = "views"
	if after == last {
		for _, view := range views {
			if err := s.erase(ctx, table.Range{Part: dayPart(scope.organization, view)}); err != nil {
				return "", err
			}
		}
		return "", s.erase(ctx, table.Range{Part: rolledKey(scope.organization).Part})
	}
	e, err := s.Rolled(ctx, scope)
	if err != nil {
		return "", err
	}
	day, err := s.FirstDay(ctx, scope)
	if after != "" && err == nil {
		day, err = time.Parse(time.DateOnly, after)
	}
	if err != nil {
		return "", err
	}
	for range LedgerDays {
		if err := s.erase(ctx, table.Range{Part: quarterPart(scope.organization, day)}); err != nil {
			return "", err
		}
		day = day.AddDate(0, 0, 1)
	}
	if day.After(e.Value.Quarters) && day.After(s.host.Now().AddDate(0, 0, 1)) { // other clocks may be ahead
		return last, nil
	}
	return day.Format(time.DateOnly), nil
}

// Quarters reads the pages of the quarters of an hour that begin in [from, to), in order. It calls f with the begin and
// the data of each; an error of f ends the reading.
func (s *Store) Quarters(
	ctx context.Context, scope Scope, from, to time.Time, f func(at time.Time, data []byte) error,
) error {
	for day := from.UTC().Truncate(24 * time.Hour); day.Before(to); day = day.Add(24 * time.Hour) {
		r := table.Range{Part: quarterPart(scope.organization, day)}
		if day.Before(from) {
			r.After = from.UTC().Format("15:04")
		}
		err := s.rollups(ctx, r, day.Format(time.DateOnly)+" ", "2006-01-02 15:04", to, f)
		if err != nil {
			return err
		}
	}
	return nil
}

// Days is Quarters for the days, as a view shows them, that begin in [from, to).
func (s *Store) Days(
	ctx context.Context, scope Scope, view string, from, to time.Time, f func(at time.Time, data []byte) error,
) error {
	r := table.Range{Part: dayPart(scope.organization, view), After: from.UTC().Format(time.DateOnly)}
	return s.rollups(ctx, r, "", time.DateOnly, to, f)
}

// rollupPages is how many pages one query reads. That is about a response of DynamoDB with usual pages, and a bound for
// full ones.
const rollupPages = 100

// rollups reads the pages in a range until a time. The time of each is in its sort key, behind a prefix.
func (s *Store) rollups(
	ctx context.Context, r table.Range, prefix, layout string, to time.Time,
	f func(at time.Time, data []byte) error,
) error {
	r.Limit = rollupPages
	current, by := "", ""
	for item, err := range s.items(ctx, r) {
		if err != nil {
			return err
		}
		of, page, _ := strings.Cut(item.Sort, "/")
		at, err := time.Parse(layout, prefix+of)
		if err != nil {
			return fmt.Errorf("record: %s: %w", item.Key, err)
		}
		if !at.Before(to) {
			return nil
		}
		if "/"+page != firstPage && (of != current || !writtenBy(page, by)) {
			continue // is left of a former table
		}
		e, err := decode[RollupPage](item)
		if err != nil {
			return err
		}
		if "/"+page == firstPage {
			current, by = of, e.Value.By
		}
		if err := f(at, e.Value.Data); err != nil {
			return err
		}
	}
	return nil
}

// writtenBy reports whether a page has the same writer as the first page. Pages of earlier versions do not name their
// writer.
func writtenBy(page, by string) bool {
	who, _, named := strings.Cut(page, "/")
	return named && who == by || !named && by == ""
}
