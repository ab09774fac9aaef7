package extract

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/ledongthuc/pdf"
)

// ofPDF returns the text of a PDF's pages. The error says why it cannot be read.
func ofPDF(data []byte) (string, error) {
	text, err := pages(data)
	if err != nil {
		return "", fmt.Errorf("the PDF cannot be read: %w", err)
	}
	return text, nil
}

// pages reads pages until the limit of text is reached.
func pages(data []byte) (text string, err error) {
	defer func() {
		if broken := recover(); broken != nil { // the library panics if a document is invalid
			err = fmt.Errorf("%v", broken)
		}
	}()
	r, err := pdf.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return "", err
	}
	var c collector
	for i := 1; i <= r.NumPage() && !c.full; i++ {
		if i > 1 {
			c.add("\n\n")
		}
		c.add(page(r.Page(i).Content().Text))
	}
	if strings.TrimSpace(c.String()) == "" {
		return "", errors.New("it has no text, perhaps it was scanned")
	}
	return c.text(), nil
}

// page joins glyphs in the order in which the document draws them: another height is a new line, a gap is a space, a
// wide gap a tab.
func page(glyphs []pdf.Text) string {
	var b strings.Builder
	var last pdf.Text
	for _, g := range glyphs {
		if g.S == "\n" || g.S == "\uFFFD" {
			continue // the library marks the ends of pieces with these
		}
		size := math.Abs(g.FontSize)
		if last.S != "" {
			gap := g.X - (last.X + last.W)
			switch {
			case math.Abs(g.Y-last.Y) > size/2:
				b.WriteString("\n")
			case gap > 3*size:
				b.WriteString("\t")
			case last.W > 0 && gap > size/5 && last.S != " " && g.S != " ":
				b.WriteString(" ")
			}
		}
		b.WriteString(g.S)
		last = g
	}
	return b.String()
}
