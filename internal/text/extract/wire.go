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

// What the child writes to its output: a line of JSON with all but body and blocks, the body, then the blocks as
// unsigned varints: kind, characters since the end of the last block, characters, level, header+1 for rows.

// result is the first line.
type result struct {
	Title, Language string `json:",omitempty"`
	Pages           []int  `json:",omitempty"`
	Bytes, Blocks   int
	Cut             bool `json:",omitempty"` // the text is longer
}

var kinds = []document.Kind{document.Paragraph, document.Heading, document.Item, document.Row, document.Code}

func encode(w io.Writer, text document.Text, cut bool) error {
	first, err := json.Marshal(result{
		Title: text.Title, Language: text.Language, Pages: text.Pages, Bytes: len(text.Body), Blocks: len(text.Blocks),
		Cut: cut,
	})
	if err != nil {
		return err
	}
	b := bufio.NewWriter(w)
	_, _ = b.Write(append(first, '\n'))
	_, _ = b.WriteString(text.Body)
	var line []byte
	last := 0
	for _, block := range text.Blocks {
		line = binary.AppendUvarint(line[:0], uint64(slices.Index(kinds, block.Kind)))
		line = binary.AppendUvarint(line, uint64(block.Start-last))
		line = binary.AppendUvarint(line, uint64(block.End-block.Start))
		line = binary.AppendUvarint(line, uint64(block.Level))
		line = binary.AppendUvarint(line, uint64(block.Header+1))
		_, _ = b.Write(line)
		last = block.End
	}
	return b.Flush()
}

var errWire = errors.New("what the reader says makes no sense")

// decode reads what encode wrote. It believes nothing: the child has read a stranger's file.
func decode(r io.Reader, most limits) (document.Text, bool, error) {
	var text document.Text
	in := bufio.NewReaderSize(r, 64<<10)
	head, err := firstLine(in, 16*most.pages+8*maxTitle*utf8.UTFMax+1024)
	if err != nil {
		return text, false, err
	}
	var first result
	if err := json.Unmarshal(head, &first); err != nil {
		return text, false, fmt.Errorf("%w: %w", errWire, err)
	}
	if first.Bytes < 0 || first.Bytes > utf8.UTFMax*most.characters || first.Blocks < 0 ||
		first.Blocks > most.blocks || len(first.Pages) > most.pages {
		return text, false, errWire
	}
	var body strings.Builder
	if _, err := io.CopyN(&body, in, int64(first.Bytes)); err != nil {
		return text, false, fmt.Errorf("%w: %w", errWire, err)
	}
	text = document.Text{
		Title: first.Title, Language: first.Language, Pages: first.Pages, Body: body.String(),
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

func decodeBlocks(in io.ByteReader, count, long int) ([]document.Block, error) {
	var blocks []document.Block
	last := uint64(0)
	for n := range count {
		var v [5]uint64
		for i := range v {
			var err error
			if v[i], err = binary.ReadUvarint(in); err != nil || v[i] > uint64(max(long, count, 6)) {
				return nil, errWire
			}
		}
		start := last + v[1]
		if last = start + v[2]; last > uint64(long) || v[0] >= uint64(len(kinds)) || v[4] > uint64(n+1) {
			return nil, errWire
		}
		blocks = append(blocks, document.Block{
			Kind: kinds[v[0]], Start: int(start), End: int(last), Level: int(v[3]), Header: int(v[4]) - 1,
		})
	}
	for i := range blocks {
		if blocks[i].Kind != document.Row {
			blocks[i].Header = 0
		}
	}
	return blocks, nil
}
