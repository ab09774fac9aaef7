//go:build !race

package extract

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/text/extract/bombtest"
)

// Each of these has a few bytes, or some megabytes, and could cause a reader any amount of work. It is read within the
// limits, or the error is a Fault. This process uses no memory for a Fault, and leaves nothing.
func TestBombsEndWithinLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make bounds runs it")
	}
	temporary := leftovers(t)
	for _, name := range bombtest.Names() {
		endsWithinLimits(t, name, func(t *testing.T) []byte { return bombtest.File(t, name) })
	}
	endsWithinLimits(t, "members.zip", func(t *testing.T) []byte { return manyMembers(t, 200_000) })
	endsWithinLimits(t, "parts.eml", func(*testing.T) []byte { return nestedMail(100_000) })
	endsWithinLimits(t, "a chart.docx", func(t *testing.T) []byte { return chartPoints(t, 2_000_000) })
	assert.Equal(t, temporary, leftovers(t))
}

func endsWithinLimits(t *testing.T, name string, file func(*testing.T) []byte) {
	t.Run(name, func(t *testing.T) {
		data := file(t)
		began := time.Now()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		text, err := documentOf(t, "", name, data)
		runtime.ReadMemStats(&after)
		if err != nil {
			var fault Fault
			assert.True(t, errors.As(err, &fault) || errors.Is(err, ErrBusy), err)
			assert.Less(t, len(err.Error()), 300)
			assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(10<<20), "bytes for %d", len(data))
		}
		t.Logf("%v for %d bytes: %d characters, %v",
			time.Since(began).Round(time.Millisecond), len(data), len(text.Body), err)
	})
}

// A text with eight times as many marks, nested or in sequence, needs no more work for each byte. The work is the CPU
// time of this process; its other work is small.
func TestMarkdownIsLinearWork(t *testing.T) {
	lines := func(marks string, end string) func(int) string {
		line := func(n int) string { return strings.Repeat(marks, n/len(marks)) + end }
		return func(n int) string { return strings.Repeat(line(n), 40) }
	}
	for name, text := range map[string]func(n int) string{
		"quotations":              lines(">", "a\n"),
		"quotations with spaces":  lines("   > ", "a\n"),
		"lists":                   lines("- ", "a\n"),
		"lists apart":             lines("+ ", "a\n\n"),
		"numbered lists":          lines("1. ", "a\n"),
		"all kinds, with tabs":    lines("-\t> 1)\t* + ", "a\n"),
		"a list within each line": growing,
		"links without an end":    func(n int) string { return strings.Repeat("[a](b\n", 5*n) },
		"references":              func(n int) string { return strings.Repeat("[a]: b\n", 5*n) + "\na" },
	} {
		t.Run(name, func(t *testing.T) {
			few, many := text(5_000), text(40_000)
			once, more := workOf(t, few), workOf(t, many)
			grown := float64(len(many)) / float64(len(few))
			t.Logf("%v, with %.1f times the bytes %v", once, grown, more)
			// Quadratic work would be 8 times as much for each byte. For linear work, caches, garbage collection and a
			// busy machine have made it 1.4 times as much. Where there is little work, the other work of the process
			// counts, too.
			assert.Less(t, more.Seconds(), 4*grown*once.Seconds()+0.1)
		})
	}
}

// growing has nested lists, each within the list of the previous line, n/40 deep, and then lines that are as deep.
func growing(n int) string {
	var b strings.Builder
	for depth := range n / 40 {
		_, _ = b.WriteString(strings.Repeat("  ", depth) + "- a\n")
	}
	return b.String() + strings.Repeat(strings.Repeat("  ", n/40)+"b\n", 1000)
}

// workOf is the least CPU time, of several readings of a document.
func workOf(t *testing.T, text string) time.Duration {
	least := time.Duration(math.MaxInt64)
	for range 3 {
		before := cpuTime(t)
		_, _, err := job{Format: markdown, Whole: true}.read([]byte(text))
		least = min(least, cpuTime(t)-before)
		require.NoError(t, err)
	}
	return least
}

func cpuTime(t *testing.T) time.Duration {
	var used syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func manyMembers(t *testing.T, n int) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := range n {
		_, err := z.Create(fmt.Sprint(i))
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	return b.Bytes()
}

// nestedMail is an e-mail of parts within parts. chartPoints makes a document with a chart of n points. Each point is a
// series.
func chartPoints(t *testing.T, n int) []byte {
	return zipOf(t, "word/document.xml", `<w:p><c:chart r:id="a"/></w:p>`, "word/_rels/document.xml.rels",
		related("a", "chart", "c.xml"), "word/c.xml",
		"<c>"+strings.Repeat(`<ser><val><pt idx="1"><v>1</v></pt></val></ser>`, n/2)+
			"<ser><val>"+strings.Repeat(`<pt idx="2"><v>1</v></pt>`, n/2)+"</val></ser></c>")
}

func nestedMail(depth int) []byte {
	var b bytes.Buffer
	for i := range depth {
		_, _ = fmt.Fprintf(&b, "Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n", i, i)
	}
	return b.Bytes()
}

// leftovers are the temporary files of readers.
func leftovers(t *testing.T) []string {
	files, err := filepath.Glob(filepath.Join(os.TempDir(), "excelize-*"))
	require.NoError(t, err)
	return files
}

// The files in an e-mail or a notebook together cannot take more than the whole may. The text of the e-mail stays.
func TestFilesWithinFilesAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make bounds runs it")
	}
	picture := strings.Repeat("A", 20<<20)
	cell := `{"cell_type":"code","source":"x","outputs":[{"data":{"text/plain":"1","image/png":"` + picture + `"}}]}`
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"bomb.eml": {enclosing("a.docx", string(unpacking(t, 300<<20, ""))),
			"Attachment: a.docx: the Word document unpacks to"},
		"pictures.ipynb": {[]byte(`{"cells":[` + cell + "," + cell + `]}`), "x\n1\nx\n1"},
		"deep.xml":       {[]byte(strings.Repeat("<a>", maxDepth+1) + "b"), "<a>b"},
		"wide.xml":       {[]byte("<r>" + strings.Repeat("<a/>", 2<<20) + "b</r>"), "b"},
		"long.eml": {enclosing("a.txt", strings.Repeat("a ", MaxCharacters*19/20)),
			"Attachment: a.txt: it is too long"},
		"breaks.eml": {enclosing("b.docx", string(unpacking(t, 0, "<w"+strings.Repeat(` a=""`, 12_600_000)+"/>"))),
			"Attachment: b.docx: reading it, or another attachment, takes too much work"},
	} {
		text, err := documentOf(t, "", name, c.data)
		if assert.NoError(t, err, name) {
			assert.Contains(t, text.Body, c.want, name)
		}
	}
}

// unpacking is a Word document that unpacks to so many bytes and a text.
func unpacking(t *testing.T, size int, text string) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, err := z.Create("word/document.xml")
	require.NoError(t, err)
	blank := []byte("<!--" + strings.Repeat(" ", 1<<20) + "-->")
	for range size >> 20 {
		_, err = w.Write(blank)
		require.NoError(t, err)
	}
	_, err = w.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return b.Bytes()
}
