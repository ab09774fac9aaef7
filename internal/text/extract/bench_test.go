package extract_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkText reads ordinary small documents.
func BenchmarkText(b *testing.B) {
	page, err := os.ReadFile("testdata/embedded-font.pdf")
	require.NoError(b, err)
	for name, data := range map[string][]byte{
		"a.html": []byte("<h1>Dear all</h1><p>Words"), "a.docx": word(b, body("<w:p><w:t>Words</w:t></w:p>")),
		"a.pdf": page, "a.txt": []byte("words"),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				_, err := text(b.Context(), "", name, data)
				require.NoError(b, err)
			}
		})
	}
}
