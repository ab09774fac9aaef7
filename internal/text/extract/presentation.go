package extract

import (
	"encoding/xml"

	"agentplatform/internal/text/document"
)

// readPresentation reads a presentation: a slide is a page, its notes follow its text.
func readPresentation(m *members, _ input, b *builder) error {
	seen := map[string]bool{}
	return m.each(m.main, func(_ *parts, e xml.StartElement) error {
		slide := m.related[idOf(e)]
		if e.Name.Local != "sldId" || slide.kind != "slide" || seen[slide.member] || b.full {
			return nil
		}
		seen[slide.member] = true
		b.page()
		return readSlide(m, slide.member, b)
	})
}

// idOf is the id of the relation that an element names. The element may also have an id of its own, without a prefix.
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
	text, err := m.officeText(name, b)
	if err != nil {
		return err
	}
	whole, err := m.walk(name, b, &slideReader{officeText: text, margins: &m.margins})
	if whole {
		b.end()
	}
	return err
}

type slideReader struct {
	officeText

	placeholder string // what the shape stands for: title, body, …
	left        bool   // the shape repeats what stands elsewhere: the number of the slide, the date, the footer
	margins     *margins
	line        []byte // of a header or footer
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
		r.beginTable()
	case "tblPr":
		r.named = attribute(e, "firstRow") == "1"
	case "tc":
		r.beginCell(cell{left: isOn(e, "hMerge"), up: isOn(e, "vMerge")})
	case "p":
		r.paragraph(r.kind())
	case "fld":
		if r.left {
			r.write(pageNumber)
			return p.skip()
		}
	case "chart":
		r.chart(e)
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

// kind is what the paragraphs of the shape are.
func (r *slideReader) kind() (kind document.Kind, level int) {
	switch r.placeholder {
	case "title", "ctrTitle":
		return document.Heading, 1
	case "subTitle":
		return document.Heading, 2
	case "body":
		return document.Item, 0
	}
	return document.Paragraph, 0
}

func (r *slideReader) write(s string) {
	switch {
	case !r.left:
		r.rowText.write(s)
	case r.placeholder == "ftr" || r.placeholder == "hdr":
		r.line = append(r.line, s...)
	}
}

func (r *slideReader) ended(name string) error {
	if name == "p" {
		r.margins.add(string(r.line))
		r.line = nil
	}
	return r.officeText.ended(name)
}

// isOn reports whether an attribute is there and true.
func isOn(e xml.StartElement, name string) bool {
	value := attribute(e, name)
	return value != "" && value != "0" && value != "false"
}
