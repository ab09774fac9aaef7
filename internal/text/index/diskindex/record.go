package diskindex

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"

	"agentplatform/internal/text/index"
)

// A collection's file is a header and then records. A record is the length and the checksum of its payload (4 bytes
// each) and the payload: a kind, and
//
//	put:    scale, factor, ones, 8-bit values, signs (a fixed size, so that a vector is read alone);
//	        document, number, index, length; terms that are new to the file, which are numbered in their order;
//	        the numbers of the chunk's terms (ascending, as differences) with their weights
//	remove: document, number
//
// Numbers of fixed size are little-endian, others varints; a text is its length and its bytes.

const (
	kindPut    = 1
	kindRemove = 2

	recordHeader = 8
	vectorAt     = recordHeader + 1 // from the beginning of a record
	vectorHeader = 10               // scale, factor, ones
	// maxRecord is more than any record has: a length above it is not a length.
	maxRecord = 2*index.MaxDimensions + index.MaxChunkTerms*(index.MaxTerm+16) + 4*index.MaxName
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	errTorn    = errors.New("diskindex: a record is cut or damaged")
)

// weighted is a term of a chunk, by its number in the file.
type weighted struct {
	term   uint32
	weight uint32
}

// entry is a put record, decoded.
type entry struct {
	quantised
	document string
	number   int
	index    int
	length   int
	fresh    []string // terms that are new to the file
	terms    []weighted
}

func begin(b []byte, kind byte) []byte {
	return append(b, 0, 0, 0, 0, 0, 0, 0, 0, kind)
}

// seal writes the header of the record that begins at start.
func seal(b []byte, start int) []byte {
	payload := b[start+recordHeader:]
	binary.LittleEndian.PutUint32(b[start:], uint32(len(payload)))
	binary.LittleEndian.PutUint32(b[start+4:], crc32.Checksum(payload, castagnoli))
	return b
}

func appendPut(b []byte, e entry) []byte {
	start := len(b)
	b = begin(b, kindPut)
	b = binary.LittleEndian.AppendUint32(b, math.Float32bits(e.scale))
	b = binary.LittleEndian.AppendUint32(b, math.Float32bits(e.code.factor))
	b = binary.LittleEndian.AppendUint16(b, e.code.ones)
	for _, v := range e.values {
		b = append(b, byte(v))
	}
	for _, w := range e.code.signs {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	b = index.AppendText(b, e.document)
	for _, n := range []int{e.number, e.index, e.length, len(e.fresh)} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	for _, s := range e.fresh {
		b = index.AppendText(b, s)
	}
	b = binary.AppendUvarint(b, uint64(len(e.terms)))
	last := uint32(0)
	for _, t := range e.terms {
		b = binary.AppendUvarint(b, uint64(t.term-last))
		b = binary.AppendUvarint(b, uint64(t.weight))
		last = t.term
	}
	return seal(b, start)
}

func appendRemove(b []byte, document string, number int) []byte {
	start := len(b)
	b = index.AppendText(begin(b, kindRemove), document)
	return seal(binary.AppendUvarint(b, uint64(number)), start)
}

// tail reads what follows the vector in a put record.
func (e *entry) tail(r *index.Reader) {
	e.document = r.Text()
	e.number, e.index, e.length = int(r.Uvarint()), int(r.Uvarint()), int(r.Uvarint())
	e.fresh = e.fresh[:0]
	for n := r.Uvarint(); n > 0 && !r.Torn; n-- {
		e.fresh = append(e.fresh, r.Text())
	}
	e.terms = e.terms[:0]
	last := uint32(0)
	for n := r.Uvarint(); n > 0 && !r.Torn; n-- {
		last += uint32(r.Uvarint())
		e.terms = append(e.terms, weighted{last, uint32(r.Uvarint())})
	}
}

// vector reads the fixed part of a put record.
func (e *entry) vector(r *index.Reader, dimensions, words int) {
	head := r.Bytes(vectorHeader)
	values, signs := r.Bytes(uint64(dimensions)), r.Bytes(uint64(8*words))
	if r.Torn {
		return
	}
	e.scale = math.Float32frombits(binary.LittleEndian.Uint32(head))
	e.code.factor = math.Float32frombits(binary.LittleEndian.Uint32(head[4:]))
	e.code.ones = binary.LittleEndian.Uint16(head[8:])
	e.values, e.code.signs = e.values[:0], e.code.signs[:0]
	for _, v := range values {
		e.values = append(e.values, int8(v))
	}
	for i := range words {
		e.code.signs = append(e.code.signs, binary.LittleEndian.Uint64(signs[8*i:]))
	}
}
