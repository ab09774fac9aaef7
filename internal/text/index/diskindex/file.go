package diskindex

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"

	"agentplatform/internal/text/index"
)

// magic begins a collection's file. After it stand the dimensions (4 bytes), the length of the name (2 bytes), the
// name, and the checksum of all that.
const magic = "agentplatform index 1\n"

func fileHeader(name string, dimensions int) []byte {
	b := binary.LittleEndian.AppendUint32([]byte(magic), uint32(dimensions))
	b = binary.LittleEndian.AppendUint16(b, uint16(len(name)))
	b = append(b, name...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// create makes a collection's file, at a path that has none or an unfinished one.
func create(path, name string, dimensions int) (*state, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("diskindex: %w", err)
	}
	header := fileHeader(name, dimensions)
	_, err = f.Write(header)
	if err = errors.Join(err, f.Sync(), syncFolder(filepath.Dir(path))); err != nil {
		return nil, errors.Join(fmt.Errorf("diskindex: %w", err), f.Close())
	}
	s := newState(f, dimensions)
	s.size = int64(len(header))
	return s, nil
}

// load reads a collection's file. A record that was half written when the process ended is cut off. Nil: there is none.
func load(path, name string) (*state, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("diskindex: %w", err)
	}
	s, err := loadFrom(f, name)
	if err != nil || s == nil {
		return nil, errors.Join(err, f.Close())
	}
	return s, nil
}

func loadFrom(f *os.File, name string) (*state, error) {
	in := bufio.NewReaderSize(f, 1<<20)
	head := make([]byte, len(fileHeader(name, 0)))
	if _, err := io.ReadFull(in, head); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, nil // it was being made: nothing was ever put
	} else if err != nil {
		return nil, fmt.Errorf("diskindex: %w", err)
	}
	dimensions := int(binary.LittleEndian.Uint32(head[len(magic):]))
	if string(head) != string(fileHeader(name, dimensions)) || dimensions < 1 || dimensions > index.MaxDimensions {
		return nil, fmt.Errorf("diskindex: %s is not the file of this collection", f.Name())
	}
	s := newState(f, dimensions)
	s.size = int64(len(head))
	err := s.replayAll(in)
	if errors.Is(err, errTorn) {
		err = s.cut()
	}
	return s, err
}

// replayAll applies records up to their end, or up to one that is torn.
func (s *state) replayAll(in *bufio.Reader) error {
	var e entry
	for payload := []byte(nil); ; {
		var err error
		if payload, err = next(in, payload); err == nil {
			err = s.replay(payload, &e)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("diskindex: %w", err)
		}
		s.size += int64(recordHeader + len(payload))
	}
}

// next reads a record's payload into a buffer, which grows. The error is io.EOF at the end, errTorn if no whole record
// follows, or one of the file system.
func next(in *bufio.Reader, payload []byte) ([]byte, error) {
	var head [recordHeader]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return payload, torn(err, io.ErrUnexpectedEOF)
	}
	size := binary.LittleEndian.Uint32(head[:])
	if size == 0 || size > maxRecord {
		return payload, errTorn
	}
	payload = slices.Grow(payload[:0], int(size))[:size]
	if _, err := io.ReadFull(in, payload); err != nil {
		return payload, torn(torn(err, io.ErrUnexpectedEOF), io.EOF)
	}
	if crc32.Checksum(payload, castagnoli) != binary.LittleEndian.Uint32(head[4:]) {
		return payload, errTorn
	}
	return payload, nil
}

// torn returns errTorn for an error that is the given end: the record is cut.
func torn(err, end error) error {
	if errors.Is(err, end) {
		return errTorn
	}
	return err
}

func (s *state) replay(payload []byte, e *entry) error {
	r := &index.Reader{Rest: payload}
	switch r.Bytes(1)[0] {
	case kindPut:
		e.vector(r, s.dimensions, s.rotation.words())
		e.tail(r)
		// A file that was not written by this package may have terms without names.
		if last := len(e.terms) - 1; r.Torn || last >= 0 && int(e.terms[last].term) >= len(s.names)+len(e.fresh) {
			return errTorn
		}
		return s.put(e, s.size, recordHeader+len(payload))
	case kindRemove:
		document, number := r.Text(), int(r.Uvarint())
		if r.Torn {
			return errTorn
		}
		return s.remove(document, number)
	}
	return errTorn
}

func (s *state) cut() error {
	if err := errors.Join(s.file.Truncate(s.size), s.file.Sync()); err != nil {
		return fmt.Errorf("diskindex: %w", err)
	}
	return nil
}

// record reads the first bytes of the record of a slot into a buffer, which grows.
func (s *state) record(slot uint32, size int, buffer []byte) ([]byte, error) {
	buffer = slices.Grow(buffer[:0], size)[:size]
	if _, err := s.file.ReadAt(buffer, s.at[slot]); err != nil {
		return nil, fmt.Errorf("diskindex: %w", err)
	}
	return buffer, nil
}

func (s *state) read(slot uint32) (e entry, err error) {
	b, err := s.record(slot, int(s.sizes[slot]), nil)
	if err == nil {
		err = s.decode(b, &e)
	}
	return e, err
}

func (s *state) decode(record []byte, e *entry) error {
	r := &index.Reader{Rest: record[vectorAt:]}
	e.vector(r, s.dimensions, s.rotation.words())
	e.tail(r)
	if r.Torn {
		return fmt.Errorf("diskindex: %w", errTorn)
	}
	return nil
}

// cosine is the product of a probe with the vector of a record, or of the beginning of one.
func (s *state) cosine(p *probe, record []byte) float64 {
	scale := math.Float32frombits(binary.LittleEndian.Uint32(record[vectorAt:]))
	return p.cosine(scale, record[vectorAt+vectorHeader:][:s.dimensions])
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
