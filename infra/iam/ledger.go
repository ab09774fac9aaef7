package iam

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Ledger is what programs called. Calls of a program that are alike, as the same grants allow them, are one entry with
// the first of them. It is safe for concurrent use; its zero value is empty.
type Ledger struct {
	mu      sync.Mutex
	entries map[string]*entry
}

// entry is also how the ledger is kept in a file. One of Unknown is a request that could not be decoded.
type entry struct {
	Program string `json:"program"`
	Role    string `json:"role"`
	Call    Call   `json:"call"`
	Unknown string `json:"unknown,omitempty"`
	Count   int    `json:"count"`
}

// most is how many entries there may be: beyond it, only entries that there are are counted.
const most = 10_000

func (l *Ledger) add(key string, e entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.entries == nil {
		l.entries = map[string]*entry{}
	}
	if known := l.entries[key]; known != nil {
		known.Count++
	} else if len(l.entries) < most {
		e.Count = 1
		l.entries[key] = &e
	}
}

// Called notes a call and what was decided.
func (l *Ledger) Called(p Program, c Call, d Decision) {
	alike := fmt.Sprint(d.By)
	if !d.Allowed {
		alike = d.Why
	}
	l.add(strings.Join([]string{p.Name, c.Action, alike}, " "), entry{Program: p.Name, Role: p.Role, Call: c})
}

// Undecoded notes a request that could not be decoded.
func (l *Ledger) Undecoded(p Program, err error) {
	l.add(p.Name+" "+err.Error(), entry{Program: p.Name, Role: p.Role, Unknown: err.Error()})
}

// Len is the number of entries.
func (l *Ledger) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.entries)
}

// MarshalJSON writes the ledger as Unmarshal reads it.
func (l *Ledger) MarshalJSON() ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return json.Marshal(l.entries)
}

// UnmarshalJSON reads a ledger.
func (l *Ledger) UnmarshalJSON(b []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return json.Unmarshal(b, &l.entries)
}

// Report is what a ledger says about stacks, in lines. Nothing is to be done where Missing, Unused and Stale are empty.
type Report struct {
	Missing []string // what was called without a right to it, or cannot be understood
	Unused  []string // what is granted, was not called, and is no exception
	Stale   []string // exceptions that are for no grant any more
	Excused []string // what is granted and was not called, with the reason
	Called  []string // what was called
}

// Hold holds the ledger against stacks, which need not be those of the run: what was called is decided anew. Exceptions
// are grants that stand though no program was seen to use them, with their reasons: texts of grants, as patterns.
func (l *Ledger) Hold(s *Stacks, exceptions map[string]string) (r Report) {
	l.mu.Lock()
	defer l.mu.Unlock()
	used := map[Grant]bool{}
	for _, key := range slices.Sorted(maps.Keys(l.entries)) {
		e := l.entries[key]
		if e.Unknown != "" {
			r.Missing = append(r.Missing, fmt.Sprintf("%s: %s (%d times)", e.Program, e.Unknown, e.Count))
			continue
		}
		d := s.Decide(e.Role, e.Call)
		line := fmt.Sprintf("%s: %s (%d times)", e.Program, e.Call, e.Count)
		if !d.Allowed {
			r.Missing = append(r.Missing, line+": "+d.Why)
			continue
		}
		r.Called = append(r.Called, line)
		for _, g := range d.By {
			used[g] = true
		}
	}
	stale := maps.Clone(exceptions)
	for _, g := range s.Grants() {
		reason, excused := "", false
		for pattern, why := range exceptions {
			if like(pattern, g.String()) { // called or not: that may be chance
				reason, excused = why, true
				delete(stale, pattern)
			}
		}
		switch {
		case used[g]:
		case excused:
			r.Excused = append(r.Excused, g.String()+": "+reason)
		default:
			r.Unused = append(r.Unused, g.String())
		}
	}
	for pattern, reason := range stale {
		r.Stale = append(r.Stale, pattern+": "+reason)
	}
	for _, lines := range [][]string{r.Missing, r.Unused, r.Stale, r.Excused, r.Called} {
		slices.Sort(lines)
	}
	return r
}

// Findings are the lines that something has to be done about; empty: none.
func (r Report) Findings() string {
	if len(r.Missing)+len(r.Unused)+len(r.Stale) == 0 {
		return ""
	}
	return r.findings()
}

func (r Report) findings() string {
	return titled("called without a right to it", r.Missing) + titled("granted, and not called", r.Unused) +
		titled("exceptions for no grant", r.Stale)
}

// String is all of it, each part below the number of its lines.
func (r Report) String() string {
	return r.findings() + titled("granted, not called, and meant", r.Excused) + titled("called", r.Called)
}

func titled(title string, lines []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d\n", title, len(lines))
	for _, line := range lines {
		fmt.Fprintf(&b, "  %s\n", line)
	}
	return b.String()
}
