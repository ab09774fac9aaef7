package extract

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/unicode"

	"agentplatform/internal/text/document"
)

// documentOf reads a document that has a group of its own.
func documentOf(t *testing.T, kind, name string, data []byte) (document.Text, error) {
	t.Helper()
	open := func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
	text, err := Document(t.Context(), rand.Text(), File{ContentType: kind, Name: name, Open: open})
	if err == nil {
		isWellFormed(t, text)
	}
	return text, err
}

// outline has a line for each block: the kind, with the level of a heading and the header of a row, and the text.
func outline(text document.Text) string {
	body := []rune(text.Body)
	var lines []string
	for _, b := range text.Blocks {
		kind := string(b.Kind[0])
		switch b.Kind {
		case document.Heading:
			kind = fmt.Sprint("h", b.Level)
		case document.Row:
			kind = fmt.Sprint("r", b.Header)
		}
		lines = append(lines, fmt.Sprintf("%s %q", kind, string(body[b.Start:b.End])))
	}
	return strings.Join(lines, "\n")
}

func TestNoLineOfALongParagraphIsLost(t *testing.T) {
	line, rest := strings.Repeat("a\n", maxLines), "b\nc\n\nd\n\n# e\n\nf\n"
	text, err := documentOf(t, "", "a.md", []byte(line+rest))
	require.NoError(t, err)
	_, after, _ := strings.Cut(outline(text), "\n")
	assert.Equal(t, "p \"b c\"\np \"d\"\nh1 \"e\"\np \"f\"", after)
	text, err = documentOf(t, "", "a.md", []byte(line+"\n"+rest))
	require.NoError(t, err)
	_, again, _ := strings.Cut(outline(text), "\n")
	assert.Equal(t, after, again)
}

// Nobody nests so many quotations. A person who pastes a line of marks loses no word of it.
func TestMarksOfDeepMarkdownAreText(t *testing.T) {
	for name, c := range map[string]struct{ data, want string }{
		"as deep as can be": {strings.Repeat("> ", maxContained) + "a\n", `p "a"`},
		"deeper":            {strings.Repeat(">", maxContained+2) + "a *b*\n", `p ">>a b"`},
		"lists":             {strings.Repeat("- ", maxContained/2+2) + "a\n", `i "- - a"`},
		"lists in quotations": {strings.Repeat("> 1. ", maxContained/3+1) + "a\n> b\n\n- c\n",
			`p "1. a b"` + "\n" + `i "c"`},
		"code": {"```\n" + strings.Repeat(">", 2*maxContained) + "\n```\n",
			`c "` + strings.Repeat(">", 2*maxContained) + `"`},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := documentOf(t, "", "a.md", []byte(c.data))
			require.NoError(t, err)
			assert.Equal(t, c.want, outline(text))
		})
	}
}

