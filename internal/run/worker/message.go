package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	oteltrace "go.opentelemetry.io/otel/trace"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/platform/trace"
	"agentplatform/internal/store/blob"
	"agentplatform/internal/store/record"
	"agentplatform/internal/text/extract"
)

// Limits of the pictures for a model.
const (
	maxImage  = 5 << 20  // bytes; the limit of the providers
	maxImages = 10       // per message
	maxShown  = 16 << 20 // bytes of all in a run: they are in memory three times, with base64 (docs/limits.md)
)

// message is the user's message for a model, with the texts of its files and its pictures. A file that cannot be read
// is replaced by a note. So is a picture with more bytes than left, the rest of the run's bytes for pictures.
func (w *Worker) message(
	ctx context.Context, organization string, in record.Input, left *int64,
) (model.Message, error) {
	m := model.Message{Role: model.User, Text: in.Message}
	for _, f := range in.Files {
		picture := slices.Contains(model.ImageTypes, f.ContentType) && f.Size <= min(maxImage, *left) &&
			len(m.Images) < maxImages
		if !picture && hasNoText(f) {
			m.Texts = append(m.Texts, model.Text{Name: f.Name, Text: placeholder(f)})
			continue
		}
		var text string
		var err error
		if picture {
			var data []byte
			if data, err = w.content(ctx, f); err == nil {
				*left -= int64(len(data))
				m.Images = append(m.Images, model.Image{ContentType: f.ContentType, Data: data})
				continue
			}
		} else {
			text, err = w.textOf(ctx, organization, f)
		}
		if errors.Is(err, blob.ErrMissing) {
			text, err = "[the file does not exist]", nil
		}
		if err != nil {
			return m, err
		}
		m.Texts = append(m.Texts, model.Text{Name: f.Name, Text: text})
	}
	return m, nil
}

// attached returns the files of decisions as messages for a model, by interrupt id. Each attempt has the same pictures.
func (w *Worker) attached(
	ctx context.Context, organization string, decided map[string]record.Decision, left int64,
) (map[string]model.Message, error) {
	all := map[string]model.Message{}
	for _, id := range slices.Sorted(maps.Keys(decided)) {
		if len(decided[id].Files) == 0 {
			continue
		}
		m, err := w.message(ctx, organization, record.Input{Files: decided[id].Files}, &left)
		if err != nil {
			return nil, err
		}
		all[id] = m
	}
	return all, nil
}

// hasNoText reports whether a file has no text by its content type: images, audio and video need not be read.
func hasNoText(f record.FileRef) bool {
	media, _, _ := strings.Cut(f.ContentType, "/")
	return f.ContentType != "image/svg+xml" && (media == "image" || media == "audio" || media == "video")
}

func placeholder(f record.FileRef) string {
	return fmt.Sprintf("[%d bytes of %s, which cannot be shown]", f.Size, f.ContentType)
}

// textOf is the text of a file, or a note that it cannot be read. An error is temporary: another attempt may succeed.
func (w *Worker) textOf(ctx context.Context, organization string, f record.FileRef) (string, error) {
	ctx, span := trace.Start(ctx, oteltrace.SpanKindClient, "read", "file")
	defer span.End()
	span.SetAttributes(trace.OrganizationID.String(organization), attribute.Int64("agentplatform.file.bytes", f.Size))
	text, err := w.TextOf(ctx, organization, f)
	if err != nil {
		trace.Fail(span, "read_failed")
	}
	var fault extract.Fault
	switch {
	case errors.Is(err, extract.ErrKind):
		return placeholder(f), nil
	case errors.As(err, &fault):
		return "[the file cannot be read: " + fault.Error() + "]", nil
	}
	return text, err
}

// content reads the bytes of a picture.
func (w *Worker) content(ctx context.Context, f record.FileRef) ([]byte, error) {
	r, err := w.Store.OpenFile(ctx, record.System(), f.FileID)
	if isGone(err) {
		return nil, blob.ErrMissing
	}
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(r, maxImage))
	return data, errors.Join(err, r.Close())
}
