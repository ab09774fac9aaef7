package providerhttp

import (
	"encoding/json"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Text is a text, or a list of parts whose texts are concatenated; any other value is empty. Half of a character stays:
// see [Unquote].
type Text string

// UnmarshalJSON accepts any JSON value and never fails.
func (t *Text) UnmarshalJSON(raw []byte) error {
	if text, is := Unquote(raw); is {
		*t = Text(text)
		return nil
	}
	var parts []struct {
		Type string
		Text Text
	}
	if json.Unmarshal(raw, &parts) == nil {
		for _, p := range parts {
			if p.Type == "text" {
				*t += p.Text
			}
		}
	}
	return nil
}

// Unquote is the text of a valid JSON string. encoding/json replaces bytes that are not Unicode. Some providers send
// the halves of a surrogate pair, or the bytes of a character, in two strings. Both stay here: a half is the three
// bytes that it would have in UTF-8.
func Unquote(raw []byte) (text string, is bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	raw = raw[1 : len(raw)-1]
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' || i+1 == len(raw) {
			out = append(out, raw[i])
			continue
		}
		i++
		if raw[i] != 'u' {
			out = append(out, escaped[raw[i]])
			continue
		}
		r := hex4(raw[i+1:])
		i += 4
		if pair := utf16.DecodeRune(r, escape(raw[i+1:])); utf16.IsSurrogate(r) && pair != utf8.RuneError {
			r, i = pair, i+6
		}
		if utf16.IsSurrogate(r) {
			out = append(out, 0xED, byte(0x80|r>>6&0x3F), byte(0x80|r&0x3F))
			continue
		}
		out = utf8.AppendRune(out, r)
	}
	return string(out), true
}

// escaped are the characters that JSON writes with a letter.
var escaped = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// escape is the unit of UTF-16 of the escape with which a text begins; 0: there is none.
func escape(raw []byte) rune {
	if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
		return 0
	}
	return hex4(raw[2:])
}

func hex4(raw []byte) rune {
	n, _ := strconv.ParseUint(string(raw[:min(4, len(raw))]), 16, 32) // the string is valid JSON
	return rune(n)
}
