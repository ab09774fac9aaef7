package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/trace"
	"agentplatform/internal/store/blob"
	"agentplatform/internal/store/blob/memblob"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table/memtable"
	"agentplatform/internal/text/reader"
)

// fetched records the keys that are read from a store, and may truncate the values.
type fetched struct {
	blob.Store

	read   []string
	breaks bool
}

func (f *fetched) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	f.read = append(f.read, key)
	r, err := f.Store.Get(ctx, key)
	if f.breaks {
		return io.NopCloser(iotest.ErrReader(errors.New("cut"))), err
	}
	return r, err
}

func TestModelIsShownTheFilesOfAMessage(t *testing.T) {
	machine := host.System()
	blobs := &fetched{Store: &memblob.Store{}}
	store := record.New(memtable.New(machine.Now), blobs, machine)
	file := func(id, name, kind string, data []byte) record.FileRef {
		f := store.NewFile("o", "u", name, kind)
		f.ID = id
		_, err := record.Create(t.Context(), store, f, id)
		require.NoError(t, err)
		f, err = store.FillFile(t.Context(), record.Of("o"), id, bytes.NewReader(data), int64(len(data)))
		require.NoError(t, err)
		return f.Ref()
	}
	left := int64(maxShown)
	w := &Worker{Store: store, TextOf: reader.Here(store)}
	m, err := w.message(t.Context(), "o", record.Input{Message: "look", Files: []record.FileRef{
		file("1", "notes.md", "text/markdown", []byte("# The word is swordfish")),
		file("2", "cat.png", "image/png", []byte("\x89PNG\x00")),
		file("7", "large.png", "image/png", bytes.Repeat([]byte{0}, maxImage)),
		file("3", "huge.png", "image/png", bytes.Repeat([]byte{0}, maxImage+1)),
		file("4", "a.docx", "application/octet-stream", []byte("no document")),
		{FileID: "5", Name: "gone.txt", ContentType: "text/plain", Size: 3},
		{FileID: "6", Name: "song.mp3", ContentType: "audio/mpeg", Size: 3}, // is not read
	}}, &left)
	require.NoError(t, err)
	assert.Equal(t, "look", m.Text, "what the user wrote stays apart from what files say")
	require.Len(t, m.Images, 2)
	assert.Equal(t, model.Image{ContentType: "image/png", Data: []byte("\x89PNG\x00")}, m.Images[0])
	assert.Len(t, m.Images[1].Data, maxImage, "the largest that is shown")
	assert.Equal(t, []model.Text{
		{Name: "notes.md", Text: "# The word is swordfish"},
		{Name: "huge.png", Text: "[5242881 bytes of image/png, which cannot be shown]"},
		{Name: "a.docx", Text: "[the file cannot be read: extract: it is not a valid Word document: " +
			"zip: not a valid zip file]"},
		{Name: "gone.txt", Text: "[the file does not exist]"},
		{Name: "song.mp3", Text: "[3 bytes of audio/mpeg, which cannot be shown]"},
	}, m.Texts)
	assert.NotContains(t, strings.Join(blobs.read, " "), "files/3/",
		"a picture that is too large is not fetched to say so")
	many, err := w.message(t.Context(), "o", record.Input{Files: slices.Repeat([]record.FileRef{
		{FileID: "2", Name: "cat.png", ContentType: "image/png", Size: 5},
	}, maxImages+1)}, &left)
	require.NoError(t, err)
	assert.Len(t, many.Images, maxImages)
	assert.Equal(t, []model.Text{{Name: "cat.png", Text: "[5 bytes of image/png, which cannot be shown]"}}, many.Texts)
	exported := tracetest.NewInMemoryExporter()
	traced := trace.With(t.Context(), trace.New(1, exported))
	_, err = w.message(traced, "o", record.Input{Files: []record.FileRef{
		{FileID: "1", Name: "PRIVATE.md", ContentType: "text/markdown", Size: 3},
		{FileID: "5", Name: "gone.txt", ContentType: "text/plain", Size: 3},
		{FileID: "2", Name: "cat.png", ContentType: "image/png", Size: 5},
	}}, &left)
	require.NoError(t, err)
	var spans []string
	for _, s := range exported.GetSpans() {
		all := attribute.NewSet(s.Attributes...)
		code, _ := all.Value("error.type")
		spans = append(spans, s.Name+" "+code.AsString())
	}
	assert.Equal(t, []string{"read file ", "read file read_failed"}, spans, "each that is read; a picture is not")
	decided := map[string]record.Decision{}
	for i := range 10 {
		decided[fmt.Sprint(i)] = record.Decision{Files: []record.FileRef{
			{FileID: "2", Name: "cat.png", ContentType: "image/png", Size: 5}}}
	}
	answers, err := w.attached(t.Context(), "o", decided, 15)
	require.NoError(t, err)
	for id, m := range answers {
		assert.Equal(t, id < "3", len(m.Images) == 1, "answer %s: the first three are shown, each time", id)
	}
	left = 5
	few, err := w.message(t.Context(), "o", record.Input{Files: slices.Repeat([]record.FileRef{
		{FileID: "2", Name: "cat.png", ContentType: "image/png", Size: 5},
	}, 2)}, &left)
	require.NoError(t, err)
	assert.Len(t, few.Images, 1, "no more bytes than a request may have")
	assert.Len(t, few.Texts, 1)
	blobs.breaks = true
	notes := record.FileRef{FileID: "1", Name: "notes.md", ContentType: "text/markdown", Size: 23}
	_, err = w.message(t.Context(), "o", record.Input{Files: []record.FileRef{notes}}, &left)
	require.Error(t, err, "half a file is not shown for a whole one")
	assert.Contains(t, m.FullText(), "look\n\n<file name=\"notes.md\">\n# The word is swordfish\n</file>")
}
