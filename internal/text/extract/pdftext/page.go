package pdftext

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/klippa-app/go-pdfium/enums"
	pdfiumerrors "github.com/klippa-app/go-pdfium/errors"
	"github.com/klippa-app/go-pdfium/references"
	"github.com/klippa-app/go-pdfium/requests"
	"github.com/klippa-app/go-pdfium/responses"
)

// Page is what is read of a page.
type Page struct {
	Lines    []Line // none: the page has no text
	Pictures bool   // it has no text, but pictures
	Unmapped bool   // its fonts map many of its glyphs to no characters
}

// Line is a line of a page.
type Line struct {
	Text string // without white space at its ends

	x, y  float64 // where its first character stands, in points; y counts from the bottom
	end   float64 // y of its last character: a line that PDFium has joined with the next, at a hyphen, ends there
	size  float64 // of its first character's font, in points
	angle float64 // of its first character, in radians
	first int     // the number of its first character, from which on each is known; -1: not each is
	last  float64 // where its last character stands
}

// maxPageCharacters is how many characters of one page are read.
const maxPageCharacters = 1_000_000

// Page reads a page, which counts from 0, with its lines in the order in which the document draws them. Filled fields
// and notes are part of it. The error is [ErrPage] for a broken page; the pages after it may be whole. After
// [ErrTooMuch] nothing can be read any more.
func (d *Document) Page(number int) (Page, error) {
	read, err := d.page(number)
	switch {
	case errors.Is(err, ErrPage):
		return Page{}, fmt.Errorf("%w: number %d", ErrPage, number+1)
	case err != nil: // people need not know how the sandbox ended
		return Page{}, fmt.Errorf("%w: on page %d", ErrTooMuch, number+1)
	}
	return read, nil
}

// page reads a page as it is, then with its notes and fields merged into it, for which the page is opened again. If the
// merge changes other text, it is dropped: fonts of notes may take the place of the page's.
func (d *Document) page(number int) (Page, error) {
	read, more, err := d.read(number, true)
	if err != nil || !more {
		return read, err
	}
	if all, _, err := d.read(number, false); err == nil && containsMost(all.Lines, read.Lines) {
		return all, nil
	}
	return read, nil
}

// read opens a page, reads it and, if asked to, makes its notes and fields part of it; more: there are some.
func (d *Document) read(number int, merge bool) (read Page, more bool, err error) {
	page, err := d.open(number)
	if err != nil {
		return Page{}, false, err
	}
	defer func() {
		_, wrong := d.in.FPDF_ClosePage(&requests.FPDF_ClosePage{Page: *page.ByReference})
		err = errors.Join(err, wrong)
	}()
	if read, err = d.text(page); err != nil {
		return read, false, err
	}
	read.Pictures = len(read.Lines) == 0 && d.pictures(page)
	if !merge {
		return read, false, nil
	}
	if some, err := d.notes(page); err != nil || !some {
		return read, false, err
	}
	merged, err := d.in.FPDFPage_Flatten(&requests.FPDFPage_Flatten{Page: page})
	return read, err == nil && merged.Result == responses.FPDFPage_FlattenResultSuccess, nil
}

// notes reports whether a page has notes or fields. Links do not count: they add no text to it.
func (d *Document) notes(page requests.Page) (bool, error) {
	all, err := d.in.FPDFPage_GetAnnotCount(&requests.FPDFPage_GetAnnotCount{Page: page})
	if err != nil {
		return false, err
	}
	for i := range all.Count {
		if !d.isLink(page, i) {
			return true, nil
		}
	}
	return false, nil
}

// isLink reports whether an annotation of a page can be read and is a link.
func (d *Document) isLink(page requests.Page, number int) bool {
	found, err := d.in.FPDFPage_GetAnnot(&requests.FPDFPage_GetAnnot{Page: page, Index: number})
	if err != nil {
		return false
	}
	is, err := d.in.FPDFAnnot_GetSubtype(&requests.FPDFAnnot_GetSubtype{Annotation: found.Annotation})
	_, wrong := d.in.FPDFPage_CloseAnnot(&requests.FPDFPage_CloseAnnot{Annotation: found.Annotation})
	return err == nil && wrong == nil && is.Subtype == enums.FPDF_ANNOT_SUBTYPE_LINK
}

func (d *Document) text(page requests.Page) (read Page, err error) {
	loaded, err := d.in.FPDFText_LoadPage(&requests.FPDFText_LoadPage{Page: page})
	if err != nil {
		return Page{}, err
	}
	defer func() {
		_, wrong := d.in.FPDFText_ClosePage(&requests.FPDFText_ClosePage{TextPage: loaded.TextPage})
		err = errors.Join(err, wrong)
	}()
	turned, err := d.in.FPDFPage_GetRotation(&requests.FPDFPage_GetRotation{Page: page})
	if err != nil {
		return Page{}, err
	}
	return textPage{d.in, loaded.TextPage, turned.PageRotation != enums.FPDF_PAGE_ROTATION_NONE}.read()
}

// containsMost reports whether nine of ten words of some lines are among the words of all.
func containsMost(all, some []Line) bool {
	count, words, missing := map[string]int{}, 0, 0
	for _, l := range all {
		for word := range strings.FieldsSeq(l.Text) {
			count[word]++
		}
	}
	for _, l := range some {
		for word := range strings.FieldsSeq(l.Text) {
			words++
			if count[word]--; count[word] < 0 {
				missing++
			}
		}
	}
	return 10*missing <= words
}

