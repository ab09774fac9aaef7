package chunking

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"agentplatform/internal/text/document"
)

// built writes a text of blocks. "# " and "## " begin headings, "- " items, and "> " code. "|" begins a row; the first
// row of a table is its header. All other blocks are paragraphs. Each argument is a block.
func built(blocks ...string) document.Text {
	var t document.Text
	header := -1
	for i, text := range blocks {
		kind, level := document.Paragraph, 0
		switch {
		case strings.HasPrefix(text, "#"):
			level = strings.Index(text, " ")
			kind, text = document.Heading, text[level+1:]
		case strings.HasPrefix(text, "- "):
			kind, text = document.Item, text[2:]
		case strings.HasPrefix(text, "|"):
			kind, text = document.Row, text[1:]
		case strings.HasPrefix(text, "> "):
			kind, text = document.Code, text[2:]
		}
		if kind != document.Row {
			header = -1
		} else if header < 0 {
			header = i
		}
		start := utf8.RuneCountInString(t.Body)
		t.Body += text
		t.Blocks = append(t.Blocks, document.Block{
			Kind: kind, Level: level, Start: start, End: utf8.RuneCountInString(t.Body), Header: header,
		})
		t.Body += "\n"
	}
	return t
}

// sentence has n words, the first of them the name.
func sentence(name string, n int) string {
	return name + strings.Repeat(" w", n-1) + "."
}

// shown writes the chunks of a text as lines: heading, text with blanks between words, context.
func shown(t *testing.T, text document.Text, size, overlap int) []string {
	t.Helper()
	chunks, err := Split(text, size, overlap)
	require.NoError(t, err)
	checkChunks(t, text, chunks, size)
	var list []string
	for _, c := range chunks {
		line := strings.Join(strings.Fields(c.Text), " ")
		if c.Heading != "" {
			line = "[" + c.Heading + "] " + line
		}
		if c.Context != "" {
			line += " {" + c.Context + "}"
		}
		list = append(list, line)
	}
	return list
}

// failing is the part of testing.T that tests and properties share.
type failing interface {
	assert.TestingT
	FailNow()
}

// checkChunks checks the properties of the chunks of every text.
func checkChunks(t failing, text document.Text, chunks []document.Chunk, size int) {
	body := []rune(text.Body)
	covered, last := 0, -1
	for i, c := range chunks {
		require.Equal(t, i, c.Index)
		require.True(t, last < c.Start && c.Start < c.End && c.End <= len(body), "chunk %d: %v", i, c)
		require.Equal(t, string(body[c.Start:c.End]), c.Text, "chunk %d", i)
		all := span{till: len(c.Text), end: c.End - c.Start}
		require.LessOrEqual(t, count(c.Text, all), size, "chunk %d", i)
		for at := covered; at < c.Start; at++ {
			require.True(t, unicode.IsSpace(body[at]), "character %d is in no chunk", at)
		}
		require.True(t, i == 0 || c.End > covered, "chunk %d has nothing of its own", i)
		covered, last = c.End, c.Start
		require.LessOrEqual(t, utf8.RuneCountInString(c.Context), longestContext*2)
	}
	for at := covered; at < len(body); at++ {
		require.True(t, unicode.IsSpace(body[at]), "character %d is in no chunk", at)
	}
}

