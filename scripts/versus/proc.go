package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of times in /proc, the same on all machines that Go knows.
const tick = time.Second / 100

// status is what /proc tells of a process.
type status struct {
	pid, parent int
	spent       time.Duration // by it and those of its children that have ended and were waited for
}

// treeTime is the processor time of some processes and all that descend from them. A backend of PostgreSQL that has
// ended is among the times of the server that waited for it.
func treeTime(roots []int) (time.Duration, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	var all []status
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended meanwhile
		}
		s, err := parseStatus(text)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, s)
	}
	if len(all) == 0 {
		return 0, fmt.Errorf("processor time is read from /proc, which is not here: versus needs Linux")
	}
	return sumTree(all, roots), nil
}

func sumTree(all []status, roots []int) time.Duration {
	children := map[int][]status{}
	wanted := map[int]bool{}
	for _, pid := range roots {
		wanted[pid] = true
	}
	var next []status
	for _, s := range all {
		children[s.parent] = append(children[s.parent], s)
		if wanted[s.pid] {
			next = append(next, s)
		}
	}
	var sum time.Duration
	seen := map[int]bool{}
	for len(next) > 0 {
		s := next[0]
		next = next[1:]
		if seen[s.pid] {
			continue
		}
		seen[s.pid] = true
		sum += s.spent
		next = append(next, children[s.pid]...)
	}
	return sum
}

// parseStatus reads /proc/PID/stat: the name in brackets may have spaces and brackets itself.
func parseStatus(text []byte) (status, error) {
	begin, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if begin < 0 || end < begin {
		return status{}, fmt.Errorf("no name in %.60q", text)
	}
	fields := strings.Fields(string(text[end+1:]))
	if len(fields) < 15 {
		return status{}, fmt.Errorf("too few fields in %.60q", text)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text[:begin])))
	if err != nil {
		return status{}, err
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return status{}, err
	}
	s := status{pid: pid, parent: parent}
	for _, field := range fields[11:15] { // user and system, of itself and of its children
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return status{}, err
		}
		s.spent += time.Duration(n) * tick
	}
	return s, nil
}