func TestStructureIsKept(t *testing.T) {
	for name, c := range map[string]struct {
		kind, file, data, want string
		title, language        string
	}{
		"plain text": {file: "a.txt", data: "One\r\ntwo\r\n\r\n \r\nthree  four\r\n", want: `p "One\ntwo"
p "three  four"`},
		"Markdown": {file: "a.md", data: "# The *title*\n\nOne `two` [three](http://x) &amp; " +
			"\\*four\nfive\n\n" +
			"- a\n- b\n  1. c\n\n> quoted\n\n" + "```go\nx := 1\n\n\ty()\n```\n\n" +
			"| n | m |\n|---|---|\n| 1 | 2 |\n\nEnd\n---\n",
			title: "The title", want: `h1 "The title"
p "One two three & *four five"
i "a"
i "b"
i "c"
p "quoted"
c "x := 1\n\n\ty()"
r7 "n\tm"
r7 "1\t2"
h2 "End"`},
		"front matter": {file: "a.md", data: "---\ntitle: \"A title\"\nlang: de\n---\n# Other\n", title: "A title",
			language: "de", want: `h1 "Other"`},
		"a page": {kind: "text/html", data: `<!doctype html><html lang=pt-br><head><title> A
			title</title><style>p{}</style><script>"</p>"</script></head><body><nav>Home <b>Shop</b></nav>
			<h2>One<br>two</h2>
			<div>three <b>four</b>, fi<i>ve</i>&lt;p&gt;
			<p>six<div hidden>x<div>y</div></div><ul>
			<li>a <li><p>b</p><ul><li>c</ul></ul><p style="Display : None">never</p>
			<table><tr><th>n<th>m<tr><td>1<td>2 <p>3</table><table><tr><td>4</table><pre>
  x
    y</pre>end`, title: "A title", language: "pt-BR", want: `h2 "One\ntwo"
p "three four, five<p>"
p "six"
i "a"
i "b"
i "c"
r6 "n\tm"
r6 "1\t2 3"
r-1 "4"
c "  x\n    y"
p "end"`},
		"navigation alone": {kind: "text/html", data: "<nav><a>Home</a></nav>", want: `p "Home"`},
		"a table": {file: "a.csv", data: "name,born\nAda,1815\n\"Grace\nHopper\",1906\n",
			want: "r0 \"name\\tborn\"\nr0 \"Ada\\t1815\"\nr0 \"Grace Hopper\\t1906\""},
		"semicolons": {file: "a.csv", data: "name;price\npen;1,20\nink;3,40\n",
			want: "r0 \"name\\tprice\"\nr0 \"pen\\t1,20\"\nr0 \"ink\\t3,40\""},
		"numbers alone":  {file: "a.tsv", data: "1\t2\n3\t4\n", want: "r-1 \"1\\t2\"\nr-1 \"3\\t4\""},
		"said separator": {file: "a.csv", data: "sep=|\na,b|c\n", want: `r0 "a,b\tc"`},
		"JSON": {file: "a.json",
			data: `{"name":"Ada","tags":["x","y"],"at":{"city":"Turin","none":null,"n":1.50,"ok":true}}`,
			want: `p "name: Ada"
p "tags[0]: x\ntags[1]: y"
p "at.city: Turin\nat.n: 1.50\nat.ok: true"`},
		"JSON lines": {file: "a.jsonl",
			data: "{\"a\":1,\"b\":[2]}\n{\"a\":3}\n", want: "p \"a: 1\"\np \"b[0]: 2\"\np \"a: 3\""},
		"no JSON": {file: "a.json", data: "{a: 1} // lenient", want: `p "{a: 1} // lenient"`},
		"RTF": {file: "a.rtf", data: `{\rtf1\ansi\ansicpg1250\uc1{\fonttbl{\f0 Times;}}
{\info{\title The {\b terms}}{\author x}}
\pard\outlinelevel0 Terms\par\pard Gr\'fc\'dfe aus \u321?\'f3d\'9f\u55357?\u56832?\line {\*\hidden no}ten\~days\par
\pard{\listtext 1.}\ls1 by \{rail\}\par\trowd\trhdr\pard\intbl a\cell b\cell\row\pard\intbl 1\cell 2\cell\row
\pard End}`, title: "The terms", want: `h1 "Terms"
p "Grüße aus Łódź😀\nten days"
i "by {rail}"
r3 "a\tb"
r3 "1\t2"
p "End"`},
		"an e-mail": {file: "a.eml", title: "Größe 5", data: mailed, want: `p "Subject: Größe 5"
p "From: Ada <ada@example.com>"
p "Date: Mon, 2 Mar 2026 10:00:00 +0000"
p "The café\nopens."
p "And so on."
p "Attached: pläne.pdf, message/rfc822"
p "Attachment: pläne.pdf: the PDF cannot be read: it is damaged, or not a PDF"
h1 "Attachment: message/rfc822: other"
p "Subject: other"`},
		"an e-mail of a page": {kind: "message/rfc822", title: "s", data: "Subject: s\nContent-Type: text/html;" +
			" charset=iso-8859-1\n\n<title>no</title><h1>caf\xe9</h1><script>x</script>", want: `p "Subject: s"
h1 "café"`},
		"by its name":  {kind: "application/octet-stream", file: "a.MD", data: "## a", want: `h2 "a"`},
		"a lie":        {kind: "application/pdf", file: "a.txt", data: "a", want: `p "a"`},
		"said nothing": {data: "<!DOCTYPE html><p>a", want: `p "a"`},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := documentOf(t, c.kind, c.file, []byte(c.data))
			require.NoError(t, err)
			assert.Equal(t, c.want, outline(text))
			assert.Equal(t, c.title, text.Title)
			assert.Equal(t, c.language, text.Language)
		})
	}
}

