//go:build peers

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/proof/peertest"
)

// talk is the record of a conversation with the service. It has a message with an uploaded file, a question found in
// the stream and answered, a list page by page, and an error. It also has a call, found in the lines that answer a
// message, which a person edits, and the refusal of another decision.
type talk struct {
	Answer, Asked, Kind, Resumed, Error, Call, Edited, Late string
	Runs                                                    int
}

// workshop is a folder in which clients are made from the served document.
type workshop struct {
	*testing.T

	folder, document, scripts string
}

// run runs a command in a folder of the workshop and returns what it printed.
func (w workshop) run(folder, name string, arguments ...string) []byte {
	w.Helper()
	c := exec.Command(name, arguments...)
	c.Dir = filepath.Join(w.folder, folder)
	require.NoError(w, os.MkdirAll(c.Dir, 0o750))
	// The generator of the Python client formats it with a program that it finds in the path.
	c.Env = append(os.Environ(), "PATH="+filepath.Dir(peertest.Clients(w, "python"))+":"+os.Getenv("PATH"),
		"GOFLAGS=-mod=mod", "REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true")
	var complaints bytes.Buffer
	c.Stderr = &complaints
	out, err := c.Output()
	require.NoError(w, err, "%s %v\n%.4000s\n%.4000s", name, arguments, out, complaints.Bytes())
	return out
}

// take copies a file of scripts/peers/clients into a folder of the workshop.
func (w workshop) take(folder string, names ...string) {
	w.Helper()
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(w.scripts, name))
		require.NoError(w, err)
		w.put(filepath.Join(folder, name), b)
	}
}

func (w workshop) put(name string, content []byte) {
	w.Helper()
	path := filepath.Join(w.folder, name)
	require.NoError(w, os.MkdirAll(filepath.Dir(path), 0o750))
	require.NoError(w, os.WriteFile(path, content, 0o600))
}

func (w workshop) checkTalk(out []byte) {
	w.Helper()
	var got talk
	require.NoError(w, json.Unmarshal(out, &got), string(out))
	assert.Equal(w, talk{
		Answer: "You said: hello", Asked: "Which city?", Kind: "clarification", Resumed: "Answer: Paris",
		Error: "not_found", Runs: 2, Call: "approval", Edited: "two", Late: "not_awaiting_input",
	}, got)
}

// Linters and generators of other projects accept the document as it is served. Clients that they make from it have a
// conversation with the process.
func TestClientsMadeFromTheDocument(t *testing.T) {
	p := built(t)
	p.start()
	t.Cleanup(p.stop)
	response, err := http.Get(p.url + "/openapi.json")
	require.NoError(t, err)
	raw, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	scripts, err := filepath.Abs("../../scripts/peers/clients")
	require.NoError(t, err)
	folder, err := filepath.Abs("../../.cache/peers/made")
	require.NoError(t, err)
	in := func(t *testing.T) workshop {
		return workshop{t, folder, filepath.Join(folder, "openapi.json"), scripts}
	}
	in(t).put("openapi.json", raw)

	t.Run("Spectral", func(t *testing.T) {
		t.Parallel()
		w := in(t)
		w.run("", peertest.Program(t, "spectral"), "lint", w.document, "--ruleset",
			filepath.Join(scripts, "spectral.yaml"), "--fail-severity", "hint")
		checked(t, "Spectral", peertest.NPM(t, "@stoplight/spectral-cli"))
	})
	t.Run("other linters", func(t *testing.T) {
		t.Parallel()
		w := in(t)
		w.run("", peertest.Clients(t, "openapi-spec-validator"), w.document)
		var report struct {
			Totals   struct{ Errors, Warnings int }
			Problems []object
		}
		require.NoError(t, json.Unmarshal(w.run("", peertest.Program(t, "redocly"), "lint", w.document, "--config",
			filepath.Join(scripts, "redocly.yaml"), "--max-problems", "1000", "--format", "json"), &report))
		assert.Zero(t, report.Totals, "%v", report.Problems)
		checked(t, "Redocly", peertest.NPM(t, "@redocly/cli"))
		checked(t, "openapi-spec-validator", peertest.PyPI(t, "clients", "openapi-spec-validator"))
	})
	t.Run("Python", func(t *testing.T) {
		t.Parallel()
		w := in(t)
		w.run("", peertest.Clients(t, "openapi-python-client"), "generate", "--path", w.document, "--output-path",
			"python/client", "--meta", "none", "--overwrite", "--fail-on-warning")
		t.Logf("%s", w.run("python", peertest.Clients(t, "python"), filepath.Join(scripts, "answers.py"),
			filepath.Join(folder, "python"), w.document))
		w.checkTalk(w.run("python", peertest.Clients(t, "python"), filepath.Join(scripts, "conversation.py"),
			filepath.Join(folder, "python"), p.url, p.key))
		clientOf(t, "openapi-python-client", peertest.PyPI(t, "clients", "openapi-python-client"),
			"code for streaming operations: read that body with the client's HTTP client")
	})
	t.Run("TypeScript", func(t *testing.T) {
		t.Parallel()
		w := in(t)
		w.take("typescript", "conversation.ts", "tsconfig.json")
		w.put("typescript/package.json", []byte(`{"type":"module","private":true}`))
		w.run("typescript", peertest.Program(t, "openapi-typescript"), w.document, "-o", "api.d.ts")
		w.run("typescript", peertest.Program(t, "tsc"), "-p", ".")
		w.checkTalk(w.run("typescript", "node", "conversation.js", p.url, p.key))
		clientOf(t, "openapi-typescript with openapi-fetch", peertest.NPM(t, "openapi-typescript"), "")
	})
	t.Run("Go", func(t *testing.T) {
		t.Parallel()
		w := in(t)
		w.take("go", "go.mod", "go.sum", "main.go")
		require.NoError(t, os.MkdirAll(filepath.Join(folder, "go/api"), 0o750))
		w.run("go", "go", "tool", "oapi-codegen", "-generate", "types,client", "-package", "api", "-o", "api/api.go",
			w.document)
		w.run("go", "go", "build", "-o", "conversation", ".")
		w.checkTalk(w.run("go", filepath.Join(folder, "go/conversation"), p.url, p.key))
		module := strings.Fields(string(w.run("go", "go", "list", "-m", "github.com/oapi-codegen/oapi-codegen/v2")))
		clientOf(t, "oapi-codegen", strings.TrimPrefix(module[1], "v"), "")
	})
}

// checked writes the row of a program that checks the document.
func checked(t *testing.T, name, version string) {
	peertest.Seen(t, peertest.Counterpart{
		Area: "clients", Name: "OpenAPI validators", Version: version, Variant: name, Works: "the document is valid",
	})
}

// clientOf writes the row of a program that makes a client from the document.
func clientOf(t *testing.T, name, version, not string) {
	peertest.Seen(t, peertest.Counterpart{
		Area: "clients", Name: "OpenAPI client generators", Version: version, Variant: name, Not: not,
		Works: "conversation with a file, question, edited approval, paged list, errors",
	})
}
