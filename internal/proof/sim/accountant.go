package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"agentplatform/internal/org/analytics"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/proof/faulttable"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/rollup"
	"agentplatform/internal/store/table"
)

// hasAccountants reports whether users in a seed's world read their usage. That is so in one of eight worlds, but in
// none below 256. Those worlds stay as they were before accountants existed.
func hasAccountants(seed uint64) bool { return seed >= 256 && seed*0x9e3779b97f4a7c15>>61 == 0 }

// books has the written ledger by organization, and how far it has been rolled up. The expected rollups are computed
// here by rules of the simulation's own.
type books struct {
	*world

	entries map[string]map[string]record.Entry // by organization, and by the run or id of the entry
	late    map[string]bool                    // entries that came after their quarter of an hour had been rolled up
	rolled  map[string]record.Rolled
	changed []string // organizations with further rollups in the current commit
	tally   map[string]int
}

// newBooks makes the world's books. The world begins shortly before midnight. Its faults go on until the day before is
// rolled up.
func newBooks(w *world) *books {
	w.now = time.Date(2026, 1, 1, 23, 40, 0, 0, time.UTC)
	w.trouble = 110 * time.Minute
	return &books{world: w, entries: map[string]map[string]record.Entry{}, late: map[string]bool{},
		rolled: map[string]record.Rolled{}, tally: map[string]int{}}
}

// lingers reports whether some commits take longer than the grace time after which a quarter of an hour is rolled up.
func (b *books) lingers() bool { return b.seed%2 == 1 }

// isAhead reports whether a process whose clock is hours ahead rolls up ledgers.
func (b *books) isAhead() bool { return b.seed/2%2 == 1 }

// linger delays a commit that ends a run, with its ledger entry, for a long time.
func (b *books) linger(ops []table.Op) {
	writes := func(part string) bool {
		return slices.ContainsFunc(ops, func(op table.Op) bool { return strings.HasPrefix(op.Item.Part, part) })
	}
	often := 2
	if strings.Contains(b.awake.name, "worker") {
		often = 16 // as by then another has taken the run over
	}
	if b.quiet || !b.lingers() || !writes("ledger/") || !writes("run/") || b.chance.IntN(often) != 0 {
		return
	}
	b.count("entry on its way")
	_ = b.sleep(b.awake, context.Background(), 30*time.Minute+time.Duration(b.chance.Int64N(int64(15*time.Minute))))
}

// accountants makes users who read the usage now and then, and have it rolled up.
func (b *books) accountants() {
	if b.isAhead() {
		b.soothsayer()
	}
	seen := map[string]bool{}
	for n, who := range b.people {
		if seen[who.Organization] {
			continue
		}
		seen[who.Organization] = true
		name := fmt.Sprintf("accountant %d", n)
		c := &client{world: b.world, who: who, name: name, own: &process{name: name}}
		b.spawn(c.own, name, func(a *actor) {
			for end := b.now.Add(b.trouble); b.now.Before(end); {
				if b.work.IntN(3) == 0 {
					c.ask(a, func(ctx context.Context, d *deployment) {
						_, _ = d.accounts.Daily(ctx, who.Organization)
					})
				} else {
					b.ask(a, c)
				}
				_ = b.sleep(a, context.Background(), time.Duration(b.work.Int64N(int64(4*time.Minute))))
			}
		})
	}
}

// soothsayer rolls up ledgers now and then with a clock that is hours ahead.
func (b *books) soothsayer() {
	p := &process{name: "soothsayer", astray: time.Duration(1+b.chance.IntN(60)) * time.Hour}
	m := &machine{scheduler: b.scheduler, process: p, work: b.work}
	ahead := &analytics.Analytics{Store: record.New(b.observed(), b.blobs, m), Host: m}
	b.spawn(p, p.name, func(a *actor) {
		for end := b.now.Add(b.trouble / 2); b.now.Before(end); {
			_ = b.sleep(a, context.Background(), time.Duration(b.work.Int64N(int64(20*time.Minute))))
			_, _ = ahead.Daily(context.Background(), b.people[b.work.IntN(len(b.people))].Organization)
		}
	})
}

// account makes a deployment roll up ledgers.
func (d *deployment) account() {
	d.accounts = &analytics.Analytics{Store: d.store, Host: d.machine}
	d.remover.Rollups = d.accounts
}

