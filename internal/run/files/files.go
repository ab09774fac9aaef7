// Package files stores the files that users upload, and returns them.
//
// The description of a file is stored before its bytes, so that all bytes in the blob store belong to a file. A file
// that no run refers to within a day is deleted. Where clients can reach the blob store, they send and read the bytes
// there directly. Package record defines which runs refer to a file and when the file is deleted.
//
// The package must not know HTTP, nor the purpose of a file. It imports record, the blob port and problem.
package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/blob"
	"agentplatform/internal/store/record"
)

// The maximum sizes of a file in bytes: MaxSize for a message, MaxDocument for a knowledge base.
const (
	MaxSize     = 20 << 20
	MaxDocument = 50 << 20
)

// sendLife is how long a presigned address is valid for a client that sends bytes directly.
const sendLife = time.Hour

// Files is the use case.
type Files struct {
	Store *record.Store
	Log   *slog.Logger
}

// direct returns the blob store if clients can reach it.
func (s *Files) direct() (d blob.Direct, is bool) {
	d, is = s.Store.Blobs().(blob.Direct)
	return d, is
}

// New describes a file before its bytes arrive.
type New struct {
	Organization, User string
	Name, ContentType  string
	Size               int64 // bytes; 0: not known
	Document           bool  // for a knowledge base
}

func limit(document bool) int64 {
	if document {
		return MaxDocument
	}
	return MaxSize
}

// Address is the address to which a client sends a file's bytes directly.
type Address struct {
	URL     string
	Headers map[string]string // to be sent unchanged
}

func (s *Files) newFile(n New) record.File {
	f := s.Store.NewFile(n.Organization, n.User, n.Name, n.ContentType)
	f.Document, f.Size = n.Document, n.Size
	return f
}

// Announce stores the description of a file whose bytes will follow. The client sends them to the address or, if that
// is nil, by Send. The errors are those of the store and of presigning, and a problem of kind Limited at a limit of
// files.
func (s *Files) Announce(ctx context.Context, n New) (record.File, *Address, error) {
	f := s.newFile(n)
	direct, is := s.direct()
	if !is || n.Size == 0 {
		return f, nil, s.Store.CreateFile(ctx, f)
	}
	f.Blob, f.OpenUntil = f.DirectBlob(), f.CreatedAt.Add(sendLife)
	url, headers, err := direct.PresignPut(ctx, f.Blob, f.ContentType, f.Size, sendLife)
	if err != nil {
		return f, nil, err
	}
	return f, &Address{URL: url, Headers: headers}, s.Store.CreateFile(ctx, f)
}

// Take stores a file with its bytes. After an error no part of the file is left. The error is a problem of kind
// TooLarge above [MaxSize] or [MaxDocument], of kind Limited at a limit of files, or the error of reading or storing
// the bytes.
func (s *Files) Take(ctx context.Context, n New, bytes io.Reader) (record.File, error) {
	f := s.newFile(n)
	if err := s.Store.CreateFile(ctx, f); err != nil {
		return f, err
	}
	filled, err := s.fill(ctx, record.Of(n.Organization), f, bytes)
	if err != nil {
		s.Drop(ctx, f)
	}
	return filled, err
}

// Send stores the bytes of an announced file. length is their number, or negative if not known. A wrong length is
// refused before a byte is read. Only the user who announced the file may send its bytes. No user may send the bytes of
// a file that a run makes. Send returns:
//
//   - a problem of kind NotFound;
//   - of kind Forbidden: outside_organization or insufficient_permission;
//   - of kind Conflict if the bytes are stored already, or if two calls send them at the same time;
//   - of kind Invalid if the size is not the announced one;
//   - of kind TooLarge above [MaxSize] or [MaxDocument];
//   - or the error of reading or storing the bytes.
func (s *Files) Send(
	ctx context.Context, scope record.Scope, user, id string, bytes io.Reader, length int64,
) (record.File, error) {
	f, err := s.File(ctx, scope, id)
	if err != nil {
		return f, err
	}
	if f.UserID != user || f.Made {
		return f, problem.New(problem.Forbidden, "insufficient_permission",
			"only the user who announced the file may upload it")
	}
	if f.Uploaded {
		return f, problem.New(problem.Conflict, "conflict", "the file is already uploaded")
	}
	if f.Size > 0 {
		sized := &exactly{Reader: bytes, size: f.Size}
		if length >= 0 && length != f.Size {
			return f, sized.wrong()
		}
		bytes = sized
	}
	if most := limit(f.Document); length > most {
		return f, tooLarge(f, most)
	}
	return s.fill(ctx, scope, f, bytes)
}

