package model_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/providerhttp"
)

// A text may be divided anywhere, also within a character. The joined text is the same, and each emitted piece is
// valid.
func TestATextMayBeDividedAnywhere(t *testing.T) {
	const text = "a\u00e9\u20ac😀👩‍👩‍👧z\U0010FFFF"
	var units []string // as JSON escapes, which divide each character beyond the first 65,536
	for _, r := range text {
		if r >= 0x10000 {
			r -= 0x10000
			units = append(units, escaped(0xD800+r>>10), escaped(0xDC00+r&0x3FF))
			continue
		}
		units = append(units, escaped(r))
	}
	for name, parts := range map[string][]string{"escapes": units, "bytes": bytesOf(text)} {
		for size := 1; size <= len(parts); size++ {
			var emitted strings.Builder
			d := &model.Draft{Stop: "stop", Emit: func(piece string) {
				assert.True(t, utf8.ValidString(piece), "%q", piece)
				emitted.WriteString(piece)
			}}
			c := d.Begin()
			d.Add(c, "a", "f", "")
			for at := 0; at < len(parts); at += size {
				var piece providerhttp.Text
				raw := `"` + strings.Join(parts[at:min(at+size, len(parts))], "") + `"`
				require.NoError(t, json.Unmarshal([]byte(raw), &piece))
				d.AddText(string(piece))
				d.Add(c, "", "", string(piece))
			}
			reply, err := d.Done(nil)
			require.NoError(t, err)
			assert.Equal(t, text, reply.Text, "%s by %d", name, size)
			assert.Equal(t, text, emitted.String())
			assert.Equal(t, text, string(reply.Calls[0].Arguments))
		}
	}
}

func bytesOf(text string) (parts []string) {
	for i := range len(text) {
		parts = append(parts, text[i:i+1])
	}
	return parts
}

func escaped(unit rune) string {
	const digits = "0123456789abcdef"
	return `\u` + string([]byte{digits[unit>>12], digits[unit>>8&15], digits[unit>>4&15], digits[unit&15]})
}

func TestOtherBytesThanCharactersAreReplaced(t *testing.T) {
	for want, pieces := range map[string][]string{
		"\uFFFD":        {"\xed\xa0\xbd"},                 // a half at the end
		"\uFFFDa":       {"\xed\xa0\xbd", "a"},            // a half before something else
		"\uFFFD\uFFFD":  {"\xed\xb8\x80", "\xed\xa0\xbd"}, // the halves in the wrong order
		"\uFFFD😀":       {"\xed\xa0\xbd", "\xed\xa0\xbd", "\xed\xb8\x80"},
		"a\uFFFDb":      {"a\xff", "b"},
		"\uFFFD\uFFFDx": {"\xf0\x9f", "x"},
	} {
		d := &model.Draft{Stop: "stop", Emit: func(string) {}}
		for _, piece := range pieces {
			d.AddText(piece)
		}
		reply, err := d.Done(nil)
		require.NoError(t, err)
		assert.Equal(t, want, reply.Text, "%q", pieces)
	}
}
