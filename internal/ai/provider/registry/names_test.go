package registry_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/provider/registry"
)

// mention is how often a file names providers, and why it may.
type mention struct {
	times  int // 0: any number
	reason string
}

// elsewhere are the files and folders outside the table and the adapters that name providers.
var elsewhere = map[string]mention{
	"infra/stacks/service.go":              {0, "rights to Amazon's models are rights of AWS"},
	"infra/stage/stage.go":                 {0, "an example of a stage's settings"},
	"internal/proof/scenario/actor.go":     {0, "the settings of the tests' worlds"},
	"internal/platform/setting/setting.go": {0, "the settings are declared and checked there"},
	"internal/org/tenant/organization.go":  {1, "an example in an error's text"},
	"internal/platform/schema/schematest":  {0, "the rules of providers for schemas, which a checker of tests has"},
	"internal/platform/trace/trace.go":     {2, "OpenTelemetry has another name for one"},
	"scripts/import/plan/letta.go":         {1, "a finding's advice names a setting"},
	"scripts/import/plan/openai.go":        {0, "it reads exports of that platform"},
	"scripts/import/plan/read.go":          {0, "it reads exports of that platform"},
	"scripts/import/plan/tools.go":         {2, "a finding's advice names the provider that most endpoints speak like"},
	"scripts/retrieval":                    {0, "it measures a model behind an endpoint"},
	"scripts/preflight":                    {0, "what an AWS account must have for Amazon's models"},
}

// Adding a provider changes its adapter and the table, and nothing that this test finds.
func TestNothingElseNamesProviders(t *testing.T) {
	const root = "../../../.."
	var names []string
	for _, p := range registry.All() {
		if len(p.Settings) > 0 {
			names = append(names, p.Name)
		}
	}
	name := regexp.MustCompile("(?i)" + strings.Join(names, "|"))
	adapter := regexp.MustCompile(`^internal/ai/(model|embedding)/(` + strings.Join(names, "|") + `)`)
	found := map[string]int{}
	visit := func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := filepath.Rel(root, path)
		file = filepath.ToSlash(file)
		if err != nil || adapter.MatchString(file) || strings.HasPrefix(file, "internal/ai/provider/registry/") {
			return err
		}
		if n := mentions(t, path, name); n > 0 {
			found[file] = n
		}
		return nil
	}
	for _, below := range []string{"events", "functions", "infra", "internal", "scripts"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, below), visit))
	}
	used := map[string]bool{}
	for file, times := range found {
		at := file
		if _, there := elsewhere[at]; !there {
			at = filepath.Dir(file)
		}
		m, there := elsewhere[at]
		used[at] = true
		assert.True(t, there, "%s names a provider: the table says what others need", file)
		assert.True(t, m.times == 0 || m.times == times, "%s names providers %d times, not %d: %s",
			file, times, m.times, m.reason)
	}
	for file, m := range elsewhere {
		assert.True(t, used[file], "%s names no provider any more (%s)", file, m.reason)
	}
}

// mentions counts the texts and the names in a file's code that match; comments are free.
func mentions(t *testing.T, path string, name *regexp.Regexp) (times int) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			if name.MatchString(n.Value) {
				times++
			}
		case *ast.Ident:
			if name.MatchString(n.Name) {
				times++
			}
		}
		return true
	})
	return times
}
