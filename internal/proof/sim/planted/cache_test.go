package planted_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/proof/sim/planted"
)

// Plants each bug of the laptop's cache in turn, and has the tests of its table find it.
func TestEveryBugOfTheCacheIsFound(t *testing.T) {
	foundByTests(t, planted.CacheBugs(), "./internal/store/table/disktable", "Contract|Cache|Missed|HalfACommit")
}

// Plants each bug of the names of tools in turn, and has the tests of toolkits find it.
func TestEveryBugOfNamesIsFound(t *testing.T) {
	foundByTests(t, planted.NameBugs(), "./internal/org/toolkit", "KeepsItsName|KeepTheirNames|OfferedAgain")
}

// chances is how often the tests are run with a bug until one finds it. Some tests find a bug by goroutines that meet.
// On a busy machine these may miss each other.
const chances = 20

func foundByTests(t *testing.T, bugs []planted.Bug, folder, tests string) {
	if !*plant {
		t.Skip("make planted does")
	}
	var names []string
	for _, b := range bugs {
		names = append(names, b.Name)
	}
	names = wanted(t, names)
	program := build(t, bugs, folder)
	arguments := []string{"-test.short", "-test.run", tests, "-test.timeout", "10m"}
	out, failed := program.run(t, 0, arguments...)
	require.False(t, failed, "without a bug: %s", out)
	for i, b := range bugs {
		if slices.Contains(names, b.Name) {
			t.Run(b.Name, func(t *testing.T) {
				for range chances {
					if _, failed := program.run(t, i+1, arguments...); failed {
						return
					}
				}
				assert.Fail(t, "no test has found it")
			})
		}
	}
}
