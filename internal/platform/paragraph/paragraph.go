// Package paragraph joins texts so that each begins a paragraph of its own. It knows which texts show nothing.
//
// It must not know the author of a text. It imports only the standard library.
package paragraph

import (
	"strings"
	"unicode"
)

// Blank reports whether a text shows nothing: it is empty or has nothing but white space, characters without a width,
// and other invisible ones.
func Blank(text string) bool { return strings.TrimLeftFunc(text, IsBlank) == "" }

// IsBlank is [Blank] of a character.
func IsBlank(r rune) bool {
	return unicode.IsSpace(r) || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Z, unicode.Variation_Selector,
		unicode.Other_Default_Ignorable_Code_Point) || r == '\u2800' // an empty cell of Braille
}

// Begin is a text without the blank lines at its beginning. The indentation of its first line stays.
func Begin(text string) string {
	shown := strings.IndexFunc(text, func(r rune) bool { return !IsBlank(r) })
	return text[strings.LastIndexByte(text[:max(shown, 0)], '\n')+1:]
}

// Break returns the line ends that a text lacks before a blank line: the next text then begins a paragraph.
func Break(before string) string {
	tail := before[len(strings.TrimRightFunc(before, IsBlank)):]
	ends := min(strings.Count(tail, "\n"), 2)
	if ends > 0 && !strings.HasSuffix(tail, "\n") {
		ends = 1 // the last line has begun
	}
	return "\n\n"[ends:]
}
