package extract

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/xuri/excelize/v2"
)

// related are the relations of a member: ids, kinds and targets.
func related(triples ...string) string {
	all := "<Relationships>"
	for i := 0; i < len(triples); i += 3 {
		all += fmt.Sprintf(`<Relationship Id="%s" Type="http://x/%s" Target="%s"/>`, triples[i], triples[i+1],
			triples[i+2])
	}
	return all + "</Relationships>"
}

// Programs may give the main part of a document any name; the archive names it.
func TestTheMainPartMayHaveAnyName(t *testing.T) {
	sheet := `<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData><row r="1">` +
		`<c r="A1" t="inlineStr"><is><t>a</t></is></c></row></sheetData></worksheet>`
	book := `<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" xmlns:r="` + relationsOf +
		`"><sheets><sheet name="S" sheetId="1" r:id="a"/></sheets></workbook>`
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"a.docx": {zipOf(t, "_rels/.rels", related("a", "officeDocument", "/word/document2.xml", "b", "core-properties",
			"about.xml"), "about.xml", "<p><title>T</title></p>",
			"word/document2.xml", `<w:document><w:p><w:pStyle w:val="x"/><w:t>a</w:t></w:p></w:document>`,
			"word/_rels/document2.xml.rels", related("a", "styles", "styles2.xml", "b", "footnotes", "/notes.xml"),
			"word/styles2.xml", `<p><w:style w:styleId="x"/><w:name w:val="heading 2"/></p>`,
			"notes.xml", `<w:footnotes><w:p><w:t>n</w:t></w:p></w:footnotes>`), "h2 \"a\"\np \"n\""},
		"a.pptx": {zipOf(t, "_rels/.rels", related("a", "officeDocument", "a/b.xml"), "about.xml", "",
			"a/b.xml", `<p:presentation><p:sldId r:id="a"/></p:presentation>`,
			"a/_rels/b.xml.rels", related("a", "slide", "s.xml"), "a/s.xml", "<a:p><a:t>a</a:t></a:p>"), `p "a"`},
		"a.xlsx": {zipOf(t, "_rels/.rels", officeRelation("officeDocument", "xl/book.xml"), "xl/book.xml", book,
			"xl/_rels/book.xml.rels", officeRelation("worksheet", "sheet.xml"), "xl/sheet.xml", sheet),
			"h1 \"S\"\nr1 \"a\""},
	} {
		for _, name := range []string{name, "a.bin"} {
			text, err := documentOf(t, "", name, c.data)
			require.NoError(t, err, name)
			assert.Equal(t, c.want, outline(text), name)
		}
	}
}

const relationsOf = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"

func officeRelation(kind, target string) string {
	return `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="a" ` +
		`Type="` + relationsOf + "/" + kind + `" Target="` + target + `"/></Relationships>`
}

// chartOf is a chart of two series, of which one has dates, and of another one with points of its own.
const chartOf = `<c:chartSpace><c:chart><c:title><c:tx><c:rich><a:p><a:r><a:t>Sales </a:t></a:r><a:r>
<a:t>by day</a:t></a:r></a:p></c:rich></c:tx></c:title><c:plotArea><c:lineChart><c:ser><c:tx><c:strRef><c:strCache>
<c:pt idx="0"><c:v>Noše</c:v></c:pt></c:strCache></c:strRef></c:tx><c:errBars><c:pt idx="0"><c:v>9</c:v></c:pt>
</c:errBars><c:cat><c:numRef><c:f>no</c:f><c:numCache><c:formatCode>[Red]yyyy\-mm\-dd</c:formatCode><c:pt idx="0">
<c:v>45292</c:v></c:pt><c:pt idx="1"><c:v>45293</c:v></c:pt></c:numCache></c:numRef></c:cat><c:val><c:numRef>
<c:numCache><c:formatCode>[Red]0.0 "days"</c:formatCode><c:pt idx="0"><c:v>4.2999999999999998</c:v></c:pt>
</c:numCache></c:numRef></c:val></c:ser><c:ser><c:tx><c:v>B</c:v></c:tx><c:val><c:numLit><c:pt idx="1">
<c:v>1E3</c:v></c:pt></c:numLit></c:val></c:ser></c:lineChart><c:scatterChart><c:ser><c:xVal><c:multiLvlStrRef>
<c:multiLvlStrCache><c:lvl><c:pt idx="0"><c:v>01</c:v></c:pt><c:pt idx="1"><c:v>02</c:v></c:pt></c:lvl><c:lvl>
<c:pt idx="0"><c:v>Q1</c:v></c:pt></c:lvl></c:multiLvlStrCache></c:multiLvlStrRef></c:xVal><c:yVal><c:numRef>
<c:numCache><c:pt idx="0"><c:v>7</c:v></c:pt></c:numCache></c:numRef></c:yVal></c:ser></c:scatterChart><c:valAx>
<c:title><c:tx><c:rich><a:p><a:r><a:t>in tons</a:t></a:r></a:p></c:rich></c:tx></c:title></c:valAx></c:plotArea>
</c:chart></c:chartSpace>`

