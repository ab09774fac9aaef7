package iam

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Ledger records the calls of programs. Calls of a program that the same grants allow and that are alike are one entry,
// with the first of them. It is safe for concurrent use. Its zero value is empty.
type Ledger struct {
	mu      sync.Mutex
	entries map[string]*entry
}

// entry is an entry of a ledger, also in a file. An entry with Unknown is a request that could not be decoded.
type entry struct {
	Program string `json:"program"`
	Role    string `json:"role"`
	Call    Call   `json:"call"`
	Unknown string `json:"unknown,omitempty"`
	Count   int    `json:"count"`
}

// most is the largest number of entries. Beyond it, only calls of existing entries are counted.
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

// Called records a call and its decision.
func (l *Ledger) Called(p Program, c Call, d Decision) {
	alike := fmt.Sprint(d.By)
	if !d.Allowed {
		alike = d.Why
	}
	l.add(strings.Join([]string{p.Name, c.Action, alike}, " "), entry{Program: p.Name, Role: p.Role, Call: c})
}

// Undecoded records a request that could not be decoded.
func (l *Ledger) Undecoded(p Program, err error) {
	l.add(p.Name+" "+err.Error(), entry{Program: p.Name, Role: p.Role, Unknown: err.Error()})
}

// Len returns the number of entries.
func (l *Ledger) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.entries)
}

// MarshalJSON writes the ledger in the form that UnmarshalJSON reads.
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

// Report is the result of comparing a ledger with stacks, in lines. Nothing has to be done if Missing, Unused and Stale
// are empty.
type Report struct {
	Missing []string // calls without a right, and requests that cannot be decoded
	Unused  []string // grants without a call and without an exception
	Stale   []string // exceptions that match no grant any more
	Excused []string // grants without a call that have an exception, with the reason
	Called  []string // calls
}

// Compare compares the ledger with stacks. These may be other stacks than those of the run, so each call is decided
// again. Exceptions are grants that may stay although no program was seen to use them. They map patterns of grants to
// reasons.
func (l *Ledger) Compare(s *Stacks, exceptions map[string]string) (r Report) {
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

// Findings returns the lines that need an action. It is empty if there are none.
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

// String returns the whole report. The number of lines stands above each part.
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
