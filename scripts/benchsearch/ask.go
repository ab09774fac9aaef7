package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"time"

	"agentplatform/internal/index"
	"agentplatform/internal/index/diskindex"
)

// ask is the second child.
func ask() error {
	c := newCorpus()
	start, used := time.Now(), cpu()
	x, err := diskindex.Open(*dir, diskindex.Options{})
	if err != nil {
		return err
	}
	q := c.query(rand.New(rand.NewPCG(4, 4)), *chunks, false)
	first, err := x.Query(context.Background(), q)
	if err != nil {
		return err
	}
	row("opening after kill -9, with a first query", time.Since(start).Seconds(), "s", 2)
	row("  of that, time of processors", (cpu() - used).Seconds(), "s", 0)
	if n := first.Statistics.Chunks; n < *chunks {
		return fmt.Errorf("%d chunks are left of %d", n, *chunks)
	}
	if *profile != "" {
		f, err := os.Create(*profile)
		if err != nil {
			return err
		}
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer func() { pprof.StopCPUProfile(); _ = f.Close() }()
	}
	for _, common := range []bool{false, true} {
		for _, clients := range []int{1, 16} {
			if err := load(x, c, common, clients); err != nil {
				return err
			}
		}
	}
	for _, name := range []string{"VmRSS", "VmHWM"} {
		row("memory of the process ("+name+")", memory(name), "MB", 350)
	}
	return x.Close()
}

// load has clients ask hybrid queries for a while.
func load(x index.Index, c *corpus, common bool, clients int) error {
	var group sync.WaitGroup
	took, failed := make([][]time.Duration, clients), make([]error, clients)
	start, used := time.Now(), cpu()
	for i := range clients {
		r := rand.New(rand.NewPCG(5, uint64(i)))
		group.Go(func() {
			for failed[i] == nil && time.Since(start) < *seconds {
				q := c.query(r, *chunks, common)
				began := time.Now()
				_, failed[i] = x.Query(context.Background(), q)
				took[i] = append(took[i], time.Since(began))
			}
		})
	}
	group.Wait()
	all := slices.Concat(took...)
	slices.Sort(all)
	what, n := "words as in the text", len(all)
	if common {
		what = "8 of the 12 most frequent words"
	}
	fmt.Printf("hybrid queries, %s, clients: %d\n", what, clients)
	if clients == 1 {
		row("  p50", all[n/2].Seconds()*1e3, "ms", 20)
		row("  p99", all[n*99/100].Seconds()*1e3, "ms", 60)
	} else {
		row("  queries", float64(n)/time.Since(start).Seconds(), "/s", -150)
	}
	row("  time of processors for a query", (cpu()-used).Seconds()*1e3/float64(n), "ms", 0)
	return errors.Join(failed...)
}

// memory is a line of the process's status, in MB; 0 where the system has none.
func memory(name string) float64 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if rest, yes := strings.CutPrefix(line, name+":"); yes {
			var kb float64
			_, _ = fmt.Sscan(rest, &kb)
			return kb * 1024 / 1e6
		}
	}
	return 0
}
