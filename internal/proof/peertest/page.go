//go:build peers

package peertest

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Counterpart is a row of docs/counterparts.md: a program of somebody else with which a test has talked.
type Counterpart struct {
	Area    string // models, clients or tools
	Name    string
	Version string
	Works   string // what the test has seen to work, in words
	Not     string // what does not work, with the reason; empty: nothing is known
}

// areas are the areas in the order of the page, with their titles.
var areas = []struct{ name, title string }{
	{"models", "Model servers"}, {"clients", "Clients and frameworks"}, {"tools", "Tool servers"},
}

// page is the path of the page, and rows is where the rows of a run of the tests are collected for it.
func page(t testing.TB) (page, rows string) {
	t.Helper()
	return filepath.Join(modules(t), "../../../docs/counterparts.md"), filepath.Join(modules(t), "../counterparts")
}

// Seen adds a row to the page when the test has passed. With WRITE_COUNTERPARTS it is stored for [WritePage]; without,
// the page must have it, so that what the page says is what was seen.
func Seen(t testing.TB, c Counterpart) {
	t.Helper()
	path, rows := page(t)
	t.Cleanup(func() {
		if t.Failed() || t.Skipped() {
			return
		}
		if os.Getenv("WRITE_COUNTERPARTS") == "" {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Contains(t, string(text), c.line(), "make counterparts writes the page")
			return
		}
		raw, err := json.Marshal(c)
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(rows, 0o700))
		name := fmt.Sprintf("%x.json", sha256.Sum256([]byte(c.Area+"\n"+c.Name)))
		require.NoError(t, os.WriteFile(filepath.Join(rows, name), raw, 0o600))
	})
}

func (c Counterpart) line() string {
	return fmt.Sprintf("| %s | %s | %s | %s |\n", c.Name, c.Version, c.Works, cmp.Or(c.Not, "–"))
}

const introduction = "# Counterparts\n\n" +
	"Each row is a program that others wrote. A test installs it from its registry at this version and talks with\n" +
	"it. `make peers` runs the quick tests and `make peers-all` runs all. `make counterparts` writes this page from\n" +
	"what the tests saw.\n"

// WritePage writes the page from the rows that the tests have stored, and prints it.
func WritePage(t testing.TB) {
	t.Helper()
	path, folder := page(t)
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, files, "the tests store rows first")
	var rows []Counterpart
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		var c Counterpart
		require.NoError(t, json.Unmarshal(raw, &c))
		rows = append(rows, c)
	}
	slices.SortFunc(rows, func(a, b Counterpart) int {
		return cmp.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
	})
	var b strings.Builder
	b.WriteString(introduction)
	for _, area := range areas {
		fmt.Fprintf(&b, "\n## %s\n\n| counterpart | version | works | does not work |\n|---|---|---|---|\n", area.title)
		for _, c := range rows {
			if c.Area == area.name {
				b.WriteString(c.line())
			}
		}
	}
	require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o600))
	fmt.Print(b.String())
}
