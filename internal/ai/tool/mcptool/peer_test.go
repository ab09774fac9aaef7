//go:build peers

package mcptool_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/ai/tool/mcptool"
	"agentplatform/internal/ai/tool/tooltest"
	"agentplatform/internal/proof/peertest"
)

func TestTheReferenceServer(t *testing.T) {
	k := &mcptool.Kind{Client: http.DefaultClient}
	e := tool.Endpoint{URL: peertest.Everything(t)}
	tooltest.Run(t, tooltest.Harness{Kind: k, Endpoint: e, Echo: "echo"})
	beside, err := k.Browse(t.Context(), e)
	require.NoError(t, err)
	assert.NotEmpty(t, beside.Resources)
	assert.NotEmpty(t, beside.Prompts)
	found, err := k.Discover(t.Context(), e)
	require.NoError(t, err)
	results := map[string]tool.Result{}
	for _, d := range found {
		if arguments := map[string]string{"get-sum": `{"a":2,"b":3}`, "get-tiny-image": `{}`}[d.Name]; arguments != "" {
			results[d.Name], err = k.Call(t.Context(), e, d,
				tool.Invocation{Name: d.Name, Arguments: json.RawMessage(arguments)})
			require.NoError(t, err)
		}
	}
	assert.Contains(t, results["get-sum"].Text, "5")
	picture := results["get-tiny-image"]
	assert.NotEmpty(t, picture.Text)
	require.Len(t, picture.Files, 1)
	assert.Equal(t, "image/png", picture.Files[0].ContentType)
	assert.Equal(t, "\x89PNG", string(picture.Files[0].Data[:4]))
}

// both returns the endpoints of a server that npm has installed, by transport. To test a further server, call it again.
func both(t *testing.T, program func(port ...string) []string) map[string]tool.Endpoint {
	t.Helper()
	return map[string]tool.Endpoint{
		"http":    {URL: peertest.MCP(t, func(port string) []string { return program(port) })},
		"command": {Command: program()},
	}
}

// The official SDK's server asks its client in the middle of a call, and gets an answer: no call waits for it.
func TestWhatAServerOfTheSDKAsksIsAnswered(t *testing.T) {
	for name, e := range both(t, func(port ...string) []string {
		return peertest.Script(t, "mcp_asking.mjs", port...)
	}) {
		t.Run(name, func(t *testing.T) {
			found, err := (&mcptool.Kind{Client: http.DefaultClient}).Discover(t.Context(), e)
			require.NoError(t, err)
			require.Len(t, found, 1)
			for question, answer := range map[string]string{
				`{"method":"ping"}`:       `{}`,
				`{"method":"roots/list"}`: `{"code":-32601}`,
				`{"method":"sampling/createMessage","params":{"maxTokens":9,"messages":[
					{"role":"user","content":{"type":"text","text":"hi"}}]}}`: `{"code":-32601}`,
			} {
				assert.JSONEq(t, answer, call(t, e, "ask", question), "%s", question)
			}
		})
	}
}

// peerPage is the address of a page with a button that changes it.
func peerPage(t *testing.T) string {
	t.Helper()
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<title>A page of ours</title><h1 id=h>Hello, browser</h1>"+
			"<button onclick=\"h.textContent='It was pressed'\">Press me</button>")
	}))
	t.Cleanup(page.Close)
	return page.URL
}

// Playwright's server opens a page in a browser. It asks for roots if a client declares them.
func TestPlaywrightsServer(t *testing.T) {
	page := peerPage(t)
	browser, out := peertest.Browser(), t.TempDir()
	for name, e := range both(t, func(port ...string) []string {
		arguments := []string{"--headless", "--isolated", "--no-sandbox", "--output-dir", out}
		for _, p := range port {
			arguments = append(arguments, "--port", p)
		}
		if browser != "" {
			arguments = append(arguments, "--executable-path", browser)
		}
		return peertest.Node(t, "@playwright/mcp/cli.js", arguments...)
	}) {
		t.Run(name, func(t *testing.T) {
			k := &mcptool.Kind{Client: http.DefaultClient}
			found, err := k.Discover(t.Context(), e)
			require.NoError(t, err)
			byName := map[string]tool.Definition{}
			for _, d := range found {
				byName[d.Name] = d
			}
			require.Contains(t, byName, "browser_navigate")
			ask := func(name, arguments string) (tool.Result, error) {
				// The server would wait for a minute for an answer that does not come.
				ctx, cancel := context.WithTimeout(t.Context(), 45*time.Second)
				defer cancel()
				return k.Call(ctx, e, byName[name],
					tool.Invocation{Name: name, Arguments: json.RawMessage(arguments)})
			}
			_, err = ask("browser_navigate", `{}`)
			var failure *tool.Error
			require.ErrorAs(t, err, &failure)
			assert.Contains(t, failure.Error(), "url", "the server says what is wrong")
			t.Run("a page", func(t *testing.T) {
				if browser == "" {
					t.Skip("there is no Chromium: make browser installs it where it can, or name one by BROWSER")
				}
				opened, err := ask("browser_navigate", `{"url":"`+page+`"}`)
				require.NoError(t, err)
				assert.Contains(t, opened.Text, "A page of ours")
			})
		})
	}
}

func TestTheReferenceServerWorksAsAProgram(t *testing.T) {
	e := tool.Endpoint{Command: []string{"node", peertest.EverythingProgram(t), "stdio"}}
	tooltest.Run(t, tooltest.Harness{Kind: &mcptool.Kind{Client: http.DefaultClient}, Endpoint: e, Echo: "echo"})
}