func TestSplit(t *testing.T) {
	a6, b6, c6, d6 := sentence("A", 6), sentence("B", 6), sentence("C", 6), sentence("D", 6)
	for _, c := range []struct {
		name          string
		text          document.Text
		size, overlap int
		want          []string
	}{
		{"nothing", document.Text{Body: " \n "}, 10, 2, nil},
		{"what fits is one", built(a6, b6), 12, 3, []string{a6 + " " + b6}},
		{"paragraphs stay whole", built(a6, b6+" "+c6), 14, 0, []string{a6, b6 + " " + c6}},
		{"but none is left alone with a few words", built(sentence("A", 2), b6+" "+c6), 12, 0,
			[]string{sentence("A", 2) + " " + b6, c6}},
		{"sentences stay whole", built(a6 + " " + b6 + " " + c6), 16, 0, []string{a6 + " " + b6, c6}},
		{"an overlap of whole sentences", built(a6 + " " + b6 + " " + c6), 15, 7,
			[]string{a6 + " " + b6, b6 + " " + c6}},
		{"an overlap of words", built(a6 + " " + b6 + " " + c6), 15, 3,
			[]string{a6 + " " + b6, "w w w. " + c6}},
		{"none where it does not fit", built(a6+" "+b6, sentence("C", 15)), 15, 6,
			[]string{a6 + " " + b6, sentence("C", 15)}},
		{"a long sentence is cut between words", built(sentence("A", 25)), 10, 0,
			[]string{"A w w w w w w w w w", "w w w w w w w w w w", "w w w w w."}},
		{"headings begin chunks", built("# One", a6, "## Two", b6, "# Three", c6), 30, 9, []string{
			"[One] One " + a6, "[One › Two] Two " + b6, "[Three] Three " + c6}},
		{"headings alone begin one", built("# One", "## Two", a6), 30, 9, []string{"[One › Two] One Two " + a6}},
		{"no heading is left alone", built("# One", a6+" "+b6+" "+c6+" "+d6), 14, 0, []string{
			"[One] One " + a6 + " " + b6, "[One] " + c6 + " " + d6}},
		{"levels that are left out", built("### Deep", a6, "# Top", b6), 30, 0, []string{
			"[Deep] Deep " + a6, "[Top] Top " + b6}},
		{"before the first heading", built(a6, "# One", b6), 30, 9, []string{a6, "[One] One " + b6}},
		{"items", built("- "+a6, "- "+b6, "- "+c6), 13, 0, []string{a6 + " " + b6, c6}},
		{"rows have their header", built("|name age", "|Ann 30 x", "|Bob 31 x", "|Cy 32 x"), 6, 0, []string{
			"name age Ann 30 x", "Bob 31 x Cy 32 x {name age}"}},
		{"rows are not cut for an overlap", built("|name age", "|Ann 30 x", "|Bob 31 x", "|Cy 32 x"), 6, 2, []string{
			"name age Ann 30 x", "Bob 31 x Cy 32 x {name age}"}},
		{"lines of code", built("> if x {\n  y()\n}\nz()"), 4, 0, []string{"if x { y()", "} z()"}},
		{"lines of a paragraph go on", built("A w w\nw w w. B w\nw w w w."), 7, 0, []string{a6, b6}},
		{"no blocks", document.Text{Body: "A w w w w w.\n \t\nB w w\nw w w.\n\n\n\nC"}, 7, 0, []string{a6, b6 + " C"}},
		{"between blocks", document.Text{Body: "A b c d", Blocks: []document.Block{
			{Kind: document.Heading, Start: 2, End: 3, Level: 1}}}, 7, 0, []string{"A", "[b] b c d"}},
		{"without spaces", document.Text{Body: "東京都。京都市。大阪府"}, 4, 0, []string{"東京都。", "京都市。", "大阪府"}},
	} {
		t.Run(c.name, func(t *testing.T) { assert.Equal(t, c.want, shown(t, c.text, c.size, c.overlap)) })
	}
}

// Texts of chunks are whole lines: cells at both ends of a row may be empty, and a line of code may be indented.
func TestChunksKeepWhatLinesBeginAndEndWith(t *testing.T) {
	a6 := sentence("A", 6)
	for name, c := range map[string]struct {
		text          document.Text
		size, overlap int
		want, context []string
	}{
		"rows": {built("|\tJan\tFeb\t", "|North\t\t7\t", "|\t1\t\t", "|South\t\t\t"), 4, 0,
			[]string{"\tJan\tFeb\t\nNorth\t\t7\t", "\t1\t\t\nSouth\t\t\t"}, []string{"", "\tJan\tFeb\t"}},
		"a row of several chunks": {built("|\ta b\t\t\tc\t\t\t\td\t"), 2, 0,
			[]string{"\ta b", "\t\t\tc\t\t\t\td\t"},
			[]string{"\ta b\t\t\tc\t\t\t\td\t", "\ta b\t\t\tc\t\t\t\td\t"}},
		"code": {built(">   a:\n    b: 1\n      c: 2\n    d: 3"), 3, 1,
			[]string{"  a:\n    b: 1", "      c: 2", "    d: 3"}, []string{"", "", ""}},
		"prose": {built("  "+a6+"  "+a6, "\t"+a6), 6, 0, []string{"  " + a6, a6, "\t" + a6}, []string{"", "", ""}},
		"no blocks": {document.Text{Body: " \n  a a a\n\n    b b b \n"}, 3, 0, []string{"a a a", "b b b "},
			[]string{"", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			chunks, err := Split(c.text, c.size, c.overlap)
			require.NoError(t, err)
			checkChunks(t, c.text, chunks, c.size)
			var got, context []string
			for _, chunk := range chunks {
				got, context = append(got, chunk.Text), append(context, chunk.Context)
			}
			assert.Equal(t, c.want, got)
			assert.Equal(t, c.context, context)
		})
	}
}

