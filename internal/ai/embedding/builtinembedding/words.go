package builtinembedding

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// words returns the words of a text: runs of letters, digits and combining marks, in lower case, without accents. It
// treats documents and queries of all languages in the same way.
func words(text string) []string {
	if strings.ContainsFunc(text, func(r rune) bool { return r >= utf8.RuneSelf }) {
		text = strings.Map(withoutAccent, norm.NFKD.String(text))
	}
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r)
	})
}

// withoutAccent drops the combining accents of Latin, Greek and Cyrillic letters; other scripts have vowels as marks.
func withoutAccent(r rune) rune {
	if r >= 0x300 && r <= 0x36f {
		return -1
	}
	return r
}

// ideographs is the first character of the scripts that write a word in one or two characters, mostly without spaces.
const ideographs = 0x2e80

// isShort reports whether a word has at most three letters and its script writes words in letters.
func isShort(word string) bool {
	letters := 0
	for _, r := range word {
		if letters++; letters > 3 || r >= ideographs || !unicode.IsLetter(r) {
			return false
		}
	}
	return true
}

// The pieces of a word have so many characters. The first or last of these may stand for the word's border.
const (
	shortestPiece        = 3
	shortestOfIdeographs = 2
	longestPiece         = 5
	border               = ' '
)

func appendPieces(hashes []uint64, word string) []uint64 {
	var space [64]rune
	runes := append(space[:0], border)
	for _, r := range word {
		runes = append(runes, r)
	}
	runes = append(runes, border)
	shortest := shortestPiece
	if runes[1] >= ideographs {
		shortest = shortestOfIdeographs
	}
	for from := range runes {
		h := uint64(pieceOfWord)
		for i, r := range runes[from:min(len(runes), from+longestPiece)] {
			if h = mix(h, uint64(r)); i+1 >= shortest {
				hashes = append(hashes, spread(h))
			}
		}
	}
	return hashes
}

// The kinds of features: a word and a piece that are spelled alike are different features. The values are where their
// hashes begin.
const (
	wholeWord   = 0xcbf29ce484222325
	pieceOfWord = 0x9e3779b97f4a7c15
)

// hash is FNV-1a over characters instead of bytes.
func hash(kind uint64, word string) uint64 {
	for _, r := range word {
		kind = mix(kind, uint64(r))
	}
	return spread(kind)
}

func mix(h, r uint64) uint64 { return (h ^ r) * 0x100000001b3 }

// spread makes every bit of a hash depend on every other. The lowest bits give the position, the highest the sign.
func spread(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
