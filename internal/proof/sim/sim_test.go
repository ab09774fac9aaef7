package sim_test

import (
	"flag"
	"io"
	"os"
	"runtime"
	"sort"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/proof/sim"
)

var (
	seeds = flag.Uint64("seeds", 8, "how many seeds to simulate")
	first = flag.Uint64("first", 1, "the first seed")
	kind  = flag.String("worlds", "", "only the seeds whose worlds are of a kind; see sim.Has")
	logTo = flag.String("log", "", "with -seeds 1: the file that what happens is written to, a line each")
)

// Runs many seeds. A failing one prints the command that replays it.
func TestSimulation(t *testing.T) {
	var next, steps, commits, atOnce atomic.Uint64
	var mu sync.Mutex
	faults, ends, documents, rollups := map[string]int{}, map[string]int{}, map[string]int{}, map[string]int{}
	floods := map[string]int{}
	years := 0.0
	var log io.Writer
	if *logTo != "" {
		require.EqualValues(t, 1, *seeds, "the log is of one seed")
		file, err := os.Create(*logTo)
		require.NoError(t, err)
		defer func() { _ = file.Close() }()
		log = file
	}
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for {
				n := next.Add(1)
				if n > *seeds || t.Failed() {
					return
				}
				if !sim.Has(*kind, *first+n-1) {
					continue
				}
				r := sim.Simulate(*first+n-1, log)
				if r.Failure != "" {
					t.Errorf("seed %d: %s\nreplay: go test ./internal/proof/sim -run TestSimulation -first %d "+
						"-seeds 1 -log /tmp/seed.log", r.Seed, r.Failure, r.Seed)
					return
				}
				steps.Add(uint64(r.Steps))
				commits.Add(uint64(r.Commits))
				atOnce.Add(uint64(r.AtOnce))
				mu.Lock()
				years += r.Years
				for k, v := range r.Faults {
					faults[k] += v
				}
				for k, v := range r.Ends {
					ends[k] += v
				}
				for k, v := range r.Documents {
					documents[k] += v
				}
				for k, v := range r.Rollups {
					rollups[k] += v
				}
				for k, v := range r.Floods {
					floods[k] += v
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	t.Logf("%d seeds, %d steps, %d commits, %.1f simulated years, runs %v", *seeds, steps.Load(), commits.Load(), years,
		ends)
	t.Logf("started at once %d, documents %v, rollups %v, floods %v", atOnce.Load(), documents, rollups, floods)
	var names []string
	for k := range faults {
		names = append(names, k)
	}
	sort.Strings(names)
	for _, k := range names {
		t.Logf("  %7d %s", faults[k], k)
	}
	if t.Failed() || *seeds < 40 || *kind != "" {
		return
	}
	assert.Positive(t, atOnce.Load(), "no run was started by who accepted it: the simulation misses something")
	for _, status := range []string{"completed", "failed", "cancelled", "timed_out"} {
		assert.Positive(t, ends[status], "no run ever ended %s: the simulation misses something", status)
	}
	for _, what := range []string{
		"waited for a turn", "organization has all but the reserve", "began at once", "refused for paused runs",
		"start deadlines moved", "could not be started",
	} {
		assert.True(t, floods[what] > 0 || *seeds < 160, "%q: the simulation misses something", what)
	}
	if *first == 1 && *seeds >= 512 { // seeds from 256 on have accountants
		for _, what := range []string{"questions answered", "rolled up among faults", "days among them"} {
			assert.Positive(t, rollups[what], "%q: the simulation misses something", what)
		}
	}
	if *first > 1 || *seeds < 128 { // seeds from 64 on have documents
		return
	}
	for _, what := range []string{
		"ended: ready", "batches", "rebuilt", "deleted", "hits", "searches that had to find",
	} {
		assert.Positive(t, documents[what], "%q: the simulation misses something", what)
	}
}
