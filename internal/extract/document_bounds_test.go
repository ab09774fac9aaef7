//go:build !race

package extract

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
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
)

// repeated is a text that an archive holds in little space.
type repeated struct {
	begin, again string
	times        int
	end          string
}

func (r repeated) write(w io.Writer) {
	_, _ = io.WriteString(w, r.begin)
	block := strings.Repeat(r.again, 1+(64<<10)/max(1, len(r.again)))
	for left := r.times * len(r.again); left > 0; left -= len(block) {
		_, _ = io.WriteString(w, block[:min(left, len(block))])
	}
	_, _ = io.WriteString(w, r.end)
}

// officeBomb is one of the documents of testdata with another content of a member.
func officeBomb(t *testing.T, file, name string, content repeated) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/" + file)
	require.NoError(t, err)
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	var b bytes.Buffer
	out := zip.NewWriter(&b)
	replaced := false
	for _, f := range z.File {
		if f.Name == name {
			replaced = true
			continue
		}
		require.NoError(t, out.Copy(f))
	}
	w, err := out.Create(name)
	require.NoError(t, err)
	content.write(w)
	require.NoError(t, out.Close())
	assert.True(t, replaced || strings.Contains(name, "new"), name)
	return b.Bytes()
}

// inside is a member of one of the documents of testdata, by its ending; what is not named has no document.
var inside = map[string]struct{ file, name string }{
	"docx": {"terms.docx", "word/document.xml"}, "styles.docx": {"terms.docx", "word/styles.xml"},
	"slide.pptx": {"plan.pptx", "ppt/slides/slide1.xml"}, "pptx": {"plan.pptx", "ppt/presentation.xml"},
	"xlsx": {"stock.xlsx", "xl/worksheets/sheet1.xml"}, "else.xlsx": {"stock.xlsx", "xl/media/new.png"},
	"chapter.epub": {"tale.epub", "EPUB/text/b.xhtml"}, "epub": {"tale.epub", "EPUB/content.opf"},
}

const (
	sheetTop = `<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>`
	sheetEnd = `</sheetData></worksheet>`
	rowEnd   = "</row>" + sheetEnd
	inlineA  = `<c t="inlineStr"><is><t>a</t></is></c>`
	aStyle   = `<style styleId="a"><basedOn val="a"/></style>`
	anItem   = `<p><item id="a" href="text/b.xhtml" media-type="text/html"/>`
	itself   = `<p><item id="a" href="content.opf" media-type="text/html"/>`
	million  = 1_000_000
)

