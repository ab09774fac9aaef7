package pdftext

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// at is a line at a place, in a font of 10 points.
func at(x, y float64, text string) Line { return Line{Text: text, x: x, y: y, end: y, size: 10} }

func sized(l Line, size float64) Line {
	l.size = size
	return l
}

// shown has a part on each line: its kind, level and lines.
func shown(parts []Part) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(strings.Replace(string(p.Kind), "paragraph", "text", 1))
		b.WriteString(strings.Repeat("+", p.Level) + ": " + strings.Join(p.Lines, "/") + "\n")
	}
	return b.String()
}

func TestLinesBecomeParts(t *testing.T) {
	hyphenated := at(0, 700, "a line that was joined with the next")
	hyphenated.end = 688
	turned := func(x float64, text string) Line {
		return Line{Text: text, x: x, y: 50, end: 90, size: 10, angle: 1.5708}
	}
	for name, c := range map[string]struct {
		lines []Line
		want  string
	}{
		"nothing": {nil, ""},
		"a wider gap": {[]Line{at(0, 700, "a"), at(0, 688, "b"), at(0, 676, "c"), at(0, 652, "d"), at(0, 640, "e")},
			"text: a/b/c\ntext: d/e\n"},
		"an indented line after a sentence": {
			[]Line{at(0, 700, "a"), at(0, 688, "b."), at(15, 676, "C"), at(0, 664, "d"), at(0, 652, "e")},
			"text: a/b.\ntext: C/d/e\n"},
		"an indented line within a sentence": {[]Line{at(0, 700, "a"), at(15, 688, "b"), at(0, 676, "c")},
			"text: a/b/c\n"},
		"pieces of one line": {[]Line{at(0, 700, "a"), at(200, 700, "b"), at(0, 688, "c")},
			"text: a/b/c\n"},
		"the next column": {
			[]Line{at(0, 112, "a"), at(0, 100, "one."), at(300, 700, "Two"), at(300, 688, "three")},
			"text: a/one.\ntext: Two/three\n"},
		"a sentence that goes on in the next column": {
			[]Line{at(0, 112, "a"), at(0, 100, "one"), at(300, 700, "two"), at(300, 688, "three")},
			"text: a/one/two/three\n"},
		"a line that was joined with the next": {
			[]Line{at(0, 712, "a"), hyphenated, at(0, 676, "b"), at(0, 664, "c"), at(0, 652, "d")},
			"text: a/a line that was joined with the next/b/c/d\n"},
		"lists": {[]Line{at(0, 700, "• one"), at(10, 688, "and more"), at(0, 676, "•two"), at(0, 664, "•"), at(10,
			664, "three")},
			"item: • one/and more\nitem: • two\nitem: • three\n"},
		"turned lines": {[]Line{turned(100, "a"), turned(112, "b"), turned(124, "c"), turned(160, "d")},
			"text: a/b/c\ntext: d\n"},
		"no places": {[]Line{{Text: "a"}, {Text: "b"}}, "text: a/b\n"},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, shown(Layout([]Page{{Lines: c.lines}})[0]))
		})
	}
}

func TestLargerLinesAreHeadings(t *testing.T) {
	text := at(0, 600, strings.Repeat("most of the text is in this size ", 3))
	pages := Layout([]Page{
		{Lines: []Line{sized(at(0, 700, "The title of"), 20), sized(at(0, 678, "the whole"), 20), text}},
		{Lines: []Line{sized(at(0, 700, "A chapter"), 14), text, sized(at(0, 400, "3.14"), 14),
			sized(at(0, 300, "Barely larger"), 11)}},
		{Lines: []Line{sized(at(0, 700, strings.Repeat("far too long for one ", 10)), 14), text}},
	})
	assert.True(t, strings.HasPrefix(shown(pages[0]), "heading+: The title of/the whole\ntext: most"), shown(pages[0]))
	assert.True(t, strings.HasPrefix(shown(pages[1]), "heading++: A chapter\ntext: most"), shown(pages[1]))
	assert.True(t, strings.HasSuffix(shown(pages[1]), "text: 3.14\ntext: Barely larger\n"), shown(pages[1]))
	assert.True(t, strings.HasPrefix(shown(pages[2]), "text: far"), shown(pages[2]))
	for _, level := range Layout([]Page{{Lines: []Line{
		text, sized(text, 13), sized(at(0, 1, "abc"), 14), sized(at(0, 1, "abc"), 15), sized(at(0, 1, "abc"), 16),
		sized(at(0, 1, "abc"), 17), sized(at(0, 1, "abc"), 18), sized(at(0, 1, "abc"), 19), sized(at(0, 1, "abc"), 20),
	}}})[0] {
		assert.LessOrEqual(t, level.Level, 6)
	}
}

// No line is lost, for any lines.
func FuzzLayout(f *testing.F) {
	f.Add("• a\nb\n\nc.", 10.0, -1.0)
	f.Fuzz(func(t *testing.T, text string, step, size float64) {
		var lines []Line
		for i, s := range strings.Split(strings.ToValidUTF8(text, "?"), "\n") { // valid UTF-8, as PDFium's texts
			if s != "" && len(lines) < 100 {
				y := float64(i) * step
				lines = append(lines, Line{Text: s, x: step, y: y, end: y, size: size + float64(i%3), angle: step})
			}
		}
		want, got := 0, 0
		for _, l := range lines {
			want += countLetters(l.Text)
		}
		for _, p := range Layout([]Page{{Lines: lines}})[0] {
			got += countLetters(strings.Join(p.Lines, "\n"))
		}
		assert.Equal(t, want, got)
	})
}

func TestDividedWordsAreJoined(t *testing.T) {
	for line, want := range map[string]string{
		"exam\uFFFEple": "example", "exam\u0002ple": "example", "Franco\uFFFEPrussian": "Franco-Prussian",
		"1\uFFFE2": "1-2", "the end\uFFFE": "the end-", "as it is": "as it is",
	} {
		assert.Equal(t, want, joinHyphens(line))
	}
}

func TestWhatIsMergedMustNotChangeThePage(t *testing.T) {
	page := []Line{{Text: "a b c d e"}, {Text: "f g h i j"}}
	assert.True(t, containsMost([]Line{{Text: "a b c d e f g h i j and a note"}}, page))
	assert.True(t, containsMost([]Line{{Text: "a b c d e f g h i X"}}, page), "a word may become part of another")
	assert.False(t, containsMost([]Line{{Text: "a b c d e f g h X Y"}}, page))
	assert.False(t, containsMost([]Line{{Text: "a"}}, []Line{{Text: "a a a a"}}))
	assert.True(t, containsMost(nil, nil))
}
