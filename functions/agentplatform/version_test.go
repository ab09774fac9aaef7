package main

import (
	"net/http"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTheProgramReportsItsBuild: the version of a release is printed by --version and returned by GET /healthz.
func TestTheProgramReportsItsBuild(t *testing.T) {
	t.Parallel()
	p := built(t)
	out, err := exec.Command(p.binary, "--version").Output()
	require.NoError(t, err)
	assert.Equal(t, "agent-platform v1.2.3 (0123abc)\n", string(out))
	p.start()
	defer p.stop()
	status, answer, err := p.call(t.Context(), http.MethodGet, "/healthz", "", nil)
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, status)
	assert.Equal(t, map[string]any{"status": "ok", "version": "v1.2.3", "commit": "0123abc"}, answer)
}