const sheetSpace = `xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" xmlns:r="` + relationsOf + `"`

// sheets makes a workbook of two sheets: one with a cell, and one with only a chart.
func sheets(t require.TestingT, end string, others ...string) []byte {
	return zipOf(t, append([]string{
		"_rels/.rels", officeRelation("officeDocument", "xl/workbook.xml"),
		"xl/workbook.xml", `<workbook ` + sheetSpace + `><sheets>` +
			`<sheet name="S" sheetId="1" r:id="a"/>` +
			`<sheet name="C" sheetId="2" r:id="b"/></sheets></workbook>`,
		"xl/_rels/workbook.xml.rels",
		`<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">` +
			`<Relationship Id="a" Type="` + relationsOf + `/worksheet" Target="s.xml"/><Relationship Id="b" Type="` +
			relationsOf + `/chartsheet" Target="c.xml"/></Relationships>`,
		"xl/s.xml", `<worksheet ` + sheetSpace + `><sheetData><row r="1">` +
			`<c r="A1" t="inlineStr"><is><t>a</t></is></c></row></sheetData>` + end + `</worksheet>`,
		"xl/c.xml", `<chartsheet ` + sheetSpace + `/>`,
	}, others...)...)
}

// A binary workbook names its main part as others do.
func TestBinaryWorkbooksAreNotKnown(t *testing.T) {
	for _, c := range []struct{ name, kind string }{
		{"a.xlsb", ""}, {"a", "application/vnd.ms-excel.sheet.binary.macroEnabled.12"},
	} {
		_, err := documentOf(t, c.kind, c.name, zipOf(t,
			"_rels/.rels", officeRelation("officeDocument", "xl/workbook.bin"),
			"xl/workbook.bin", "\x83\x01\x00\x80\x01\x32\x02",
			"xl/_rels/workbook.bin.rels", related("a", "sheet", "s.bin")))
		assert.Equal(t, ErrKind, err)
	}
}

