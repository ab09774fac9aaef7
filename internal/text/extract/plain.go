package extract

import (
	"iter"
	"strings"

	"agentplatform/internal/text/document"
)

// readPlain reads plain text: an empty line ends a paragraph, and so does a form feed. White space within lines stays:
// it may be indentation, or separate columns.
func readPlain(in input, b *builder) error {
	text, err := in.text(b)
	if err != nil {
		return err
	}
	b.end()
	var p strings.Builder
	end := func() {
		s := tidyLines(p.String())
		kind := document.Paragraph
		if isLaidOut(s) {
			kind = document.Code
		}
		b.put(kind, 0, s)
		p.Reset()
	}
	for line := range linesOf(text) {
		if b.full {
			return nil
		}
		blank := strings.TrimSpace(line) == ""
		if blank || strings.HasPrefix(line, "\f") || p.Len() > longParagraph {
			end()
		}
		if !blank {
			p.WriteString(line + "\n")
		}
	}
	end()
	return nil
}

// longParagraph is the size in bytes after which the next line begins a paragraph: a log has no empty lines.
const longParagraph = 4000

// isLaidOut reports whether the lines of a paragraph must be kept, as in code and in columns: half of them have a gap
// or are indented deeper than others. The first line of prose may be indented.
func isLaidOut(s string) bool {
	least, lines := len(s), 0
	for line := range strings.Lines(s) {
		least = min(least, indentation(line))
		lines++
	}
	many := 0
	first := true
	for line := range strings.Lines(s) {
		if !first && indentation(line) > least || hasGap(strings.TrimSpace(line)) {
			many++
		}
		first = false
	}
	return lines > 1 && 2*many >= lines
}

func indentation(line string) int { return len(line) - len(strings.TrimLeft(line, " \t")) }

// hasGap reports a tab, or several spaces, but not the double spaces that some write between sentences.
func hasGap(line string) bool {
	if strings.Contains(line, "\t") {
		return true
	}
	at := strings.Index(line, "  ")
	return at > 0 && (!strings.ContainsRune(".!?:", rune(line[at-1])) || strings.HasPrefix(line[at:], "   "))
}

// linesOf are the lines of a text, with any kind of line end, without their ends.
func linesOf(text string) iter.Seq[string] {
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
