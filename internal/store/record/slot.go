package record

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash/fnv"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/store/table"
)

// Slots are items in the partition of a user and in that of an organization. A run that counts against the cap has a
// numbered slot. Accepted work that found no free number has "over/<run>" (overflow). A run that waits for a human, and
// does not count, has "paused/t<when>/<run>". Each names its run, so a partition is the exact list of active runs.
//
// A partition of DynamoDB takes a thousand write units a second, and a run costs it four. So a deployment may spread
// the slots of counted runs over shards, partitions of their own, if the cap is large or there is none. Their names
// begin with the shard: "7/1015", "12/over/<run>". Rare slots, and those that are read in order, are never spread
// (paused, overflow below a cap). All programs understand these names, whether or not they make some.
type slot struct {
	RunID string `json:"run_id"`
}

// shards is how many partitions the slots of one user or organization are spread over, besides the first.
const shards = 16

// LargeCap is the largest cap whose slots should be in one partition.
const LargeCap = 200

// SpreadSlotsAbove returns the store that spreads the slots of caps above limit, and those of users and organizations
// without a cap.
func (s *Store) SpreadSlotsAbove(limit int) *Store {
	spreading := *s
	spreading.spreadAbove = &limit
	return &spreading
}

// spread reports whether the slots below a cap are spread.
func (s *Store) spread(limit int) bool {
	return s.spreadAbove != nil && (limit == Uncapped || limit > *s.spreadAbove)
}

// inShard is the name of a slot in a shard.
func inShard(shard int, row string) string { return strconv.Itoa(shard) + "/" + row }

// slotKey is the key of a slot of a user or an organization, by its name.
func slotKey(part, name string) table.Key {
	shard, row, spread := strings.Cut(name, "/")
	if !spread || shard == "" || strings.Trim(shard, "0123456789") != "" {
		return table.Key{Part: part, Sort: name}
	}
	return table.Key{Part: part + "/" + shard, Sort: row}
}

// slotParts are the partitions of the slots of a user or an organization: the shards, and the first partition last. So
// a reader of all of them finds a run that begins to wait meanwhile.
func slotParts(part string) (parts []string) {
	for i := range shards {
		parts = append(parts, part+"/"+strconv.Itoa(i))
	}
	return append(parts, part)
}

// Uncapped is the cap of an organization that has none: its runs have overflow slots only.
const Uncapped = 0

// UserSlots names the slots of a user.
func UserSlots(organization, user string) string { return "active/user/" + organization + "/" + user }

// OrganizationSlots names the slots of an organization.
func OrganizationSlots(organization string) string { return "active/org/" + organization }

func overflowSlot(run string) string { return "over/" + run }

// Admission is the result of reading a partition of slots.
type Admission struct {
	Active int    // runs that count
	Free   string // a free numbered slot; empty when there is none
	Cap    int
	Paused int // runs that wait for a human, as far as they were read; see [Store.Paused]

	unread table.Key // the read ended with this slot, and there may be more; zero: all was read
	spread bool      // overflow slots, too
}

// Allows reports whether a new run may start.
func (d Admission) Allows() bool { return d.Cap == Uncapped || (d.Active < d.Cap && d.Free != "") }

// Slot is the slot of a run that counts: a free number, or an overflow slot.
func (d Admission) Slot(run string) string {
	switch {
	case d.Free != "":
		return d.Free
	case d.spread:
		h := fnv.New32a()
		_, _ = io.WriteString(h, run)
		return inShard(int(h.Sum32()%shards), overflowSlot(run))
	}
	return overflowSlot(run)
}

// smallCap is the largest cap for which the whole partition is read; with larger ones random numbers are probed first.
const smallCap = 128

// slotPage is how many slots a query reads.
const slotPage = 500

// probes is how many numbers are probed before the whole partition is read.
const probes = 2

// Admission reads the slots of a user or an organization, with the cap limit.
func (s *Store) Admission(ctx context.Context, part string, limit int) (Admission, error) {
	if limit == Uncapped {
		return Admission{spread: s.spread(limit)}, nil
	}
	if limit > smallCap {
		d, sure, err := s.probe(ctx, part, limit)
		if err != nil || sure {
			return d, err
		}
	}
	return s.count(ctx, part, limit)
}

