package extract

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"strings"

	"github.com/xuri/excelize/v2"

	"agentplatform/internal/text/document"
)

// readWorkbook reads the visible sheets, each under its name as a heading. The first row of a sheet has the names of
// the columns if it looks like that.
func readWorkbook(m *members, in input, b *builder) error {
	// No part goes to a temporary file, which would stay when the child is ended.
	f, err := excelize.OpenReader(bytes.NewReader(in.data), excelize.Options{
		UnzipSizeLimit: b.most.unpacked, UnzipXMLSizeLimit: b.most.unpacked,
	})
	if err != nil && strings.Contains(err.Error(), "unzip size exceeds") {
		return Fault{TooLarge, fmt.Sprintf("the workbook unpacks to over %d MiB", b.most.unpacked>>20)}
	}
	if err != nil {
		return fmt.Errorf("the workbook cannot be read: %w", err)
	}
	defer func() { _ = f.Close() }()
	at, err := sheetMembers(m)
	if err != nil {
		return err
	}
	for _, sheet := range f.GetSheetList() {
		if shown, err := f.GetSheetVisible(sheet); err == nil && !shown || b.full {
			continue
		}
		marks, err := readMarks(m, at[sheet], b.most)
		if err != nil {
			return err
		}
		named, err := readSheet(f, sheet, marks, b)
		if err != nil {
			return err
		}
		if err := beside(m.readSheetCharts(at[sheet], sheet, named, b)); err != nil {
			return err
		}
	}
	return nil
}

// readSheetCharts reads the charts of the sheet that a member has; named: its name stands in the text.
func (m *members) readSheetCharts(member, sheet string, named bool, b *builder) error {
	relations, err := m.relations(member)
	if err != nil || b.full {
		return err
	}
	drawing := m.part(relations, "drawing", "")
	r, err := m.officeText(drawing, b)
	if err != nil {
		return err
	}
	if !named && len(r.charts) > 0 {
		b.block(document.Heading, 1, oneLine(sheet))
	}
	if err := m.each(drawing, func(_ *parts, e xml.StartElement) error {
		r.chart(e)
		return nil
	}); err != nil {
		return err
	}
	return r.addObjects()
}

// readSheet reads the cells of a sheet, under its name if there are any.
func readSheet(f *excelize.File, sheet string, marks *sheetMarks, b *builder) (named bool, err error) {
	rows, err := f.Rows(sheet)
	if errNoSheet := (excelize.ErrSheetNotExist{}); errors.As(err, &errNoSheet) { // it is a chart
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("the workbook cannot be read: %w", err)
	}
	defer func() { _ = rows.Close() }()
	t := newTable(b)
	row := 1
	for ; rows.Next() && !b.full; row++ {
		texts, err := rows.Columns()
		if err != nil {
			return named, fmt.Errorf("the workbook cannot be read: %w", err)
		}
		if len(texts) > maxCells {
			return named, tooWide()
		}
		cells := marks.cells(row, texts, b)
		if len(cells) == 0 {
			b.count(len(texts))
			continue
		}
		if !named {
			b.block(document.Heading, 1, oneLine(sheet))
			named = true
		}
		t.addGuessed(cells)
	}
	for cells := marks.cells(row, nil, b); len(cells) > 0 && !b.full; cells = marks.cells(row, nil, b) {
		t.add(cells, false)
		row++
	}
	if err := rows.Error(); err != nil {
		return named, fmt.Errorf("the workbook cannot be read: %w", err)
	}
	return named, nil
}
