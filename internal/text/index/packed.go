package index

import (
	"encoding/binary"
	"math"
)

// Adapters store numbers as varints, and texts as their length and their bytes.

// AppendText appends a text, as [Reader.Text] reads it.
func AppendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// Reader reads numbers and texts from bytes. After the first missing one, Torn is true and all values are zero.
type Reader struct {
	Rest []byte
	Torn bool
}

// Bytes takes so many bytes.
func (r *Reader) Bytes(n uint64) []byte {
	if n > uint64(len(r.Rest)) {
		r.Torn, r.Rest = true, nil
		return nil
	}
	b := r.Rest[:n:n]
	r.Rest = r.Rest[n:]
	return b
}

// Uvarint takes a number of at most 32 bits.
func (r *Reader) Uvarint() uint64 {
	n, size := binary.Uvarint(r.Rest)
	if size <= 0 || n > math.MaxUint32 {
		r.Torn, r.Rest = true, nil
		return 0
	}
	r.Rest = r.Rest[size:]
	return n
}

// Text takes a text.
func (r *Reader) Text() string { return string(r.Bytes(r.Uvarint())) }
