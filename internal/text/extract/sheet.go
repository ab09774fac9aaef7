package extract

import (
	"encoding/xml"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/xuri/excelize/v2"
)

// sheetMarks are data of a sheet that the library for workbooks does not return with the rows: merged cells, and long
// numbers as they are stored. Rows and columns count from 1.
type sheetMarks struct {
	most limits

	areas []area                // by the row in which they begin; those that are not open yet
	open  []area                // that hold cells of the present row
	width int                   // the last column with a value
	long  map[[2]int]longNumber // by row and column

	margins *margins

	row, column int // the present cell
	number      bool
	size        int // bytes of long
}

type area struct{ top, left, bottom, right int }

// sheetMembers are the members of a workbook that have its sheets, by the sheets' names.
func sheetMembers(m *members) (map[string]string, error) {
	sheets := map[string]string{}
	err := m.each(m.main, func(_ *parts, e xml.StartElement) error {
		if e.Name.Local == "sheet" && len(sheets) < maxMembers {
			sheets[attribute(e, "name")] = m.related[idOf(e)].member
		}
		return nil
	})
	return sheets, err
}

// readMarks reads the marks of the sheet that a member has.
func readMarks(m *members, member string, most limits) (*sheetMarks, error) {
	s := &sheetMarks{most: most, long: map[[2]int]longNumber{}, margins: &m.margins}
	if err := m.each(member, s.note); err != nil {
		return nil, err
	}
	slices.SortStableFunc(s.areas, func(a, b area) int { return a.top - b.top })
	for i, a := range s.areas {
		if a.bottom > s.row+mostBeyond {
			s.areas[i].bottom = max(s.row, a.top)
		}
		if a.right > s.width+mostBeyond {
			s.areas[i].right = max(s.width, a.left)
		}
	}
	return s, nil
}

// note reads an element of a sheet.
func (s *sheetMarks) note(p *parts, e xml.StartElement) error {
	switch e.Name.Local {
	case "row":
		s.row, s.column = s.row+1, 0
		if n, err := strconv.Atoi(attribute(e, "r")); err == nil && n > 0 {
			s.row = n
		}
	case "c":
		s.column++
		if column, _, err := excelize.CellNameToCoordinates(attribute(e, "r")); err == nil {
			s.column = column
		}
		kind := attribute(e, "t")
		s.number = kind == "" || kind == "n"
	case "is":
		s.width = max(s.width, s.column)
	case "v":
		s.width = max(s.width, s.column)
		if !s.number || s.size > s.most.characters {
			return nil
		}
		text, err := p.characters(longestNumber)
		if n, is := longNumberOf(strings.TrimSpace(text)); is {
			s.long[[2]int{s.row, s.column}] = n
			s.size += len(n.full)
		}
		return err
	case "oddHeader", "evenHeader", "firstHeader", "oddFooter", "evenFooter", "firstFooter":
		text, err := p.characters(utf8Most * s.most.characters)
		s.margins.add(marginCodes.ReplaceAllStringFunc(text, marginText))
		return err
	case "mergeCell":
		if a, is := areaOf(attribute(e, "ref")); is {
			s.areas = append(s.areas, a)
		}
		if len(s.areas) > maxBlocks {
			return Fault{TooLarge, fmt.Sprintf("a sheet of the workbook has more than %d merged cells", maxBlocks)}
		}
	}
	return nil
}

// marginCodes are the codes in the headers and footers of sheets: fonts, colours, sizes, parts and fields.
var marginCodes = regexp.MustCompile(`&("[^"]*"|K[0-9A-Fa-f]{6}|K\d\d[+-]\d{3}|\d+|.)`)

// marginText is the text of a code.
func marginText(code string) string {
	switch code[1] {
	case '&':
		return "&"
	case 'P', 'N':
		return pageNumber
	case 'L', 'C', 'R':
		return "\n"
	}
	return ""
}

// areaOf is the area of a reference like A1:B2, A:B or 1:2, if it is one of several cells.
func areaOf(reference string) (area, bool) {
	first, last, _ := strings.Cut(reference, ":")
	left, top, firstIs := cornerOf(first, 1, 1)
	right, bottom, lastIs := cornerOf(last, excelize.MaxColumns, excelize.TotalRows)
	a := area{min(top, bottom), min(left, right), max(top, bottom), max(left, right)}
	return a, firstIs && lastIs && (a.top < a.bottom || a.left < a.right)
}

