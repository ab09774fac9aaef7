package extract

import (
	"strings"
	"unicode/utf8"

	"agentplatform/internal/text/document"
)

// cell is a cell of a row as a file has it.
type cell struct {
	text     string
	left, up bool // it is merged with the cell before it, or with the one above it, whose text it repeats
}

// rowText is the row that a reader is in. Text goes into the open cell, or into the builder's part if none is open.
type rowText struct {
	b     *builder
	cells []cell
	cell  *strings.Builder // nil: none is open
}

func (r *rowText) write(s string) {
	if r.cell == nil {
		r.b.add(s)
	} else if r.cell.Len() < utf8Most*r.b.most.characters {
		r.cell.WriteString(s)
	}
}

// endCell adds the open cell, if any, in so many columns.
func (r *rowText) endCell(is cell, columns int) {
	if r.cell != nil && len(r.cells) < maxCells {
		is.text = r.cell.String()
		r.cells = append(r.cells, is)
		for i := 1; i < columns && len(r.cells) < maxCells; i++ {
			r.cells = append(r.cells, cell{left: !is.up, up: is.up})
		}
	}
	r.cell = nil
}

// gridText is the row that a reader of elements is in. A table within a table is part of its cell.
type gridText struct {
	rowText

	table  *table
	tables int  // depth of tables
	merge  cell // with which others the cell is merged
	across int  // columns of the cell
	names  bool // the present row has the names of the columns
	named  bool // the first row of the table has them

	// objects are the members, with charts or other objects, that follow the present table or paragraph.
	objects []string
	read    func(name string) error // reads an object; nil: none is read
}

func (r *gridText) beginTable() {
	if r.tables++; r.tables == 1 {
		r.b.end()
		r.table, r.named = newTable(r.b), false
	}
}

func (r *gridText) endTable() {
	if r.tables == 1 {
		r.endRow()
	}
	r.tables = max(0, r.tables-1)
}

func (r *gridText) beginCell(merge cell) {
	if r.tables == 1 {
		r.endCell()
		r.cell, r.across, r.merge = &strings.Builder{}, 1, merge
	}
}

func (r *gridText) endCell() {
	if r.tables == 1 {
		r.rowText.endCell(r.merge, r.across)
	}
}

// fill adds empty cells.
func (r *gridText) fill(columns int) {
	r.cells = append(r.cells, make([]cell, max(0, min(columns, maxCells-len(r.cells))))...)
}

func (r *gridText) endRow() {
	if r.endCell(); r.tables != 1 || len(r.cells) == 0 {
		return
	}
	r.table.add(r.cells, r.names || r.named)
	r.cells, r.names = nil, false
}

// paragraph begins a paragraph. In a cell it is on one line with earlier ones.
func (r *gridText) paragraph(kind document.Kind, level int) {
	if r.cell == nil {
		r.b.begin(kind, level)
	} else {
		r.write(" ")
	}
}

func (r *gridText) endParagraph() {
	if r.cell == nil {
		r.b.end()
	}
}

// addObjects reads the objects that wait, except within a table or paragraph.
func (r *gridText) addObjects() error {
	if r.b.opened || r.tables > 0 || r.read == nil {
		return nil
	}
	all := r.objects
	r.objects = nil
	for _, name := range all {
		if err := beside(r.read(name)); err != nil {
			return err
		}
	}
	return nil
}

// ended handles the ends of elements of Office, whose names are the same in texts and slides.
func (r *gridText) ended(name string) error {
	switch name {
	case "p":
		r.endParagraph()
	case "tc":
		r.endCell()
	case "tr":
		r.endRow()
	case "tbl":
		r.endTable()
	}
	return r.addObjects()
}

func plainCells(texts []string) []cell {
	cells := make([]cell, len(texts))
	for i, text := range texts {
		cells[i].text = text
	}
	return cells
}

// withoutEmptyEnd are the texts of a row without the empty ones at its end.
func withoutEmptyEnd(texts []string) []string {
	for len(texts) > 0 && strings.TrimSpace(texts[len(texts)-1]) == "" {
		texts = texts[:len(texts)-1]
	}
	return texts
}

// table writes the rows of a table: the texts of its cells, each on one line, with a tab between two of them. All rows
// get as many cells as the widest row has up to its last text. So they are kept until the table ends.
//
// Merged cells repeat their text. Rows whose cells are all empty are left out.
type table struct {
	b      *builder
	rows   []tableRow // that are not written yet
	size   int        // of rows, in characters
	last   []string   // the cells of the row before
	begun  bool       // it has a row
	header int        // the block of its header; -1: none
}

