package pdftext

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"agentplatform/internal/text/document"
)

// Part is one or several lines that belong together.
type Part struct {
	Kind  document.Kind // a paragraph, a heading or an item
	Level int           // of a heading: from 1, the largest font of the document's headings, to 6
	Lines []string
}

const (
	headingSize   = 1.2 // how much larger than that of most of the text the font of a heading is, at least
	otherSize     = 1.1 // fonts differ by more
	gapFactor     = 1.3 // lines of a paragraph are at most so much farther apart than is usual on the page
	maxLeading    = 2.5 // font sizes between lines; lines farther apart are not one paragraph
	indentation   = 0.8 // font sizes by which the first line of a paragraph begins farther right, at least
	headingLines  = 3   // a heading has no more
	headingLength = 200 // nor more characters
	headingLetter = 3   // nor fewer letters
	maxPartLines  = 200 // a part has no more: chunks are smaller anyway
	bullets       = "•◦▪▫‣●■○□∙⁃➢➤➔✓✔\uf0b7\uf0a7\uf0d8"
)

// Layout puts the lines of a document's pages together. A paragraph ends at a wider gap between lines, at a change of
// the font's size, and at the end of its page. It also ends before an indented line after the end of a sentence. A few
// lines in a larger font than most of the text are a heading.
func Layout(pages []Page) [][]Part {
	body := bodySize(pages)
	levels := headingLevels(pages, body)
	laid := make([][]Part, len(pages))
	for i, p := range pages {
		laid[i] = layoutPage(p.Lines, body, levels)
	}
	return laid
}

func layoutPage(lines []Line, body float64, levels map[float64]int) []Part {
	usual := usualGap(lines)
	var parts []Part
	for from := 0; from < len(lines); {
		to := from + 1
		for to < len(lines) && to-from < maxPartLines && lines[to].continues(lines[to-1], usual) {
			to++
		}
		parts = append(parts, part(lines[from:to], body, levels))
		from = to
	}
	return parts
}

// part makes lines a part. A bullet that stands on a line of its own belongs to the next line.
func part(lines []Line, body float64, levels map[float64]int) Part {
	made := Part{Kind: document.Paragraph}
	length, letters := 0, 0
	for _, l := range lines {
		made.Lines = append(made.Lines, l.Text)
		length += utf8.RuneCountInString(l.Text)
		letters += countLetters(l.Text)
	}
	switch {
	case lines[0].isItem():
		made.Kind = document.Item
		bullet, rest := cutFirst(made.Lines[0])
		made.Lines[0] = bullet + " " + strings.TrimSpace(rest)
		if strings.TrimSpace(rest) == "" && len(made.Lines) > 1 {
			made.Lines = append([]string{bullet + " " + made.Lines[1]}, made.Lines[2:]...)
		}
	case lines[0].size >= headingSize*body && body > 0 && len(lines) <= headingLines && length <= headingLength &&
		letters >= headingLetter:
		made.Kind, made.Level = document.Heading, levels[rounded(lines[0].size)]
	}
	return made
}

func cutFirst(s string) (first, rest string) {
	_, long := utf8.DecodeRuneInString(s)
	return s[:long], s[long:]
}

// isItem reports whether a line begins with a bullet.
func (l Line) isItem() bool {
	first, _ := utf8.DecodeRuneInString(l.Text)
	return strings.ContainsRune(bullets, first)
}

// continues reports whether a line continues the paragraph of the last one.
func (l Line) continues(last Line, usual float64) bool {
	if l.isItem() {
		return false
	}
	size := max(last.size, l.size)
	if size <= 0 || last.isLoneBullet() {
		return true // nothing is known of where it stands
	}
	if size > otherSize*min(last.size, l.size) || math.Abs(l.angle-last.angle) > 0.1 {
		return false
	}
	right, down := l.from(last)
	if math.Abs(down) < size/2 {
		return true // another piece of the same line
	}
	if down < 0 { // the next column, or the text beside a picture
		return startsLower(l.Text) && !endsSentence(last.Text)
	}
	if down > maxLeading*size || usual > 0 && down > gapFactor*usual {
		return false
	}
	return !(right > indentation*size && endsSentence(last.Text))
}

func (l Line) isLoneBullet() bool {
	_, rest := cutFirst(l.Text)
	return l.isItem() && strings.TrimSpace(rest) == ""
}

// from returns how much farther right this line begins than the last, and how much farther down. For text that does not
// run from left to right only the distance is known.
func (l Line) from(last Line) (right, down float64) {
	if math.Abs(math.Sin(last.angle)) > 0.5 {
		return 0, math.Abs(l.x - last.x)
	}
	return l.x - last.x, last.end - l.y
}

func startsLower(s string) bool {
	first, _ := utf8.DecodeRuneInString(s)
	return unicode.IsLower(first)
}

// endsSentence reports whether a line ends with a sentence, perhaps within quotes or parentheses.
func endsSentence(s string) bool {
	last, _ := utf8.DecodeLastRuneInString(strings.TrimRight(s, `"'”’»)]`))
	return strings.ContainsRune(".!?:;…。！？：", last)
}

func countLetters(s string) int {
	n := 0
	for _, r := range s {
		if unicode.IsLetter(r) {
			n++
		}
	}
	return n
}

// rounded makes sizes that look the same equal: half points.
func rounded(size float64) float64 { return math.Round(2*size) / 2 }

// bodySize is the size of font that most characters are in.
func bodySize(pages []Page) float64 {
	count := map[float64]int{}
	for _, p := range pages {
		for _, l := range p.Lines {
			count[rounded(l.size)] += utf8.RuneCountInString(l.Text)
		}
	}
	return mostFrequent(count)
}

// usualGap is the distance of most lines of a page from the next; 0: there is none.
func usualGap(lines []Line) float64 {
	count := map[float64]int{}
	for i := 1; i < len(lines); i++ {
		_, down := lines[i].from(lines[i-1])
		if size := max(lines[i].size, lines[i-1].size); down > size/2 && down <= maxLeading*size {
			count[rounded(down)]++
		}
	}
	if usual := mostFrequent(count); count[usual] > 1 {
		return usual
	}
	return 0
}

// mostFrequent is the value that was counted most often; of several the smallest.
func mostFrequent(count map[float64]int) float64 {
	best := 0.0
	for _, size := range slices.Sorted(maps.Keys(count)) {
		if count[size] > count[best] {
			best = size
		}
	}
	return best
}

// headingLevels numbers the sizes of lines that may be headings, from the largest. Sizes beyond the sixth are the
// sixth.
func headingLevels(pages []Page, body float64) map[float64]int {
	levels := map[float64]int{}
	for _, p := range pages {
		for _, l := range p.Lines {
			if body > 0 && l.size >= headingSize*body && countLetters(l.Text) >= headingLetter {
				levels[rounded(l.size)] = 0
			}
		}
	}
	for i, size := range slices.SortedFunc(maps.Keys(levels), func(a, b float64) int { return cmp.Compare(b, a) }) {
		levels[size] = min(i+1, 6)
	}
	return levels
}
