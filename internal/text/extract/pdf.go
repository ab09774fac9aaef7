package extract

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"agentplatform/internal/text/document"
	"agentplatform/internal/text/extract/pdftext"
)

// errUncompiled is the error of a reader that is not ready; it does not concern the file.
var errUncompiled = pdftext.ErrUncompiled

// readPDF reads the text of a PDF's pages.
func readPDF(in input, b *builder) (err error) {
	d, err := pdftext.Open(context.Background(), in.data, in.compiled, int(b.most.sandbox))
	if err != nil {
		return unreadablePDF(err, b.most)
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	b.title(pdfTitle(d.Title))
	b.language(d.Language)
	pages, err := readPages(d, b.most)
	if err != nil {
		return unreadablePDF(err, b.most)
	}
	for i, parts := range pdftext.Layout(pages) {
		b.page()
		if pages[i].Pictures {
			b.warn(document.PagesWithoutText)
		}
		if pages[i].Unmapped {
			b.warn(document.UnmappedGlyphs)
		}
		for _, p := range parts {
			b.block(p.Kind, p.Level, strings.Join(p.Lines, "\n"))
		}
	}
	if len(b.text.Blocks) == 0 && !b.full {
		return Fault{Empty, "the PDF has no text; it may be a scan"}
	}
	return nil
}

func unreadablePDF(err error, most limits) error {
	switch {
	case errors.Is(err, pdftext.ErrPassword):
		return Fault{Encrypted, "the PDF has a password"}
	case errors.Is(err, errUncompiled):
		return err
	case errors.Is(err, pdftext.ErrTooMuch):
		return Fault{Unreadable, fmt.Sprintf("the PDF needs more than %d MiB to read, or stops its reader",
			most.sandbox>>20)}
	case errors.Is(err, pdftext.ErrPage):
		return Fault{Unreadable, "the PDF cannot be read: its pages are damaged"}
	}
	return Fault{Unreadable, "the PDF cannot be read: it is damaged, or not a PDF"}
}

// readPages reads pages until there are more of them, or more characters, than are wanted. A broken page has no lines,
// but at least one page must be whole.
func readPages(d *pdftext.Document, most limits) ([]pdftext.Page, error) {
	var pages []pdftext.Page
	var broken error
	whole := false
	for i, characters := 0, 0; i < d.Pages && i <= MaxPages && characters <= most.characters; i++ {
		page, err := d.Page(i)
		switch {
		case err == nil:
			whole = true
		case errors.Is(err, pdftext.ErrPage):
			broken = err
		default:
			return nil, err
		}
		for _, l := range page.Lines {
			characters += utf8.RuneCountInString(l.Text) + 1
		}
		pages = append(pages, page)
	}
	if !whole {
		return nil, broken
	}
	return pages, nil
}

// pdfTitle is a title without texts that programs add by themselves.
func pdfTitle(title string) string {
	title = strings.TrimSpace(title)
	if _, name, printed := strings.Cut(title, "Microsoft Word - "); printed {
		title = name
	}
	if strings.EqualFold(title, "untitled") {
		return ""
	}
	return title
}
