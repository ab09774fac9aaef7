package diskindex

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"agentplatform/internal/text/index"
)

// batch is what will be appended to the file.
type batch struct {
	records []byte
	puts    int
	fresh   map[string]uint32 // terms that the file does not have yet
}

func (c *collection) put(dimensions int, entries []*entry, chunks []index.Chunk) error {
	if err := c.load(); err != nil {
		return err
	}
	if err := c.begin(dimensions); err != nil {
		return err
	}
	if slices.ContainsFunc(entries, c.state.has) {
		if err := c.mark(); err != nil {
			return err
		}
	}
	b := &batch{}
	for i, e := range entries {
		b.put(c.state, e, chunks[i].Terms)
	}
	return c.write(b)
}

func (c *collection) remove(v index.Version) error {
	if err := c.load(); err != nil || c.state == nil {
		return err
	}
	if _, found := c.state.version(v.Document, v.Number, false); !found {
		return nil
	}
	if err := c.mark(); err != nil {
		return err
	}
	return c.write(&batch{records: appendRemove(nil, v.Document, v.Number)})
}

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

// put adds a chunk to the batch, and numbers the terms that are new.
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
	b.records = appendPut(b.records, *e)
	b.puts++
}

// write appends a batch to the file, and makes it visible to queries. After an error, the file is read again.
func (c *collection) write(b *batch) (err error) {
	if len(b.records) == 0 {
		return nil
	}
	defer func() {
		if err != nil {
			c.unload()
		}
	}()
	s := c.state
	if s.folderDue {
		if err := syncFolder(filepath.Dir(c.path)); err != nil {
			return fmt.Errorf("diskindex: %w", err)
		}
		s.folderDue = false
	}
	if err := s.append(b); err != nil {
		return errors.Join(err, s.cut())
	}
	if err := s.file.Sync(); err != nil {
		return fmt.Errorf("diskindex: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return s.show(b)
}

// append writes a batch to the file, without a sync.
func (s *state) append(b *batch) error {
	if _, err := s.file.WriteAt(b.records, s.size); err != nil {
		return fmt.Errorf("diskindex: %w", err)
	}
	return nil
}

// show applies what was appended.
func (s *state) show(b *batch) error { return s.replayAll(bufio.NewReader(bytes.NewReader(b.records))) }
