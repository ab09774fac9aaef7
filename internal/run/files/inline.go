package files

import (
	"bytes"
	"context"
	"encoding/base64"
	"strings"

	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
)

// Inline is a file that came within JSON.
type Inline struct {
	Name, ContentType string
	Data              []byte
}

// Decode reads a file's bytes from base64 with padding. A name is made of the content type where there is none. The
// error is a problem of kind Invalid that names the field.
func Decode(field, name, contentType, text string) (Inline, error) {
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return Inline{}, problem.InvalidField(field, "must be base64 with padding")
	}
	return NewInline(field, name, contentType, data)
}

// NewInline is Decode of bytes.
func NewInline(field, name, contentType string, data []byte) (Inline, error) {
	if len(data) == 0 {
		return Inline{}, problem.InvalidField(field, "has no bytes")
	}
	if contentType == "" {
		contentType = "application/octet-stream"
	}
	if name == "" {
		_, extension, _ := strings.Cut(contentType, "/")
		name = "file." + strings.TrimSuffix(extension, "+xml")
	}
	return Inline{Name: name, ContentType: contentType, Data: data}, nil
}

// TakeInline stores files of a user. After an error nothing is left of them; it is that of [Files.Take].
func (s *Files) TakeInline(ctx context.Context, organization, user string, list []Inline) ([]record.File, error) {
	var taken []record.File
	for _, f := range list {
		file, err := s.Take(ctx, New{
			Organization: organization, User: user, Name: f.Name, ContentType: f.ContentType, Size: int64(len(f.Data)),
		}, bytes.NewReader(f.Data))
		if err != nil {
			s.Drop(ctx, taken...)
			return nil, err
		}
		taken = append(taken, file)
	}
	return taken, nil
}