// Parts other than the text may be broken.
func TestBrokenPartsBesideTheTextAreLeftOut(t *testing.T) {
	const frame = `<a:graphic><c:chart r:id="c"/></a:graphic>`
	deep := strings.Repeat("<a>", maxDepth+1)
	charts, drawing := related("c", "chart", "c1.xml"), related("a", "drawing", "d.xml")
	open := `<draw:frame><draw:object xlink:href="./Object 1"/></draw:frame><text:p>A</text:p>`
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"a.docx": {zipOf(t, "word/document.xml", `<w:document><w:p>`+frame+`<w:t>A</w:t></w:p></w:document>`,
			"word/_rels/document.xml.rels", related("c", "chart", "c1.xml", "h", "header", "h.xml"),
			"word/c1.xml", chartOf[:len(chartOf)/2], "word/h.xml", "<w:hdr>\x01"), `p "A"`},
		"a.pptx": {zipOf(t, "ppt/presentation.xml", `<p><p:sldId r:id="a"/></p>`, "ppt/_rels/presentation.xml.rels",
			related("a", "slide", "s.xml"), "ppt/s.xml", frame+`<p:sp><a:p><a:t>A</a:t></a:p></p:sp>`,
			"ppt/_rels/s.xml.rels", charts, "ppt/c1.xml", deep), `p "A"`},
		"chart.xlsx": {sheets(t, "", "xl/_rels/s.xml.rels", drawing, "xl/d.xml", frame, "xl/_rels/d.xml.rels", charts,
			"xl/c1.xml", "<\x01"), "h1 \"S\"\nr1 \"a\""},
		"drawing.xlsx": {sheets(t, "", "xl/_rels/s.xml.rels", drawing, "xl/d.xml", deep, "xl/_rels/d.xml.rels", charts),
			"h1 \"S\"\nr1 \"a\""},
		"links.xlsx": {sheets(t, "", "xl/_rels/s.xml.rels", "<a"), "h1 \"S\"\nr1 \"a\""},
		"a.odt":      {openOf(t, "text", open, "Object 1/content.xml", "<a><"), `p "A"`},
	} {
		text, err := documentOf(t, "", name, c.data)
		if assert.NoError(t, err, name) {
			assert.Equal(t, c.want, outline(text), name)
		}
	}
}

func TestChartsAreRead(t *testing.T) {
	const frame = `<a:graphic><c:chart r:id="c"/><c:chart r:id="c"/><c:chart r:id="d"/></a:graphic>`
	table := func(at int) string {
		return fmt.Sprintf(`p "Sales by day"
p "in tons"
r%d "\tNoše\tB"
r%d "2024-01-01\t4.3\t"
r%d "2024-01-02\t\t1000"
r-1 "Q1 01\t7"
r-1 "Q1 02\t"`, at, at, at)
	}
	charts := related("c", "chart", "c1.xml", "d", "chart", "missing.xml")
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"a.docx": {zipOf(t, "word/document.xml", `<w:document><w:p><w:t>Before</w:t>`+frame+`<w:t> it.</w:t></w:p>`+
			`<w:p><w:t>After.</w:t></w:p></w:document>`,
			"word/_rels/document.xml.rels", charts, "word/c1.xml", chartOf),
			"p \"Before it.\"\n" + table(3) + "\np \"After.\""},
		"cell.docx": {zipOf(t, "word/document.xml", `<w:tbl><w:tr><w:tc><w:p>`+frame+`<w:t>A</w:t></w:p></w:tc></w:tr>`+
			`</w:tbl>`, "word/_rels/document.xml.rels", charts, "word/c1.xml", chartOf), "r-1 \"A\"\n" + table(3)},
		"a.pptx": {zipOf(t, "ppt/presentation.xml", `<p><p:sldId r:id="a"/></p>`, "ppt/_rels/presentation.xml.rels",
			related("a", "slide", "s.xml"), "ppt/s.xml", `<p:graphicFrame>`+frame+`</p:graphicFrame><p:sp>`+
				`<a:p><a:t>A</a:t></a:p></p:sp>`,
			"ppt/_rels/s.xml.rels", charts, "ppt/c1.xml", chartOf), table(2) + "\np \"A\""},
		"a.xlsx": {sheets(t, "", "xl/_rels/s.xml.rels", related("a", "drawing", "d.xml"), "xl/d.xml", frame,
			"xl/_rels/d.xml.rels", charts, "xl/c1.xml", chartOf,
			"xl/_rels/c.xml.rels", related("a", "drawing", "d.xml")),
			"h1 \"S\"\nr1 \"a\"\n" + table(4) + "\nh1 \"C\"\n" + table(12)},
	} {
		text, err := documentOf(t, "", name, c.data)
		require.NoError(t, err)
		assert.Equal(t, c.want, outline(text), name)
	}
}

