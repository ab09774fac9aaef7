package extract

import (
	"bytes"
	"encoding/xml"
	"path"
	"slices"
	"strconv"
	"strings"

	"agentplatform/internal/text/document"
)

// isFlatOpen reports a file that begins like an OpenDocument file of one XML document, without an archive.
func isFlatOpen(head []byte) bool {
	begin := bytes.TrimSpace(bytes.TrimPrefix(head[:min(len(head), 8<<10)], []byte("\xef\xbb\xbf")))
	isXML := bytes.HasPrefix(begin, []byte("<?xml")) || bytes.HasPrefix(begin, []byte("<office:"))
	return isXML && bytes.Contains(begin, []byte("<office:document "))
}

// readOpenDocument reads an OpenDocument file: a text, a spreadsheet or a presentation.
func readOpenDocument(in input, b *builder) error {
	if !isFlatOpen(in.data) {
		return readArchive(in, b)
	}
	m := &members{is: in.format}
	r := newOpenReader(m, b)
	if _, err := walk(bytes.NewReader(in.data), in.format, b, r); err != nil {
		return err
	}
	if err := r.finish(); err != nil {
		return err
	}
	m.margins.write(b)
	return nil
}

// readOpenParts reads the parts of an archive in the order of a flat file.
func readOpenParts(m *members, _ input, b *builder) error {
	of := ""
	err := m.each("META-INF/manifest.xml", func(_ *parts, e xml.StartElement) error {
		if e.Name.Local == "file-entry" {
			of = attribute(e, "full-path")
		}
		// Macros may have a password of their own.
		if e.Name.Local == "encryption-data" && !strings.HasPrefix(of, "Basic/") {
			return Fault{Encrypted, "the " + string(m.is) + " has a password"}
		}
		return nil
	})
	if err != nil {
		return err
	}
	r := newOpenReader(m, b)
	for _, name := range []string{"meta.xml", "styles.xml", "content.xml"} {
		if m.files[name] == nil && name != "content.xml" {
			continue
		}
		if _, err := m.walk(name, b, r); err != nil {
			return err
		}
	}
	return r.finish()
}

// openReader reads the elements of an OpenDocument file. Deleted text of tracked changes is not read, nor
// are comments.
type openReader struct {
	gridText

	m      *members
	styles map[string]openStyle
	style  string // that is being read
	body   string // text, spreadsheet, presentation, drawing or chart; empty: it has not begun
	within int    // paragraphs within each other
	lists  int    // lists within each other
	class  string // of the present frame of a slide: title, outline, …

	seen  map[string]bool // objects that were read
	aside aside
	notes *builder

	openTable
}

// aside is an element whose text is written elsewhere.
type aside struct {
	name  string // empty: there is none
	depth int    // of elements of this name
	back  gridText
}

// openStyle is a style of paragraphs or sheets.
type openStyle struct {
	parent string
	hidden bool
}

func newOpenReader(m *members, b *builder) *openReader {
	r := &openReader{m: m, styles: map[string]openStyle{}, seen: map[string]bool{}, notes: &builder{most: b.most}}
	r.gridText = gridText{rowText: rowText{b: b}, read: r.readObject}
	return r
}

// unread are the elements whose text is not part of the document.
var unread = []string{
	"annotation", "binary-data", "content-validations", "desc", "event-listeners", "font-face-decls", "forms",
	"math", "note-citation", "page-thumbnail", "ruby-text", "scripts", "settings", "tracked-changes",
}

// changing are the fields that differ from page to page, or from day to day. The title is among them, as it is known.
var changing = []string{"sheet-name", "date", "time", "file-name", "title", "print-date", "print-time"}

func (r *openReader) start(p *parts, e xml.StartElement) error {
	name, prefix := e.Name.Local, e.Name.Space
	switch {
	case slices.Contains(unread, name), strings.HasSuffix(name, "-source"), name == "title" && prefix == "svg",
		name == "list" && r.chart: // the levels of a label, which is there
		return p.skip()
	case name == r.aside.name:
		r.aside.depth++
	case r.aside.name != "" && r.aside.name != "note" && r.changes(name):
		return p.skip()
	case name == "footer-decl", name == "header-decl":
		text, err := p.characters(utf8Most * r.b.most.characters)
		r.m.margins.add(text)
		return err
	case r.aside.name == "" && r.body == "":
		return r.prologue(p, e)
	case r.inline(e):
	case name == "frame":
		return r.frame(p, e)
	case name == "object":
		return r.object(p, e)
	case name == "page" && prefix == "draw":
		r.b.page()
	default:
		return r.tabular(p, e)
	}
	return nil
}

// changes reports an element of a header or footer whose text is left out.
func (r *openReader) changes(name string) bool {
	isPage := name == "page-number" || name == "page-count"
	if isPage {
		r.write(pageNumber)
	}
	return isPage || slices.Contains(changing, name)
}