// tableRow is a row that is not written yet.
type tableRow struct {
	text  string
	cells int
	own   int  // of cells, those up to the last that is not merged with another
	texts int  // cells with text that are not merged with one before them
	names bool // it may have the names of the columns
	dated bool // its numbers may be years; two such rows are data
}

func newTable(b *builder) *table { return &table{b: b, header: -1} }

const (
	// mostBeyond is by how many columns a merged cell may pass all cells that are not merged. A wider one was meant to
	// be as wide as the table: some pages write 100 or 1000 for that.
	mostBeyond = 50
	// addedShare is the part of a text that may be repetitions by merged cells and cells that fill up rows.
	addedShare = 4
)

// add adds a row. Only the first row that is neither empty nor a title can have the names of the columns.
func (t *table) add(cells []cell, names bool) {
	t.addRow(cells, tableRow{names: names})
}

// addGuessed adds a row that has the names of the columns if it looks like that.
func (t *table) addGuessed(cells []cell) {
	is, dated := names(cells)
	t.addRow(cells, tableRow{names: is, dated: dated})
}

func (t *table) addRow(cells []cell, row tableRow) {
	if t.b.count(len(cells)); t.b.full {
		return
	}
	if t.b.table != t || t.b.opened {
		t.b.end()
		t.b.table = t
	}
	texts := make([]string, 0, min(len(cells), maxCells))
	size := 0
	for i, c := range cells[:min(len(cells), maxCells)] {
		var text string
		switch {
		case c.left && i > 0:
			text = t.b.again(texts[i-1])
		case c.up && i < len(t.last):
			text = t.b.again(t.last[i])
		default:
			if text, row.own = oneLine(c.text), i+1; text != "" {
				row.texts++
			}
		}
		texts = append(texts, text)
		if size += len(text) + 1; size > utf8.UTFMax*t.b.most.characters {
			break
		}
	}
	t.last = texts
	if texts = withoutEmptyEnd(texts); len(texts) == 0 {
		return
	}
	row.text, row.cells, row.own = strings.Join(texts, "\t"), len(texts), min(row.own, len(texts))
	t.rows = append(t.rows, row)
	t.size += utf8.RuneCountInString(row.text) + 1
	if t.b.characters+t.size > t.b.most.characters || len(t.b.text.Blocks)+len(t.rows) > maxBlocks {
		t.b.end()
	}
}

// count counts cells, of which most may be empty. The text is full when it has far more cells than it may have
// characters.
func (b *builder) count(cells int) {
	if b.cells += cells; b.cells > 2*b.most.characters && !b.full {
		b.end()
		b.full = true
	}
}

// again returns the text that a merged cell repeats. It is empty when the text has too many repetitions.
func (b *builder) again(text string) string {
	if !b.adds(utf8.RuneCountInString(text)) {
		return ""
	}
	return text
}

// adds reports whether so many characters may be added that the file does not have, and counts them.
func (b *builder) adds(characters int) bool {
	if characters > b.most.characters/addedShare-b.added {
		return false
	}
	b.added += characters
	return true
}

// isTitle reports a row of a table of several columns that has one text, at its beginning or merged over others. It
// also reports a row that only repeats the text above it.
func (r tableRow) isTitle(width int) bool {
	return width > 1 && (r.texts == 0 || r.texts == 1 && (r.own == 1 || r.own < r.cells))
}

// flush writes the rows so far. Rows shorter than the widest get empty cells, unless there would be too many.
func (t *table) flush() {
	rows := t.rows
	t.b.table, t.rows, t.size = nil, nil, 0
	width, own, missing := 0, 0, 0
	for _, r := range rows {
		width, own = max(width, r.cells), max(own, r.own)
	}
	if width > own+mostBeyond {
		width = own
	}
	for _, r := range rows {
		missing += max(0, width-r.cells)
	}
	fill := t.b.adds(missing)
	for i, r := range rows {
		title := r.isTitle(width)
		r.names = r.names && (!r.dated || i+1 == len(rows) || !rows[i+1].dated)
		switch {
		case r.cells > width:
			r.text = strings.Join(strings.Split(r.text, "\t")[:width], "\t")
		case fill:
			r.text += strings.Repeat("\t", width-r.cells)
		}
		t.write(r, title)
	}
}

// write writes a row. A title before the names of the columns has no header, and is not a header.
func (t *table) write(r tableRow, title bool) {
	at := t.b.put(document.Row, 0, r.text)
	if at < 0 {
		return
	}
	if !t.begun && !title {
		t.begun = true
		if r.names {
			t.header = at
		}
	}
	t.b.text.Blocks[at].Header = t.header
}
