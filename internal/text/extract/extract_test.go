package extract_test

import (
	"archive/zip"
	"bytes"
	"compress/zlib"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/text/extract"
)

// text reads a file that has a group of its own.
func text(ctx context.Context, kind, name string, data []byte) (string, error) {
	open := func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
	return extract.Text(ctx, rand.Text(), extract.File{ContentType: kind, Name: name, Open: open})
}

// word makes a Word document with a body.
func word(t testing.TB, write func(io.Writer)) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, err := z.Create("word/document.xml")
	require.NoError(t, err)
	write(w)
	require.NoError(t, z.Close())
	return b.Bytes()
}

func body(text string) func(io.Writer) {
	return func(w io.Writer) {
		_, _ = io.WriteString(w, `<?xml version="1.0"?><w:document xmlns:w="w"><w:body>`+text+`</w:body></w:document>`)
	}
}

func TestTextOfEachSupportedFormatIsRead(t *testing.T) {
	for name, c := range map[string]struct {
		kind, file string
		data       []byte
		want       string
	}{
		"plain":                   {"text/plain; charset=utf-8", "a.txt", []byte("Grüße\nzwei"), "Grüße\nzwei"},
		"recognized by its bytes": {"application/octet-stream", "main.go", []byte("package main\n"), "package main\n"},
		"csv":                     {"text/csv", "a.csv", []byte("a,b\n1,2\n"), "a,b\n1,2\n"},
		"html": {"text/html", "a",
			[]byte(`<html><head><title>T</title><style>p{}</style></head><body><h1>One &amp; two</h1><p>three ` +
				`<b>four</b></p><script>alert(1)</script><table><tr><td>a<td>b</table>`), "T\nOne & two\nthree " +
				"four\na\tb"},
		"word": {"", "a.docx",
			word(t,
				body(`<w:p><w:r><w:t>One</w:t></w:r><w:r><w:t xml:space="preserve"> `+
					`two</w:t></w:r></w:p><w:p><w:r><w:t>a</w:t><w:tab/><w:t>b</w:t></w:r></w:p>`)), "One two\na\tb"},
		"broken html": {"text/html", "a", []byte(`<p>open <b`), "open"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := text(t.Context(), c.kind, c.file, c.data)
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
		})
	}
}

func TestLongTextIsCut(t *testing.T) {
	for kind, data := range map[string][]byte{
		"text/plain": bytes.Repeat([]byte("ä"), extract.MaxText),
		"text/csv":   []byte("a" + strings.Repeat("ä", extract.MaxText)),
		"text/html":  []byte("<p>" + strings.Repeat("word ", extract.MaxText)),
		"application/vnd.openxmlformats-officedocument.wordprocessingml.document": word(t,
			body("<w:p><w:t>"+strings.Repeat("word ", extract.MaxText)+"</w:t></w:p>")),
	} {
		got, err := text(t.Context(), kind, "", data)
		require.NoError(t, err)
		assert.LessOrEqual(t, len(got), extract.MaxText+100)
		assert.Contains(t, got, "[cut: the text ")
		assert.True(t, utf8.ValidString(got))
	}
}

func TestUnreadableFilesAreFaults(t *testing.T) {
	for name, c := range map[string]struct {
		file    string
		data    []byte
		wantErr string
	}{
		"picture":          {"a.png", []byte("\x89PNG\r\n\x1a\n\x00\x00"), "this kind of file is not supported"},
		"archive":          {"a.zip", []byte("PK\x03\x04 and more"), "this kind of file is not supported"},
		"no PDF":           {"a.txt", []byte("%PDF-1.7 text"), "the PDF cannot be read"},
		"no Word document": {"a.docx", []byte("hello"), "it is not a valid Word document"},
		"broken": {"a.docx", word(t, func(w io.Writer) { _, _ = io.WriteString(w, "<w:document><w:p") }),
			"cannot be read"},
		"a zip bomb": {"a.docx", word(t, func(w io.Writer) {
			nothing := []byte("<!--" + strings.Repeat(" ", 64<<10) + "-->")
			for range 1100 {
				_, _ = w.Write(nothing)
			}
		}), "unpacks to over 64 MiB"},
		"deep nesting": {"a.docx", word(t, body(strings.Repeat("<w:p>", 10_000))), "nested too deeply"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := text(t.Context(), "", c.file, c.data)
			assert.ErrorContains(t, err, c.wantErr)
		})
	}
}

// pdf makes a PDF of objects, numbered from 1; the first is the root.
func pdf(trailer string, objects ...string) []byte {
	var b bytes.Buffer
	b.WriteString("%PDF-1.7\n")
	offsets := []int{}
	for i, o := range objects {
		offsets = append(offsets, b.Len())
		_, _ = fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", i+1, o)
	}
	table := b.Len()
	_, _ = fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(objects)+1)
	for _, o := range offsets {
		_, _ = fmt.Fprintf(&b, "%010d 00000 n \n", o)
	}
	_, _ = fmt.Fprintf(&b, "trailer\n<< /Root 1 0 R /Size %d %s >>\nstartxref\n%d\n%%%%EOF\n", len(objects)+1,
		trailer, table)
	return b.Bytes()
}

// content is a compressed stream of operators.
func content(write func(io.Writer)) string {
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	write(z)
	_ = z.Close()
	return fmt.Sprintf("<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream", b.Len(), b.String())
}

func onePage(contents string) []byte {
	return pdf("", "<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
		"<< /Type /Page /Parent 2 0 R /Contents 4 0 R /Resources << /Font << /F << /Type /Font /Subtype /Type1 "+
			"/BaseFont /Helvetica /Encoding /WinAnsiEncoding >> >> >> >>", contents)
}