// The white space of a chunk is bounded: at most as if one space followed each word, and each word were a long one.
func TestWhiteSpaceOfAChunkIsBounded(t *testing.T) {
	for name, line := range map[string]string{
		"in rows":     "|a" + strings.Repeat("\t", 5000) + "b",
		"before them": "|" + strings.Repeat("\t", 9000) + "b",
		"after them":  "|a" + strings.Repeat("\t", 9000),
		"between":     "> a" + strings.Repeat("\n", 9000) + "b",
		"in code":     ">     a" + strings.Repeat(" ", 9000) + "b",
		"in prose":    "a" + strings.Repeat(" ", 2000) + "b. c" + strings.Repeat(" ", 9000) + "d.",
	} {
		t.Run(name, func(t *testing.T) {
			text := built(slices.Repeat([]string{line}, 50)...)
			chunks, err := Split(text, 200, 20)
			require.NoError(t, err)
			checkChunks(t, text, chunks, 200)
			for _, c := range chunks {
				assert.LessOrEqual(t, c.End-c.Start, 200*(longestWord+1))
			}
		})
	}
}

func TestPagesOfChunks(t *testing.T) {
	text := document.Text{Body: "aa bb cc dd ee ff", Pages: []int{0, 6, 6, 12}}
	chunks, err := Split(text, 2, 0)
	require.NoError(t, err)
	var pages [][2]int
	for _, c := range chunks {
		pages = append(pages, [2]int{c.PageFrom, c.PageTo})
	}
	assert.Equal(t, [][2]int{{1, 1}, {3, 3}, {4, 4}}, pages)

	text.Body = strings.Repeat("a ", 30)
	text.Pages = []int{0, 20, 40}
	chunks, err = Split(text, 12, 5)
	require.NoError(t, err)
	for _, c := range chunks {
		assert.Equal(t, [2]int{c.Start/20 + 1, (c.End-1)/20 + 1}, [2]int{c.PageFrom, c.PageTo})
	}
}

func TestHeadersOfTablesAreBounded(t *testing.T) {
	blocks := []string{"|" + strings.Repeat("name ", 1000)}
	for range 50 {
		blocks = append(blocks, "|a b c d e")
	}
	chunks, err := Split(built(blocks...), 50, 0)
	require.NoError(t, err)
	last := chunks[len(chunks)-1]
	assert.Equal(t, longestContext, utf8.RuneCountInString(last.Context))
}

func TestAWordOfAMegabyteIsCut(t *testing.T) {
	text := document.Text{Body: strings.Repeat("x", 1<<20)}
	chunks, err := Split(text, 220, 40)
	require.NoError(t, err)
	checkChunks(t, text, chunks, 220)
	assert.InDelta(t, (1<<20)/32/(220-40), len(chunks), 40)
}

func TestThereAreAtMostSoManyChunks(t *testing.T) {
	text := document.Text{Body: strings.Repeat(sentence("A", 50)+"\n\n", MostChunks)}
	chunks, err := Split(text, 50, 0)
	require.NoError(t, err)
	require.Len(t, chunks, MostChunks)
	text.Body += "B"
	chunks, err = Split(text, 50, 0)
	require.ErrorIs(t, err, ErrTooMany)
	assert.Empty(t, chunks)
}

