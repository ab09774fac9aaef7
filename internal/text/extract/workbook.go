package extract

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/xuri/excelize/v2"

	"agentplatform/internal/text/document"
)

// readWorkbook reads the sheets that are shown, each under its name as a heading. The first row of a sheet has the
// names of the columns unless there is a number in it.
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
		if err := readSheet(f, sheet, marks, b); err != nil {
			return err
		}
	}
	return nil
}

func readSheet(f *excelize.File, sheet string, marks *sheetMarks, b *builder) error {
	rows, err := f.Rows(sheet)
	if errNoSheet := (excelize.ErrSheetNotExist{}); errors.As(err, &errNoSheet) { // it is a chart
		return nil
	}
	if err != nil {
		return fmt.Errorf("the workbook cannot be read: %w", err)
	}
	defer func() { _ = rows.Close() }()
	t := newTable(b)
	named, row := false, 1
	for ; rows.Next() && !b.full; row++ {
		texts, err := rows.Columns()
		if err != nil {
			return fmt.Errorf("the workbook cannot be read: %w", err)
		}
		if len(texts) > maxCells {
			return tooWide()
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
		return fmt.Errorf("the workbook cannot be read: %w", err)
	}
	return nil
}
