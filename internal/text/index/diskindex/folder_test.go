package diskindex_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/text/index"
	"agentplatform/internal/text/index/diskindex"
)

const folderOfChild = "DISKINDEX_TEST_FOLDER"

// TestMain is also a child process that puts documents and writes the name of each. It goes on until it is killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv(folderOfChild); dir != "" {
		fmt.Fprintln(os.Stderr, putUntilKilled(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func putUntilKilled(dir string) error {
	x, err := diskindex.Open(dir)
	if err != nil {
		return err
	}
	ended := make(chan error)
	for writer := range 3 {
		go func() {
			for i := 0; ; i++ {
				v := version(fmt.Sprintf("%d-%d", writer, i))
				chunks := []index.Chunk{two(0, v.Document), two(1, v.Document)}
				if err := x.Put(context.Background(), v, 2, chunks); err != nil {
					ended <- err
				}
				fmt.Println(v.Document)
			}
		}()
	}
	return <-ended
}

func version(document string) index.Version {
	return index.Version{Collection: "a", Document: document, Number: 1}
}

// two is a chunk of two words.
func two(number int, word string) index.Chunk {
	return index.Chunk{Index: number, Length: 2, Vector: []float32{0.6, 0.8},
		Terms: []index.Term{{Text: "all", Weight: 1}, {Text: word, Weight: 300}}}
}

func open(t *testing.T, dir string) *diskindex.Index {
	t.Helper()
	x, err := diskindex.Open(dir)
	require.NoError(t, err)
	t.Cleanup(x.Close)
	return x
}

func collectionFile(t *testing.T, dir string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.collection"))
	require.NoError(t, err)
	require.Len(t, names, 1)
	return names[0]
}

// documents returns the number of chunks of each document that the word finds.
func documents(t *testing.T, x index.Index, word string) map[string]int {
	t.Helper()
	r, err := x.Query(t.Context(), index.Query{Collections: []string{"a"}, Terms: [][]string{{word}},
		Vector: []float32{1, 0}, Limit: index.MaxLimit})
	require.NoError(t, err)
	found := map[string]int{}
	for _, c := range r.Candidates {
		assert.Equal(t, 2, c.Length)
		assert.InDelta(t, 0.6, c.Cosine, 0.01)
		if c.Weights[0] > 0 {
			found[c.Document]++
		}
	}
	return found
}

func TestWhatWasPutIsThereAfterAKill(t *testing.T) {
	dir := t.TempDir()
	for round := range 3 {
		child := exec.CommandContext(t.Context(), os.Args[0])
		child.Env = append(os.Environ(), folderOfChild+"="+dir)
		child.Stderr = os.Stderr
		out, err := child.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, child.Start())
		var put []string
		for lines := bufio.NewScanner(out); len(put) < 50 && lines.Scan(); {
			put = append(put, lines.Text())
		}
		require.NoError(t, child.Process.Kill())
		_ = child.Wait() // it was killed
		require.Len(t, put, 50)
		x := open(t, dir)
		found := documents(t, x, "all")
		for _, d := range put {
			assert.Equal(t, 2, found[d], "round %d: document %s", round, d)
		}
		require.NoError(t, x.Put(t.Context(), version("after"), 2, []index.Chunk{two(round, "after")}))
		x.Close()
	}
	assert.Equal(t, map[string]int{"after": 3}, documents(t, open(t, dir), "after"))
}

func TestATornTailIsCut(t *testing.T) {
	whole := t.TempDir()
	x := open(t, whole)
	require.NoError(t, x.Put(t.Context(), version("first"), 2, []index.Chunk{two(0, "first")}))
	path := collectionFile(t, whole)
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, x.Put(t.Context(), version("second"), 2, []index.Chunk{two(0, "second")}))
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Greater(t, len(after), len(before))
	check := func(name string, content []byte, want map[string]int) {
		dir := t.TempDir()
		copyFiles(t, whole, dir)
		require.NoError(t, os.WriteFile(collectionFile(t, dir), content, 0o600))
		x := open(t, dir)
		assert.Equal(t, want, documents(t, x, "all"), name)
		require.NoError(t, x.Put(t.Context(), version("third"), 2, []index.Chunk{two(0, "third")}))
		x.Close()
		again := documents(t, open(t, dir), "all")
		assert.Equal(t, 1, again["third"], name)
		assert.Len(t, again, len(want)+1, name)
	}
	first := map[string]int{"first": 1}
	for cut := len(before); cut < len(after); cut++ {
		check(fmt.Sprint("cut at ", cut), after[:cut], first)
	}
	for at := len(before); at < len(after); at++ {
		damaged := []byte(string(after))
		damaged[at] ^= 0x10
		check(fmt.Sprint("damaged at ", at), damaged, first)
	}
	for cut := range headerEnd(t, before) {
		check(fmt.Sprint("header cut at ", cut), after[:cut], map[string]int{})
	}
	check("zeros at the end", append([]byte(string(after)), make([]byte, 5000)...),
		map[string]int{"first": 1, "second": 1})
}

