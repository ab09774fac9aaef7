package planted_test

import (
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/proof/sim/planted"
)

// Plants the bugs of concurrency and explores the states of small worlds: few of all of them first, since most bugs are
// near the beginning of some world.
func TestSmallWorldsFindBugs(t *testing.T) {
	if !*plant {
		t.Skip("make planted does")
	}
	names := []string{
		"a lease that is alive protects nobody", "reports of an attempt that is gone are taken",
		"a run is written whatever it has become meanwhile",
		"a late answer wins over a cancel", "a cancelled run promotes nobody", "admission lets one too many in",
		"a refusal does not look for the key again", "a transition is two commits",
	}
	p, deepest := build(t, planted.Bugs(), "./internal/proof/sim/explore"), 0
	var bugs []string
	for _, b := range planted.Bugs() {
		if listed := slices.Index(names, b.Name); listed >= 0 {
			names = slices.Delete(names, listed, listed+1)
		} else if !b.Explored {
			continue
		}
		bugs = append(bugs, b.Name)
	}
	assert.Empty(t, names, "there are no such bugs")
	bugs = wanted(t, bugs)
	for i, b := range planted.Bugs() {
		if !slices.Contains(bugs, b.Name) {
			continue
		}
		t.Run(b.Name, func(t *testing.T) {
			began := time.Now()
			for _, states := range []int{300, 3_000, 30_000, 100_000} {
				deepest = max(deepest, states)
				if seen := explored(t, p, i+1, states); seen != "" {
					t.Logf("%5.1f s, up to %d states of a world: %s", time.Since(began).Seconds(), states, seen)
					return
				}
			}
			t.Error("the bug has survived")
		})
	}
	if deepest > 0 {
		t.Run("without a bug", func(t *testing.T) { assert.Empty(t, explored(t, p, 0, deepest)) })
	}
}

var violation = regexp.MustCompile(`(Should be empty, but was|panic:).*`)

// explored visits up to the given number of states of each small world with a bug, and returns the violation that it
// found.
func explored(t *testing.T, p program, bug, states int) string {
	out, failed := p.run(t, bug, "-test.run", "EveryState", "-test.failfast", "-states", strconv.Itoa(states))
	if !failed {
		return ""
	}
	seen := violation.Find(out)
	require.NotEmpty(t, seen, "it failed for another reason: %s", out)
	return string(seen)
}
