package planted_test

import (
	"bytes"
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/sim/planted"
)

const root = "../../.."

var (
	plant = flag.Bool("plant", false, "plant the bugs and have the simulation look for them")
	seeds = flag.Int("seeds", 20_000, "after so many a bug has survived")
	only  = flag.String("bug", "", "a pattern: only the bugs whose names match")
)

// The text of each bug occurs exactly once in its file, so that none is planted in vain.
func TestTheCatalogueFitsTheSources(t *testing.T) {
	names := map[string]bool{}
	for _, b := range planted.Bugs() {
		assert.False(t, names[b.Name], b.Name)
		names[b.Name] = true
		files, err := b.Planted(root)
		if !assert.NoError(t, err) {
			continue
		}
		for name, text := range files {
			before, err := os.ReadFile(filepath.Join(root, name))
			require.NoError(t, err)
			assert.NotEqual(t, string(before), text)
		}
	}
	assert.GreaterOrEqual(t, len(names), 40)
}

var found = regexp.MustCompile(`seed (\d+): (.*)`)

// Plants each bug in turn and counts the seeds that the simulation needs to find it.
func TestEveryBugIsFound(t *testing.T) {
	if !*plant {
		t.Skip("make planted does")
	}
	wanted := regexp.MustCompile(*only)
	var mu sync.Mutex
	var needed []int
	t.Cleanup(func() {
		if slices.Sort(needed); len(needed) > 0 {
			t.Logf("%d bugs found; seeds needed: median %d, worst %d", len(needed), needed[len(needed)/2],
				needed[len(needed)-1])
		}
	})
	for _, b := range planted.Bugs() {
		if !wanted.MatchString(b.Name) || b.Explored {
			continue
		}
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel() // one is compiled while another is searched for
			binary := build(t, b, "./internal/sim")
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
			defer cancel()
			began := time.Now()
			for first, n := 1, 4; first <= *seeds; first, n = first+n, min(2*n, 2000) {
				// A bug may also break the simulated world itself: a panic counts as found.
				out, err := exec.CommandContext(ctx, binary, "-test.run", "TestSimulation", "-first",
					strconv.Itoa(first), "-seeds", strconv.Itoa(n)).CombinedOutput()
				require.NoError(t, ctx.Err())
				if err == nil {
					continue
				}
				seed, what := first+n-1, "the simulated world broke: "+firstLine(out)
				for _, m := range found.FindAllSubmatch(out, -1) {
					if s, _ := strconv.Atoi(string(m[1])); s <= seed {
						seed, what = s, string(m[2])
					}
				}
				mu.Lock()
				needed = append(needed, seed)
				mu.Unlock()
				t.Logf("%6d seeds, %5.1f s: %s", seed, time.Since(began).Seconds(), what)
				return
			}
			t.Errorf("the bug has survived %d seeds", *seeds)
		})
	}
}

// Plants the bugs of concurrency and explores the states of small worlds.
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
	for _, b := range planted.Bugs() {
		listed := slices.Index(names, b.Name)
		if listed < 0 && !b.Explored {
			continue
		}
		if listed >= 0 {
			names = slices.Delete(names, listed, listed+1)
		}
		t.Run(b.Name, func(t *testing.T) {
			binary := build(t, b, "./internal/sim/explore")
			began := time.Now()
			out, err := exec.CommandContext(t.Context(), binary, "-test.run", "EveryState", "-test.failfast", "-states",
				"100000").CombinedOutput()
			require.Error(t, err, "the bug has survived")
			seen := violation.Find(out)
			require.NotEmpty(t, seen, "it failed for another reason: %s", out)
			t.Logf("%5.1f s: %s", time.Since(began).Seconds(), seen)
		})
	}
	assert.Empty(t, names, "there are no such bugs")
}

var violation = regexp.MustCompile(`(Should be empty, but was|panic:).*`)

func firstLine(out []byte) string {
	if i := bytes.Index(out, []byte("panic:")); i >= 0 {
		out = out[i:]
	}
	line, _, _ := bytes.Cut(out, []byte("\n"))
	return string(line)
}

// build compiles a package's tests with a bug planted.
func build(t *testing.T, b planted.Bug, what string) string {
	dir := t.TempDir()
	list, err := b.Overlay(root, dir)
	require.NoError(t, err)
	binary := filepath.Join(dir, "planted.test")
	command := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-ldflags", "-s -w", "-overlay", list,
		"-o", binary, what)
	command.Dir = root
	out, err := command.CombinedOutput()
	require.NoError(t, err, string(out))
	return binary
}