// numbered is the name of a numbered slot below a cap.
func (s *Store) numbered(n int64, limit int) string {
	row := strconv.FormatInt(n, 10)
	if s.spread(limit) {
		return inShard(int(n%shards), row)
	}
	return row
}

// probe reads a few random numbers. If one is free, and no overflow slot exists, the cap is certainly not reached.
func (s *Store) probe(ctx context.Context, part string, limit int) (Admission, bool, error) {
	names, keys := make([]string, 0, probes), make([]table.Key, 0, probes)
	for range probes {
		name := s.numbered(s.host.Int64N(int64(limit)), limit)
		names, keys = append(names, name), append(keys, slotKey(part, name))
	}
	items, err := s.read(ctx, keys...)
	if err != nil {
		return Admission{}, false, err
	}
	d := Admission{Cap: limit}
	for i, item := range items {
		if item == nil {
			d.Free = names[i]
		}
	}
	if d.Free == "" {
		return d, false, nil
	}
	rest, err := s.query(ctx, table.Range{Part: part, After: "over", Limit: slotPage}) // overflow, then paused
	if err != nil || len(rest) == 0 {
		return d, err == nil, err
	}
	d.sawPaused(rest)
	return d, !counting(rest[0]), nil
}

// sawPaused counts the paused runs of a page, which is the last of a read.
func (d *Admission) sawPaused(page []*table.Item) {
	for _, item := range page {
		if !counting(item) {
			d.Paused++
		}
	}
	d.unread = table.Key{}
	if len(page) == slotPage {
		d.unread = page[len(page)-1].Key
	}
}

// Paused counts the runs that wait for a human in the partition of an admission, up to most or a little above. It reads
// only the pages that the admission has not: none if there are fewer than some hundred.
func (s *Store) Paused(ctx context.Context, d Admission, most int) (int, error) {
	for d.unread != (table.Key{}) && d.Paused < most {
		page, err := s.query(ctx, table.Range{Part: d.unread.Part, After: d.unread.Sort, Limit: slotPage})
		if err != nil {
			return d.Paused, err
		}
		d.sawPaused(page)
	}
	return d.Paused, nil
}

// count reads the partition, and its shards if the cap has some. It counts only those paused runs that it reads with
// the others. A run that began when the cap had the other kind of partitions may be missed until it ends.
func (s *Store) count(ctx context.Context, part string, limit int) (Admission, error) {
	d := Admission{Cap: limit}
	taken := map[table.Key]bool{}
	parts := []string{part}
	if s.spread(limit) {
		parts = slotParts(part)
	}
	for _, p := range parts {
		for page, err := range s.pages(ctx, table.Range{Part: p, Limit: slotPage}) {
			if err != nil {
				return d, err
			}
			for _, item := range page {
				if !counting(item) {
					continue
				}
				if _, err := decode[slot](item); err != nil {
					return d, err
				}
				d.Active++
				taken[item.Key] = true
			}
			d.sawPaused(page)
			if d.Paused > 0 {
				break
			}
		}
	}
	first := s.host.Int64N(int64(limit))
	for i := range int64(limit) {
		name := s.numbered((first+i)%int64(limit), limit)
		if !taken[slotKey(part, name)] {
			d.Free = name
			break
		}
	}
	return d, nil
}

// pausedPrefix begins the sort keys of the slots of runs that wait for a human. They come last in their partition.
const pausedPrefix = "paused/"

// counting reports whether the run of a slot counts against the cap.
func counting(item *table.Item) bool { return !strings.HasPrefix(item.Sort, pausedPrefix) }

