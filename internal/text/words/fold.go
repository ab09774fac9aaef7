package words

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"agentplatform/internal/text/document"
)

// compatible writes a word in the one form that Unicode treats as the same for a reader: full and half width,
// ligatures, composed accents. It replaces apostrophes by those that stemmers know. The result has at most longestTerm
// characters.
func compatible(word string) string {
	if isPlain(word) {
		return document.Cut(word, longestTerm)
	}
	word = norm.NFKC.String(word)
	word = strings.Map(func(r rune) rune {
		switch {
		case r == '’' || r == '＇':
			return '\''
		case unicode.Is(unicode.Cf, r): // soft hyphens, joiners: they change how a word looks
			return -1
		}
		return unicode.ToLower(r) // what the form before hid, like the letters of ℡
	}, word)
	return document.Cut(word, longestTerm)
}

// letters are letters of Latin scripts that Unicode does not divide into a letter and a mark, and the Greek letter with
// two forms.
var letters = map[rune]string{
	'ß': "ss", 'æ': "ae", 'œ': "oe", 'ø': "o", 'đ': "d", 'ð': "d", 'ł': "l", 'ı': "i", 'þ': "th", 'ħ': "h", 'ŧ': "t",
	'ς': "σ",
}

// fold removes diacritics that people leave out when they search, and characters that are not part of a word. Marks
// that make another letter stay: those of Indic scripts and Kana, and of Cyrillic except for ё.
func fold(word string) string {
	if isPlain(word) && !strings.ContainsAny(word, "'.,") {
		return word
	}
	word = norm.NFD.String(word)
	var b strings.Builder
	var last, letter rune // the last kept one, and the last one that is not a mark
	for _, r := range word {
		mark := unicode.IsMark(r)
		if !mark {
			letter = r
		}
		switch to, is := letters[r]; {
		case is:
			b.WriteString(to)
		case mark && dropped(letter, r):
			continue
		case mark || unicode.IsLetter(r) || unicode.IsNumber(r) || (r == '.' || r == ',') && unicode.IsNumber(last):
			b.WriteRune(r)
		}
		last = r
	}
	return document.Cut(norm.NFC.String(b.String()), longestTerm)
}

// dropped reports whether a mark on a letter is left out.
func dropped(letter, mark rune) bool {
	switch {
	case mark >= 0x0300 && mark <= 0x036F:
		return letter == 'е' && mark == 0x0308 || !unicode.Is(unicode.Cyrillic, letter)
	case unicode.In(mark, unicode.Hebrew, unicode.Arabic), mark >= 0x064B && mark <= 0x065F: // vowels
		return true
	}
	return false
}

// isPlain reports whether a word has ASCII characters only.
func isPlain(word string) bool {
	return !strings.ContainsFunc(word, func(r rune) bool { return r >= utf8.RuneSelf })
}
