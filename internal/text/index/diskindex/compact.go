package diskindex

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"agentplatform/internal/text/index"
)

const (
	// minDead is the number of dead chunks from which a file is rewritten.
	minDead = 256
	// compactAtOnce is how many chunks are then written at a time, which bounds the memory.
	compactAtOnce = 256
)

// compact rewrites the file without dead chunks, if these are more than half of it.
func (c *collection) compact(ctx context.Context) error {
	if c.state == nil {
		return nil
	}
	if n := len(c.state.at) - c.state.live; n < minDead || n <= c.state.live {
		return nil
	}
	return c.renew(ctx)
}

// renew rewrites the file without dead chunks. Queries go on meanwhile.
func (c *collection) renew(ctx context.Context) error {
	s, err := c.state.rewrite(ctx, c.path+unfinished, c.name)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := os.Rename(s.file.Name(), c.path); err != nil {
		return fmt.Errorf("diskindex: %w", errors.Join(err, s.file.Close()))
	}
	_ = c.state.file.Close()
	c.state = s
	// After a crash the former file may be back. It has the same contents, until the next change.
	s.folderDue = syncFolder(filepath.Dir(c.path)) != nil
	return nil
}

func (s *state) rewrite(ctx context.Context, path, name string) (*state, error) {
	out, err := create(path, name, s.dimensions)
	if err != nil {
		return nil, err
	}
	b := &batch{}
	for slot := range s.at {
		if s.versions[slot] == dead {
			continue
		}
		if err = s.copy(uint32(slot), out, b); err == nil && b.puts == compactAtOnce {
			err = cmp.Or(ctx.Err(), out.add(b))
			b = &batch{}
		}
		if err != nil {
			break
		}
	}
	if err == nil {
		err = errors.Join(out.add(b), out.file.Sync())
	}
	if err != nil {
		return nil, errors.Join(err, out.file.Close(), os.Remove(path))
	}
	return out, nil
}

func (s *state) copy(slot uint32, out *state, b *batch) error {
	e, err := s.read(slot)
	if err != nil {
		return err
	}
	terms := make([]index.Term, 0, len(e.terms))
	for _, t := range e.terms {
		terms = append(terms, index.Term{Text: s.names[t.term], Weight: int(t.weight)})
	}
	e.fresh = nil
	b.put(out, &e, terms)
	return nil
}

func (s *state) add(b *batch) error {
	if err := s.append(b); err != nil {
		return err
	}
	return s.show(b)
}
