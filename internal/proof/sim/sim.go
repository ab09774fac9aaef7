package sim

import (
	"fmt"
	"io"
	"time"
)

// Report is the result of a simulation.
type Report struct {
	Seed    uint64
	Trace   uint64 // the same seed gives the same trace
	Steps   int
	Commits int
	Years   float64
	Faults  map[string]int
	Ends    map[string]int // runs by final status
	// Documents counts the events of documents and searches in worlds that have some, by kind.
	Documents map[string]int
	// Rollups counts the rollups and questions in worlds with accountants, by kind.
	Rollups map[string]int
	// Floods counts the events in worlds with floods, by kind.
	Floods map[string]int
	// AtOnce is how many runs were stored with a claim of the process that accepted them.
	AtOnce  int
	Failure string // empty: none
}

// Has reports whether the world of a seed is of a kind: documents, accountants, floods or sight. Every world is of the
// empty one.
func Has(kind string, seed uint64) bool {
	switch kind {
	case "":
		return true
	case "documents":
		return hasLibrary(seed)
	case "accountants":
		return hasAccountants(seed)
	case "floods":
		return hasFloods(seed)
	case "sight":
		return hasSight(seed)
	default:
		panic("no such kind of worlds: " + kind)
	}
}

// Simulate runs a seed. It has clients and faults for a while, then neither, until everything has settled.
func Simulate(seed uint64, log io.Writer) Report {
	rates := []float64{0, 0.02, 0.05, 0.12}
	w := newWorld(seed, rates[seed%uint64(len(rates))])
	w.log = log
	defer w.stop()
	w.found()
	began := w.now
	processes := 2
	if hasFloods(seed) {
		processes = 1
		w.floods()
	}
	for n := range processes {
		w.deploy(fmt.Sprintf("process %d", n))
	}
	clients := 3 + int(seed%3)
	if w.pausedRuns() > few { // others would use the limit that a large flood needs to grow
		clients = 0
	}
	for n := range clients {
		w.client(n)
	}
	for _, kit := range w.kits {
		w.owner(kit[0], kit[1])
	}
	if w.powers != nil {
		for _, organization := range sortedKeys(w.powers.groups) {
			w.boss(organization)
		}
	}
	if w.library != nil {
		w.librarians()
	}
	if w.books != nil {
		w.books.accountants()
	}
	born := len(w.processes)
	after := func() {
		// A process that died is replaced.
		for _, d := range w.processes {
			if d.dead && !d.replaced {
				d.replaced = true
				born++
				w.deploy(fmt.Sprintf("process %d", born))
				break
			}
		}
	}
	w.run(began.Add(w.trouble+time.Minute), after)
	w.quiet = true
	for _, d := range w.processes {
		if d.frozen.After(w.now) {
			d.frozen = w.now
		}
	}
	// Two expiries and the hour of webhook retries are the longest that anything takes, repeated for chains of turns.
	w.run(w.now.Add(60*24*time.Hour), after)
	if w.failure == "" {
		w.checker.final()
	}
	r := Report{
		Seed: seed, Trace: w.trace, Steps: w.steps, Commits: w.checker.commits,
		Years: w.now.Sub(began).Hours() / 24 / 365, Faults: w.faults,
		Ends: map[string]int{}, AtOnce: w.atOnce, Failure: w.failure,
	}
	if w.library != nil {
		r.Documents = w.library.documents.tally
	}
	if hasFloods(seed) {
		r.Floods = w.counted
	}
	if w.books != nil {
		r.Rollups = w.books.tally
	}
	for _, e := range w.checker.ledger {
		if e.RunID != "" {
			r.Ends[e.Status]++
		}
	}
	return r
}
