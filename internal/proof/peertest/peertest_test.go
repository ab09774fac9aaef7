//go:build peers

package peertest

import (
	"net"
	"net/http"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTakenPort(t *testing.T) {
	other, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = other.Close() })
	_, taken, err := net.SplitHostPort(other.Addr().String())
	require.NoError(t, err)
	attempts := 0
	url := serve(t, "/mcp", func(port string) *exec.Cmd {
		if attempts++; attempts == 1 {
			port = taken
		}
		return everything(t, port)
	})
	assert.Greater(t, attempts, 1)
	answer, err := http.Get(url + "/mcp") //nolint:noctx // a test
	require.NoError(t, err)
	assert.NoError(t, answer.Body.Close())
}
