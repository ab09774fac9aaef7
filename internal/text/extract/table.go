package extract

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// readTable reads values separated by commas, semicolons, tabs or other characters. The first row has the names of the
// columns if it looks like that.
func readTable(in input, b *builder) error {
	text, err := in.text(b)
	if err != nil {
		return err
	}
	comma, text := delimiter(text)
	r := csv.NewReader(strings.NewReader(text))
	r.Comma, r.LazyQuotes, r.FieldsPerRecord, r.ReuseRecord = comma, true, -1, true
	t := newTable(b)
	for !b.full {
		cells, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("the table cannot be read: %w", err)
		}
		if len(cells) > maxCells {
			return tooWide()
		}
		t.addGuessed(plainCells(cells))
	}
	return nil
}

func tooWide() error {
	return Fault{TooLarge, fmt.Sprintf("a row of the table has more than %d cells", maxCells)}
}

// names reports whether cells may be the names of columns. None may be a number, except years, months and days after a
// first cell that is not a number. dated: there is such a year, month or day.
func names(cells []cell) (is, dated bool) {
	for i, c := range cells {
		text := strings.TrimSpace(c.text)
		if _, err := strconv.ParseFloat(text, 64); err != nil {
			continue
		}
		if dated = i > 0 && isPeriod(text); !dated {
			return false, false
		}
	}
	return true, dated
}

// isPeriod reports a number that may be a year, a month or a day of 1900 to 2100.
func isPeriod(number string) bool {
	for _, form := range []string{"2006", "2006.01", "01.2006", "200601", "20060102"} {
		if day, err := time.Parse(form, number); err == nil && day.Year() >= 1900 && day.Year() <= 2100 {
			return true
		}
	}
	return false
}

// delimiter returns the character that separates the cells of a table, and the table. The first line may name it, as in
// "sep=;", and is then not part of the table. Otherwise it is the character that stands equally often in most of the
// first lines.
func delimiter(text string) (rune, string) {
	if rest, ok := strings.CutPrefix(text, "sep="); ok && rest != "" && slices.Contains(delimiters, rune(rest[0])) {
		_, table, _ := strings.Cut(rest, "\n")
		return rune(rest[0]), table
	}
	best, most := ',', 0
	sample := counts(text[:min(len(text), sampleSize)])
	for i, c := range delimiters {
		if score := steadiness(sample, i); score > most {
			best, most = c, score
		}
	}
	return best, text
}

var delimiters = []rune{',', ';', '\t', '|'}

// counts are the delimiters in each of the first lines, outside of quotation marks.
func counts(sample string) [][4]int {
	var lines [][4]int
	var line [4]int
	quoted := false
	for _, r := range sample {
		switch {
		case r == '"':
			quoted = !quoted
		case quoted:
		case r == '\n':
			lines, line = append(lines, line), [4]int{}
		default:
			for i, c := range delimiters {
				if r == c {
					line[i]++
				}
			}
		}
	}
	if line != [4]int{} {
		lines = append(lines, line)
	}
	return lines
}

// steadiness is the number of lines that have as many of a delimiter as the first, weighted by that number of
// delimiters.
func steadiness(lines [][4]int, i int) int {
	same := 0
	for _, line := range lines {
		if line[i] == lines[0][i] && line[i] > 0 {
			same++
		}
	}
	if len(lines) == 0 {
		return 0
	}
	return 1000*same + min(lines[0][i], 999)*min(same, 1)
}
