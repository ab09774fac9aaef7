package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"agentplatform/internal/proof/scenario"
)

// within is a local service whose data folder the test can read.
type within struct {
	laptop
	dir string
}

func (w within) Start(t *testing.T, settings map[string]string) scenario.World {
	settings["DATA_DIR"] = w.dir
	return w.laptop.Start(t, settings)
}

func TestNothingRemainsOfDeletedContent(t *testing.T) {
	t.Parallel()
	w := within{dir: t.TempDir()}
	scenario.Deletion(t, w, func(word string) (found []string) {
		err := filepath.WalkDir(filepath.Join(w.dir, "blobs"), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return nil //nolint:nilerr // it is being removed
			}
			if content, err := os.ReadFile(path); err == nil && bytes.Contains(content, []byte(word)) {
				found = append(found, path)
			}
			return nil
		})
		require.NoError(t, err)
		return found
	})
}
