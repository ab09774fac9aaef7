package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"agentplatform/internal/blob"
	"agentplatform/internal/extract"
	"agentplatform/internal/model"
	"agentplatform/internal/record"
	"agentplatform/internal/tool"
)

// How much of a message's files a model is shown.
const (
	maxImage  = 5 << 20  // bytes; what providers take
	maxImages = 10       // of a message
	maxFile   = 20 << 20 // bytes of a file whose text is read
)

// message is the user's message as a model is shown it: with the texts of its files, and its pictures. Of what cannot be
// read the model is told that it came.
func message(ctx context.Context, s *record.Store, in record.Input) (model.Message, error) {
	m := model.Message{Role: model.User, Text: in.Message}
	for _, f := range in.Files {
		picture := slices.Contains(model.ImageTypes, f.ContentType) && f.Size <= maxImage && len(m.Images) < maxImages
		data, err := content(ctx, s, f)
		switch {
		case errors.Is(err, blob.ErrMissing):
			m.Texts = append(m.Texts, model.Text{Name: f.Name, Text: "[the file is not there]"})
		case err != nil:
			return m, err
		case picture:
			m.Images = append(m.Images, model.Image{ContentType: f.ContentType, Data: data})
		default:
			m.Texts = append(m.Texts, model.Text{Name: f.Name, Text: textOf(ctx, f, data)})
		}
	}
	return m, nil
}

func textOf(ctx context.Context, f record.FileRef, data []byte) string {
	text, err := extract.Text(ctx, f.ContentType, f.Name, data)
	switch {
	case errors.Is(err, extract.ErrKind):
		return fmt.Sprintf("[%d bytes of %s, which cannot be shown]", f.Size, f.ContentType)
	case err != nil:
		return "[the file cannot be read: " + err.Error() + "]"
	}
	return text
}

// content reads a file, up to what is looked at.
func content(ctx context.Context, s *record.Store, f record.FileRef) ([]byte, error) {
	r, err := s.Blobs().Get(ctx, record.File{ID: f.FileID}.BlobKey())
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(r, maxFile))
	return data, errors.Join(err, r.Close())
}

// keepFile stores a file that the run has made, once for each key.
func (a *attempt) keepFile(ctx context.Context, key string, file tool.File) (record.FileRef, error) {
	run := a.current().Value
	f := record.File{
		ID: record.DerivedID("file/"+key, a.id), Organization: run.Organization, UserID: run.User, Name: file.Name, ContentType: file.ContentType,
		Size: int64(len(file.Data)), Uploaded: true, CreatedAt: a.Host.Now(),
	}
	if err := blob.PutBytes(ctx, a.Store.Blobs(), f.BlobKey(), file.Data); err != nil {
		return record.FileRef{}, err
	}
	op, err := record.PutResource(record.Fresh(f), f.ID)
	if err != nil {
		return record.FileRef{}, err
	}
	err = a.Store.Commit(ctx, f.ID, op)
	if errors.Is(err, record.ErrStale) { // an attempt before has kept it
		err = nil
	}
	return f.Ref(), err
}
