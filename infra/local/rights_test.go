//go:build integration

package local

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// After all tests, the calls of the programs are compared with their grants.

// The files that a whole run writes into the assembly: the calls, and the report on the policies.
var (
	recordFile = filepath.Join(assembly, "calls.json")
	reportFile = filepath.Join(assembly, "rights.txt")
)

var recorded = flag.Bool("recorded", false, "run no test: hold the calls of the last whole run against the stacks as "+
	"they are synthesized now")

func TestMain(m *testing.M) {
	flag.Parse()
	if *recorded {
		os.Exit(again())
	}
	status := max(m.Run(), within(whole()))
	if called.Len() > 0 {
		status = max(status, concluded(whole()))
	}
	os.Exit(status)
}

// whole reports whether all tests were to run.
func whole() bool {
	for _, name := range []string{"test.run", "test.skip"} {
		if flag.Lookup(name).Value.String() != "" {
			return false
		}
	}
	return os.Getenv("PANEL_STORIES") == ""
}

// concluded writes the report on the policies from the calls, and returns the status of the process. It checks for
// grants without a call only after a whole run.
func concluded(whole bool) int {
	stacks, err := granted()
	if err != nil {
		fmt.Println("rights:", err)
		return 1
	}
	report := called.Compare(stacks, exceptions)
	if !whole {
		report.Unused, report.Stale = nil, nil
	} else {
		record, err := json.MarshalIndent(&called, "", " ")
		err = errors.Join(err, os.WriteFile(recordFile, record, 0o600),
			os.WriteFile(reportFile, []byte(report.String()), 0o600))
		if err != nil {
			fmt.Println("rights:", err)
			return 1
		}
	}
	findings := report.Findings()
	if findings == "" {
		return 0
	}
	fmt.Printf("--- FAIL: the rights of the programs: see infra/README.md\n%s", findings)
	return 1
}

// again reports from the calls of the last whole run.
func again() int {
	raw, err := os.ReadFile(recordFile)
	if err == nil {
		err = json.Unmarshal(raw, &called)
	}
	if err != nil {
		fmt.Println("rights: make integration records the calls:", err)
		return 1
	}
	return concluded(true)
}
