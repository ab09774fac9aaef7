package extract

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/gogs/chardet"
	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
)

const (
	sampleSize    = 64 << 10 // bytes from which an encoding is guessed
	minConfidence = 20       // per cent, of a guess; below it the text is taken for Western European
)

// toUTF8 decodes a text: by its byte order mark, as UTF-16 whose letters are mostly Latin, as UTF-8, as it is declared
// (by its sender, or by the page itself), or as it looks like. The error is [ErrKind] for what is no text.
func toUTF8(data []byte, declared string, isPage bool) (string, error) {
	if data, ok := bytes.CutPrefix(data, []byte("\xef\xbb\xbf")); ok {
		return strings.ToValidUTF8(string(data), "\uFFFD"), nil
	}
	if e := utf16(data); e != nil {
		return decodeAs(e, data), nil
	}
	if looksBinary(data[:min(len(data), sampleSize)]) {
		return "", ErrKind
	}
	if isPage && declared == "" {
		_, name, _ := charset.DetermineEncoding(data[:min(len(data), 1024)], "")
		if name != "windows-1252" { // which is what it says of a page that says nothing, too
			declared = name
		}
	}
	e, name := charset.Lookup(declared)
	switch {
	case name == "iso-2022-jp": // is ASCII, so valid UTF-8
	case utf8.Valid(data):
		return string(data), nil
	case e == nil || name == "utf-8" || name == "replacement":
		e = guess(data)
	}
	return decodeAs(e, data), nil
}

// text decodes what is text already. The Fault of one of which most could not be kept comes before any work.
func (in input) text(b *builder) (string, error) {
	text, err := toUTF8(in.data, in.charset, false)
	if err == nil && utf8.RuneCountInString(text) > 2*b.most.characters {
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

// utf16 is the byte order of UTF-16, by its mark or by the zeros in every other byte; nil if it is none.
func utf16(data []byte) encoding.Encoding {
	switch {
	case bytes.HasPrefix(data, []byte("\xff\xfe")), bytes.HasPrefix(data, []byte("\xfe\xff")):
		return unicode.UTF16(unicode.LittleEndian, unicode.UseBOM)
	case len(data) < 4:
		return nil
	}
	sample := data[:min(len(data), 4096)&^1]
	var zeros [2]int
	for i, c := range sample {
		if c == 0 {
			zeros[i%2]++
		}
	}
	switch many := len(sample) / 2 * 4 / 5; {
	case zeros[0] >= many && zeros[1] == 0:
		return unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)
	case zeros[1] >= many && zeros[0] == 0:
		return unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)
	}
	return nil
}

// looksBinary reports what is no text in any encoding: it has zeros, or many other control characters.
func looksBinary(sample []byte) bool {
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

// guess is the encoding that a text looks like.
func guess(data []byte) encoding.Encoding {
	sample := data[:min(len(data), sampleSize)]
	if almostUTF8(sample) {
		return unicode.UTF8
	}
	best, err := chardet.NewTextDetector().DetectBest(sample)
	if err == nil && best.Confidence >= minConfidence {
		if e, _ := charset.Lookup(best.Charset); e != nil && best.Charset != "UTF-8" {
			return e
		}
	}
	return charmap.Windows1252
}

// almostUTF8 reports UTF-8 with a few broken characters: it has ten good ones beyond ASCII for each broken one.
func almostUTF8(sample []byte) bool {
	good, broken := 0, 0
	for len(sample) > 0 {
		r, size := utf8.DecodeRune(sample)
		switch {
		case r == utf8.RuneError && size == 1:
			broken++
		case size > 1:
			good++
		}
		sample = sample[size:]
	}
	return good >= 10*broken
}
