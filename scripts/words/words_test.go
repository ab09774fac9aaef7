package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const sample = "testdata/tree"

func TestFinds(t *testing.T) {
	tree, err := read(sample)
	require.NoError(t, err)
	type location struct {
		group, file string
		line        int
		word        string
	}
	var found []location
	for group, list := range tree.finds {
		for _, f := range list {
			assert.NotEmpty(t, f.instead)
			found = append(found, location{group, f.file, f.line, f.word})
		}
	}
	assert.ElementsMatch(t, []location{
		{"comments", "queue.go", 1, "nudge"},
		{"comments", "queue.go", 1, "what"},
		{"comments", "queue.go", 1, "told"},
		{"comments", "queue.go", 1, "at once"},
		{"comments", "queue.go", 2, "nudge"},
		{"comments", "queue.go", 13, "whose"},
		{"comments", "queue.go", 15, "is no"},
		{"comments", "queue.go", 19, "whatever"},
		{"names", "queue.go", 10, "Known"},
		{"names", "queue.go", 10, "asked"},
		{"names", "queue.go", 17, "hand over"},
		{"names", "queue.go", 18, "hold"},
		{"names", "queue.go", 22, "says"},
		{"docs", "docs/page.md", 3, "what"},
		{"docs", "docs/page.md", 3, "what"},
		{"docs", "docs/page.md", 3, "at once"},
		{"docs", "docs/page.md", 4, "anew"},
		{"docs", "docs/page.md", 10, "whose"},
		{"docs", "docs/page.md", 11, "told"},
		{"docs", "docs/page.md", 12, "anew"},
		{"docs", "docs/page.md", 12, "told"},
		{"docs", "CHANGELOG.md", 5, "says"},
		{"panel", "panel/static/panel.js", 1, "tells"},
		{"panel", "panel/static/panel.js", 2, "whoever"},
		{"panel", "panel/static/panel.js", 2, "told"},
		{"sentences", "docs/long.md", 3, "31 words"},
		{"sentences", "docs/long.md", 8, "31 words"},
		{"paragraphs", "docs/long.md", 10, "84 words"},
		{"undocumented", "queue.go", 22, "TestItSaysWhatIsAsked"},
	}, found)
	assert.Equal(t, lengths{words: 196, inSentences: 152, sentences: 18, long: 2}, tree.lengths["docs/long.md"])
	assert.NoError(t, tree.tooLong())
	tree.lengths["docs/other.md"] = lengths{inSentences: 1700, sentences: 50}
	assert.EqualError(t, tree.tooLong(), "sentences of the documentation have 25.5 words in the mean: at most 16")
}

func TestTheBudgetFollowsDown(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(sample)))
	budget := filepath.Join(dir, budgetFile)
	require.NoError(t, os.MkdirAll(filepath.Dir(budget), 0o755))
	require.NoError(t, run(dir, true, ""))
	require.NoError(t, run(dir, false, ""))
	text, err := os.ReadFile(budget)
	require.NoError(t, err)
	assert.Equal(t, "names 5\ncomments 8\ndocs 9\npanel 3\nsentences 2\nparagraphs 1\nundocumented 1\n", string(text))

	page := filepath.Join(dir, "docs/page.md")
	require.NoError(t, os.WriteFile(page, []byte("It is told.\n"), 0o600))
	assert.ErrorContains(t, run(dir, false, ""),
		"2 private words in docs, but "+budgetFile+" has 9: run go run ./scripts/words -write")
	require.NoError(t, run(dir, true, ""))
	require.NoError(t, run(dir, false, ""))

	require.NoError(t, os.WriteFile(page, []byte("It is told.\n\nAnd said.\n"), 0o600))
	for _, write := range []bool{false, true} { // which raises no budget
		assert.ErrorContains(t, run(dir, write, ""), "3 private words in docs, 1 more than "+budgetFile+" allows")
	}
}

func TestAMessageHasThePlacesOfChangedLines(t *testing.T) {
	finds := map[string][]find{
		"docs":  {{"a.md", 1, "nudge", "wakeup"}, {"a.md", 7, "nudge", "wakeup"}, {"new.md", 9, "nudge", "wakeup"}},
		"names": {{"a.go", 7, "nudge", "wakeup"}},
	}
	err := check(map[string]int{"docs": 1, "names": 1}, finds, func() map[string]bool {
		return map[string]bool{"a.md:7": true, "a.go:7": true, "new.md": true}
	})
	assert.EqualError(t, err, "3 private words in docs, 2 more than "+budgetFile+" allows\n"+
		"a.md:7: \"nudge\": wakeup\nnew.md:9: \"nudge\": wakeup\nall places: go run ./scripts/words -list docs")
}

func TestAListWithAnotherKindIsRefused(t *testing.T) {
	for _, list := range []string{"nudge = wakeup", "verbs: nudge = wakeup"} {
		_, err := parseList(list)
		assert.Error(t, err, list)
	}
}
