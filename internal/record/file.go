package record

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"slices"
	"strings"
	"time"

	"agentplatform/internal/problem"
	"agentplatform/internal/table"
)

// File is a stored file's description; its bytes are in the blob store.
//
// What needs a file holds it: a run, or a parked message under the id of the run that it will be, has a row of its own for each
// file, and the file counts those rows. Row and count change in one commit, so that each hold counts once however often the
// commit is repeated, and a file that is being taken hold of cannot be removed meanwhile. A file that nobody holds is due: at
// once when the last hold is gone, a day after it was sent when there never was one.
type File struct {
	ID           string    `json:"file_id"`
	Organization string    `json:"organization_id"`
	UserID       string    `json:"user_id"`
	Name         string    `json:"name"`
	ContentType  string    `json:"content_type"`
	Size         int64     `json:"size"`
	Uploaded     bool      `json:"uploaded"`       // the bytes are there
	Blob         string    `json:"blob,omitzero"`  // where they are, or where a client sends them to by itself
	Holds        int       `json:"holds,omitzero"` // how many hold it
	Due          time.Time `json:"due_at,omitzero"`
	Removed      bool      `json:"removed,omitzero"`    // it is gone for everybody; its bytes are being removed
	OpenUntil    time.Time `json:"open_until,omitzero"` // how long the address is good to which a client sends the bytes by itself
	Agents       []string  `json:"agents,omitzero"`     // those whose runs have held it, at most maxFileAgents; none: not known
	Made         bool      `json:"made,omitzero"`       // by a run
	CreatedAt    time.Time `json:"created_at"`
}

func (f File) placed() (string, string, string) { return "file", f.ID, f.Organization }

func (f File) due() time.Time { return f.Due }

// fileBlobs is where all bytes are kept that were ever sent for a file.
func fileBlobs(id string) string { return "files/" + id + "/" }

// DirectBlob is where a client sends a file's bytes by itself.
func (f File) DirectBlob() string { return fileBlobs(f.ID) + "direct" }

// Place is where a file's bytes are. Descriptions that name no place were written when each file had one place for ever.
func (f File) Place() string {
	if f.Blob == "" {
		return "files/" + f.ID
	}
	return f.Blob
}

// Ref is the file as a run names it.
func (f File) Ref() FileRef {
	return FileRef{FileID: f.ID, Name: f.Name, ContentType: f.ContentType, Size: f.Size}
}

// UnusedLife is how long a file is kept that nobody has taken hold of.
const UnusedLife = 24 * time.Hour

// NewFile makes the description of a file whose bytes have not come yet. It is stored before them, so that whatever is sent
// is some file's. Name and type come from clients and from servers of tools, and are told to others in headers: control
// characters and what is over 255 bytes are cut off a name, and what is no media type is application/octet-stream.
func (s *Store) NewFile(organization, user, name, contentType string) File {
	now := s.host.Now()
	return File{
		ID: s.host.NewID(), Organization: organization, UserID: user, Name: fileName(name), ContentType: mediaType(contentType),
		CreatedAt: now, Due: now.Add(UnusedLife),
	}
}

// IsMediaType says whether a text is a media type, with or without parameters, that fits into a header.
func IsMediaType(s string) bool {
	kind, _, err := mime.ParseMediaType(s)
	printable := strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) < 0
	return err == nil && strings.Contains(kind, "/") && printable && len(s) <= 200
}

func mediaType(s string) string {
	if !IsMediaType(s) {
		return "application/octet-stream"
	}
	return s
}

func fileName(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, s)
	if len(s) > 255 {
		s = strings.ToValidUTF8(s[:255], "")
	}
	if s == "" {
		return "file"
	}
	return s
}

// File reads a file's description.
func (s *Store) File(ctx context.Context, scope Scope, id string) (Entity[File], error) {
	e, err := Resource[File](ctx, s, scope, id)
	if err == nil && e.Value.Removed {
		err = problem.Missing("file " + id)
	}
	e.Value.ContentType = mediaType(e.Value.ContentType) // it was stored as it came once
	return e, err
}

// ChangeFile edits a file's description as it stands.
func (s *Store) ChangeFile(ctx context.Context, scope Scope, id string, edit func(f *File) error) (File, error) {
	e, err := Change(ctx, s, scope, id, 0, func(f *File, _ *Tx) error {
		if f.Removed {
			return problem.Missing("file " + id)
		}
		return edit(f)
	})
	return e.Value, err
}

