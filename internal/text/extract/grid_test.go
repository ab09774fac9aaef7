package extract

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"html"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/xuri/excelize/v2"
	"pgregory.net/rapid"

	"agentplatform/internal/text/document"
)

// gridCell is a cell of a grid: its text, and its numbers of columns and rows. They are 0 where another cell covers it.
type gridCell struct {
	text         string
	across, down int
}

// grid is a table as a person sees it. It has no row without a text.
type grid [][]gridCell

// one is a row of cells of one column and one row each.
func one(texts ...string) []gridCell {
	row := make([]gridCell, len(texts))
	for i, text := range texts {
		row[i] = gridCell{text, 1, 1}
	}
	return row
}

// sparse has an empty first, middle and last cell, and a cell for each way to span.
var sparse = grid{
	one("Region", "2018", "2019", "2020"),
	one("North", "", "5", ""),
	one("", "1", "", "3"),
	{{"South", 1, 2}, {"7", 1, 1}, {"both", 2, 1}, {}},
	{{}, {"", 1, 1}, {"\u00a0", 1, 1}, {"8", 1, 1}},
	{{"East", 2, 2}, {}, {"9", 1, 1}, {"", 1, 1}},
	{{}, {}, {"", 1, 1}, {"10", 1, 1}},
	one("West", "a\nb", "\t", "d"),
}

// cells are the texts of a grid after merging, each on one line.
func (g grid) cells() [][]string {
	all := make([][]string, len(g))
	for r := range g {
		all[r] = make([]string, len(g[r]))
	}
	for r, row := range g {
		for c, p := range row {
			for n := range p.across * p.down {
				all[r+n/p.across][c+n%p.across] = strings.Join(strings.Fields(p.text), " ")
			}
		}
	}
	return all
}

// apart is the grid without merged cells, for formats that have none.
func (g grid) apart() grid {
	var all grid
	for _, row := range g.cells() {
		all = append(all, one(row...))
	}
	return all
}

// formats write a grid into a file.
var formats = map[string]func(t require.TestingT, g grid) []byte{
	"comma.csv": func(t require.TestingT, g grid) []byte { return g.separated(t, ',') },
	"semicolon.csv": func(t require.TestingT, g grid) []byte {
		return append([]byte("\ufeff"), g.separated(t, ';')...)
	},
	"tab.tsv":  func(t require.TestingT, g grid) []byte { return g.separated(t, '\t') },
	"tabs.txt": func(_ require.TestingT, g grid) []byte { return g.joined("", "\t", "") },
	"table.md": func(_ require.TestingT, g grid) []byte {
		head := grid{g[0], one(strings.Split(strings.Repeat("-", len(g[0])), "")...)}
		return append(head.joined("| ", " | ", " |"), g[1:].joined("| ", " | ", " |")...)
	},
	"page.html": func(_ require.TestingT, g grid) []byte { return g.html() },
	"book.epub": func(t require.TestingT, g grid) []byte {
		return zipOf(t, "META-INF/container.xml", `<rootfile full-path="o"/>`,
			"o", `<p><item id="a" href="c.xhtml" media-type="application/xhtml+xml"/><itemref idref="a"/></p>`,
			"c.xhtml", `<html xmlns="http://www.w3.org/1999/xhtml"><body>`+string(g.html())+"</body></html>")
	},
	"mail.eml": func(_ require.TestingT, g grid) []byte {
		return append([]byte("Subject: s\r\nContent-Type: text/html; charset=utf-8\r\n\r\n"), g.html()...)
	},
	"text.docx":   func(t require.TestingT, g grid) []byte { return g.word(t) },
	"slides.pptx": func(t require.TestingT, g grid) []byte { return g.slide(t) },
	"text.rtf":    func(_ require.TestingT, g grid) []byte { return g.rich() },
	"sheet.xlsx":  func(t require.TestingT, g grid) []byte { return g.sheet(t) },
	"text.odt":    func(t require.TestingT, g grid) []byte { return openOf(t, "text", g.open()) },
	"sheet.ods":   func(t require.TestingT, g grid) []byte { return openOf(t, "spreadsheet", g.open()) },
	"slides.odp": func(t require.TestingT, g grid) []byte {
		return openOf(t, "presentation", "<draw:page><draw:frame>"+g.open()+"</draw:frame></draw:page>")
	},
	"flat.fodt": func(_ require.TestingT, g grid) []byte { return flatOf("text", g.open()) },
}

func (g grid) separated(t require.TestingT, comma rune) []byte {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	w.Comma = comma
	for _, row := range g.apart() {
		texts := make([]string, len(row))
		for i, p := range row {
			texts[i] = p.text
		}
		require.NoError(t, w.Write(texts))
	}
	w.Flush()
	return b.Bytes()
}

