package extract

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"agentplatform/internal/text/document"
)

// readPage reads the visible text of a page: no scripts, no styles, nothing hidden, and no navigation unless there is
// nothing else.
func readPage(in input, b *builder) error {
	text, err := toUTF8(in.data, in.charset, true)
	if err != nil {
		return err
	}
	if in.format == page {
		if done, err := readMain(text, b); done || err != nil {
			return err
		}
	}
	before := len(b.text.Blocks)
	if err := readMarkup(text, b, true); err != nil || len(b.text.Blocks) > before || b.full {
		return err
	}
	return readMarkup(text, b, false)
}

func readMarkup(text string, b *builder, bare bool) error {
	b.end()
	r := pageReader{z: html.NewTokenizer(strings.NewReader(text)), rowText: rowText{b: b}, bare: bare}
	for !b.full {
		switch r.z.Next() {
		case html.ErrorToken:
			if err := r.z.Err(); !errors.Is(err, io.EOF) {
				return fmt.Errorf("the page cannot be read: %w", err)
			}
			r.endTable()
			b.end()
			return nil
		case html.StartTagToken:
			r.start(false)
		case html.SelfClosingTagToken:
			r.start(true)
		case html.EndTagToken:
			name, _ := r.z.TagName()
			r.ended(atom.Lookup(name), name)
		case html.TextToken:
			r.text(r.z.Text())
		}
	}
	return nil
}

// pageReader reads the tokens of a page. It builds no tree: a page may have millions of elements within elements.
type pageReader struct {
	rowText

	z    *html.Tokenizer
	bare bool // without navigation

	skipped string // the element that is left out, with all in it
	depth   int    // of elements of that name within it
	titled  bool   // within the title
	heading strings.Builder
	pre     int // depth of elements whose line breaks count

	tables       int   // depth of tables
	nested       int   // depth of tables in the present cell, which are part of it
	elementSpans spans // of the element
	spans        spans // of the cell
	wide         int   // cells of a row before, which had several texts
	inRow        bool
	labels       int   // short texts of the row
	long         bool  // it has a long one
	taken        []int // by column: in how many rows from here on a cell from above has it
	head         bool  // in the head of the table
	name         bool  // the present cell has the name of a column
	names        int   // such cells of the present row
	gaps         int   // empty cells of other kinds after one of these
	values       bool  // the row has other texts
	table        *table
}

// spans are the columns and rows of a cell. A cell whose text is unseen keeps its position; a hidden one has no columns
// and rows.
type spans struct {
	across, down int
	unseen       bool
}

var (
	// left are elements that show no text, or only text that is not read.
	left = map[atom.Atom]bool{
		atom.Script: true, atom.Style: true, atom.Noscript: true, atom.Template: true, atom.Svg: true,
		atom.Select: true, atom.Button: true, atom.Iframe: true, atom.Object: true, atom.Canvas: true,
		atom.Datalist: true, atom.Audio: true, atom.Video: true,
	}
	// void are elements without an end.
	void = map[atom.Atom]bool{
		atom.Area: true, atom.Base: true, atom.Br: true, atom.Col: true, atom.Embed: true, atom.Hr: true,
		atom.Img: true, atom.Input: true, atom.Link: true, atom.Meta: true, atom.Param: true, atom.Source: true,
		atom.Track: true, atom.Wbr: true,
	}
	// unended are elements that the next of their kind ends.
	unended = map[atom.Atom]bool{
		atom.P: true, atom.Li: true, atom.Td: true, atom.Th: true, atom.Tr: true, atom.Dd: true, atom.Dt: true,
		atom.Option: true, atom.Body: true, atom.Html: true,
	}
	// apart are elements whose text stands apart.
	apart = map[atom.Atom]bool{
		atom.P: true, atom.Div: true, atom.Blockquote: true, atom.Section: true, atom.Article: true, atom.Header: true,
		atom.Footer: true, atom.Main: true, atom.Aside: true, atom.Nav: true, atom.Figure: true, atom.Figcaption: true,
		atom.Ul: true, atom.Ol: true, atom.Dl: true, atom.Dt: true, atom.Dd: true, atom.Form: true, atom.Fieldset: true,
		atom.Hr: true, atom.Address: true, atom.Details: true, atom.Summary: true, atom.Caption: true, atom.Body: true,
		atom.Center: true, atom.Legend: true, atom.Textarea: true,
	}
	levels = map[atom.Atom]int{
		atom.H1: 1, atom.H2: 2, atom.H3: 3, atom.H4: 4, atom.H5: 5, atom.H6: 6,
	}
)

func (r *pageReader) start(closed bool) {
	raw, attributes := r.z.TagName()
	a := atom.Lookup(raw)
	if r.skipped != "" {
		switch {
		case string(raw) != r.skipped || closed:
		case unended[a]:
			r.skipped = ""
		default:
			r.depth++
		}
		if r.skipped != "" {
			return
		}
	}
	name := string(raw)
	hidden := left[a] || r.bare && a == atom.Nav
	r.elementSpans = spans{across: 1, down: 1}
	if attributes {
		hidden = r.attributes(a) || hidden
	}
	// A cell is read even if its text is not shown, so that its end is known.
	switch isCell := (a == atom.Td || a == atom.Th) && r.nested == 0; {
	case !isCell:
		hidden = hidden || r.elementSpans.unseen
	case hidden:
		hidden, r.elementSpans = false, spans{unseen: true}
	}
	if hidden && !void[a] && (!closed || a == atom.Script || a == atom.Style) {
		r.skipped, r.depth = name, 1
		return
	}
	r.opened(a)
}

