package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	specification = "docs/specification.md"
	hazards       = "docs/hazards.md"
)

// citations has the forms in which code and pages cite a section: by its title, or by its number.
var citations = []struct {
	page string
	form *regexp.Regexp
}{
	{specification, regexp.MustCompile(`[("]specification, ([^)"]+)[)"]`)},
	{hazards, regexp.MustCompile(`\b[Hh]azards? (\d+)\b`)},
	{hazards, regexp.MustCompile(`\bhazard0*([1-9]\d*)[a-z]?\b`)},
	{hazards, regexp.MustCompile(`\bTestHazard0*([1-9]\d*)`)},
}

func TestEachCitedSectionExists(t *testing.T) {
	files := citing(t)
	for _, c := range citations {
		t.Run(c.form.String(), func(t *testing.T) {
			known, found := sections(t, files[c.page]), 0
			for name, text := range files {
				for _, m := range c.form.FindAllStringSubmatch(text, -1) {
					found++
					_, exists := known[m[1]]
					assert.True(t, exists, "%s cites %s, which %s does not have", name, m[0], c.page)
				}
			}
			assert.Positive(t, found, "nothing is cited in this form")
		})
	}
}

// evidence has the forms in which code names the evidence of a hazard, by its number.
var evidence = []*regexp.Regexp{
	regexp.MustCompile(`\{Name: "(hazard0*(\d+)[a-z]?)/`),
	regexp.MustCompile(`\nfunc (TestHazard0*(\d+)\w+)\(`),
}

func TestEachHazardNamesItsEvidence(t *testing.T) {
	files := citing(t)
	known, exists := sections(t, files[hazards]), map[string]bool{}
	for name, text := range files {
		for _, form := range evidence {
			for _, m := range form.FindAllStringSubmatch(text, -1) {
				exists[m[1]] = true
				names := strings.Contains(known[m[2]], "`"+m[1]+"`")
				assert.True(t, names, "hazard %s does not name %s of %s", m[2], m[1], name)
			}
		}
	}
	require.NotEmpty(t, exists)
	for _, m := range regexp.MustCompile("`(hazard\\d+[a-z]?)`").FindAllStringSubmatch(files[hazards], -1) {
		assert.True(t, exists[m[1]], "no story is called %s", m[1])
	}
}

// sections returns the texts of a page's numbered sections, by title and by number.
func sections(t *testing.T, page string) map[string]string {
	t.Helper()
	known := map[string]string{}
	for i, part := range strings.Split(page, "\n## ")[1:] {
		head, text, _ := strings.Cut(part, "\n")
		number, title, numbered := strings.Cut(head, ". ")
		require.True(t, numbered, "%q has no number", head)
		require.Equal(t, strconv.Itoa(i+1), number, "sections keep their numbers: new ones come last")
		require.NotContains(t, known, title)
		known[number], known[title] = text, text
	}
	require.NotEmpty(t, known)
	return known
}

var nextLine = regexp.MustCompile(`\n[ \t]*//[ \t]*`)

// citing returns the texts of the Go files and pages with a citation, by path. Lines of a comment are joined.
func citing(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			hidden := strings.HasPrefix(d.Name(), ".") && file != root
			if hidden || d.Name() == "node_modules" || d.Name() == "cdk.out" || d.Name() == "testdata" {
				return fs.SkipDir
			}
			return nil
		}
		if kind := filepath.Ext(file); kind != ".go" && kind != ".md" {
			return nil
		}
		raw, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		text := string(raw)
		if !strings.Contains(text, "specification") && !strings.Contains(text, "azard") {
			return nil
		}
		name, err := filepath.Rel(root, file)
		files[filepath.ToSlash(name)] = nextLine.ReplaceAllString(text, " ")
		return err
	}))
	return files
}
