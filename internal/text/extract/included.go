package extract

import (
	"errors"

	"agentplatform/internal/text/document"
)

// within is a file that is part of another.
func (in input) within(data []byte, is format) input {
	in.data, in.format, in.charset = data, is, ""
	in.depth++
	return in
}

// include reads a file that is part of another under a heading. A file that cannot be read becomes a line with the
// reason. A file that is too long is read up to the limit, which makes cut true. It sets no title, language or pages of
// the whole.
func (b *builder) include(heading string, in input, most limits) (cut bool, err error) {
	inner := builder{most: most}
	err = Fault{TooLarge, "it is nested too deeply"}
	if in.depth <= maxNested {
		err = in.readers[in.format](in, &inner)
	}
	if errors.Is(err, errUncompiled) {
		return false, err
	}
	text, cut := inner.finish()
	if err == nil && !cut && len(text.Blocks) == 0 {
		err = Fault{Empty, "the " + string(in.format) + " has no text"}
	}
	if err != nil && !cut {
		b.block(document.Paragraph, 0, heading+": "+faultOf(err).Reason)
		return false, nil
	}
	if in.format == mail && text.Title != "" {
		heading += ": " + text.Title
	}
	b.block(document.Heading, 1, heading)
	b.copy(text)
	return cut, nil
}

// copy appends the blocks of another text, its headings one level lower.
func (b *builder) copy(text document.Text) {
	first, at, rest := len(b.text.Blocks), 0, text.Body
	for _, block := range text.Blocks {
		rest = rest[len(document.Cut(rest, block.Start-at)):]
		s := document.Cut(rest, block.End-block.Start)
		rest, at = rest[len(s):], block.End
		if block.Kind == document.Heading {
			block.Level++
		}
		n := b.put(block.Kind, block.Level, s)
		if n < 0 {
			return
		}
		if block.Kind == document.Row && block.Header >= 0 {
			block.Header += first
		}
		b.text.Blocks[n].Header = block.Header
	}
}
