package extract

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// openOf makes an OpenDocument file of a kind, with other members beside its content.
func openOf(t require.TestingT, kind, content string, others ...string) []byte {
	return zipOf(t, append([]string{
		"mimetype", "application/vnd.oasis.opendocument." + kind,
		"content.xml", "<office:document-content>" + openBody(kind, content) + "</office:document-content>",
	}, others...)...)
}

// flatOf makes one that is one XML document.
func flatOf(kind, content string, before ...string) []byte {
	return []byte(`<?xml version="1.0" encoding="UTF-8"?>` + "\n" + `<office:document xmlns:office="x">` +
		strings.Join(before, "") + openBody(kind, content) + "</office:document>")
}

func openBody(kind, content string) string {
	return "<office:body><office:" + kind + ">" + content + "</office:" + kind + "></office:body>"
}

const (
	openMeta = `<office:meta><dc:title>Terms</dc:title></office:meta>`
	// openStyles has a header and a footer, the pages' numbers, and placeholders of slides.
	openStyles = `<office:styles><style:default-style><style:text-properties fo:language="pl" fo:country="PL"/>
</style:default-style><style:style style:name="Title"/><style:style style:name="P1" style:parent-style-name="Title"/>
<style:style style:name="ta2"><style:table-properties table:display="false"/></style:style></office:styles>
<office:master-styles><style:master-page>
<style:header><text:p>ACME <text:date>1 May</text:date></text:p></style:header>
<style:header-left style:display="false"><text:p>Never</text:p></style:header-left>
<style:footer><text:p>Page <text:page-number>1</text:page-number> of <text:page-count>9</text:page-count></text:p>
<text:p>Made in Łódź, page <text:page-number>1</text:page-number></text:p></style:footer>
<draw:frame><draw:text-box><text:p>Click to edit</text:p></draw:text-box></draw:frame></style:master-page>
<style:master-page><style:header><text:p>ACME</text:p><text:p>(<text:title>???</text:title>)</text:p></style:header>
</style:master-page></office:master-styles>`
	openTextBody = `<text:tracked-changes><text:deletion><text:p>deleted</text:p></text:deletion></text:tracked-changes>
<text:p text:style-name="P1">Terms</text:p><text:h text:outline-level="2">Deli<text:s text:c="3"/>very</text:h>
<text:p>Goods<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>All <text:span>of</text:span>
them.</text:p></text:note-body></text:note> arrive<text:line-break/>in<text:tab/>ten
days<office:annotation><text:p>Really?</text:p></office:annotation>.</text:p>
<text:list><text:list-item><text:p>by road</text:p><text:list><text:list-item><text:p>or rail</text:p></text:list-item>
</text:list></text:list-item></text:list>
<text:p><text:ruby><text:ruby-base>東京</text:ruby-base><text:ruby-text>とうきょう</text:ruby-text></text:ruby></text:p>
<table:table><table:table-header-rows><table:table-row><table:table-cell><text:p>Region</text:p></table:table-cell>
<table:table-cell><text:p>Days</text:p></table:table-cell></table:table-row></table:table-header-rows><table:table-row>
<table:table-cell><text:p>Łódź</text:p></table:table-cell><table:table-cell><text:p>3<text:note><text:note-body>
<text:p>Four in May.</text:p></text:note-body></text:note></text:p></table:table-cell></table:table-row></table:table>
<text:p>A picture<draw:frame><svg:title>no</svg:title><svg:desc>no</svg:desc><draw:image><office:binary-data>AAAA
</office:binary-data></draw:image></draw:frame> ends.</text:p>`
	openTextOutline = `h1 "Terms"
h2 "Deli very"
p "Goods arrive\nin	ten days."
i "by road"
i "or rail"
p "東京"
r6 "Region	Days"
r6 "Łódź	3"
p "A picture ends."
p "All of them."
p "Four in May."
p "ACME"
p "Made in Łódź, page"`
)

