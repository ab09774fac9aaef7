package extract

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Word and WordPad write letters as bytes. The font of the text gives their meaning.
func TestBytesOfRichTextAreThoseOfItsFont(t *testing.T) {
	const fonts = `{\rtf1\ansi\ansicpg1252\deff0{\fonttbl{\f0\fnil\fcharset0 Arial;}` +
		`{\f1\fcharset238{\*\panose 02}Arial CE;}` +
		`{\f2\fcharset204 Arial Cyr;}{\f3\fcharset128\'82\'6c;}{\f4\fcharset2 Symbol;}{\f5\cpg1253 Greek;}}`
	for data, want := range map[string]string{
		`\f0 Gr\'fc\'dfe`:                            "Grüße",
		`\f1 \'a3\'f3d\'9f i \'b3\'f3d\'bc`:          "Łódź i łódĽ",
		`{\f2 \'c4\'ee\'e3\'ee\'e2\'ee\'f0} caf\'e9`: "Договор café",
		`\f2 \'c4\'e0\plain  \'e9`:                   "Да é",
		`\f3 \'93\'fa\'96\'7b`:                       "日本",
		`\f5 \'c1\f0 \'c1`:                           "ΑÁ",
		`\f4 \'b7\f99 \'e9`:                          "·é",
	} {
		text, err := documentOf(t, "", "a.rtf", []byte(fonts+`\pard `+data+"}"))
		require.NoError(t, err)
		assert.Equal(t, want, strings.TrimSpace(text.Body), data)
	}
	text, err := documentOf(t, "", "a.rtf", []byte(`{\rtf1\deff1{\fonttbl{\f1\fcharset204 A;}} \'c4\'e0}`))
	require.NoError(t, err)
	assert.Equal(t, "Да", text.Body)
}
