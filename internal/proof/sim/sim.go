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
	// Documents says what became of documents and searches in worlds that have some, by what.
	Documents map[string]int
	// Rollups says what was rolled up and asked in worlds with accountants, by what.
	Rollups map[string]int
	// AtOnce is how many runs were stored with a claim of the process that accepted them.
	AtOnce  int
	Failure string // empty: none
}

// Simulate runs a seed: clients and faults for a while, then neither, until everything has settled.
func Simulate(seed uint64, log io.Writer) Report {
	rates := []float64{0, 0.02, 0.05, 0.12}
	w := newWorld(seed, rates[seed%uint64(len(rates))])
	w.log = log
	defer w.stop()
	w.found()
	began := w.now
	for n := range 2 {
		w.deploy(fmt.Sprintf("process %d", n))
	}
	for n := range 3 + int(seed%3) {
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
