// Package dirblob is the blob port over a folder: each value is a file that is written elsewhere and then renamed. Its
// bytes count against the divided room of the disk.
package dirblob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"agentplatform/internal/store/blob"
)

// Store keeps values below a folder.
type Store struct {
	dir  string
	disk Disk
}

// Disk divides a disk between the holders of contexts.
type Disk interface {
	Take(ctx context.Context, n int64) bool
	Give(ctx context.Context, n int64)
}

// Open creates the folder if needed, and removes the incomplete files of a crash. The error is one of the file
// system.
func Open(dir string, disk Disk) (*Store, error) {
	if err := os.RemoveAll(filepath.Join(dir, "tmp")); err != nil {
		return nil, fmt.Errorf("dirblob: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "tmp"), 0o700); err != nil {
		return nil, fmt.Errorf("dirblob: %w", err)
	}
	return &Store{dir, disk}, nil
}

func (s *Store) path(key string) (string, error) {
	if !filepath.IsLocal(key) {
		return "", fmt.Errorf("dirblob: %q is no key", key)
	}
	return filepath.Join(s.dir, "values", key), nil
}

// taking takes the room for the bytes that are read.
type taking struct {
	io.Reader

	take  func(n int64) bool
	taken int64
}

func (t *taking) Read(b []byte) (int, error) {
	n, err := t.Reader.Read(b)
	if n > 0 && !t.take(int64(n)) {
		return 0, blob.ErrFull
	}
	t.taken += int64(n)
	return n, err
}

// Put implements [blob.Store].
func (s *Store) Put(ctx context.Context, key string, r io.Reader, limit int64) (n int64, err error) {
	path, err := s.path(key)
	if err != nil {
		return 0, err
	}
	from := &taking{Reader: io.LimitReader(r, limit+1), take: func(n int64) bool { return s.disk.Take(ctx, n) }}
	defer func() {
		if err != nil {
			s.disk.Give(ctx, from.taken)
		}
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
			err = fmt.Errorf("%w: %w", blob.ErrFull, err)
		}
	}()
	tmp, err := os.CreateTemp(filepath.Join(s.dir, "tmp"), "put-")
	if err != nil {
		return 0, fmt.Errorf("dirblob: %w", err)
	}
	defer func() {
		if err != nil {
			_ = tmp.Close()
			_ = os.Remove(tmp.Name())
		}
	}()
	n, err = io.Copy(tmp, from)
	if err != nil {
		return 0, err
	}
	if n > limit {
		return 0, blob.ErrTooLarge
	}
	replaced, missing := os.Lstat(path)
	for _, step := range []func() error{
		tmp.Sync, tmp.Close,
		func() error { return os.MkdirAll(filepath.Dir(path), 0o700) },
		func() error { return os.Rename(tmp.Name(), path) },
		func() error { return syncFolder(filepath.Dir(path)) }, // makes the name of the new file durable
	} {
		if err = step(); err != nil {
			return 0, fmt.Errorf("dirblob: %w", err)
		}
	}
	if missing == nil {
		s.disk.Give(ctx, replaced.Size())
	}
	return n, nil
}

func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Get implements [blob.Store].
func (s *Store) Get(_ context.Context, key string) (io.ReadCloser, error) {
	path, err := s.path(key)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, blob.ErrMissing
	}
	if err != nil {
		return nil, fmt.Errorf("dirblob: %w", err)
	}
	return f, nil
}

// Delete implements [blob.Store].
func (s *Store) Delete(ctx context.Context, key string) error {
	path, err := s.path(key)
	if err != nil {
		return err
	}
	return s.remove(ctx, path)
}

// remove removes a file, if it exists, and gives its room back.
func (s *Store) remove(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if err == nil {
		err = os.Remove(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("dirblob: %w", err)
	}
	s.disk.Give(ctx, info.Size())
	return nil
}

// DeleteAll implements [blob.Store]: it removes the folder.
func (s *Store) DeleteAll(ctx context.Context, below string) error {
	path, err := s.path(strings.TrimSuffix(below, "/"))
	if err != nil {
		return err
	}
	err = filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			return s.remove(ctx, file)
		}
		return nil // files that cannot be listed are removed below
	})
	if err = errors.Join(err, os.RemoveAll(path)); err != nil {
		return fmt.Errorf("dirblob: %w", err)
	}
	return nil
}