var bombs = map[string]repeated{
	"unpacks to 2 GB.docx":    {"<w><!--", " ", 2000 * million, "-->"},
	"text of 200 MB.docx":     {"<w><t>", "x", 200 * million, "</t></w>"},
	"entities.docx":           entities(),
	"deep.docx":               {"", "<w:p>", million, ""},
	"cells.docx":              {"<w><tbl><tr>", "<tc><t>a</t></tc>", 10 * million, "</tr>"},
	"attributes.styles.docx":  {"<w", ` a=""`, 12 * million, "/>"},
	"circles.styles.docx":     {"<s>" + aStyle, aStyle, million, "</s>"},
	"deep.slide.pptx":         {"", "<a>", million, ""},
	"slides.pptx":             {"<p>", `<p:sldId r:id="rId7"/>`, 5 * million, "</p>"},
	"unpacks to 1 GB.xlsx":    {sheetTop, " ", 1000 * million, sheetEnd},
	"1 GB.else.xlsx":          {"", " ", 1000 * million, ""},
	"columns.xlsx":            {sheetTop + "<row>", inlineA, million, rowEnd},
	"a far column.xlsx":       {sheetTop + `<row><c r="ZZZZZZ1"><v>1</v></c>`, "", 0, rowEnd},
	"a far row.xlsx":          {sheetTop + `<row r="2000000000"><c><v>1</v></c>`, "", 0, rowEnd},
	"wide rows.xlsx":          {sheetTop, `<row><c r="XFD1"><v>1</v></c></row>`, million, sheetEnd},
	"entities.xlsx":           entities(),
	"elements.chapter.epub":   {"<p>", "<b>", 10 * million, ""},
	"a long spine.epub":       {anItem, `<itemref idref="a"/>`, 5 * million, "</p>"},
	"is its own chapter.epub": {itself, `<itemref idref="a"/>`, 2, "</p>"},
	"groups.rtf":              {`{\rtf1`, "{", 40 * million, ""},
	"a word.rtf":              {`{\rtf1 \`, "a", 40 * million, ""},
	"cells.rtf":               {`{\rtf1\intbl`, ` a\cell`, 6 * million, "}"},
	"an endless part.eml":     {"Content-Type: multipart/mixed; boundary=a\n\n", "--a\n\n", 8 * million, ""},
	"a header.eml":            {"Subject: ", "=?utf-8?q?a?= ", 3 * million, "\n\na"},
	"a cell.csv":              {`a,"`, "b\n", 5 * million, ""},
	"cells.csv":               {"", ",", 50 * million, ""},
	"fewer cells.csv":         {"", ",", 9 * million, ""},
	"rows.csv":                {"", "a\n", 5 * million, ""},
	"elements.html":           {"", "<div>", 10 * million, "a"},
	"tables.html":             {"", "<table><tr><td>a", 3 * million, ""},
	"an attribute.html":       {`<p style="`, " ", 50 * million, ""},
	"lists.html":              {"", "<ul><li>", 6 * million, ""},
	"hidden.html":             {"<p hidden>", "<div hidden>", 4 * million, ""},
	"arrays.json":             {"", "[", 9 * million, ""},
	"values.json":             {"[", "1,", 4 * million, "1]"},
	"quotations.md":           {"", ">", 10 * million, "a"},
	"short quotations.md":     {"", strings.Repeat(">", 40_000) + "a\n", 100, ""},
	"brackets.md":             {"", strings.Repeat("[", 40_000) + "\n", 100, ""},
	"stars.md":                {"", "*a_b \n", million, ""},
	"lists.md":                {"", strings.Repeat("- ", 20_000) + "a\n", 100, ""},
	"links.md":                {"", "[a](b\n", million / 2, ""},
	"references.md":           {"", "[a]: b\n", million / 2, "\na"},
	"ticks.md":                {"", "`a``b```\n", million, ""},
	"words.txt":               {"", "a\n\n", 3 * million, ""},
	"spaces.txt":              {"a", " ", 50 * million, "b"},
	"UTF-16.txt":              {"\xff\xfe", "a\x00", 25 * million, ""},
}

// file is the bomb as a file.
func (r repeated) file(t *testing.T, name string) []byte {
	t.Helper()
	_, ending, _ := strings.Cut(name, ".")
	if at, is := inside[ending]; is {
		return officeBomb(t, at.file, at.name, r)
	}
	var b bytes.Buffer
	r.write(&b)
	return b.Bytes()
}

// Each of these is a few bytes, or some megabytes, of which a reader could make any amount of work: it is read within
// the limits, or a Fault. This process uses no memory for a Fault, and nothing stays behind.
func TestBombsEndWithinLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make bounds runs it")
	}
	temporary := leftovers(t)
	for name, bomb := range bombs {
		endsWithinLimits(t, name, func(t *testing.T) []byte { return bomb.file(t, name) })
	}
	endsWithinLimits(t, "members.zip", func(t *testing.T) []byte { return manyMembers(t, 200_000) })
	endsWithinLimits(t, "parts.eml", func(*testing.T) []byte { return nestedMail(100_000) })
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

// Twice as many marks are at most about twice the work, within each other or one after another: the work is the CPU
// time of this process, and what else it does is small beside it.
func TestMarkdownIsLinearWork(t *testing.T) {
	lines := func(marks string, end string) func(int) string {
		line := func(n int) string { return strings.Repeat(marks, n/len(marks)) + end }
		return func(n int) string { return strings.Repeat(line(n), 20) }
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
		"references":              func(n int) string { return strings.Repeat("[a]: b\n", 3*n) + "\na" },
	} {
		t.Run(name, func(t *testing.T) {
			once, twice := workOf(t, text(20_000)), workOf(t, text(40_000))
			t.Logf("%v, twice as much %v", once, twice)
			// A square is 4 times; caches and neighbours make twice up to 2.4 times. Where there is little work, what
			// else the process does counts.
			assert.Less(t, twice, 3*once+20*time.Millisecond)
		})
	}
}

// growing has a list within the list of the line before, to n bytes in the last line, and then as many lines as deep.
func growing(n int) string {
	var b strings.Builder
	for depth := range n / 40 {
		_, _ = b.WriteString(strings.Repeat("  ", depth) + "- a\n")
	}
	return b.String() + strings.Repeat(strings.Repeat("  ", n/40)+"b\n", 1000)
}

// workOf is the least CPU time of some that reading a document took.
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

// entities are an XML document that would have 10^9 times three letters.
func entities() repeated {
	var b strings.Builder
	b.WriteString(`<?xml version="1.0"?><!DOCTYPE w [<!ENTITY l0 "lol">`)
	for i := range 9 {
		_, _ = fmt.Fprintf(&b, `<!ENTITY l%d "%s">`, i+1, strings.Repeat(fmt.Sprintf("&l%d;", i), 10))
	}
	return repeated{b.String() + "]><w><p><t>", "&l9;", 1, "</t></p></w>"}
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

// nestedMail is an e-mail of parts within parts.
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