func TestStructureOfOpenDocumentsIsKept(t *testing.T) {
	outlined := strings.ReplaceAll(openTextOutline, "\t", `\t`)
	for name, data := range map[string][]byte{
		"a.odt": openOf(t, "text", openTextBody, "meta.xml", openMeta, "styles.xml", "<s>"+openStyles+"</s>"),
		"a.bin": openOf(t, "text", openTextBody, "meta.xml", openMeta, "styles.xml", "<s>"+openStyles+"</s>"),
		"a.xml": flatOf("text", openTextBody, openMeta, openStyles),
	} {
		text, err := documentOf(t, "", name, data)
		require.NoError(t, err)
		assert.Equal(t, outlined, outline(text), name)
		assert.Equal(t, "Terms", text.Title)
		assert.Equal(t, "pl-PL", text.Language)
	}
}

const (
	openSlides = `<presentation:footer-decl presentation:name="f">In confidence</presentation:footer-decl>
<draw:page><draw:frame presentation:class="title"><draw:text-box><text:p>Where we stand</text:p></draw:text-box>
</draw:frame><draw:frame presentation:class="outline"><draw:text-box><text:list><text:list-item>
<text:p>Sales rose</text:p></text:list-item></text:list></draw:text-box></draw:frame>
<draw:frame presentation:class="page-number"><draw:text-box><text:p>1</text:p></draw:text-box></draw:frame>
<draw:frame presentation:class="footer"><draw:text-box><text:p>Draft</text:p></draw:text-box></draw:frame>
<presentation:notes><draw:page-thumbnail/><draw:frame presentation:class="notes"><draw:text-box>
<text:p>Thank the depot.</text:p></draw:text-box></draw:frame></presentation:notes></draw:page><draw:page/>
<draw:page><draw:custom-shape><text:p>A shape</text:p></draw:custom-shape></draw:page>`
	openSheets = `<table:table table:name="Stock &amp; more"><table:shapes><draw:frame>
<draw:object xlink:href="./Object 1"/></draw:frame></table:shapes>
<table:table-column/><table:table-row><table:table-cell office:value-type="string">
<text:p>Part</text:p></table:table-cell><table:table-cell><text:p>Number</text:p></table:table-cell></table:table-row>
<table:table-row table:number-rows-repeated="2"><table:table-cell><text:p>bolt</text:p></table:table-cell>
<table:table-cell office:value-type="float" office:value="123456789012"><text:p>1.23E+11</text:p></table:table-cell>
</table:table-row><table:table-row table:number-rows-repeated="1048573"><table:table-cell
 table:number-columns-repeated="16384"/></table:table-row></table:table><table:table table:name="Hidden"
 table:style-name="ta2"><table:table-row><table:table-cell><text:p>secret</text:p></table:table-cell></table:table-row>
</table:table><table:table table:name="Empty"/><table:table table:name="Bare"><table:table-row><table:table-cell
 office:value-type="date" office:date-value="2024-03-09"/><table:table-cell/></table:table-row></table:table>`
	openChart = `<office:document-content><office:body><office:chart><chart:chart><chart:title>
<text:p>Days by region</text:p></chart:title><table:table table:name="local-table"><table:table-header-rows>
<table:table-row><table:table-cell><text:p/></table:table-cell><table:table-cell><text:p>Days</text:p>
</table:table-cell></table:table-row></table:table-header-rows><table:table-rows><table:table-row><table:table-cell>
<text:p>North</text:p><text:list><text:list-item><text:p>North</text:p></text:list-item></text:list>
</table:table-cell><table:table-cell office:value-type="float" office:value="NaN"><text:p>NaN</text:p>
</table:table-cell><table:table-cell office:value-type="float" office:value="7"><text:p>7</text:p>
</table:table-cell></table:table-row></table:table-rows></table:table></chart:chart></office:chart></office:body>
</office:document-content>`
	aChart = `<text:p>Before<draw:frame><draw:object xlink:href="./Object 1"/></draw:frame> and after.</text:p>
<text:list><text:list-item><text:p>E</text:p></text:list-item></text:list>`
)

