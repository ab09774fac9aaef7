//go:build peers

// Package peertest starts servers by other authors for tests: a mock of model providers, and a reference server of
// the Model Context Protocol; and it finds clients by other authors. `make peers` installs them.
//
// Only tests import it. It imports the standard library and testify.
package peertest

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// modules is the folder into which npm installed the peers.
func modules(t testing.TB) string {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	folder := filepath.Join(filepath.Dir(here), "../../.cache/peers/node_modules")
	_, err := os.Stat(folder)
	require.NoError(t, err, "make peers installs them first")
	return folder
}

// Python is the path of the interpreter that has the protocols' official clients.
func Python(t testing.TB) string {
	t.Helper()
	return filepath.Join(modules(t), "../venv/bin/python")
}

// Schemathesis is the path of a program that makes requests from an OpenAPI document.
func Schemathesis(t testing.TB) string {
	t.Helper()
	return filepath.Join(modules(t), "../schemathesis/bin/schemathesis")
}

// Fixture is an answer of the mock of model providers, in the form that its documentation describes.
type Fixture = map[string]any

// Models starts the mock of model providers with these answers and returns its address.
func Models(t testing.TB, fixtures ...Fixture) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "fixtures.json")
	b, err := json.Marshal(map[string]any{"fixtures": fixtures})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, b, 0o600))
	port := freePort(t)
	start(t, nil, filepath.Join(modules(t), "@copilotkit/aimock/dist/cli.js"), "-p", port, "-f", file, "--strict",
		"--log-level", "warn")
	url := "http://127.0.0.1:" + port
	await(t, url+"/__aimock/journal")
	return url
}

// Everything starts the reference MCP server over streamable HTTP and returns its address.
func Everything(t testing.TB) string {
	t.Helper()
	port := freePort(t)
	start(t, []string{"PORT=" + port}, EverythingProgram(t), "streamableHttp")
	url := "http://127.0.0.1:" + port + "/mcp"
	await(t, url)
	return url
}

// EverythingProgram is the path of the reference MCP server's program for Node.js.
func EverythingProgram(t testing.TB) string {
	t.Helper()
	return filepath.Join(modules(t), "@modelcontextprotocol/server-everything/dist/index.js")
}

func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	return port
}

func start(t testing.TB, environ []string, program string, arguments ...string) {
	t.Helper()
	log, err := os.CreateTemp(t.TempDir(), "log")
	require.NoError(t, err)
	process := exec.Command("node", append([]string{program}, arguments...)...)
	process.Env, process.Stdout, process.Stderr = append(os.Environ(), environ...), log, log
	require.NoError(t, process.Start())
	t.Cleanup(func() {
		_ = process.Process.Kill()
		_ = process.Wait()
		if said, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("%s said:\n%s", filepath.Base(program), said)
		}
		_ = log.Close()
	})
}

// await waits until url answers.
func await(t testing.TB, url string) {
	t.Helper()
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		require.NoError(t, err)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return false
		}
		_ = answer.Body.Close()
		return true
	}, 30*time.Second, 20*time.Millisecond, "%s does not answer", url)
}
