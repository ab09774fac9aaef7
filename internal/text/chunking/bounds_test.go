//go:build !race

package chunking

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/text/document"
)

// Texts that could make a search for sentences, words or blocks go back and forth, with plain texts of their length. In
// quadratic time each would take some thousand times as long.
func TestTimeIsLinear(t *testing.T) {
	const length = 200_000
	took := func(text document.Text) time.Duration {
		at := time.Now()
		chunks, err := Split(text, 220, 40)
		require.NoError(t, err)
		checkChunks(t, text, chunks, 220)
		return time.Since(at)
	}
	repeated := func(s string) document.Text { return document.Text{Body: strings.Repeat(s, length/len(s))} }
	plain := took(repeated("The contract ends in a year. It may be renewed, e.g. by letter. "))
	blocks := repeated("a ")
	for i := range length / 2 {
		blocks.Blocks = append(blocks.Blocks, document.Block{Kind: document.Row, Start: 2 * i, End: 2*i + 1})
	}
	pages := repeated("a ")
	for i := range length {
		pages.Pages = append(pages.Pages, i)
	}
	for name, text := range map[string]document.Text{
		"closing brackets":    {Body: "a." + strings.Repeat(")", length)},
		"brackets and spaces": {Body: "a." + strings.Repeat(") ", length/2)},
		"digits":              {Body: "a. " + strings.Repeat("1", length)},
		"points":              repeated("."),
		"spaces":              {Body: "a." + strings.Repeat(" ", length) + "b"},
		"blank lines":         repeated("\n"),
		"lines":               repeated("a\n"),
		"marks":               {Body: "a." + strings.Repeat("\u0301", length/2)},
		"one word":            repeated("a"),
		"rows":                blocks,
		"pages":               pages,
	} {
		assert.Less(t, took(text), 100*plain, name)
	}
}
