package pdftext

import (
	"github.com/klippa-app/go-pdfium/enums"
	"github.com/klippa-app/go-pdfium/references"
	"github.com/klippa-app/go-pdfium/requests"
)

const (
	sampledGlyphs  = 200 // of a page
	unmappedShare  = 10  // one of so many glyphs without a character is many
	maxObjects     = 100 // of a page, or of a form within it
	nestedPictures = 3   // how deep forms may lie within each other
)

// unmapped reports whether the fonts of a page map many of its glyphs to no characters.
func (t textPage) unmapped(count int) (bool, error) {
	missing, sampled := 0, 0
	for at := 0; at < count; at += 1 + count/sampledGlyphs {
		has, err := t.in.FPDFText_HasUnicodeMapError(&requests.FPDFText_HasUnicodeMapError{
			TextPage: t.page, Index: at})
		if err != nil {
			return false, err
		}
		sampled++
		if has.HasUnicodeMapError {
			missing++
		}
	}
	return missing > 0 && unmappedShare*missing >= sampled, nil
}

// pictures reports whether there is a picture on a page.
func (d *Document) pictures(page requests.Page) bool {
	objects, err := d.in.FPDFPage_CountObjects(&requests.FPDFPage_CountObjects{Page: page})
	for i := 0; err == nil && i < min(objects.Count, maxObjects); i++ {
		if object, err := d.in.FPDFPage_GetObject(&requests.FPDFPage_GetObject{Page: page, Index: i}); err == nil &&
			d.isPicture(object.PageObject, nestedPictures) {
			return true
		}
	}
	return false
}

// isPicture reports whether an object is a picture, or a form that has one.
func (d *Document) isPicture(object references.FPDF_PAGEOBJECT, deep int) bool {
	is, err := d.in.FPDFPageObj_GetType(&requests.FPDFPageObj_GetType{PageObject: object})
	if err != nil || is.Type != enums.FPDF_PAGEOBJ_FORM || deep == 0 {
		return err == nil && is.Type == enums.FPDF_PAGEOBJ_IMAGE
	}
	inside, err := d.in.FPDFFormObj_CountObjects(&requests.FPDFFormObj_CountObjects{PageObject: object})
	for i := 0; err == nil && i < min(inside.Count, maxObjects/10); i++ {
		if part, err := d.in.FPDFFormObj_GetObject(&requests.FPDFFormObj_GetObject{
			PageObject: object, Index: uint64(i)}); err == nil && d.isPicture(part.PageObject, deep-1) {
			return true
		}
	}
	return false
}
