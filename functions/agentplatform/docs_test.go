package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// notRun are the commands of the README that its test does not run as they stand, with the reason.
var notRun = map[string]string{
	"make run": "would compile and take the fixed port: the test starts the built program on a free one",
}

// command is a line of a block of the README, and the output that the README promises.
type command struct{ line, shown string }

// commandsOf reads the blocks of commands of a page. A line that begins with "# →" belongs to the command above it.
func commandsOf(page string) (all []command) {
	for i, block := range strings.Split(page, "```") {
		text, isCommands := strings.CutPrefix(block, "sh\n")
		if i%2 == 0 || !isCommands {
			continue
		}
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			if shown, follows := strings.CutPrefix(line, "# → "); follows {
				all[len(all)-1].shown = shown
			} else if line != "" {
				all = append(all, command{line: line})
			}
		}
	}
	return all
}

// TestEveryCommandOfTheReadmeWorks pastes the README's commands into one shell, next to a process of this version with
// its own folder. Each must end well within its time, get no error status, and print the output of the README.
func TestEveryCommandOfTheReadmeWorks(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("the commands take 15 seconds")
	}
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("there is no curl")
	}
	page, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	p := built(t)
	at := t.TempDir() // where a newcomer begins
	p.dir = filepath.Join(at, ".data")
	docs, err := filepath.Abs("../../docs") // the commands read from it
	require.NoError(t, err)
	require.NoError(t, os.Symlink(docs, filepath.Join(at, "docs")))
	// The default settings.
	p.environ = []string{"USER_CAP=5", "ORGANIZATION_CAP=50", "RATE_LIMIT=600", "RATE_BURST=100", "LEASE=30s"}
	p.start()
	defer p.stop()

	// A refusal is an answer to curl; here it is a failure.
	bin := t.TempDir()
	wrapper := fmt.Appendf(nil, "#!/bin/sh\nexec %s --fail-with-body \"$@\"\n", curl)
	require.NoError(t, os.WriteFile(filepath.Join(bin, "curl"), wrapper, 0o700)) //nolint:gosec // must be executable
	skipped := map[string]bool{}
	var script strings.Builder
	script.WriteString("set -o pipefail\n")
	var run []command
	for _, c := range commandsOf(string(page)) {
		bare, _, _ := strings.Cut(c.line, " #")
		if bare = strings.TrimSpace(bare); notRun[bare] != "" {
			skipped[bare] = true
			continue
		}
		const cut = "\x01"
		fmt.Fprintf(&script, "%s\nstatus=$?\nprintf '\\1%%s\\1' $status\n", c.line)
		assert.NotContains(t, c.line, cut)
		run = append(run, c)
	}
	for line := range notRun {
		assert.True(t, skipped[line], "the README has no command %q any more", line)
	}
	require.Greater(t, len(run), 20, "the README's commands are not where this test looks for them")

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	pasted := strings.ReplaceAll(script.String(), "http://127.0.0.1:8080/api/v1", p.url)
	executor := exec.CommandContext(ctx, "bash", "-c", pasted)
	executor.Dir = at
	executor.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	var out, complaints bytes.Buffer
	executor.Stdout, executor.Stderr = &out, &complaints
	require.NoError(t, executor.Run(), complaints.String())
	results := strings.Split(out.String(), "\x01") // output, status, output, status …
	require.Len(t, results, 2*len(run)+1, "a command ended the shell: %s", out.String())
	for i, c := range run {
		printed, status := results[2*i], results[2*i+1]
		assert.Equal(t, "0", status, "%s\n%s", c.line, printed)
		assert.Contains(t, strings.ToLower(printed), strings.ToLower(c.shown), "the README says so of: %s", c.line)
	}
	assert.Empty(t, complaints.String())
}
