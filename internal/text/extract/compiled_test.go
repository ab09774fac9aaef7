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

// Other users must not be able to put files into the folder: they are executed.
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

// A caller that waits for the compiler gives up with its context, and an error is not remembered.
func TestCompilingObeysItsContext(t *testing.T) {
	wrong := errors.New("no room")
	c := newCompiled(func() (string, error) { return "", wrong })
	_, err := c.ready(t.Context(), false)
	require.ErrorIs(t, err, wrong)
	<-c.turn // somebody compiles
	gone, leave := context.WithCancel(t.Context())
	leave()
	_, err = c.ready(gone, false)
	assert.ErrorIs(t, err, context.Canceled)
	c.folder = "there"
	c.turn <- struct{}{}
	folder, err := c.ready(t.Context(), false)
	require.NoError(t, err)
	assert.Equal(t, "there", folder)
}

// An e-mail without a PDF does not need the compiled module.
func TestMailWithoutPDFIsReadWhereNothingCompiles(t *testing.T) {
	was := pdfReader
	t.Cleanup(func() { pdfReader = was })
	wrong := errors.New("no room")
	pdfReader = newCompiled(func() (string, error) { return "", wrong })
	text, err := documentOf(t, "", "a.eml", enclosing("a.txt", "words"))
	require.NoError(t, err)
	assert.Contains(t, text.Body, "words")
	_, err = documentOf(t, "", "a.eml", enclosing("a.pdf", "%PDF-1.7"))
	assert.ErrorIs(t, err, wrong)
}

// Code that was removed or broken since it was compiled is compiled again, and the PDF is read.
func TestBrokenCompiledCodeIsMadeAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("long: it compiles")
	}
	folder := filepath.Join(t.TempDir(), "compiled")
	require.NoError(t, makePrivate(folder))
	was := pdfReader
	t.Cleanup(func() { pdfReader = was })
	pdfReader = newCompiled(func() (string, error) { return folder, nil })
	pdfReader.folder = folder // but nothing is there
	data, err := os.ReadFile("testdata/standard-font.pdf")
	require.NoError(t, err)
	f := File{Name: "a.pdf", Open: func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(data)), nil
	}}
	read, err := Text(t.Context(), "a", f)
	require.NoError(t, err)
	assert.Contains(t, read, "Terms of delivery")
	made, err := filepath.Glob(filepath.Join(folder, "*", "*"))
	require.NoError(t, err)
	require.Len(t, made, 1)
	code, err := os.ReadFile(made[0])
	require.NoError(t, err)
	code[len(code)/2] ^= 1
	require.NoError(t, os.WriteFile(made[0], code, 0o600))
	read, err = Text(t.Context(), "a", f)
	require.NoError(t, err)
	assert.Contains(t, read, "Terms of delivery")
}
