package diskindex

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	suffix       = ".collection"
	unfinished   = ".tmp"
	identityFile = "identity"
	// format begins the identity. A folder of another format is emptied: all of its contents are derived.
	format = "1-"
)

// identify returns the folder's identity. A folder without one is emptied and gets one, which is written last.
func identify(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("diskindex: %w", err)
	}
	b, err := os.ReadFile(filepath.Join(dir, identityFile))
	if err == nil && strings.HasPrefix(string(b), format) {
		return string(b), sweep(dir, unfinished)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("diskindex: %w", err)
	}
	if err := errors.Join(sweep(dir, unfinished), sweep(dir, suffix), sweep(dir, dirty)); err != nil {
		return "", err
	}
	id := format + rand.Text()
	return id, writeWhole(filepath.Join(dir, identityFile), []byte(id))
}

// sweep removes the files whose names end so.
func sweep(dir, suffix string) error {
	names, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	for _, name := range names {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}

// writeWhole writes a file so that it exists with all its bytes or not at all.
func writeWhole(path string, b []byte) error {
	f, err := os.Create(path + unfinished)
	if err != nil {
		return fmt.Errorf("diskindex: %w", err)
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = errors.Join(os.Rename(f.Name(), path), syncFolder(filepath.Dir(path)))
	}
	if err != nil {
		return fmt.Errorf("diskindex: %w", err)
	}
	return nil
}
