package extract

import (
	"encoding/json"
	"errors"
	"strings"

	"agentplatform/internal/text/document"
)

// notebookFile is a notebook of code, of version 4 of its format or of version 3, which has sheets.
type notebookFile struct {
	Cells      []notebookCell
	Worksheets []struct{ Cells []notebookCell }
}

type notebookCell struct {
	Type    string       `json:"cell_type"`
	Source  notebookText // of version 4
	Input   notebookText // code of version 3
	Level   int          // of a heading of version 3
	Outputs []notebookShow
}

// notebookShow is an output of a cell. Pictures are not read.
type notebookShow struct {
	Text notebookText
	Data struct {
		Plain notebookText `json:"text/plain"`
	}
	Name  string `json:"ename"`
	Value string `json:"evalue"`
}

// notebookText is a text, or its lines with their ends.
type notebookText string

func (t *notebookText) UnmarshalJSON(data []byte) error {
	var lines []string
	if json.Unmarshal(data, &lines) == nil {
		*t = notebookText(strings.Join(lines, ""))
	}
	var text string
	if json.Unmarshal(data, &text) == nil {
		*t = notebookText(text)
	}
	return nil // of other kinds nothing is read
}

// readNotebook reads the texts of a notebook, its code, and the code's output as text.
func readNotebook(in input, b *builder) error {
	var file notebookFile
	if json.Unmarshal(in.data, &file) != nil || file.Cells == nil && file.Worksheets == nil {
		return readJSON(in, b)
	}
	cells := file.Cells
	for _, sheet := range file.Worksheets {
		cells = append(cells, sheet.Cells...)
	}
	for _, cell := range cells {
		if err := cell.write(b); err != nil || b.full {
			return err
		}
	}
	return nil
}

func (c notebookCell) write(b *builder) error {
	switch c.Type {
	case "markdown":
		err := readMarkdown(input{data: []byte(c.Source), charset: "utf-8"}, b)
		if errors.Is(err, ErrKind) { // it has control characters
			b.block(document.Paragraph, 0, string(c.Source))
			err = nil
		}
		return err
	case "heading":
		b.block(document.Heading, min(max(c.Level, 1), 6), string(c.Source))
	case "code":
		b.block(document.Code, 0, string(c.Source+c.Input))
	default:
		b.block(document.Paragraph, 0, string(c.Source))
	}
	for _, o := range c.Outputs {
		b.block(document.Code, 0, string(o.Text+o.Data.Plain))
		if o.Name != "" {
			b.block(document.Code, 0, o.Name+": "+o.Value)
		}
	}
	return nil
}
