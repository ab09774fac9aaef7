package extract

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"agentplatform/internal/text/document"
)

// What the child writes to its output: in JSON, after its length, all but body and blocks; the body; the blocks.

// result is the first part.
type result struct {
	Title, Language string `json:",omitempty"`
	Pages           []int  `json:",omitempty"`
	Bytes, Blocks   int
	Cut             bool   `json:",omitempty"` // the text is longer
	Failure         string `json:",omitempty"` // the code of a Fault and its reason; no code: it is not the file's
}

const maxResult = 16*MaxPages + 8*maxTitle*utf8.UTFMax + 1024 // bytes

// wireBlock is a block, little-endian.
type wireBlock struct {
	Kind, Level        uint8 // Kind: its place in kinds
	Start, End, Header int32
}

var kinds = []document.Kind{document.Paragraph, document.Heading, document.Item, document.Row, document.Code}

func encode(w io.Writer, text document.Text, cut bool, failed error) error {
	first, err := json.Marshal(result{
		Title: text.Title, Language: text.Language, Pages: text.Pages, Bytes: len(text.Body), Blocks: len(text.Blocks),
		Cut: cut, Failure: failure(failed),
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
	_ = binary.Write(b, binary.LittleEndian, uint32(len(first)))
	_, _ = b.Write(first)
	_, _ = b.WriteString(text.Body)
	_ = binary.Write(b, binary.LittleEndian, blocks)
	return b.Flush()
}

// failure is an error as it crosses the pipe; any but a [Fault] of a reader means an unreadable file.
func failure(err error) string {
	f, is := errors.AsType[Fault](err)
	switch {
	case err == nil:
		return ""
	case errors.Is(err, errUncompiled):
		f = Fault{"", err.Error()}
	case !is:
		f = Fault{Unreadable, err.Error()}
	}
	says := string(f.Code) + " " + f.Reason
	return strings.ToValidUTF8(says[:min(len(says), maxNotes)], "")
}

var errWire = errors.New("what the reader says makes no sense")

// decode reads what encode wrote. It believes nothing: the child has read a stranger's file. The error is errWire, or
// what the child has failed with.
func decode(r io.Reader, most limits) (document.Text, bool, error) {
	var text document.Text
	in := bufio.NewReaderSize(r, 64<<10)
	var size uint32
	if err := binary.Read(in, binary.LittleEndian, &size); err != nil || size > maxResult {
		return text, false, errWire
	}
	head := make([]byte, size)
	var first result
	if _, err := io.ReadFull(in, head); err != nil || json.Unmarshal(head, &first) != nil ||
		len(first.Failure) > maxNotes {
		return text, false, errWire
	}
	if code, reason, failed := strings.Cut(first.Failure, " "); code != "" {
		return text, false, Fault{Code(code), reason}
	} else if failed {
		return text, false, errors.New(reason)
	}
	if first.Bytes < 0 || first.Bytes > utf8.UTFMax*most.characters || first.Blocks < 0 ||
		first.Blocks > maxBlocks || len(first.Pages) > MaxPages {
		return text, false, errWire
	}
	var body strings.Builder
	if _, err := io.CopyN(&body, in, int64(first.Bytes)); err != nil {
		return text, false, errWire
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
	var err error
	text.Blocks, err = decodeBlocks(in, first.Blocks, long)
	return text, first.Cut, err
}

func decodeBlocks(in io.Reader, count, long int) ([]document.Block, error) {
	if count == 0 {
		return nil, nil
	}
	records := make([]wireBlock, count)
	if err := binary.Read(in, binary.LittleEndian, records); err != nil {
		return nil, errWire
	}
	blocks := make([]document.Block, count)
	last := 0
	for n, b := range records {
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