// errFilled says that the bytes are there already, from a try before.
var errFilled = errors.New("record: the file has these bytes")

// FillFile stores the bytes of a file. They are kept under a key of their own until the description names them: who comes
// second is told so, and what it sent is dropped.
func (s *Store) FillFile(ctx context.Context, scope Scope, id string, r io.Reader, limit int64) (File, error) {
	key := fileBlobs(id) + s.host.NewID()
	n, err := s.blobs.Put(ctx, key, r, limit)
	if err != nil {
		return File{}, err
	}
	ctx = context.WithoutCancel(ctx) // a client that goes now must not leave what it sent
	f, err := s.ChangeFile(ctx, scope, id, func(f *File) error {
		switch {
		case f.Blob == key:
			return errFilled
		case f.Uploaded:
			return problem.New(problem.Conflict, "conflict", "the file's bytes have been sent already")
		}
		f.Blob, f.Size, f.Uploaded = key, n, true
		return nil
	})
	if errors.Is(err, errFilled) {
		err = nil
	}
	if _, refused := problem.As(err); refused { // nothing else tells for sure that the description does not name them
		err = errors.Join(err, s.blobs.Delete(ctx, key))
	}
	return f, err
}

// OpenFile opens the bytes of a file: blob.ErrMissing, or a problem, where there are none.
func (s *Store) OpenFile(ctx context.Context, scope Scope, id string) (io.ReadCloser, error) {
	e, err := s.File(ctx, scope, id)
	if err != nil {
		return nil, err
	}
	if !e.Value.Uploaded {
		return nil, problem.Missing("the content of file " + id)
	}
	return s.blobs.Get(ctx, e.Value.Place())
}

// hold is the row by which a run, or a parked message, holds a file.
type hold struct{}

const holdPrefix = "file/"

func holdKey(run, file string) table.Key {
	return table.Key{Part: runPart(run), Sort: holdPrefix + file}
}

func (tx *Tx) putHold(organization, run, file string) {
	put(tx, Fresh(hold{}), table.Item{Key: holdKey(run, file), Owner: organization})
}

// NoFile says that a file which is to be held is not there, or no longer.
type NoFile struct{ ID string }

func (e *NoFile) Error() string { return "file " + e.ID + " does not exist" }

// maxFileAgents bounds how many agents a file names.
const maxFileAgents = 64

// with is the file as one more agent's.
func (f File) with(agent string) File {
	if len(f.Agents) < maxFileAgents && !slices.Contains(f.Agents, agent) {
		f.Agents = append(slices.Clip(f.Agents), agent)
	}
	return f
}

// Hold has a run of an agent, or the parked message that will be one, take hold of files; those that it holds already are
// passed over. The error is [NoFile] when one is not there.
func (tx *Tx) Hold(ctx context.Context, organization, agent, run string, files []FileRef) {
	if tx.err != nil {
		return
	}
	var keys []table.Key
	seen := map[string]bool{}
	for _, f := range files {
		if !seen[f.FileID] {
			keys = append(keys, resourceKey("file", f.FileID), holdKey(run, f.FileID))
		}
		seen[f.FileID] = true
	}
	items, err := tx.store.readAll(ctx, keys)
	tx.fail(err)
	for i := 0; i < len(items); i += 2 {
		if items[i+1] != nil {
			continue
		}
		if items[i] == nil || items[i].Owner != organization {
			tx.fail(&NoFile{strings.TrimPrefix(keys[i].Part, "file/")})
			return
		}
		e, err := decode[File](items[i])
		if err == nil && (e.Value.Removed || !e.Value.Uploaded) {
			err = &NoFile{e.Value.ID}
		}
		tx.fail(err)
		if e.Value.Holds == 0 && e.Value.Due.IsZero() {
			e.Value.Holds++ // it was sent before holds were counted: who else needs it is not known, so it stays
		}
		if e.Value.Holds == 0 || len(e.Value.Agents) > 0 { // else it was held before files named agents: which, nobody knows
			e.Value = e.Value.with(agent)
		}
		e.Value.Holds++
		e.Value.Due = time.Time{}
		PutResource(tx, e)
		tx.putHold(organization, run, e.Value.ID)
	}
}

// NewHeldFile writes the description of a file that a run makes, which holds it from the start. The run must still be as
// it was read: what is made for a run that has ended would be nobody's.
func (tx *Tx) NewHeldFile(f File, run RunEntity) {
	f.Holds, f.Due, f.Agents, f.Made = 1, time.Time{}, []string{run.Value.Agent}, true
	PutResource(tx, Fresh(f))
	tx.putHold(f.Organization, run.Value.ID(), f.ID)
	tx.add(table.Check(RunKey(run.Value.ID()), table.VersionIs(run.version)))
}

