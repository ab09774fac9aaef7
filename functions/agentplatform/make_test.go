package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Everything builds without cgo on a machine with only Go and make. The tests report that they run without the race
// detector, the only part that needs a C compiler. (.ci/run builds the programs that way.)
func TestEverythingBuildsWithoutACCompiler(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("there is no make")
	}
	bare := t.TempDir()
	for _, name := range []string{"make", "bash", "sh", "go", "git", "awk", "mkdir", "rm", "uname"} {
		if path, err := exec.LookPath(name); err == nil {
			require.NoError(t, os.Symlink(path, filepath.Join(bare, name)))
		}
	}
	run := func(path string, arguments ...string) string {
		command := exec.Command(filepath.Join(bare, "make"), arguments...)
		command.Dir = "../.."
		command.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
			name, _, _ := strings.Cut(v, "=")
			return name == "PATH" || name == "CGO_ENABLED" || name == "CC" || strings.HasPrefix(name, "MAKE")
		}), "PATH="+path)
		out, err := command.CombinedOutput()
		require.NoError(t, err, "make %v: %s", arguments, out)
		return string(out)
	}
	const target = "--eval=seen: ; @$(GO) env CGO_ENABLED"
	assert.Equal(t, "0\n", run(bare, "-s", target, "seen"), "what go is told when make calls it")
	output := run(bare, "-n", "test")
	assert.NotContains(t, output, "-race")
	assert.Contains(t, output, "no C compiler: the tests run without the race detector")
	if _, err := exec.LookPath("gcc"); err == nil {
		output = run(os.Getenv("PATH"), "-n", "test")
		assert.Contains(t, output, "go test -race")
		assert.NotContains(t, output, "no C compiler")
	}
}
