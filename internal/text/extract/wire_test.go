package extract

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/text/document"
)

func TestTextCrossesThePipeAsItIs(t *testing.T) {
	for _, cut := range []bool{false, true} {
		source := []byte("# Ä\n\n|a|b|\n|-|-|\n|1|2|\n\n- x\n\n    y\n")
		text, _, err := job{Format: markdown, Whole: true}.read(source)
		require.NoError(t, err)
		text.Pages, text.Language = []int{0, 3}, "de"
		var b bytes.Buffer
		require.NoError(t, encode(&b, text, cut))
		got, gotCut, err := decode(&b, forDocuments)
		require.NoError(t, err)
		assert.Equal(t, text, got)
		assert.Equal(t, cut, gotCut)
	}
}

// FuzzDecode: whatever a child says, the text is well-formed as far as its positions go, or refused.
func FuzzDecode(f *testing.F) {
	var b bytes.Buffer
	blocks := []document.Block{
		{Kind: document.Heading, Level: 1, End: 1}, {Kind: document.Row, Start: 2, End: 3, Header: 1},
	}
	require.NoError(f, encode(&b, document.Text{Title: "t", Body: "a\nb", Pages: []int{0}, Blocks: blocks}, true))
	f.Add(b.Bytes())
	f.Add([]byte("{\"Bytes\":1000000000}\n"))
	f.Add([]byte("{\"Blocks\":400000}\n"))
	f.Add([]byte("{\"Bytes\":1,\"Pages\":[-1]}\na"))
	f.Fuzz(func(t *testing.T, data []byte) {
		text, _, err := decode(bytes.NewReader(data), forDocuments)
		if err != nil {
			return
		}
		last, long := 0, len([]rune(text.Body))
		for n, block := range text.Blocks {
			assert.LessOrEqual(t, last, block.Start)
			assert.LessOrEqual(t, block.Start, block.End)
			assert.LessOrEqual(t, block.Header, n)
			last = block.End
		}
		assert.LessOrEqual(t, last, long)
	})
}
