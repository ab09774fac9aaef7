package worker

import (
	"sync"
	"time"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/store/record"
)

// tally counts the usage of a run, in this attempt and in those before it.
type tally struct {
	host    host.Host
	from    lifecycle.Run // as it was claimed
	claimed time.Duration // monotonic clock after the claim: start of the active time

	mu    sync.Mutex // guards the fields below
	usage lifecycle.Usage
	steps int
	known map[int]bool // the steps that are counted, by index
}

// newTally begins to count for a run that was claimed.
func newTally(h host.Host, r lifecycle.Run) *tally {
	return &tally{host: h, from: r, claimed: h.Elapsed(), usage: r.Usage, steps: r.Steps, known: map[int]bool{}}
}

// active is the run's active time.
func (t *tally) active() time.Duration { return t.before() + t.host.Elapsed() - t.claimed }

// before is the active time of the earlier attempts.
func (t *tally) before() time.Duration { return time.Duration(t.from.ActiveMS) * time.Millisecond }

// work is the content of a report: the attempt, the new end of its lease, and the totals of the run.
func (t *tally) work(attempt int, until time.Time) lifecycle.Work {
	t.mu.Lock()
	defer t.mu.Unlock()
	return lifecycle.Work{Attempt: attempt, Active: t.active(), Usage: t.usage, Steps: t.steps, Until: until}
}

// add counts steps, each once.
func (t *tally) add(steps []record.Step) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range steps {
		if t.known[s.Index] {
			continue
		}
		t.known[s.Index] = true
		t.steps++
		switch {
		case s.Kind == record.ModelStep, s.Kind == record.CutStep:
			t.usage.ModelCalls++
			t.usage.InputTokens += s.InputTokens
			t.usage.OutputTokens += s.OutputTokens
		case s.Kind == record.ToolStep && (s.Outcome == string(model.Succeeded) || s.Outcome == string(model.Failed)):
			t.usage.ToolCalls++
			t.usage.InputTokens += s.InputTokens // of a search: those of its embedding
			t.usage.Embedded = t.usage.Embedded.With(s.Embedded...)
		}
	}
}
