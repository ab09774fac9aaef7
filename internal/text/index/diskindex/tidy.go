package diskindex

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// dirty ends the name of a collection's mark: a file with the collection's name. It is there while the file of the
// collection may have words of removed chunks.
const dirty = ".dirty"

// patience is the number of calls of [Index.Tidy] that see a mark before one rewrites the file. This way, many removals
// share one rewrite. A mark that existed when the index was opened has waited already.
const patience = 5

// Tidy overwrites removed words: it rewrites the files of marked collections without them. It is called at regular
// intervals. The call after [patience] others removes the words of a removal, even without another write. The error
// joins those of the collections that failed, which stay marked.
func (x *Index) Tidy(ctx context.Context) error {
	x.tidying.Lock()
	defer x.tidying.Unlock()
	marks, err := filepath.Glob(filepath.Join(x.dir, "*"+dirty))
	seen := map[string]int{}
	for _, mark := range marks {
		if seen[mark] = x.seen[mark] + 1; seen[mark] <= patience {
			continue
		}
		name, failed := os.ReadFile(mark)
		if failed == nil {
			failed = x.change(ctx, string(name), func(c *collection) error { return c.tidy(ctx) })
		}
		if failed == nil {
			delete(seen, mark)
		}
		err = errors.Join(err, failed)
	}
	x.seen = seen
	return err
}

// waited are the marks that existed when the index was opened.
func waited(dir string) map[string]int {
	marks, _ := filepath.Glob(filepath.Join(dir, "*"+dirty)) // it errs only on bad patterns
	seen := map[string]int{}
	for _, mark := range marks {
		seen[mark] = patience
	}
	return seen
}

// mark notes, durably, that the file is about to have words of removed chunks.
func (c *collection) mark() error {
	if c.marked {
		return nil
	}
	err := writeWhole(c.path+dirty, []byte(c.name))
	c.marked = err == nil
	return err
}

// tidy rewrites the file if it has dead chunks. The mark is removed when the former file cannot come back.
func (c *collection) tidy(ctx context.Context) error {
	if err := c.load(); err != nil {
		return err
	}
	if s := c.state; s != nil && len(s.at) > s.live {
		if err := c.renew(ctx); err != nil {
			return err
		}
	}
	if err := syncFolder(filepath.Dir(c.path)); err != nil {
		return fmt.Errorf("diskindex: %w", err)
	}
	c.marked = false
	return os.Remove(c.path + dirty)
}
