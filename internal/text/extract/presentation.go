package extract

import (
	"encoding/xml"
	"strings"

	"agentplatform/internal/text/document"
)

// readPresentation reads a presentation: a slide is a page, its notes follow its text.
func readPresentation(m *members, _ input, b *builder) error {
	const whole = "ppt/presentation.xml"
	relations, err := m.relations(whole)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	return m.each(whole, func(_ *parts, e xml.StartElement) error {
		slide := relations[idOf(e)]
		if e.Name.Local != "sldId" || slide.kind != "slide" || seen[slide.member] || b.full {
			return nil
		}
		seen[slide.member] = true
		b.page()
		return readSlide(m, slide.member, b)
	})
}

// idOf is the id of the relation that an element names: it has an id of its own, without a prefix, too.
func idOf(e xml.StartElement) string {
	for _, a := range e.Attr {
		if a.Name.Local == "id" && a.Name.Space != "" {
			return a.Value
		}
	}
	return ""
}

func readSlide(m *members, name string, b *builder) error {
	if err := readShapes(m, name, b); err != nil {
		return err
	}
	relations, err := m.relations(name)
	if err != nil {
		return err
	}
	for _, of := range relations {
		if of.kind == "notesSlide" && m.files[of.member] != nil {
			return readShapes(m, of.member, b)
		}
	}
	return nil
}

func readShapes(m *members, name string, b *builder) error {
	whole, err := m.walk(name, b, &slideReader{rowText: rowText{b: b}})
	if whole {
		b.end()
	}
	return err
}

type slideReader struct {
	rowText

	placeholder string // what the shape stands for: title, body, …
	left        bool   // the shape repeats what stands elsewhere: the number of the slide, the date, the footer
	merge       cell   // with which others the cell is merged
	names       bool   // the first row of the table has the names of the columns
	table       *table
}

func (r *slideReader) start(p *parts, e xml.StartElement) error {
	switch e.Name.Local {
	case "Fallback":
		return p.skip()
	case "sp", "graphicFrame": // the shapes that have text
		r.placeholder, r.left = "", false
	case "ph":
		r.placeholder = attribute(e, "type")
		if r.placeholder == "" {
			r.placeholder = "body"
		}
		r.left = r.placeholder == "sldNum" || r.placeholder == "dt" || r.placeholder == "ftr" || r.placeholder == "hdr"
	case "tbl":
		r.table, r.names = newTable(r.b), false
	case "tblPr":
		r.names = attribute(e, "firstRow") == "1"
	case "tc":
		r.cell, r.merge = &strings.Builder{}, cell{left: isOn(e, "hMerge"), up: isOn(e, "vMerge")}
	case "p":
		r.paragraph()
	case "buNone":
		if r.b.opened && r.b.kind == document.Item {
			r.b.kind = document.Paragraph
		}
	case "buChar", "buAutoNum":
		if r.b.opened && r.b.kind == document.Paragraph {
			r.b.kind = document.Item
		}
	case "t":
		text, err := p.characters(utf8Most * r.b.most.characters)
		r.write(text)
		return err
	case "br":
		r.write("\n")
	}
	return nil
}

// paragraph begins a paragraph of a shape or cell.
func (r *slideReader) paragraph() {
	switch {
	case r.cell != nil:
		r.write(" ")
	case r.placeholder == "title", r.placeholder == "ctrTitle":
		r.b.begin(document.Heading, 1)
	case r.placeholder == "subTitle":
		r.b.begin(document.Heading, 2)
	case r.placeholder == "body":
		r.b.begin(document.Item, 0)
	default:
		r.b.begin(document.Paragraph, 0)
	}
}

func (r *slideReader) write(s string) {
	if !r.left {
		r.rowText.write(s)
	}
}

func (r *slideReader) ended(name string) {
	switch name {
	case "p":
		if r.cell == nil {
			r.b.end()
		}
	case "tc":
		r.endCell(r.merge, 1)
	case "tr":
		if r.table == nil {
			r.table = newTable(r.b)
		}
		r.table.add(r.cells, r.names)
		r.cells = nil
	}
}

// isOn reports whether an attribute is there and true.
func isOn(e xml.StartElement, name string) bool {
	value := attribute(e, name)
	return value != "" && value != "0" && value != "false"
}
