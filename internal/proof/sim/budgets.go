package sim

import (
	"strings"

	"agentplatform/internal/core/lifecycle"
)

// budgets checks that at every moment the budgets have counted each accepted run, and each token that a run has used or
// an embedding was charged for: once, and with the commit that notes it. Only running runs have a counter of their own.
func (c *checker) budgets() {
	runs, tokens, used := int64(0), c.uncounted, int64(0)
	for key, n := range c.counts {
		if key.Sort == "runs" {
			runs += n
			continue
		}
		tokens += n
		id, open := strings.CutPrefix(key.Sort, "open/")
		if r := c.runs[id]; open && n != 0 && (r.Status != lifecycle.Running || n != r.Counting.Open) {
			c.violated(3, "%s has %d tokens of run %s, which is %s and has noted %+v", key, n, id, r.Status, r.Counting)
		}
	}
	for _, e := range c.ledger {
		used += e.InputTokens + e.OutputTokens
	}
	for _, r := range c.runs {
		if !r.Status.Terminal() {
			used += r.Usage.Tokens()
		}
	}
	if int(runs) != len(c.accepted) || tokens != used {
		c.violated(3, "%d runs were accepted and %d counted, %d tokens used and %d counted", len(c.accepted), runs,
			used, tokens)
	}
}
