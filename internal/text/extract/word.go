package extract

import (
	"encoding/xml"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"agentplatform/internal/text/document"
)

// readWord reads a Word document: its text, then its footnotes and endnotes. Tracked deletions are not read.
func readWord(m *members, _ input, b *builder) error {
	styles, err := wordStyles(m, b)
	if err != nil {
		return err
	}
	for _, kind := range []string{"", "footnotes", "endnotes"} {
		name := m.wordPart(kind)
		if m.files[name] == nil || b.full {
			continue
		}
		if err := m.readWordPart(name, styles, b); err != nil {
			return err
		}
	}
	return m.readWordMargins(styles, b)
}

func (m *members) readWordPart(name string, styles map[string]wordStyle, b *builder) error {
	text, err := m.officeText(name, b)
	if err != nil {
		return err
	}
	r := &wordReader{officeText: text, styles: styles}
	whole, err := m.walk(name, b, r)
	if whole {
		r.endRow()
		b.end()
	}
	return err
}

// readWordMargins reads the headers and footers.
func (m *members) readWordMargins(styles map[string]wordStyle, b *builder) error {
	for _, id := range slices.Sorted(maps.Keys(m.related)) {
		of := m.related[id]
		if of.kind != "header" && of.kind != "footer" || m.files[of.member] == nil || b.full {
			continue
		}
		margin := &builder{most: b.most}
		r := &wordReader{styles: styles, margin: true}
		r.b = margin
		_, err := m.walk(of.member, b, r)
		if err = beside(err); err != nil {
			return err
		}
		m.margins.take(margin)
	}
	return nil
}

// wordPart is the member of a kind. The text itself has no kind; other members are those that it refers to.
func (m *members) wordPart(kind string) string {
	if kind == "" {
		return m.main
	}
	return m.part(m.related, kind, path.Join(path.Dir(m.main), kind+".xml"))
}

// wordStyle has the properties of a style that paragraphs take from it.
type wordStyle struct {
	heading int // 1 to 9; 0: none
	based   string
}

var headingStyle = regexp.MustCompile(`(?i)^heading ?([1-9])$`)

// wordStyles are the styles by id; those that are based on a heading are headings, too.
func wordStyles(m *members, b *builder) (map[string]wordStyle, error) {
	styles := map[string]wordStyle{}
	id, defaults := "", false
	err := m.each(m.wordPart("styles"), func(_ *parts, e xml.StartElement) error {
		of := styles[id]
		switch value := attribute(e, "val"); e.Name.Local {
		case "docDefaults":
			defaults = true
		case "lang":
			if defaults {
				b.language(value)
			}
		case "style":
			id, of, defaults = attribute(e, "styleId"), wordStyle{}, false
		case "name":
			if level := headingStyle.FindStringSubmatch(value); level != nil {
				of.heading, _ = strconv.Atoi(level[1])
			} else if strings.EqualFold(value, "title") {
				of.heading = 1
			}
		case "basedOn":
			of.based = value
		case "outlineLvl":
			if level, err := strconv.Atoi(value); err == nil && of.heading == 0 && level >= 0 && level < 9 {
				of.heading = level + 1
			}
		}
		if id != "" && len(styles) < maxMembers {
			styles[id] = of
		}
		return nil
	})
	return styles, err
}

// wordReader reads the elements of a text.
type wordReader struct {
	officeText

	styles map[string]wordStyle
	after  int // empty columns at the end of the present row

	margin   bool // it is a header or footer
	changing bool // within a field that differs from page to page, or from day to day
}

func (r *wordReader) start(p *parts, e xml.StartElement) error {
	switch e.Name.Local {
	case "t":
		text, err := p.characters(utf8Most * r.b.most.characters)
		if !r.changing {
			r.write(text)
		}
		return err
	case "tab":
		r.write("\t")
	case "br", "cr":
		r.write("\n")
	case "noBreakHyphen":
		r.write("-")
	case "Fallback", "moveFrom", "delText", "rt", "tabs", "pPrChange", "tblPrChange", "trPrChange", "tcPrChange":
		return p.skip()
	case "fldSimple", "fldChar", "instrText", "pgNum":
		return r.field(p, e)
	case "chart":
		r.chart(e)
	case "p":
		r.paragraph(document.Paragraph, 0)
	default:
		r.property(e)
		r.tabular(e)
	}
	return nil
}