func (g grid) joined(begin, between, end string) []byte {
	var b bytes.Buffer
	for _, row := range g.apart() {
		b.WriteString(begin)
		for i, p := range row {
			if i > 0 {
				b.WriteString(between)
			}
			b.WriteString(p.text)
		}
		b.WriteString(end + "\n")
	}
	return b.Bytes()
}

func (g grid) html() []byte {
	var b bytes.Buffer
	b.WriteString("<table>")
	for _, row := range g {
		b.WriteString("<tr>")
		for _, p := range row {
			if p.across > 0 {
				_, _ = fmt.Fprintf(&b, `<td colspan="%d" rowspan=%d>`, p.across, p.down)
				b.WriteString(strings.ReplaceAll(html.EscapeString(p.text), "\n", "<br>") + "</td>")
			}
		}
		b.WriteString("</tr>\n")
	}
	b.WriteString("</table>")
	return b.Bytes()
}

// above reports whether a place belongs to a cell that begins in a row above it. It also returns that cell's columns.
func (g grid) above(r, c int) (columns int, is bool) {
	for up := r - 1; up >= 0; up-- {
		if p := g[up][c]; p.across > 0 {
			return p.across, p.down > r-up
		}
	}
	return 0, false
}

func (g grid) word(t require.TestingT) []byte {
	var b strings.Builder
	b.WriteString("<w:document><w:body><w:tbl>")
	for r, row := range g {
		b.WriteString("<w:tr>")
		for c := 0; c < len(row); {
			p, merge := row[c], ""
			if p.across == 0 {
				p.across, _ = g.above(r, c)
				merge = "<w:vMerge/>"
			} else if p.down > 1 {
				merge = `<w:vMerge w:val="restart"/>`
			}
			_, _ = fmt.Fprintf(&b, `<w:tc><w:tcPr><w:gridSpan w:val="%d"/>%s</w:tcPr><w:p><w:t>%s</w:t></w:p></w:tc>`,
				p.across, merge, strings.ReplaceAll(html.EscapeString(p.text), "\n", "</w:t><w:br/><w:t>"))
			c += p.across
		}
		b.WriteString("</w:tr>")
	}
	return zipOf(t, "word/document.xml", b.String()+"</w:tbl></w:body></w:document>")
}

func (g grid) slide(t require.TestingT) []byte {
	var b strings.Builder
	b.WriteString("<p:sld><a:tbl>")
	for r, row := range g {
		b.WriteString("<a:tr>")
		for c, p := range row {
			merge := fmt.Sprintf(`gridSpan="%d" rowSpan="%d"`, p.across, p.down)
			if _, is := g.above(r, c); p.across == 0 && is {
				merge = `vMerge="1"`
			} else if p.across == 0 {
				merge = `hMerge="1"`
			}
			_, _ = fmt.Fprintf(&b, `<a:tc %s><a:txBody><a:p><a:r><a:t>%s</a:t></a:r></a:p></a:txBody></a:tc>`, merge,
				strings.ReplaceAll(html.EscapeString(p.text), "\n", "</a:t></a:r></a:p><a:p><a:r><a:t>"))
		}
		b.WriteString("</a:tr>")
	}
	return zipOf(t, "ppt/presentation.xml", `<p><p:sldId r:id="a"/></p>`, "ppt/_rels/presentation.xml.rels",
		`<p><Relationship Id="a" Type="x/slide" Target="s.xml"/></p>`, "ppt/s.xml", b.String()+"</a:tbl></p:sld>")
}

func (g grid) rich() []byte {
	var b bytes.Buffer
	b.WriteString(`{\rtf1\ansi `)
	for r, row := range g {
		b.WriteString(`\trowd`)
		for c, p := range row {
			columns, up := g.above(r, c)
			switch {
			case p.across == 0 && up && columns > 0:
				b.WriteString(`\clvmrg`)
			case p.across == 0:
				b.WriteString(`\clmrg`)
			case p.across > 1:
				b.WriteString(`\clmgf`)
			}
			if p.down > 1 {
				b.WriteString(`\clvmgf`)
			}
			_, _ = fmt.Fprintf(&b, `\cellx%d`, 1000*(c+1))
		}
		for _, p := range row {
			b.WriteString(`\pard\intbl `)
			for _, c := range strings.ReplaceAll(p.text, "\n", "\\line ") {
				if c > 127 {
					_, _ = fmt.Fprintf(&b, `\u%d?`, c)
				} else {
					b.WriteRune(c)
				}
			}
			b.WriteString(`\cell`)
		}
		b.WriteString(`\row`)
	}
	b.WriteString("}")
	return b.Bytes()
}