// A record after a damaged one does not come back, even if the next put is as long as the damaged record.
func TestWhatFollowsADamagedRecordIsGone(t *testing.T) {
	dir := t.TempDir()
	x := open(t, dir)
	require.NoError(t, x.Put(t.Context(), version("d"), 2, []index.Chunk{two(0, "w"), two(1, "w")}))
	x.Close()
	path := collectionFile(t, dir)
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	b[headerEnd(t, b)+10] ^= 1
	require.NoError(t, os.WriteFile(path, b, 0o600))
	x = open(t, dir)
	require.Empty(t, documents(t, x, "w"))
	require.NoError(t, x.Put(t.Context(), version("d"), 2, []index.Chunk{two(0, "w")}))
	x.Close()
	assert.Equal(t, map[string]int{"d": 1}, documents(t, open(t, dir), "w"))
}

// headerEnd is where the first record begins: after the text, dimensions, length of the name, name and checksum.
func headerEnd(t *testing.T, file []byte) int {
	t.Helper()
	line := strings.IndexByte(string(file), '\n')
	require.Positive(t, line)
	return line + 1 + 4 + 2 + len("a") + 4
}

func TestAnotherCollectionsFileIsRefusedUntilItIsDropped(t *testing.T) {
	dir := t.TempDir()
	x := open(t, dir)
	require.NoError(t, x.Put(t.Context(), version("d"), 2, []index.Chunk{two(0, "w")}))
	x.Close()
	path := collectionFile(t, dir)
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	b[30] ^= 1
	require.NoError(t, os.WriteFile(path, b, 0o600))
	x = open(t, dir)
	_, err = x.Query(t.Context(), index.Query{Collections: []string{"a"}, Terms: [][]string{{"w"}}, Limit: 1})
	require.ErrorContains(t, err, "not the file of this collection")
	require.Error(t, x.Put(t.Context(), version("d"), 2, []index.Chunk{two(0, "w")}))
	require.NoError(t, x.Drop(t.Context(), "a"))
	require.NoError(t, x.Put(t.Context(), version("e"), 2, []index.Chunk{two(0, "w")}))
	assert.Equal(t, map[string]int{"e": 1}, documents(t, x, "w"))
}

func TestAClosedIndexTakesNoCalls(t *testing.T) {
	dir := t.TempDir()
	x := open(t, dir)
	x.Close()
	x.Close()
	require.ErrorIs(t, x.Put(t.Context(), version("d"), 2, nil), diskindex.ErrClosed)
	_, err := x.Query(t.Context(), index.Query{Limit: 1})
	require.ErrorIs(t, err, diskindex.ErrClosed)
	open(t, dir)
}

func TestALostFolderHasAnotherIdentity(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "below", "index")
	x := open(t, dir)
	identity := x.Identity()
	require.NotEmpty(t, identity)
	require.NoError(t, x.Put(t.Context(), version("d"), 2, []index.Chunk{two(0, "w")}))
	x.Close()
	x = open(t, dir)
	require.Equal(t, identity, x.Identity())
	x.Close()
	require.NoError(t, os.Remove(filepath.Join(dir, "identity")))
	x = open(t, dir)
	assert.NotEqual(t, identity, x.Identity())
	assert.Empty(t, documents(t, x, "w"), "what has no identity is nobody's")
	x.Close()
	identity = x.Identity()
	require.NoError(t, os.RemoveAll(dir))
	assert.NotEqual(t, identity, open(t, dir).Identity())
}

func TestDeadChunksLeaveTheFile(t *testing.T) {
	dir := t.TempDir()
	x := open(t, dir)
	var chunks []index.Chunk
	for i := range 300 {
		chunks = append(chunks, two(i, "w"+strconv.Itoa(i)))
	}
	sizes := map[string]int64{}
	for round := range 6 {
		require.NoError(t, x.Put(t.Context(), version("same"), 2, chunks))
		info, err := os.Stat(collectionFile(t, dir))
		require.NoError(t, err)
		sizes["largest"] = max(sizes["largest"], info.Size())
		if round == 0 {
			sizes["first"] = info.Size()
		}
	}
	assert.LessOrEqual(t, sizes["largest"], 3*sizes["first"])
	assert.Equal(t, map[string]int{"same": 300}, documents(t, x, "all"))
	assert.Equal(t, map[string]int{"same": 1}, documents(t, x, "w299"))
	require.NoError(t, x.Put(t.Context(), version("other"), 2, []index.Chunk{two(0, "other")}))
	require.NoError(t, x.Remove(t.Context(), version("same")))
	x.Close()
	x = open(t, dir)
	assert.Equal(t, map[string]int{"other": 1}, documents(t, x, "all"))
	info, err := os.Stat(collectionFile(t, dir))
	require.NoError(t, err)
	assert.Less(t, info.Size(), sizes["first"]/2)
}

func TestVectorsOfACollectionHaveTheSameDimensions(t *testing.T) {
	x := open(t, t.TempDir())
	require.NoError(t, x.Put(t.Context(), version("d"), 2, []index.Chunk{two(0, "w")}))
	longer := index.Chunk{Vector: []float32{1, 0, 0}}
	require.ErrorIs(t, x.Put(t.Context(), version("d"), 3, []index.Chunk{longer}), index.ErrInvalid)
	assert.Equal(t, map[string]int{"d": 1}, documents(t, x, "w"))
}
