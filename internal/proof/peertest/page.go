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

// Counterpart is a row of docs/counterparts.md: a program of other authors that a test has used.
type Counterpart struct {
	Area    string // models, clients or tools
	Name    string
	Version string
	Variant string // a part, a transport or another way to use it; empty: there is one
	Works   string // the features that the test has seen to work, in words
	Not     string // the features that do not work, with the reason; empty: none is known
}

// areas has the areas in the order of the page, with their titles.
var areas = []struct{ name, title string }{
	{"models", "Model servers"}, {"clients", "Clients and frameworks"}, {"tools", "Tool servers"},
}

// page returns the path of the page, and of the file with the rows that the tests of a run store for it.
func page(t testing.TB) (page, rows string) {
	t.Helper()
	return filepath.Join(modules(t), "../../../docs/counterparts.md"), filepath.Join(modules(t), "../counterparts")
}

// Seen adds a row to the page when the test has passed. With WRITE_COUNTERPARTS it is stored for [WritePage]. Without,
// the page must have the row. So the page states only observed results.
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
			require.True(t, c.on(string(text)), "%+v is missing: make counterparts writes the page", c)
			return
		}
		raw, err := json.Marshal(c)
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(rows, 0o700))
		named := strings.Join([]string{c.Area, c.Name, c.use(), c.Works}, "\n")
		name := fmt.Sprintf("%x.json", sha256.Sum256([]byte(named)))
		require.NoError(t, os.WriteFile(filepath.Join(rows, name), raw, 0o600))
	})
}

// use is the version that the test used, and the way in which it did.
func (c Counterpart) use() string {
	if c.Variant == "" {
		return c.Version
	}
	return c.Version + " (" + c.Variant + ")"
}

// ends are the cells of a row before and after that of the uses.
func (c Counterpart) ends() (before, after string) {
	return "| " + c.Name + " | ", " | " + c.Works + " | " + cmp.Or(c.Not, "–") + " |"
}

// on reports whether a page has the counterpart: a row with the same words, which has its use.
func (c Counterpart) on(page string) bool {
	before, after := c.ends()
	for line := range strings.Lines(page) {
		uses, begins := strings.CutPrefix(strings.TrimSuffix(line, "\n"), before)
		uses, ends := strings.CutSuffix(uses, after)
		if begins && ends && slices.Contains(strings.Split(uses, ", "), c.use()) {
			return true
		}
	}
	return false
}

// table are the rows of counterparts. Those that differ in their uses alone share a row.
func table(all []Counterpart) string {
	slices.SortFunc(all, func(a, b Counterpart) int {
		return cmp.Or(cmp.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)),
			cmp.Compare(a.Works, b.Works), cmp.Compare(a.Not, b.Not), cmp.Compare(a.use(), b.use()))
	})
	var b strings.Builder
	for len(all) > 0 {
		before, after := all[0].ends()
		var uses []string
		for len(all) > 0 {
			if first, last := all[0].ends(); first != before || last != after {
				break
			}
			uses, all = append(uses, all[0].use()), all[1:]
		}
		b.WriteString(before + strings.Join(slices.Compact(uses), ", ") + after + "\n")
	}
	return b.String()
}

const introduction = "# Counterparts\n\n" +
	"These programs of other projects are tested with the service. A test installs each from its registry in the\n" +
	"version of the table. `make peers` runs the quick tests, `make peers-all` all of them. `make counterparts`\n" +
	"writes this page from their results.\n"

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
	var b strings.Builder
	b.WriteString(introduction)
	for _, area := range areas {
		fmt.Fprintf(&b, "\n## %s\n\n| counterpart | version | works | does not work |\n|---|---|---|---|\n", area.title)
		other := func(c Counterpart) bool { return c.Area != area.name }
		b.WriteString(table(slices.DeleteFunc(slices.Clone(rows), other)))
	}
	require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o600))
	fmt.Print(b.String())
}
