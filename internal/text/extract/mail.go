package extract

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	netmail "net/mail"
	"strings"

	"golang.org/x/net/html/charset"

	"agentplatform/internal/text/document"
)

const (
	maxNested = 10  // parts within parts
	maxParts  = 200 // of an e-mail
)

var errParts = errors.New("the e-mail cannot be read: it has too many parts")

// readMail reads an e-mail: its header, its text, the names of its attachments, and then each attachment that has text.
// Of alternative texts it reads the plain one, unless that is empty.
func readMail(in input, b *builder) error {
	data := bytes.TrimLeft(in.data, " \t\r\n")
	if bytes.HasPrefix(data, []byte("From ")) { // of a mailbox, from which it was taken
		_, data, _ = bytes.Cut(data, []byte("\n"))
	}
	m, err := netmail.ReadMessage(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("the e-mail cannot be read: %w", err)
	}
	r := mailReader{in: in, b: b, decoder: &mime.WordDecoder{CharsetReader: charset.NewReaderLabel}}
	for _, name := range []string{"Subject", "From", "To", "Cc", "Date"} {
		value := r.decoded(m.Header.Get(name))
		if name == "Subject" {
			b.title(value)
		}
		if value = oneLine(value); value != "" {
			b.block(document.Paragraph, 0, name+": "+value)
		}
	}
	text, err := r.part(m.Header.Get, m.Body, 0)
	if err != nil {
		return err
	}
	if err := text.write(b); err != nil {
		return err
	}
	return r.attachments()
}

type mailReader struct {
	in       input
	b        *builder
	decoder  *mime.WordDecoder
	parts    int
	attached []attachment
}

type attachment struct {
	name string
	file File
	in   input
}

func (r *mailReader) decoded(value string) string {
	if decoded, err := r.decoder.DecodeHeader(value); err == nil {
		return decoded
	}
	return value
}

// attachments writes the names of the attachments, and the text of each.
func (r *mailReader) attachments() error {
	names := make([]string, len(r.attached))
	unpacked := int64(0) // attachments that share what an archive may unpack to
	for i, a := range r.attached {
		names[i] = a.name
		if is := a.in.format; is == archive || isArchive(is) || is == mail || is == mailbox {
			unpacked++
		}
	}
	if len(names) > 0 {
		r.b.block(document.Paragraph, 0, "Attached: "+strings.Join(names, ", "))
	}
	for _, a := range r.attached {
		switch {
		case r.b.full:
			return nil
		case strings.Contains(a.file.ContentType, "-signature"):
			continue
		case r.in.bare:
			r.b.block(document.Paragraph, 0,
				"Attachment: "+a.name+": reading it, or another attachment, takes too much work")
			continue
		}
		most := r.b.most
		most.characters = max(0, most.characters*9/10-r.b.characters)
		most.unpacked /= max(1, unpacked)
		cut, err := r.b.include("Attachment: "+a.name, a.in, most)
		if err != nil {
			return err
		}
		if cut {
			r.b.block(document.Paragraph, 0, "Attachment: "+a.name+": it is too long")
		}
	}
	return nil
}

// mailText is the text of a part: texts in order, each plain or a page.
type mailText []struct {
	page bool
	in   input
}

func (t mailText) write(b *builder) error {
	b.titled = true
	for _, one := range t {
		read := readPlain
		if one.page {
			read = readPage
		}
		if err := read(one.in, b); err != nil && !errors.Is(err, ErrKind) {
			return err
		}
	}
	return nil
}

func (t mailText) empty() bool {
	for _, one := range t {
		if len(bytes.TrimSpace(one.in.data)) > 0 {
			return false
		}
	}
	return true
}

// part reads a part with what is in it.
func (r *mailReader) part(header func(name string) string, body io.Reader, depth int) (mailText, error) {
	if r.parts++; r.parts > maxParts || depth > maxNested {
		return nil, errParts
	}
	kind, parameters, err := mime.ParseMediaType(header("Content-Type"))
	if err != nil && kind == "" {
		kind = "text/plain"
	}
	disposition, names, _ := mime.ParseMediaType(header("Content-Disposition"))
	name := names["filename"]
	if name == "" {
		name = parameters["name"]
	}
	body = transferred(header("Content-Transfer-Encoding"), body)
	switch {
	case strings.HasPrefix(kind, "multipart/") && parameters["boundary"] != "":
		return r.several(kind, multipart.NewReader(body, parameters["boundary"]), depth)
	case disposition == "attachment" || name != "" || kind != "text/plain" && kind != "text/html":
		r.attach(header("Content-Type"), kind, name, body)
		return nil, nil
	}
	data, err := io.ReadAll(body)
	if err != nil && len(data) == 0 {
		return nil, fmt.Errorf("the e-mail cannot be read: %w", err)
	}
	return mailText{{page: kind == "text/html", in: input{data: data, charset: parameters["charset"]}}}, nil
}

// several reads parts, up to one that is broken.
func (r *mailReader) several(kind string, parts *multipart.Reader, depth int) (mailText, error) {
	var all, best mailText
	for {
		p, err := parts.NextRawPart()
		if err != nil {
			break
		}
		text, err := r.part(p.Header.Get, p, depth+1)
		if err != nil {
			return nil, err
		}
		all = append(all, text...)
		// Alternatives stand in rising order of their richness; the first that has text is the plainest.
		if best.empty() {
			best = text
		}
	}
	if kind == "multipart/alternative" {
		return best, nil
	}
	return all, nil
}

func (r *mailReader) attach(contentType, kind, name string, body io.Reader) {
	if name = document.Cut(oneLine(r.decoded(name)), maxTitle); name == "" {
		name = kind
	}
	data, _ := io.ReadAll(body) // what can be decoded of a broken one
	f := File{ContentType: contentType, Name: name}
	in := r.in.within(data, f.recognize(data))
	in.charset = f.charset()
	r.attached = append(r.attached, attachment{name, f, in})
}

func transferred(encoding string, body io.Reader) io.Reader {
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "base64":
		return base64.NewDecoder(base64.StdEncoding, body)
	case "quoted-printable":
		return quotedprintable.NewReader(body)
	}
	return body
}
