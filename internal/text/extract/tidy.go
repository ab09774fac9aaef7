package extract

import (
	"strings"
	"unicode"

	"golang.org/x/text/language"
)

const (
	maxTitle    = 500 // characters
	maxLanguage = 35  // bytes of a language tag
)

// tidy replaces a run of white space by one line break if it has any. Otherwise its tabs stay, or it becomes one space.
// Tabs at the beginning of a line stay if the line has more tabs: they stand for empty cells, while one alone is
// indentation. tidy removes control characters and characters that no reader sees.
func tidy(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	for line := range strings.FieldsFuncSeq(s, isBreak) {
		text := strings.TrimLeftFunc(line, isBlank)
		indentation := line[:len(line)-len(text)]
		if text = strings.TrimRightFunc(text, isBlank); text == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		if strings.Contains(text, "\t") {
			b.WriteString(strings.Repeat("\t", strings.Count(indentation, "\t")))
		}
		tidyLine(&b, text)
	}
	return b.String()
}

// tidyLine writes a line that neither begins nor ends with white space.
func tidyLine(b *strings.Builder, line string) {
	tabs, spaces := 0, false
	for _, r := range line {
		switch {
		case r == '\t':
			tabs++
		case unicode.IsSpace(r):
			spaces = true
		case isUnseen(r):
		default:
			if tabs > 0 {
				b.WriteString(strings.Repeat("\t", tabs))
			} else if spaces {
				b.WriteByte(' ')
			}
			tabs, spaces = 0, false
			b.WriteRune(r)
		}
	}
}

// tidyLines keeps white space within lines, and empty lines between them. It removes empty lines at the beginning and
// the end, control characters and characters that no reader sees.
func tidyLines(s string) string {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	s = strings.Map(func(r rune) rune {
		switch {
		case isBreak(r):
			return '\n'
		case r == '\t':
			return r
		case unicode.IsSpace(r):
			return ' '
		case isUnseen(r):
			return -1
		}
		return r
	}, s)
	for {
		line, rest, more := strings.Cut(s, "\n")
		if strings.TrimSpace(line) != "" {
			break
		}
		if s = rest; !more {
			return ""
		}
	}
	for {
		at := strings.LastIndexByte(s, '\n')
		if at < 0 || strings.TrimSpace(s[at:]) != "" {
			return s
		}
		s = s[:at]
	}
}

// oneLine makes each run of white space one space.
func oneLine(s string) string { return strings.Join(strings.Fields(tidy(s)), " ") }

func isBreak(r rune) bool {
	return r == '\n' || r == '\r' || r == '\v' || r == '\f' || r == '\u0085' || r == '\u2028' || r == '\u2029'
}

// isBlank reports white space, and what no reader sees.
func isBlank(r rune) bool { return unicode.IsSpace(r) || isUnseen(r) }

// isUnseen reports control characters, soft hyphens, and marks without width that only allow a line break.
func isUnseen(r rune) bool {
	return unicode.IsControl(r) || r == '\u00AD' || r == '\u200B' || r == '\u2060' || r == '\uFEFF'
}

// cutBytes returns the first bytes of a text in UTF-8, without a partial character.
func cutBytes(s string, most int) string { return strings.ToValidUTF8(s[:min(len(s), most)], "") }

// languageTag is a language in its common form, like pt-BR. It is empty if the text is not a language.
func languageTag(s string) string {
	s = strings.TrimSpace(s)
	if s == "" || len(s) > maxLanguage {
		return ""
	}
	tag, err := language.Parse(s)
	if err != nil || tag == language.Und {
		return ""
	}
	return tag.String()
}
