package codepage_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/unicode"

	"agentplatform/internal/platform/codepage"
)

func TestEncodingIsGuessedFromLetters(t *testing.T) {
	for text, e := range map[string]encoding.Encoding{
		"Договор вступает в силу.":  charmap.CodePage866,
		"договор вступает в силу.":  charmap.KOI8R,
		"Zażółć gęślą jaźń":         charmap.Windows1250,
		"She said “yes” – and left": charmap.Windows1252,
		"Grüße":                     charmap.Windows1252,
		"納品書の価格を確認してください":           japanese.ShiftJIS,
	} {
		data, err := e.NewEncoder().Bytes([]byte(text))
		require.NoError(t, err)
		assert.Equal(t, e, codepage.Guess(data), text)
	}
	assert.Equal(t, unicode.UTF8, codepage.Guess([]byte("zehn gute: äöüäöüäöüä und ein Fehler: \xff")))
	late := strings.Repeat("id;name;amount\n", 70<<10/15) + "7;Gr\xf6\xdfe;3\n"
	assert.Equal(t, charmap.Windows1252, codepage.Guess([]byte(late)))
	assert.Nil(t, codepage.Marked([]byte("\xff")))
}

func FuzzGuess(f *testing.F) {
	f.Add([]byte("caf\xe9"))
	f.Add([]byte("\x93\xfa\x96\x7b\x8c\xea\r\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, err := codepage.Guess(data).NewDecoder().Bytes(data)
		assert.NoError(t, err)
	})
}