// observed returns the table without faults. Its commits are checked.
func (b *books) observed() table.Table {
	return &faulttable.Table{Inner: b.inner, After: func(c faulttable.Call) {
		if c.Commit {
			b.checker.committed(b.inner, c.Ops)
		}
		b.yield(b.awake)
	}}
}

// ask reads the usage of an organization, or of one of its users, in a span of time. The answer must have every entry
// that existed at the time of the request, and none that did not exist at the time of the answer.
func (b *books) ask(a *actor, c *client) {
	from := b.now.Add(-time.Duration(b.work.Int64N(int64(3 * time.Hour)))).Truncate(time.Millisecond)
	if b.work.IntN(2) == 0 {
		from = from.Truncate(24 * time.Hour)
	}
	q := analytics.Question{From: from, To: b.now.Add(time.Hour), Filter: rollup.Filter{Kind: record.OfRun}}
	if b.work.IntN(3) == 0 {
		q.To = b.now.Add(-time.Duration(b.work.Int64N(int64(time.Hour))))
	}
	if b.work.IntN(2) == 0 {
		q.Filter.User = c.who.User
	}
	if !q.To.After(q.From) {
		return
	}
	least := b.sum(c.who.Organization, q, true)
	var got analytics.Summary
	var err error
	if !c.ask(a, func(ctx context.Context, d *deployment) {
		got, err = d.accounts.Summarize(ctx, record.Of(c.who.Organization), q)
	}) {
		return
	}
	if err != nil {
		if _, is := problem.As(err); !is {
			b.checker.violated(30, "a question about usage is answered with %v", err)
		}
		return
	}
	b.tally["questions answered"]++
	most := b.sum(c.who.Organization, q, false)
	answer := sums{got.Total, got.Input, got.Output, got.ModelCalls, got.ToolCalls}
	for n := range answer {
		if answer[n] < least[n] || answer[n] > most[n] {
			b.checker.violated(30, "%v were used from %s to %s, %v when the question came, and the answer is %v", most,
				q.From, q.To, least, answer)
			return
		}
	}
}

// sums are the numbers of entries, input tokens, output tokens, calls of models and calls of tools.
type sums [5]int64

// sum adds up the entries of a question. With surely it leaves out late entries, which may not be counted yet.
func (b *books) sum(organization string, q analytics.Question, surely bool) (s sums) {
	for id, e := range b.entries[organization] {
		if surely && b.late[id] {
			continue
		}
		if e.FinishedAt.Before(q.From) || !e.FinishedAt.Before(q.To) || e.RunID == "" ||
			q.Filter.User != "" && q.Filter.User != e.UserID {
			continue
		}
		for n, by := range (sums{1, e.InputTokens, e.OutputTokens, e.ModelCalls, e.ToolCalls}) {
			s[n] += by
		}
	}
	return s
}

// entered records an entry of the ledger. No entry may come after its quarter of an hour was rolled up, except one
// whose commit took long. Even that may not come after its day was checked.
func (b *books) entered(key table.Key, item *table.Item, ledger map[string][]record.Entry) {
	if item == nil {
		return
	}
	if b.entries[item.Owner] == nil {
		b.entries[item.Owner] = map[string]record.Entry{}
	}
	for id, entries := range ledger {
		_, known := b.entries[item.Owner][id]
		b.entries[item.Owner][id] = entries[0]
		r, at := b.rolled[item.Owner], entries[0].FinishedAt
		if known || b.isAhead() && r.Quarters.After(b.now.Add(-analytics.Grace)) {
			continue
		}
		if b.lingers() && b.now.Sub(at) > analytics.Grace {
			b.late[id] = true
		}
		if at.Before(r.Checked) || at.Before(r.Quarters) && !b.late[id] {
			b.checker.violated(29, "%s was finished at %s and comes after that was rolled up, %+v", key, at, r)
		}
		if at.Before(r.Quarters) {
			b.tally["came late"]++
		}
	}
}

func (b *books) moved(organization string) { b.changed = append(b.changed, organization) }

