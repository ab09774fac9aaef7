// Package stage defines what differs between deployments: a typed value per stage, validated before anything is
// synthesized. It imports only the standard library.
package stage

import (
	"errors"
	"fmt"
	"maps"
	"net/mail"
	"regexp"
	"slices"
	"strings"
)

// Stage is a deployment.
type Stage struct {
	Name        string
	Precious    bool   // its data is protected from deletion and kept when its stacks are deleted
	AlarmEmail  string // receives alarms by mail; empty: alarms are visible in the console only
	BudgetUSD   int    // per month; a mail at 80 % of it; 0: none
	LogDays     int    // one of CloudWatch's retention times
	Workers     int    // concurrent runs, 2 to 1000
	Senders     int    // concurrent webhook deliveries, 2 to 1000
	Ingesters   int    // documents at work at once, 2 to 1000
	StreamTasks int    // minimum number of containers for streams
	Settings    map[string]string
}

// stages are all deployments. Add yours here.
var stages = map[string]Stage{
	"dev":  {LogDays: 7, Workers: 50, Senders: 20, Ingesters: 5, StreamTasks: 1, BudgetUSD: 50},
	"prod": {Precious: true, LogDays: 30, Workers: 200, Senders: 50, Ingesters: 20, StreamTasks: 2, BudgetUSD: 500},
}

// Named returns the stage of a name. It fails where there is none, or where it is invalid.
func Named(name string) (Stage, error) {
	s, ok := stages[name]
	if !ok {
		return s, fmt.Errorf("stage %q is none of %s; say -c stage=NAME, or add it to infra/stage", name,
			strings.Join(slices.Sorted(maps.Keys(stages)), ", "))
	}
	s.Name = name
	return s, s.Validate()
}

// retentions are the retention times of CloudWatch Logs up to a year, in days.
var retentions = []int{1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365}

// Validate returns one error that names every invalid field, or nil.
func (s Stage) Validate() error {
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("stage %s: %s %s", s.Name, field, fmt.Sprintf(format, args...)))
	}
	if !regexp.MustCompile(`^[a-z][a-z0-9]{0,15}$`).MatchString(s.Name) {
		bad("Name", "must have 1 to 16 lower-case letters and digits, a letter first, not %q", s.Name)
	}
	if _, err := mail.ParseAddress(s.AlarmEmail); s.AlarmEmail != "" && err != nil {
		bad("AlarmEmail", "is no mail address: %v", err)
	}
	if !slices.Contains(retentions, s.LogDays) {
		bad("LogDays", "must be one of %v, not %d", retentions, s.LogDays)
	}
	for field, n := range map[string][3]int{
		"BudgetUSD": {s.BudgetUSD, 0, 1_000_000}, "Workers": {s.Workers, 2, 1000}, "Senders": {s.Senders, 2, 1000},
		"Ingesters":   {s.Ingesters, 2, 1000},
		"StreamTasks": {s.StreamTasks, 1, 100},
	} {
		if n[0] < n[1] || n[0] > n[2] {
			bad(field, "must be between %d and %d, not %d", n[1], n[2], n[0])
		}
	}
	return errors.Join(errs...)
}
