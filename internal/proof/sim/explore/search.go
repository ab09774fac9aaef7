package explore

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/proof/invariant"
	"agentplatform/internal/store/table"
)

// visit explores every successor of a state, and reports whether that was complete.
func (w *world) visit(s *state) (complete bool) {
	name := s.name(w.seed)
	if _, known := w.visited[name]; known {
		return true
	}
	if len(w.visited) >= w.limit {
		return false
	}
	w.visited[name] = struct{}{}
	w.report.Depth = max(w.report.Depth, len(w.path))
	choices := w.choices(s)
	if len(choices) == 0 {
		w.drain(s)
	}
	complete = true
	for _, c := range choices {
		w.path = append(w.path, step{s, c})
		complete = w.visit(w.after(s, c)) && complete
		w.path = w.path[:len(w.path)-1]
	}
	return complete
}

// way describes how the current state was reached.
func (w *world) way() string {
	var b strings.Builder
	for _, step := range w.path {
		_, _ = fmt.Fprintln(&b, step.choice.words(step.state))
	}
	return b.String()
}

// patience is how often a settling world may advance its clock.
const patience = 20

// drain advances time and runs everything due until nothing is left to do. Then it checks the final state.
func (w *world) drain(s *state) {
	name := s.content
	for _, c := range s.clients {
		name = name*31 + c.name
	}
	if _, known := w.drained[name]; known {
		return
	}
	w.drained[name] = struct{}{}
	s = s.copy()
	for range patience {
		s.pass(expiry)
		w.through(s, w.sweep(s.now))
		if len(s.queue) == 0 {
			break
		}
		for len(s.queue) > 0 {
			run := s.queue[0]
			s.queue = s.queue[1:]
			w.through(s, w.handling(run, s.take(run)))
		}
	}
	w.report.Ends++
	w.checkEnd(s)
}

func (w *world) audit(s *state) (*invariant.Audit, map[string]bool) {
	a, due := invariant.NewAudit(), map[string]bool{}
	s.table.All(func(item *table.Item) {
		if err := a.Add(item); err != nil {
			w.violated("%s cannot be read: %v", item.Key, err)
		}
		if !item.Due.IsZero() {
			due[item.Part] = true
		}
	})
	return a, due
}

// checkStep checks a commit's change of an item.
func (w *world) checkStep(who *life, key table.Key, was, is *table.Item) {
	before, after := invariant.NewAudit(), invariant.NewAudit()
	if was == nil {
		_ = after.Add(is)
		for id, r := range after.Runs {
			if !r.Waited && (strings.HasPrefix(r.Slots.User, "over/") || strings.HasPrefix(r.Slots.Organization,
				"over/")) {
				w.violated("run %s came through the door and is above the cap", id)
			}
		}
		return
	}
	if err := before.Add(was); err != nil {
		w.violated("%s cannot be read: %v", key, err)
	}
	if is != nil {
		if err := after.Add(is); err != nil {
			w.violated("%s cannot be read: %v", key, err)
		}
	}
	if len(before.Ledger) > 0 {
		w.violated("the ledger entry %s was written again", key)
	}
	for id, b := range before.Runs {
		a, there := after.Runs[id]
		switch {
		case !there:
			w.violated("run %s has gone", id)
		case b.Status.Terminal() &&
			(a.Status != b.Status || string(a.Output) != string(b.Output) || a.Error != b.Error):
			w.violated("run %s was %s and became %s", id, b.Status, a.Status)
		case a.Status != b.Status && !legal(b.Status, a.Status):
			w.violated("run %s went from %s to %s", id, b.Status, a.Status)
		case b.CancelRequested && a.Status != b.Status && a.Status != lifecycle.Cancelled:
			w.violated("run %s was told to cancel and became %s", id, a.Status)
		case b.CancelRequested && a.Attempt > b.Attempt:
			w.violated("run %s was told to cancel and was begun again", id)
		case len(a.Parked) > len(b.Parked) && b.Answerable() && !w.FollowsUp:
			w.violated("a message waits on run %s, which waits for a message", id)
		case who.works && b.Status == lifecycle.Running && a.Attempt == b.Attempt &&
			!strings.Contains(b.Lease.Holder, who.mark()) && b.Lease.Until.After(a.UpdatedAt):
			w.violated("%s writes run %s, which %s holds", who.name, id, b.Lease.Holder)
		case a.Attempt > b.Attempt && b.Status == lifecycle.Running && b.Lease.Holder != "" &&
			b.Lease.Until.After(a.UpdatedAt):
			w.violated("run %s was taken from a worker whose lease holds", id)
		}
	}
}