func (g grid) sheet(t require.TestingT) []byte {
	f := excelize.NewFile()
	name := func(r, c int) string {
		name, err := excelize.CoordinatesToCellName(c+1, r+1)
		require.NoError(t, err)
		return name
	}
	for r, row := range g {
		for c, p := range row {
			if p.text != "" {
				require.NoError(t, f.SetCellStr("Sheet1", name(r, c), p.text))
			}
			if p.across*p.down > 1 {
				require.NoError(t, f.MergeCell("Sheet1", name(r, c), name(r+p.down-1, c+p.across-1)))
			}
		}
	}
	b, err := f.WriteToBuffer()
	require.NoError(t, err)
	return b.Bytes()
}

// open is the grid as a table of OpenDocument. Equal cells, or rows, that follow each other are written as one.
func (g grid) open() string {
	var rows []string
	var times []int
	for r, row := range g {
		text := ""
		for c := 0; c < len(row); {
			next := c + 1
			for next < len(row) && row[next] == row[c] && row[c].across < 2 && row[c].down < 2 {
				next++
			}
			name := "table:table-cell"
			if row[c].across == 0 {
				name = "table:covered-table-cell"
			}
			text += fmt.Sprintf(`<%s table:number-columns-repeated="%d" table:number-columns-spanned="%d" `+
				`table:number-rows-spanned="%d"><text:p>%s</text:p></%s>`, name, next-c, row[c].across, row[c].down,
				strings.ReplaceAll(html.EscapeString(row[c].text), "\n", "</text:p><text:p>"), name)
			c = next
		}
		if last := len(rows) - 1; r > 1 && rows[last] == text && !strings.Contains(text, "covered") {
			times[last]++
			continue
		}
		rows, times = append(rows, text), append(times, 1)
	}
	var b strings.Builder
	b.WriteString(`<table:table table:name="S">`)
	for i, row := range rows {
		end := `<table:table-cell table:number-columns-repeated="16380"/>`
		_, _ = fmt.Fprintf(&b, `<table:table-row table:number-rows-repeated="%d">%s%s</table:table-row>`, times[i], row,
			end)
	}
	b.WriteString(`<table:table-row table:number-rows-repeated="1048576"><table:table-cell/></table:table-row>`)
	return b.String() + "</table:table>"
}

// gridOf are the cells of the only table of a file.
func gridOf(t require.TestingT, name string, data []byte) [][]string {
	text, cut, err := job{Format: File{Name: name}.recognize(data), Whole: true}.read(data)
	require.NoError(t, err)
	require.False(t, cut)
	isWellFormed(t, text)
	var rows [][]string
	if strings.HasSuffix(name, ".txt") {
		for line := range strings.Lines(text.Body) {
			rows = append(rows, strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
		}
		return rows
	}
	body := []rune(text.Body)
	for _, b := range text.Blocks {
		if b.Kind == document.Row {
			rows = append(rows, strings.Split(string(body[b.Start:b.End]), "\t"))
		}
	}
	return rows
}

// The same table has the same cells in each format. An empty cell is a cell, and a merged one has its text at all its
// positions.
func TestATableHasTheSameCellsInEachFormat(t *testing.T) {
	for name, write := range formats {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, sparse.cells(), gridOf(t, name, write(t, sparse)))
		})
	}
}

func TestAnyTableHasItsCellsInEachFormat(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := grids().Draw(t, "grid")
		want := g.cells()
		for name, write := range formats {
			require.Equal(t, want, gridOf(t, name, write(t, g)), name)
		}
	})
}

// grids draws tables whose first row has a text in each column.
func grids() *rapid.Generator[grid] {
	texts := rapid.SampledFrom([]string{"", "", "a", "b c", " d ", "\u00a0", "1", "x\ny", "ä", "-5.5", "日本"})
	return rapid.Custom(func(t *rapid.T) grid {
		rows, columns := rapid.IntRange(2, 6).Draw(t, "rows"), rapid.IntRange(2, 6).Draw(t, "columns")
		g := make(grid, rows)
		taken := make([][]bool, rows)
		for r := range g {
			g[r], taken[r] = make([]gridCell, columns), make([]bool, columns)
		}
		for r := range g {
			for c := range g[r] {
				if taken[r][c] {
					continue
				}
				p := gridCell{texts.Draw(t, "text"), 1, 1}
				if r == 0 {
					p.text = fmt.Sprint("h", c)
				} else {
					p.across, p.down = rapid.IntRange(1, 3).Draw(t, "across"), rapid.IntRange(1, 3).Draw(t, "down")
				}
				p.down = min(p.down, rows-r)
				free := 0
				for free < p.across && c+free < columns && !taken[r][c+free] {
					free++
				}
				p.across = free
				for n := range p.across * p.down {
					taken[r+n/p.across][c+n%p.across] = true
				}
				g[r][c] = p
			}
			// A row without any text is left out; this one must have a text.
			if strings.TrimSpace(strings.Join(g.cells()[r], "")) == "" {
				g[r][firstOwn(g[r])].text = "own"
			}
		}
		return g
	})
}

