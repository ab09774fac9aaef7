package main

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each kind of mutant is made and killed, in a copy that without a mutant behaves as the original; what no test of
// the fixture checks survives; what was killed is not run again.
func TestMutantsOfTheFixtureAreMadeAndKilled(t *testing.T) {
	s := settings{workers: 2, killers: "own", results: filepath.Join(t.TempDir(), "results")}
	s.packages = []string{"./testdata/fixture"}
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), s, &out))
	var survived []string
	for line := range strings.Lines(out.String()) {
		if _, what, ok := strings.Cut(line, "fixture "); ok && strings.HasPrefix(line, "survived:") {
			survived = append(survived, strings.TrimSpace(what))
		}
	}
	assert.Equal(t, []string{"Nobody: x > limit → x >= limit"}, survived, out.String())

	fates, err := readResults(s.results)
	require.NoError(t, err)
	var killed []string
	for key := range fates {
		_, what, _ := strings.Cut(key, "fixture ")
		killed = append(killed, what)
	}
	for _, kind := range []string{
		"Within: x >= low && x < high → x >= low || x < high", "Within: x >= low → x > low",
		"Within: x < high → x <= high",
		"Above: x > 5 → x >= 5", "Above: x > 5 → with 5+1",
		"Sum: x == 0 → !(x == 0)", "Sum: x == 0 → with 0+1", "Sum: total += x → nothing",
		"Sum: total += x → the opposite",
		"Sum: total - 1 → total + 1",
		"Kinds: 1 in a list → nothing", "Kinds: 2 in a list → nothing", `More: Kind(len("ab")) in a list → nothing`,
		`Named: case 1: name = "one" → nothing`, `Named: name = "one" → nothing`,
		`Named: return "", ErrNone → a nil error`,
		"Later: t.Add(d) → the time before instead of after", "called: Calls++ → nothing",
		"Forgets: n > 0 → !(n > 0)", "Forgets: n-- → nothing",
	} {
		assert.Contains(t, killed, kind)
	}

	packages, err := list(t.Context(), s.packages...)
	require.NoError(t, err)
	all, _, err := copies(packages, t.TempDir())
	require.NoError(t, err)
	for range hunt(t.Context(), all, fates, []*killer{{name: "own"}}, 1) {
		t.Error("a mutant is killed again")
	}
	s.sample = 3
	few, err := choose(all, s)
	require.NoError(t, err)
	again, err := choose(all, s)
	require.NoError(t, err)
	assert.Len(t, few, 3)
	assert.Equal(t, few, again)
}

// Near killers are the tests of packages that depend on a package, not its own, and not the long ones.
func TestDependantsAreTheTestsOfImportingPackages(t *testing.T) {
	near, err := dependants(t.Context(), []listed{{ImportPath: "agentplatform/internal/transition"}})
	require.NoError(t, err)
	var names []string
	for _, k := range near {
		names = append(names, strings.TrimPrefix(k.pkg, "agentplatform/internal/"))
	}
	assert.Contains(t, names, "intake")
	for _, not := range []string{"move", "lifecycle", "sim", "sim/planted", "sim/explore"} {
		assert.NotContains(t, names, not)
	}
}

// What explained.txt gives a reason for is there; a line of what is gone ends a run.
func TestExplainedMutantsExist(t *testing.T) {
	explained, err := readExplained(reasons)
	require.NoError(t, err)
	var packages []string
	for key := range explained {
		of, _, _ := strings.Cut(key, " ")
		packages = append(packages, of)
	}
	slices.Sort(packages)
	listed, err := list(t.Context(), slices.Compact(packages)...)
	require.NoError(t, err)
	all, _, err := copies(listed, t.TempDir())
	require.NoError(t, err)
	require.NoError(t, stale(all, explained))

	explained[packages[0]+" Nobody: x → y"] = 7
	assert.EqualError(t, stale(all, explained), "explained.txt:7: there is no mutant "+packages[0]+" Nobody: x → y")
	delete(explained, packages[0]+" Nobody: x → y")
	explained["agentplatform/internal/other Nobody: x → y"] = 8
	assert.NoError(t, stale(all, explained), "other packages are not looked at")
}

func TestExplainedMutantsHaveOneReasonEach(t *testing.T) {
	for text, wrong := range map[string]string{
		"title\n\np A: x → y | why\n":                     "",
		"title\n\np A: x → y\n":                           "explained.txt:3 gives no reason",
		"title\np A: x → y | \n":                          "explained.txt:2 gives no reason",
		"title\n\np A: x → y | why\np A: x → y | again\n": "explained.txt:4 stands in line 3",
	} {
		_, err := readExplained(text)
		if wrong == "" {
			assert.NoError(t, err)
		} else {
			assert.EqualError(t, err, wrong)
		}
	}
}