func legal(from, to lifecycle.Status) bool {
	return slices.ContainsFunc(lifecycle.Transitions(),
		func(m lifecycle.Transition) bool { return slices.Contains(m.From, from) && slices.Contains(m.To, to) })
}

// checkTable checks the invariants that hold after every commit.
func (w *world) checkTable(s *state) {
	if _, known := w.checked[s.content]; known {
		return
	}
	w.checked[s.content] = struct{}{}
	a, due := w.audit(s)
	held := map[string]int{} // slot rows that name a run
	for key, run := range a.Slots {
		held[run]++
		r := a.Runs[run]
		if paused := strings.HasPrefix(key.Sort, "paused/"); !r.Status.Active() ||
			paused != (r.Status == lifecycle.AwaitingInput) {
			w.violated("%s names run %s, which is %s", key, run, r.Status)
		}
		limit := w.UserCap
		if strings.HasPrefix(key.Part, "active/org/") {
			limit = orgCap
		}
		if strings.Trim(key.Sort, "0123456789") == "" && key.Sort >= fmt.Sprint(limit) {
			w.violated("%s is above the cap", key)
		}
	}
	active := map[string]string{}
	for id, r := range a.Runs {
		entries := a.Ledger[id]
		switch {
		case r.Status.Terminal() && (len(entries) != 1 || entries[0].Billed != (r.Status == lifecycle.Completed)):
			w.violated("run %s is %s, and the ledger has %v", id, r.Status, entries)
		case r.Status.Terminal():
			continue
		case len(entries) > 0:
			w.violated("run %s is %s, and the ledger has %v", id, r.Status, entries)
		case r.Deleted && held[id] > 0, !r.Deleted && held[id] != 2:
			w.violated("run %s is %s and holds %d slots", id, r.Status, held[id])
		case !due["run/"+id]:
			w.violated("run %s is %s and nobody will look at it", id, r.Status)
		case active[r.Chat] != "" && !r.Deleted:
			w.violated("chat %s has the active runs %s and %s", r.Chat, active[r.Chat], id)
		case len(r.Parked) > lifecycle.MaxParked:
			w.violated("run %s has %d parked messages", id, len(r.Parked))
		}
		if !r.Deleted {
			active[r.Chat] = id
		}
	}
	for _, c := range a.Chats {
		if c.ActiveRun != active[c.ID] {
			w.violated("chat %s names %q, and %q is active", c.ID, c.ActiveRun, active[c.ID])
		}
	}
}

// checkEnd checks the final state.
func (w *world) checkEnd(s *state) {
	a, _ := w.audit(s)
	accepted, resumed := map[string]bool{}, map[string]bool{}
	deleted := slices.ContainsFunc(s.clients, func(n *node) bool { return n.left.(confirmed).deleted })
	for _, n := range s.clients {
		t := n.left.(confirmed)
		for _, id := range t.accepted {
			accepted[id] = true
		}
		for _, id := range t.withdrawn {
			if deleted {
				continue // it may have been deleted with the chat after it had started
			}
			if !accepted[id] || a.Runs[id].Status != "" {
				w.violated("message %s was withdrawn, and is %s", id, a.Runs[id].Status)
			}
			delete(accepted, id)
		}
		for _, id := range t.cancelled {
			if r := a.Runs[id]; r.Status != lifecycle.Cancelled {
				w.violated("run %s is %s, and a client was told that it is cancelled", id, r.Status)
			}
		}
		for _, pause := range t.resumed {
			if resumed[pause] {
				w.violated("pause %s was decided twice", pause)
			}
			resumed[pause] = true
		}
	}
	for id, r := range a.Runs {
		if r.Status.Active() {
			w.violated("run %s is still %s", id, r.Status)
		}
		if !accepted[id] {
			w.violated("run %s was accepted, and nobody was told", id)
		}
	}
	if len(a.Runs) != len(accepted) && !deleted {
		w.violated("%d messages were accepted, and became %d runs: %v", len(accepted), len(a.Runs),
			slices.Sorted(maps.Keys(accepted)))
	}
	if len(a.Slots) > 0 {
		w.violated("slots are held by nobody: %v", a.Slots)
	}
}
