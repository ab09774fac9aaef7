// Package bombtest has bombs: files of a few bytes, or some megabytes, that could cause a reader any amount of work.
// They are for tests of readers of documents, and of the work that goes on at the same time.
//
// It imports the standard library and testify, and reads the documents of ../testdata that it changes.
package bombtest

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// content is a text that repeats a piece, so that an archive holds it in few bytes.
type content struct {
	begin, again string
	times        int
	end          string
}

func (r content) write(w io.Writer) {
	_, _ = io.WriteString(w, r.begin)
	block := strings.Repeat(r.again, 1+(64<<10)/max(1, len(r.again)))
	for left := r.times * len(r.again); left > 0; left -= len(block) {
		_, _ = io.WriteString(w, block[:min(left, len(block))])
	}
	_, _ = io.WriteString(w, r.end)
}

// officeBomb is one of the documents of testdata with another content of a member.
func officeBomb(t testing.TB, file, name string, text content) []byte {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	data, err := os.ReadFile(filepath.Join(filepath.Dir(here), "../testdata", file))
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
	text.write(w)
	require.NoError(t, out.Close())
	assert.True(t, replaced || strings.Contains(name, "new"), name)
	return b.Bytes()
}

// inside is a member of one of the documents of testdata, by its ending. Other formats have no document.
var inside = map[string]struct{ file, name string }{
	"docx": {"terms.docx", "word/document.xml"}, "styles.docx": {"terms.docx", "word/styles.xml"},
	"slide.pptx": {"plan.pptx", "ppt/slides/slide1.xml"}, "pptx": {"plan.pptx", "ppt/presentation.xml"},
	"xlsx": {"stock.xlsx", "xl/worksheets/sheet1.xml"}, "else.xlsx": {"stock.xlsx", "xl/media/new.png"},
	"chapter.epub": {"tale.epub", "EPUB/text/b.xhtml"}, "epub": {"tale.epub", "EPUB/content.opf"},
}

const (
	flat          = `<office:document ><office:body><office:spreadsheet><table:table table:name="S">`
	manyRows      = `<table:table-row table:number-rows-repeated="1048576">`
	manyCells     = `<table:table-cell table:number-columns-repeated="16384"><text:p>`
	cellsEnd      = "</text:p></table:table-cell></table:table-row>"
	aRepeatedRow  = manyRows + manyCells + "text" + cellsEnd
	aRepeatedCell = "<table:table-row>" + manyCells + "a" + cellsEnd
	aCoveredRow   = "<table:table-row>" + manyCovered + "</table:table-row>"
	manyCovered   = `<table:covered-table-cell table:number-columns-repeated="16384"/>`

	sheetTop = `<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>`
	sheetEnd = `</sheetData></worksheet>`
	rowEnd   = "</row>" + sheetEnd
	inlineA  = `<c t="inlineStr"><is><t>a</t></is></c>`
	aStyle   = `<style styleId="a"><basedOn val="a"/></style>`
	anItem   = `<p><item id="a" href="text/b.xhtml" media-type="text/html"/>`
	itself   = `<p><item id="a" href="content.opf" media-type="text/html"/>`
	aRow     = "0000000000 00000 n \n"
	// aHugeTable is a PDF that claims to have 10^9 objects.
	aHugeTable = "%PDF-1.7\nxref\n1000000000 1\n" + aRow + "trailer\n<< /Size 1 >>\nstartxref\n9\n%%EOF\n"
	million    = 1_000_000
	aSpan      = "<td colspan=1000 rowspan=65534>a"
	aMerge     = `<mergeCell ref="A1:XFD1048576"/>`
	aWordSpan  = `<tr><tc><tcPr><gridSpan val="16384"/><vMerge/></tcPr><p><t>a</t></p></tc></tr>`
	merges     = "</sheetData><mergeCells>"
)

