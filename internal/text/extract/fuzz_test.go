package extract

import (
	"archive/zip"
	"bytes"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/xuri/excelize/v2"

	"agentplatform/internal/text/document"
)

// FuzzReaders calls the readers in this process, where a crash is found. In a child, a crash would be a Fault.
func FuzzReaders(f *testing.F) {
	names := slices.Sorted(maps.Keys(readers))
	for n := range names {
		for _, seed := range seeds {
			f.Add(uint8(n), []byte(seed))
		}
	}
	workbook, err := os.ReadFile("testdata/stock.xlsx")
	require.NoError(f, err)
	locked, err := excelize.Encrypt(workbook, &excelize.Options{Password: defaultPassword})
	require.NoError(f, err)
	f.Add(uint8(slices.Index(names, compound)), locked)
	f.Fuzz(func(t *testing.T, n uint8, data []byte) {
		name := names[int(n)%len(names)]
		for _, whole := range []bool{true, false} {
			if text, _, err := (job{Format: name, Whole: whole}).read(data); err == nil {
				isWellFormed(t, text)
			}
		}
	})
}

// FuzzMembers calls the readers of archives with members that are broken, rather than broken archives.
func FuzzMembers(f *testing.F) {
	type entry struct {
		archive []byte
		name    string
	}
	var entries []entry
	for _, at := range []struct{ file, name string }{
		{"terms.docx", "word/document.xml"}, {"terms.docx", "word/styles.xml"}, {"plan.pptx", "ppt/presentation.xml"},
		{"plan.pptx", "ppt/slides/slide1.xml"}, {"stock.xlsx", "xl/workbook.xml"}, {"stock.xlsx", "xl/styles.xml"},
		{"stock.xlsx", "xl/worksheets/sheet1.xml"}, {"stock.xlsx", "docProps/core.xml"},
		{"tale.epub", "EPUB/content.opf"}, {"tale.epub", "EPUB/text/b.xhtml"}, {"tale.epub", "META-INF/container.xml"},
	} {
		data, err := os.ReadFile("testdata/" + at.file)
		require.NoError(f, err)
		f.Add(uint8(len(entries)), memberOf(f, data, at.name))
		entries = append(entries, entry{data, at.name})
	}
	office := zipOf(f,
		"word/document.xml", `<w:document><w:p><a:graphic><c:chart r:id="c"/></a:graphic></w:p></w:document>`,
		"word/_rels/document.xml.rels", related("c", "chart", "c.xml", "h", "header", "h.xml"), "word/c.xml", chartOf,
		"word/h.xml", `<w:hdr><w:p><w:t>ACME</w:t></w:p></w:hdr>`)
	open := openOf(f, "text", openTextBody+`<draw:object xlink:href="./o"/>`, "styles.xml", openStyles,
		"o/content.xml", openBody("chart", `<chart:title><text:p>Sales</text:p></chart:title>`))
	for _, at := range []entry{
		{office, "word/c.xml"}, {office, "word/h.xml"}, {office, "word/_rels/document.xml.rels"},
		{open, "content.xml"}, {open, "styles.xml"}, {open, "o/content.xml"},
	} {
		f.Add(uint8(len(entries)), memberOf(f, at.archive, at.name))
		entries = append(entries, at)
	}
	f.Fuzz(func(t *testing.T, n uint8, content []byte) {
		at := entries[int(n)%len(entries)]
		text, _, err := job{Format: archive, Whole: true}.read(withMember(t, at.archive, at.name, content))
		if err == nil {
			isWellFormed(t, text)
		}
	})
}

func memberOf(f *testing.F, data []byte, name string) []byte {
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	require.NoError(f, err)
	content, err := fs.ReadFile(z, name)
	require.NoError(f, err)
	return content
}

// withMember is an archive with another content of a member.
func withMember(t *testing.T, data []byte, name string, content []byte) []byte {
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	var b bytes.Buffer
	out := zip.NewWriter(&b)
	for _, f := range z.File {
		if f.Name != name {
			require.NoError(t, out.Copy(f))
		}
	}
	w, err := out.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
	require.NoError(t, err)
	_, err = w.Write(content)
	require.NoError(t, err)
	require.NoError(t, out.Close())
	return b.Bytes()
}

