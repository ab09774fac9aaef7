package pdftext

import (
	"errors"
	"strconv"
	"testing"

	"github.com/klippa-app/go-pdfium"
	"github.com/klippa-app/go-pdfium/enums"
	"github.com/klippa-app/go-pdfium/references"
	"github.com/klippa-app/go-pdfium/requests"
	"github.com/klippa-app/go-pdfium/responses"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// annotated is PDFium with a page of these annotations. One of kind 0 cannot be read.
type annotated struct {
	pdfium.Pdfium

	kinds  []enums.FPDF_ANNOTATION_SUBTYPE
	opened int
}

func (a *annotated) FPDFPage_GetAnnotCount(
	*requests.FPDFPage_GetAnnotCount,
) (*responses.FPDFPage_GetAnnotCount, error) {
	return &responses.FPDFPage_GetAnnotCount{Count: len(a.kinds)}, nil
}

func (a *annotated) FPDFPage_GetAnnot(r *requests.FPDFPage_GetAnnot) (*responses.FPDFPage_GetAnnot, error) {
	if a.kinds[r.Index] == enums.FPDF_ANNOT_SUBTYPE_UNKNOWN {
		return nil, errors.New("it is broken")
	}
	a.opened++
	return &responses.FPDFPage_GetAnnot{Annotation: references.FPDF_ANNOTATION(strconv.Itoa(r.Index))}, nil
}

func (a *annotated) FPDFAnnot_GetSubtype(r *requests.FPDFAnnot_GetSubtype) (*responses.FPDFAnnot_GetSubtype, error) {
	at, err := strconv.Atoi(string(r.Annotation))
	return &responses.FPDFAnnot_GetSubtype{Subtype: a.kinds[at]}, err
}

func (a *annotated) FPDFPage_CloseAnnot(*requests.FPDFPage_CloseAnnot) (*responses.FPDFPage_CloseAnnot, error) {
	a.opened--
	return &responses.FPDFPage_CloseAnnot{}, nil
}

// A page that has only links is read once: reading it again with its notes takes longer than the first time.
func TestLinksAreNotNotes(t *testing.T) {
	const link, note, broken = enums.FPDF_ANNOT_SUBTYPE_LINK, enums.FPDF_ANNOT_SUBTYPE_FREETEXT,
		enums.FPDF_ANNOT_SUBTYPE_UNKNOWN
	for _, page := range []struct {
		kinds []enums.FPDF_ANNOTATION_SUBTYPE
		notes bool
	}{
		{nil, false},
		{[]enums.FPDF_ANNOTATION_SUBTYPE{link, link}, false},
		{[]enums.FPDF_ANNOTATION_SUBTYPE{link, note}, true},
		{[]enums.FPDF_ANNOTATION_SUBTYPE{enums.FPDF_ANNOT_SUBTYPE_WIDGET}, true},
		{[]enums.FPDF_ANNOTATION_SUBTYPE{link, broken}, true},
	} {
		in := &annotated{kinds: page.kinds}
		d := &Document{in: instance{Pdfium: in}}
		some, err := d.notes(requests.Page{})
		require.NoError(t, err)
		assert.Equal(t, page.notes, some, page.kinds)
		assert.Zero(t, in.opened, page.kinds)
	}
}
