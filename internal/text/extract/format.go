package extract

import (
	"bytes"
	"maps"
	"mime"
	"path"
	"slices"
	"strings"
)

// format is a way to write text into a file. Its value is part of the messages of Faults.
type format string

const (
	plainText    format = "text"
	markdown     format = "Markdown text"
	page         format = "page"
	jsonText     format = "JSON text"
	commaTable   format = "table"
	portable     format = "PDF"
	word         format = "Word document"
	presentation format = "presentation"
	workbook     format = "workbook"
	book         format = "e-book"
	openDocument format = "OpenDocument file"
	richText     format = "RTF document"
	mail         format = "e-mail"
	mailbox      format = "mailbox"
	notebook     format = "notebook"
	markup       format = "XML text"
	captions     format = "captions"
	archive      format = "archive"      // of any kind: its members decide
	compound     format = "old document" // of Office before 2007, or one with a password
)

// input is a file as its reader gets it.
type input struct {
	data    []byte
	format  format // as it was recognized
	charset string // as the sender declares it; empty: not at all

	compiled string           // the folder of what reads PDFs
	bare     bool             // without the files within it
	depth    int              // of files within each other
	readers  map[format]reads // of the files within it
}

type reads func(in input, b *builder) error

// readers write the text of a file into a builder. An error that is not a [Fault] means that the file is unreadable.
var readers = map[format]reads{
	plainText: readPlain, markdown: readMarkdown, page: readPage, jsonText: readJSON, commaTable: readTable,
	portable: readPDF, archive: readArchive, word: readArchive,
	presentation: readArchive, workbook: readArchive, book: readArchive, openDocument: readOpenDocument,
	richText: readRichText, mail: readMail, mailbox: readMailbox, compound: readCompound, notebook: readNotebook,
	markup: readXML, captions: readCaptions,
}

// verbatim are the formats whose files models read unchanged.
var verbatim = []format{plainText, markdown, jsonText, commaTable, markup, captions}

// types are the formats by media type. Other types that begin with "text/" are plain text.
var types = map[string]format{
	"text/html": page, "application/xhtml+xml": page, "text/markdown": markdown, "text/x-markdown": markdown,
	"text/csv": commaTable, "text/tab-separated-values": commaTable, "application/json": jsonText,
	"application/jsonl": jsonText, "application/x-ndjson": jsonText, "application/x-jsonlines": jsonText,
	"application/pdf": portable, "application/rtf": richText, "text/rtf": richText, "message/rfc822": mail,
	"application/epub+zip": book, "application/mbox": mailbox, "application/x-ipynb+json": notebook,
	"application/xml": markup, "text/xml": markup, "text/vtt": captions, "application/x-subrip": captions,
	"application/vnd.openxmlformats-officedocument.wordprocessingml.document":   word,
	"application/vnd.openxmlformats-officedocument.presentationml.presentation": presentation,
	"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet":         workbook,

	"application/vnd.oasis.opendocument.text":                  openDocument,
	"application/vnd.oasis.opendocument.text-template":         openDocument,
	"application/vnd.oasis.opendocument.spreadsheet":           openDocument,
	"application/vnd.oasis.opendocument.spreadsheet-template":  openDocument,
	"application/vnd.oasis.opendocument.presentation":          openDocument,
	"application/vnd.oasis.opendocument.presentation-template": openDocument,
}

// Types are the media types of files whose text is read, sorted.
func Types() []string { return slices.Sorted(maps.Keys(types)) }

// extensions are the formats by the extension of the name.
var extensions = map[string]format{
	".txt": plainText, ".text": plainText, ".log": plainText, ".html": page, ".htm": page, ".xhtml": page,
	".md": markdown, ".markdown": markdown, ".csv": commaTable, ".tsv": commaTable, ".json": jsonText,
	".jsonl": jsonText, ".ndjson": jsonText, ".pdf": portable, ".rtf": richText, ".eml": mail, ".epub": book,
	".mbox": mailbox, ".ipynb": notebook, ".xml": markup, ".vtt": captions, ".srt": captions,
	".docx": word, ".docm": word, ".pptx": presentation, ".pptm": presentation, ".xlsx": workbook, ".xlsm": workbook,
	".odt": openDocument, ".ott": openDocument, ".fodt": openDocument, ".ods": openDocument, ".ots": openDocument,
	".fods": openDocument, ".odp": openDocument, ".otp": openDocument, ".fodp": openDocument,
}

// magic are the bytes that a format begins with.
var magic = map[format]string{
	portable: "%PDF-", richText: `{\rtf`, archive: "PK\x03\x04", compound: "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
}

// mayHavePDF reports a PDF, and formats that may have a PDF attached.
func (is format) mayHavePDF() bool { return is == portable || is == mail || is == mailbox }

func isArchive(is format) bool {
	return is == word || is == presentation || is == workbook || is == book || is == openDocument
}

// recognize returns the format of a file. Its first bytes have precedence, then the type that the sender gives, then
// the name. A type or name that contradicts the first bytes is used only if no other one is given.
func (f File) recognize(head []byte) format {
	declared := f.declared()
	for is, begin := range magic {
		if !bytes.HasPrefix(head, []byte(begin)) {
			continue
		}
		if at := slices.IndexFunc(declared, isArchive); is == archive && at >= 0 {
			return declared[at]
		}
		return is
	}
	if isFlatOpen(head) {
		return openDocument
	}
	for _, is := range declared {
		if _, marked := magic[is]; !marked && !isArchive(is) {
			return is
		}
	}
	switch {
	case len(declared) > 0:
		return declared[0]
	case isHTML(head):
		return page
	}
	return plainText
}

// declared are the formats that the sender names, by type and by name, if any.
func (f File) declared() []format {
	var formats []format
	media, _, _ := mime.ParseMediaType(f.ContentType)
	is, known := types[media]
	switch {
	case known:
	case strings.HasSuffix(media, "+json"):
		is, known = jsonText, true
	case strings.HasSuffix(media, "+xml"):
		is, known = markup, true
	}
	if known {
		formats = append(formats, is)
	}
	if is, known := extensions[strings.ToLower(path.Ext(f.Name))]; known {
		formats = append(formats, is)
	}
	return formats
}

// charset is the encoding that the sender names, if any.
func (f File) charset() string {
	_, parameters, _ := mime.ParseMediaType(f.ContentType)
	return cutBytes(parameters["charset"], 50)
}

func isHTML(head []byte) bool {
	begin := bytes.ToLower(bytes.TrimSpace(head[:min(len(head), 512)]))
	if _, after, isXML := bytes.Cut(begin, []byte("?>")); isXML && bytes.HasPrefix(begin, []byte("<?xml")) {
		begin = bytes.TrimSpace(after)
	}
	return bytes.HasPrefix(begin, []byte("<!doctype html")) || bytes.HasPrefix(begin, []byte("<html"))
}