// firstOwn is the first column of a row in which a cell begins. If there is none, the row repeats the one above it.
func firstOwn(row []gridCell) int {
	for c, p := range row {
		if p.across > 0 {
			return c
		}
	}
	return 0
}

// rowsOf are the rows of a file's tables as lines, with "|" for tabs.
func rowsOf(t *testing.T, name, data string) string {
	var lines []string
	for _, row := range gridOf(t, name, []byte(data)) {
		lines = append(lines, strings.Join(row, "|"))
	}
	return strings.Join(lines, "\n")
}

func TestCellsOfTables(t *testing.T) {
	for name, c := range map[string]struct{ file, data, want string }{
		"short and long rows":  {"a.csv", "a,b,c\n1\n2,3,4,5\n,,,\n\n6,\n", "a|b|c|\n1|||\n2|3|4|5\n6|||"},
		"a column of its own":  {"a.csv", "a,b,\n1,2,\n", "a|b\n1|2"},
		"empty at the end":     {"a.csv", "Region,Jan,Feb,,\nNorth,,,,\n,,7,,\n", "Region|Jan|Feb\nNorth||\n||7"},
		"quoted":               {"a.csv", "\ufeff\"a;b\";c;\n;\"x\n\t y\";\"\"\n", "a;b|c\n|x y"},
		"white space":          {"a.csv", "a,b,c\n \u00a0,\t,\u2003x \n", "a|b|c\n||x"},
		"a head of two rows":   {"a.html", headOfTwo, "Team|Q1|Q1|All\nTeam|Jan|Feb|All\nRed|1||3\nRed|both|both|"},
		"down to the end":      {"a.html", downToTheEnd, "a|1\na|2\nb|3\n|4"},
		"no further than that": {"a.html", noFurther, "a|1\na|2\nb|3"},
		"over each other":      {"a.html", overlapping, "a|b|b|\na|c|c|\nd|c|c|e"},
		"as wide as all":       {"a.html", `<table><tr><td colspan=100>t<tr><td>1<td>2</table>`, "t|t\n1|2"},
		"odd spans": {"a.html", `<table><tr><td colspan=0>a<td rowspan=-1>b<td colspan=2x>c<tr><td colspan=>d</table>`,
			"a|b|c|c\nd|||"},
		"a row of none": {"a.html", `<table><tr><td rowspan=2>a<td rowspan=2>b<tr></tr><tr><td>c</table>`,
			"a|b\na|b\nc|"},
		"a table in a cell": {"a.html", `<table><tr><td>a<td>` + inner + `<td>b</table>`, "a|x y z w|b"},
		"a table in a cell of a table with a head": {"a.html",
			`<table><tr><th>n<td>` + inner + `<td>b<tr><th>` + inner + `<td>c</table>`, "n|x y z w|b\nx y z w|c|"},
		"a table that places another": {"a.html", `<table><tr><td><td>` + inner + `</table>`, "x|y\nz|w"},
		"a hidden cell": {"a.html", `<table><tr><td>North<td aria-hidden="true">–<td>7<tr>` +
			`<td style="visibility: hidden">x` + inner + `<th>8<td style="display:none">y<td>9<td hidden>z<th>10` +
			`<tr><td hidden>` + inner + `z</td><td rowspan=2 aria-hidden=true>a<td>11<tr hidden><td>b</table>`,
			"North||7|\n|8|9|10\n|11||"},
		"a table in a cell below a head": {"a.html", `<table><tr><th>A<th>B<tr><td><table><tr><td>1<td hidden>no` +
			`</td></table><td>2</table>`, "A|B\n1|2"},
		"a table in a cell below others": {"a.html", `<table><tr><td>A<td>B<tr><td>` + inner + `<td>2</table>`,
			"A|B\nx y z w|2"},
		"a table below two cells, as wide as these": {"a.html", `<table><tr><td>A<td>B<tr><td colspan=2>` + inner +
			`</table>`, "A|B\nx|y\nz|w"},
		"rows outside of a table": {"a.html", `<tr><th>A<th>B</tr><tr><td><td>2</tr>`, "A|B\n|2"},
		"a list in a cell": {"a.html", `<table><tr><td><ul><li>a<li>b</ul><td><p>c<p>d` +
			`</table>`, "a b|c d"},
		"line breaks of Markdown":         {"a.md", "|a|b|\n|-|-|\n|x<br>y<BR/>z||\n||1|\n", "a|b\nx y z|\n|1"},
		"empty lines in HTML of Markdown": {"a.md", htmlOfMarkdown, "Region|Jan|Feb\nNorth||7\n|8|"},
		"short rows of Markdown":          {"a.md", "|a|b|c|\n|-|-|-|\n|1|\n", "a|b|c\n1||"},
		"merged in old RTF":               {"a.rtf", mergedRich, "a|a|b\nc||b"},
		"drawn wider in RTF":              {"a.rtf", widerRich, "a|b|c\nd|e|e\nf|f|f\ng|h|"},
		"begun further right in RTF":      {"a.rtf", laterRich, "a|b|c\n||d\n|e|e"},
		"two tables of RTF":               {"a.rtf", twoRich, "a|b|c\nd"},
		"a table in a cell of RTF":        {"a.rtf", nestedRich, "a|x y|b"},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, rowsOf(t, c.file, c.data)) })
	}
}

