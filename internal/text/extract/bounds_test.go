//go:build !race

package extract_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/text/extract"
)

// Each PDF makes its reader use too much memory or time: the child process ends, not this one.
func TestPDFBombsEndTheReaderProcess(t *testing.T) {
	for name, c := range map[string]struct {
		data    []byte
		wantErr string
	}{
		"a stream that unpacks to 64 MB of text": {onePage(content(func(w io.Writer) {
			shown := []byte("BT /F 12 Tf (" + strings.Repeat("x", 1<<20) + ") Tj ET\n")
			for range 64 {
				_, _ = w.Write(shown)
			}
		})), "needs more than"},
		"a table of 10^9 objects": {[]byte("%PDF-1.7\nxref\n1000000000 1\n0000000000 00000 n \ntrailer\n<< " +
			"/Size 1 >>\nstartxref\n9\n%%EOF\n" + strings.Repeat("\n", 60)), "cannot be read"},
		"pages that contain themselves": {pdf("", "<< /Type /Catalog /Pages 2 0 R >>",
			"<< /Type /Pages /Kids [2 0 R] /Count 9 >>"), "the PDF"},
		"cross-reference tables in a cycle": {circle(), "cannot be read"},
		"forms that draw each other":        {forms(40, 20), "needs more than"},
		"objects that are each other's type": {
			pdf("", "<< /Type 2 0 R /Pages 2 0 R >>", "<< /Type 1 0 R /Kids [1 0 R 2 0 R] /Count 2 >>"), "the PDF",
		},
		"a picture of 10^10 points": {onePage(content(func(w io.Writer) {
			_, _ = io.WriteString(w, "q 100 0 0 100 0 0 cm BI /W 100000 /H 100000 /BPC 8 /CS /G ID x EI Q")
		})), "no text"},
		"no text": {onePage(content(func(w io.Writer) { _, _ = io.WriteString(w, "0 0 10 10 re f") })),
			"no text"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := text(t.Context(), "application/pdf", "", c.data)
			assert.ErrorContains(t, err, c.wantErr)
			assert.Less(t, len(err.Error()), 300)
		})
	}
}

// forms is a PDF whose page draws a form. Each form draws the next one so many times.
func forms(depth, times int) []byte {
	objects := []string{
		"<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
		"<< /Type /Page /Parent 2 0 R /Contents 5 0 R /Resources << /XObject << /X 6 0 R >> /Font << /F 4 0 R >> >> >>",
		"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
	}
	draw := "BT /F 12 Tf (x) Tj ET " + strings.Repeat("/X Do 1 0 0 1 1 1 cm ", times)
	for i := range depth {
		objects = append(objects,
			fmt.Sprintf("<< /Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << "+
				"/X %d 0 R >> /Font << /F 4 0 R >> >> /Length %d >>\nstream\n%s\nendstream", 6+i%depth+1, len(draw),
				draw))
	}
	return pdf("", append(objects, "<< >>")...)
}

// However many PDFs are read concurrently, the number of child processes and their memory are limited.
func TestConcurrentPDFsAreReadByFewProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make bounds runs it")
	}
	if _, err := os.Stat("/proc/self/task"); err != nil {
		t.Skip("children are counted in /proc")
	}
	shown := []byte("BT /F 12 Tf (" + strings.Repeat("x", 1<<20) + ") Tj ET\n")
	bomb := onePage(content(func(w io.Writer) {
		for range 64 {
			_, _ = w.Write(shown)
		}
	}))
	require.Less(t, len(bomb), 70_000)
	var reading sync.WaitGroup
	read := make(chan struct{})
	for range 4 {
		reading.Go(func() {
			_, err := text(t.Context(), "application/pdf", "", bomb)
			assert.Error(t, err)
		})
	}
	go func() {
		reading.Wait()
		close(read)
	}()
	most, memory := 0, 0
	var last []string
	for done := false; !done; {
		select {
		case <-read:
			done = true
		case <-time.After(time.Millisecond):
		}
		// A process may end and another begin while they are listed. Those in both lists existed between the lists.
		listed := childrenListed(os.Getpid())
		both := slices.DeleteFunc(slices.Clone(listed), func(c string) bool { return !slices.Contains(last, c) })
		_, resident := childrenOf(os.Getpid())
		most, memory, last = max(most, len(both)), max(memory, resident), listed
	}
	t.Logf("at most %d at once, with %d MiB", most, memory>>10)
	assert.LessOrEqual(t, most, 2)
	// Each may use its limit of 256 MiB and the size of the program; two have about 300 MiB together.
	assert.Less(t, memory, 2*320<<10, "KiB")
}

// childrenListed are the ids of a process's children.
func childrenListed(parent int) []string {
	var ids []string
	for _, task := range glob(fmt.Sprintf("/proc/%d/task/*/children", parent)) {
		list, _ := os.ReadFile(task)
		ids = append(ids, strings.Fields(string(list))...)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// A document of any format uses no memory of the calling process; one that needs too much is a Fault.
func TestDocumentsUseNoMemoryOfThisProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make bounds runs it")
	}
	many := func(begin, again string, n int, end string) []byte {
		return slices.Concat([]byte(begin), bytes.Repeat([]byte(again), n), []byte(end))
	}
	unfolds := func(begin, again string, n int, end string) []byte {
		return word(t, func(w io.Writer) { _, _ = w.Write(many(begin, again, n, end)) })
	}
	for name, data := range map[string][]byte{
		"attributes.docx":    unfolds("<w", ` a=""`, 12_600_000, "/>"),
		"a comment.docx":     unfolds("<w><!--", "x", 20<<20, "--></w>"),
		"a name.docx":        unfolds("<", "x", 20<<20, "/>"),
		"a declaration.docx": unfolds("<!DOCTYPE ", "x", 20<<20, "><w/>"),
		"text.docx":          unfolds("<w:t>", "x", 20<<20, "</w:t>"),
		"references.docx":    unfolds("<w:t>", "&#65;", 4<<20, "</w:t>"),
		"words.html":         many("", "a ", 9<<20, ""),
		"attributes.html":    many("<p", " a", 9<<20, ">"),
		"a comment.html":     many("<!--", "x", 19<<20, ""),
		"elements.html":      many("", "<p>", 6<<20, ""), "references.html": many("", "&amp;", 3<<20, ""),
		"a table.pdf": many("%PDF-1.7\nxref\n0 900000\n", "0000000000 00000 n \n", 900_000, ""),
		"words.txt":   many("", "ä ", 6<<20, ""),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			got, err := text(t.Context(), "", name, data)
			runtime.ReadMemStats(&after)
			if err != nil {
				var fault extract.Fault
				assert.ErrorAs(t, err, &fault)
				assert.Less(t, len(err.Error()), 300)
			}
			assert.LessOrEqual(t, len(got), extract.MaxText+100)
			assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(10<<20), "bytes for %d", len(data))
		})
	}
}
