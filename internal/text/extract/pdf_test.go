package extract_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/text/document"
	"agentplatform/internal/text/extract"
)

// pdfOf makes a PDF of pages, each with these contents, and with info as its metadata.
func pdfOf(info string, contents ...string) []byte {
	kids := ""
	objects := []string{"<< /Type /Catalog /Lang (de-CH) /Pages 2 0 R >>", "", info,
		"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"}
	for _, c := range contents {
		kids += fmt.Sprintf("%d 0 R ", len(objects)+1)
		objects = append(objects, fmt.Sprintf("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents %d 0 R "+
			"/Resources << /Font << /F 4 0 R >> >> >>", len(objects)+2),
			content(func(w io.Writer) { _, _ = io.WriteString(w, c) }))
	}
	objects[1] = fmt.Sprintf("<< /Type /Pages /Kids [%s] /Count %d >>", kids, len(contents))
	return pdf("/Info 3 0 R", objects...)
}

// lines draws lines below each other.
func lines(size int, from int, text ...string) string {
	var b strings.Builder
	for i, l := range text {
		fmt.Fprintf(&b, "BT /F %d Tf 50 %d Td (%s) Tj ET\n", size, from-i*size*6/5, l)
	}
	return b.String()
}

func readDocument(t *testing.T, data []byte) (document.Text, error) {
	t.Helper()
	return extract.Document(t.Context(), rand.Text(), extract.File{Name: "a.pdf",
		Open: func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }})
}

func TestPDFIsReadWithItsStructure(t *testing.T) {
	read, err := readDocument(t, pdfOf("<< /Title (Microsoft Word - Terms.doc) >>",
		lines(20, 700, "Terms of delivery")+lines(10, 600, "The goods are delivered within ten days,",
			"counted from the order.")+lines(10, 500, "A second paragraph."),
		"0 0 10 10 re f",
		lines(10, 700, "On the third page."),
	))
	require.NoError(t, err)
	assert.Equal(t, "Terms.doc", read.Title)
	assert.Equal(t, "de-CH", read.Language)
	assert.Equal(t, "Terms of delivery\nThe goods are delivered within ten days,\ncounted from the order.\n"+
		"A second paragraph.\n\nOn the third page.", read.Body)
	third := strings.Index(read.Body, "On the")
	assert.Equal(t, []int{0, third, third}, read.Pages, "the second page has no text")
	kinds := []document.Kind{}
	for _, b := range read.Blocks {
		kinds = append(kinds, b.Kind)
	}
	assert.Equal(t, []document.Kind{document.Heading, document.Paragraph, document.Paragraph, document.Paragraph},
		kinds)
	assert.Equal(t, 1, read.Blocks[0].Level)
}

// glyphs draws text in a font whose codes stand for no characters.
const glyphs = "BT /G 12 Tf 50 700 Td <0001000200030004> Tj ET"

// unclear makes a PDF of pages. They have pictures I and X (in a form), and a font G that maps glyphs to no characters.
func unclear(pages ...string) []byte {
	kids := ""
	picture := "/I Do"
	objects := []string{"<< /Type /Catalog /Pages 2 0 R >>", "",
		"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
		"<< /Type /Font /Subtype /Type0 /BaseFont /Glyphs /Encoding /Identity-H /DescendantFonts [5 0 R] >>",
		"<< /Type /Font /Subtype /CIDFontType2 /BaseFont /Glyphs /CIDToGIDMap /Identity " +
			"/CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> /FontDescriptor 6 0 R >>",
		"<< /Type /FontDescriptor /FontName /Glyphs /Flags 4 /FontBBox [0 0 1000 1000] /ItalicAngle 0 " +
			"/Ascent 800 /Descent -200 /CapHeight 700 /StemV 80 >>",
		"<< /Type /XObject /Subtype /Image /Width 1 /Height 1 /ColorSpace /DeviceGray /BitsPerComponent 8 " +
			"/Length 1 >>\nstream\nx\nendstream",
		fmt.Sprintf("<< /Type /XObject /Subtype /Form /BBox [0 0 1 1] /Resources << /XObject << /I 7 0 R >> >> "+
			"/Length %d >>\nstream\n%s\nendstream", len(picture), picture)}
	for _, c := range pages {
		kids += fmt.Sprintf("%d 0 R ", len(objects)+1)
		objects = append(objects, fmt.Sprintf("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents %d 0 R "+
			"/Resources << /Font << /F 3 0 R /G 4 0 R >> /XObject << /I 7 0 R /X 8 0 R >> >> >>", len(objects)+2),
			content(func(w io.Writer) { _, _ = io.WriteString(w, c) }))
	}
	objects[1] = fmt.Sprintf("<< /Type /Pages /Kids [%s] /Count %d >>", kids, len(pages))
	return pdf("", objects...)
}

