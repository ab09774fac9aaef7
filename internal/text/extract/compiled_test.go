package extract

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Others must not be able to put there what is executed.
func TestFolderOfCompiledCodeIsPrivate(t *testing.T) {
	in := t.TempDir()
	mine := filepath.Join(in, "mine")
	require.NoError(t, makePrivate(mine))
	require.NoError(t, makePrivate(mine), "again")
	open := filepath.Join(in, "open")
	require.NoError(t, os.Mkdir(open, 0o700))
	require.NoError(t, os.Chmod(open, 0o770)) //nolint:gosec // what must be refused
	assert.ErrorContains(t, makePrivate(open), "not a folder of this user alone")
	link := filepath.Join(in, "link")
	require.NoError(t, os.Symlink(mine, link))
	assert.ErrorContains(t, makePrivate(link), "not a folder of this user alone")
	file := filepath.Join(in, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	assert.Error(t, makePrivate(file))
}

// Who waits for the compiler gives up with its context, and an error is not remembered.
func TestCompilingObeysItsContext(t *testing.T) {
	was := pdfFolder
	t.Cleanup(func() { pdfFolder = was })
	wrong := errors.New("no room")
	pdfFolder = func() (string, error) { return "", wrong }
	_, _, err := job{Format: portable}.inChild(t.Context(), nil)
	require.ErrorIs(t, err, wrong)
	pdfFolder = was
	defer compiled.Store(compiled.Swap(false))
	require.NoError(t, compiling.Acquire(t.Context(), 1)) // somebody compiles
	gone, leave := context.WithCancel(t.Context())
	leave()
	_, _, err = job{Format: portable}.inChild(gone, nil)
	require.ErrorIs(t, err, context.Canceled)
	compiling.Release(1)
	_, err = readTerms(t)
	require.NoError(t, err)
	assert.True(t, compiled.Load())
}

// What was removed or broken since it was compiled is compiled again, and the PDF is read.
func TestBrokenCompiledCodeIsMadeAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("long: it compiles")
	}
	folder := filepath.Join(t.TempDir(), "compiled")
	require.NoError(t, makePrivate(folder))
	was := pdfFolder
	t.Cleanup(func() { pdfFolder = was })
	pdfFolder = func() (string, error) { return folder, nil }
	read, err := readTerms(t)
	require.NoError(t, err)
	assert.Contains(t, read, "Terms of delivery")
	made, err := filepath.Glob(filepath.Join(folder, "*", "*"))
	require.NoError(t, err)
	require.Len(t, made, 1)
	code, err := os.ReadFile(made[0])
	require.NoError(t, err)
	code[len(code)/2] ^= 1
	require.NoError(t, os.WriteFile(made[0], code, 0o600))
	read, err = readTerms(t)
	require.NoError(t, err)
	assert.Contains(t, read, "Terms of delivery")
}

// A reader that cannot be compiled is not a fault of the file: another attempt may read it.
func TestWhatCannotCompileIsNoFault(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "file", "folder")
	require.NoError(t, os.WriteFile(filepath.Dir(folder), nil, 0o600))
	was := pdfFolder
	t.Cleanup(func() { pdfFolder = was })
	pdfFolder = func() (string, error) { return folder, nil }
	_, err := readTerms(t)
	require.ErrorContains(t, err, "what reads PDFs cannot be compiled")
	_, is := errors.AsType[Fault](err)
	assert.False(t, is, "%v", err)
}

func readTerms(t *testing.T) (string, error) {
	data, err := os.ReadFile("testdata/standard-font.pdf")
	require.NoError(t, err)
	return Text(t.Context(), "a", File{Name: "a.pdf", Open: func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(data)), nil
	}})
}
