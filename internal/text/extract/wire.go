package extract

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"agentplatform/internal/text/document"
)

// The child's output is a line of JSON with all except body and blocks, then the body, then the blocks.

type result struct {
	Title, Language string             `json:",omitempty"`
	Pages           []int              `json:",omitempty"`
	Warnings        []document.Warning `json:",omitempty"`
	Bytes, Blocks   int
	Cut             bool `json:",omitempty"` // the text is longer
}

type wireBlock struct {
	Kind, Level        uint8 // Kind: its place in kinds
	Start, End, Header int32
}

var kinds = []document.Kind{document.Paragraph, document.Heading, document.Item, document.Row, document.Code}

func encode(w io.Writer, text document.Text, cut bool) error {
	first, err := json.Marshal(result{
		Title: text.Title, Language: text.Language, Pages: text.Pages, Bytes: len(text.Body), Blocks: len(text.Blocks),
		Warnings: text.Warnings, Cut: cut,
	})
	if err != nil {
		return err
	}
	blocks := make([]wireBlock, len(text.Blocks))
	for i, b := range text.Blocks {
		kind := slices.Index(kinds, b.Kind)
		blocks[i] = wireBlock{uint8(kind), uint8(b.Level), int32(b.Start), int32(b.End), int32(b.Header)}
	}
	b := bufio.NewWriter(w)
	_, _ = b.Write(append(first, '\n'))
	_, _ = b.WriteString(text.Body)
	_ = binary.Write(b, binary.LittleEndian, blocks)
	return b.Flush()
}

var errWire = errors.New("the reader's output is not valid")

// decode reads what encode wrote. It checks everything: the child has read an untrusted file. Before a text of more
// than LargeText bytes it waits for room.
func decode(r io.Reader, most limits, room func() error) (document.Text, bool, error) {
	var text document.Text
	in := bufio.NewReaderSize(r, 64<<10)
	head, err := firstLine(in, 16*MaxPages+8*maxTitle*utf8.UTFMax+2048)
	if err != nil {
		return text, false, err
	}
	var first result
	if err := json.Unmarshal(head, &first); err != nil {
		return text, false, fmt.Errorf("%w: %w", errWire, err)
	}
	if first.Bytes < 0 || first.Bytes > utf8.UTFMax*most.characters || first.Blocks < 0 ||
		first.Blocks > maxBlocks || len(first.Pages) > MaxPages || !valid(first.Warnings) {
		return text, false, errWire
	}
	if first.Bytes > LargeText {
		if err := room(); err != nil {
			return text, false, err
		}
	}
	var body strings.Builder
	body.Grow(first.Bytes)
	if _, err := io.CopyN(&body, in, int64(first.Bytes)); err != nil {
		return text, false, fmt.Errorf("%w: %w", errWire, err)
	}
	text = document.Text{
		Title: first.Title, Language: first.Language, Pages: first.Pages, Body: body.String(),
		Warnings: first.Warnings,
	}
	if !utf8.ValidString(text.Body) {
		return document.Text{}, false, errWire
	}
	long := utf8.RuneCountInString(text.Body)
	if !slices.IsSorted(text.Pages) || len(text.Pages) > 0 && (text.Pages[0] < 0 || slices.Max(text.Pages) > long) {
		return document.Text{}, false, errWire
	}
	text.Blocks, err = decodeBlocks(in, first.Blocks, long)
	return text, first.Cut, err
}

// valid reports whether warnings are as [builder.warn] makes them.
func valid(warnings []document.Warning) bool {
	codes := map[string]bool{}
	for _, w := range warnings {
		known := w.Code == document.UnmappedGlyphs || w.Code == document.PagesWithoutText
		if !known || codes[w.Code] || len(w.Pages) != min(w.Count, document.MaxWarningPages) || w.Count < 1 ||
			!slices.IsSorted(w.Pages) || w.Pages[0] < 1 || w.Count > MaxPages || w.Pages[len(w.Pages)-1] > MaxPages {
			return false
		}
		codes[w.Code] = true
	}
	return true
}

// firstLine reads up to a line break, at most so many bytes.
func firstLine(in *bufio.Reader, most int) ([]byte, error) {
	var line []byte
	for len(line) <= most {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		if err == nil {
			return bytes.TrimSuffix(line, []byte{'\n'}), nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, fmt.Errorf("%w: %w", errWire, err)
		}
	}
	return nil, errWire
}

func decodeBlocks(in io.Reader, count, long int) ([]document.Block, error) {
	if count == 0 {
		return nil, nil
	}
	blocks := make([]document.Block, count)
	last := 0
	var b wireBlock
	record := make([]byte, binary.Size(b))
	for n := range blocks {
		if _, err := io.ReadFull(in, record); err != nil {
			return nil, fmt.Errorf("%w: %w", errWire, err)
		}
		_, _ = binary.Decode(record, binary.LittleEndian, &b) // it errs only on other types and too few bytes
		start, end, header := int(b.Start), int(b.End), int(b.Header)
		if start < last || end < start || end > long || int(b.Kind) >= len(kinds) || header < -1 || header > n {
			return nil, errWire
		}
		if last = end; kinds[b.Kind] != document.Row {
			header = 0
		}
		blocks[n] = document.Block{Kind: kinds[b.Kind], Start: start, End: end, Level: int(b.Level), Header: header}
	}
	return blocks, nil
}
