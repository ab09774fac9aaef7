package main

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// reasons has the mutants that survive and may, with the reason.
//
//go:embed explained.txt
var reasons string

// readExplained reads the list of mutants that may survive: by their keys, the number of the line. It fails where a
// line below the title is no mutant with a reason, or stands twice.
func readExplained(text string) (map[string]int, error) {
	explained, number := map[string]int{}, 0
	for line := range strings.Lines(text) {
		if number++; number == 1 || strings.TrimSpace(line) == "" {
			continue
		}
		key, why, ok := strings.Cut(line, " | ")
		if !ok || strings.TrimSpace(why) == "" {
			return nil, fmt.Errorf("explained.txt:%d gives no reason", number)
		}
		if explained[key] > 0 {
			return nil, fmt.Errorf("explained.txt:%d stands in line %d", number, explained[key])
		}
		explained[key] = number
	}
	return explained, nil
}

// stale fails where what is explained of these mutants' packages is none of them: the code has changed, and the reason
// speaks of what is gone. all are all mutants of their packages, not a sample.
func stale(all []mutant, explained map[string]int) error {
	known, packages := map[string]bool{}, map[string]bool{}
	for _, m := range all {
		known[m.key()], packages[m.pkg] = true, true
	}
	var wrong []string
	for key, line := range explained {
		if of, _, _ := strings.Cut(key, " "); packages[of] && !known[key] {
			wrong = append(wrong, fmt.Sprintf("explained.txt:%d: there is no mutant %s", line, key))
		}
	}
	slices.Sort(wrong)
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, "\n"))
	}
	return nil
}
