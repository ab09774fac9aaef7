package extract

import (
	"strconv"
	"strings"

	"golang.org/x/net/html/atom"
)

// The most columns and rows that a cell of a page may have.
const (
	mostAcross = 1000
	mostDown   = 65534
)

// number is the number in the value of an attribute, at most so large; 1 if there is none.
func number(value []byte, most int) int {
	digits := strings.TrimSpace(cutBytes(string(value), maxPath))
	end := 0
	for end < len(digits) && isDigit(digits[end]) {
		end++
	}
	if end == 0 {
		return 1
	}
	n, err := strconv.Atoi(digits[:end])
	if err != nil || n > most {
		return most
	}
	return n
}

// isSection reports a group of rows, beyond which no cell goes.
func isSection(a atom.Atom) bool { return a == atom.Thead || a == atom.Tbody || a == atom.Tfoot }

// isTabular reports rows and cells. They begin a table where there is none: a fragment of a page may begin in a table.
func isTabular(a atom.Atom) bool { return a == atom.Tr || a == atom.Td || a == atom.Th }

// longestLabel is how many bytes a cell before a nested table may have, if that is a table of data.
const longestLabel = 200

// isData reports whether a table within the present cell is data. It is data if its row has a header, or a short text
// before it. It is also data if a row above has several cells and the present cell is narrower than that row. Most
// other nested tables only arrange their contents on the page.
func (r *pageReader) isData() bool {
	return r.name || r.spans.unseen || !r.long && (r.labels > 0 || r.spans.across < r.wide)
}

// takeAbove adds the cells that begin above the present row, up to the first column that is free.
func (r *pageReader) takeAbove() {
	for at := len(r.cells); at < len(r.taken) && r.taken[at] > 0; at++ {
		r.taken[at]--
		r.cells = append(r.cells, cell{up: true})
	}
}

// endCell adds the present cell, if any, in each column that it has. A column that a cell from above covers stays
// covered.
func (r *pageReader) endCell() {
	if r.cell == nil {
		return
	}
	text := r.cell.String()
	if r.spans.unseen {
		text = ""
	}
	r.cell, r.nested = nil, 0
	blank := oneLine(text) == ""
	switch {
	case r.spans.across == 0:
	case r.name:
		r.names++
	case !blank:
		r.values = true
	case r.names > 0:
		r.gaps++
	}
	if len(text) > longestLabel {
		r.long = true
	} else if !blank {
		r.labels++
	}
	r.takeAbove()
	for i := 0; i < r.spans.across && len(r.cells) < maxCells; i++ {
		at := len(r.cells)
		for len(r.taken) <= at {
			r.taken = append(r.taken, 0)
		}
		if r.taken[at] > 0 {
			r.taken[at]--
			r.cells = append(r.cells, cell{up: true})
			continue
		}
		r.taken[at] = r.spans.down - 1
		r.cells = append(r.cells, cell{text: text, left: i > 0})
	}
}

// endRow writes the present row, if any. The first row of a table is its header if all of its cells with text are
// names. An empty cell may stand for a name. A row with as many empty cells after its first name as it has names is not
// a header.
func (r *pageReader) endRow() {
	r.endCell()
	if !r.inRow {
		return
	}
	for len(r.taken) > 0 && r.taken[len(r.taken)-1] == 0 {
		r.taken = r.taken[:len(r.taken)-1]
	}
	for r.takeAbove(); len(r.cells) < len(r.taken); r.takeAbove() {
		r.cells = append(r.cells, cell{})
	}
	r.table.add(r.cells, r.names > r.gaps && !r.values)
	if r.labels > 1 && !r.long {
		r.wide = len(r.cells)
	}
	r.cells, r.labels, r.long, r.inRow = nil, 0, false, false
	r.names, r.gaps, r.values = 0, 0, false
}

// beginTable begins a table, which ends the row around it, if any.
func (r *pageReader) beginTable() {
	r.endRow()
	r.tables++
	r.table, r.taken, r.wide, r.head = newTable(r.b), nil, 0, false
}

// endTable ends the innermost table. Cells after it in the surrounding row are a row of their own.
func (r *pageReader) endTable() {
	r.endRow()
	r.tables = max(0, r.tables-1)
	r.table, r.taken, r.wide, r.head = newTable(r.b), nil, 0, false
	r.table.begun = true
}