// seeds are small files, one for each way into a reader.
var seeds = []string{
	"", "a", "# One\n\n- two\n  - three\n\n|a|b|\n|-|-|\n|1|2|\n\n```\ncode\n```\n> quote<b>c</b>\n",
	"<title>t</title><h1>a</h1><p>b<nav>c</nav><ul><li>d</ul><table><tr><th>e<tr><td>f</table><pre> g\n h</pre>",
	"a;b\n1;\"2\n3\"\n", `{"a":[1,{"b":"c"}],"d":null}`, "{\"a\":1}\n{\"a\":2}", "PK\x03\x04",
	`{\rtf1\ansi{\info{\title a}}\uc1 b\'e4\u228?{\*\x y}\par\intbl c\cell\row\pard\outlinelevel1 d}`, mailed,
	"\xff\xfeh\x00i\x00", "Gr\xfc\xdfe aus K\xf6ln", "a\r\rb\u00a0\u2028c\x00", "---\ntitle: x\n---\n\ny",
	string(flatOf("text", openTextBody, openMeta, openStyles)), string(flatOf("spreadsheet", openSheets)),
	string(flatOf("presentation", openSlides+openChart)),
	"From a\nSubject: s\n\nx\n\nFrom b\nSubject: t\n\ny", "WEBVTT\n\n1\n00:01.0 --> 00:02.0\n<v A>b <i>c</i>\n",
	`<?xml version="1.0"?><a xml:lang="de"><title>b</title><c>d<e>f</e></c><g/>&lt;</a>`,
	`{"cells":[{"cell_type":"markdown","source":["# a"]},{"cell_type":"code","source":"b","outputs":[{"text":"c"}]}]}`,
	`{\rtf1\ansi\deff0{\fonttbl{\f0\fcharset238 A;}{\f1\fcharset128\cpg932 B;}}\f0 \'b3{\f1 \'93\'fa}\plain x}`,
	strings.Repeat("-\t> 1)\t* + ", maxContained) + "a\n> b\n", strings.Repeat(">", 3*maxContained) + "\n>\n- ",
}

// isWellFormed tests what is promised of every text.
func isWellFormed(t require.TestingT, text document.Text) {
	require.True(t, utf8.ValidString(text.Body))
	body := []rune(text.Body)
	for _, r := range body {
		require.False(t, unicode.IsControl(r) && r != '\n' && r != '\t', "%q", r)
	}
	last := 0
	for n, b := range text.Blocks {
		require.LessOrEqual(t, last, b.Start)
		require.Less(t, b.Start, b.End)
		require.LessOrEqual(t, b.End, len(body))
		require.Empty(t, strings.TrimSpace(string(body[last:b.Start])), "between blocks")
		part := string(body[b.Start:b.End])
		assert.Equal(t, strings.Trim(part, "\n"), part, "block %d", n)
		if b.Kind == document.Heading || b.Kind == document.Item {
			assert.Equal(t, strings.TrimSpace(part), part, "block %d", n)
		}
		assert.NotEmpty(t, strings.TrimSpace(part))
		assert.Equal(t, b.Kind == document.Heading, b.Level > 0, "block %d of kind %s has level %d", n, b.Kind, b.Level)
		if b.Kind == document.Row && b.Header >= 0 {
			require.LessOrEqual(t, b.Header, n)
			assert.Equal(t, document.Row, text.Blocks[b.Header].Kind)
			assert.Equal(t, b.Header, text.Blocks[b.Header].Header)
		}
		last = b.End
	}
	require.Empty(t, strings.TrimSpace(string(body[last:])), "after the last block")
	assert.True(t, slices.IsSorted(text.Pages))
	for _, at := range text.Pages {
		assert.LessOrEqual(t, at, len(body))
	}
}
