// Package document has the shape of a document's text: the result of extraction from a file, and the chunks in which
// the text is searched.
//
// Positions are characters (Unicode code points) of the text, from 0; an end is exclusive. Pages count from 1.
//
// It must not know where documents come from, how they are stored or who may read them. It imports the standard
// library.
package document

// Text is the text of a document with its structure.
type Text struct {
	Title    string `json:"title,omitempty"`    // as the document gives it; may be empty
	Language string `json:"language,omitempty"` // as the document gives it, like "en" or "pt-BR"; may be empty
	Body     string `json:"body"`               // valid UTF-8; lines end with \n
	// Pages has the position where each page (or slide) begins. None: the format has no pages.
	Pages []int `json:"pages,omitempty"`
	// Blocks are the parts of the body, in order, without overlap. Between two of them there is only white space.
	Blocks   []Block   `json:"blocks,omitempty"`
	Warnings []Warning `json:"-"` // at most one of each code
}

// Warning names the pages of which some text is missing.
type Warning struct {
	Code  string
	Pages []int // in order, the first [MaxWarningPages] of them
	Count int   // of all such pages
}

// The codes of warnings.
const (
	UnmappedGlyphs   = "unmapped_glyphs"    // the fonts map many glyphs to no characters
	PagesWithoutText = "pages_without_text" // there are pictures and no text, as on scanned pages
)

// MaxWarningPages is how many pages a warning names.
const MaxWarningPages = 50

// Kind is the kind of a block.
type Kind string

// The kinds.
const (
	Paragraph Kind = "paragraph"
	Heading   Kind = "heading"
	Item      Kind = "item" // of a list
	Row       Kind = "row"  // of a table
	Code      Kind = "code" // preformatted: its line breaks mean something
)

// Block is a part of a text, such as a paragraph or a row.
type Block struct {
	Kind  Kind `json:"kind"`
	Start int  `json:"start"`
	End   int  `json:"end"`
	Level int  `json:"level,omitempty"` // of a heading: 1 to 6
	// Header is, for a row, the index of the block that has the names of the columns. That block is a row, too, with
	// its own index as Header. -1: the table has no header.
	Header int `json:"header,omitempty"`
}

// Chunk is a piece of a text that is found as a whole.
type Chunk struct {
	Index    int    `json:"index"` // from 0, in the order of the text
	Start    int    `json:"start"`
	End      int    `json:"end"`
	PageFrom int    `json:"page_from,omitempty"` // 0: the text has no pages
	PageTo   int    `json:"page_to,omitempty"`
	Heading  string `json:"heading,omitempty"` // the headings above it, outermost first, separated by " › "
	Text     string `json:"text"`              // the characters from Start to End of the body, verbatim
	// Context is, for a row of a table, the table's header. A reader of the text knows it, and the chunk alone does not
	// have it. It is for ranking, and not part of Text.
	Context string `json:"context,omitempty"`
}

// Above is the text that a reader sees above the chunk: the path of its headings, and the headers of its tables. Each
// stands in a line of its own.
func (c Chunk) Above() string {
	if c.Heading == "" || c.Context == "" {
		return c.Heading + c.Context
	}
	return c.Heading + "\n" + c.Context
}

// Cut returns the first n characters of a text.
func Cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for i := range text {
		if n == 0 {
			return text[:i]
		}
		n--
	}
	return text
}
