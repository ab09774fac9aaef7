//go:build peers

package mcptool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/ai/tool/mcptool"
	"agentplatform/internal/proof/peertest"
)

// talk makes calls in one session, and returns a function for them.
func talk(t *testing.T, e tool.Endpoint) (tools []string, call func(name, arguments string) (string, error)) {
	t.Helper()
	k := &mcptool.Kind{Client: http.DefaultClient}
	found, err := k.Discover(t.Context(), e)
	require.NoError(t, err)
	byName := map[string]tool.Definition{}
	for _, d := range found {
		byName[d.Name], tools = d, append(tools, d.Name)
	}
	s := k.Session(e)
	t.Cleanup(func() {
		s.End()
		programs, connections := mcptool.Open(k)
		assert.Zero(t, programs+connections)
	})
	return tools, func(name, arguments string) (string, error) {
		require.Contains(t, byName, name)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r, err := s.Call(ctx, byName[name], tool.Invocation{Name: name, Arguments: json.RawMessage(arguments)})
		return r.String(), err
	}
}

func module(t *testing.T, file string, arguments ...string) tool.Endpoint {
	return tool.Endpoint{Command: peertest.Node(t, "@modelcontextprotocol/"+file, arguments...)}
}

func TestTheServersOfTheProtocolsAuthors(t *testing.T) {
	t.Run("filesystem", func(t *testing.T) {
		folder := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(folder, "a.txt"), []byte("what is in it"), 0o600))
		_, call := talk(t, module(t, "server-filesystem/dist/index.js", folder))
		got, err := call("read_text_file", fmt.Sprintf(`{"path":%q}`, filepath.Join(folder, "a.txt")))
		require.NoError(t, err)
		assert.Contains(t, got, "what is in it")
		_, err = call("read_text_file", `{"path":"/etc/passwd"}`)
		require.ErrorContains(t, err, "Access denied")
		peertest.Seen(t, peertest.Counterpart{Area: "tools", Name: "server-filesystem (npm)", Variant: "command",
			Version: peertest.PackageVersion(t, "@modelcontextprotocol/server-filesystem"),
			Works:   "reads a file, shows a refused path"})
	})
	t.Run("memory", func(t *testing.T) {
		t.Setenv("TMPDIR", t.TempDir())
		_, call := talk(t, module(t, "server-memory/dist/index.js"))
		_, err := call("create_entities",
			`{"entities":[{"name":"Ada","entityType":"person","observations":["counts"]}]}`)
		require.NoError(t, err)
		got, err := call("search_nodes", `{"query":"Ada"}`)
		require.NoError(t, err)
		assert.Contains(t, got, "counts")
		peertest.Seen(t, peertest.Counterpart{Area: "tools", Name: "server-memory (npm)", Variant: "command",
			Version: peertest.PackageVersion(t, "@modelcontextprotocol/server-memory"),
			Works:   "stores and finds an entity"})
	})
	t.Run("sequential thinking", func(t *testing.T) {
		_, call := talk(t, module(t, "server-sequential-thinking/dist/index.js"))
		for n := range 3 {
			got, err := call("sequentialthinking", fmt.Sprintf(
				`{"thought":"t","nextThoughtNeeded":true,"thoughtNumber":%d,"totalThoughts":3}`, n+1))
			require.NoError(t, err)
			assert.Regexp(t, fmt.Sprintf(`"thoughtHistoryLength":\s*%d`, n+1), got, "its session lasts")
		}
		peertest.Seen(t, peertest.Counterpart{Area: "tools", Name: "server-sequential-thinking (npm)",
			Variant: "command",
			Version: peertest.PackageVersion(t, "@modelcontextprotocol/server-sequential-thinking"),
			Works:   "three thoughts in one session"})
	})
}

// The reference server's tools that ask: its form becomes a question, what is not served is not offered.
func TestTheReferenceServerAsks(t *testing.T) {
	for name, e := range map[string]tool.Endpoint{
		"http":    {URL: peertest.Everything(t)},
		"command": {Command: []string{"node", peertest.EverythingProgram(t), "stdio"}},
	} {
		t.Run(name, func(t *testing.T) {
			k := &mcptool.Kind{Client: http.DefaultClient}
			found, err := k.Discover(t.Context(), e)
			require.NoError(t, err)
			for _, d := range found {
				assert.NotRegexp(t, "roots|sampling", d.Name)
				if d.Name != "trigger-elicitation-request" {
					continue
				}
				_, err := k.Call(t.Context(), e, d, tool.Invocation{Arguments: json.RawMessage(`{}`)})
				var q *tool.Question
				require.ErrorAs(t, err, &q)
				assert.Contains(t, q.Text, "name: value")
				r, err := k.Call(t.Context(), e, d, tool.Invocation{Arguments: json.RawMessage(`{}`),
					Answers: []tool.Answer{{Question: q.ID, Text: `{"name":"Ada"}`}}})
				require.NoError(t, err)
				assert.Contains(t, r.Text, "Ada")
				r, err = k.Call(t.Context(), e, d, tool.Invocation{Arguments: json.RawMessage(`{}`),
					Answers: []tool.Answer{{Question: q.ID, Text: "decline"}}})
				require.NoError(t, err)
				assert.Contains(t, r.Text, "decline")
				peertest.Seen(t, peertest.Counterpart{Area: "tools", Name: "server-everything (npm)", Variant: name,
					Version: peertest.PackageVersion(t, "@modelcontextprotocol/server-everything"),
					Works:   "text, pictures, structured results, errors, elicitation",
					Not:     "sampling, roots (not served)"})
				return
			}
			t.Fatal("it offers no tool that asks")
		})
	}
}

