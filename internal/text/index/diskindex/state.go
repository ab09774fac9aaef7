package diskindex

import (
	"cmp"
	"encoding/binary"
	"os"
	"slices"
)

// state is the part of a collection that is in memory: all except the vectors' integers and the chunks' terms, which
// are read from the file. A chunk has a slot, a number that is not used again until the file is rewritten.
type state struct {
	file       *os.File
	size       int64 // of the file, as far as it is whole
	folderDue  bool  // the folder must be synced before the file is changed
	dimensions int
	rotation   *rotation

	at       []int64  // for each slot, where its record begins
	sizes    []uint32 // for each slot, of its record, in bytes
	versions []uint32 // for each slot, its version: an index into keys, or dead
	numbers  []uint32 // for each slot, the chunk's number in the version
	lengths  []uint32 // for each slot, in words
	signs    []uint64 // rotation.words() for each slot
	factors  []float32
	ones     []uint16
	live     int
	length   int // of the live chunks together

	keys      []versionKey
	documents map[string][]uint32 // a document's versions: indexes into keys
	terms     map[string]uint32
	names     []string // of the terms
	postings  []postings
}

const dead = ^uint32(0)

type versionKey struct {
	document string
	number   int
	slots    []uint32 // live, ascending by the chunk's number
}

// postings are the slots that have a term. Each is the difference to the previous slot, doubled, plus one if a weight
// follows. Without it, the weight is 1.
type postings struct {
	list []byte
	last uint32
	live int
}

func (p *postings) add(slot, weight uint32) {
	step := uint64(slot-p.last) << 1
	if weight != 1 {
		step |= 1
	}
	p.list = binary.AppendUvarint(p.list, step)
	if weight != 1 {
		p.list = binary.AppendUvarint(p.list, uint64(weight))
	}
	p.last = slot
	p.live++
}

func newState(file *os.File, dimensions int) *state {
	return &state{
		file: file, dimensions: dimensions, rotation: newRotation(dimensions),
		documents: map[string][]uint32{}, terms: map[string]uint32{},
	}
}

// version returns the index of a version, and makes one if asked to. The second value is false if there is none.
func (s *state) version(document string, number int, make bool) (uint32, bool) {
	for _, v := range s.documents[document] {
		if s.keys[v].number == number {
			return v, true
		}
	}
	if !make {
		return 0, false
	}
	v := uint32(len(s.keys))
	s.keys = append(s.keys, versionKey{document: document, number: number})
	s.documents[document] = append(s.documents[document], v)
	return v, true
}

// put adds the chunk whose record has this offset and size in the file. The error is one of reading the replaced chunk.
func (s *state) put(e *entry, at int64, size int) error {
	for _, t := range e.fresh {
		s.terms[t] = uint32(len(s.names))
		s.names = append(s.names, t)
		s.postings = append(s.postings, postings{})
	}
	slot := uint32(len(s.at))
	v, _ := s.version(e.document, e.number, true)
	if err := s.insert(v, uint32(e.index), slot); err != nil {
		return err
	}
	s.at, s.sizes = append(s.at, at), append(s.sizes, uint32(size))
	s.versions, s.numbers = append(s.versions, v), append(s.numbers, uint32(e.index))
	s.lengths = append(s.lengths, uint32(e.length))
	s.signs = append(s.signs, e.code.signs...)
	s.factors, s.ones = append(s.factors, e.code.factor), append(s.ones, e.code.ones)
	for _, t := range e.terms {
		s.postings[t.term].add(slot, t.weight)
	}
	s.live++
	s.length += e.length
	return nil
}

// find returns the position of a chunk among the slots of its version.
func (s *state) find(version, number uint32) (at int, found bool) {
	return slices.BinarySearchFunc(s.keys[version].slots, number,
		func(a, n uint32) int { return cmp.Compare(s.numbers[a], n) })
}

// has reports whether the chunk that an entry would replace exists.
func (s *state) has(e *entry) bool {
	v, found := s.version(e.document, e.number, false)
	if found {
		_, found = s.find(v, uint32(e.index))
	}
	return found
}

// insert puts a slot among those of its version. It replaces the slot that the chunk has now.
func (s *state) insert(version, number, slot uint32) error {
	slots := s.keys[version].slots
	i, found := s.find(version, number)
	if !found {
		s.keys[version].slots = slices.Insert(slots, i, slot)
		return nil
	}
	if err := s.kill(slots[i]); err != nil {
		return err
	}
	slots[i] = slot
	return nil
}

func (s *state) remove(document string, number int) error {
	v, found := s.version(document, number, false)
	if !found {
		return nil
	}
	for _, slot := range s.keys[v].slots {
		if err := s.kill(slot); err != nil {
			return err
		}
	}
	s.keys[v].slots = nil
	left := slices.DeleteFunc(s.documents[document], func(w uint32) bool { return w == v })
	if s.documents[document] = left; len(left) == 0 {
		delete(s.documents, document)
	}
	return nil
}

func (s *state) kill(slot uint32) error {
	e, err := s.read(slot)
	if err != nil {
		return err
	}
	for _, t := range e.terms {
		s.postings[t.term].live--
	}
	s.versions[slot] = dead
	s.live--
	s.length -= int(s.lengths[slot])
	return nil
}
