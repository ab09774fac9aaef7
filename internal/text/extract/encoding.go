package extract

import (
	"bytes"
	"regexp"
	"strings"
	uni "unicode"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/unicode"

	"agentplatform/internal/platform/codepage"
)

const sampleSize = 64 << 10 // bytes from which it is known whether a text looks binary

// toUTF8 decodes a text. It uses the first of these encodings that there is and that fits:
//   - that of the byte order mark
//   - one whose texts look binary
//   - the declared one, of the sender or of the text itself
//   - UTF-8
//   - the detected one
//
// The error is [ErrKind] for files that are not text.
func toUTF8(data []byte, declared string, isPage bool) (string, error) {
	if e := codepage.Marked(data); e != nil {
		return decodeAs(e, data), nil
	}
	sample := data[:min(len(data), sampleSize)]
	if e := unmarked(sample); e != nil { // EBCDIC has a sign of its own for the end of a line
		return strings.ReplaceAll(decodeAs(e, data), "\u0085", "\n"), nil
	}
	if isBinary(sample) {
		return "", ErrKind
	}
	if declared == "" {
		declared = declaration(data[:min(len(data), 1024)], isPage)
	}
	e, name := charset.Lookup(declared)
	switch {
	case name == "iso-2022-jp": // is ASCII, so valid UTF-8
	case utf8.Valid(data) && isEscaped(data):
		e = japanese.ISO2022JP
	case utf8.Valid(data):
		return string(data), nil
	case e == nil || name == "utf-8" || name == "replacement":
		e = codepage.Guess(data)
	}
	return decodeAs(e, data), nil
}

var xmlDeclaration = regexp.MustCompile(`^\s*<\?xml[^>]*\sencoding\s*=\s*["']([A-Za-z0-9._:-]+)["']`)

// declaration is the encoding that a text names at its beginning, if any.
func declaration(head []byte, isPage bool) string {
	if found := xmlDeclaration.FindSubmatch(head); found != nil {
		return string(found[1])
	}
	if isPage {
		// DetermineEncoding returns windows-1252 also for a page without a declaration.
		if _, name, _ := charset.DetermineEncoding(head, ""); name != "windows-1252" {
			return name
		}
	}
	return ""
}

// isEscaped reports ASCII with the escape sequences that begin Japanese text in ISO-2022-JP.
func isEscaped(data []byte) bool {
	if bytes.ContainsFunc(data, func(c rune) bool { return c >= utf8.RuneSelf }) {
		return false
	}
	return bytes.Contains(data, []byte("\x1b$B")) || bytes.Contains(data, []byte("\x1b$@"))
}

// text decodes a file that is text. If most of it would not fit, it returns the Fault before any work.
func (in input) text(b *builder) (string, error) {
	text, err := toUTF8(in.data, in.charset, false)
	if err == nil && utf8.RuneCountInString(text) > 2*b.most.characters {
		b.full = true
		err = b.tooLong()
	}
	return text, err
}

func decodeAs(e encoding.Encoding, data []byte) string {
	text, err := e.NewDecoder().Bytes(data)
	if err != nil {
		text = data
	}
	return strings.ToValidUTF8(string(text), "\uFFFD")
}

// unmarked is the encoding of a text that looks binary: UTF-16 without a mark, or EBCDIC. It is nil for all else.
func unmarked(sample []byte) encoding.Encoding {
	if bytes.IndexByte(sample, 0) >= 0 {
		big := unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)
		little := unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)
		even := sample[:len(sample)&^1]
		switch asBig, asLittle := prose(big, even), prose(little, even); {
		case max(asBig, asLittle) < mostProse:
			return nil
		case asBig > asLittle:
			return big
		default:
			return little
		}
	}
	// 0x40 is a space in EBCDIC, which has no 0x20.
	if bytes.IndexByte(sample, ' ') >= 0 || bytes.Count(sample, []byte{0x40}) <= len(sample)/20 {
		return nil
	}
	letters := 0
	for _, c := range decodeAs(charmap.CodePage037, sample) {
		if c < utf8.RuneSelf && (isLetter(byte(c)) || isDigit(byte(c)) || c == ' ') {
			letters++
		}
	}
	if letters < len(sample)*3/4 {
		return nil
	}
	return charmap.CodePage037
}

const mostProse = 0.95

// prose is the share of a text's characters that fit a text: ASCII, punctuation, and the letters of one script. Without
// ASCII it is 0.
func prose(e encoding.Encoding, sample []byte) float64 {
	text := []rune(decodeAs(e, sample))
	ascii, punctuation := 0, 0
	scripts := map[rune]int{}
	for _, r := range text {
		switch {
		case r < utf8.RuneSelf && (uni.IsPrint(r) || uni.IsSpace(r)), r == '\u0085':
			ascii++
		case r >= '\u3400' && r < '\u4E00': // such Han characters are rare
		case uni.In(r, uni.Han, uni.Hangul, uni.Hiragana, uni.Katakana), r >= '\u3000' && r < '\u3040',
			r >= '\uFF00' && r < '\uFFF0':
			scripts['\u4E00']++
		case r < '\u0250' && uni.IsPrint(r):
			scripts[0]++
		case r >= '\u2000' && r < '\u2070':
			punctuation++
		case uni.IsGraphic(r):
			scripts[r>>8]++
		}
	}
	if ascii == 0 || len(text) == 0 {
		return 0
	}
	most := 0
	for _, n := range scripts {
		most = max(most, n)
	}
	return float64(ascii+punctuation+most) / float64(len(text))
}

// isBinary reports bytes that are not text in any encoding: they have zeros, or many other control characters.
func isBinary(sample []byte) bool {
	control := 0
	for _, c := range sample {
		switch {
		case c == 0:
			return true
		case c < ' ' && c != '\t' && c != '\n' && c != '\r' && c != '\f' && c != '\x1b':
			control++
		}
	}
	return control > len(sample)/50
}
