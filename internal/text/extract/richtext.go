package extract

import (
	"errors"
	"strconv"
	"strings"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"

	"agentplatform/internal/text/document"
)

// codePages are the encodings of bytes in RTF, by number.
var codePages = map[int]encoding.Encoding{
	437: charmap.CodePage437, 850: charmap.CodePage850, 852: charmap.CodePage852, 866: charmap.CodePage866,
	874: charmap.Windows874, 932: japanese.ShiftJIS, 936: simplifiedchinese.GBK, 949: korean.EUCKR,
	950: traditionalchinese.Big5, 1250: charmap.Windows1250, 1251: charmap.Windows1251, 1252: charmap.Windows1252,
	1253: charmap.Windows1253, 1254: charmap.Windows1254, 1255: charmap.Windows1255, 1256: charmap.Windows1256,
	1257: charmap.Windows1257, 1258: charmap.Windows1258, 10000: charmap.Macintosh,
}

// fontPages are the code pages of the character sets of fonts. The default set and that of symbols have the code page
// of the document.
var fontPages = map[int]int{
	77: 10000, 128: 932, 129: 949, 134: 936, 136: 950, 161: 1253, 162: 1254, 163: 1258, 177: 1255, 178: 1256, 186: 1257,
	204: 1251, 222: 874, 238: 1250, 254: 437, 255: 850,
}

const maxFonts = 10_000 // of a document whose code pages are kept

// asides are groups whose text is not part of the document's.
var asides = map[string]bool{
	"fonttbl": true, "colortbl": true, "stylesheet": true, "info": true, "pict": true, "object": true, "header": true,
	"footer": true, "headerl": true, "headerr": true, "headerf": true, "footerl": true, "footerr": true,
	"footerf": true, "fldinst": true, "themedata": true, "listtable": true, "listoverridetable": true, "rsidtbl": true,
	"xe": true, "tc": true, "datastore": true, "generator": true, "pntext": true, "listtext": true, "nonshppict": true,
}

// symbols are control words that stand for a character.
var symbols = map[string]string{
	"tab": "\t", "line": "\n", "emdash": "—", "endash": "–", "bullet": "•", "lquote": "‘", "rquote": "’",
	"ldblquote": "“", "rdblquote": "”", "emspace": " ", "enspace": " ", "~": " ", "_": "-", "{": "{", "}": "}",
	"\\": "\\",
}

// readRichText reads RTF. The title stands in a group of its own.
func readRichText(in input, b *builder) error {
	r := richReader{rest: in.data, b: b, encoding: charmap.Windows1252, fonts: map[int]encoding.Encoding{}}
	r.group.skip = 1
	for len(r.rest) > 0 && !b.full {
		if err := r.next(); err != nil {
			return err
		}
	}
	r.flush()
	r.endRow()
	r.endTable()
	b.end()
	return nil
}

// richGroup has the properties that apply up to the end of a group.
type richGroup struct {
	aside bool // its text is left out
	title bool // its text is the title
	skip  int  // characters after \u that stand for it where it is not known
	fonts bool // it is in the table of fonts
	font  int  // the number of the font of its text
}

// richReader reads RTF from its beginning to its end, once.
type richReader struct {
	rest     []byte
	b        *builder
	encoding encoding.Encoding
	group    richGroup
	outer    []richGroup
	fonts    map[int]encoding.Encoding // by their numbers, where they have one of their own
	first    int                       // the number of the font of a text that names none
	bytes    []byte                    // of text that is not decoded yet
	skipping int                       // characters to leave out
	high     rune                      // the first half of a pair
	heading  int
	item     bool
	row      richRow // the present one
	cell     strings.Builder
	merges   []cell // the definition of each cell of the row
	merge    cell   // the definition of the next one
	inTable  bool
	rows     []richRow
	table    *table
	title    strings.Builder
}

// next reads a brace, a control word, or text up to one of these.
func (r *richReader) next() error {
	switch c := r.rest[0]; c {
	case '{':
		r.flush()
		if r.outer = append(r.outer, r.group); len(r.outer) > maxDepth {
			return errors.New("the RTF document is nested too deeply")
		}
		r.rest = r.rest[1:]
	case '}':
		r.close()
		r.rest = r.rest[1:]
	case '\\':
		r.control()
	case '\r', '\n', 0:
		r.rest = r.rest[1:]
	default:
		r.rest = r.rest[1:]
		r.char(c)
	}
	return nil
}

func (r *richReader) close() {
	r.flush()
	r.skipping = 0
	if len(r.outer) == 0 {
		return
	}
	was := r.group
	r.group, r.outer = r.outer[len(r.outer)-1], r.outer[:len(r.outer)-1]
	if was.title && !r.group.title {
		r.b.title(r.title.String())
	}
}

func (r *richReader) char(c byte) {
	if r.skipping > 0 {
		r.skipping--
		return
	}
	if r.group.aside && !r.group.title {
		return
	}
	r.bytes = append(r.bytes, c)
}

func (r *richReader) flush() {
	if len(r.bytes) == 0 {
		return
	}
	in := r.encoding
	if own := r.fonts[r.group.font]; own != nil {
		in = own
	}
	text := decodeAs(in, r.bytes)
	r.bytes = r.bytes[:0]
	r.write(text)
}

