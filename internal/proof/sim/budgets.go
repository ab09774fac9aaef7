package sim

import (
	"strings"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/store/record"
)

// plenty is a budget that is never exhausted. Its counters are compared with the ledger. scarce is exhausted, in calm
// worlds without documents. Its runs are refused, or end before their next call of a model.
var (
	plenty = tenant.BudgetEdit(`{"period":"month","max_tokens":1000000000,"max_runs":1000000000}`)
	scarce = tenant.BudgetEdit(`{"period":"month","max_tokens":400,"max_runs":1000000000}`)
)

func isScarce(seed uint64) bool { return seed%8 == 2 && seed%128 < 32 }

func budgetOf(seed uint64) tenant.BudgetEdit {
	if isScarce(seed) {
		return scarce
	}
	return plenty
}

// mayAsk records, when a run was claimed or has journalled steps, whether a budget of it is used up. The run may then
// not call its model any more.
func (c *checker) mayAsk(id string, before, r record.Run) {
	if r.Attempt == before.Attempt && r.Steps == before.Steps {
		return
	}
	c.usedUp[id] = false
	for _, b := range r.Counting.Budgets {
		tokens := int64(0)
		for key, n := range c.counts {
			if key.Part == "spent/"+b.Name && key.Sort != "runs" {
				tokens += n
			}
		}
		c.usedUp[id] = c.usedUp[id] || tokens >= b.MaxTokens
	}
}

// asks checks that a run may call its model.
func (c *checker) asks(run string) {
	if c.usedUp[run] {
		c.violated(3, "run %s asks its model, though a budget of it was used up before", run)
	}
}

// budgets checks that at every moment the budgets have counted each accepted run. They must have counted each token of
// a run and of a charged embedding once, in the commit that records it. Only running runs have a counter of their own.
func (c *checker) budgets() {
	runs, tokens, used := int64(0), c.uncounted, int64(0)
	for key, n := range c.counts {
		if key.Sort == "runs" {
			runs += n
			continue
		}
		tokens += n
		id, open := strings.CutPrefix(key.Sort, "unsettled/")
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
