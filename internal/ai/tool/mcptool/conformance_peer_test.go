//go:build peersall

package mcptool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/ai/tool/mcptool"
	"agentplatform/internal/proof/peertest"
)

// asClient is the argument by which this test's program is a client that the conformance suite starts.
const asClient = "as-a-client"

func init() { programs[asClient] = conform }

// conform calls all tools of a server, with the scenario's arguments, and accepts the server's questions.
func conform(arguments []string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	k, e := &mcptool.Kind{Client: http.DefaultClient}, tool.Endpoint{URL: arguments[len(arguments)-1]}
	found, err := k.Discover(ctx, e)
	fmt.Println(len(found), err)
	for _, d := range found {
		given := json.RawMessage(`{"a":5,"b":3}`)
		if d.Name == "json_schema_echo" {
			for _, other := range found {
				if other.Name == "json_schema_2020_12_tool" {
					given, _ = json.Marshal(map[string]any{"schema": other.Parameters})
				}
			}
		}
		i := tool.Invocation{Name: d.Name, Arguments: given}
		var q *tool.Question
		_, err := k.Call(ctx, e, d, i)
		if errors.As(err, &q) {
			i.Answers = []tool.Answer{{Question: q.ID, Text: append(q.Options, "accept")[0]}}
			_, err = k.Call(ctx, e, d, i)
		}
		fmt.Println(d.Name, err)
	}
}

// The protocol's own suite plays servers, and checks what their client sends.
func TestTheConformanceSuite(t *testing.T) {
	program, err := os.Executable()
	require.NoError(t, err)
	for _, c := range []struct {
		scenario, version string
		fails             []string // by design
	}{
		{"initialize", "2025-06-18", nil},
		{"initialize", "2025-11-25", nil},
		{"tools_call", "2025-11-25", nil},
		{"tools_call", "2026-07-28", nil},
		// The question ends the first call, which is made again with the human's answer.
		{"elicitation-sep1034-client-defaults", "2025-11-25", []string{"client-elicitation-sep1034-general"}},
		{"sse-retry", "2025-11-25", nil},
		{"json-schema-2020-12-preservation", "2025-11-25", nil},
		{"json-schema-2020-12-preservation", "2026-07-28", nil},
		{"json-schema-ref-no-deref", "2026-07-28", nil},
		{"http-invalid-tool-headers", "2026-07-28", nil},
		{"sep-2322-client-request-state", "2026-07-28", nil},
		// The client begins with the last version that has sessions. Its first request has neither header nor metadata.
		{"request-metadata", "2026-07-28", []string{"sep-2575-http-client-sends-version-header",
			"sep-2575-client-populates-meta"}},
	} {
		t.Run(c.scenario+" "+c.version, func(t *testing.T) {
			folder := t.TempDir()
			words := peertest.Script(t, "mcp_conformance.mjs", "client", "--command", program+" "+asClient,
				"--scenario", c.scenario, "--spec-version", c.version, "--timeout", "60000", "--output-dir", folder)
			out, _ := exec.CommandContext(t.Context(), words[0], words[1:]...).CombinedOutput()
			found, err := filepath.Glob(filepath.Join(folder, "*", "checks.json"))
			require.NoError(t, err)
			require.Len(t, found, 1, "%s", out)
			raw, err := os.ReadFile(found[0])
			require.NoError(t, err)
			var checks []struct{ ID, Status string }
			require.NoError(t, json.Unmarshal(raw, &checks))
			passed, failed := 0, []string{}
			for _, one := range checks {
				switch one.Status {
				case "SUCCESS":
					passed++
				case "FAILURE":
					failed = append(failed, one.ID)
				}
			}
			assert.Positive(t, passed)
			assert.ElementsMatch(t, c.fails, failed, "%s", out)
		})
	}
	peertest.Seen(t, peertest.Counterpart{Area: "tools", Name: "MCP's conformance suite for clients (npm)",
		Version: peertest.PackageVersion(t, "@modelcontextprotocol/conformance"),
		Works:   "sessions, calls, schemas, questions with defaults, resumed streams, results that ask",
		Not:     "metadata and headers of 2026-07-28 for a server that also speaks an earlier version"})
}