// The files of testdata/make.py are written by other authors' libraries.
func TestStructureOfDocumentsByOthersIsKept(t *testing.T) {
	for file, c := range map[string]struct {
		want, title, language string
		pages                 []int
	}{
		"terms.docx": {title: "Terms of delivery", language: "en-GB", want: `h1 "Terms"
h2 "Delivery"
p "Goods arrive within ten days & are paid on receipt."
i "by road"
i "by rail"
r5 "Region\tDays"
r5 "Łódź\t3"
p "End."`},
		"plan.pptx": {title: "Plan", pages: []int{0, 55, 55}, want: `h1 "Where we stand"
i "Sales rose"
i "Costs fell"
i "Thank the depot."
h1 "Figures"
r5 "Region\tUnits"
r5 "North\t17"`},
		"stock.xlsx": {title: "Stock", want: `h1 "Parts"
r1 "Part\tPrice\tSince"
r1 "bolt\t1.5\t2024-03-09"
r1 "nut\t\t"
h1 "Numbers"
r-1 "1\t2"`},
		"tale.epub": {title: "A tale", language: "en", want: `h1 "One"
p "It began."
h1 "Two"
p "It ended."`},
	} {
		t.Run(file, func(t *testing.T) {
			data, err := os.ReadFile("testdata/" + file)
			require.NoError(t, err)
			for _, name := range []string{file, "a.txt", ""} {
				text, err := documentOf(t, "application/octet-stream", name, data)
				require.NoError(t, err)
				assert.Equal(t, c.want, outline(text))
				assert.Equal(t, c.title, text.Title)
				assert.Equal(t, c.language, text.Language)
				assert.Equal(t, c.pages, text.Pages)
			}
		})
	}
}

// mailed is an e-mail with alternatives and attachments.
var mailed = strings.ReplaceAll(`Subject: =?utf-8?q?Gr=C3=B6=C3=9Fe?= 5
From: Ada <ada@example.com>
Date: Mon, 2 Mar 2026 10:00:00 +0000
Content-Type: multipart/mixed; boundary=outer

--outer
Content-Type: multipart/alternative; boundary="inner"

--inner
Content-Type: text/plain; charset=iso-8859-1
Content-Transfer-Encoding: quoted-printable

The caf=E9
opens.
--inner
Content-Type: text/html

<p>not this
--inner--
--outer
Content-Type: text/plain
Content-Transfer-Encoding: base64

QW5kIHNvIG9u
Lg==
--outer
Content-Type: application/pdf
Content-Disposition: attachment; filename*=utf-8''pl%C3%A4ne.pdf

%PDF-1.7
--outer
Content-Type: message/rfc822

Subject: other
--outer--
`, "\n", "\r\n")

func TestPagesOfPDFsAreKept(t *testing.T) {
	data, err := os.ReadFile("testdata/embedded-font.pdf")
	require.NoError(t, err)
	text, err := documentOf(t, "", "", data)
	require.NoError(t, err)
	require.NotEmpty(t, text.Pages)
	assert.Zero(t, text.Pages[0])
	assert.Contains(t, text.Body, "Łódź")
}

func TestFaultsReportWhatToDo(t *testing.T) {
	protected := zipOf(t, "META-INF/container.xml", `<rootfile full-path="o"/>`, "o",
		`<p><item id="a" href="c.html" media-type="text/html"/><itemref idref="a"/></p>`, "c.html", "xxxx",
		"META-INF/encryption.xml", `<e><CipherReference URI="c.html"/></e>`)
	locked := zipOf(t, "word/document.xml", "<w/>")
	locked[6] |= 1 // of the member's header
	locked[bytes.LastIndex(locked, []byte("PK\x01\x02"))+8] |= 1
	for name, c := range map[string]struct {
		file string
		data []byte
		code Code
		want string
	}{
		"nothing":         {"a.txt", nil, Empty, "The file is empty. Upload a file with text"},
		"white space":     {"a.txt", []byte(" \n\x00"[:2]), Empty, "The text has no text"},
		"an empty page":   {"a.html", []byte("<p><script>x</script>"), Empty, "The page has no text"},
		"a picture":       {"a.png", []byte("\x89PNG\r\n\x1a\n\x00\x00"), UnsupportedType, "Save it as PDF"},
		"an archive":      {"a.zip", zipOf(t, "a.txt", "a"), UnsupportedType, "Save it as PDF"},
		"an old document": {"a.doc", []byte(magic[compound] + "WordDocument"), UnsupportedType, "Save it as PDF"},
		"an encrypted one": {"a.docx", append([]byte(magic[compound]), encryptedPackage...), Encrypted,
			"without a password"},
		"an encrypted member": {"a.docx", locked, Encrypted, "The Word document has a password"},
		"a protected book":    {"a.epub", protected, Encrypted, "The e-book is protected against copying"},
		"a broken workbook":   {"a.xlsx", zipOf(t, "xl/workbook.xml", "<workbook"), Unreadable, "save it again"},
		"a broken archive":    {"a.pptx", []byte("PK\x03\x04"), Unreadable, "It is not a valid presentation"},
		"another archive": {"a.docx", zipOf(t, "a", "b"), Unreadable,
			"It is not a valid Word document: it has no text"},
		"a missing part": {"a.epub", zipOf(t, "META-INF/container.xml", `<rootfile full-path="o"/>`), Unreadable,
			"a part"},
		"a long text":  {"a.txt", bytes.Repeat([]byte("a "), MaxCharacters), TooLarge, "Split the document"},
		"a large file": {"a.txt", make([]byte, MaxFile+1), TooLarge, "The file has more than 50 MiB"},
		"many pages":   {"a.pptx", slides(t, MaxPages+1), TooLarge, "2000 pages"},
		"no e-mail":    {"a.eml", []byte("no header"), Unreadable, "The e-mail cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := documentOf(t, "", c.file, c.data)
			var fault Fault
			require.ErrorAs(t, err, &fault)
			assert.Equal(t, c.code, fault.Code, "%v", err)
			assert.Contains(t, fault.Sentence(), c.want)
		})
	}
}

