package diskindex_test

import (
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"agentplatform/internal/proof/memindex"
	"agentplatform/internal/text/index"
	"agentplatform/internal/text/index/diskindex"
	"agentplatform/internal/text/index/indextest"
)

// folders remembers where each index of a test is.
type folders struct {
	mu        sync.Mutex
	of        map[index.Index]string
	maxChunks int // 0: as by itself
}

func (f *folders) open(t *testing.T, dir string) index.Index {
	x, err := diskindex.Open(dir)
	require.NoError(t, err)
	if f.maxChunks > 0 {
		x.SetMaxChunks(f.maxChunks)
	}
	t.Cleanup(x.Close)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.of == nil {
		f.of = map[index.Index]string{}
	}
	f.of[x] = dir
	return x
}

func (f *folders) where(x index.Index) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.of[x]
}

// harness copies the files of a killed index, as they are at that moment.
func (f *folders) harness() indextest.Harness {
	return indextest.Harness{
		Open: func(t *testing.T) index.Index { return f.open(t, t.TempDir()) },
		Reopen: func(t *testing.T, x index.Index) index.Index {
			x.(*diskindex.Index).Close()
			return f.open(t, f.where(x))
		},
		Kill: func(t *testing.T, x index.Index) index.Index {
			dir := t.TempDir()
			copyFiles(t, f.where(x), dir)
			return f.open(t, dir)
		},
	}
}

func copyFiles(t *testing.T, from, to string) {
	t.Helper()
	entries, err := os.ReadDir(from)
	require.NoError(t, err)
	for _, e := range entries {
		in, err := os.Open(filepath.Join(from, e.Name()))
		require.NoError(t, err)
		out, err := os.Create(filepath.Join(to, e.Name()))
		require.NoError(t, err)
		_, err = io.Copy(out, in)
		require.NoError(t, err)
		require.NoError(t, in.Close())
		require.NoError(t, out.Close())
	}
}

func TestContract(t *testing.T) {
	indextest.Run(t, (&folders{}).harness())
}

func TestContractWhereMemoryHoldsOneCollection(t *testing.T) {
	f := &folders{maxChunks: 1}
	indextest.Run(t, f.harness())
}

func TestAgreesWithTheIndexInMemory(t *testing.T) {
	other := indextest.Harness{Open: func(*testing.T) index.Index { return &memindex.Index{} }}
	indextest.Agree(t, (&folders{}).harness(), other)
}
