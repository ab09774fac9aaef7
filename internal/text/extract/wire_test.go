package extract

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/text/document"
)

func free() error { return nil }

// A long text waits for room before it is read.
func TestALongTextWaitsForRoom(t *testing.T) {
	full := errors.New("full")
	for size, want := range map[int]error{LargeText: nil, LargeText + 1: full} {
		var b bytes.Buffer
		require.NoError(t, encode(&b, document.Text{Body: strings.Repeat("a", size)}, false))
		_, _, err := decode(&b, forDocuments, func() error { return full })
		require.ErrorIs(t, err, want)
		if want != nil {
			assert.Greater(t, b.Len(), LargeText/2, "it is not read")
		}
	}
}

func TestTextCrossesThePipeAsItIs(t *testing.T) {
	for _, cut := range []bool{false, true} {
		source := []byte("# Ä\n\n|a|b|\n|-|-|\n|1|2|\n\n- x\n\n    y\n")
		text, _, err := job{Format: markdown, Whole: true}.read(source)
		require.NoError(t, err)
		text.Pages, text.Language = []int{0, 3}, "de"
		text.Warnings = []document.Warning{{Code: document.UnmappedGlyphs, Pages: []int{2}, Count: 1}}
		var b bytes.Buffer
		require.NoError(t, encode(&b, text, cut))
		got, gotCut, err := decode(&b, forDocuments, free)
		require.NoError(t, err)
		assert.Equal(t, text, got)
		assert.Equal(t, cut, gotCut)
	}
}

func TestOtherWarningsAreRefused(t *testing.T) {
	for name, warnings := range map[string][]document.Warning{
		"another code": {{Code: "x", Pages: []int{1}, Count: 1}},
		"no page":      {{Code: document.UnmappedGlyphs}},
		"too few":      {{Code: document.UnmappedGlyphs, Pages: []int{1}, Count: 2}},
		"too many":     {{Code: document.UnmappedGlyphs, Pages: make([]int, 51), Count: 51}},
		"page 0":       {{Code: document.UnmappedGlyphs, Pages: []int{0}, Count: 1}},
		"twice": {{Code: document.UnmappedGlyphs, Pages: []int{1}, Count: 1},
			{Code: document.UnmappedGlyphs, Pages: []int{1}, Count: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			require.NoError(t, encode(&b, document.Text{Body: "a", Warnings: warnings}, false))
			_, _, err := decode(&b, forDocuments, free)
			assert.ErrorIs(t, err, errWire)
		})
	}
}

// FuzzDecode: for any output of a child, the text's positions are well-formed, or it is refused.
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
	f.Add([]byte("{\"Bytes\":1,\"Warnings\":[{\"Code\":\"unmapped_glyphs\",\"Pages\":[1],\"Count\":1}]}\na"))
	f.Fuzz(func(t *testing.T, data []byte) {
		text, _, err := decode(bytes.NewReader(data), forDocuments, free)
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
		assert.LessOrEqual(t, len(text.Warnings), 2)
		for _, w := range text.Warnings {
			assert.LessOrEqual(t, len(w.Pages), w.Count)
			assert.LessOrEqual(t, len(w.Pages), document.MaxWarningPages)
		}
	})
}