func TestSlidesSheetsAndChartsOfOpenDocumentsAreRead(t *testing.T) {
	styles := "<s>" + openStyles + "</s>"
	for name, c := range map[string]struct {
		data  []byte
		want  string
		pages []int
	}{
		"a.odp": {openOf(t, "presentation", openSlides), `h1 "Where we stand"
i "Sales rose"
p "Thank the depot."
p "A shape"
p "In confidence"
p "Draft"`, []int{0, 44, 44}},
		"a.ods": {openOf(t, "spreadsheet", openSheets, "Object 1/content.xml", openChart, "styles.xml", styles),
			`h1 "Stock & more"
r1 "Part\tNumber"
r1 "bolt\t123456789012"
r1 "bolt\t123456789012"
p "Days by region"
r5 "\tDays\t"
r5 "North\t\t7"
h1 "Bare"
r8 "2024-03-09"
p "ACME"
p "Made in Łódź, page"`, nil},
		"a.odt": {openOf(t, "text", aChart, "Object 1/content.xml", openChart), `p "Before and after."
p "Days by region"
r2 "\tDays\t"
r2 "North\t\t7"
i "E"`, nil},
		"a.fodt": {flatOf("text", strings.ReplaceAll(aChart, `<draw:object xlink:href="./Object 1"/>`,
			"<draw:object>"+openChart+"</draw:object>")), `p "Before"
p "Days by region"
r2 "\tDays\t"
r2 "North\t\t7"
p "and after."
i "E"`, nil},
	} {
		text, err := documentOf(t, "", name, c.data)
		require.NoError(t, err)
		assert.Equal(t, c.want, outline(text), name)
		assert.Equal(t, c.pages, text.Pages)
	}
}

// An object without a part does not make the reader start again.
func TestOpenDocumentIsReadOnce(t *testing.T) {
	for _, link := range []string{``, ` xlink:href=""`, ` xlink:href="."`, ` xlink:href="./x/.."`} {
		text, err := documentOf(t, "", "a.odt", openOf(t, "text", `<text:p>A</text:p><draw:object`+link+`><math/>`+
			`</draw:object><text:p>B</text:p>`))
		require.NoError(t, err)
		assert.Equal(t, "A\nB", text.Body, link)
	}
}

func TestOpenDocumentsWithAPasswordAreRefused(t *testing.T) {
	const manifest = `<m><manifest:file-entry><manifest:encryption-data/></manifest:file-entry></m>`
	for name, data := range map[string][]byte{
		"its parts": zipOf(t, "content.xml", "\x80\x01", "META-INF/manifest.xml", manifest),
		"all of it": zipOf(t, "encrypted-package", "\x80\x01", "META-INF/manifest.xml", manifest),
	} {
		_, err := documentOf(t, "", "a.odt", data)
		require.ErrorIs(t, err, Fault{Encrypted, "the OpenDocument file has a password"}, name)
	}
}

// A password for its macros, or a long comment before it, does not keep a document from being read.
func TestOpenDocumentsWithSecretsBesideTheirTextAreRead(t *testing.T) {
	const manifest = `<m><manifest:file-entry manifest:full-path="Basic/Standard/Module1.xml">` +
		`<manifest:encryption-data/></manifest:file-entry></m>`
	flat := string(flatOf("text", `<text:p>A</text:p>`))
	for name, data := range map[string]string{
		"a.odt":  string(openOf(t, "text", `<text:p>A</text:p>`, "META-INF/manifest.xml", manifest)),
		"a.fodt": strings.Replace(flat, "?>", "?><!--"+strings.Repeat("a licence ", 200)+"-->", 1),
	} {
		text, err := documentOf(t, "", name, []byte(data))
		if assert.NoError(t, err, name) {
			assert.Equal(t, "A", text.Body)
		}
	}
}

func TestTruncatedOpenDocumentsAreRefused(t *testing.T) {
	for name, data := range map[string][]byte{
		"a.fodt": flatOf("text", openTextBody, openMeta, openStyles), "a.fods": flatOf("spreadsheet", openSheets),
		"a.fodp": flatOf("presentation", openSlides+openChart), "a.odt": openOf(t, "text", openTextBody),
	} {
		for n := range 16 {
			part := data[:len(data)*n/16]
			text, _, err := job{Format: openDocument, Whole: true}.read(part)
			if err == nil {
				isWellFormed(t, text) // the end of a document may be missing
			}
			if err != nil {
				assert.Contains(t, []Code{Unreadable, Empty}, faultOf(err).Code, "%s: %v", name, err)
			}
		}
	}
}
