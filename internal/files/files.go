// Package files takes in what users send, and gives it out again.
//
// A file's description is stored before its bytes, so that all bytes in the blob store are some file's; what nobody takes hold of
// within a day is removed. Where clients can reach the blob store, they send and read the bytes without us in between. Who holds a
// file, and when it goes, is record's to say.
//
// It must not know HTTP, nor what a file is for. It imports record, the blob port and problem.
package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"agentplatform/internal/blob"
	"agentplatform/internal/problem"
	"agentplatform/internal/record"
)

// MaxSize is how many bytes a file may have.
const MaxSize = 20 << 20

// How long the addresses are good at which clients send and read bytes by themselves.
const (
	sendLife = time.Hour
	readLife = 5 * time.Minute
)

// Files is the use case.
type Files struct {
	Store *record.Store
	// Direct is the blob store as clients reach it; nil where they do not.
	Direct blob.Direct
	Log    *slog.Logger
}

// New is what is said of a file before its bytes come.
type New struct {
	Organization, User string
	Name, ContentType  string
	Size               int64 // 0: not known
}

// Address is where a client sends a file's bytes by itself.
type Address struct {
	URL     string
	Headers map[string]string // which must be sent as they are
}

// Announce stores the description of a file whose bytes will come: to the address, or, where that is nil, to Send.
func (s *Files) Announce(ctx context.Context, n New) (record.File, *Address, error) {
	f := s.Store.NewFile(n.Organization, n.User, n.Name, n.ContentType)
	if s.Direct == nil || n.Size == 0 {
		_, err := record.Create(ctx, s.Store, f, f.ID)
		return f, nil, err
	}
	f.Size, f.Blob, f.OpenUntil = n.Size, f.DirectBlob(), f.CreatedAt.Add(sendLife)
	url, headers, err := s.Direct.PresignPut(ctx, f.Blob, f.ContentType, f.Size, sendLife)
	if err != nil {
		return f, nil, err
	}
	_, err = record.Create(ctx, s.Store, f, f.ID)
	return f, &Address{URL: url, Headers: headers}, err
}

// Take stores a file with its bytes. When it fails, nothing is left of it.
func (s *Files) Take(ctx context.Context, n New, bytes io.Reader) (record.File, error) {
	f := s.Store.NewFile(n.Organization, n.User, n.Name, n.ContentType)
	if _, err := record.Create(ctx, s.Store, f, f.ID); err != nil {
		return f, err
	}
	filled, err := s.fill(ctx, record.Of(n.Organization), f, bytes)
	if err != nil {
		s.Drop(ctx, f)
	}
	return filled, err
}

// Send stores the bytes of a file that the user has announced: nobody else may say what stands in it, nor anybody in one that a
// run makes. Who comes second is refused, whoever began first.
func (s *Files) Send(ctx context.Context, scope record.Scope, user, id string, bytes io.Reader) (record.File, error) {
	f, err := s.File(ctx, scope, id)
	if err != nil {
		return f, err
	}
	if f.Uploaded {
		return f, problem.New(problem.Conflict, "conflict", "the file's bytes have been sent already")
	}
	if f.UserID != user || f.Made {
		return f, problem.New(problem.Forbidden, "insufficient_permission", "a file's bytes are sent by the user who announced it")
	}
	return s.fill(ctx, scope, f, bytes)
}

func (s *Files) fill(ctx context.Context, scope record.Scope, f record.File, bytes io.Reader) (record.File, error) {
	filled, err := s.Store.FillFile(ctx, scope, f.ID, bytes, MaxSize)
	if errors.Is(err, blob.ErrTooLarge) {
		return f, problem.New(problem.TooLarge, "payload_too_large", "the file %s has more than %d bytes", f.Name, MaxSize)
	}
	return filled, err
}

// File reads a file's description; it looks whether bytes have come that a client sent by itself, of which nobody tells us.
func (s *Files) File(ctx context.Context, scope record.Scope, id string) (record.File, error) {
	e, err := s.Store.File(ctx, scope, id)
	f := e.Value
	if err != nil || s.Direct == nil || f.Uploaded || f.Blob == "" {
		return f, err
	}
	n, err := s.Direct.Size(ctx, f.Blob)
	if errors.Is(err, blob.ErrMissing) {
		return f, nil
	}
	if err != nil {
		return f, problem.Retry(err)
	}
	return s.Store.ChangeFile(ctx, scope, id, func(f *record.File) error {
		if !f.Uploaded { // else somebody else has seen it, too
			f.Size, f.Uploaded = n, true
		}
		return nil
	})
}

// Attach is what a message says of files that were sent before it, each once. may says why its sender may not read one,
// if so.
func (s *Files) Attach(
	ctx context.Context, scope record.Scope, ids []string, may func(record.File) error,
) ([]record.FileRef, error) {
	var refs []record.FileRef
	seen := map[string]bool{}
	for i, id := range ids {
		if seen[id] {
			continue
		}
		seen[id] = true
		f, err := s.File(ctx, scope, id)
		if err == nil {
			err = may(f)
		}
		if p, is := problem.As(err); is && p.Kind != problem.Unavailable {
			p.Fields = []problem.Field{{Location: fmt.Sprintf("file_ids[%d]", i), Message: p.Message}}
		}
		if err != nil {
			return nil, err
		}
		if !f.Uploaded {
			return nil, problem.InvalidField(fmt.Sprintf("file_ids[%d]", i), "file %s has not been uploaded yet", id)
		}
		refs = append(refs, f.Ref())
	}
	return refs, nil
}

// Content is a file's bytes, or the address at which a client reads them by itself.
type Content struct {
	URL   string
	Bytes io.ReadCloser // nil when there is an address
}

// Open opens the bytes of a file that has them, as a client is to see them: disposition is how they are to be kept.
func (s *Files) Open(ctx context.Context, scope record.Scope, f record.File, disposition string) (Content, error) {
	if !f.Uploaded {
		return Content{}, problem.Missing("the content of file " + f.ID)
	}
	if s.Direct != nil {
		url, err := s.Direct.PresignGet(ctx, f.Place(), disposition, f.ContentType, readLife)
		return Content{URL: url}, err
	}
	body, err := s.Store.OpenFile(ctx, scope, f.ID)
	if errors.Is(err, blob.ErrMissing) {
		err = problem.Missing("the content of file " + f.ID)
	}
	return Content{Bytes: body}, err
}

// Drop removes files that nobody holds, at once. What cannot be removed now goes when its day is over.
func (s *Files) Drop(ctx context.Context, files ...record.File) {
	ctx = context.WithoutCancel(ctx)
	for _, f := range files {
		if err := s.Store.RemoveFile(ctx, f.ID, func(f record.File) bool { return f.Holds > 0 }); err != nil {
			s.Log.Warn("a file could not be removed yet", "file_id", f.ID, "error", err)
		}
	}
}
