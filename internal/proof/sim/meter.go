package sim

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/store/record"
)

// meter is a model whose calls are cut short by the end of the work, and sometimes by a failure at the end. It reports
// a unit of tokens for each such call. That is more than runs use otherwise. So the charge of a run shows how many of
// them were counted.
type meter struct {
	model.Model

	world *world
}

const unit = 1_000_000

func (m *meter) Converse(ctx context.Context, r model.Request, emit func(string)) (model.Reply, error) {
	w := m.world
	w.checker.asks(w.checker.runOf(r))
	if !w.strange {
		return m.Model.Converse(ctx, r, emit)
	}
	run, left := w.checker.runOf(r), true
	defer func() {
		if left { // it has panicked, or its process has died
			w.checker.cutsOf(run).broken = true
		}
	}()
	reply, err := m.Model.Converse(ctx, r, emit)
	left = false
	if n := w.cuts.IntN(12); err == nil && !w.quiet && n < 2 {
		w.count("model breaks off")
		err = model.Fail([]model.Kind{model.Retryable, model.Refused}[n], "it broke off")
	} else if err == nil || ctx.Err() == nil {
		return reply, err
	}
	w.checker.reported(run)
	return model.Reply{InputTokens: unit, OutputTokens: 7}, err
}

// newCuts returns the random choices of calls that break off, independent of all others.
func newCuts(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 4)) }

// cuts are a run's calls of the model that were cut short.
type cuts struct {
	reported int
	lost     int    // with their worker, before a commit of it could have them
	worker   string // the actor that claimed the run last
	broken   bool   // its attempt may end without the tokens that it has used
}

func (c *checker) cutsOf(run string) *cuts {
	if c.cuts[run] == nil {
		c.cuts[run] = &cuts{}
	}
	return c.cuts[run]
}

// runOf returns the run of a call. Each message has another text.
func (c *checker) runOf(r model.Request) string {
	for _, m := range slices.Backward(r.Messages) {
		if run := c.messages[m.Text]; run != "" && m.Role == model.User {
			return run
		}
	}
	return ""
}

// reported records a call that was cut short. If another worker has claimed the run since, the call is lost.
func (c *checker) reported(run string) {
	n := c.cutsOf(run)
	n.reported++
	by := c.world.awake.name
	if first := n.worker == "" && strings.Contains(by, " start "); !first && n.worker != by {
		n.lost++
	}
}

// claimed records a run's new worker. Calls that an earlier worker has not committed are lost.
func (c *checker) claimed(r record.Run) {
	n := c.cutsOf(r.ID())
	n.lost, n.broken, n.worker = n.reported-int(r.Usage.InputTokens/unit), false, c.world.awake.name
}

// counted checks that a run is charged once for each call that was cut short. The charge is never for more calls. It is
// for all of them when its worker ends, pauses or releases the run.
func (c *checker) counted(before, r record.Run) {
	if !c.world.strange {
		return
	}
	if r.Attempt > before.Attempt {
		c.claimed(r)
	}
	n, charged := c.cutsOf(r.ID()), int(r.Usage.InputTokens/unit)
	if charged > n.reported-n.lost {
		c.violated(35, "run %s is charged for %d calls that were cut short; %d were, and %d of them are lost", r.ID(),
			charged, n.reported, n.lost)
	}
	left := before.Status == lifecycle.Running && (r.Status != lifecycle.Running || r.Hops > before.Hops)
	others := n.broken || !before.Lease.Until.After(c.world.now.Add(c.world.skew))
	if p := c.holders[r.ID()]; p != nil && p.dead { // on a laptop, the next process does not wait for the lease
		others = true
	}
	if left && !others && charged < n.reported-n.lost {
		c.violated(35, "run %s is %s and charged for %d calls that were cut short; %d were, and %d of them are lost",
			r.ID(), r.Status, charged, n.reported, n.lost)
	}
}

// accounted checks that the usage of a settled run is at least that of its journal, call by call.
func (c *checker) accounted(r record.Run) {
	journal, err := c.store().Journal(context.Background(), r.ID())
	must(err)
	if c.world.server != nil {
		c.world.server.checkResults(r.ID(), journal)
	}
	if r.Status == lifecycle.Completed {
		c.texts(r)
	}
	var calls, in, out int64
	for _, step := range journal {
		if step.Kind != record.ModelStep && step.Kind != record.CutStep {
			continue
		}
		calls++
		in += step.InputTokens
		out += step.OutputTokens
		if step.InputTokens < 0 || step.OutputTokens < 0 || step.OutputTokens > math.MaxInt32 {
			c.violated(18, "step %d of run %s claims %d and %d tokens", step.Index, r.ID(), step.InputTokens,
				step.OutputTokens)
		}
	}
	if u := r.Usage; u.ModelCalls < calls || u.InputTokens < in || u.OutputTokens < out {
		c.violated(18, "run %s is %s and has used %+v; its journal has %d calls of the model with %d and %d tokens",
			r.ID(), r.Status, u, calls, in, out)
	}
}

// shaky is a model that panics sometimes: before any output, or after all of it.
type shaky struct {
	model.Model

	world *world
}

func (s shaky) Converse(ctx context.Context, r model.Request, emit func(string)) (model.Reply, error) {
	if !s.world.strange {
		return s.Model.Converse(ctx, r, emit)
	}
	if s.world.maybe("model panics") {
		panic("the model's program failed")
	}
	reply, err := s.Model.Converse(ctx, r, emit)
	if s.world.maybe("model panics late") {
		panic("the model's program failed in the end")
	}
	return reply, err
}
