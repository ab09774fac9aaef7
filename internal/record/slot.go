package record

import (
	"context"
	"strconv"
	"strings"

	"agentplatform/internal/lifecycle"
	"agentplatform/internal/table"
)

// Slots are items in the partition of a user and in that of an organization: a numbered one for each run that counts
// against the cap, "over/<run>" (overflow) for accepted work that found no free number, "paused/<run>" for a run that
// waits for a human and does not count. Each names its run, so a partition is the exact list of active runs.
type slot struct {
	RunID string `json:"run_id"`
}

// Uncapped is the cap of an organization that has none: its runs have overflow slots only.
const Uncapped = 0

func userSlots(organization, user string) string { return "active/user/" + organization + "/" + user }
func orgSlots(organization string) string        { return "active/org/" + organization }

func overflowSlot(run string) string { return "over/" + run }

// Admission is the result of reading a partition of slots.
type Admission struct {
	Active int    // runs that count
	Free   string // a free numbered slot; empty when there is none
	Cap    int
}

// Allows says whether a new run may start.
func (d Admission) Allows() bool { return d.Cap == Uncapped || (d.Active < d.Cap && d.Free != "") }

// Slot is the slot of a run that counts: a free number, or an overflow slot.
func (d Admission) Slot(run string) string {
	if d.Free != "" {
		return d.Free
	}
	return overflowSlot(run)
}

// smallCap is the largest cap for which the whole partition is read; with larger ones random numbers are probed first.
const smallCap = 128

// probes is how many numbers are probed before the whole partition is read.
const probes = 2

// UserAdmission reads the slots of a user, with the cap limit.
func (s *Store) UserAdmission(ctx context.Context, organization, user string, limit int) (Admission, error) {
	return s.admission(ctx, userSlots(organization, user), limit)
}

// OrganizationAdmission reads the slots of an organization, with the cap limit.
func (s *Store) OrganizationAdmission(ctx context.Context, organization string, limit int) (Admission, error) {
	return s.admission(ctx, orgSlots(organization), limit)
}

func (s *Store) admission(ctx context.Context, part string, limit int) (Admission, error) {
	if limit == Uncapped {
		return Admission{}, nil
	}
	if limit > smallCap {
		d, sure, err := s.probe(ctx, part, limit)
		if err != nil || sure {
			return d, err
		}
	}
	return s.count(ctx, part, limit)
}

// probe reads a few random numbers. A free one, and no overflow slot, mean for sure that the cap is not reached.
func (s *Store) probe(ctx context.Context, part string, limit int) (Admission, bool, error) {
	keys := make([]table.Key, 0, probes)
	for range probes {
		keys = append(keys, table.Key{Part: part, Sort: strconv.FormatInt(s.host.Int64N(int64(limit)), 10)})
	}
	items, err := s.read(ctx, keys...)
	if err != nil {
		return Admission{}, false, err
	}
	d := Admission{Cap: limit}
	for i, item := range items {
		if item == nil {
			d.Free = keys[i].Sort
		}
	}
	if d.Free == "" {
		return d, false, nil
	}
	over, err := s.query(ctx, table.Range{Part: part, Prefix: "over/", Limit: 1})
	return d, err == nil && len(over) == 0, err
}

// count reads the partition.
func (s *Store) count(ctx context.Context, part string, limit int) (Admission, error) {
	d := Admission{Cap: limit}
	numbered := map[string]bool{}
	err := s.eachSlot(ctx, part, func(row, _ string) {
		switch {
		case strings.HasPrefix(row, "over/"):
			d.Active++
		case !strings.HasPrefix(row, "paused/"):
			d.Active++
			numbered[row] = true
		}
	})
	if err != nil {
		return d, err
	}
	first := s.host.Int64N(int64(limit))
	for i := range int64(limit) {
		n := strconv.FormatInt((first+i)%int64(limit), 10)
		if !numbered[n] {
			d.Free = n
			break
		}
	}
	return d, nil
}

func (s *Store) eachSlot(ctx context.Context, part string, visit func(row, run string)) error {
	const page = 500
	after := ""
	for {
		items, err := s.query(ctx, table.Range{Part: part, After: after, Limit: page})
		if err != nil {
			return err
		}
		for _, item := range items {
			e, err := decode[slot](item)
			if err != nil {
				return err
			}
			visit(item.Sort, e.Value.RunID)
			after = item.Sort
		}
		if len(items) < page {
			return nil
		}
	}
}

// ActiveRuns lists the ids of an organization's active runs, paused ones included.
func (s *Store) ActiveRuns(ctx context.Context, organization string) ([]string, error) {
	return s.activeRuns(ctx, orgSlots(organization))
}

// CountingRuns is how many runs of an organization count against its cap.
func (s *Store) CountingRuns(ctx context.Context, organization string) (int, error) {
	return s.counting(ctx, orgSlots(organization))
}

// CountingRunsOfUser is how many runs of a user count against its cap.
func (s *Store) CountingRunsOfUser(ctx context.Context, organization, user string) (int, error) {
	return s.counting(ctx, userSlots(organization, user))
}

func (s *Store) counting(ctx context.Context, part string) (n int, err error) {
	err = s.eachSlot(ctx, part, func(row, _ string) {
		if !strings.HasPrefix(row, "paused/") {
			n++
		}
	})
	return n, err
}

func (s *Store) activeRuns(ctx context.Context, part string) ([]string, error) {
	var ids []string
	return ids, s.eachSlot(ctx, part, func(_, run string) { ids = append(ids, run) })
}

// MoveSlots replaces the slots of one run by those of a run, the same one or the one promoted after it. New slots must
// be free, unless they are taken over.
func (tx *Tx) MoveSlots(before, after lifecycle.Run) {
	for _, side := range []struct {
		beforePart, beforeRow string
		afterPart, afterRow   string
	}{
		{
			userSlots(before.Organization, before.User), before.Slots.User,
			userSlots(after.Organization, after.User), after.Slots.User,
		},
		{
			orgSlots(before.Organization), before.Slots.Organization,
			orgSlots(after.Organization), after.Slots.Organization,
		},
	} {
		same := side.beforePart == side.afterPart && side.beforeRow == side.afterRow
		if same && before.ID() == after.ID() {
			continue
		}
		if side.beforeRow != "" && !same {
			tx.delete(table.Key{Part: side.beforePart, Sort: side.beforeRow}, table.Always())
		}
		if side.afterRow == "" {
			continue
		}
		op, err := write(Fresh(slot{RunID: after.ID()}), table.Item{
			Key: table.Key{Part: side.afterPart, Sort: side.afterRow}, Owner: after.Organization, WriteID: tx.writeID,
		})
		tx.fail(err)
		if same {
			op.If = table.Always() // taken over: the version of the run's head fences this commit
		}
		tx.add(op)
	}
}
