package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const root = "../.."

// Each recipe of the page has its example, and names the files that the example changes.
func TestThePageFitsTheExamples(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, Page))
	require.NoError(t, err)
	examples, err := load()
	require.NoError(t, err)
	for _, f := range compare(string(page), examples, existsIn(root)) {
		t.Error(f)
	}
}

// All examples can be applied to one tree, and each test that they state is of a package that exists.
func TestTheExamplesFitTheTree(t *testing.T) {
	examples, err := load()
	require.NoError(t, err)
	dir := t.TempDir()
	for _, e := range examples {
		for _, name := range e.files() {
			to := filepath.Join(dir, name)
			if _, err := os.Stat(to); err == nil || !existsIn(root)(name) {
				continue
			}
			b, err := os.ReadFile(filepath.Join(root, name))
			require.NoError(t, err)
			require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o750))
			require.NoError(t, os.WriteFile(to, b, 0o600))
		}
		if err := e.apply(t.Context(), dir); err != nil {
			t.Error(fault{e.recipe, err.Error()})
		}
		for _, one := range e.tests {
			assert.True(t, existsIn(root)(one.pkg) || existsIn(dir)(one.pkg), "%s: %s", e.recipe, one.pkg)
		}
	}
}

const sample = `recipe: Add a word
test: ./a TestA
apart: c.md: seldom

diff --git a/a/a.go b/a/a.go
--- a/a/a.go
+++ b/a/a.go
@@ -2,2 +2,3 @@
 one
+two
 three
diff --git a/a/b.go b/a/b.go
new file mode 100644
--- /dev/null
+++ b/a/b.go
@@ -0,0 +1 @@
+package a
`

func TestAnExampleIsRead(t *testing.T) {
	e, err := parse(sample)
	require.NoError(t, err)
	assert.Equal(t, "Add a word", e.recipe)
	assert.Equal(t, []test{{"./a", "TestA"}}, e.tests)
	assert.Equal(t, []string{"c.md"}, e.apart)
	assert.Equal(t, []string{"a/a.go", "a/b.go"}, e.files())
	for _, bad := range []string{"", "recipe: x\n", strings.Replace(sample, "test:", "tset:", 1)} {
		_, err := parse(bad)
		assert.Error(t, err, bad)
	}
}

func TestAnExampleIsApplied(t *testing.T) {
	e, err := parse(sample)
	require.NoError(t, err)
	for text, fits := range map[string]bool{"zero\nelse\none\nthree\n": true, "zero\none\nfour\n": false} {
		dir := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(dir, "a"), 0o750))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "a/a.go"), []byte(text), 0o600))
		err := e.apply(t.Context(), dir)
		if !fits {
			require.ErrorContains(t, err, "a/a.go")
			continue
		}
		require.NoError(t, err)
		changed, err := os.ReadFile(filepath.Join(dir, "a/a.go"))
		require.NoError(t, err)
		assert.Equal(t, "zero\nelse\none\ntwo\nthree\n", string(changed))
		assert.FileExists(t, filepath.Join(dir, "a/b.go"))
	}
}

// Each difference between the page and the examples is a fault that names its recipe.
func TestWhatDoesNotFitIsAFault(t *testing.T) {
	e, err := parse(sample)
	require.NoError(t, err)
	page := "# Page\n\n## Recipes\n\n### Add a word (5 minutes)\n\n"
	for _, heading := range procedures {
		page = strings.Replace(page, "### Add a word", "### "+heading+"\n\n### Add a word", 1)
	}
	exists := func(path string) bool { return !strings.Contains(path, "gone") }
	faults := func(text string, examples ...example) (all []string) {
		for _, f := range compare(page+text, examples, exists) {
			all = append(all, f.String())
		}
		return all
	}
	const begin = `the recipe "Add a word" of CONTRIBUTING.md does not work any more: `
	assert.Empty(t, faults("`a/a.go` and [b](a/b.go); `c.md`.", e))
	assert.Equal(t, []string{begin + "it has no example in scripts/recipes/patches"}, faults("`a/a.go`."))
	assert.Equal(t, []string{begin + "it does not name a/b.go, which its example changes"}, faults("`a/a.go`.", e))
	assert.Equal(t, []string{begin + "it names d.go, which its example does not change"},
		faults("`a.go`, `b.go`, `d.go`.", e))
	assert.Equal(t, []string{begin + "it names a/gone.go, which does not exist"},
		faults("`a.go`, `b.go`, `a/gone.go`.", e))
	e.recipe = "Add another"
	assert.Contains(t, faults("`a/a.go`, `b.go`.", e),
		`the recipe "Add another" of CONTRIBUTING.md does not work any more: the page has no such heading`)
}