// A page that one call has opened is there for the next.
func TestAPageOfPlaywrightOutlivesACall(t *testing.T) {
	browser, page := peertest.Browser(), peerPage(t)
	if browser == "" {
		t.Skip("there is no Chromium: make browser installs it where it can, or name one by BROWSER")
	}
	out := t.TempDir()
	for name, e := range both(t, func(port ...string) []string {
		arguments := []string{"--headless", "--isolated", "--no-sandbox", "--output-dir", out,
			"--executable-path", browser}
		for _, p := range port {
			arguments = append(arguments, "--port", p)
		}
		return peertest.Node(t, "@playwright/mcp/cli.js", arguments...)
	}) {
		t.Run(name, func(t *testing.T) {
			_, call := talk(t, e)
			_, err := call("browser_navigate", fmt.Sprintf(`{"url":%q}`, page))
			require.NoError(t, err)
			got, err := call("browser_snapshot", `{}`)
			require.NoError(t, err)
			ref := regexp.MustCompile(`button "Press me".*\[ref=(\w+)\]`).FindStringSubmatch(got)
			require.NotNil(t, ref, got)
			_, err = call("browser_click", fmt.Sprintf(`{"element":"the button","target":%q,"ref":%q}`, ref[1], ref[1]))
			require.NoError(t, err)
			got, err = call("browser_snapshot", `{}`)
			require.NoError(t, err)
			assert.Contains(t, got, "It was pressed")
			peertest.Seen(t, peertest.Counterpart{Area: "tools", Name: "Playwright MCP (npm)", Variant: name,
				Version: peertest.PackageVersion(t, "@playwright/mcp"),
				Works:   "opens, reads and clicks a page in one session"})
		})
	}
}

// A program may be behind a proxy that puts it on a port, in each of its forms.
func TestServersBehindAProxy(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "a.txt"), []byte("what is in it"), 0o600))
	inner := append(peertest.Node(t, "@modelcontextprotocol/server-filesystem/dist/index.js"), folder)
	http := []string{"--outputTransport", "streamableHttp"}
	for name, c := range map[string]struct {
		proxy, path string
		more        []string
	}{
		"streamable HTTP":               {"supergateway", "/mcp", http},
		"streamable HTTP with sessions": {"supergateway", "/mcp", append(http, "--stateful")},
		"SSE":                           {"supergateway", "/sse", []string{"--outputTransport", "sse"}},
		"HTTP":                          {"mcp-proxy", "/mcp", nil},
		"HTTP without sessions":         {"mcp-proxy", "/mcp", []string{"--stateless"}},
		"the older transport":           {"mcp-proxy", "/sse", nil},
	} {
		t.Run(c.proxy+" "+name, func(t *testing.T) {
			address := peertest.MCP(t, func(port string) []string {
				if c.proxy == "mcp-proxy" {
					words := peertest.Node(t, "mcp-proxy/dist/bin/mcp-proxy.mjs", "--port", port)
					return append(append(append(words, c.more...), "--"), inner...)
				}
				words := peertest.Node(t, "supergateway/dist/index.js", "--port", port, "--stdio",
					strings.Join(inner, " "))
				return append(words, c.more...)
			})
			_, call := talk(t, tool.Endpoint{URL: regexp.MustCompile("/mcp$").ReplaceAllString(address, c.path)})
			for range 2 {
				got, err := call("read_text_file", fmt.Sprintf(`{"path":%q}`, filepath.Join(folder, "a.txt")))
				require.NoError(t, err)
				assert.Contains(t, got, "what is in it")
			}
			peertest.Seen(t, peertest.Counterpart{Area: "tools", Name: c.proxy + " (npm)", Variant: name,
				Version: peertest.PackageVersion(t, c.proxy), Works: "server-filesystem behind it"})
		})
	}
}
