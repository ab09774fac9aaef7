package extract

// richRow is a row of a table, with the positions where it begins and where its cells end.
type richRow struct {
	cells []cell
	left  int
	edges []int
	names bool
}

const (
	mostRichRows = 10_000 // that are looked at together
	sameEdge     = 60     // twips, about a millimetre: edges that are closer than that are one
)

// define reads a word of a row's definition about its cells.
func (r *richReader) define(word string, number int) {
	switch word {
	case "trowd":
		r.merges, r.row.left, r.row.edges, r.merge = nil, 0, nil, cell{}
	case "trleft":
		r.row.left = number
	case "clmrg":
		r.merge.left = true
	case "clvmrg":
		r.merge.up = true
	case "cellx":
		if len(r.merges) < maxCells {
			r.merges, r.row.edges = append(r.merges, r.merge), append(r.row.edges, number)
		}
		r.merge = cell{}
	}
}

// endTable writes the rows of the present table, if any.
func (r *richReader) endTable() {
	r.addRows()
	r.table = nil
}

// addRows adds rows to the present table. A cell that is as wide as several cells of the row with most cells has their
// columns: most writers draw merged cells so, without marking them as merged.
func (r *richReader) addRows() {
	if len(r.rows) == 0 {
		return
	}
	if r.table == nil {
		r.table = newTable(r.b)
	}
	widest := r.rows[0]
	for _, row := range r.rows {
		if len(row.cells) > len(widest.cells) {
			widest = row
		}
	}
	for _, row := range r.rows {
		if r.b.full {
			break
		}
		r.table.add(row.spread(widest), row.names)
	}
	r.rows = nil
}

// spread returns the cells of a row in the columns of the widest row. If its edges differ, they stay as they are.
func (row richRow) spread(widest richRow) []cell {
	if len(row.cells) >= len(widest.cells) || len(row.edges) != len(row.cells) ||
		len(widest.edges) != len(widest.cells) {
		return row.cells
	}
	var cells []cell
	column := 0
	for row.left > widest.left+sameEdge && column < len(widest.edges) && widest.edges[column] <= row.left+sameEdge {
		cells = append(cells, cell{})
		column++
	}
	for i, c := range row.cells {
		begun := column
		for column < len(widest.edges) && widest.edges[column] < row.edges[i]-sameEdge {
			column++
		}
		if column == len(widest.edges) || widest.edges[column] > row.edges[i]+sameEdge {
			return row.cells
		}
		column++
		cells = append(cells, c)
		for range column - begun - 1 {
			cells = append(cells, cell{left: !c.up, up: c.up})
		}
	}
	return cells
}