func TestPagesWithoutTheirTextAreNamed(t *testing.T) {
	read, err := readDocument(t, unclear(lines(12, 700, "text, and a picture")+" /I Do", "/I Do", "0 0 1 1 re f",
		"/X Do", glyphs,
		lines(12, 700, strings.Repeat("much text and one glyph ", 4))+"BT /G 12 Tf 50 600 Td <0001> Tj ET"))
	require.NoError(t, err)
	assert.Equal(t, []document.Warning{
		{Code: document.PagesWithoutText, Pages: []int{2, 4}, Count: 2},
		{Code: document.UnmappedGlyphs, Pages: []int{5}, Count: 1},
	}, read.Warnings)
	many := append([]string{lines(12, 700, "text")}, slices.Repeat([]string{"/I Do"}, 60)...)
	read, err = readDocument(t, unclear(many...))
	require.NoError(t, err)
	require.Len(t, read.Warnings, 1)
	assert.Equal(t, 60, read.Warnings[0].Count)
	assert.Len(t, read.Warnings[0].Pages, document.MaxWarningPages)
	read, err = readDocument(t, pdfOf("<< >>", lines(12, 700, "a bare page"), "0 0 1 1 re f"))
	require.NoError(t, err)
	assert.Empty(t, read.Warnings)
}

func TestWhyAPDFIsNotReadIsReported(t *testing.T) {
	locked, err := os.ReadFile("testdata/password.pdf")
	require.NoError(t, err)
	for name, c := range map[string]struct {
		data []byte
		code extract.Code
	}{
		"a password": {locked, extract.Encrypted},
		"no text":    {pdfOf("<< >>", "0 0 10 10 re f"), extract.Empty},
		"no PDF":     {[]byte("%PDF-1.7 text"), extract.Unreadable},
		"too many": {pdfOf("<< >>", strings.Split(strings.Repeat("BT /F 9 Tf (x) Tj ET,", extract.MaxPages+1),
			",")...), extract.TooLarge},
		"no page": {pdfOf("<< >>"), extract.Empty},
		"no page there": {pdf("", "<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [9 0 R] /Count 1 >>"),
			extract.Unreadable},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := readDocument(t, c.data)
			var fault extract.Fault
			require.ErrorAs(t, err, &fault)
			assert.Equal(t, c.code, fault.Code, fault.Reason)
		})
	}
}

// Running text in two columns.
var delivered, complained = strings.Split(`The goods are delivered within
fourteen days after the order
has been received by us and
confirmed in writing. Later
deliveries are announced at
least two days before. The
buyer may withdraw when the
delivery is more than thirty
days late. Payments are made
within ten days.`, "\n"), strings.Split(`Complaints about visible faults
must be made within a week of
the delivery. Hidden faults are
to be reported once they are
found. We repair or replace the
goods at our choice. A sec-
ond failure entitles the buyer to
a reduction of the price or to
withdraw from the contract as
a whole.`, "\n")

// rowsOf draws texts beside each other, row by row.
func rowsOf(columns ...[]string) string {
	var b strings.Builder
	for i := range columns[0] {
		for n, column := range columns {
			fmt.Fprintf(&b, "BT /F 10 Tf %d %d Td (%s) Tj ET\n", 50+270*n, 700-12*i, column[i])
		}
	}
	return b.String()
}

func TestColumnsThatAreDrawnRowByRowAreReadOneAfterTheOther(t *testing.T) {
	title := lines(16, 740, "General terms of the delivery of goods")
	read, err := readDocument(t, pdfOf("<< >>", title+rowsOf(delivered, complained)+
		"BT /F 10 Tf 50 560 Td (A line that goes over both of the columns of text, as the last one does) Tj ET"))
	require.NoError(t, err)
	whole := strings.Join(slices.Concat(delivered, complained), " ")
	got := strings.Join(strings.Fields(read.Body), " ")
	assert.Contains(t, got, "goods "+strings.ReplaceAll(whole, "sec- ond", "second")+" A line that")
	articles, made := []string{}, []string{}
	for i := range 12 {
		articles = append(articles, fmt.Sprintf("Article number %d of the list", i))
		made = append(made, fmt.Sprintf("made of steel and of wood %d", i))
	}
	read, err = readDocument(t, pdfOf("<< >>", rowsOf(articles, made)))
	require.NoError(t, err)
	assert.Contains(t, read.Body, "Article number 3 of the list made of steel and of wood 3", "a table stays")
	keys := strings.Split("key --edit user,key -o file --export,key --import file,key --send keys user,"+
		"key --list keys user,key --list signs user,key --check signs,key --show print user,key --refresh keys", ",")
	does := strings.Split("edit the key of a user interactively,export all keys to a file,import all keys from a file,"+
		"send the key of a user to a server,list the keys of a user,list the signatures,check the signatures,"+
		"show the fingerprint of a user,update the local keys", ",")
	read, err = readDocument(t, pdfOf("<< >>", rowsOf(keys, does)))
	require.NoError(t, err)
	assert.Contains(t, read.Body, "key --import file import all keys", "so does one of short texts")
}

