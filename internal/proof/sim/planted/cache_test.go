package planted_test

import (
	"regexp"
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

// Plants each bug of the laptop's queue in turn, and has the tests of that queue find it.
func TestEveryBugOfTurnsIsFound(t *testing.T) {
	foundByTests(t, planted.TurnBugs(), "./internal/store/queue/localqueue",
		"WakesAWorker|AreTheModels|GoRound|GivesWay", "-rapid.nofailfile")
}

// Plants each bug of turns and deadlines of ingestions in turn, and has the tests of the package find it.
func TestEveryBugOfIngestionsIsFound(t *testing.T) {
	foundByTests(t, planted.IngestBugs(), "./internal/knowledge/ingest", "DoesNotWait|OthersPass|InFlight")
}

// Plants each bug of deleted words in turn, and has the tests of the laptop's index find it.
func TestEveryBugOfDeletedWordsIsFound(t *testing.T) {
	foundByTests(t, planted.IndexBugs(), "./internal/text/index/diskindex", "Deleted|Mark|Removal")
}

// chances is how often the tests are run with a bug until one finds it. Some tests find a bug by goroutines that meet.
// On a busy machine these may miss each other.
const chances = 20

// failedBy reports whether a test failed that a pattern names: not the program, or its time was up.
func failedBy(tests string, out []byte) bool {
	return regexp.MustCompile(`(?m)^--- FAIL: Test\w*(` + tests + `)`).Match(out)
}

func TestABugIsFoundByATestOfThePattern(t *testing.T) {
	for out, want := range map[string]bool{
		"--- FAIL: TestContract (0.00s)\n    --- FAIL: TestContract/x (0.00s)\nFAIL\n": true,
		"ok\n--- FAIL: TestACacheForgets (0.00s)\npanic: x\n":                          true,
		"--- FAIL: TestOther (0.00s)\n    --- FAIL: TestOther/Contract (0.00s)\n":      false,
		"panic: test timed out after 10m0s\n\trunning tests:\n\t\tTestContract\n":      false,
		"Contract: no such file": false,
	} {
		assert.Equal(t, want, failedBy("Contract|Cache", []byte(out)), out)
	}
}

func foundByTests(t *testing.T, bugs []planted.Bug, folder, tests string, more ...string) {
	if !*plant {
		t.Skip("make planted does")
	}
	var names []string
	for _, b := range bugs {
		names = append(names, b.Name)
	}
	names = wanted(t, names)
	program := build(t, bugs, folder)
	arguments := append([]string{"-test.short", "-test.failfast", "-test.run", tests, "-test.timeout", "10m"}, more...)
	out, failed := program.run(t, 0, arguments...)
	require.False(t, failed, "without a bug: %s", out)
	for i, b := range bugs {
		if slices.Contains(names, b.Name) {
			t.Run(b.Name, func(t *testing.T) {
				for range chances {
					if out, failed := program.run(t, i+1, arguments...); failed {
						require.True(t, failedBy(tests, out), "it failed for another reason: %s", out)
						return
					}
				}
				assert.Fail(t, "no test has found it")
			})
		}
	}
}
