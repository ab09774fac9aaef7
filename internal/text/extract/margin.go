package extract

import (
	"slices"
	"strings"
	"unicode"

	"agentplatform/internal/text/document"
)

const (
	// pageNumber stands for the number of a page in a header or footer.
	pageNumber = "\uFFFC"
	// fewWords is the number of words of "Page 1 of 2". A line with a page number and at most so many words is left
	// out.
	fewWords   = 2
	maxMargins = 1000 // lines of headers and footers
)

// margins are the lines of headers and footers, each once, without page numbers.
type margins struct{ lines []string }

// add adds the lines of a header or footer.
func (m *margins) add(text string) {
	for line := range strings.FieldsFuncSeq(text, isBreak) {
		words := strings.Fields(strings.ReplaceAll(tidy(line), pageNumber, " "))
		n := countWords(words)
		if n == 0 || n <= fewWords && strings.Contains(line, pageNumber) || len(m.lines) >= maxMargins {
			continue
		}
		if line = strings.Join(words, " "); !slices.Contains(m.lines, line) {
			m.lines = append(m.lines, line)
		}
	}
}

// countWords returns how many of the words have a letter or digit.
func countWords(words []string) int {
	n := 0
	for _, word := range words {
		if strings.ContainsFunc(word, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			n++
		}
	}
	return n
}

// take adds a builder's headers and footers.
func (m *margins) take(from *builder) {
	text, _ := from.finish()
	m.add(text.Body)
}

// write writes the lines, each as a paragraph.
func (m *margins) write(b *builder) {
	for _, line := range m.lines {
		b.block(document.Paragraph, 0, line)
	}
}
