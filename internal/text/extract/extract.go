// Package extract reads the text of files:
//   - plain text, Markdown, HTML, RTF, PDF
//   - Word documents, presentations, workbooks, OpenDocument files, e-books (EPUB)
//   - tables (CSV), JSON, XML, notebooks, captions
//   - e-mails with their attachments, mailboxes
//
// A file is not trusted. A file that has a grammar is read by a child process with limits of memory and time. So a
// broken file leads to an error, never to a crash. The package knows no run and no organization, only groups that take
// turns. It imports document, which has the shape of a text, and libraries that read formats.
package extract

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"agentplatform/internal/platform/share"
	"agentplatform/internal/text/document"
)

// File is a file to read. It may be opened twice: first to recognize its format, and again when its turn has come. So
// waiting files take no memory.
type File struct {
	ContentType, Name string // as its sender gives them; its first bytes have precedence

	Open Open
	// Room waits until there is room for a text of more than LargeText bytes. It may be called again for the same file.
	// nil: there is room.
	Room func(ctx context.Context) error
}

// Open opens a file at its beginning. If ctx ends, reading must end, too.
type Open func(ctx context.Context) (io.ReadCloser, error)

// Text returns the text of a file, cut after [MaxText] bytes with a note. A file whose format is text already is
// returned unchanged. The files of one group wait for each other, not for those of other groups.
//
// The error is a [Fault] if the file cannot be read ([ErrKind] if this kind of file has no text). Any other error is
// that of ctx, of opening or reading the file, or of starting the child process. A retry may succeed then.
func Text(ctx context.Context, group string, f File) (string, error) {
	head, err := f.head(ctx)
	if err != nil {
		return "", err
	}
	is := f.recognize(head)
	if slices.Contains(verbatim, is) {
		return shown(head, f.charset())
	}
	text, cut, err := f.inChild(ctx, group, job{Format: is, Charset: f.charset()}, head, reading)
	if errors.Is(err, ErrBusy) {
		return "", Fault{Unreadable, "too many files are being read"}
	}
	if err != nil {
		return "", err
	}
	if is == page && text.Title != "" {
		text.Body = strings.Trim(text.Title+"\n"+text.Body, "\n")
	}
	if len(text.Body) > MaxText || cut {
		return cutBytes(text.Body, MaxText) + cutNote, nil
	}
	return text.Body, nil
}

// Document returns the text of a whole document with its structure. The documents of one group wait for each other, not
// for those of other groups, and no file of [Text] waits for a document.
//
// The error is a [Fault] if the document cannot be read, has no text or is too large. Any other error is [ErrBusy], or
// that of ctx, of opening or reading the file, or of starting the child process. A retry may succeed then.
func Document(ctx context.Context, group string, f File) (document.Text, error) {
	head, err := f.head(ctx)
	if err != nil {
		return document.Text{}, err
	}
	if len(head) == 0 {
		return document.Text{}, Fault{Empty, "the file is empty"}
	}
	j := job{Format: f.recognize(head), Charset: f.charset(), Whole: true}
	if j.Format == plainText && len(head) <= MaxText {
		text, _, err := j.read(head)
		return text, err
	}
	text, _, err := f.inChild(ctx, group, j, head, readingDocuments)
	return text, err
}

// head is the beginning of a file: up to one byte more than MaxText.
func (f File) head(ctx context.Context) ([]byte, error) {
	r, err := f.Open(ctx)
	if err != nil {
		return nil, err
	}
	head, err := io.ReadAll(io.LimitReader(r, MaxText+1))
	return head, errors.Join(err, r.Close())
}

// inChild reads a file in a child process. A file that is whole in its head is not opened again.
func (f File) inChild(
	ctx context.Context, group string, j job, head []byte, turns *share.Pool,
) (document.Text, bool, error) {
	if len(head) <= MaxText {
		f.Open = func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(head)), nil }
	}
	leave, err := take(ctx, turns, group)
	if err != nil {
		return document.Text{}, false, err
	}
	defer leave()
	return j.inChild(ctx, f)
}

// shown returns what is text already as it is.
func shown(head []byte, charset string) (string, error) {
	end := ""
	if len(head) > MaxText {
		head, end = trimPartial(head[:MaxText]), cutNote
	}
	text, err := toUTF8(head, charset, false)
	if err != nil {
		return "", err
	}
	if len(text) > MaxText {
		text, end = cutBytes(text, MaxText), cutNote
	}
	return text + end, nil
}

// trimPartial removes a partial character from the end of a text.
func trimPartial(text []byte) []byte {
	last := len(text) - 1
	for last > len(text)-utf8.UTFMax && !utf8.RuneStart(text[last]) {
		last--
	}
	if utf8.FullRune(text[last:]) {
		return text
	}
	return text[:last]
}
