package pdftext

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/klippa-app/go-pdfium/requests"
)

const (
	columnLines   = 8   // a page with fewer lines across a gutter has no columns
	columnWords   = 6   // a line across a gutter has no fewer
	gutterWidth   = 1.5 // font sizes, at least
	sampledLines  = 5   // of a page, to find a gutter
	missingGutter = 1   // of the sampled lines may have none
	longestLine   = 500 // bytes of a line whose characters are asked for their places
)

// gap is the space between two words of a line.
type gap struct{ from, to float64 }

// columns puts the lines of two columns in order, one column after the other, where the page draws lines across both.
// Both must be running text: the rows of a table stay.
func (t textPage) columns(lines []Line) []Line {
	gutter, found := t.gutter(lines)
	if !found {
		return lines
	}
	var ordered []Line
	for len(lines) > 0 {
		left, right, rows := t.divide(&lines, gutter)
		if runs(left) && runs(right) && len(right) >= columnLines {
			ordered = append(append(ordered, left...), right...)
		} else {
			ordered = append(ordered, rows...)
		}
		if len(lines) > 0 { // it is as wide as both columns
			ordered, lines = append(ordered, lines[0]), lines[1:]
		}
	}
	return ordered
}

// gutter is the gap that sampled lines share.
func (t textPage) gutter(lines []Line) (common gap, found bool) {
	var long []Line
	for _, l := range lines {
		if l.straight() && strings.Count(l.Text, " ") >= columnWords-1 {
			long = append(long, l)
		}
	}
	if len(long) < columnLines {
		return gap{}, false
	}
	var all []gap
	missing := 0
	for i := range sampledLines {
		gaps := t.gaps(long[i*len(long)/sampledLines])
		if missing += 1 - min(1, len(gaps)); missing > missingGutter {
			return gap{}, false
		}
		all = append(all, gaps...)
	}
	for _, one := range all {
		shared, with := one, 0
		for _, other := range all {
			both := gap{max(shared.from, other.from), min(shared.to, other.to)}
			if both.to-both.from >= long[0].size {
				shared = both
				with++
			}
		}
		if with >= sampledLines-missingGutter {
			return shared, true
		}
	}
	return gap{}, false
}

// gaps are the wide gaps of a line.
func (t textPage) gaps(l Line) (wide []gap) {
	for at, r := range []rune(l.Text) {
		if r != ' ' {
			continue
		}
		one := gap{t.right(l.first + at - 1), t.left(l.first + at + 1)}
		if one.to-one.from >= gutterWidth*l.size {
			wide = append(wide, one)
		}
	}
	return wide
}

// divide reads the lines up to the first that is as wide as both columns. rows are these lines undivided.
func (t textPage) divide(lines *[]Line, gutter gap) (left, right, rows []Line) {
	for len(*lines) > 0 {
		l := (*lines)[0]
		switch {
		case l.straight() && l.x >= gutter.from:
			right = append(right, l)
		case l.straight() && l.last <= gutter.from:
			left = append(left, l)
		default:
			a, b, cut := t.cut(l, gutter)
			if !cut {
				return left, right, rows
			}
			left, right = append(left, a), append(right, b)
		}
		rows, *lines = append(rows, l), (*lines)[1:]
	}
	return left, right, rows
}

// cut divides a line at the gutter, unless a word stands in it.
func (t textPage) cut(l Line, gutter gap) (left, right Line, ok bool) {
	if !l.straight() {
		return l, l, false
	}
	middle := (gutter.from + gutter.to) / 2
	text := []rune(l.Text)
	var spaces []int
	for at, r := range text {
		if r == ' ' {
			spaces = append(spaces, at)
		}
	}
	at, _ := slices.BinarySearchFunc(spaces, middle, func(at int, x float64) int {
		if t.left(l.first+at+1) < x {
			return -1
		}
		return 1
	})
	if at == len(spaces) {
		return l, l, false
	}
	between := gap{t.right(l.first + spaces[at] - 1), t.left(l.first + spaces[at] + 1)}
	if between.from > middle || between.to-between.from < l.size {
		return l, l, false
	}
	left, right = l, l
	left.Text, right.Text = string(text[:spaces[at]]), string(text[spaces[at]+1:])
	left.last, right.x, right.first = between.from, between.to, l.first+spaces[at]+1
	return left, right, true
}

// straight reports whether a line runs from left to right. PDFium must know each of its few characters.
func (l Line) straight() bool {
	return l.first >= 0 && l.size > 0 && len(l.Text) <= longestLine &&
		math.Abs(l.angle) < 0.1 && math.Abs(l.end-l.y) < l.size/2
}

// runs reports whether lines are running text: many begin within a sentence, and few end far from the edge.
func runs(lines []Line) bool {
	from, edge := math.Inf(1), math.Inf(-1)
	for _, l := range lines {
		from, edge = min(from, l.x), max(edge, l.last)
	}
	lower, full, words := 0, 0, 0
	for _, l := range lines {
		if startsLower(l.Text) {
			lower++
		}
		if l.last >= edge-(edge-from)/5 {
			full++
		}
		words += strings.Count(l.Text, " ") + 1
	}
	return 3*lower >= len(lines) && 3*full >= 2*len(lines) && words >= columnWords/2*len(lines)
}

// left and right are the positions where a character begins and ends. An unknown one is on no side of any gutter.
func (t textPage) left(at int) float64 {
	origin, err := t.in.FPDFText_GetCharOrigin(&requests.FPDFText_GetCharOrigin{TextPage: t.page, Index: at})
	if err != nil {
		return math.NaN()
	}
	return origin.X
}

func (t textPage) right(at int) float64 {
	box, err := t.in.FPDFText_GetCharBox(&requests.FPDFText_GetCharBox{TextPage: t.page, Index: at})
	if err != nil {
		return math.NaN()
	}
	return box.Right
}

// joined joins each line that ends with a hyphen within a word with the next line.
func joined(lines []Line) []Line {
	var all []Line
	for _, l := range lines {
		if n := len(all) - 1; n >= 0 && endsDivided(all[n].Text) {
			all[n].Text, all[n].end, all[n].last = all[n].Text+l.Text, l.end, l.last
			continue
		}
		all = append(all, l)
	}
	for i := range all {
		all[i].Text = joinHyphens(all[i].Text)
	}
	return all
}

func endsDivided(s string) bool {
	last, _ := utf8.DecodeLastRuneInString(s)
	return isHyphen(last)
}

// downwards puts lines into reading order, if each stands above the last. PDFium returns them so on pages whose
// rotation differs from that of their text.
func downwards(lines []Line) {
	for from := 0; from < len(lines); {
		to := from + 1
		for to < len(lines) && lines[to].size > 0 && math.Abs(lines[to].angle-lines[to-1].angle) < 0.1 &&
			lines[to].down() <= lines[to-1].down()+lines[to].size/2 {
			to++
		}
		slices.SortStableFunc(lines[from:to], func(a, b Line) int {
			return cmp.Compare(rounded(a.down()), rounded(b.down()))
		})
		from = to
	}
}

// down is the distance of a line from the top, for a reader who sees its text upright.
func (l Line) down() float64 { return -l.x*math.Sin(l.angle) - l.y*math.Cos(l.angle) }
