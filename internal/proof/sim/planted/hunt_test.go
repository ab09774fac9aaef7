package planted_test

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentplatform/internal/proof/sim/planted"
)

// Plants each bug in turn and makes the simulation find it. It starts with the seed that found the bug in the last
// search from the first seed on. If the sources have changed and that seed does not find it, the search starts from
// there.
func TestEveryBugIsFound(t *testing.T) {
	if !*plant {
		t.Skip("make planted does")
	}
	h := &hunt{
		program: build(t, planted.Bugs(), "./internal/proof/sim"), noted: notedSeeds(t), needed: map[string]int{},
		good: map[int]bool{},
	}
	t.Cleanup(func() { h.report(t) })
	var names []string
	for _, b := range planted.Bugs() {
		if !b.Explored {
			names = append(names, b.Name)
		}
	}
	names = wanted(t, names)
	for i, b := range planted.Bugs() {
		if !slices.Contains(names, b.Name) {
			continue
		}
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			seed, what := h.find(t, i+1, b)
			require.NotZero(t, seed, "the bug has survived %d seeds", *seeds)
			h.passesWithout(t, seed)
			t.Logf("seed %6d, %5.1f s: %s", seed, time.Since(began).Seconds(), what)
		})
	}
}

// hunt is the search for all bugs.
type hunt struct {
	program program
	noted   map[string]int // the seed that found a bug in the last search from the first seed on
	mu      sync.Mutex
	needed  map[string]int // the same, of this search
	again   int            // the number of bugs that the noted seed did not find
	good    map[int]bool   // seeds that pass without any bug
}

// find returns the seed that finds a bug, and the broken invariant; 0: none did.
func (h *hunt) find(t *testing.T, bug int, b planted.Bug) (seed int, what string) {
	if noted := h.noted[b.Name]; noted > 0 {
		if seed, what = h.runSeeds(t, bug, noted, 1, ""); seed > 0 {
			h.note(t, b.Name, seed, false)
			return seed, what
		}
	}
	for first, n := 1, 4; first <= *seeds; first, n = first+n, min(2*n, 2000) {
		if seed, what = h.runSeeds(t, bug, first, n, b.Worlds()); seed > 0 {
			h.note(t, b.Name, seed, true)
			return seed, what
		}
	}
	return 0, ""
}

// note records the seed that finds a bug. With -anew it also writes it to the file, so that a hunt that is broken off
// keeps its results.
func (h *hunt) note(t *testing.T, name string, seed int, again bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.needed[name] = seed
	if !again {
		return
	}
	h.again++
	if *anew {
		h.write(t)
	}
}

var found = regexp.MustCompile(`seed (\d+): (.*)`)

// runSeeds runs n seeds with a bug, as far as their worlds are of a kind. It returns the first seed that finds it, and
// the broken invariant; 0: none did.
func (h *hunt) runSeeds(t *testing.T, bug, first, n int, worlds string) (seed int, what string) {
	out, failed := h.program.run(t, bug, "-test.run", "TestSimulation", "-first", strconv.Itoa(first), "-seeds",
		strconv.Itoa(n), "-worlds", worlds)
	if !failed {
		return 0, ""
	}
	for _, m := range found.FindAllSubmatch(out, -1) {
		if s, _ := strconv.Atoi(string(m[1])); seed == 0 || s < seed {
			seed, what = s, string(m[2])
		}
	}
	// A bug may also break the simulated world itself: a panic counts as found, but names no seed.
	for s := first; n > 1 && seed == 0 && s < first+n; s++ {
		seed, what = h.runSeeds(t, bug, s, 1, worlds)
	}
	if seed == 0 {
		seed, what = first, "the simulated world broke: "+firstLine(out)
	}
	return seed, what
}

// passesWithout fails unless a seed passes without any bug. Otherwise the seed does not show that it found the bug.
func (h *hunt) passesWithout(t *testing.T, seed int) {
	h.mu.Lock()
	known := h.good[seed]
	h.mu.Unlock()
	if known {
		return
	}
	broken, what := h.runSeeds(t, 0, seed, 1, "")
	require.Zero(t, broken, "seed %d fails without any bug: %s", seed, what)
	h.mu.Lock()
	h.good[seed] = true
	h.mu.Unlock()
}

// report prints how many bugs were found, and how far from the first seed. With -anew it records the seeds.
func (h *hunt) report(t *testing.T) {
	var counts []int
	for _, n := range h.needed {
		counts = append(counts, n)
	}
	if slices.Sort(counts); len(counts) == 0 {
		return
	}
	t.Logf("%d bugs found; seeds needed: median %d, worst %d; %d seeds passed without a bug", len(counts),
		counts[len(counts)/2], counts[len(counts)-1], len(h.good))
	if h.again > 0 {
		t.Logf("%d of them not by their noted seed, for the sources have changed: make planted-anew notes the seeds",
			h.again)
	}
}

// write writes the seeds: the new ones of the found bugs, and the old ones of all others.
func (h *hunt) write(t *testing.T) {
	var text strings.Builder
	for _, b := range planted.Bugs() {
		seed, is := h.needed[b.Name]
		if !is {
			seed, is = h.noted[b.Name]
		}
		if is {
			fmt.Fprintf(&text, "%d\t%s\n", seed, b.Name)
		}
	}
	require.NoError(t, os.WriteFile(notes, []byte(text.String()), 0o600))
}

// notes is the file of noted seeds: on each line a seed and, after a tab, the name of the bug that it finds.
const notes = "seeds.txt"

func notedSeeds(t *testing.T) map[string]int {
	text, err := os.ReadFile(notes)
	require.NoError(t, err)
	noted := map[string]int{}
	for line := range strings.Lines(string(text)) {
		seed, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		noted[name], err = strconv.Atoi(seed)
		require.NoError(t, err)
	}
	return noted
}

func firstLine(out []byte) string {
	if i := bytes.Index(out, []byte("panic:")); i >= 0 {
		out = out[i:]
	}
	line, _, _ := bytes.Cut(out, []byte("\n"))
	return string(line)
}
