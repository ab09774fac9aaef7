package extract

import (
	"errors"
	"strings"
)

// Code is the reason why the content of a file cannot be read.
type Code string

// The codes.
const (
	Unreadable      Code = "unreadable"
	Empty           Code = "empty"
	Encrypted       Code = "encrypted"
	TooLarge        Code = "too_large"
	UnsupportedType Code = "unsupported_type"
)

// advice is what a person can do about each code.
var advice = map[Code]string{
	Unreadable:      "Open the file in the program that created it, save it again and upload that file.",
	Empty:           "Upload a file with text; scanned pages need text recognition (OCR) first.",
	Encrypted:       "Save the file without a password and upload it again.",
	TooLarge:        "Split the document into smaller ones.",
	UnsupportedType: "Save it as PDF, DOCX, PPTX, XLSX, ODT, HTML, EPUB or plain text and upload that.",
}

// Fault is the error of a file whose content cannot be read. A retry would fail in the same way.
type Fault struct {
	Code   Code   `json:"code"`
	Reason string `json:"reason"` // what is wrong, like "the PDF has no text"; part of it may be a library's message
}

func (f Fault) Error() string { return "extract: " + f.Reason }

// Sentence returns a sentence for people: what is wrong and what to do.
func (f Fault) Sentence() string {
	if f.Reason == "" {
		return advice[f.Code]
	}
	return strings.ToUpper(f.Reason[:1]) + f.Reason[1:] + ". " + advice[f.Code]
}

// faultOf is the Fault that err holds. Any other error of a reader means that its file is unreadable.
func faultOf(err error) Fault {
	if f, ok := errors.AsType[Fault](err); ok {
		return f
	}
	return Fault{Unreadable, err.Error()}
}

// beside drops an error of a part that is not the text, and that may be broken. A Fault, as of a limit, stays.
func beside(err error) error {
	if f, ok := errors.AsType[Fault](err); ok {
		return f
	}
	return nil
}

// ErrKind is returned for kinds of files whose text is not read.
var ErrKind error = Fault{UnsupportedType, "this kind of file is not supported"}

// ErrBusy is returned when too many other files were being read, so that this one got no turn in time. A retry may
// succeed.
var ErrBusy = errors.New("extract: too many files are being read")
