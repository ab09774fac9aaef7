package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"agentplatform/internal/blob"
	"agentplatform/internal/extract"
	"agentplatform/internal/model"
	"agentplatform/internal/record"
	"agentplatform/internal/tool"
)

// How much of a message's files a model is shown.
const (
	maxImage  = 5 << 20 // bytes; what providers take
	maxImages = 10      // of a message
)

// message is the user's message as a model is shown it: with the texts of its files, and its pictures. Of what cannot be
// read the model is told that it came.
func message(ctx context.Context, s *record.Store, organization string, in record.Input) (model.Message, error) {
	m := model.Message{Role: model.User, Text: in.Message}
	for _, f := range in.Files {
		picture := slices.Contains(model.ImageTypes, f.ContentType) && f.Size <= maxImage && len(m.Images) < maxImages
		if !picture && wordless(f) {
			m.Texts = append(m.Texts, model.Text{Name: f.Name, Text: unshown(f)})
			continue
		}
		var text string
		var err error
		if picture {
			var data []byte
			if data, err = content(ctx, s, f); err == nil {
				m.Images = append(m.Images, model.Image{ContentType: f.ContentType, Data: data})
				continue
			}
		} else {
			text, err = textOf(ctx, s, organization, f)
		}
		if errors.Is(err, blob.ErrMissing) {
			text, err = "[the file is not there]", nil
		}
		if err != nil {
			return m, err
		}
		m.Texts = append(m.Texts, model.Text{Name: f.Name, Text: text})
	}
	return m, nil
}

// wordless says, without a look into it, that a file is nothing to be read: pictures, sounds and films need not be fetched
// for that.
func wordless(f record.FileRef) bool {
	media, _, _ := strings.Cut(f.ContentType, "/")
	return f.ContentType != "image/svg+xml" && (media == "image" || media == "audio" || media == "video")
}

func unshown(f record.FileRef) string {
	return fmt.Sprintf("[%d bytes of %s, which cannot be shown]", f.Size, f.ContentType)
}

// textOf is what a file says. That it cannot be read is an answer, too; an error is what another attempt may not meet.
func textOf(ctx context.Context, s *record.Store, organization string, f record.FileRef) (string, error) {
	text, err := extract.Text(ctx, organization, extract.File{
		ContentType: f.ContentType, Name: f.Name,
		Open: func(ctx context.Context) (io.ReadCloser, error) { return open(ctx, s, f) },
	})
	var fault extract.Fault
	switch {
	case errors.Is(err, extract.ErrKind):
		return unshown(f), nil
	case errors.As(err, &fault):
		return "[the file cannot be read: " + fault.Error() + "]", nil
	}
	return text, err
}

// content reads a picture.
func content(ctx context.Context, s *record.Store, f record.FileRef) ([]byte, error) {
	r, err := open(ctx, s, f)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(r, maxImage))
	return data, errors.Join(err, r.Close())
}

func open(ctx context.Context, s *record.Store, f record.FileRef) (io.ReadCloser, error) {
	r, err := s.OpenFile(ctx, record.System(), f.FileID)
	if isGone(err) {
		return nil, blob.ErrMissing
	}
	return r, err
}

// keepFile stores a file that the run has made. The run holds it before its bytes are stored, so that they go with the run
// whatever becomes of this attempt.
func (a *attempt) keepFile(ctx context.Context, key string, file tool.File) (record.FileRef, error) {
	for try := range keepTries {
		e, err := a.Store.Run(ctx, record.System(), a.id)
		if err != nil {
			return record.FileRef{}, err
		}
		r := e.Value
		if !a.holds(r) {
			return record.FileRef{}, errLost
		}
		f := a.Store.NewFile(r.Organization, r.User, file.Name, file.ContentType)
		f.ID = record.DerivedID(fmt.Sprintf("file/%s/%d", key, a.number), a.id)
		tx := a.Store.Begin(a.Host.NewID())
		tx.NewHeldFile(f, e)
		if err = tx.Commit(ctx); err == nil {
			f, err = a.Store.FillFile(ctx, record.System(), f.ID, bytes.NewReader(file.Data), int64(len(file.Data)))
			return f.Ref(), err
		}
		if !errors.Is(err, record.ErrStale) { // the heartbeat may have come first
			return record.FileRef{}, err
		}
		if err := a.Shell.Pause(ctx, try); err != nil {
			return record.FileRef{}, err
		}
	}
	return record.FileRef{}, errors.New("worker: the run kept changing")
}

// keepTries bounds how often a file is kept afresh because the run has changed meanwhile.
const keepTries = 16