const (
	inner     = `<table><tr><td>x<td>y</tr><tr><td>z<td>w</tr></table>`
	headOfTwo = `<table><thead><tr><th rowspan=2>Team<th colspan=2>Q1<th rowspan=2>All<tr><th>Jan<th>Feb</thead>
<tbody><tr><td rowspan=2>Red<td>1<td><td>3<tr><td colspan=2>both<td>&nbsp;</tbody></table>`
	downToTheEnd = `<table><tbody><tr><td rowspan=0>a<td>1<tr><td>2</tbody><tbody><tr><td>b<td>3<tr><td><td>4</table>`
	noFurther    = `<table><thead><tr><td rowspan=9>a<td>1<tr><td>2</thead><tr><td>b<td>3</table>`
	overlapping  = `<table><tr><td rowspan=2>a<td colspan=2>b<tr><td colspan=2 rowspan=2>c<tr><td>d<td>e</table>`
	mergedRich   = `{\rtf1\trowd\clmgf\cellx1\clmrg\cellx2\clvmgf\cellx3\pard\intbl a\cell\cell b\cell\row
\trowd\cellx1\cellx2\clvmrg\cellx3\pard\intbl c\cell\cell\cell\row\pard}`
	widerRich = `{\rtf1\trowd\cellx1000\cellx2000\cellx3000\pard\intbl a\cell b\cell c\cell\row
\trowd\cellx1010\cellx2990\pard\intbl d\cell e\cell\row\trowd\cellx3000\pard\intbl f\cell\row
\trowd\cellx500\cellx3000\pard\intbl g\cell h\cell\row\pard}`
	htmlOfMarkdown = "<table>\n<!--\nx\n-->\n<tr><th>Region</th><th>Jan</th><th>Feb</th></tr>\n\n" +
		"<tr><td>North</td><td></td><td>7</td></tr>\n\n<!--\ny\n-->\n<tr><td></td><td>8</td></tr>\n</table>\n"
	laterRich = `{\rtf1\trowd\trleft-108\cellx1000\cellx2000\cellx3000\pard\intbl a\cell b\cell c\cell\row
\trowd\trleft2000\cellx3000\pard\intbl d\cell\row
\trowd\trleft990\cellx3000\pard\intbl e\cell\row\pard}`
	twoRich = `{\rtf1\trowd\cellx1\cellx2\cellx3\pard\intbl a\cell b\cell c\cell\row\pard\par
\trowd\cellx3\pard\intbl d\cell\row\pard}`
	nestedRich = `{\rtf1\trowd\cellx1\cellx2\cellx3\pard\intbl a\cell\pard\intbl\itap2 x\nestcell y\nestcell
{\*\nesttableprops\trowd\cellx1\cellx2\nestrow}{\nonesttables\par}\pard\intbl\cell\pard\intbl b\cell\row\pard}`
)

// A table within a table of Word, and rows with gaps before and after their cells.
func TestCellsOfWord(t *testing.T) {
	cell := func(properties, text string) string {
		return "<w:tc><w:tcPr>" + properties + "</w:tcPr><w:p><w:t>" + text + "</w:t></w:p></w:tc>"
	}
	table := func(rows string) string { return "<w:tbl>" + rows + "</w:tbl>" }
	data := zipOf(t, "word/document.xml", "<w:document>"+table(
		"<w:tr>"+cell("", "a")+cell("", "b")+cell(
			`<w:tcPrChange><w:tcPr><w:gridSpan w:val="2"/></w:tcPr></w:tcPrChange>`, "c")+"</w:tr>"+
			`<w:tr><w:trPr><w:gridBefore w:val="1"/><w:gridAfter w:val="1"/></w:trPr>`+cell("", "d")+"</w:tr>"+
			"<w:tr>"+cell(`<w:hMerge w:val="restart"/>`, "e")+cell("<w:hMerge/>", "")+"<w:tc>"+
			table("<w:tr>"+cell("", "x")+cell("", "y")+"</w:tr>")+"</w:tc></w:tr>")+"</w:document>")
	assert.Equal(t, [][]string{{"a", "b", "c"}, {"", "d", ""}, {"e", "e", "x y"}}, gridOf(t, "a.docx", data))
}

