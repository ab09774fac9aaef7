package extract

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/text/chunking"
)

// enclosing is an e-mail with files, by name and content.
func enclosing(files ...string) []byte {
	var b bytes.Buffer
	b.WriteString("Subject: plans\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\nSee these.\n")
	for i := 0; i < len(files); i += 2 {
		_, _ = fmt.Fprintf(&b,
			"--b\nContent-Disposition: attachment; filename=%q\nContent-Transfer-Encoding: base64\n\n%s\n",
			files[i], base64.StdEncoding.EncodeToString([]byte(files[i+1])))
	}
	b.WriteString("--b--\n")
	return b.Bytes()
}

func TestAttachmentsAreRead(t *testing.T) {
	pdf, err := os.ReadFile("testdata/embedded-font.pdf")
	require.NoError(t, err)
	docx, err := os.ReadFile("testdata/terms.docx")
	require.NoError(t, err)
	text, err := documentOf(t, "", "a.eml", enclosing(
		"report.pdf", string(pdf), "terms.docx", string(docx), "rows.csv", "Region,Units\nNorth,17\n",
		"dot.png", "\x89PNG\r\n\x1a\n\x00\x00", "page.html", "<html lang=fr><title>x</title><p>deux",
		"secret.zip", "PK\x03\x04 and more", "forwarded.eml", string(enclosing("note.txt", "Innermost words")),
	))
	require.NoError(t, err)
	got := outline(text)
	for _, want := range []string{
		`p "See these."` + "\n" +
			`p "Attached: report.pdf, terms.docx, rows.csv, dot.png, page.html, secret.zip, forwarded.eml"`,
		`h1 "Attachment: report.pdf"`, "Quarterly report — Übersicht", `h1 "Attachment: terms.docx"`,
		"\\tUnits\"", "North\\t17", `p "Attachment: dot.png: this kind of file is not supported"`, `p "deux"`,
		`p "Attachment: secret.zip: this kind of file is not supported"`, `h1 "Attachment: forwarded.eml: plans"`,
		`h2 "Attachment: note.txt"`, `p "Innermost words"`,
	} {
		assert.Contains(t, got, want)
	}
	assert.Equal(t, "plans", text.Title)
	assert.Empty(t, text.Language)
	assert.Empty(t, text.Pages)
}

// The headings of each chunk begin with the name of its attachment.
func TestHeadingsOfAttachmentsStandBelowTheirName(t *testing.T) {
	inner := enclosing("a.md", "# A\n\none\n\n## B\n\ntwo", "b.txt", "three")
	box := append([]byte("From a@example.com Mon Mar  2 10:00:00 2026\n"), inner...)
	text, err := documentOf(t, "", "a.mbox", box)
	require.NoError(t, err)
	chunks, err := chunking.Split(text, 20, 0)
	require.NoError(t, err)
	var paths []string
	for _, c := range chunks {
		paths = append(paths, c.Heading)
	}
	assert.Contains(t, paths, "E-mail: plans › Attachment: a.md › A › B")
	assert.Contains(t, paths, "E-mail: plans › Attachment: b.txt")
}

// An attachment that cannot be read, or is too large, does not fail the e-mail.
func TestNoAttachmentFailsItsMail(t *testing.T) {
	nested := []byte("Subject: the last\n\ninnermost")
	for range maxNested + 1 {
		nested = enclosing("a.eml", string(nested))
	}
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"broken":        {enclosing("a.pdf", "%PDF-1.7 and no more"), "Attachment: a.pdf: the PDF cannot be read"},
		"empty":         {enclosing("a.docx", ""), "Attachment: a.docx: it is not a valid Word document"},
		"nested":        {nested, "it is nested too deeply"},
		"a broken mail": {enclosing("a.eml", "no header"), "Attachment: a.eml: the e-mail cannot be read"},
		"blank lines":   {append([]byte(" \n\r\n"), enclosing()...), "See these."},
		"of a mailbox":  {append([]byte("From ada@example.com Mon Mar 2 2026\n"), enclosing()...), "See these."},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := documentOf(t, "", "a.eml", c.data)
			require.NoError(t, err)
			assert.Contains(t, text.Body, c.want)
			assert.Contains(t, text.Body, "See these.")
		})
	}
}