func TestHeadersAndFootersAreReadOnce(t *testing.T) {
	const page = `<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText> PAGE \* MERGEFORMAT</w:instrText>` +
		`</w:r><w:r><w:fldChar w:fldCharType="separate"/></w:r><w:t>7</w:t><w:fldChar w:fldCharType="end"/>`
	header := `<w:hdr><w:tbl><w:tr><w:tc><w:p><w:t>ACME</w:t></w:p></w:tc></w:tr></w:tbl><w:p><w:t>Page </w:t>` + page +
		`<w:t> of </w:t><w:fldSimple w:instr=" NUMPAGES "><w:t>9</w:t></w:fldSimple></w:p><w:p/></w:hdr>`
	slide := func(n string) string {
		return `<p:sp><a:p><a:t>` + n + `</a:t></a:p></p:sp><p:sp><p:ph type="ftr"/><a:p><a:t>ACME</a:t></a:p><a:p>` +
			`<a:t>page</a:t><a:fld type="slidenum"><a:t>` + n + `</a:t></a:fld></a:p></p:sp>` +
			`<p:sp><p:ph type="sldNum"/><a:p>` +
			`<a:t>7</a:t></a:p></p:sp>`
	}
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"a.docx": {zipOf(t, "word/document.xml", `<w:p><w:t>On page </w:t>`+page+`</w:p>`,
			"word/_rels/document.xml.rels", related("a", "header", "h1.xml", "b", "header", "h2.xml",
				"c", "footer", "f.xml"), "word/h1.xml", header,
			"word/h2.xml", header, "word/f.xml", `<w:ftr><w:p><w:t>Made in Łódź by ACME, </w:t>`+page+`</w:p></w:ftr>`),
			"p \"On page 7\"\np \"ACME\"\np \"Made in Łódź by ACME,\""},
		"a.pptx": {zipOf(t, "ppt/presentation.xml", `<p><p:sldId r:id="a"/><p:sldId r:id="b"/></p>`,
			"ppt/_rels/presentation.xml.rels", related("a", "slide", "s.xml", "b", "slide", "t.xml"),
			"ppt/s.xml", slide("1"), "ppt/t.xml", slide("2")), "p \"1\"\np \"2\"\np \"ACME\""},
		"a.xlsx": {sheets(t, `<headerFooter><oddHeader>&amp;L&amp;"Arial,Bold"&amp;K01+034&amp;8ACME `+
			`&amp;&amp; Co&amp;C&amp;A&amp;RIn confidence</oddHeader>`+
			`<oddFooter>Page &amp;P of &amp;N</oddFooter><firstFooter>In confidence`+
			`</firstFooter></headerFooter>`), "h1 \"S\"\nr1 \"a\"\np \"ACME & Co\"\np \"In confidence\""},
	} {
		text, err := documentOf(t, "", name, c.data)
		require.NoError(t, err)
		assert.Equal(t, c.want, outline(text), name)
	}
}

// Ruby is the pronunciation of words. In the text it would separate them.
func TestRubyIsLeftOut(t *testing.T) {
	const ruby = `<w:p><w:r><w:ruby><w:rt><w:t>とうきょう</w:t></w:rt><w:rubyBase><w:t>東京</w:t></w:rubyBase></w:ruby>` +
		`<w:t>都</w:t></w:r></w:p>`
	text, err := documentOf(t, "", "a.docx", zipOf(t, "word/document.xml", ruby))
	require.NoError(t, err)
	assert.Equal(t, "東京都", text.Body)
}

// Excel encrypts a workbook with protected sheets by a password that everybody knows, and opens it without asking.
func TestAWorkbookWithTheDefaultPasswordIsRead(t *testing.T) {
	workbook := grid{{{text: "North", across: 1, down: 1}}}.sheet(t)
	for password, want := range map[string]error{
		"VelvetSweatshop": nil, "secret": Fault{Encrypted, "the document has a password"},
	} {
		locked, err := excelize.Encrypt(workbook, &excelize.Options{Password: password})
		require.NoError(t, err)
		text, err := documentOf(t, "", "a.xlsx", locked)
		require.ErrorIs(t, err, want)
		assert.Equal(t, want == nil, strings.Contains(text.Body, "North"), text.Body)
	}
}
