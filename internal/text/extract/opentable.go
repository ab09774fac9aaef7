package extract

import (
	"cmp"
	"encoding/xml"
	"strconv"
	"strings"

	"github.com/xuri/excelize/v2"

	"agentplatform/internal/text/document"
)

// openTable is the table, or sheet, in which a reader of an OpenDocument file is.
type openTable struct {
	sheet  string // the name of the sheet, until it has a row
	chart  bool   // it is the table of a chart
	header bool   // the present rows have the names of the columns
	rows   int    // how often the present row is repeated
	times  int    // how often the present cell is repeated
	value  string // of the present cell
	float  bool   // the value is a number
	covers int    // columns after the last cell that belong to it
	gap    int    // empty cells that are not written yet; most rows of a sheet end with thousands
}

// repeated is how often an element stands for itself.
func repeated(e xml.StartElement, attributeName string, most int) int {
	n, err := strconv.Atoi(attribute(e, attributeName))
	if err != nil {
		return 1
	}
	return min(max(n, 1), most)
}

// tabular reads an element that begins a table, a row or a cell.
func (r *openReader) tabular(p *parts, e xml.StartElement) error {
	switch name := e.Name.Local; name {
	case "table":
		if r.styles[attribute(e, "style-name")].hidden && r.body == "spreadsheet" {
			return p.skip()
		}
		if r.beginTable(); r.tables == 1 {
			r.header, r.named = false, attribute(e, "use-first-row-styles") == "true"
			r.chart = attribute(e, "name") == "local-table"
			if r.sheet = ""; r.body == "spreadsheet" {
				r.sheet = oneLine(attribute(e, "name"))
			}
		}
	case "table-header-rows":
		r.header = r.header || r.tables == 1
	}
	if r.tables != 1 {
		return nil
	}
	switch e.Name.Local {
	case "table-row":
		r.cells, r.gap, r.covers = nil, 0, 0
		r.rows = repeated(e, "number-rows-repeated", excelize.TotalRows)
	case "table-cell":
		r.beginCell(cell{})
		r.times = repeated(e, "number-columns-repeated", maxCells)
		r.covers = repeated(e, "number-columns-spanned", maxCells) - 1
		r.value, r.float = "", attribute(e, "value-type") == "float"
		for _, name := range []string{"string-value", "value", "date-value", "time-value", "boolean-value"} {
			r.value = cmp.Or(r.value, attribute(e, name))
		}
	case "covered-table-cell":
		r.cover(repeated(e, "number-columns-repeated", maxCells))
		return p.skip()
	}
	return nil
}

// cover adds cells that belong to the previous cell, or to one above them.
func (r *openReader) cover(columns int) {
	left := min(columns, r.covers)
	r.covers -= left
	up := columns - left
	if r.gap > 0 {
		r.gap, left = r.gap+left, 0
	}
	if up > 0 {
		r.fill(r.gap)
		r.gap = 0
	}
	for n := range min(left+up, maxCells-len(r.cells)) {
		r.cells = append(r.cells, cell{left: n < left, up: n >= left})
	}
}

// endCell adds the present cell, if any, as often as it is repeated.
func (r *openReader) endCell() {
	if r.tables != 1 || r.cell == nil {
		return
	}
	text := r.cell.String()
	if r.value == "NaN" {
		text, r.value = "", ""
	}
	if r.cell = nil; strings.TrimSpace(text) == "" {
		text = r.value
	} else if n, is := longNumberOf(r.value); is && r.float {
		text = n.shown(text)
	}
	if strings.TrimSpace(text) == "" {
		r.gap = min(r.gap+r.times, maxCells)
		return
	}
	r.fill(r.gap)
	r.gap = 0
	for range min(r.times, maxCells-len(r.cells)) {
		r.cells = append(r.cells, cell{text: text})
	}
}

// endRow adds the present row, if it has a text, as often as it is repeated.
func (r *openReader) endRow() {
	if r.endCell(); r.tables != 1 || len(r.cells) == 0 {
		return
	}
	if r.sheet != "" {
		r.b.block(document.Heading, 1, r.sheet)
		r.sheet = ""
	}
	for ; r.rows > 0 && !r.b.full; r.rows-- {
		if r.body == "spreadsheet" {
			r.table.addGuessed(r.cells)
		} else {
			r.table.add(r.cells, r.header || r.named)
		}
	}
	r.cells = nil
}