// aLongSpan is a cell of much text in many rows, aLongRow a row of one such cell, and aLastRow the last possible row.
var (
	aLongSpan = "<table><tr><td rowspan=65534>" + strings.Repeat("text ", 5000)
	aLongCell = "<table:table-row>" + manyCells + strings.Repeat("text ", 5000) + cellsEnd
	aLongRow  = `<row r="1"><c r="A1" t="str"><v>` + strings.Repeat("text ", 5000) + "</v></c></row>"
	aLastRow  = `<row r="1048576"><c r="XFD1048576"/></row>`
)

// bombs have names that end in their declared format.
var bombs = map[string]content{
	"unpacks to 2 GB.docx":    {"<w><!--", " ", 2000 * million, "-->"},
	"text of 200 MB.docx":     {"<w><t>", "x", 200 * million, "</t></w>"},
	"entities.docx":           entities(),
	"a table of 10^9.pdf":     {aHugeTable, "\n", 60, ""},
	"a table.pdf":             {"%PDF-1.7\nxref\n0 900000\n", aRow, 900_000, ""},
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
	"spans.html":              {"<table>", "<tr>" + aSpan + aSpan, million / 2, ""},
	"empty spans.html":        {"<table>", "<tr><td colspan=1000><td colspan=1000>", million, ""},
	"rows below spans.html":   {"<table><tr>" + strings.Repeat(aSpan, 20), "<tr>", 10 * million, ""},
	"a long span.html":        {aLongSpan, "<tr><td>a", million, ""},
	"tables in a cell.html":   {"<table><tr><th>a<td>", "<table><tr><td>a", 3 * million, ""},
	"merged.xlsx":             {sheetTop + aLongRow + aLastRow + merges, aMerge, 5 * million, ""},
	"merged few.xlsx":         {sheetTop + aLongRow + aLastRow + merges, aMerge, 10_000, "</mergeCells></worksheet>"},
	"merged rows.xlsx":        {sheetTop, aLongRow, 10_000, merges + aMerge + "</mergeCells></worksheet>"},
	"spans.docx":              {"<w><tbl>", aWordSpan, million, "</tbl></w>"},
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
	"repeated rows.fods":      {flat + aRepeatedRow, " ", 0, ""},
	"rows of cells.fods":      {flat, aRepeatedCell, million / 3, ""},
	"covered cells.fods":      {flat + aLongCell, aCoveredRow, million / 3, ""},
	"empty rows.fods":         {flat, `<table:table-row table:number-rows-repeated="1048576"/>`, million / 2, ""},
	"deep.fodt":               {flat, "<text:p>", million, ""},
	"notes.fodt":              {flat, "<text:p><text:note>a</text:note></text:p>", million, ""},
	"paragraphs.fodt":         {flat, "<text:h>a</text:h>", 2 * million, ""},
	"UTF-16.txt":              {"\xff\xfe", "a\x00", 25 * million, ""},
}

// Names are the names of all bombs.
func Names() []string { return slices.Sorted(maps.Keys(bombs)) }

// File is the bomb of this name as a file.
func File(t testing.TB, name string) []byte {
	t.Helper()
	bomb, is := bombs[name]
	require.True(t, is, name)
	_, ending, _ := strings.Cut(name, ".")
	if at, is := inside[ending]; is {
		return officeBomb(t, at.file, at.name, bomb)
	}
	var b bytes.Buffer
	bomb.write(&b)
	return b.Bytes()
}

// entities are an XML document that would have 10^9 times three letters.
func entities() content {
	var b strings.Builder
	b.WriteString(`<?xml version="1.0"?><!DOCTYPE w [<!ENTITY l0 "lol">`)
	for i := range 9 {
		_, _ = fmt.Fprintf(&b, `<!ENTITY l%d "%s">`, i+1, strings.Repeat(fmt.Sprintf("&l%d;", i), 10))
	}
	return content{b.String() + "]><w><p><t>", "&l9;", 1, "</t></p></w>"}
}