// Numbers of a workbook are written with all their digits. Dates and percentages stay as their format shows them.
func TestLongNumbersOfWorkbooksAreWrittenInFull(t *testing.T) {
	styles := `<numFmts><numFmt numFmtId="170" formatCode="0000\-0000\-0000\-0000"/></numFmts><cellXfs>` +
		strings.Join([]string{`<xf numFmtId="0"/>`, `<xf numFmtId="11"/>`, `<xf numFmtId="3"/>`, `<xf numFmtId="170"/>`,
			`<xf numFmtId="14"/>`, `<xf numFmtId="10"/>`, `<xf numFmtId="1"/>`}, "") + "</cellXfs>"
	for _, c := range []struct{ style, kind, stored, want string }{
		{"0", "n", "1234567890123456", "1234567890123456"},
		{"0", "", "-1234567890123456", "-1234567890123456"},
		{"0", "n", "1.2345678901234501E+15", "1234567890123450.1"},
		{"0", "n", "1.2345678901234567E+19", "12345678901234567000"},
		{"0", "n", "1.2345678901234567E-7", "0.000000123456789012346"},
		{"0", "n", "0.30000000000000004", "0.3"},
		{"0", "n", "1.0000000000000001E-5", "0.00001"},
		{"0", "n", "-9.9999999999999999E-6", "-0.00001"},
		{"0", "n", "1E+300", "1E+300"},               // no identifier
		{"1", "n", "1234567890123", "1234567890123"}, // 0.00E+00
		{"1", "n", "12345", "1.23E+04"},
		{"2", "n", "4111111111111111", "4111111111111111"}, // #,##0
		{"2", "n", "4111111", "4,111,111"},
		{"3", "n", "4111111111111111", "4111111111111111"},
		{"4", "n", "45360", "03-09-24"},
		{"5", "n", "0.125", "12.50%"},
		{"6", "n", "1234567890123456", "1234567890123456"},
		{"0", "str", "1.23E+15", "1.23E+15"},
		{"0", "str", "0001234567890123456", "0001234567890123456"},
	} {
		sheet := fmt.Sprintf(`<sheetData><row r="1"><c r="A1" s="%s" t="%s"><v>%s</v></c></row></sheetData>`,
			c.style, c.kind, c.stored)
		assert.Equal(t, [][]string{{c.want}}, gridOf(t, "a.xlsx", book1(t, sheet, styles)), "%v", c)
	}
}

// book1 is a workbook of one sheet.
func book1(t require.TestingT, sheet, styles string) []byte {
	const main = ` xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"`
	const office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
	relation := func(id, kind, to string) string {
		return fmt.Sprintf(`<Relationship Id="%s" Type="%s/%s" Target="%s"/>`, id, office, kind, to)
	}
	relations := func(all string) string {
		const packaged = ` xmlns="http://schemas.openxmlformats.org/package/2006/relationships"`
		return "<Relationships" + packaged + ">" + all + "</Relationships>"
	}
	return zipOf(t, "_rels/.rels", relations(relation("r", "officeDocument", "xl/workbook.xml")),
		"xl/workbook.xml", "<workbook"+main+` xmlns:r="`+office+`"><sheets>`+
			`<sheet name="S" sheetId="1" r:id="a"/></sheets></workbook>`,
		"xl/_rels/workbook.xml.rels", relations(relation("a", "worksheet", "worksheets/s.xml")+
			relation("b", "styles", "styles.xml")),
		"xl/styles.xml", "<styleSheet"+main+">"+styles+"</styleSheet>",
		"xl/worksheets/s.xml", "<worksheet"+main+">"+sheet+"</worksheet>")
}