func TestLettersThatAreDrawnApartAreWords(t *testing.T) {
	for line, want := range map[string]string{
		"C O N F I D E N T I A L   P A P E R": "CONFIDENTIAL PAPER", "N e w s": "News",
		"A B C D E F": "A B C D E F", "1 2 3 4 5": "1 2 3 4 5", "x y a": "x y a", "I a m o k now": "I a m o k now",
		strings.Repeat("B A ", 13) + "B":  strings.Repeat("B A ", 13) + "B",
		strings.Repeat("x y ", 200) + "z": strings.Repeat("x y ", 200) + "z",
	} {
		read, err := readDocument(t, pdfOf("<< >>", lines(10, 700, line)))
		require.NoError(t, err)
		assert.Equal(t, want, read.Body)
	}
	columns := ""
	for i, letter := range []string{"X", "A", "K", "B", "T"} {
		columns += fmt.Sprintf("BT /F 10 Tf %d 700 Td (%s) Tj ET\n", 50+40*i, letter)
	}
	read, err := readDocument(t, pdfOf("<< >>", columns))
	require.NoError(t, err)
	assert.Equal(t, "X A K B T", read.Body)
}

// The text of a rotated page stands upright on it, or is rotated with it.
func TestTurnedPagesAreReadInTheirOrder(t *testing.T) {
	upright := lines(10, 700, delivered...)
	turned := ""
	for i, line := range delivered {
		turned += fmt.Sprintf("BT /F 10 Tf 0 1 -1 0 %d 50 Tm (%s) Tj ET\n", 100+12*i, line)
	}
	for _, text := range []string{upright, turned} {
		for _, angle := range []string{"0", "90", "180", "270"} {
			read, err := readDocument(t, bytes.Replace(pdfOf("<< >>", text),
				[]byte("/MediaBox"), []byte("/Rotate "+angle+" /MediaBox"), 1))
			require.NoError(t, err)
			assert.Equal(t, strings.Join(delivered, "\n"), read.Body, angle)
		}
	}
}

// The contents of a form's fields are drawn by the fields, not by the page.
func TestFieldsOfFormsAreRead(t *testing.T) {
	field := "BT /F 12 Tf 2 2 Td (filled in) Tj ET"
	read, err := readDocument(t, pdf("",
		"<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
		"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 5 0 R /Annots [8 0 R 6 0 R] "+
			"/Resources << /Font << /F 4 0 R >> >> >>",
		"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
		content(func(w io.Writer) { _, _ = io.WriteString(w, lines(12, 700, "Name:")) }),
		"<< /Type /Annot /Subtype /Widget /FT /Tx /T (name) /V (filled in) /F 4 "+
			"/Rect [100 690 300 715] /AP << /N 7 0 R >> >>",
		fmt.Sprintf("<< /Type /XObject /Subtype /Form /BBox [0 0 200 25] /Resources << /Font << /F 4 0 R >> >> "+
			"/Length %d >>\nstream\n%s\nendstream", len(field), field),
		"<< /Type /Annot /Subtype /Link /Rect [10 10 20 20] >>"))
	require.NoError(t, err)
	assert.Equal(t, "Name: filled in", strings.Join(strings.Fields(read.Body), " "))
}

// A PDF whose table of objects is wrong is still read: the objects are searched for.
func TestPDFWithBrokenTableIsRead(t *testing.T) {
	whole := onePage(content(func(w io.Writer) { _, _ = io.WriteString(w, "BT /F 12 Tf (found) Tj ET") }))
	at := bytes.Index(whole, []byte("xref\n"))
	for name, data := range map[string][]byte{
		"wrong offsets": bytes.Replace(whole, []byte("%PDF-1.7\n"), []byte("%PDF-1.7\n% moved by this\n"), 1),
		"no table":      append(bytes.Clone(whole[:at]), "trailer\n<< /Root 1 0 R /Size 5 >>\n%%EOF\n"...),
	} {
		t.Run(name, func(t *testing.T) {
			read, err := readDocument(t, data)
			require.NoError(t, err)
			assert.Equal(t, "found", read.Body)
		})
	}
}
