package httpapi

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"agentplatform/internal/platform/problem"
)

// maxParts is the largest number of parts of a form.
const maxParts = 200

// NoOthers has [ReadForm] refuse parts that no field names.
const NoOthers = -1

var errNotMultipart = problem.InvalidField(
	"header.content-type", "the request must be sent as multipart/form-data")

// Field declares a field of a form, once: the document describes it with this, and [ReadForm] reads it with this into a
// T.
type Field[T any] struct {
	Name     string
	Doc      string
	Type     string   // of JSON; empty: a string
	Enum     []string // the values that are accepted; empty: any
	Example  string
	Required bool
	List     bool // of texts, separated by commas; the field may be sent more than once
	Repeats  bool // the field may be sent more than once; the last one counts
	Most     int  // bytes
	// Read stores the field's text in the T. It is called when the form has ended. It is also called where a required
	// field is missing, with an empty text. Its error is returned to the client. A field without Read is a field of
	// files.
	Read func(into *T, text string) error
}

// Fields are the fields of a form, in the order in which they are read.
type Fields[T any] []Field[T]

// Schema describes the form in the document.
func (f Fields[T]) Schema() *huma.Schema {
	form := &huma.Schema{Type: huma.TypeObject, Properties: map[string]*huma.Schema{}}
	for _, field := range f {
		form.Properties[field.Name] = field.schema()
		if field.Required {
			form.Required = append(form.Required, field.Name)
		}
	}
	return form
}

func (f Field[T]) schema() *huma.Schema {
	one := &huma.Schema{Type: huma.TypeString}
	if f.Type != "" {
		one.Type = f.Type
	}
	if f.Type == huma.TypeInteger {
		one.Format = "int64"
	}
	if f.Read == nil {
		one.Format = "binary"
	}
	for _, value := range f.Enum {
		one.Enum = append(one.Enum, value)
	}
	if f.List {
		one = &huma.Schema{Type: huma.TypeArray, Items: one}
	}
	if one.Description = f.Doc; f.Example != "" {
		one.Examples = []any{f.Example}
	}
	return one
}

// ReadForm reads the form in a request's body as it streams in. file is called with each part that is a file. It
// ignores other parts that no field names. They may have maxOther bytes, any number where it is 0; see [NoOthers]. It
// returns the errors of file and of the fields' Read. It also returns an error for a body that is not a form, and for a
// field that is too long, is not UTF-8 or is sent too often.
func ReadForm[T any](
	r *http.Request, fields Fields[T], maxOther int64, into *T, file func(*Part) error,
) error {
	parts, err := formOf(r)
	if err != nil {
		return err
	}
	texts, scratch := map[string][]string{}, &bytes.Buffer{}
	for count := 0; ; count++ {
		part, err := parts.next()
		switch {
		case err != nil:
			return err
		case part == nil:
			return fields.fill(into, texts)
		case count >= maxParts:
			return problem.InvalidField("body", "the form has more than %d parts", maxParts)
		case part.isFile:
			err = file(part)
		default:
			err = fields.take(part, maxOther, texts, scratch)
		}
		if err != nil {
			return err
		}
	}
}

// take reads the text of a part, if a field names it.
func (f Fields[T]) take(part *Part, maxOther int64, texts map[string][]string, scratch *bytes.Buffer) error {
	n := slices.IndexFunc(f, func(field Field[T]) bool { return field.Name == part.FormName() && field.Read != nil })
	if n < 0 {
		return part.skip(maxOther)
	}
	field := f[n]
	scratch.Reset()
	if _, err := scratch.ReadFrom(io.LimitReader(part, int64(field.Most)+1)); err != nil {
		return malformed(err)
	}
	text := scratch.String()
	switch {
	case len(text) > field.Most:
		return problem.InvalidField(field.Name, "must have at most %d bytes", field.Most)
	case !utf8.ValidString(text):
		return problem.InvalidField(field.Name, "must be UTF-8")
	case len(texts[field.Name]) > 0 && !field.List && !field.Repeats:
		return problem.InvalidField(field.Name, "is repeated: send each field once, as multipart/form-data")
	}
	texts[field.Name] = append(texts[field.Name], text)
	return nil
}

// skip reads a part that no field names.
func (p *Part) skip(most int64) error {
	if most < 0 {
		return problem.InvalidField(Short(p.FormName()), unknownMember+"; a file is sent with a filename")
	}
	size, err := io.Copy(io.Discard, p)
	if err != nil {
		return malformed(err)
	}
	if most > 0 && size > most {
		return problem.InvalidField(Short(p.FormName()), "must have at most %d bytes", most)
	}
	return nil
}

// fill gives each field its texts to read.
func (f Fields[T]) fill(into *T, texts map[string][]string) error {
	for _, field := range f {
		sent := texts[field.Name]
		if sent == nil && field.Required && field.Read != nil {
			sent = []string{""}
		}
		for _, text := range sent {
			if text != "" && field.Enum != nil && !slices.Contains(field.Enum, text) {
				return problem.InvalidField(field.Name, "must be %s", strings.Join(field.Enum, " or "))
			}
			if err := field.Read(into, text); err != nil {
				return err
			}
		}
	}
	return nil
}

// form reads the parts of a form as it comes in.
type form struct {
	came  *tail
	parts *multipart.Reader
	end   []byte // the last boundary
}

// formOf is the form in a request's body. It returns an invalid field where the body is not a form.
func formOf(r *http.Request) (*form, error) {
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/form-data" || params["boundary"] == "" {
		return nil, errNotMultipart
	}
	came := &tail{body: r.Body}
	return &form{
		came: came, parts: multipart.NewReader(came, params["boundary"]), end: []byte("--" + params["boundary"] + "--"),
	}, nil
}

// tail is a body that keeps its last bytes. The library takes a form that just stops after a boundary for one that has
// ended.
type tail struct {
	body io.Reader
	last []byte // of the bytes so far
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

// Part is a part of a form: a field or a file. It can be read until the next part is read.
type Part struct {
	*multipart.Part

	isFile bool
}

// next is the next part of a form, nil at its end. A form that just stops, and a part of unknown purpose, are
// malformed: the missing part would else be lost without an error.
func (f *form) next() (*Part, error) {
	part, err := f.parts.NextPart()
	switch {
	case errors.Is(err, io.EOF) && bytes.Contains(f.came.last, f.end):
		return nil, nil //nolint:nilnil // the end
	case errors.Is(err, io.EOF):
		return nil, malformed(io.ErrUnexpectedEOF)
	case err != nil:
		return nil, malformed(err)
	}
	kind, params, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
	if err != nil || kind != "form-data" || params["name"] == "" && params["filename"] == "" {
		return nil, malformed(errors.New("a part needs a header Content-Disposition: form-data with a name"))
	}
	_, isFile := params["filename"]
	return &Part{part, isFile}, nil
}

// malformed is the problem of a form that could not be read. A body that is too long keeps its own error.
func malformed(err error) error {
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return err
	}
	return problem.InvalidField("body", "the multipart form is malformed: %s", err)
}

// TakeFile passes the file in a part to take. A browser sends an empty part for a file that was not chosen: that part
// is left out. It returns the errors of take, or that the form is malformed.
func (p *Part) TakeFile(take func(name, contentType string, content io.Reader) error) error {
	content := bufio.NewReader(p)
	if _, err := content.Peek(1); errors.Is(err, io.EOF) && p.FileName() == "" {
		return nil
	}
	err := take(p.FileName(), p.Header.Get("Content-Type"), content)
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge || errors.Is(err, io.ErrUnexpectedEOF) {
		return malformed(err)
	}
	return err
}
