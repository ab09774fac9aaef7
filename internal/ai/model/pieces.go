package model

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// pieces joins a text that arrives in pieces. Pieces may divide a character: a surrogate pair, or its bytes.
type pieces struct{ held string }

// add returns the text that this piece completes. The beginning of a character at its end is held back.
func (p *pieces) add(piece string) string {
	text := p.held + piece
	end := len(text) - unfinished(text)
	p.held = text[end:]
	return repaired(text[:end])
}

// rest is the text that is still held back when no piece follows.
func (p *pieces) rest() string {
	held := p.held
	p.held = ""
	return repaired(held)
}

// unfinished is the number of bytes at the end of a text that may begin a character.
func unfinished(text string) (n int) {
	for back := 1; back <= min(utf8.UTFMax-1, len(text)); back++ {
		if last := text[len(text)-back:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRuneInString(last) {
				n = back
			}
			break
		}
	}
	if before := len(text) - n - 3; before >= 0 && half(text[before:]) < 0xDC00 && half(text[before:]) != 0 {
		n += 3
	}
	return n
}

// half is the half of a surrogate pair with which a text begins, as [providerhttp.Unquote] writes it; 0: none.
func half(text string) rune {
	if len(text) < 3 || text[0] != 0xED || text[1] < 0xA0 || text[1] > 0xBF || utf8.RuneStart(text[2]) {
		return 0
	}
	return 0xD000 | rune(text[1]&0x3F)<<6 | rune(text[2]&0x3F)
}

// repaired is a text with its pairs joined. Other bytes become U+FFFD.
func repaired(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		if first := half(text); first != 0 {
			size = 3
			if pair := utf16.DecodeRune(first, half(text[3:])); pair != utf8.RuneError {
				r, size = pair, 6
			}
		}
		b.WriteRune(r)
		text = text[size:]
	}
	return b.String()
}
