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
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// modules returns the folder into which npm installed the peers.
func modules(t testing.TB) string {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	folder := filepath.Join(filepath.Dir(here), "../../../.cache/peers/node_modules")
	_, err := os.Stat(folder)
	require.NoError(t, err, "make peers installs them first")
	return folder
}

// Python returns the path of the interpreter that has the protocols' official clients.
func Python(t testing.TB) string {
	t.Helper()
	return filepath.Join(modules(t), "../venv/bin/python")
}

// Schemathesis returns the path of a program that makes requests from an OpenAPI document.
func Schemathesis(t testing.TB) string {
	t.Helper()
	return filepath.Join(modules(t), "../schemathesis/bin/schemathesis")
}

// Clients returns the path of a Python program that checks an OpenAPI document, or makes a client from it.
func Clients(t testing.TB, name string) string {
	t.Helper()
	return filepath.Join(modules(t), "../clients/bin", name)
}

// Environment returns the interpreter of a Python environment that only `make peers-all` installs.
func Environment(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(modules(t), "..", name, "bin/python")
	_, err := os.Stat(path)
	require.NoError(t, err, "make peers-all installs it first")
	return path
}

// Frameworks returns the folder that npm has installed for `make peers-all` alone.
func Frameworks(t testing.TB) string {
	t.Helper()
	return filepath.Join(modules(t), "../js/node_modules")
}

// Modules returns the folder that npm has installed, for a script that imports from it.
func Modules(t testing.TB) string { return modules(t) }

// Program returns the path of a program that npm has installed.
func Program(t testing.TB, name string) string {
	t.Helper()
	return filepath.Join(modules(t), ".bin", name)
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
	cli := filepath.Join(modules(t), "@copilotkit/aimock/dist/cli.js")
	return serve(t, "/__aimock/journal", func(port string) *exec.Cmd {
		return exec.Command("node", cli, "-p", port, "-f", file, "--strict", "--log-level", "warn")
	})
}

// MCP starts a server of MCP over streamable HTTP, at /mcp of the port that command receives, and returns its address.
// The host is localhost, as some servers accept no other name.
func MCP(t testing.TB, command func(port string) []string) string {
	t.Helper()
	url := serve(t, "/mcp", func(port string) *exec.Cmd {
		words := command(port)
		return exec.Command(words[0], words[1:]...)
	})
	return strings.Replace(url, "127.0.0.1", "localhost", 1) + "/mcp"
}

// Prism starts a server that checks each request against an OpenAPI document, and returns its address.
func Prism(t testing.TB, document string) string {
	t.Helper()
	return serve(t, "/", func(port string) *exec.Cmd {
		return exec.Command("node", Program(t, "prism"), "mock", "--errors", "-h", "127.0.0.1", "-p", port, document)
	})
}

// Node returns the command of a program for Node.js that npm has installed. file is its path in the folder of modules.
func Node(t testing.TB, file string, arguments ...string) []string {
	t.Helper()
	return append([]string{"node", filepath.Join(modules(t), file)}, arguments...)
}

// Script returns the command of a script for Node.js of scripts/peers. Its first argument is the folder of modules.
func Script(t testing.TB, name string, arguments ...string) []string {
	t.Helper()
	return append([]string{"node", filepath.Join(modules(t), "../../../scripts/peers", name), modules(t)}, arguments...)
}

// Browser returns the path of Chromium: BROWSER, or a program with a usual name; "" if there is none.
func Browser() string {
	for _, name := range []string{os.Getenv("BROWSER"), "chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); name != "" && err == nil {
			return path
		}
	}
	return ""
}

// Everything starts the reference MCP server over streamable HTTP and returns its address.
func Everything(t testing.TB) string {
	t.Helper()
	return serve(t, "/mcp", func(port string) *exec.Cmd { return everything(t, port) }) + "/mcp"
}

func everything(t testing.TB, port string) *exec.Cmd {
	t.Helper()
	command := exec.Command("node", EverythingProgram(t), "streamableHttp")
	command.Env = append(os.Environ(), "PORT="+port)
	return command
}

// EverythingProgram returns the path of the reference MCP server's program for Node.js.
func EverythingProgram(t testing.TB) string {
	t.Helper()
	return filepath.Join(modules(t), "@modelcontextprotocol/server-everything/dist/index.js")
}

// ports is how many ports are tried. Another program may take a free port before a server listens on it. These servers
// do not report their port, so they cannot choose one themselves.
const ports = 5

// serve starts a program that listens on the port that command receives. It waits until the program answers at path,
// and returns its address. The program is stopped when the test ends.
func serve(t testing.TB, path string, command func(port string) *exec.Cmd) (url string) {
	t.Helper()
	for range ports {
		port := freePort(t)
		url = "http://127.0.0.1:" + port
		if answers := start(t, command(port), url+path); answers {
			return url
		}
	}
	require.Fail(t, "no port is left to it", "%d were tried", ports)
	return ""
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

// taken matches Node.js's error for a port on which another program listens.
var taken = regexp.MustCompile("EADDRINUSE|already in use")

// start starts a program and waits until url answers. It returns false if the program ended because its port was taken.
func start(t testing.TB, process *exec.Cmd, url string) bool {
	t.Helper()
	log, err := os.CreateTemp(t.TempDir(), "log")
	require.NoError(t, err)
	process.Stdout, process.Stderr = log, log
	require.NoError(t, process.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = process.Wait()
	}()
	t.Cleanup(func() {
		_ = process.Process.Kill()
		<-ended
		if output, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("%v said:\n%s", process.Args, output)
		}
		_ = log.Close()
	})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		select {
		case <-ended: // another program answers at url
			output, err := os.ReadFile(log.Name())
			require.NoError(t, err)
			require.Regexp(t, taken, string(output), "%v ended", process.Args)
			return false
		case <-ctx.Done():
			require.Fail(t, "it does not answer", "%s of %v", url, process.Args)
		case <-time.After(20 * time.Millisecond):
		}
		if answered(ctx, url) {
			return true
		}
	}
}

func answered(ctx context.Context, url string) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return false
	}
	_ = answer.Body.Close()
	return true
}

// MCPServer returns the path of a server of MCP, or of the interpreter, from the Python packages of
// scripts/peers/mcp.txt.
func MCPServer(t testing.TB, name string) string {
	t.Helper()
	return filepath.Join(modules(t), "../mcp/bin", name)
}

// PythonScript returns the command of a script of scripts/peers with these packages.
func PythonScript(t testing.TB, name string, arguments ...string) []string {
	t.Helper()
	script := filepath.Join(modules(t), "../../../scripts/peers", name)
	return append([]string{MCPServer(t, "python"), script}, arguments...)
}

// PackageVersion returns the installed version of a package of npm.
func PackageVersion(t testing.TB, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(modules(t), name, "package.json"))
	require.NoError(t, err)
	var p struct{ Version string }
	require.NoError(t, json.Unmarshal(raw, &p))
	return p.Version
}

// MCPVersion returns the version of one of the Python packages of scripts/peers/mcp.txt.
func MCPVersion(t testing.TB, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(modules(t), "../../../scripts/peers/mcp.txt"))
	require.NoError(t, err)
	found := regexp.MustCompile("(?m)^" + regexp.QuoteMeta(name) + "==(.+)$").FindSubmatch(raw)
	require.NotNil(t, found, name)
	return string(found[1])
}
