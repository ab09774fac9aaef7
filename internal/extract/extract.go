// Package extract reads the text of files: plain text and formats close to it (Markdown, CSV, JSON, source code),
// HTML, Word documents, PDFs.
//
// A file is not trusted. Plain text is read here; formats that need a parser are read by a child process with limits
// of memory and time. So a broken file leads to an error, never to a crash. The package knows no run and no
// organization, only groups that take turns. It imports the standard library, the HTML parser and a PDF reader.
package extract

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"mime"
	"path"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// Limits of what is read.
const (
	MaxText     = 200_000  // bytes of text returned
	maxUnpacked = 64 << 20 // bytes that a document unpacks to
	maxDepth    = 500      // of elements within elements
	maxFile     = 20 << 20 // bytes of a file that are read
	cutNote     = "\n[cut: the text is longer]"
)

// ErrKind is returned for kinds of files whose text is not read.
var ErrKind = errors.New("extract: no text is read from this kind of file")

// Fault is the error of a file whose content cannot be read. A retry would fail in the same way.
type Fault string

func (f Fault) Error() string { return "extract: " + string(f) }

// File is a file to read. It may be opened twice: first to recognize its format, and again when its turn has come, so
// that waiting files take no memory.
type File struct {
	ContentType, Name string // the extension of the name is used if the type is not specific

	Open Open
}

// Open opens a file at its beginning. If ctx ends, reading must end, too.
type Open func(ctx context.Context) (io.ReadCloser, error)

// Text returns the text of a file, cut after [MaxText] bytes with a note. The files of one group wait for each other,
// not for those of other groups.
//
// The error is [ErrKind] if this kind of file has no text, a [Fault] if the file cannot be read, otherwise that of
// ctx, of opening or reading the file, or of starting the child process; a retry may succeed then.
func Text(ctx context.Context, group string, f File) (string, error) {
	head, err := f.head(ctx)
	if err != nil {
		return "", err
	}
	grammar := f.grammar(head)
	switch {
	case grammar == "" && bytes.HasPrefix(head, []byte("PK\x03\x04")):
		return "", ErrKind
	case grammar == "":
		return plain(head)
	case len(head) <= MaxText:
		f.Open = func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(head)), nil }
	}
	return readInChild(ctx, group, grammar, f.Open)
}

// head is the beginning of a file: up to one byte more than MaxText.
func (f File) head(ctx context.Context) ([]byte, error) {
	r, err := f.Open(ctx)
	if err != nil {
		return nil, err
	}
	head, err := io.ReadAll(io.LimitReader(r, MaxText+1))
	return head, errors.Join(err, r.Close())
}

// grammar names the format of a file that needs a parser; empty for plain text.
func (f File) grammar(head []byte) string {
	media, _, _ := mime.ParseMediaType(f.ContentType)
	switch extension := strings.ToLower(path.Ext(f.Name)); {
	case media == "text/html", media == "application/xhtml+xml", extension == ".html", extension == ".htm":
		return "page"
	case media == "application/vnd.openxmlformats-officedocument.wordprocessingml.document", extension == ".docx":
		return "Word document"
	case media == "application/pdf", bytes.HasPrefix(head, []byte("%PDF-")):
		return "PDF"
	}
	return ""
}

// plain returns plain text as it is.
func plain(head []byte) (string, error) {
	end := ""
	if len(head) > MaxText {
		head, end = trimPartial(head[:MaxText]), cutNote
	}
	if !utf8.Valid(head) || bytes.ContainsRune(head, 0) {
		return "", ErrKind
	}
	return string(head) + end, nil
}

// trimPartial removes a partial character from the end of a text.
func trimPartial(text []byte) []byte {
	last := len(text) - 1
	for last > len(text)-utf8.UTFMax && !utf8.RuneStart(text[last]) {
		last--
	}
	if utf8.FullRune(text[last:]) {
		return text
	}
	return text[:last]
}

// collector collects text up to MaxText bytes.
type collector struct {
	strings.Builder
	full  bool
	space bool // the last text ended with white space: a space, if more text follows on the line
}

func (c *collector) add(s string) {
	if c.Len()+len(s) > MaxText {
		s, c.full = strings.ToValidUTF8(s[:max(0, MaxText-c.Len())], ""), true
	}
	c.WriteString(s)
}

// fresh reports whether the current line is empty.
func (c *collector) fresh() bool {
	s := c.String()
	return s == "" || strings.HasSuffix(s, "\n")
}