func TestPDFTextIsRead(t *testing.T) {
	for file, want := range map[string]string{
		"embedded-font.pdf": "Quarterly report — Übersicht\nRevenue grew by 12 % to €4.2 million. Costs fell, " +
			"mostly for transport, as the new depot\nin Łódź opened.\n\nRegion Units\nNorth 17\nSouth 23",
		"standard-font.pdf": "Terms of delivery\nThe goods are delivered within ten days. The goods are " +
			"delivered within ten days. The goods are\n",
	} {
		data, err := os.ReadFile("testdata/" + file)
		require.NoError(t, err)
		got, err := text(t.Context(), "application/pdf", file, data)
		require.NoError(t, err)
		assert.True(t, strings.HasPrefix(got, want), got)
	}
	got, err := text(t.Context(), "", "a.pdf", onePage(content(func(w io.Writer) {
		for i := range extract.MaxText / 4 { // what is drawn twice at one place is there once
			_, _ = fmt.Fprintf(w, "BT /F 12 Tf %d %d Td (word) Tj ET\n", i%10*50, i/10*20)
		}
	})))
	require.NoError(t, err)
	assert.LessOrEqual(t, len(got), extract.MaxText+100)
	assert.Contains(t, got, "[cut: the text is longer]")
}

// A caller that gives up does not wait for the PDFs of others.
func TestCancelledReadDoesNotWaitForItsTurn(t *testing.T) {
	gone, leave := context.WithCancel(t.Context())
	leave()
	_, err := text(gone, "application/pdf", "", []byte("%PDF-1.7"))
	assert.ErrorIs(t, err, context.Canceled)
}

// A file that cannot be fetched may be read by a retry.
func TestFetchFailureIsNotAFault(t *testing.T) {
	torn := errors.New("the line went dead")
	page := "<p>" + strings.Repeat("word ", extract.MaxText)
	for name, open := range map[string]func(opened int) (io.ReadCloser, error){
		"it does not open": func(int) (io.ReadCloser, error) { return nil, torn },
		"it does not open again": func(opened int) (io.ReadCloser, error) {
			if opened > 1 {
				return nil, torn
			}
			return io.NopCloser(strings.NewReader(page)), nil
		},
		"it ends early": func(opened int) (io.ReadCloser, error) {
			if opened > 1 {
				return io.NopCloser(io.MultiReader(strings.NewReader(page[:len(page)/2]), iotest.ErrReader(torn))), nil
			}
			return io.NopCloser(strings.NewReader(page)), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			opened := 0
			again := func(context.Context) (io.ReadCloser, error) {
				opened++
				return open(opened)
			}
			_, err := extract.Text(t.Context(), name, extract.File{Name: "a.html", Open: again})
			assert.ErrorIs(t, err, torn)
			var fault extract.Fault
			assert.NotErrorAs(t, err, &fault)
		})
	}
}

// A signal to all processes of the service does not fail a file whose text is still needed. When the parent dies, the
// child ends.
func TestOnlyTheWaitingProcessEndsTheReader(t *testing.T) {
	if _, err := os.Stat("/proc/self/task"); err != nil {
		t.Skip("what a process ignores is told in /proc")
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	head := strings.NewReader("<p>" + strings.Repeat("word ", extract.MaxText))
	opened := 0
	never := func(ctx context.Context) (io.ReadCloser, error) {
		if opened++; opened == 1 {
			return io.NopCloser(head), nil
		}
		r, w := io.Pipe()
		context.AfterFunc(ctx, func() { _ = w.CloseWithError(ctx.Err()) })
		return r, nil
	}
	go func() {
		_, err := extract.Text(ctx, rand.Text(), extract.File{Name: "a.html", Open: never})
		ended <- err
	}()
	both := uint64(1)<<(syscall.SIGINT-1) | uint64(1)<<(syscall.SIGTERM-1)
	assert.Eventually(t, func() bool {
		ignored, _ := strconv.ParseUint(statusOfChild(os.Getpid())["SigIgn"], 16, 64)
		return ignored&both == both
	}, time.Minute, time.Millisecond)
	stop()
	assert.ErrorIs(t, <-ended, context.Canceled)
	children, _ := childrenOf(os.Getpid())
	assert.Zero(t, children)
}

// statusOfChild is the kernel's status of the only child of a process.
func statusOfChild(parent int) map[string]string {
	of := map[string]string{}
	for _, task := range glob(fmt.Sprintf("/proc/%d/task/*/children", parent)) {
		list, _ := os.ReadFile(task)
		for _, child := range strings.Fields(string(list)) {
			status, _ := os.ReadFile("/proc/" + child + "/status")
			for line := range strings.Lines(string(status)) {
				name, value, _ := strings.Cut(line, ":")
				of[name] = strings.TrimSpace(value)
			}
		}
	}
	return of
}

// childrenOf counts the children of a process, and their resident memory in KiB.
func childrenOf(parent int) (children, resident int) {
	for _, task := range glob(fmt.Sprintf("/proc/%d/task/*/children", parent)) {
		list, _ := os.ReadFile(task)
		for _, child := range strings.Fields(string(list)) {
			status, _ := os.ReadFile("/proc/" + child + "/status")
			children++
			for line := range strings.Lines(string(status)) {
				if kib, ok := strings.CutPrefix(line, "VmRSS:"); ok {
					n, _ := strconv.Atoi(strings.Fields(kib)[0])
					resident += n
				}
			}
		}
	}
	return children, resident
}

func glob(pattern string) []string {
	list, _ := filepath.Glob(pattern)
	return list
}

// circle is a PDF whose cross-reference table refers to itself as its predecessor.
func circle() []byte {
	return pdf(fmt.Sprintf("/Prev %d", len("%PDF-1.7\n1 0 obj\n<< >>\nendobj\n")), "<< >>")
}