// attributes takes the language of the page from its first element, and reports whether an element is hidden. It notes
// an element that takes space on the page but cannot be seen.
func (r *pageReader) attributes(a atom.Atom) (hidden bool) {
	for range maxAttributes {
		key, value, more := r.z.TagAttr()
		switch string(key) {
		case "lang", "xml:lang":
			if a == atom.Html || a == atom.Body {
				r.b.language(cutBytes(string(value), maxLanguage+1))
			}
		case "hidden":
			hidden = string(value) != "until-found"
		case "aria-hidden":
			r.elementSpans.unseen = r.elementSpans.unseen || string(value) == "true"
		case "role":
			hidden = hidden || r.bare && string(value) == "navigation"
		case "colspan":
			r.elementSpans.across = max(1, number(value, mostAcross))
		case "rowspan":
			if r.elementSpans.down = number(value, mostDown); r.elementSpans.down == 0 {
				r.elementSpans.down = mostDown
			}
		case "style":
			style := bytes.ToLower(bytes.ReplaceAll(value[:min(len(value), 1000)], []byte(" "), nil))
			hidden = hidden || bytes.Contains(style, []byte("display:none"))
			r.elementSpans.unseen = r.elementSpans.unseen || bytes.Contains(style, []byte("visibility:hidden"))
		}
		if !more {
			break
		}
	}
	return hidden
}

func (r *pageReader) opened(a atom.Atom) {
	if isTabular(a) && r.tables == 0 {
		r.beginTable()
	}
	switch {
	case a == atom.Title:
		r.titled = true
	case a == atom.Table && (r.nested > 0 || r.cell != nil && r.isData()):
		r.nested++
		r.write(" ")
	case r.nested > 0 && isTabular(a):
		r.write(" ")
	case a == atom.Table:
		r.beginTable()
	case isSection(a) && r.tables > 0 && r.nested == 0:
		r.endRow()
		r.taken, r.head = nil, a == atom.Thead
	case a == atom.Tr:
		r.endRow()
		r.inRow = true
	case a == atom.Td, a == atom.Th:
		r.endCell()
		r.name = a == atom.Th || r.head
		r.cell, r.spans, r.inRow = &strings.Builder{}, r.elementSpans, true
	case a == atom.Br:
		r.write("\n")
	case r.cell != nil:
		if apart[a] || levels[a] > 0 || a == atom.Li {
			r.write(" ")
		}
	case a == atom.Pre:
		r.pre++
		r.b.begin(document.Code, 0)
	case levels[a] > 0:
		r.b.begin(document.Heading, levels[a])
	case a == atom.Li:
		r.b.begin(document.Item, 0)
	case apart[a] && !r.onlyBegun():
		r.b.end()
	}
}

// onlyBegun reports an item or heading without text yet: a paragraph within it is the same part.
func (r *pageReader) onlyBegun() bool {
	return r.b.opened && len(bytes.TrimSpace(r.b.part)) == 0
}

func (r *pageReader) ended(a atom.Atom, name []byte) {
	if r.skipped != "" {
		if string(name) == r.skipped {
			if r.depth--; r.depth <= 0 {
				r.skipped = ""
			}
		}
		return
	}
	switch {
	case a == atom.Title:
		r.b.title(r.heading.String())
		r.titled = false
	case a == atom.Table && r.nested > 0:
		r.nested--
		r.write(" ")
	case r.nested > 0 && isTabular(a):
		r.write(" ")
	case a == atom.Table && r.tables > 0:
		r.endTable()
	case isSection(a) && r.tables > 0 && r.nested == 0:
		r.endRow()
		r.taken, r.head = nil, false
	case a == atom.Tr && r.tables > 0:
		r.endRow()
	case a == atom.Td, a == atom.Th:
		r.endCell()
	case r.cell != nil:
		if apart[a] || levels[a] > 0 || a == atom.Li {
			r.write(" ")
		}
	case a == atom.Pre:
		r.pre = max(0, r.pre-1)
		r.b.end()
	case apart[a], levels[a] > 0, a == atom.Li:
		r.b.end()
	}
}

func (r *pageReader) text(raw []byte) {
	switch {
	case r.skipped != "":
	case r.titled:
		if r.heading.Len() < utf8Most*maxTitle {
			r.heading.Write(raw)
		}
	case r.pre > 0:
		r.write(string(raw))
	case r.b.opened || r.cell != nil || len(bytes.TrimSpace(raw)) > 0:
		r.write(strings.Map(func(c rune) rune {
			if c == '\n' || c == '\t' || c == '\r' || c == '\f' {
				return ' '
			}
			return c
		}, string(raw)))
	}
}

// write writes a text, but no line break where nothing has begun.
func (r *pageReader) write(s string) {
	if s != "\n" || r.cell != nil || r.b.opened {
		r.rowText.write(s)
	}
}
