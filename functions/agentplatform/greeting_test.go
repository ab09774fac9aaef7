package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Output is kept in logs, so the key is printed once. Later starts print the file of the key.
func TestTheKeyIsPrintedOnlyAtTheFirstStart(t *testing.T) {
	p := built(t)
	p.dir = filepath.Join(t.TempDir(), "it's a folder")
	startOutput := func() string {
		out := filepath.Join(t.TempDir(), "out")
		file, err := os.Create(out)
		require.NoError(t, err)
		p.command = exec.Command(p.binary)
		p.command.Env = append(os.Environ(), "ADDR=127.0.0.1:0", "DATA_DIR="+p.dir, "LOG_LEVEL=error",
			"METRICS_ADDR=127.0.0.1:0")
		p.command.Stdout = file
		require.NoError(t, p.command.Start())
		defer func() { p.stop(); _ = file.Close() }()
		var text string
		require.Eventually(t, func() bool {
			raw, err := os.ReadFile(out)
			text = string(raw)
			return err == nil && strings.HasSuffix(text, "\n\n") && greeting.MatchString(text)
		}, 30*time.Second, 10*time.Millisecond)
		// The printed command that sends the first message works when pasted.
		_, line, found := strings.Cut(text, "  curl ")
		require.True(t, found, text)
		answer, err := exec.Command("sh", "-c", "curl "+line).Output()
		require.NoError(t, err, text)
		assert.Contains(t, string(answer), "You said: Hello there")
		return text
	}
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("there is no curl")
	}
	first := startOutput()
	kept, err := os.ReadFile(filepath.Join(p.dir, "operator.key"))
	require.NoError(t, err)
	key := strings.TrimSpace(string(kept))
	assert.Contains(t, first, key)
	assert.Regexp(t, `metrics +http://127\.0\.0\.1:\d+/metrics +\(without a key\)`, first)
	second := startOutput()
	assert.NotContains(t, second, key)
	assert.NotContains(t, second, key[:20])
	assert.Contains(t, second, filepath.Join(p.dir, "operator.key"))
}