// texts draws texts with and without blocks; the blocks may be wrong.
func texts() *rapid.Generator[document.Text] {
	word := rapid.SampledFrom([]string{"a", "Ab", "c.", "D!", "\n", "\n\n", "\u00a0", "東京", "。", "e\u0301", "ก็",
		strings.Repeat("x", 40), "\U0001F680", "...", "- ", "\u2028"})
	return rapid.Custom(func(t *rapid.T) document.Text {
		gap := rapid.SampledFrom([]string{" ", ""}).Draw(t, "gap")
		body := strings.Join(rapid.SliceOfN(word, 0, 80).Draw(t, "body"), gap)
		text := document.Text{Body: body}
		length := utf8.RuneCountInString(body)
		for n := range rapid.IntRange(0, 8).Draw(t, "blocks") {
			text.Blocks = append(text.Blocks, document.Block{
				Kind: rapid.SampledFrom([]document.Kind{
					document.Paragraph, document.Heading, document.Item, document.Row, document.Code, "other",
				}).Draw(t, "kind"),
				Start: rapid.IntRange(-1, length+1).Draw(t, "start"), End: rapid.IntRange(-1, length+1).Draw(t, "end"),
				Level: rapid.IntRange(-1, 8).Draw(t, "level"), Header: rapid.IntRange(-2, n+2).Draw(t, "header"),
			})
		}
		if rapid.Bool().Draw(t, "ordered") {
			slices.SortFunc(text.Blocks, func(a, b document.Block) int { return a.Start - b.Start })
		}
		text.Pages = rapid.SliceOfN(rapid.IntRange(-1, length+1), 0, 4).Draw(t, "pages")
		return text
	})
}

func TestChunksHoldTheText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := texts().Draw(t, "text")
		size, overlap := rapid.IntRange(-1, 30).Draw(t, "size"), rapid.IntRange(-1, 30).Draw(t, "overlap")
		chunks, err := Split(text, size, overlap)
		require.NoError(t, err)
		checkChunks(t, text, chunks, max(size, 1))
	})
}

// The overlap of two chunks is at most as long as requested.
func TestOverlapsAreNoLongerThanAsked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := texts().Draw(t, "text")
		size, overlap := rapid.IntRange(1, 30).Draw(t, "size"), rapid.IntRange(0, 15).Draw(t, "overlap")
		chunks, err := Split(text, size, overlap)
		require.NoError(t, err)
		for i := 1; i < len(chunks); i++ {
			if common := chunks[i-1].End - chunks[i].Start; common > 0 {
				own := []rune(chunks[i].Text)[:common]
				all := span{till: len(string(own)), end: common}
				assert.LessOrEqual(t, count(string(own), all), overlap)
			}
		}
	})
}

func FuzzSplit(f *testing.F) {
	f.Add("A w w. B w w.\n\nC", 5, 2, 3, 9, uint8(1))
	f.Add("|a|b|\n|1|2|", 3, 1, 0, 5, uint8(3))
	f.Add("東京都。a.)))))))))))))))))))))", 2, 0, 1, 2, uint8(0))
	kinds := []document.Kind{document.Paragraph, document.Heading, document.Item, document.Row, document.Code}
	f.Fuzz(func(t *testing.T, body string, size, overlap, start, end int, kind uint8) {
		if !utf8.ValidString(body) {
			return
		}
		text := document.Text{Body: body}
		for i := range int(kind) % 8 {
			text.Blocks = append(text.Blocks, document.Block{
				Kind: kinds[(int(kind)+i)%len(kinds)], Start: start + i*8, End: end + i*8, Header: i / 2, Level: i,
			})
		}
		chunks, err := Split(text, size, overlap)
		require.NoError(t, err)
		checkChunks(t, text, chunks, max(size, 1))
		again, err := Split(text, size, overlap)
		require.NoError(t, err)
		assert.Equal(t, chunks, again)
	})
}

func ExampleSplit() {
	text := document.Text{Body: "Wings\nA wing lifts. A flap brakes.", Blocks: []document.Block{
		{Kind: document.Heading, Level: 1, Start: 0, End: 5}, {Kind: document.Paragraph, Start: 6, End: 35},
	}}
	chunks, _ := Split(text, 4, 1)
	for _, c := range chunks {
		fmt.Printf("%d–%d %s: %q\n", c.Start, c.End, c.Heading, c.Text)
	}
	// Output:
	// 0–19 Wings: "Wings\nA wing lifts."
	// 13–34 Wings: "lifts. A flap brakes."
}