func TestMailsOfAMailboxAreRead(t *testing.T) {
	one := "From ada@example.com Mon Mar  2 10:00:00 2026\nSubject: first\n\nOne\n\n>From here on\nFrom there on\n\n" +
		"From the beginning of 2026\nit was there.\n\n"
	two := "From ada@example.com Mon Mar  2 11:00:00 2026\nno header\n\n"
	three := "From ada@example.com Mon Mar  2 12:00:00 2026\nSubject: third\n\nThree\n"
	for _, end := range []string{"\n", "\r\n"} {
		text, err := documentOf(t, "", "a.mbox", []byte(strings.ReplaceAll(one+two+three, "\n", end)))
		require.NoError(t, err)
		got := outline(text)
		assert.True(t, strings.HasPrefix(got, `h1 "E-mail: first"`), got)
		assert.Contains(t, got, `p "From here on\nFrom there on"`+"\n"+`p "From the beginning of 2026\nit was there."`)
		assert.Contains(t, got, `p "E-mail: the e-mail cannot be read`)
		assert.Contains(t, got, `h1 "E-mail: third"`)
		assert.Empty(t, text.Title)
	}
}

// Inline pictures do not lower the unpack limit of archives. Several archives share that limit.
func TestArchivesOfAMailShareTheirLimit(t *testing.T) {
	docx := zipOf(t, "word/document.xml", `<w:p><w:t>`+strings.Repeat("words ", 100)+`</w:t></w:p>`)
	for want, files := range map[bool][]string{
		true:  {"a.docx", string(docx), "a.png", "\x89PNG", "b.png", "\x89PNG", "c.txt", "c", "d.pdf", "%PDF-"},
		false: {"a.docx", string(docx), "b.docx", string(docx)},
	} {
		b := builder{most: forMessages}
		b.most.unpacked = 1000
		require.NoError(t, readMail(input{data: enclosing(files...), format: mail, readers: map[format]reads{
			archive: readArchive, word: readArchive, plainText: readPlain, portable: readPlain,
		}}, &b))
		text, _ := b.finish()
		assert.Equal(t, want, strings.Contains(text.Body, "words words"), text.Body)
	}
}

// A mailbox with more characters than a document may have is refused. It does not lose an e-mail silently.
func TestMailboxOverTheLimitIsRefused(t *testing.T) {
	const one = "From ada@example.com Mon Mar  2 10:00:00 2026\nSubject: first\n\n"
	words := func(n int) string { return strings.Repeat("some words", n) + "\n\n" }
	for name, c := range map[string]struct {
		data string
		cut  bool
	}{
		"all fits":              {one + words(90) + one + words(1), false},
		"the last has half":     {one + words(50) + one + words(60), true},
		"the last has no room":  {one + words(50) + one + words(200), true},
		"most have no room":     {strings.Repeat(one+words(40), 9), true},
		"the first is too long": {one + words(500), true},
	} {
		b := builder{most: forMessages}
		b.most.characters = 1000
		in := input{data: []byte(c.data), format: mailbox, readers: readers}
		require.NoError(t, readMailbox(in, &b), name)
		text, cut := b.finish()
		assert.Equal(t, c.cut, cut, name)
		assert.True(t, strings.HasPrefix(text.Body, "E-mail: first\nSubject: first"), text.Body)
		assert.NotContains(t, text.Body, "the document has more than", name)
	}
}

func TestTextLikeAMailboxIsRead(t *testing.T) {
	for _, words := range []string{"some words", "From me\n\nto you"} {
		text, err := documentOf(t, "", "a.mbox", []byte(words))
		require.NoError(t, err)
		assert.Equal(t, strings.ReplaceAll(words, "\n\n", "\n"), text.Body)
	}
}

// A file without its end is read up to the end of its data, or is a Fault.
func TestFilesWithoutTheirEndAreRead(t *testing.T) {
	docx, err := os.ReadFile("testdata/terms.docx")
	require.NoError(t, err)
	for is, data := range map[format]string{
		mail: string(enclosing("terms.docx", string(docx), "a.csv", "a,b\n1,2\n")), mailbox: seedOf(t, "From a"),
		captions: seedOf(t, "WEBVTT"), markup: seedOf(t, "<?xml"), notebook: seedOf(t, `{"cells"`),
		richText: seedOf(t, `{\rtf1\ansi\deff0`), page: string(site("<p>" + strings.Repeat("many words, ", 100))),
	} {
		for part := range 17 {
			j := job{Format: is, Whole: true}
			if text, _, err := j.read([]byte(data[:len(data)*part/16])); err == nil {
				isWellFormed(t, text)
			}
		}
	}
}

func seedOf(t *testing.T, begin string) string {
	at := slices.IndexFunc(seeds, func(s string) bool { return strings.HasPrefix(s, begin) })
	require.GreaterOrEqual(t, at, 0)
	return seeds[at]
}
