package diskindex_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/text/index"
	"agentplatform/internal/text/index/diskindex"
)

// has reports whether a word stands in any file of a folder.
func has(t *testing.T, dir, word string) bool {
	t.Helper()
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(dir, f.Name()))
		require.NoError(t, err)
		if bytes.Contains(b, []byte(word)) {
			return true
		}
	}
	return false
}

func put(t *testing.T, x *diskindex.Index, documents ...string) {
	t.Helper()
	for _, d := range documents {
		require.NoError(t, x.Put(t.Context(), version(d), 2, []index.Chunk{two(0, d)}))
	}
}

// The words of a deleted document leave the files within ten minutes, even without another write. The same holds for a
// replaced document. The others are still found.
func TestDeletedWordsLeaveTheFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		x := open(t, dir)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() { // as boot does
			tick := time.Tick(time.Minute)
			for ctx.Err() == nil {
				assert.NoError(t, x.Tidy(ctx))
				select {
				case <-tick:
				case <-ctx.Done():
				}
			}
		}()
		put(t, x, "swordfish", "marlin", "tuna")
		require.NoError(t, x.Remove(t.Context(), version("swordfish")))
		assert.True(t, has(t, dir, "swordfish"))
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		assert.False(t, has(t, dir, "swordfish"))
		for _, word := range []string{"herring", "salmon"} {
			require.NoError(t, x.Put(t.Context(), version("tuna"), 2, []index.Chunk{two(0, word)}))
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		assert.False(t, has(t, dir, "herring"))
		assert.True(t, has(t, dir, "marlin"))
		files, err := os.ReadDir(dir)
		require.NoError(t, err)
		assert.Len(t, files, 2, "the collection and the identity")
		assert.Equal(t, map[string]int{"marlin": 1}, documents(t, x, "marlin"))
		assert.Equal(t, map[string]int{"tuna": 1}, documents(t, x, "salmon"))
		assert.Empty(t, documents(t, x, "swordfish"))

		for n := range 9 { // removals that go on put nothing off
			put(t, x, fmt.Sprint("cod", n))
			require.NoError(t, x.Remove(t.Context(), version(fmt.Sprint("cod", n))))
			time.Sleep(time.Minute + time.Second)
		}
		assert.False(t, has(t, dir, "cod0"))
	})
}

// Removals that go on have one rewrite in six calls, also after the first.
func TestRemovalsThatGoOnHaveFewRewrites(t *testing.T) {
	dir := t.TempDir()
	x := open(t, dir)
	put(t, x, "marlin")
	file := collectionFile(t, dir)
	former, err := os.Stat(file)
	require.NoError(t, err)
	var rewrites []int
	for call := range 24 {
		put(t, x, "cod")
		require.NoError(t, x.Remove(t.Context(), version("cod")))
		require.NoError(t, x.Tidy(t.Context()))
		now, err := os.Stat(file)
		require.NoError(t, err)
		if !os.SameFile(former, now) {
			rewrites, former = append(rewrites, call), now
		}
	}
	assert.Equal(t, []int{5, 11, 17, 23}, rewrites)
}

// ending is a context that ends after it was checked so often.
type ending struct {
	context.Context

	checks int
}

func (e *ending) Err() error {
	if e.checks--; e.checks < 0 {
		return context.Canceled
	}
	return nil
}

// A stop does not wait for the rewrite of a large file: the next process makes it.
func TestARewriteEndsWithItsContext(t *testing.T) {
	dir := t.TempDir()
	x := open(t, dir)
	put(t, x, "swordfish")
	var chunks []index.Chunk
	for n := range 600 {
		chunks = append(chunks, two(n, "marlin"))
	}
	require.NoError(t, x.Put(t.Context(), version("many"), 2, chunks))
	require.NoError(t, x.Remove(t.Context(), version("swordfish")))
	for range 5 {
		require.NoError(t, x.Tidy(t.Context()))
	}
	require.ErrorIs(t, x.Tidy(&ending{t.Context(), 2}), context.Canceled)
	file := collectionFile(t, dir)
	assert.NoFileExists(t, file+".tmp")
	assert.True(t, has(t, dir, "swordfish"))
	require.NoError(t, x.Tidy(t.Context()))
	assert.False(t, has(t, dir, "swordfish"))
	assert.Equal(t, map[string]int{"many": 600}, documents(t, x, "marlin"))
}

// A process that is killed after a removal leaves the mark. By the mark the next process overwrites the words, a minute
// after its start.
func TestDeletedWordsLeaveTheFilesAfterAKill(t *testing.T) {
	dir := t.TempDir()
	x := open(t, dir)
	put(t, x, "swordfish", "marlin")
	require.NoError(t, x.Remove(t.Context(), version("swordfish")))
	killed := t.TempDir()
	require.NoError(t, os.CopyFS(killed, os.DirFS(dir)))
	require.True(t, has(t, killed, "swordfish"))
	y := open(t, killed)
	require.NoError(t, y.Tidy(t.Context()))
	assert.False(t, has(t, killed, "swordfish"))
	assert.Equal(t, map[string]int{"marlin": 1}, documents(t, y, "all"))
}

// Without its mark nothing is removed: the words would stay.
func TestARemovalThatCannotBeMarkedFails(t *testing.T) {
	dir := t.TempDir()
	x := open(t, dir)
	put(t, x, "swordfish")
	mark := collectionFile(t, dir) + ".dirty"
	require.NoError(t, os.MkdirAll(filepath.Join(mark, "in the way"), 0o700))
	require.Error(t, x.Remove(t.Context(), version("swordfish")))
	assert.Len(t, documents(t, x, "swordfish"), 1)
	require.NoError(t, os.RemoveAll(mark))
	require.NoError(t, x.Remove(t.Context(), version("swordfish")))
	assert.Empty(t, documents(t, x, "swordfish"))
	assert.FileExists(t, mark)
}

// A mark stays while the words may come back. It is removed with its collection.
func TestAMarkGoesWithTheWords(t *testing.T) {
	dir := t.TempDir()
	x := open(t, dir)
	put(t, x, "swordfish", "marlin")
	require.NoError(t, x.Remove(t.Context(), version("swordfish")))
	file := collectionFile(t, dir)
	require.NoError(t, os.Mkdir(file+".tmp", 0o700)) // so that no file can be rewritten
	for range 5 {
		require.NoError(t, x.Tidy(t.Context()), "it is not time yet")
	}
	require.Error(t, x.Tidy(t.Context()))
	assert.FileExists(t, file+".dirty")
	assert.Equal(t, map[string]int{"marlin": 1}, documents(t, x, "all"))
	require.NoError(t, os.Remove(file+".tmp"))
	require.NoError(t, x.Tidy(t.Context()))
	assert.NoFileExists(t, file+".dirty")
	assert.False(t, has(t, dir, "swordfish"))

	require.NoError(t, x.Remove(t.Context(), version("marlin")))
	require.NoError(t, x.Drop(t.Context(), "a"))
	for range 6 {
		require.NoError(t, x.Tidy(t.Context()))
	}
	assert.NoFileExists(t, file+".dirty")
}
