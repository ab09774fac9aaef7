package extract

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"agentplatform/internal/text/document"
)

// builder puts a document's text together from the parts that a reader finds, in order. When it is full it takes no
// more, and a reader may stop.
type builder struct {
	most limits
	full bool
	// titled: the present chapter or part has a title of its own, which is not the document's.
	titled bool
	text   document.Text // but its body

	body       strings.Builder
	characters int // of body
	begun      int // pages that have no text yet

	kind   document.Kind // of the part that is being written
	level  int
	part   []byte // as it was written; what becomes of it is decided at its end
	opened bool

	table *table // whose last rows are not written yet
	added int    // characters that the text has and the file has not: merged cells repeat, short rows are filled up
	cells int    // of all tables
}

func (b *builder) title(s string) {
	if b.text.Title == "" && !b.titled {
		b.text.Title = document.Cut(oneLine(s), maxTitle)
	}
}

// language sets the language, unless there is one or the tag is not a language.
func (b *builder) language(tag string) {
	if b.text.Language == "" {
		b.text.Language = languageTag(tag)
	}
}

func (b *builder) page() {
	b.end()
	if len(b.text.Pages)+b.begun >= MaxPages {
		b.full = true
		return
	}
	b.begun++
}

// warn adds the present page to the warning of a code.
func (b *builder) warn(code string) {
	at := slices.IndexFunc(b.text.Warnings, func(w document.Warning) bool { return w.Code == code })
	if at < 0 {
		at = len(b.text.Warnings)
		b.text.Warnings = append(b.text.Warnings, document.Warning{Code: code})
	}
	w := &b.text.Warnings[at]
	if w.Count++; w.Count <= document.MaxWarningPages {
		w.Pages = append(w.Pages, len(b.text.Pages)+b.begun)
	}
}

// begin ends the present part and begins another.
func (b *builder) begin(kind document.Kind, level int) {
	b.end()
	b.kind, b.level, b.opened = kind, level, true
}

// add writes to the present part; where there is none, to a new paragraph.
func (b *builder) add(s string) {
	if !b.opened {
		b.begin(document.Paragraph, 0)
	}
	// Most of a text may be white space, and is then reduced. A longer text is not a paragraph.
	if len(b.part)+len(s) > utf8.UTFMax*b.most.characters+1024 {
		s = cutBytes(s, max(0, utf8.UTFMax*b.most.characters+1024-len(b.part)))
		b.part = append(b.part, s...)
		b.end()
		b.full = true
		return
	}
	b.part = append(b.part, s...)
}

// end ends the present part, or the rows of the present table, if any.
func (b *builder) end() {
	if b.table != nil {
		b.table.flush()
	}
	if !b.opened {
		return
	}
	b.opened = false
	b.write(b.kind, b.level, string(b.part))
	if b.part = b.part[:0]; cap(b.part) > 1<<20 {
		b.part = nil
	}
}

// block writes a whole part. It returns the number of its block, or -1 if it has no text.
func (b *builder) block(kind document.Kind, level int, s string) int {
	b.end()
	return b.write(kind, level, s)
}

// write appends a block of tidied text. It returns its number, or -1 if it has no text.
func (b *builder) write(kind document.Kind, level int, s string) int {
	if b.full {
		return -1
	}
	switch kind {
	case document.Code:
		s = tidyLines(s)
	case document.Paragraph:
		s = tidy(s)
	default:
		s = strings.TrimLeft(tidy(s), "\t")
	}
	return b.put(kind, level, s)
}

// put appends a block, cut where the text becomes too long.
func (b *builder) put(kind document.Kind, level int, s string) int {
	if b.full || strings.TrimSpace(s) == "" {
		return -1
	}
	if len(b.text.Blocks) >= maxBlocks {
		b.full = true
		return -1
	}
	b.separate(kind)
	long := utf8.RuneCountInString(s)
	if room := b.most.characters - b.characters; long > room {
		b.full = true
		if s = strings.TrimRight(document.Cut(s, max(room, 0)), "\n"); strings.TrimSpace(s) == "" {
			return -1
		}
		long = utf8.RuneCountInString(s)
	}
	b.body.WriteString(s)
	b.text.Blocks = append(b.text.Blocks, document.Block{
		Kind: kind, Level: min(level, 6), Start: b.characters, End: b.characters + long,
	})
	b.characters += long
	return len(b.text.Blocks) - 1
}

// separate writes the separator between the last block and one of a kind. It also notes where the pages between them
// begin.
func (b *builder) separate(kind document.Kind) {
	if b.characters > 0 {
		b.body.WriteByte('\n')
		b.characters++
		if kind == document.Heading || b.begun > 0 {
			b.body.WriteByte('\n')
			b.characters++
		}
	}
	b.turnPages()
}

func (b *builder) turnPages() {
	for ; b.begun > 0; b.begun-- {
		b.text.Pages = append(b.text.Pages, b.characters)
	}
}

// finish returns the text; cut: there was more.
func (b *builder) finish() (text document.Text, cut bool) {
	b.end()
	b.turnPages()
	b.text.Body = b.body.String()
	if b.full {
		b.trim()
	}
	return b.text, b.full
}

// trim removes the white space that was written before a block that did not fit.
func (b *builder) trim() {
	b.text.Body = strings.TrimRight(b.text.Body, "\n")
	end := utf8.RuneCountInString(b.text.Body)
	for i, at := range b.text.Pages {
		b.text.Pages[i] = min(at, end)
	}
}

// tooLong is the Fault of a text that did not fit.
func (b *builder) tooLong() Fault {
	return Fault{TooLarge, fmt.Sprintf("the document has more than %d characters, %d cells, %d pages or %d paragraphs",
		b.most.characters, 2*b.most.characters, MaxPages, maxBlocks)}
}
