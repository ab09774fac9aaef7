//go:build peers

package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/proof/peertest"
)

var requests = flag.Int("requests", 3000, "how many requests are made from the OpenAPI document, at least")

var generated = regexp.MustCompile(`(\d+) generated`)

// Schemathesis makes valid and invalid requests of every operation, alone and in sequence. No response is a server
// error, and none violates the OpenAPI document.
func TestRequestsMadeFromTheDocument(t *testing.T) {
	p := built(t)
	p.start()
	defer p.stop()
	status, me, err := p.call(t.Context(), "GET", "/me", "", nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)
	own := fmt.Sprint(me["api_key"].(map[string]any)["api_key_id"], ",", me["user"].(map[string]any)["user_id"], ",",
		me["organization"].(map[string]any)["organization_id"])
	document := filepath.Join(t.TempDir(), "openapi.json")
	response, err := http.Get(p.url + "/openapi.json")
	require.NoError(t, err)
	raw, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.NoError(t, os.WriteFile(document, raw, 0o600))

	var total, seed atomic.Int64
	var beside sync.WaitGroup
	answers := t.TempDir()
	for range 2 { // two processes: the threads of one disturb each other in Python 3.11
		beside.Go(func() {
			for total.Load() < int64(*requests) && !t.Failed() {
				n := schemathesis(t, p, document, own, answers, int(seed.Add(1)))
				total.Add(int64(n))
			}
		})
	}
	beside.Wait()
	good, all, never := succeeded(t, answers)
	t.Logf("%d requests of %d operations, %d%% of them answered with success", total.Load(), len(all), good)
	assert.Greater(t, good, 10, "too few reach anything")
	assert.Less(t, len(never), len(all)/6, "these never succeeded: %v", never)
}

// succeeded reads the answers to requests. It returns the percentage of success, all operations, and the operations
// without a successful request.
func succeeded(t *testing.T, folder string) (good int, all, never []string) {
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	require.NoError(t, err)
	total, of := 0, map[string]int{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		var answered map[string]map[string]int
		require.NoError(t, json.Unmarshal(raw, &answered))
		for operation, statuses := range answered {
			of[operation] += 0
			for status, n := range statuses {
				total += n
				if status < "300" {
					of[operation] += n
					good += n
				}
			}
		}
	}
	for operation, n := range of {
		all = append(all, operation)
		if n == 0 {
			never = append(never, operation)
		}
	}
	return 100 * good / max(1, total), all, never
}

// schemathesis runs once and returns the number of requests.
func schemathesis(t *testing.T, p *program, document string, own, answers string, seed int) int {
	hooks, err := filepath.Abs("../../scripts/peers")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, peertest.Schemathesis(t), "run", document, "--url",
		strings.TrimSuffix(p.url, "/api/v1"),
		"--header", "Authorization: Bearer "+p.key, "--seed", strconv.Itoa(seed), "--max-examples",
		strconv.Itoa(min(60, 10+*requests/1000)), "--workers", "1",
		"--checks", "unexplained_server_error,status_code_conformance,content_type_conformance,"+
			"response_headers_conformance,response_schema_conformance",
		"--phases", "examples,coverage,fuzzing,stateful", "--suppress-health-check", "all", "--no-shrink",
		"--continue-on-failure", "--request-timeout", "30", "--warnings", "off", "--mode",
		[]string{"positive", "all"}[seed%2])
	c.Env = append(os.Environ(), "SCHEMATHESIS_HOOKS=schema_hooks", "PYTHONPATH="+hooks, "PYTHONDONTWRITEBYTECODE=1",
		fmt.Sprintf("SEED=%d", seed), "ANSWERED="+filepath.Join(answers, strconv.Itoa(seed)+".json"),
		"PROTECTED="+own)
	c.Dir = t.TempDir() // it writes notes
	out, err := c.CombinedOutput()
	m := generated.FindAllSubmatch(out, -1)
	if !assert.NoError(t, err, "seed %d:\n%s", seed, failureOutput(out)) || !assert.NotEmpty(t, m, "%s", out) {
		return 0
	}
	n, err := strconv.Atoi(string(m[len(m)-1][1]))
	assert.NoError(t, err)
	t.Logf("seed %d: %d requests", seed, n)
	return n
}

// failureOutput is the output of schemathesis about failures, with long lines cut. The last lines of the output are
// read first: they belong to a failure, not to the summary.
func failureOutput(out []byte) string {
	lines := strings.Split(string(out), "\n")
	from := slices.IndexFunc(lines, func(line string) bool {
		return strings.Contains(line, "= FAILURES =") || strings.Contains(line, "= ERRORS =")
	})
	var b strings.Builder
	for _, line := range lines[max(0, from):] {
		if strings.Contains(line, "= SUMMARY =") && from >= 0 {
			break
		}
		b.WriteString(line[:min(len(line), 600)] + "\n")
	}
	return b.String()[:min(b.Len(), 60_000)]
}