// line ends the current line unless it is empty.
func (c *collector) line() {
	if !c.fresh() {
		c.add("\n")
	}
}

// words adds text; each sequence of white space becomes one space.
func (c *collector) words(raw string) {
	begun := false
	for word := range strings.FieldsSeq(raw) {
		begins := c.space || begun || strings.TrimLeft(raw, " \t\r\n") != raw
		if begins && !c.fresh() && !strings.HasSuffix(c.String(), "\t") {
			c.add(" ")
		}
		if c.add(word); c.full {
			return
		}
		begun = true
	}
	if begun {
		c.space = strings.TrimRight(raw, " \t\r\n") != raw
	} else {
		c.space = c.space || raw != ""
	}
}

func (c *collector) text() string {
	text := strings.TrimSpace(c.String())
	if c.full {
		text += cutNote
	}
	return text
}

// blocks are elements that begin and end a line.
var blocks = map[atom.Atom]bool{
	atom.P: true, atom.Div: true, atom.Br: true, atom.Li: true, atom.Tr: true, atom.H1: true, atom.H2: true,
	atom.H3: true, atom.H4: true,
	atom.H5: true, atom.H6: true, atom.Pre: true, atom.Blockquote: true, atom.Section: true, atom.Article: true,
	atom.Table: true,
}

// ofHTML returns the visible text of a page, without scripts and styles.
func ofHTML(data []byte) (string, error) {
	z := html.NewTokenizer(bytes.NewReader(data))
	var c collector
	hidden := 0
	for !c.full {
		switch z.Next() {
		case html.ErrorToken:
			if err := z.Err(); !errors.Is(err, io.EOF) {
				return "", fmt.Errorf("the page cannot be read: %w", err)
			}
			return c.text(), nil
		case html.StartTagToken, html.SelfClosingTagToken:
			name, _ := z.TagName()
			switch a := atom.Lookup(name); {
			case a == atom.Script, a == atom.Style, a == atom.Noscript, a == atom.Template:
				hidden++
			case blocks[a]:
				c.line()
			case a == atom.Td, a == atom.Th:
				if !c.fresh() {
					c.add("\t")
				}
			}
		case html.EndTagToken:
			name, _ := z.TagName()
			switch a := atom.Lookup(name); {
			case a == atom.Script, a == atom.Style, a == atom.Noscript, a == atom.Template:
				hidden = max(0, hidden-1)
			case blocks[a]:
				c.line()
			}
		case html.TextToken:
			if hidden == 0 {
				c.words(html.UnescapeString(string(z.Text())))
			}
		}
	}
	return c.text(), nil
}

// ofWord returns the text of a Word document's paragraphs.
func ofWord(data []byte) (string, error) {
	archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return "", fmt.Errorf("it is no Word document: %w", err)
	}
	body, err := archive.Open("word/document.xml")
	if err != nil {
		return "", errors.New("it is no Word document: it has no text")
	}
	defer func() { _ = body.Close() }()
	limited := &io.LimitedReader{R: body, N: maxUnpacked}
	d := xml.NewDecoder(limited)
	var c collector
	depth := 0
	for !c.full {
		token, err := d.RawToken()
		if errors.Is(err, io.EOF) && limited.N > 0 {
			return c.text(), nil
		}
		if limited.N <= 0 {
			return "", fmt.Errorf("the document unpacks to over %d MiB", maxUnpacked>>20)
		}
		if err != nil {
			return "", fmt.Errorf("the Word document cannot be read: %w", err)
		}
		switch t := token.(type) {
		case xml.StartElement:
			if depth++; depth > maxDepth {
				return "", errors.New("the Word document is nested too deeply")
			}
			switch t.Name.Local {
			case "t":
				text, err := characters(d)
				if err != nil {
					return "", err
				}
				c.add(text)
				depth--
			case "tab":
				c.add("\t")
			case "br":
				c.add("\n")
			}
		case xml.EndElement:
			depth--
			if t.Name.Local == "p" {
				c.line()
			}
		}
	}
	return c.text(), nil
}

// characters reads up to the end of a text element.
func characters(d *xml.Decoder) (string, error) {
	var b strings.Builder
	for {
		token, err := d.RawToken()
		if err != nil {
			return "", fmt.Errorf("the Word document cannot be read: %w", err)
		}
		switch t := token.(type) {
		case xml.CharData:
			if b.Len() <= MaxText {
				b.Write(t)
			}
		case xml.EndElement:
			return b.String(), nil
		}
	}
}