// Of a document that is too large for a search, a message has the beginning.
func TestMessagesAreShownTheBeginningOfALargeDocument(t *testing.T) {
	data := slides(t, MaxPages+1)
	text, err := Text(t.Context(), rand.Text(), File{Open: func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(data)), nil
	}})
	require.NoError(t, err)
	assert.True(t, strings.HasPrefix(text, "slide\n\nslide\n\n"))
	assert.True(t, strings.HasSuffix(text, cutNote))
}

// zipOf makes an archive of names and contents.
func zipOf(t require.TestingT, pairs ...string) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := 0; i < len(pairs); i += 2 {
		w, err := z.Create(pairs[i])
		require.NoError(t, err)
		_, _ = io.WriteString(w, pairs[i+1])
	}
	require.NoError(t, z.Close())
	return b.Bytes()
}

// slides makes a presentation of slides with a word each.
func slides(t testing.TB, n int) []byte {
	var list, relations strings.Builder
	var pairs []string
	for i := range n {
		_, _ = fmt.Fprintf(&list, `<p:sldId id="%d" r:id="r%d"/>`, i, i)
		_, _ = fmt.Fprintf(&relations, `<Relationship Id="r%d" Type="x/slide" Target="s%d.xml"/>`, i, i)
		pairs = append(pairs, fmt.Sprintf("ppt/s%d.xml", i), "<a:p><a:t>slide</a:t></a:p>")
	}
	return zipOf(t, append(pairs, "ppt/presentation.xml", "<p>"+list.String()+"</p>",
		"ppt/_rels/presentation.xml.rels", "<p>"+relations.String()+"</p>")...)
}

func TestEncodingsAreRecognized(t *testing.T) {
	const german = "Grüße aus Köln – für „schöne“ Häuser"
	const russian = "Москва является столицей России и одним из самых больших городов в Европе."
	in := func(e encoding.Encoding, s string) []byte {
		data, err := e.NewEncoder().Bytes([]byte(s))
		require.NoError(t, err)
		return data
	}
	for name, c := range map[string]struct {
		kind string
		data []byte
		want string
	}{
		"UTF-8 with a mark":       {"", []byte("\ufeff" + german), german},
		"UTF-16 with a mark":      {"", in(unicode.UTF16(unicode.BigEndian, unicode.UseBOM), german), german},
		"UTF-16 without":          {"", in(unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM), german), german},
		"Windows-1252":            {"", in(charmap.Windows1252, german), german},
		"KOI8-R, said":            {"text/plain; charset=koi8-r", in(charmap.KOI8R, russian), russian},
		"Windows-1251, not said":  {"", in(charmap.Windows1251, russian), russian},
		"Shift JIS, by the page":  {"text/html", in(japanese.ShiftJIS, `<meta charset=sjis><p>日本語`), "日本語"},
		"ISO-2022-JP, said":       {"text/plain; charset=iso-2022-jp", in(japanese.ISO2022JP, "日本語"), "日本語"},
		"UTF-8, said to be Latin": {"text/plain; charset=iso-8859-1", []byte(german), german},
		"nonsense, said":          {"text/plain; charset=none", []byte(german), german},
		"UTF-8 with an escape":    {"", []byte(german + " \x1b$B and more"), german + " $B and more"},
		"lines of EBCDIC": {"", in(charmap.CodePage037, "Name,Units\u0085North side,7\u0085\u0085The end"),
			"Name,Units\nNorth side,7\nThe end"},
		"UTF-8 with an error": {"", []byte(german + german + "\xff"), german + german + "\uFFFD"},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := documentOf(t, c.kind, "", c.data)
			require.NoError(t, err)
			assert.Equal(t, c.want, text.Body)
		})
	}
}