// committed checks the newly rolled-up part of an organization's ledger after a commit has extended it.
func (b *books) committed() {
	for _, organization := range b.changed {
		e, err := b.checker.store().Rolled(context.Background(), record.Of(organization))
		must(err)
		before, now := b.rolled[organization], e.Value
		if before.Days.IsZero() {
			before = record.Rolled{Quarters: now.Quarters.AddDate(0, 0, -3), Checked: now.Checked.AddDate(0, 0, -3),
				Days: now.Days.AddDate(0, 0, -3)}
		}
		b.rolled[organization] = now
		for id, e := range b.entries[organization] {
			if e.FinishedAt.Before(now.Checked) {
				delete(b.late, id)
			}
		}
		if !b.quiet {
			b.tally["rolled up among faults"]++
			b.tally["days among them"] += max(0, int(now.Days.Sub(before.Days).Hours()/24))
		}
		if now.Quarters.Before(before.Quarters) || now.Checked.Before(before.Checked) || now.Days.Before(before.Days) {
			b.tally["taken back"]++
			if !b.isAhead() {
				b.checker.violated(29, "rollups went back from %+v to %+v", before, now)
			}
		}
		b.check(organization, rollup.All, before.Quarters, now.Quarters, rollup.Quarter)
		for _, v := range rollup.Views() {
			b.check(organization, v, before.Days, now.Days, 24*time.Hour)
		}
		b.check(organization, rollup.All, before.Checked, now.Checked, rollup.Quarter)
	}
	b.changed = b.changed[:0]
}

// line has the values of a row of a rollup, with the members by which its view distinguishes rows.
type line struct {
	sums
	active, queue int64
}

// check compares the rollups of a span of time with the books.
func (b *books) check(organization string, v rollup.View, from, to time.Time, step time.Duration) {
	type point struct {
		at  time.Time
		key rollup.Key
	}
	want, got, unsure := map[point]line{}, map[point]line{}, map[time.Time]bool{}
	for id, e := range b.entries[organization] {
		if b.late[id] {
			unsure[e.FinishedAt.Truncate(step)] = true // it may have come between a read and its commit
		}
	}
	for _, e := range b.entries[organization] {
		at := e.FinishedAt.Truncate(step)
		if at.Before(from) || !at.Before(to) || unsure[at] {
			continue
		}
		k := v.Of(analytics.KeyOf(e))
		if k.Kind == "" {
			k.Kind = record.OfRun // is not stored
		}
		l := want[point{at, k}]
		for n, by := range (sums{1, e.InputTokens, e.OutputTokens, e.ModelCalls, e.ToolCalls}) {
			l.sums[n] += by
		}
		l.active += e.ActiveMS
		l.queue += e.QueueMS
		want[point{at, k}] = l
	}
	read := func(at time.Time, data []byte) error {
		return rollup.Read(v, data, func(k rollup.Key, r *rollup.Row) {
			all := sums{r.Entries, r.Used().Input, r.Used().Output, r.ModelCalls, r.ToolCalls}
			if !unsure[at] {
				got[point{at, k}] = line{all, r.ActiveMS, r.QueueMS}
			}
		})
	}
	store, ctx := b.checker.store(), context.Background()
	if step == rollup.Quarter {
		must(store.Quarters(ctx, record.Of(organization), from, to, read))
	} else {
		days := analytics.Analytics{Store: store}
		must(days.Days(ctx, record.Of(organization), v, rollup.Filter{}, from, to, read))
	}
	if !maps.Equal(want, got) {
		b.checker.violated(29, "%s from %s to %s: the ledger has %v, and the rollups of %s by %s have %v", organization,
			from, to, want, step, v, got)
	}
}

// final checks that everything is rolled up at the end.
func (b *books) final() {
	for _, organization := range slices.Sorted(maps.Keys(b.entries)) {
		o, err := record.Resource[catalog.Organization](context.Background(), b.checker.store(), record.System(),
			organization)
		if err != nil || o.Value.Deleted { // there are no more requests
			b.inner.All(func(item *table.Item) {
				if kind, _, _ := strings.Cut(item.Part, "/"); item.Owner == organization &&
					(kind == "rolled" || kind == "rollup") {
					b.checker.violated(29, "%s is left of an organization that is removed", item.Key)
				}
			})
			continue
		}
		if r := b.rolled[organization]; r.Days.Before(b.now.AddDate(0, 0, -3)) {
			b.checker.violated(29, "in the end the ledger of %s is rolled up until %s", organization, r.Days)
		}
	}
}
