package files

import (
	"bytes"
	"context"
	"encoding/base64"
	"strings"

	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
)

// Inline is a file that is sent within JSON.
type Inline struct {
	Name, ContentType string
	Data              []byte
}

// Decode decodes a file's bytes from base64 with padding. If name is empty, it is made from the content type. The error
// is a problem of kind Invalid that names the field.
func Decode(field, name, contentType, text string) (Inline, error) {
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return Inline{}, problem.InvalidField(field, "must be base64 with padding")
	}
	return NewInline(field, name, contentType, data)
}

// NewInline makes a file from bytes that are already decoded. Defaults and errors are as for [Decode].
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

// TakeInline stores files of a user. After an error none of them is left. The error is that of [Files.Take].
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
