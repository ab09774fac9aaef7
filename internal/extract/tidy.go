package extract

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/language"
)

const (
	maxTitle    = 500 // characters
	maxLanguage = 35  // bytes of a language tag
)

// tidy makes runs of white space one character: a line break if there is one among them, else a tab, else a space. It
// removes control characters and what no reader sees.
func tidy(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	var space byte
	for _, r := range s {
		switch {
		case isBreak(r):
			space = '\n'
		case r == '\t':
			if space != '\n' {
				space = '\t'
			}
		case unicode.IsSpace(r):
			if space == 0 {
				space = ' '
			}
		case isUnseen(r):
		default:
			if space != 0 && b.Len() > 0 {
				b.WriteByte(space)
			}
			space = 0
			b.WriteRune(r)
		}
	}
	return b.String()
}

// tidyLines keeps white space within lines, and empty lines between them. It removes empty lines at the beginning and
// the end, control characters and what no reader sees.
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

// isUnseen reports control characters, soft hyphens, and marks without width that only say where a line may break.
func isUnseen(r rune) bool {
	return unicode.IsControl(r) || r == '\u00AD' || r == '\u200B' || r == '\u2060' || r == '\uFEFF'
}

// cutTo returns the first characters of s.
func cutTo(s string, characters int) string {
	if len(s) <= characters {
		return s
	}
	for at := range s {
		if characters == 0 {
			return s[:at]
		}
		characters--
	}
	return s
}

// cutBytes returns the first bytes of s, without a partial character.
func cutBytes(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}

// languageTag is a language as it is commonly written, like pt-BR; empty if it is none.
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
