package extract

import (
	"encoding/xml"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/xuri/excelize/v2"

	"agentplatform/internal/text/document"
)

// readChart reads a chart of an Office document: its titles, then a table of its values.
func (m *members) readChart(name string, b *builder) error {
	r := &chartReader{b: b}
	if whole, err := m.walk(name, b, r); err != nil || !whole {
		return err
	}
	for _, title := range r.titles {
		b.block(document.Paragraph, 0, oneLine(title))
	}
	r.series = r.series[:min(len(r.series), maxCells)]
	for len(r.series) > 0 && !b.full {
		r.series = r.series[b.addSeries(r.series):]
	}
	b.end()
	return nil
}

// officeText is a gridText of an Office document, with the charts to which it refers.
type officeText struct {
	gridText

	charts map[string]string // members by the ids of the references; those that were not met yet
}

func (m *members) officeText(name string, b *builder) (officeText, error) {
	r := officeText{charts: map[string]string{}}
	r.gridText = gridText{rowText: rowText{b: b}, read: func(name string) error { return m.readChart(name, b) }}
	relations, err := m.relations(name)
	for id, to := range relations {
		if to.kind == "chart" && m.files[to.member] != nil {
			r.charts[id] = to.member
		}
	}
	return r, beside(err)
}

// chart notes the chart to which an element refers, once.
func (r *officeText) chart(e xml.StartElement) {
	if name := r.charts[idOf(e)]; name != "" {
		r.objects = append(r.objects, name)
		delete(r.charts, idOf(e))
	}
}

// chartReader reads a chart's copies of the cells from which it was drawn.
type chartReader struct {
	b      *builder
	titles []string // of the chart, then of its axes
	series []chartSeries
	points int // of all series

	within bool           // a title
	to     map[int]string // where the present points belong; nil: they are not read
	outer  map[int]string // the present level of labels, which stands before the inner ones
	levels int            // of the present labels
	at     int            // the present point
	number bool           // the present points are numbers
	dates  bool           // they are numbers of days
}

// chartSeries has texts by the number of the point. The series' name counts as one point.
type chartSeries struct{ name, labels, values map[int]string }

func (r *chartReader) start(p *parts, e xml.StartElement) error {
	switch name := e.Name.Local; name {
	case "extLst", "errBars", "trendline", "dLbls", "Fallback":
		return p.skip()
	case "title":
		if r.within = len(r.titles) < maxMargins; r.within {
			r.titles = append(r.titles, "")
		}
	case "ser":
		if r.to = nil; len(r.series) <= maxCells { // one more than are read
			r.series = append(r.series, chartSeries{map[int]string{}, map[int]string{}, map[int]string{}})
		}
	case "numCache", "numLit":
		r.number = true
	case "lvl":
		if r.levels++; r.to != nil && r.levels > 1 && r.levels <= maxLevels {
			r.outer = map[int]string{}
			r.to = r.outer
		}
	case "formatCode":
		code, err := p.characters(maxPath)
		r.dates = strings.ContainsAny(notDates.ReplaceAllString(code, ""), "dDyY")
		return err
	case "pt":
		r.at, _ = strconv.Atoi(attribute(e, "idx"))
	case "t", "v":
		text, err := p.characters(utf8Most * r.b.most.characters)
		r.add(text)
		return err
	default:
		r.part(name)
	}
	return nil
}

// part notes what the points are that follow.
func (r *chartReader) part(name string) {
	if len(r.series) == 0 || len(r.series) > maxCells || r.within {
		return
	}
	of := r.series[len(r.series)-1]
	switch name {
	case "tx":
		r.to = of.name
	case "cat", "xVal":
		r.to = of.labels
	case "val", "yVal":
		r.to = of.values
	default:
		return
	}
	r.levels, r.number, r.dates = 0, false, false
}

// add adds a text to the present title or points.
func (r *chartReader) add(text string) {
	if r.within {
		r.titles[len(r.titles)-1] += text
		return
	}
	if r.points++; r.to == nil || r.points > maxBlocks {
		return
	}
	if r.number {
		text = pointOf(text, r.dates)
	}
	r.to[r.at] = text
}

func (r *chartReader) ended(name string) error {
	switch name {
	case "title":
		r.within = false
	case "p":
		if r.within {
			r.titles[len(r.titles)-1] += " "
		}
	case "lvl":
		r.endLevel()
	case "tx", "cat", "xVal", "val", "yVal", "ser":
		r.to, r.outer = nil, nil
	}
	return nil
}

// maxLevels is how many levels labels may have.
const maxLevels = 10

// endLevel puts an outer level before the labels so far. Each of its texts applies up to the next one.
func (r *chartReader) endLevel() {
	if r.outer == nil {
		return
	}
	labels, from := r.series[len(r.series)-1].labels, slices.Sorted(maps.Keys(r.outer))
	for at, label := range labels {
		next, is := slices.BinarySearch(from, at)
		if is {
			next++
		}
		if next > 0 {
			labels[at] = r.outer[from[next-1]] + " " + label
		}
	}
	r.to, r.outer = labels, nil
}

// notDates are the parts of a format that are not date codes: literal texts and colours.
var notDates = regexp.MustCompile(`"[^"]*"|\[[^]]*\]|\\.`)

// pointOf is a number as a person reads it, without the last digits that rounding adds.
func pointOf(stored string, date bool) string {
	x, err := strconv.ParseFloat(stored, 64)
	if err != nil {
		return stored
	}
	if date {
		if day, err := excelize.ExcelDateToTime(x, false); err == nil {
			return strings.TrimSuffix(day.Format(time.DateTime), " 00:00:00")
		}
	}
	general := strconv.FormatFloat(x, 'G', exactDigits, 64)
	if full := inFull(general); full != "" {
		return full
	}
	return general
}

// addSeries writes a table of the series that have the labels of the first, and returns their number.
func (b *builder) addSeries(series []chartSeries) int {
	first, n := series[0].labels, 0
	rows := maps.Clone(first)
	header := []cell{{}}
	for ; n < len(series) && (len(series[n].labels) == 0 || maps.Equal(series[n].labels, first)); n++ {
		maps.Copy(rows, series[n].values)
		header = append(header, cell{text: series[n].name[0]})
	}
	t := newTable(b)
	t.add(header, true)
	for _, at := range slices.Sorted(maps.Keys(rows)) {
		cells := []cell{{text: first[at]}}
		for _, of := range series[:n] {
			cells = append(cells, cell{text: of.values[at]})
		}
		if t.add(cells, false); b.full {
			break
		}
	}
	return n
}