func (r *richReader) write(s string) {
	switch {
	case r.group.title:
		if r.title.Len() < utf8Most*maxTitle {
			r.title.WriteString(s)
		}
	case r.group.aside:
	case r.inTable:
		if r.cell.Len() < utf8Most*r.b.most.characters {
			r.cell.WriteString(s)
		}
	default:
		if !r.b.opened {
			r.endTable()
			kind := document.Paragraph
			if r.item {
				kind = document.Item
			}
			if r.heading > 0 {
				kind = document.Heading
			}
			r.b.begin(kind, r.heading)
		}
		r.b.add(s)
	}
}

// control reads a control word with its number, or a control symbol.
func (r *richReader) control() {
	word, number, has := r.word()
	switch {
	case word == "'":
		r.hex()
		return
	case word == "u" && has:
		r.flush()
		r.unicode(number)
		return
	}
	r.flush()
	if s, is := symbols[word]; is {
		r.write(s)
		return
	}
	switch word {
	case "*":
		r.group.aside = true
	case "bin":
		r.rest = r.rest[min(max(number, 0), len(r.rest)):]
	case "uc":
		r.group.skip = min(max(number, 0), 10)
	case "ansicpg":
		if e := codePages[number]; e != nil {
			r.encoding = e
		}
	case "mac":
		r.encoding = charmap.Macintosh
	case "fonttbl":
		r.group.fonts, r.group.aside = true, true
	case "f", "deff", "plain", "fcharset", "cpg":
		r.font(word, number)
	case "title":
		r.title.Reset()
		r.group.title = len(r.outer) > 0
	default:
		r.group.aside = r.group.aside || asides[word]
		if !r.group.aside {
			r.layout(word, number, has)
		}
	}
}

// font sets the font of the following text, or the code page of a font in the table of fonts.
func (r *richReader) font(word string, number int) {
	switch word {
	case "f":
		r.group.font = number
	case "deff":
		r.first, r.group.font = number, number
	case "plain":
		r.group.font = r.first
	case "fcharset":
		number = fontPages[number]
		fallthrough
	default:
		if e := codePages[number]; e != nil && r.group.fonts && len(r.fonts) < maxFonts {
			r.fonts[r.group.font] = e
		}
	}
}

// layout takes what begins and ends paragraphs and cells.
func (r *richReader) layout(word string, number int, has bool) {
	switch word {
	case "par", "sect", "page":
		if r.inTable {
			r.write(" ")
			return
		}
		r.endRow()
		r.endTable()
		r.b.end()
	case "pard":
		r.heading, r.item, r.inTable = 0, false, false
	case "outlinelevel":
		if has && number >= 0 && number < 9 {
			r.heading = number + 1
		}
	case "ls", "pnlvlblt", "pnlvlbody":
		r.item = true
	case "intbl":
		r.b.end()
		r.inTable = true
	case "cell":
		if len(r.row.cells) < maxCells {
			r.row.cells = append(r.row.cells, cell{text: r.cell.String()})
		}
		r.cell.Reset()
	case "nestcell", "nestrow":
		r.write(" ")
	case "trhdr":
		r.row.names = true
	case "row":
		r.endRow()
	default:
		r.define(word, number)
	}
}

func (r *richReader) endRow() {
	if rest := r.cell.String(); strings.TrimSpace(rest) != "" && len(r.row.cells) < maxCells {
		r.row.cells = append(r.row.cells, cell{text: rest})
	}
	r.cell.Reset()
	if len(r.row.cells) == 0 {
		return
	}
	for i := range min(len(r.row.cells), len(r.merges)) {
		r.row.cells[i].left, r.row.cells[i].up = r.merges[i].left, r.merges[i].up
	}
	if r.rows = append(r.rows, r.row); len(r.rows) >= mostRichRows {
		r.addRows()
	}
	r.row.cells, r.row.names = nil, false
}

// word reads a control word from the rest, with its number if it has one, and the space that ends it.
func (r *richReader) word() (word string, number int, has bool) {
	r.rest = r.rest[1:]
	if len(r.rest) == 0 {
		return "", 0, false
	}
	at := 0
	for at < len(r.rest) && at < 32 && isLetter(r.rest[at]) {
		at++
	}
	if at == 0 {
		word, r.rest = string(r.rest[:1]), r.rest[1:]
		if word == "\r" || word == "\n" {
			word = "par"
		}
		return word, 0, false
	}
	word, r.rest = string(r.rest[:at]), r.rest[at:]
	for at = 0; at < len(r.rest) && at < 11 && (isDigit(r.rest[at]) || at == 0 && r.rest[at] == '-'); {
		at++
	}
	if at > 0 {
		n, err := strconv.Atoi(string(r.rest[:at]))
		number, has, r.rest = n, err == nil, r.rest[at:]
	}
	if len(r.rest) > 0 && r.rest[0] == ' ' {
		r.rest = r.rest[1:]
	}
	return word, number, has
}

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }

// hex reads a byte that is written as two digits.
func (r *richReader) hex() {
	if len(r.rest) < 2 {
		r.rest = nil
		return
	}
	if n, err := strconv.ParseUint(string(r.rest[:2]), 16, 8); err == nil {
		r.char(byte(n))
	}
	r.rest = r.rest[2:]
}

// unicode reads a character, which may be half of a pair, and skips its replacement text.
func (r *richReader) unicode(number int) {
	c := rune(uint16(number))
	r.skipping = r.group.skip
	switch {
	case c >= 0xD800 && c < 0xDC00:
		r.high = c
		return
	case c >= 0xDC00 && c < 0xE000 && r.high != 0:
		c = (r.high-0xD800)<<10 + (c - 0xDC00) + 0x10000
	}
	r.high = 0
	r.write(string(c))
}