// Merged cells of sheets may be whole rows or columns, hide other cells, overlap, and go far beyond the sheet.
func TestMergedCellsOfWorkbooks(t *testing.T) {
	at := func(name, text string) string { return fmt.Sprintf(`<c r="%s" t="str"><v>%s</v></c>`, name, text) }
	rows := "<sheetData><row>" + at("A1", "a") + at("B1", "b") + "</row><row r=\"3\">" + at("A3", "c") + at("C3", "d") +
		"</row></sheetData>"
	for merged, want := range map[string]string{
		"A1:B1": "a|a|\nc||d", "B1:A1": "a|a|\nc||d", "1:1": "a|a|a\nc||d", "A:A": "a|b|\na||\na||d",
		"A1:XFD1": "a|a|a\nc||d", "A1:A1048576": "a|b|\na||\na||d", "A1:XFD1048576": "a|a|a\na|a|a\na|a|a",
		"A1:A2": "a|b|\na||\nc||d", "C3:D4": "a|b||\nc||d|d\n||d|d", "A1:C2 C1:C3": "a|a|a\na|a|a\nc||d",
		"A1:B1 B1:B3": "a|a|\n|a|\nc|a|d", "C1:C3": "a|b|\nc||d", "A1": "a|b|\nc||d",
		"A0:B9 ?:! A1:ZZZZ9": "a|b|\nc||d",
	} {
		sheet := rows + "<mergeCells>"
		for _, ref := range strings.Fields(merged) {
			sheet += `<mergeCell ref="` + ref + `"/>`
		}
		var lines []string
		for _, row := range gridOf(t, "a.xlsx", book1(t, sheet+"</mergeCells>", "")) {
			lines = append(lines, strings.Join(row, "|"))
		}
		assert.Equal(t, want, strings.Join(lines, "\n"), merged)
	}
}

// A program may write thousands of empty columns after those with values.
func TestEmptyColumnsAtTheEndTakeNoRoom(t *testing.T) {
	for name, row := range map[string]string{
		"a.csv":  "North,,7" + strings.Repeat(",", 2500) + "\n",
		"a.tsv":  "North\t\t7" + strings.Repeat("\t", 2000) + "\n",
		"a.html": "<tr><td>North<td><td>7" + strings.Repeat("<td>", 100),
		"a.rtf":  `\trowd\pard\intbl North\cell\cell 7` + strings.Repeat(`\cell`, 100) + `\row `,
	} {
		const rows = 2600
		begin := map[string]string{"a.html": "<table>", "a.rtf": `{\rtf1`}[name]
		lines := strings.Split(rowsOf(t, name, begin+strings.Repeat(row, rows)), "\n")
		assert.Len(t, lines, rows, name)
		assert.Equal(t, "North||7", lines[rows-1], name)
	}
}

// The table of a slide may follow its number, date or footer.
func TestTablesOfSlidesAreReadAfterFooters(t *testing.T) {
	for _, kind := range []string{"title", "sldNum", "dt", "ftr", "hdr"} {
		slide := `<p:sld><p:sp><p:nvPr><p:ph type="` + kind + `"/></p:nvPr><a:p><a:t>4</a:t></a:p></p:sp>` +
			`<p:graphicFrame><a:tbl><a:tr><a:tc><a:p><a:t>North</a:t></a:p></a:tc><a:tc/><a:tc><a:p><a:t>7</a:t>` +
			`</a:p></a:tc></a:tr></a:tbl></p:graphicFrame></p:sld>`
		data := zipOf(t, "ppt/presentation.xml", `<p><p:sldId r:id="a"/></p>`, "ppt/_rels/presentation.xml.rels",
			`<p><Relationship Id="a" Type="x/slide" Target="s.xml"/></p>`, "ppt/s.xml", slide)
		assert.Equal(t, [][]string{{"North", "", "7"}}, gridOf(t, "a.pptx", data), kind)
	}
}

// Columns may be made with tabs. Two tabs have an empty cell between them. A tab may stand before a line of cells;
// before prose it is indentation.
func TestTabsOfParagraphsAreKept(t *testing.T) {
	word := func(paragraphs string) []byte {
		text := strings.NewReplacer("\t", "<w:tab/>", "\n", "<w:br/>").Replace(paragraphs)
		return zipOf(t, "word/document.xml", "<w:document><w:p>"+text+"</w:p></w:document>")
	}
	rich := func(paragraphs string) []byte {
		return []byte(`{\rtf1 ` + strings.NewReplacer("\t", `\tab `, "\n", `\line `,
			"<w:t>", "", "</w:t>", "").Replace(paragraphs) + "}")
	}
	for text, want := range map[string]string{
		"<w:t>North</w:t>\t\t<w:t>7</w:t>":                           "North\t\t7",
		"\t<w:t>Jan</w:t>\t<w:t>Feb</w:t>":                           "\tJan\tFeb",
		"\t<w:t>Prose.</w:t>":                                        "Prose.",
		"<w:t>a  b</w:t>\t<w:t> </w:t>\t<w:t>c</w:t>\t\t":            "a b\t\tc",
		"<w:t>A</w:t>\t<w:t>B</w:t>\n\t\t<w:t>3</w:t>\t<w:t>4</w:t>": "A\tB\n\t\t3\t4",
		"<w:t>A</w:t>\t<w:t>B</w:t>\t\n\t<w:t>Prose.</w:t>":          "A\tB\nProse.",
	} {
		for name, data := range map[string][]byte{"a.docx": word(text), "a.rtf": rich(text)} {
			got, _, err := job{Format: File{Name: name}.recognize(data), Whole: true}.read(data)
			require.NoError(t, err)
			isWellFormed(t, got)
			assert.Equal(t, want, got.Body, "%s: %s", name, text)
		}
	}
	got, _, err := job{Format: File{Name: "a.md"}.recognize([]byte("a\t\t b")), Whole: true}.read([]byte("a\t\t b"))
	require.NoError(t, err)
	assert.Equal(t, "a\t\tb", got.Body)
}

