package extract

import (
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"

	"agentplatform/internal/text/document"
)

// shortElement is the size in bytes up to which the text of an element shares its line with those of other elements.
const shortElement = 200

// readXML reads elements with their names, attributes and texts. An element within a text is part of it. XHTML is read
// as a page. A text that is not XML, or an XML document without text, is read as plain text.
func readXML(in input, b *builder) error {
	text, err := in.text(b)
	if err != nil {
		return err
	}
	if isHTML([]byte(text[:min(len(text), 512)])) {
		return readMarkup(text, b, true)
	}
	if !isXML(text) {
		return readPlain(in, b)
	}
	r := xmlReader{b: b}
	d := decoderOf(text)
	for token, err := d.RawToken(); err == nil && !b.full; token, err = d.RawToken() {
		switch t := token.(type) {
		case xml.StartElement:
			r.start(t)
		case xml.EndElement:
			r.ended()
		case xml.CharData:
			r.text(t)
		}
	}
	b.end()
	if len(b.text.Blocks) == 0 {
		return readPlain(in, b)
	}
	return nil
}

// decoderOf accepts errors that browsers accept. The text is UTF-8 already, and not in the encoding that it declares.
func decoderOf(text string) *xml.Decoder {
	d := xml.NewDecoder(strings.NewReader(text))
	d.Strict, d.Entity = false, xml.HTMLEntity
	d.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil }
	return d
}

// isXML reports whether a text is XML up to its end, with elements that are not too deep.
func isXML(text string) bool {
	d := decoderOf(text)
	elements, depth := 0, 0
	for depth <= maxDepth {
		token, err := d.RawToken()
		if err != nil {
			return errors.Is(err, io.EOF) && elements > 0
		}
		switch t := token.(type) {
		case xml.StartElement:
			elements++
			depth++
		case xml.EndElement:
			depth--
		case xml.CharData:
			if elements == 0 && strings.TrimSpace(string(t)) != "" {
				return false
			}
		}
	}
	return false
}

type xmlReader struct {
	b    *builder
	open []xmlElement
	run  strings.Builder // the present text
	deep int             // of the elements that stand together
}

type xmlElement struct {
	name       string
	attributes string // those that are not written yet
	within     bool   // a text
}

func (r *xmlReader) start(e xml.StartElement) {
	within := strings.TrimSpace(r.run.String()) != ""
	if len(r.open) == 0 {
		r.b.language(attribute(e, "lang"))
	} else if of := &r.open[len(r.open)-1]; of.attributes != "" && !within {
		r.line(of.name+of.attributes, "")
		of.attributes = ""
	}
	r.open = append(r.open, xmlElement{e.Name.Local, attributesOf(e), within})
}

// attributesOf writes the attributes that have content.
func attributesOf(e xml.StartElement) string {
	var all strings.Builder
	for _, a := range e.Attr {
		value := oneLine(a.Value)
		if value != "" && a.Name.Local != "xmlns" && !slices.Contains([]string{"xmlns", "xml", "xsi"}, a.Name.Space) {
			all.WriteString(" " + a.Name.Local + `="` + value + `"`)
		}
	}
	return all.String()
}

func (r *xmlReader) text(s []byte) {
	if r.run.Len() == 0 && strings.TrimSpace(string(s)) == "" {
		return
	}
	if r.run.Len() > utf8Most*r.b.most.characters {
		r.end(xmlElement{})
	}
	r.run.Write(s)
}

func (r *xmlReader) ended() {
	if len(r.open) == 0 {
		return
	}
	e := r.open[len(r.open)-1]
	if r.open = r.open[:len(r.open)-1]; !e.within {
		r.end(e)
	}
}

// end writes an element. An element without text or attributes encloses others, which stand together.
func (r *xmlReader) end(e xmlElement) {
	raw := r.run.String()
	r.run.Reset()
	if strings.Contains(raw, "</") { // a feed has pages in its texts
		_ = readMarkup(raw, r.b, true)
		return
	}
	s := oneLine(raw)
	if e.name == "title" {
		r.b.title(s)
	}
	if s == "" && e.attributes == "" {
		r.b.end()
		return
	}
	r.line(e.name+e.attributes, s)
}

// line writes the name and attributes of an element, and a text. A long text is a paragraph, and a name alone is left
// out.
func (r *xmlReader) line(name, s string) {
	if len(r.b.part) > longParagraph || r.deep != len(r.open) {
		r.b.end()
	}
	r.deep = len(r.open)
	switch {
	case s == "":
		s = name
	case len(s) <= shortElement || strings.Contains(name, " "):
		s = name + ": " + s
	}
	if len(s) > shortElement {
		r.b.block(document.Paragraph, 0, s)
		return
	}
	r.b.add(s + "\n")
}
