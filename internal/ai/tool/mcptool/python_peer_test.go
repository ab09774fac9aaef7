//go:build peersall

package mcptool_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/ai/tool/mcptool"
	"agentplatform/internal/proof/peertest"
)

func TestTheServersOfPython(t *testing.T) {
	seen := func(t *testing.T, name, works string) {
		peertest.Seen(t, peertest.Counterpart{Area: "tools", Name: name + " (PyPI)", Variant: "command",
			Version: peertest.MCPVersion(t, name), Works: works})
	}
	t.Run("git", func(t *testing.T) {
		repository := t.TempDir()
		for _, words := range [][]string{{"init", "-q"},
			{"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "--allow-empty", "-m", "the first"}} {
			command := exec.Command("git", words...)
			command.Dir = repository
			out, err := command.CombinedOutput()
			require.NoError(t, err, "%s", out)
		}
		_, call := talk(t, tool.Endpoint{Command: []string{peertest.MCPServer(t, "mcp-server-git"),
			"--repository", repository}})
		got, err := call("git_log", fmt.Sprintf(`{"repo_path":%q}`, repository))
		require.NoError(t, err)
		assert.Contains(t, got, "the first")
		seen(t, "mcp-server-git", "reads a log")
	})
	t.Run("time", func(t *testing.T) {
		_, call := talk(t, tool.Endpoint{Command: []string{peertest.MCPServer(t, "mcp-server-time")}})
		got, err := call("get_current_time", `{"timezone":"Europe/Oslo"}`)
		require.NoError(t, err)
		assert.Contains(t, got, "Europe/Oslo")
		_, err = call("get_current_time", `{"timezone":"Mars"}`)
		require.ErrorContains(t, err, "Mars")
		seen(t, "mcp-server-time", "returns the time, shows an unknown zone")
	})
	t.Run("fetch", func(t *testing.T) {
		web := httptest.NewServer(http.NotFoundHandler())
		defer web.Close()
		_, call := talk(t, tool.Endpoint{Command: []string{peertest.MCPServer(t, "mcp-server-fetch"),
			"--ignore-robots-txt", "--allow-private-ips"}})
		got, err := call("fetch", fmt.Sprintf(`{"url":%q}`, peerPage(t)))
		require.NoError(t, err)
		assert.Contains(t, got, "Hello, browser")
		_, err = call("fetch", fmt.Sprintf(`{"url":%q}`, web.URL))
		require.ErrorContains(t, err, "404", "its own words are shown")
		seen(t, "mcp-server-fetch", "fetches a page, shows a missing page")
	})
}

// The error of a server that dies at its start has the reason.
func TestAServerThatDiesAtItsStart(t *testing.T) {
	k := &mcptool.Kind{Client: http.DefaultClient}
	_, err := k.Discover(t.Context(), tool.Endpoint{Command: []string{peertest.MCPServer(t, "mcp-server-sqlite"),
		"--db-path", filepath.Join(t.TempDir(), "a.db")}})
	require.ErrorContains(t, err, "the server's program has ended (exit status 1): ")
	assert.Regexp(t, `(Attribute|Import|Type|ModuleNotFound)Error`, err.Error())
	peertest.Seen(t, peertest.Counterpart{Area: "tools", Name: "mcp-server-sqlite (PyPI)", Variant: "command",
		Version: peertest.MCPVersion(t, "mcp-server-sqlite"), Works: "shows the end of its stderr",
		Not: "does not start with version 2 of the protocol's library"})
}

func TestAServerOfFastMCP(t *testing.T) {
	for name, e := range map[string]tool.Endpoint{
		"http": {URL: peertest.MCP(t, func(port string) []string {
			return peertest.PythonScript(t, "mcp_fast.py", port)
		})},
		"command": {Command: peertest.PythonScript(t, "mcp_fast.py")},
	} {
		t.Run(name, func(t *testing.T) {
			_, call := talk(t, e)
			for n := range 3 {
				got, err := call("count", `{}`)
				require.NoError(t, err)
				assert.Contains(t, got, fmt.Sprint(n+1))
			}
			_, err := call("think", `{}`)
			require.ErrorContains(t, err, "sampling")
			_, err = call("paint", `{"wall":"north"}`)
			var q *tool.Question
			require.ErrorAs(t, err, &q)
			assert.Equal(t, []string{"red", "green", "decline"}, q.Options)
			k := &mcptool.Kind{Client: http.DefaultClient}
			for answer, want := range map[string]string{"red": "north: accept red", "decline": "north: decline None"} {
				r, err := k.Call(t.Context(), e, tool.Definition{Binding: json.RawMessage(`{"name":"paint"}`)},
					tool.Invocation{Arguments: json.RawMessage(`{"wall":"north"}`),
						Answers: []tool.Answer{{Question: q.ID, Text: answer}}})
				require.NoError(t, err)
				assert.Equal(t, want, r.Text)
			}
			peertest.Seen(t, peertest.Counterpart{Area: "tools", Name: "FastMCP (PyPI)", Variant: name,
				Version: peertest.MCPVersion(t, "fastmcp"), Works: "calls of one session, elicitation",
				Not: "sampling (not served)"})
		})
	}
}
