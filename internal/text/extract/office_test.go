package extract

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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

// Programs name the main part of a document as they like; the archive says which it is.
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
