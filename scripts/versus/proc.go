package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/procfs"
)

// tick is the unit of times in /proc, the same on all machines that Go knows.
const tick = time.Second / 100

// treeTime returns the processor time of some processes and all their descendants. The time of an ended backend of
// PostgreSQL is part of that of the server that waited for it.
func treeTime(roots []int) (time.Duration, error) {
	processes, err := procfs.AllProcs()
	if err != nil {
		return 0, fmt.Errorf("processor time is read from /proc: versus needs Linux: %w", err)
	}
	var all []procfs.ProcStat
	for _, p := range processes {
		if s, err := p.Stat(); err == nil { // else it has ended meanwhile
			all = append(all, s)
		}
	}
	return sumTree(all, roots), nil
}

// sumTree counts each process once, with those of its children that have ended and were waited for.
func sumTree(all []procfs.ProcStat, roots []int) (sum time.Duration) {
	wanted := map[int]bool{}
	next := slices.Clone(roots)
	for len(next) > 0 {
		pid := next[0]
		next = next[1:]
		if wanted[pid] {
			continue
		}
		wanted[pid] = true
		for _, s := range all {
			if s.PID == pid {
				sum += tick * time.Duration(int(s.UTime+s.STime)+s.CUTime+s.CSTime)
			}
			if s.PPID == pid {
				next = append(next, s.PID)
			}
		}
	}
	return sum
}
