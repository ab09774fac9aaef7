package worker

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/blob/memblob"
	"agentplatform/internal/host"
	"agentplatform/internal/model"
	"agentplatform/internal/record"
	"agentplatform/internal/table/memtable"
)

func TestAModelIsShownTheFilesOfAMessage(t *testing.T) {
	machine := host.System()
	store := record.New(memtable.New(machine.Now), &memblob.Store{}, machine)
	file := func(id, name, kind string, data []byte) record.FileRef {
		f := store.NewFile("o", "u", name, kind)
		f.ID = id
		_, err := record.Create(t.Context(), store, f, id)
		require.NoError(t, err)
		f, err = store.FillFile(t.Context(), record.Of("o"), id, bytes.NewReader(data), int64(len(data)))
		require.NoError(t, err)
		return f.Ref()
	}
	m, err := message(t.Context(), store, record.Input{Message: "look", Files: []record.FileRef{
		file("1", "notes.md", "text/markdown", []byte("# The word is swordfish")),
		file("2", "cat.png", "image/png", []byte("\x89PNG\x00")),
		file("3", "huge.png", "image/png", bytes.Repeat([]byte{0}, maxImage+1)),
		file("4", "a.docx", "application/octet-stream", []byte("no document")),
		{FileID: "5", Name: "gone.txt", ContentType: "text/plain", Size: 3},
	}})
	require.NoError(t, err)
	assert.Equal(t, "look", m.Text, "what the user wrote stays apart from what files say")
	assert.Equal(t, []model.Image{{ContentType: "image/png", Data: []byte("\x89PNG\x00")}}, m.Images)
	assert.Equal(t, []model.Text{
		{Name: "notes.md", Text: "# The word is swordfish"},
		{Name: "huge.png", Text: "[5242881 bytes of image/png, which cannot be shown]"},
		{Name: "a.docx", Text: "[the file cannot be read: extract: it is no Word document: zip: not a valid zip file]"},
		{Name: "gone.txt", Text: "[the file is not there]"},
	}, m.Texts)
	assert.Contains(t, m.Whole(), "look\n\n<file name=\"notes.md\">\n# The word is swordfish\n</file>")
}
