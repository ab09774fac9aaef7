package extract

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/text/document"
)

// Each of these is its own text: white space within lines has a meaning. Empty lines end paragraphs, and are not part
// of the text.
func TestPlainTextKeepsItsWhiteSpace(t *testing.T) {
	for name, c := range map[string]struct {
		file, data string
		kind       document.Kind // of the first block
	}{
		"YAML":         {"a.yaml", "a:\n  b: 1\n  c:\n    d: 2", document.Code},
		"Python":       {"a.py", "class A:\n    def f(self):\n\t\treturn  1  # one", document.Code},
		"a log":        {"a.log", "12:00  INFO   start\n12:01  ERROR  stop", document.Code},
		"columns":      {"a.txt", "Name      Qty\nBolt       10\nNut         7", document.Code},
		"cells":        {"a.txt", "Region\tJan\tFeb\nNorth\t\t7\n\t1\t\nSouth\t\t", document.Code},
		"prose":        {"a.txt", "  One two.  Three\nfour five.\nSix. Seven  eight.", document.Paragraph},
		"an extension": {"Makefile", "all:\n\tgo build", document.Code},
		"said plain":   {"", "x\n  y", document.Code},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := documentOf(t, "", c.file, []byte(c.data))
			require.NoError(t, err)
			assert.Equal(t, c.data, text.Body)
			require.Len(t, text.Blocks, 1)
			assert.Equal(t, c.kind, text.Blocks[0].Kind)
			assert.Zero(t, text.Blocks[0].Start)
		})
	}
	text, err := documentOf(t, "", "a.py", []byte("\r\n \r\n  if a:\r\n\r\n    b()\x7f\u200b \r\n \r\n"))
	require.NoError(t, err)
	assert.Equal(t, "  if a:\n    b() ", text.Body)
}

// The text of an e-mail also keeps its white space, and so does invalid JSON.
func TestPlainTextWithinOthersKeepsItsWhiteSpace(t *testing.T) {
	text, err := documentOf(t, "", "a.eml", []byte("Subject: s\n\na:\n  b:  1\n"))
	require.NoError(t, err)
	assert.Equal(t, "Subject: s\na:\n  b:  1", text.Body)
	text, err = documentOf(t, "", "a.json", []byte("{ // lenient\n  a:  1 }"))
	require.NoError(t, err)
	assert.Equal(t, "{ // lenient\n  a:  1 }", text.Body)
}

// A file has the same cells in a message and as a document.
func TestMessagesAreShownTheCellsOfTables(t *testing.T) {
	for name, write := range formats {
		if name == "comma.csv" || name == "semicolon.csv" || name == "table.md" { // they are shown as they are
			continue
		}
		data := write(t, sparse)
		open := func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
		text, err := Text(t.Context(), rand.Text(), File{Name: name, Open: open})
		require.NoError(t, err, name)
		for _, row := range sparse.cells()[:7] {
			assert.Contains(t, "\n"+text+"\n", "\n"+strings.Join(row, "\t")+"\n", name)
		}
	}
}