// exactly is a reader that fails if the number of bytes is not size.
type exactly struct {
	io.Reader

	size, read int64
}

func (e *exactly) Read(b []byte) (int, error) {
	n, err := e.Reader.Read(b)
	if e.read += int64(n); e.read > e.size || errors.Is(err, io.EOF) && e.read < e.size {
		err = e.wrong()
	}
	return n, err
}

func (e *exactly) wrong() error {
	return problem.InvalidField("body", "must have the announced %d bytes", e.size)
}

func (s *Files) fill(ctx context.Context, scope record.Scope, f record.File, bytes io.Reader) (record.File, error) {
	most := limit(f.Document)
	filled, err := s.Store.FillFile(ctx, scope, f.ID, bytes, most)
	if errors.Is(err, blob.ErrTooLarge) {
		return f, tooLarge(f, most)
	}
	return filled, err
}

func tooLarge(f record.File, most int64) error {
	return problem.New(problem.TooLarge, "payload_too_large", "the file %s has more than %d bytes", f.Name, most)
}

// File reads a file's description. A client may have sent the bytes directly to the blob store, without a report to the
// service. File then asks the blob store, and stores the size if the bytes are there. It returns a problem of kind
// NotFound, Forbidden, or Unavailable if the blob store fails.
func (s *Files) File(ctx context.Context, scope record.Scope, id string) (record.File, error) {
	e, err := s.Store.File(ctx, scope, id)
	f := e.Value
	direct, is := s.direct()
	if err != nil || !is || f.Uploaded || f.Blob == "" {
		return f, err
	}
	n, err := direct.Size(ctx, f.Blob)
	if errors.Is(err, blob.ErrMissing) {
		return f, nil
	}
	if err != nil {
		return f, problem.Retry(err)
	}
	return s.Store.ChangeFile(ctx, scope, id, func(f *record.File) error {
		if !f.Uploaded { // else another call has stored it
			f.Size, f.Uploaded = n, true
		}
		return nil
	})
}

// Attach returns references to the files with these ids, each file once. may returns the reason why the sender may not
// read a file, or nil. Attach returns the errors of File and may, with the field file_ids[n]. It returns a problem of
// kind Invalid for a file without bytes, or above [MaxSize].
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
			return nil, problem.InvalidField(fmt.Sprintf("file_ids[%d]", i),
				"the file %s is not uploaded yet: upload it first", id)
		}
		if f.Size > MaxSize {
			return nil, problem.InvalidField(fmt.Sprintf("file_ids[%d]", i),
				"the file %s is for a knowledge base: files of messages have at most %d bytes", id, MaxSize)
		}
		refs = append(refs, f.Ref())
	}
	return refs, nil
}

// Open opens the bytes of a file for a client that may read it. disposition is the Content-Disposition that a presigned
// address answers with. Open returns a problem of kind NotFound if there are no bytes, or the error of presigning or of
// the blob store.
func (s *Files) Open(ctx context.Context, f record.File, disposition string) (blob.Content, error) {
	if !f.Uploaded {
		return blob.Content{}, problem.Missing("the content of file " + f.ID)
	}
	content, err := blob.Open(ctx, s.Store.Blobs(), f.BlobPrefix(), disposition, f.ContentType)
	if errors.Is(err, blob.ErrMissing) {
		err = problem.Missing("the content of file " + f.ID)
	}
	return content, err
}

// Delete deletes a file. may returns the reason why the caller may not delete it, or nil. Delete returns the errors of
// File and may, a problem of kind Conflict for a file that runs or messages refer to, or the errors of the blob store.
func (s *Files) Delete(ctx context.Context, scope record.Scope, id string, may func(record.File) error) error {
	f, err := s.File(ctx, scope, id)
	if err == nil {
		err = may(f)
	}
	if err != nil {
		return err
	}
	held := 0
	err = s.Store.DeleteFile(ctx, id, func(f record.File) bool {
		if held = f.References; held == 0 && f.Due.IsZero() { // an earlier version stored it and counted no references
			held = 1
		}
		return held > 0
	})
	if err == nil && held > 0 {
		err = problem.New(problem.Conflict, "conflict",
			"%d runs or messages use the file: delete their chats instead", held).With("holds", held)
	}
	return err
}

// Drop deletes files immediately if no run refers to them. A failure is logged; the file is then deleted a day after
// its creation.
func (s *Files) Drop(ctx context.Context, files ...record.File) {
	ctx = context.WithoutCancel(ctx)
	for _, f := range files {
		if err := s.Store.RemoveFile(ctx, f.ID, func(f record.File) bool { return f.References > 0 }); err != nil {
			s.Log.Warn("a file could not be removed yet", "file_id", f.ID, "error", err)
		}
	}
}