// changingFields are those that differ from page to page, or from day to day, with their replacements.
var changingFields = map[string]string{
	"PAGE": pageNumber, "NUMPAGES": pageNumber, "SECTIONPAGES": pageNumber, "DATE": "", "TIME": "",
}

// field reads the begin, the end or the instruction of a field. In a margin, fields that change are left out.
func (r *wordReader) field(p *parts, e xml.StartElement) error {
	instruction, simple := attribute(e, "instr"), e.Name.Local == "fldSimple"
	switch e.Name.Local {
	case "fldChar":
		r.changing = r.changing && attribute(e, "fldCharType") == "separate"
	case "pgNum":
		instruction = "PAGE"
	case "instrText":
		text, err := p.characters(maxPath)
		if instruction = text; err != nil {
			return err
		}
	}
	name, _, _ := strings.Cut(strings.TrimSpace(instruction), " ")
	as, changes := changingFields[strings.ToUpper(name)]
	if !changes || !r.margin {
		return nil
	}
	r.write(as)
	if simple {
		return p.skip()
	}
	r.changing = e.Name.Local == "instrText"
	return nil
}

// property reads a property of the present paragraph.
func (r *wordReader) property(e xml.StartElement) {
	if r.cell != nil || !r.b.opened {
		return
	}
	switch value := attribute(e, "val"); e.Name.Local {
	case "pStyle":
		if level := r.level(value); level > 0 {
			r.b.kind, r.b.level = document.Heading, level
		} else if strings.HasPrefix(value, "List") {
			r.b.kind = document.Item
		}
	case "outlineLvl":
		if level, err := strconv.Atoi(value); err == nil && level >= 0 && level < 9 {
			r.b.kind, r.b.level = document.Heading, level+1
		}
	case "numPr":
		if r.b.kind == document.Paragraph {
			r.b.kind = document.Item
		}
	}
}

// level is the level of a style's headings, or 0. Styles may be based on each other in a circle.
func (r *wordReader) level(style string) int {
	for range 20 {
		of, known := r.styles[style]
		if !known {
			level := headingStyle.FindStringSubmatch(style)
			if level == nil {
				return 0
			}
			n, _ := strconv.Atoi(level[1])
			return n
		}
		if of.heading > 0 {
			return of.heading
		}
		style = of.based
	}
	return 0
}

// tabular reads the beginning of a table, and the properties of its rows.
func (r *wordReader) tabular(e xml.StartElement) {
	switch e.Name.Local {
	case "tbl":
		r.beginTable()
	case "tblLook":
		flags, _ := strconv.ParseUint(attribute(e, "val"), 16, 16)
		r.named = r.named || flags&0x20 != 0 || attribute(e, "firstRow") == "1"
	case "tblHeader":
		r.names = attribute(e, "val") != "0" && attribute(e, "val") != "false"
	case "tc":
		r.beginCell(cell{})
	default:
		if r.tables == 1 {
			r.merged(e)
		}
	}
}

// merged notes which columns a cell has, and the cells with which it is merged.
func (r *wordReader) merged(e xml.StartElement) {
	value := attribute(e, "val")
	columns, _ := strconv.Atoi(value)
	columns = min(max(columns, 0), maxCells)
	switch e.Name.Local {
	case "gridBefore":
		r.fill(columns)
	case "gridAfter":
		r.after = columns
	case "gridSpan":
		r.across = columns
	case "hMerge":
		r.merge.left = value != "restart"
	case "vMerge":
		r.merge.up = value != "restart"
	}
}

func (r *wordReader) ended(name string) error {
	if name == "tr" && r.tables == 1 {
		r.endCell()
		r.fill(r.after)
		r.after = 0
	}
	return r.officeText.ended(name)
}
