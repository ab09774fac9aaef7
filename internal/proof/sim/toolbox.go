package sim

import (
	"context"
	"strings"
	"time"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/ai/tool/builtintool"
)

// toolbox is the built-in toolkit and tools with counted effects: "effect" may be repeated with its key, "once"
// may not. The tool "broken" panics in every call.
type toolbox struct {
	builtin *builtintool.Kind
	world   *world
	process *process
	machine *machine
}

func (t *toolbox) Open(ctx context.Context, _ string, _ []string) ([]tool.Offer, error) {
	found, err := t.builtin.Discover(ctx, tool.Endpoint{})
	if err != nil {
		return nil, err
	}
	for _, spec := range specs {
		found = append(found, tool.Definition{Spec: spec})
	}
	var offers []tool.Offer
	h := &held{process: t.process}
	for _, d := range found {
		offers = append(
			offers,
			tool.Offer{
				Spec:    d.Spec,
				Timeout: toolTime,
				Call: func(ctx context.Context, i tool.Invocation) (tool.Result, error) {
					t.world.checker.calledIn(h, i)
					return t.call(ctx, d, i)
				},
			},
		)
	}
	offers[0].End = h.end
	return offers, nil
}

// Listed returns the same tools for all agents.
func (t *toolbox) Listed(ctx context.Context, organization string, ids []string) ([]tool.Offer, error) {
	return t.Open(ctx, organization, ids)
}

// held is a session with a server of tools that an attempt's calls have left open.
type held struct {
	process *process
	run     string // the run that makes calls in it
	ended   bool
}

func (h *held) end() { h.ended = true }

// calledIn checks that a session serves one run, and no longer than its attempt.
func (c *checker) calledIn(h *held, i tool.Invocation) {
	run, _, _ := strings.Cut(i.IdempotencyKey, "-")
	if h.ended || h.run != "" && h.run != run {
		c.violated(9, "%s is called in a session that has ended, or is of run %q", i.IdempotencyKey, h.run)
	}
	if h.run == "" {
		h.run, c.held = run, append(c.held, h)
	}
}

// heldByNobody checks that no session is left when there are no attempts.
func (c *checker) heldByNobody() {
	for _, h := range c.held {
		if !h.ended && !h.process.dead {
			c.violated(9, "a session of run %s has outlived its attempt", h.run)
		}
	}
}

// specs are the tools that are not built in.
var specs = []tool.Spec{{Name: "effect", RetrySafe: true}, {Name: "once"}, {Name: "broken", RetrySafe: true}}

// toolTime is the longest time of a tool call.
const toolTime = 6 * time.Second

func (t *toolbox) call(ctx context.Context, d tool.Definition, i tool.Invocation) (tool.Result, error) {
	if i.Name == "broken" {
		panic("the tool's program failed")
	}
	if i.Name != "effect" && i.Name != "once" {
		return t.builtin.Call(ctx, tool.Endpoint{}, d, i)
	}
	wait := time.Duration(t.world.work.Int64N(int64(3 * time.Second)))
	behaviour := t.world.work.Int64N(12)
	if t.world.quiet {
		behaviour = 11 // a regular result
	}
	if behaviour == 0 {
		return tool.Result{}, tool.Fail("the server answered 503")
	}
	t.world.checker.effect(t.process, i)
	t.world.port(t.process, "tool")
	switch behaviour {
	case 1: // it hangs after its effect
		wait = time.Hour
	case 2: // it answers about when the caller gives up
		wait = toolTime - time.Second + wait
	}
	if err := t.machine.Sleep(ctx, wait); err != nil {
		return tool.Result{}, err
	}
	t.world.port(t.process, "tool done")
	if t.world.maybe("tool panics") {
		panic("the tool's program failed when all was done")
	}
	if behaviour == 3 {
		return tool.Result{}, tool.Fail("the server answered 500") // after its effect
	}
	done := tool.TextResult("done")
	if behaviour > 8 && !t.world.quiet {
		done.Files = []tool.File{{Name: "made.txt", ContentType: "text/plain", Data: []byte("made")}}
	}
	return done, nil
}
