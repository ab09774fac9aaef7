package record

import (
	"context"
	"strconv"
	"strings"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/store/table"
)

// PutPause writes a pause's interrupts.
func (tx *Tx) PutPause(ctx context.Context, r Run, pause int, list []Interrupt) {
	tx.putDocument(ctx, r.Organization, pauseKey(r.ID(), pause), list)
}

// PutDecisions writes the decision of a pause. The item must not exist, so a pause is decided once.
func (tx *Tx) PutDecisions(ctx context.Context, r Run, pause int, d Decisions) {
	tx.putDocument(ctx, r.Organization, decisionKey(r.ID(), pause), d)
}

// Interrupts reads a pause's interrupts.
func (s *Store) Interrupts(ctx context.Context, id string, pause int) ([]Interrupt, error) {
	var list []Interrupt
	_, err := s.document(ctx, pauseKey(id, pause), &list)
	return list, err
}

// InterruptsOf reads the interrupts of runs, each of its present pause. The result has one list for each run, empty for
// a run that does not wait any more.
func (s *Store) InterruptsOf(ctx context.Context, runs []RunEntity) ([][]Interrupt, error) {
	lists := make([][]Interrupt, len(runs))
	err := s.openAll(ctx, keysOf(runs, func(e RunEntity) table.Key {
		return pauseKey(e.Value.ID(), e.Value.Pause)
	}), func(i int) any { return &lists[i] })
	return lists, err
}

// Pause is a pause of a run with its decision, nil as long as there is none.
type Pause struct {
	Number     int
	Interrupts []Interrupt
	Decided    *Decisions
}

// PausesOf reads the pauses of a run after the pause of a number, in order, at most limit.
func (s *Store) PausesOf(ctx context.Context, id string, after, limit int) ([]Pause, error) {
	items, err := s.query(ctx, table.Range{
		Part: runPart(id), Prefix: pausePrefix, After: pauseKey(id, after).Sort, Limit: limit,
	})
	if err != nil || len(items) == 0 {
		return nil, err
	}
	pauses, keys := make([]Pause, len(items)), make([]table.Key, len(items))
	for i, item := range items {
		if pauses[i].Number, err = strconv.Atoi(strings.TrimPrefix(item.Sort, pausePrefix)); err != nil {
			return nil, err
		}
		if err := s.open(ctx, item, &pauses[i].Interrupts); err != nil {
			return nil, err
		}
		keys[i] = decisionKey(id, pauses[i].Number)
	}
	err = s.openAll(ctx, keys, func(i int) any {
		pauses[i].Decided = &Decisions{}
		return pauses[i].Decided
	})
	return pauses, err
}

// pausesAtOnce is how many pauses are read at a time.
const pausesAtOnce = 100

// PauseOf reads one pause of a run; nil: there is none.
func (s *Store) PauseOf(ctx context.Context, id string, number int) (*Pause, error) {
	list, err := s.PausesOf(ctx, id, number-1, 1)
	if err != nil || len(list) == 0 || list[0].Number != number {
		return nil, err
	}
	return &list[0], nil
}

// AllPauses reads the pauses of a run, in order.
func (s *Store) AllPauses(ctx context.Context, id string) (all []Pause, err error) {
	for after := 0; ; after = all[len(all)-1].Number {
		some, err := s.PausesOf(ctx, id, after, pausesAtOnce)
		if err != nil {
			return nil, err
		}
		if all = append(all, some...); len(some) < pausesAtOnce {
			return all, nil
		}
	}
}

// Pauses is [Decided] of all pauses of a run.
func (s *Store) Pauses(ctx context.Context, id string) (lists [][]Interrupt, decided map[string]Decision, err error) {
	all, err := s.AllPauses(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	lists, decided = Decided(all)
	return lists, decided, nil
}

// Decided returns the pauses of a run as lists of interrupts, and the decisions by interrupt id.
func Decided(all []Pause) (lists [][]Interrupt, decided map[string]Decision) {
	decided = map[string]Decision{}
	for _, p := range all {
		if p.Interrupts != nil {
			lists = append(lists, p.Interrupts)
		}
		if p.Decided == nil {
			continue
		}
		for _, one := range p.Decided.List {
			decided[one.InterruptID] = one
		}
	}
	return lists, decided
}

// IsQuestion reports whether a pause waits for nothing but one answer, which a message may be.
func IsQuestion(list []Interrupt) bool {
	return len(list) == 1 && list[0].Kind == string(lifecycle.Clarification) && list[0].Tool == nil
}

// ReplyOf is the index of the model's reply whose calls a pause is about; -1 for none.
func ReplyOf(list []Interrupt) int {
	reply := -1
	for _, i := range list {
		index, _, _ := strings.Cut(i.Call, "-")
		if n, err := strconv.Atoi(index); err == nil {
			reply = max(reply, n)
		}
	}
	return reply
}

// LastDecision reads the decision of a pause; found is false when there is none.
func (s *Store) LastDecision(ctx context.Context, id string, pause int) (d Decisions, found bool, err error) {
	found, err = s.document(ctx, decisionKey(id, pause), &d)
	return d, found, err
}