// release has a run let go of a file; it does nothing, when the run does not hold it.
func (tx *Tx) release(ctx context.Context, run, file string) {
	if tx.err != nil {
		return
	}
	items, err := tx.store.read(ctx, holdKey(run, file), resourceKey("file", file))
	if err != nil {
		tx.fail(err)
		return
	}
	if items[0] == nil {
		return
	}
	tx.delete(holdKey(run, file), table.VersionIs(items[0].Version))
	if items[1] == nil {
		return // it went with its organisation
	}
	e, err := decode[File](items[1])
	tx.fail(err)
	if e.Value.Holds--; e.Value.Holds <= 0 {
		e.Value = e.Value.buried(tx.store.host.Now())
	}
	PutResource(tx, e)
}

// releases has a parked message let go of its files, of which it has no more than a commit takes.
func (tx *Tx) releases(ctx context.Context, run string) {
	if tx.err != nil {
		return
	}
	items, err := tx.store.query(ctx, table.Range{Part: runPart(run), Prefix: holdPrefix, Limit: table.MaxOps})
	tx.fail(err)
	for _, item := range items {
		tx.release(ctx, run, strings.TrimPrefix(item.Sort, holdPrefix))
	}
}

// buried is a file that nobody can reach any more.
func (f File) buried(now time.Time) File {
	f.Removed, f.Due = true, now
	return f
}

// releaseAll lets go of all files of a run, each in a commit of its own.
func (s *Store) releaseAll(ctx context.Context, run string) error {
	for {
		items, err := s.query(ctx, table.Range{Part: runPart(run), Prefix: holdPrefix, Limit: 100})
		if err != nil || len(items) == 0 {
			return err
		}
		for _, item := range items {
			_, err := whileStale(ctx, s, func() (struct{}, error) {
				tx := s.Begin(s.host.NewID())
				tx.release(ctx, run, strings.TrimPrefix(item.Sort, holdPrefix))
				return struct{}{}, tx.Commit(ctx)
			})
			if err != nil {
				return err
			}
		}
	}
}

// errWanted says that a file is not to be removed.
var errWanted = errors.New("record: the file is wanted")

// removalTime is for how long a file is left to who has begun to remove it.
const removalTime = 30 * time.Second

// RemoveFile removes a file, unless wanted says that it is needed, with all bytes that were ever sent for it. Nobody can reach it
// before its bytes go, and its description goes last: so it can be done again wherever it was broken off.
func (s *Store) RemoveFile(ctx context.Context, id string, wanted func(File) bool) error {
	e, err := Change(ctx, s, System(), id, 0, func(f *File, _ *Tx) error {
		if !f.Removed && wanted(*f) {
			return errWanted
		}
		*f = f.buried(s.host.Now().Add(removalTime))
		return nil
	})
	if err == nil {
		err = errors.Join(s.dropBlobs(ctx, fileBlobs(id)), s.blobs.Delete(ctx, File{ID: id}.Place()))
	}
	if err == nil && e.Value.OpenUntil.After(s.host.Now()) { // bytes may still come: once more when none can
		_, err = Change(ctx, s, System(), id, 0, func(f *File, _ *Tx) error {
			f.Due = f.OpenUntil
			return nil
		})
	} else if err == nil {
		_, err = Remove[File](ctx, s, System(), id, nil)
	}
	if errors.Is(err, errWanted) || problem.Is(err, "not_found") {
		return nil
	}
	return err
}

// FileNudge is the id of a nudge to the job queue that is about a file.
func FileNudge(id string) string { return "file/" + id }

// FileOfNudge says which file such a nudge is about, if it is about one.
func FileOfNudge(id string) (file string, is bool) { return strings.CutPrefix(id, "file/") }

// LookAgainAtFile puts off when a file is looked at.
func (s *Store) LookAgainAtFile(ctx context.Context, e Entity[File], at time.Time) error {
	tx := s.Begin(s.host.NewID())
	e.Value.Due = at
	PutResource(tx, e)
	return tx.Commit(ctx)
}

// dropBlobs removes all values below a place that ends with a slash.
func (s *Store) dropBlobs(ctx context.Context, below string) error {
	if err := s.blobs.DeleteAll(ctx, below); err != nil {
		return fmt.Errorf("record: the values below %s: %w", below, err)
	}
	return nil
}
