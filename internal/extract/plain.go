package extract

import (
	"strings"

	"agentplatform/internal/document"
)

// readPlain reads plain text: an empty line ends a paragraph.
func readPlain(in input, b *builder) error {
	text, err := in.text(b)
	if err != nil {
		return err
	}
	addParagraphs(text, b)
	return nil
}

// addParagraphs writes text whose paragraphs are separated by empty lines. A form feed begins a paragraph, too.
func addParagraphs(text string, b *builder) {
	for line := range linesOf(text) {
		if b.full {
			return
		}
		if strings.TrimSpace(line) == "" {
			b.end()
			continue
		}
		if strings.HasPrefix(line, "\f") || len(b.part) > longParagraph {
			b.end()
		}
		if !b.opened {
			b.begin(document.Paragraph, 0)
		}
		b.add(line)
		b.add("\n")
	}
	b.end()
}

// longParagraph is the size in bytes after which the next line begins a paragraph: a log has no empty lines.
const longParagraph = 4000

// linesOf are the lines of a text, whatever ends them, without their ends.
func linesOf(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for len(text) > 0 {
			line, rest := text, ""
			if at := strings.IndexAny(text, "\r\n"); at >= 0 {
				line, rest = text[:at], text[at+1:]
				if text[at] == '\r' {
					rest = strings.TrimPrefix(rest, "\n")
				}
			}
			if !yield(line) {
				return
			}
			text = rest
		}
	}
}
