//go:build !race

package main

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"fmt"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// With documents that expand to any size, in any number in parallel, the message with the document is answered. A
// process with little memory survives.
func TestMessagesWithDocumentBombsAreAnswered(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make bounds runs it")
	}
	p := confined(built(t), *hostileLimit)
	p.environ = []string{"ACTIVE_LIMIT=15m"}
	p.start()
	t.Cleanup(p.stop)
	theirs, agent := p.organization(100)
	other, quiet := p.organization(10)

	documents := map[string][]byte{
		"attributes.docx": zipped(t, "<w", ` a=""`, 12_600_000, "/>"),
		"comment.docx":    zipped(t, "<w><!--", "x", 60<<20, "--></w>"),
		"words.html":      []byte(strings.Repeat("a ", 9<<20)),
		"attributes.html": []byte("<p" + strings.Repeat(" a", 9<<20) + ">"),
		"words.txt":       []byte(strings.Repeat("ä ", 6<<20)),
	}
	var all sync.WaitGroup
	for _, name := range slices.Repeat(slices.Sorted(maps.Keys(documents)), 2) {
		all.Go(func() {
			id := theirs.sendFile(agent, name, documents[name])
			status, run, err := 0, map[string]any{"status": "running"}, error(nil)
			for err == nil && (run["status"] == "queued" || run["status"] == "running") {
				status, run, err = theirs.call(t.Context(), http.MethodGet, "/runs/"+id+"?wait_ms=5000", "", nil)
			}
			assert.NoError(t, err, name)
			assert.Equal(t, http.StatusOK, status, name)
			assert.Equal(t, "completed", run["status"], "%s: %v", name, run)
		})
	}
	id := other.sendFile(quiet, "letter.html", []byte("<p>Dear all</p>"))
	all.Wait()
	_, run, err := other.call(t.Context(), http.MethodGet, "/runs/"+id, "", nil)
	require.NoError(t, err)
	assert.Equal(t, "completed", run["status"])
	t.Logf("the process has %d MB", p.memory())
}

// sendFile sends a message with a file and returns its run.
func (p *program) sendFile(agent, name string, data []byte) string {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	_ = w.WriteField("agent_id", agent)
	_ = w.WriteField("message", "look")
	_ = w.WriteField("wait", "false")
	part, err := w.CreateFormFile("files", name)
	assert.NoError(p.t, err)
	_, _ = part.Write(data)
	_ = w.Close()
	status, made, err := p.call(p.t.Context(), http.MethodPost, "/chat", w.FormDataContentType(), &b)
	assert.NoError(p.t, err, name)
	assert.Equal(p.t, http.StatusAccepted, status, "%s: %v", name, made)
	return fmt.Sprint(made["run_id"])
}

// zipped is a Word document that repeats a text very often.
func zipped(t *testing.T, begin, again string, times int, end string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, 1) })
	w, err := z.Create("word/document.xml")
	require.NoError(t, err)
	_, _ = io.WriteString(w, begin)
	piece := strings.Repeat(again, 1000)
	for range times / 1000 {
		_, _ = io.WriteString(w, piece)
	}
	_, _ = io.WriteString(w, end)
	require.NoError(t, z.Close())
	return b.Bytes()
}
