package diskindex

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"agentplatform/internal/text/index"
)

const (
	// maxGroup and maxGroupChunks bound what shares one sync, and so how long the first of it waits, and the memory.
	maxGroup       = 256
	maxGroupChunks = 2 * index.MaxChunks
	kindDrop       = 3
)

// change is a Put, a Remove or a Drop that waits.
type change struct {
	ctx        context.Context
	kind       int
	version    index.Version
	dimensions int
	chunks     []index.Chunk
	vectors    []quantised
	reply      chan error
}

func (x *Index) commitLoop() {
	for first := range x.queue {
		groups := map[string][]*change{first.version.Collection: {first}}
		chunks := len(first.chunks)
	gather:
		for n := 1; n < maxGroup && chunks < maxGroupChunks; n++ {
			select {
			case c, open := <-x.queue:
				if !open {
					break gather
				}
				groups[c.version.Collection] = append(groups[c.version.Collection], c)
				chunks += len(c.chunks)
			default:
				break gather
			}
		}
		for _, name := range slices.Sorted(maps.Keys(groups)) {
			x.commit(name, groups[name])
		}
	}
}

// commit makes the changes of one collection, and answers each.
func (x *Index) commit(name string, changes []*change) {
	c := x.hold(name)
	defer x.release(c)
	for len(changes) > 0 {
		if changes[0].kind == kindDrop {
			changes[0].reply <- c.drop()
			changes = changes[1:]
			continue
		}
		n := 1
		for n < len(changes) && changes[n].kind != kindDrop {
			n++
		}
		if err := c.load(); err != nil {
			answer(changes[:n], err)
		} else {
			c.append(changes[:n])
		}
		changes = changes[n:]
	}
	// What is dead stays until the next change, should this fail.
	_ = c.compact()
}

func answer(changes []*change, err error) {
	for _, c := range changes {
		c.reply <- err
	}
}

// append makes puts and removals, with one sync.
func (c *collection) append(changes []*change) {
	b := &batch{}
	var made []*change
	for _, change := range changes {
		err := change.ctx.Err()
		if err == nil {
			err = c.stage(b, change)
		}
		if err != nil {
			change.reply <- err
			continue
		}
		made = append(made, change)
	}
	err := c.write(b)
	if err != nil {
		c.unload() // whoever asks next reads what the file has
	}
	answer(made, err)
}

// batch is what will be appended to the file.
type batch struct {
	bytes   []byte
	entries []staged
	fresh   map[string]uint32 // terms that the file does not have yet
}

// staged is a record of a batch: a put, or a removal if it has no entry.
type staged struct {
	entry    *entry
	document string
	number   int
	size     int
}

// stage adds a change to the batch.
func (c *collection) stage(b *batch, change *change) error {
	v := change.version
	if change.kind == kindRemove {
		if !b.has(c.state, v) {
			return nil
		}
		start := len(b.bytes)
		b.bytes = appendRemove(b.bytes, v.Document, v.Number)
		b.entries = append(b.entries, staged{document: v.Document, number: v.Number, size: len(b.bytes) - start})
		return nil
	}
	if err := c.begin(change.dimensions); err != nil {
		return err
	}
	for i, chunk := range change.chunks {
		e := entry{quantised: change.vectors[i], document: v.Document, number: v.Number, index: chunk.Index,
			length: chunk.Length}
		b.put(c.state, &e, chunk.Terms)
	}
	return nil
}

// has says whether a version may have chunks.
func (b *batch) has(s *state, v index.Version) bool {
	if s == nil {
		return false
	}
	_, found := s.version(v.Document, v.Number, false)
	return found || len(b.entries) > 0
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
	b.entries = append(b.entries, staged{entry: e, size: len(b.bytes) - start})
}

// write appends a batch to the file, and shows it to queries.
func (c *collection) write(b *batch) error {
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
		if r.entry != nil {
			err = s.put(r.entry, s.size, r.size)
		} else {
			err = s.remove(r.document, r.number)
		}
		if err != nil {
			return err
		}
		s.size += int64(r.size)
	}
	return nil
}
