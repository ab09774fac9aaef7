package ratelimit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"agentplatform/internal/platform/host"
	"agentplatform/internal/store/table"
)

// Shared is the shared state of keys: the processes of a deployment keep it in a table of rows that expire.
//
// It is approximate, so that a request seldom waits for it. A process reads the row when it meets a key, and writes it
// after it has let through more than a tenth of the rest. So N processes may let through the burst, and a tenth of it
// each, before one refuses. All requests are counted in the end: in the long run a key gets its rate and no more.
type Shared struct {
	Table table.Table
	Host  host.Host
}

const (
	reportTimeout  = time.Second           // that a request may wait for the table
	reportAttempts = 4                     // attempts, if others change the same row
	apart          = 10 * time.Millisecond // at most, between two of them
	linger         = 15 * time.Minute      // that a row stays after its time: lots that took long look back to it
)

// paidRow is the body of a key's row.
type paidRow struct {
	Until time.Time `json:"until"` // what the key has paid for, as by pace
}

// lot is a number of requests that a process reports, and how long ago the first of them came. The last is the current
// one, and may yet be refused.
type lot struct {
	n   int
	ago time.Duration
}

// paid is the result of reporting a lot. ahead is for how long from now on the key has paid; below 0, that time is
// past. allowed reports whether the current request may pass. recorded is false if others changed the row at every
// attempt: then the lot is not in the row.
type paid struct {
	ahead             time.Duration
	allowed, recorded bool
}

// pay adds a lot to the time that a key has paid for, from the time of its first request. So a lot that took long to
// gather has used the time that passed. A client that leaves ends neither this nor [Shared.Enter]: otherwise it would
// not be counted, or would keep its slot. Errors are those of the table; after one of kind Unknown the lot may have
// been added.
func (s *Shared) pay(ctx context.Context, key string, p pace, l lot) (answer paid, err error) {
	ctx, cancel := s.Host.WithTimeout(context.WithoutCancel(ctx), reportTimeout)
	defer cancel()
	at := table.Key{Part: "rate/" + key, Sort: "paid"}
	for range reportAttempts {
		rows, err := s.Table.Query(ctx, table.Range{Part: at.Part, Limit: 1})
		if err != nil {
			return paid{}, err
		}
		now, cond := s.Host.Now(), table.Absent()
		ahead := -l.ago
		if len(rows) > 0 {
			var row paidRow
			if err := json.Unmarshal(rows[0].Body, &row); err != nil {
				return paid{}, err
			}
			ahead, cond = max(ahead, row.Until.Sub(now)), table.VersionIs(rows[0].Version)
		}
		ahead += time.Duration(l.n-1) * p.interval
		answer = paid{ahead: ahead, allowed: ahead <= p.tolerance}
		if answer.allowed {
			answer.ahead += p.interval
		} else if l.n == 1 {
			answer.recorded = true
			return answer, nil
		}
		body, err := json.Marshal(paidRow{now.Add(answer.ahead)})
		if err != nil {
			return paid{}, err
		}
		err = s.Table.Commit(ctx, s.Host.NewID(), table.Put(table.Item{
			Key: at, Owner: table.NoOwner, WriteID: "rate", Expires: now.Add(max(0, answer.ahead) + linger), Body: body,
		}, cond))
		if changed(err) {
			_ = s.Host.Sleep(ctx, time.Duration(s.Host.Int64N(int64(apart))))
			continue
		}
		answer.recorded = err == nil
		return answer, err
	}
	return answer, nil
}

// Enter takes one of a key's slots until a time at the latest; most is how many there are. slot is its number,
// for [Shared.Leave]. taken is false if all are taken, or if others were faster at every attempt. Errors are those of
// the table.
func (s *Shared) Enter(ctx context.Context, key string, most int, until time.Time) (slot int, taken bool, err error) {
	ctx, cancel := s.Host.WithTimeout(context.WithoutCancel(ctx), reportTimeout)
	defer cancel()
	for range reportAttempts {
		rows, err := s.Table.Query(ctx, table.Range{Part: openPart(key), Limit: most})
		if err != nil {
			return 0, false, err
		}
		occupied := map[string]bool{}
		for _, row := range rows {
			occupied[row.Sort] = true
		}
		var free []int
		for n := range most {
			if !occupied[slotSort(n)] {
				free = append(free, n)
			}
		}
		if len(free) == 0 {
			return 0, false, nil
		}
		slot = free[s.Host.Int64N(int64(len(free)))]
		err = s.put(ctx, key, slot, until, table.Absent())
		if changed(err) {
			continue
		}
		return slot, err == nil, err
	}
	return 0, false, nil
}

// Leave frees a slot. If that fails, the slot is free at its end.
func (s *Shared) Leave(ctx context.Context, key string, slot int) error {
	ctx, cancel := s.Host.WithTimeout(context.WithoutCancel(ctx), reportTimeout)
	defer cancel()
	return s.put(ctx, key, slot, s.Host.Now(), table.Always())
}

func openPart(key string) string { return "open/" + key }

func slotSort(n int) string { return fmt.Sprintf("%06d", n) }

// put writes the row of a slot. A row is not deleted; its end is set. So a key has no more rows than slots, however
// late the table removes expired rows. And a process that serves streams needs no right to delete.
func (s *Shared) put(ctx context.Context, key string, slot int, until time.Time, cond table.Condition) error {
	return s.Table.Commit(ctx, s.Host.NewID(), table.Put(table.Item{
		Key:   table.Key{Part: openPart(key), Sort: slotSort(slot)},
		Owner: table.NoOwner, WriteID: "open", Expires: until, Body: []byte("{}"),
	}, cond))
}

// changed reports whether a commit was refused because another one came first.
func changed(err error) bool {
	_, refused := errors.AsType[*table.Refused](err)
	return refused || table.IsKind(err, table.Contended)
}
