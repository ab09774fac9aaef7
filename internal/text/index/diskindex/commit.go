package diskindex

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"agentplatform/internal/text/index"
)

// batch is what will be appended to the file.
type batch struct {
	bytes   []byte
	entries []staged
	fresh   map[string]uint32 // terms that the file does not have yet
}

// staged is a record of a batch: a put, or the removal of the entry's version.
type staged struct {
	*entry

	removal bool
	size    int
}

// put adds chunks, whose entries lack the terms.
func (c *collection) put(dimensions int, entries []*entry, chunks []index.Chunk) error {
	if err := c.load(); err != nil {
		return err
	}
	if err := c.begin(dimensions); err != nil {
		return err
	}
	b := &batch{}
	for i, e := range entries {
		b.put(c.state, e, chunks[i].Terms)
	}
	return c.write(b)
}

// remove removes a version.
func (c *collection) remove(v index.Version) error {
	if err := c.load(); err != nil || c.state == nil {
		return err
	}
	if _, found := c.state.version(v.Document, v.Number, false); !found {
		return nil
	}
	b := &batch{bytes: appendRemove(nil, v.Document, v.Number)}
	b.entries = []staged{{&entry{document: v.Document, number: v.Number}, true, len(b.bytes)}}
	return c.write(b)
}

// begin makes the file if there is none.
func (c *collection) begin(dimensions int) error {
	if c.state != nil {
		if c.state.dimensions != dimensions {
			return index.OtherDimensions(c.state.dimensions, dimensions)
		}
		return nil
	}
	s, err := create(c.path, c.name, dimensions)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state = s
	return err
}

// put adds a chunk to the batch, and gives numbers to the terms that are new.
func (b *batch) put(s *state, e *entry, terms []index.Term) {
	e.terms = make([]weighted, 0, len(terms))
	for _, t := range terms {
		n, known := s.terms[t.Text]
		if !known {
			n, known = b.fresh[t.Text]
		}
		if !known {
			if b.fresh == nil {
				b.fresh = map[string]uint32{}
			}
			n = uint32(len(s.names) + len(b.fresh))
			b.fresh[t.Text] = n
			e.fresh = append(e.fresh, t.Text)
		}
		e.terms = append(e.terms, weighted{n, uint32(t.Weight)})
	}
	slices.SortFunc(e.terms, func(a, b weighted) int { return cmp.Compare(a.term, b.term) })
	start := len(b.bytes)
	b.bytes = appendPut(b.bytes, *e)
	b.entries = append(b.entries, staged{e, false, len(b.bytes) - start})
}

// write appends a batch to the file, and shows it to queries. After an error, the file is read again.
func (c *collection) write(b *batch) error {
	err := c.append(b)
	if err != nil {
		c.unload()
	}
	return err
}

func (c *collection) append(b *batch) error {
	if len(b.bytes) == 0 {
		return nil
	}
	s := c.state
	if s.folderDue {
		if err := syncFolder(filepath.Dir(c.path)); err != nil {
			return fmt.Errorf("diskindex: %w", err)
		}
		s.folderDue = false
	}
	if _, err := s.file.WriteAt(b.bytes, s.size); err != nil {
		return fmt.Errorf("diskindex: %w", errors.Join(err, s.cut()))
	}
	if err := s.file.Sync(); err != nil {
		return fmt.Errorf("diskindex: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return s.show(b)
}

// show applies what the file has now.
func (s *state) show(b *batch) error {
	for _, r := range b.entries {
		var err error
		if r.removal {
			err = s.remove(r.document, r.number)
		} else {
			err = s.put(r.entry, s.size, r.size)
		}
		if err != nil {
			return err
		}
		s.size += int64(r.size)
	}
	return nil
}
