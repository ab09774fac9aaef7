//go:build peersall

package peertest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Ollama starts Ollama with the small model, named smol, and returns its address and version. The model's window has
// 1024 tokens.
func Ollama(t testing.TB) (url, version string) {
	t.Helper()
	program := only(t, "ollama/bin/ollama")
	home := t.TempDir()
	run := func(url string, arguments ...string) *exec.Cmd {
		command := exec.Command(program, arguments...)
		command.Env = append(os.Environ(), "HOME="+home, "OLLAMA_MODELS="+filepath.Join(home, "models"),
			"OLLAMA_HOST="+url, "OLLAMA_NUM_PARALLEL=1")
		return command
	}
	url = serve(t, "/api/version", func(port string) *exec.Cmd { return run("127.0.0.1:"+port, "serve") })
	made, err := os.ReadFile(filepath.Join(modules(t), "../../../scripts/peers/ollama.modelfile"))
	require.NoError(t, err)
	file := filepath.Join(home, "Modelfile")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, "FROM %s\n%s", Weights(t), made), 0o600))
	out, err := run(url, "create", "smol", "-f", file).CombinedOutput()
	require.NoError(t, err, "%s", out)
	answer, err := http.Get(url + "/api/version")
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	var about struct{ Version string }
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&about))
	return url, about.Version
}

// LiteLLM starts the proxy of LiteLLM with a configuration and returns its address.
func LiteLLM(t testing.TB, configuration string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "litellm.yaml")
	require.NoError(t, os.WriteFile(file, []byte(configuration), 0o600))
	program := filepath.Join(filepath.Dir(Environment(t, "litellm")), "litellm")
	return serve(t, "/health/liveliness", func(port string) *exec.Cmd {
		command := exec.Command(program, "--config", file, "--host", "127.0.0.1", "--port", port, "--telemetry", "False")
		command.Env = append(os.Environ(), "LITELLM_LOCAL_MODEL_COST_MAP=True", "HOME="+t.TempDir())
		return command
	})
}
