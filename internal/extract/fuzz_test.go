package extract

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// FuzzText calls the parsers in this process, where a crash is found; in a child, a crash is a Fault.
func FuzzText(f *testing.F) {
	f.Add([]byte("<p>a <b>b</b>\u00a0<td>&amp;</td>"))
	f.Add([]byte("PK\x03\x04"))
	f.Add([]byte("a"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, read := range []func([]byte) (string, error){ofHTML, ofWord, plain} {
			if text, err := read(data); err == nil {
				assert.LessOrEqual(t, len(text), MaxText+len(cutNote))
			}
		}
	})
}