// headerOf is the text of the header of the last row of a file's tables.
func headerOf(t *testing.T, name string, data []byte) string {
	text, _, err := job{Format: File{Name: name}.recognize(data), Whole: true}.read(data)
	require.NoError(t, err)
	isWellFormed(t, text)
	last := text.Blocks[len(text.Blocks)-1]
	if last.Header < 0 {
		return ""
	}
	at := text.Blocks[last.Header]
	return string([]rune(text.Body)[at.Start:at.End])
}

func TestHeadersOfTables(t *testing.T) {
	for page, want := range map[string]string{
		"<tr><th>A<th>B<tr><td>1<td>2":                         "A\tB",
		"<tr><td></td><th>Jan<th>Feb<tr><th>North<td>1<td>2":   "\tJan\tFeb",
		"<tr><td></td><th>Jan<tr><th>North<td>1":               "\tJan",
		"<thead><tr><td>A<td>B<tbody><tr><td>1<td>2":           "A\tB",
		"<thead><tr><td>A<td>B</thead><tr><td>1<td>2":          "A\tB",
		"<tr><th colspan=2>T<tr><th>A<th>B<tr><td>1<td>2":      "A\tB",
		"<thead><tr><td>T<tr><td>A<td>B</thead><tr><td>1<td>2": "A\tB",
		"<tr><th>North<td>1<tr><th>South<td>2":                 "",
		"<tr><th>Phone<td><tr><th>Mail<td>x":                   "",
		"<tr><td>x<th>B<tr><td>1<td>2":                         "",
		"<tr><td>1<td>2<thead><tr><th>A<th>B":                  "",
		"<tr><th>A<tr><td>1":                                   "A",
	} {
		assert.Equal(t, want, headerOf(t, "a.html", []byte("<table>"+page+"</table>")), page)
	}
	for _, end := range []string{"A1", "F1", "F2"} {
		f := excelize.NewFile()
		require.NoError(t, f.MergeCell("Sheet1", "A1", end))
		texts := map[string]string{"A1": "Sales", "A3": "Region", "F3": "Units", "A4": "North", "F4": "7"}
		for at, text := range texts {
			require.NoError(t, f.SetCellStr("Sheet1", at, text))
		}
		b, err := f.WriteToBuffer()
		require.NoError(t, err)
		assert.Equal(t, "Region\t\t\t\t\tUnits", headerOf(t, "a.xlsx", b.Bytes()), end)
	}
	for data, want := range map[string]string{
		"Region,2018,2019\nNorth,5,7":            "Region\t2018\t2019",
		",2018,2019\nNorth,5,7":                  "\t2018\t2019",
		"Part,202401,20240201,01.2024\nbolt,5":   "Part\t202401\t20240201\t01.2024",
		"Region,2018,2019\nNorth,2018,1999":      "", // two rows of years are data
		"Ada,1915\nGrace,1906":                   "",
		"Region,2018,17\nNorth,5,7":              "",
		"2018,2019\n5,7":                         "",
		"Region,1815\nNorth,5":                   "",
		"Region,2018.5\nNorth,5":                 "",
		"Region,20181345\nNorth,5":               "",
		"Sales,,\nRegion,2018,2019\nNorth,5,7\n": "Region\t2018\t2019",
	} {
		assert.Equal(t, want, headerOf(t, "a.csv", []byte(data)), data)
	}
	assert.Equal(t, "Region\t2018", headerOf(t, "a.ods", openOf(t, "spreadsheet", grid{one("Region", "2018"),
		one("North", "5")}.open())))
	assert.Equal(t, "Region\t2018", headerOf(t, "a.xlsx", grid{one("Region", "2018"), one("North", "5")}.sheet(t)))
	assert.Equal(t, "Region\tUnits", headerOf(t, "a.csv", []byte("Sales,\nRegion,Units\nNorth,7")))
	assert.Equal(t, "Region\tUnits", headerOf(t, "a.csv", []byte("Region,Units\nNorth,7")))
}