// cornerOf is a cell by its name. For a column or row alone, it is the cell in the given row or column.
func cornerOf(name string, column, row int) (c, r int, is bool) {
	if c, r, err := excelize.CellNameToCoordinates(name); err == nil {
		return c, r, true
	}
	if c, err := excelize.ColumnNameToNumber(name); err == nil {
		return c, row, true
	}
	r, err := strconv.Atoi(name)
	return column, r, err == nil && r > 0 && r <= excelize.TotalRows
}

// cells are those of a row with these texts, without the empty ones at its end.
func (s *sheetMarks) cells(row int, texts []string, b *builder) []cell {
	texts = withoutEmptyEnd(texts)
	cells := plainCells(texts)
	for i := range cells {
		if n, is := s.long[[2]int{row, i + 1}]; is {
			cells[i].text = n.shown(texts[i])
		}
	}
	s.openAreas(row, texts)
	for _, a := range s.open {
		if b.count(a.right - a.left + 1); b.full {
			break
		}
		for len(cells) < a.right {
			cells = append(cells, cell{})
		}
		for at := a.left; at <= a.right; at++ {
			if row > a.top {
				cells[at-1] = cell{up: true}
			} else if at > a.left {
				cells[at-1] = cell{left: true}
			}
		}
	}
	return cells
}

// openAreas opens the areas that begin in a row, unless they have no text, and closes those that ended before it.
func (s *sheetMarks) openAreas(row int, texts []string) {
	s.open = slices.DeleteFunc(s.open, func(a area) bool { return a.bottom < row })
	for ; len(s.areas) > 0 && s.areas[0].top <= row; s.areas = s.areas[1:] {
		a := s.areas[0]
		if a.top == row && a.left <= len(texts) && strings.TrimSpace(texts[a.left-1]) != "" {
			s.open = append(s.open, a)
		}
	}
}

const (
	longestNumber = 50 // bytes, and zeros that an exponent adds
	manyDigits    = 12 // from here on a number is written in full; a scientific form hides that it is an identifier
	exactDigits   = 15 // of those that a format keeps
)

// longNumber is a number that the library, or its format, may show without some of its last digits.
type longNumber struct {
	full    string
	digits  int    // before the point
	general string // what the library makes of it where no format is given
}

// longNumberOf reports whether a number is long, or so small that it is shown in scientific form.
func longNumberOf(stored string) (longNumber, bool) {
	full := inFull(stored)
	x, err := strconv.ParseFloat(stored, 64)
	if full == "" || err != nil {
		return longNumber{}, false
	}
	whole, _, _ := strings.Cut(strings.TrimPrefix(full, "-"), ".")
	n := longNumber{full, len(whole), strconv.FormatFloat(x, 'G', exactDigits, 64)}
	if n.digits < manyDigits { // its last digits are those of the computer, not of a person
		n.full = inFull(n.general)
	}
	return n, n.digits >= manyDigits || strings.Contains(n.general, "E")
}

// shown returns the number to show in place of the library's form.
func (n longNumber) shown(as string) string {
	switch {
	case strings.TrimSpace(as) == "", strings.Contains(as, n.full):
		return as
	case n.digits > exactDigits, as == n.general && strings.Contains(as, "E"):
		return n.full
	case n.digits >= manyDigits && isScientific(as):
		return n.full
	}
	return as
}

// isScientific reports whether the shown form of a number has an exponent.
func isScientific(shown string) bool {
	at := strings.LastIndexAny(shown, "Ee")
	return at > 0 && isDigit(shown[at-1]) && at+1 < len(shown) && strings.Trim(shown[at+1:], "+-0123456789 ") == ""
}

// decimal is a number as a workbook stores it. It bounds the digits that an exponent adds.
var decimal = regexp.MustCompile(`^([+-]?)(\d*)\.?(\d*)(?:E([+-]?\d{1,5}))?$`)

// inFull is a decimal number without an exponent. It is empty for other texts and for too many digits.
func inFull(stored string) string {
	stored = strings.ToUpper(stored)
	p := decimal.FindStringSubmatch(stored)
	if p == nil || p[2]+p[3] == "" || len(p[2]+p[3]) > longestNumber {
		return ""
	}
	shift, _ := strconv.Atoi(p[4])
	if shift < -longestNumber || shift > longestNumber {
		return ""
	}
	number, is := new(big.Rat).SetString(stored)
	if !is {
		return ""
	}
	full := number.FloatString(max(0, len(p[3])-shift))
	if strings.Contains(full, ".") {
		full = strings.TrimRight(strings.TrimRight(full, "0"), ".")
	}
	return full
}