func (d *Document) open(number int) (requests.Page, error) {
	loaded, err := d.in.FPDF_LoadPage(&requests.FPDF_LoadPage{Document: d.doc, Index: number})
	if errors.Is(err, pdfiumerrors.ErrPage) || errors.Is(err, pdfiumerrors.ErrUnknown) {
		return requests.Page{}, ErrPage
	}
	if err != nil {
		return requests.Page{}, err
	}
	return requests.Page{ByReference: &loaded.Page}, nil
}

// textPage is the text of a page, which PDFium has put into lines.
type textPage struct {
	in     instance
	page   references.FPDF_TEXTPAGE
	turned bool
}

func (t textPage) read() (Page, error) {
	count, err := t.in.FPDFText_CountChars(&requests.FPDFText_CountChars{TextPage: t.page})
	if err != nil || count.Count <= 0 {
		return Page{}, err
	}
	lines, err := t.lines(count.Count)
	if err != nil {
		return Page{}, err
	}
	unmapped, err := t.unmapped(count.Count)
	return Page{Lines: lines, Unmapped: unmapped}, err
}

func (t textPage) lines(count int) ([]Line, error) {
	response, err := t.in.FPDFText_GetText(&requests.FPDFText_GetText{
		TextPage: t.page, Count: min(count, maxPageCharacters),
	})
	if err != nil {
		return nil, err
	}
	var lines []Line
	at := 0 // characters of the text before the line
	for raw := range rawLines(strings.ToValidUTF8(strings.TrimRight(response.Text, "\x00"), "\uFFFD")) {
		line := strings.TrimRightFunc(raw, isBlank)
		from := at + utf8.RuneCountInString(line)
		line = strings.TrimLeftFunc(line, isBlank)
		from -= utf8.RuneCountInString(line)
		if line != "" {
			placed, err := t.locate(line, from, from+utf8.RuneCountInString(line)-1)
			if err != nil {
				return nil, err
			}
			placed.Text = t.unspaced(placed)
			lines = append(lines, placed)
		}
		at += utf8.RuneCountInString(raw)
	}
	if t.turned {
		downwards(lines)
	}
	return joined(t.columns(lines)), nil
}

// rawLines are the lines of a text as they stand on the page, with their ends. PDFium joins lines that divide a word.
func rawLines(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for line := range strings.SplitAfterSeq(text, "\n") {
			from := 0
			for at, r := range line {
				next := at + utf8.RuneLen(r)
				if isHyphen(r) && next < len(line) && !unicode.IsSpace(rune(line[next])) {
					if !yield(line[from:next]) {
						return
					}
					from = next
				}
			}
			if !yield(line[from:]) {
				return
			}
		}
	}
}

func isBlank(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) && !isHyphen(r) }

// isHyphen reports the characters by which PDFium marks a hyphen at the end of a line that it has joined with the next.
func isHyphen(r rune) bool { return r == '\uFFFE' || r == '\u0002' }

// joinHyphens joins words that were divided at the ends of lines, if they go on in lower case. Other hyphens stay.
func joinHyphens(line string) string {
	if !strings.ContainsFunc(line, isHyphen) {
		return line
	}
	var b strings.Builder
	var last rune
	for i, r := range line {
		if isHyphen(r) {
			next, _ := utf8.DecodeRuneInString(line[i+utf8.RuneLen(r):])
			if unicode.IsLower(last) && unicode.IsLower(next) {
				continue
			}
			r = '-'
		}
		b.WriteRune(r)
		last = r
	}
	return b.String()
}

// locate returns the position of a line; first and last are the numbers of its first and last character on the page.
func (t textPage) locate(text string, first, last int) (Line, error) {
	line := Line{Text: text, first: -1}
	from, err := t.index(first)
	if err != nil || from < 0 {
		return line, err
	}
	origin, err := t.in.FPDFText_GetCharOrigin(&requests.FPDFText_GetCharOrigin{TextPage: t.page, Index: from})
	if err != nil {
		return line, nil //nolint:nilerr // a line without a place is a line
	}
	line.x, line.y = origin.X, origin.Y
	if angle, err := t.in.FPDFText_GetCharAngle(
		&requests.FPDFText_GetCharAngle{TextPage: t.page, Index: from}); err == nil {
		line.angle = float64(angle.CharAngle)
	}
	line.size = t.size(from)
	line.end = line.y
	if to, err := t.index(last); err == nil && to > from {
		if origin, err := t.in.FPDFText_GetCharOrigin(
			&requests.FPDFText_GetCharOrigin{TextPage: t.page, Index: to}); err == nil {
			line.end, line.last = origin.Y, origin.X
			if to-from == last-first {
				line.first = from
			}
		}
	}
	return line, nil
}

// size is that of the font of a character as it is shown; 0: not known.
func (t textPage) size(at int) float64 {
	font, err := t.in.FPDFText_GetFontSize(&requests.FPDFText_GetFontSize{TextPage: t.page, Index: at})
	if err != nil {
		return 0
	}
	shown, err := t.in.FPDFText_GetMatrix(&requests.FPDFText_GetMatrix{TextPage: t.page, Index: at})
	if err != nil {
		return font.FontSize
	}
	return font.FontSize * math.Hypot(float64(shown.Matrix.C), float64(shown.Matrix.D))
}

// index is the number by which PDFium knows a character of the text; -1: none.
func (t textPage) index(at int) (int, error) {
	found, err := t.in.FPDFText_GetCharIndexFromTextIndex(
		&requests.FPDFText_GetCharIndexFromTextIndex{TextPage: t.page, NTextIndex: at})
	if err != nil {
		return -1, err
	}
	return found.CharIndex, nil
}
