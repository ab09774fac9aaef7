package httpapi

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"path/filepath"

	"agentplatform/internal/problem"
)

// MaxParts is how many parts a form may have.
const MaxParts = 200

var errNotMultipart = problem.InvalidField(
	"header.content-type", "the request must be sent as multipart/form-data")

// Form reads the parts of a form as it comes in.
type Form struct {
	came  *tail
	parts *multipart.Reader
	end   []byte // what the last boundary looks like
}

// FormOf is the form in a request's body; an invalid field where the body is none.
func FormOf(r *http.Request) (*Form, error) {
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/form-data" || params["boundary"] == "" {
		return nil, errNotMultipart
	}
	came := &tail{body: r.Body}
	return &Form{
		came: came, parts: multipart.NewReader(came, params["boundary"]), end: []byte("--" + params["boundary"] + "--"),
	}, nil
}

// tail is a body of which the end is remembered: the library takes a form that just stops behind a boundary for one
// that has ended.
type tail struct {
	body io.Reader
	last []byte // of what came
}

// tailBytes is more than the library reads ahead.
const tailBytes = 16 << 10

func (f *tail) Read(p []byte) (int, error) {
	n, err := f.body.Read(p)
	f.last = append(f.last, p[:n]...)
	if spare := len(f.last) - tailBytes; spare > tailBytes {
		f.last = append(f.last[:0], f.last[spare:]...)
	}
	return n, err
}

// Part is a part of a form: a field or a file. It is read until the next one is asked for.
type Part struct {
	io.Reader

	Name   string
	IsFile bool

	fileName, contentType string
}

// Next is the next part of a form, nil at its end. A form that just stops, and a part of which nobody can tell what
// it is, are malformed: what was meant to come would else be lost without a word.
func (f *Form) Next() (*Part, error) {
	part, err := f.parts.NextPart()
	switch {
	case errors.Is(err, io.EOF) && bytes.Contains(f.came.last, f.end):
		return nil, nil //nolint:nilnil // the end
	case errors.Is(err, io.EOF):
		return nil, Malformed(io.ErrUnexpectedEOF)
	case err != nil:
		return nil, Malformed(err)
	}
	kind, params, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
	if err != nil || kind != "form-data" || params["name"] == "" && params["filename"] == "" {
		return nil, Malformed(errors.New("a part needs a header Content-Disposition: form-data with a name"))
	}
	name, isFile := params["filename"]
	if name != "" {
		name = filepath.Base(name)
	}
	return &Part{
		Reader: part, Name: params["name"], IsFile: isFile,
		fileName: name, contentType: part.Header.Get("Content-Type"),
	}, nil
}

// Malformed is the problem of a form that could not be read for a reason; a body that is too long stays one.
func Malformed(err error) error {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return err
	}
	return problem.InvalidField("body", "the multipart form is malformed: %s", err)
}

// TakeFile hands the file in a part over; what a browser sends for a file that was not chosen is none, and is left out.
// Its errors are those of take, or that the form is malformed.
func (p *Part) TakeFile(take func(name, contentType string, content io.Reader) error) error {
	content := bufio.NewReader(p)
	if _, err := content.Peek(1); errors.Is(err, io.EOF) && p.fileName == "" {
		return nil
	}
	err := take(p.fileName, p.contentType, content)
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) || errors.Is(err, io.ErrUnexpectedEOF) {
		return Malformed(err)
	}
	return err
}