// runsIn lists the runs of the slots in partitions, in the order of their keys: of those that count, or of all.
func (s *Store) runsIn(ctx context.Context, parts []string, all bool) (ids []string, err error) {
	for _, part := range parts {
		if ids, err = s.addRuns(ctx, ids, table.Range{Part: part, Limit: slotPage}, all); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

func (s *Store) addRuns(ctx context.Context, ids []string, of table.Range, all bool) ([]string, error) {
	for item, err := range s.items(ctx, of) {
		if err != nil {
			return nil, err
		}
		if !all && !counting(item) {
			break
		}
		e, err := decode[slot](item)
		if err != nil {
			return nil, err
		}
		ids = append(ids, e.Value.RunID)
	}
	return ids, nil
}

// ActiveRuns lists the ids of an organization's active runs, paused ones included, in order. A run that begins to wait
// or goes on meanwhile is listed once, too. Waiting runs are read before the others, and again after them.
func (s *Store) ActiveRuns(ctx context.Context, organization string) ([]string, error) {
	paused, _, err := s.PausedRuns(ctx, organization)
	if err != nil {
		return nil, err
	}
	ids, err := s.runsIn(ctx, slotParts(OrganizationSlots(organization)), true)
	if err != nil {
		return nil, err
	}
	for _, r := range paused {
		ids = append(ids, r.RunID)
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// CountedRuns lists the ids of an organization's runs that count against its cap.
func (s *Store) CountedRuns(ctx context.Context, organization string) ([]string, error) {
	return s.runsIn(ctx, slotParts(OrganizationSlots(organization)), false)
}

// AtWork reports whether a worker is at work on a run of the organization. It reads the rows of all its runs that
// count, and heads of runs until one is at work. processID is as of [lifecycle.Lease.Lapsed].
func (s *Store) AtWork(ctx context.Context, organization string, now time.Time, processID string) (bool, error) {
	ids, err := s.CountedRuns(ctx, organization)
	if err != nil {
		return false, err
	}
	for some := range slices.Chunk(ids, table.MaxGetKeys) {
		runs, err := s.Runs(ctx, System(), some...)
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(runs, func(e RunEntity) bool {
			return e.Value.Status == lifecycle.Running && !e.Value.Lease.Lapsed(now, processID)
		}) {
			return true, nil
		}
	}
	return false, nil
}

// PausedRun is a run that waits for a human, with its slot for that. Paused runs are in the order of their slots.
type PausedRun struct{ RunID, Slot string }

// PausedRuns lists an organization's runs that wait for a human, in the order of their slots: those that have waited
// longest first. mark changes whenever one of them has begun to wait or has gone on.
func (s *Store) PausedRuns(ctx context.Context, organization string) (list []PausedRun, mark string, err error) {
	sum := sha256.New()
	r := table.Range{Part: OrganizationSlots(organization), Prefix: pausedPrefix, Limit: slotPage}
	for item, err := range s.items(ctx, r) {
		var e Entity[slot]
		if err == nil {
			e, err = decode[slot](item)
		}
		if err != nil {
			return nil, "", err
		}
		list = append(list, PausedRun{e.Value.RunID, item.Sort})
		_, _ = io.WriteString(sum, item.Sort+" "+item.WriteID+"\n")
	}
	return list, hex.EncodeToString(sum.Sum(nil)), nil
}

// InboxOf is the name under which waiters are notified that the runs of [Store.PausedRuns] have changed.
func InboxOf(organization string) string { return "inbox/" + organization }

// EndOf is the name under which waiters are notified that a run has ended or waits for a human.
func EndOf(run string) string { return "end/" + run }

// CountingRuns is how many runs of a user or an organization count against its cap.
func (s *Store) CountingRuns(ctx context.Context, part string) (int, error) {
	parts := []string{part}
	if s.spreadAbove != nil { // for any cap
		parts = slotParts(part)
	}
	ids, err := s.runsIn(ctx, parts, false)
	return len(ids), err
}

// MoveSlots replaces the slots of one run by those of a run. It is the same run or the one promoted after it. New slots
// must be free, unless they are taken over.
func (tx *Tx) MoveSlots(before, after lifecycle.Run) {
	for _, side := range []struct {
		beforePart, beforeRow string
		afterPart, afterRow   string
	}{
		{
			UserSlots(before.Organization, before.User), before.Slots.User,
			UserSlots(after.Organization, after.User), after.Slots.User,
		},
		{
			OrganizationSlots(before.Organization), before.Slots.Organization,
			OrganizationSlots(after.Organization), after.Slots.Organization,
		},
		{guestSlots(before), guestSlot(before), guestSlots(after), guestSlot(after)},
	} {
		same := side.beforePart == side.afterPart && side.beforeRow == side.afterRow
		if same && before.ID() == after.ID() {
			continue
		}
		if side.beforeRow != "" && !same {
			tx.delete(slotKey(side.beforePart, side.beforeRow), table.Always())
		}
		if side.afterRow == "" {
			continue
		}
		cond := table.Absent()
		if same {
			cond = table.Always() // taken over: the version of the run's head fences this commit
		}
		putIf(tx, cond, Fresh(slot{RunID: after.ID()}),
			table.Item{Key: slotKey(side.afterPart, side.afterRow), Owner: after.Organization})
	}
}