// prologue reads the elements before the text: title, language, styles, headers and footers.
func (r *openReader) prologue(p *parts, e xml.StartElement) error {
	of := r.styles[r.style]
	switch name := e.Name.Local; name {
	case "title", "language":
		return r.b.describe(p, e)
	case "default-style":
		r.style = ""
	case "style":
		r.style, of = attribute(e, "name"), openStyle{parent: attribute(e, "parent-style-name")}
	case "table-properties":
		of.hidden = attribute(e, "display") == "false"
	case "text-properties":
		if language := attribute(e, "language"); r.style == "" && language != "none" && language != "zxx" {
			r.b.language(strings.TrimSuffix(language+"-"+attribute(e, "country"), "-none"))
		}
	case "header", "header-left", "header-first", "footer", "footer-left", "footer-first":
		if attribute(e, "display") == "false" {
			return p.skip()
		}
		r.begin(name, &builder{most: r.b.most})
	case "text", "spreadsheet", "presentation", "drawing", "chart":
		if e.Name.Space == "office" {
			r.body = name
		}
	}
	if r.style != "" && len(r.styles) < maxMembers {
		r.styles[r.style] = of
	}
	return nil
}

// begin begins an element whose text another builder gets.
func (r *openReader) begin(name string, b *builder) {
	if r.aside.name == "" {
		r.aside = aside{name, 1, r.gridText}
		r.gridText = gridText{rowText: rowText{b: b}}
	}
}

// end ends an element that began aside.
func (r *openReader) end() {
	r.endTable()
	r.b.end()
	if r.aside.name != "note" {
		r.m.margins.take(r.b)
	}
	r.gridText, r.aside = r.aside.back, aside{}
}

// inline reports whether an element stands within the text or is part of it.
func (r *openReader) inline(e xml.StartElement) bool {
	switch e.Name.Local {
	case "h":
		r.within++
		level, _ := strconv.Atoi(attribute(e, "outline-level"))
		r.paragraph(document.Heading, max(1, level))
	case "p":
		r.within++
		r.paragraph(r.kind(attribute(e, "style-name")))
	case "list-item", "list-header", "numbered-paragraph":
		r.lists++
	case "s":
		r.write(" ")
	case "tab":
		r.write("\t")
	case "line-break":
		r.write("\n")
	case "note":
		r.begin("note", r.notes)
	default:
		return false
	}
	return true
}

// kind is the kind of a paragraph of a style, at its present position. Styles may be based on each other in a circle.
func (r *openReader) kind(style string) (kind document.Kind, level int) {
	switch {
	case r.class == "title":
		return document.Heading, 1
	case r.class == "subtitle":
		return document.Heading, 2
	case r.lists > 0 || r.class == "outline":
		return document.Item, 0
	}
	for range 20 {
		if style == "Title" {
			return document.Heading, 1
		}
		style = r.styles[style].parent
	}
	return document.Paragraph, 0
}

// text adds the text of paragraphs, in which each white space is a space.
func (r *openReader) text(s string) {
	if r.within > 0 && (r.tables == 0 || r.cell != nil) {
		r.write(strings.Map(func(c rune) rune {
			if c == '\n' || c == '\r' || c == '\t' {
				return ' '
			}
			return c
		}, s))
	}
}

// frame begins an element with a position of its own.
func (r *openReader) frame(p *parts, e xml.StartElement) error {
	switch r.class = attribute(e, "class"); r.class {
	case "page-number", "date-time":
		r.class = ""
		return p.skip()
	case "header", "footer":
		r.begin("frame", &builder{most: r.b.most})
	}
	return nil
}

// object notes an object that has its own part. In a flat file it is here. A sheet's chart has cells of the sheet.
func (r *openReader) object(p *parts, e xml.StartElement) error {
	name := path.Join(attribute(e, "href"), "content.xml")
	switch {
	case name != "content.xml" && r.m.files[name] != nil && !r.seen[name]:
		r.seen[name] = true
		r.objects = append(r.objects, name)
	case r.body == "spreadsheet":
		return p.skip()
	}
	return nil
}

// readObject reads an object, but no object within it.
func (r *openReader) readObject(name string) error {
	within := newOpenReader(&members{is: r.m.is}, r.b)
	if _, err := r.m.walk(name, r.b, within); err != nil {
		return err
	}
	return within.finish()
}

func (r *openReader) ended(name string) error {
	switch name {
	case r.aside.name:
		if r.aside.depth--; r.aside.depth == 0 {
			r.end()
		}
	case "h", "p":
		r.within = max(0, r.within-1)
		r.endParagraph()
	case "list-item", "list-header", "numbered-paragraph":
		r.lists = max(0, r.lists-1)
	case "table-header-rows":
		r.header = false
	case "table-cell":
		r.endCell()
	case "table-row":
		r.endRow()
	case "table":
		r.endTable()
		r.chart = r.chart && r.tables > 0
	}
	if name == "frame" {
		r.class = ""
	}
	return r.addObjects()
}

// finish writes the footnotes and endnotes.
func (r *openReader) finish() error {
	r.within, r.tables, r.aside = 0, 0, aside{}
	r.b.end()
	err := r.addObjects()
	notes, _ := r.notes.finish()
	for line := range strings.Lines(notes.Body) {
		r.b.block(document.Paragraph, 0, line)
	}
	return err
}
