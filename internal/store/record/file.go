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

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/table"
)

// File is a stored file's description; its bytes are in the blob store.
//
// A run that needs a file holds it; so does a parked message, under the id of its future run. The holder has an item
// for each file, and the file counts these items. Item and count change in one commit. So each hold counts once however
// often the commit is repeated. And a file cannot be deleted while it is being held. A file without holds is due:
// immediately when the last hold was released, or a day after its creation if there never was one.
type File struct {
	ID           string    `json:"file_id"`
	Organization string    `json:"organization_id"`
	UserID       string    `json:"user_id"`
	Name         string    `json:"name"`
	ContentType  string    `json:"content_type"`
	Size         int64     `json:"size"`
	Uploaded     bool      `json:"uploaded"`       // the bytes are stored
	Blob         string    `json:"blob,omitzero"`  // the key of the bytes, also while a client may send them
	References   int       `json:"holds,omitzero"` // how many runs and parked messages hold it
	Due          time.Time `json:"due_at,omitzero"`
	Removed      bool      `json:"removed,omitzero"`    // it cannot be read any more; its bytes are being deleted
	OpenUntil    time.Time `json:"open_until,omitzero"` // when the presigned address for the bytes expires
	Agents       []string  `json:"agents,omitzero"`     // whose runs have held it, at most maxFileAgents; none: unknown
	Made         bool      `json:"made,omitzero"`       // by a tool of a run
	Document     bool      `json:"document,omitzero"`   // it is for a knowledge base, and may be larger
	Counted      bool      `json:"counted,omitzero"`    // with its Size in the counts of its user and organization
	CreatedAt    time.Time `json:"created_at"`
}

// Placed implements [Resourceful].
func (f File) Placed() (string, string, string) { return "file", f.ID, f.Organization }

// DueAt implements [Active].
func (f File) DueAt() time.Time { return f.Due }

// fileBlobs is the prefix of all bytes that were ever sent for a file.
func fileBlobs(id string) string { return "files/" + id + "/" }

// Uploader implements [Uploaded].
func (f File) Uploader() string { return f.UserID }

// DirectBlob is the blob key to which a client sends a file's bytes directly.
func (f File) DirectBlob() string { return fileBlobs(f.ID) + "direct" }

// BlobPrefix is the blob key of a file's bytes. Descriptions without a key were written when each file had a fixed one.
func (f File) BlobPrefix() string {
	if f.Blob == "" {
		return "files/" + f.ID
	}
	return f.Blob
}

// Ref is the file as a run names it.
func (f File) Ref() FileRef {
	return FileRef{FileID: f.ID, Name: f.Name, ContentType: f.ContentType, Size: f.Size}
}

// UnusedLife is how long a file that no run holds is kept after its creation.
const UnusedLife = 24 * time.Hour

// NewFile makes the description of a file whose bytes have not come yet, without storing it. It must be stored before
// the bytes, so that all stored bytes belong to a file. Name and type come from clients and from servers of tools, and
// are sent to others in headers. So control characters are removed from a name, which is cut at 255 bytes. A type that
// is not a media type becomes application/octet-stream.
func (s *Store) NewFile(organization, user, name, contentType string) File {
	now := s.host.Now()
	return File{
		ID: s.host.NewID(), Organization: organization, UserID: user, Name: FileName(name),
		ContentType: mediaType(contentType), CreatedAt: now, Due: now.Add(UnusedLife),
	}
}

// IsMediaType reports whether a text is a media type, with or without parameters, that fits into a header.
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

// FileName is a file's name as it is kept: without control characters, of at most 255 bytes, and not empty.
func FileName(s string) string {
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

// File reads a file's description. It returns a problem of kind NotFound, also for a file that is being deleted, or
// Forbidden.
func (s *Store) File(ctx context.Context, scope Scope, id string) (Entity[File], error) {
	e, err := Resource[File](ctx, s, scope, id)
	if err == nil && e.Value.Removed {
		err = problem.Missing("file " + id)
	}
	e.Value.ContentType = mediaType(e.Value.ContentType) // earlier versions stored it unchecked
	return e, err
}

// ChangeFile edits a file's description. Its errors are those of [Change]. It returns a problem of kind NotFound for a
// file that is being deleted, and of kind Limited if there is no room for a file's additional bytes.
func (s *Store) ChangeFile(ctx context.Context, scope Scope, id string, edit func(f *File) error) (File, error) {
	e, err := Change(ctx, s, scope, id, 0, func(f *File, tx *Tx) error {
		if f.Removed {
			return problem.Missing("file " + id)
		}
		before := f.Size
		if err := edit(f); err != nil {
			return err
		}
		tx.countFile(ctx, *f, FileUse{Bytes: f.Size - before})
		return nil
	})
	return e.Value, err
}

// errFilled is the error when an earlier attempt has stored the bytes.
var errFilled = errors.New("record: the file has these bytes")

// FillFile stores the bytes of a file, at most limit. They have their own blob key until the description names it. So
// of two uploads the second is refused and its bytes are deleted.
//
// It returns blob.ErrTooLarge, a problem of kind Full when there is no room for the bytes, or Conflict when the file
// has bytes. Other errors are those of r, of the blob store, and of [Store.ChangeFile].
func (s *Store) FillFile(ctx context.Context, scope Scope, id string, r io.Reader, limit int64) (File, error) {
	key := fileBlobs(id) + s.host.NewID()
	n, err := s.put(ctx, scope.organization, key, r, limit)
	if err != nil {
		return File{}, err
	}
	ctx = context.WithoutCancel(ctx) // a client that disconnects now must not leave the bytes unnamed
	f, err := s.ChangeFile(ctx, scope, id, func(f *File) error {
		switch {
		case f.Blob == key:
			return errFilled
		case f.Uploaded:
			return problem.New(problem.Conflict, "conflict", "the file is already uploaded")
		}
		f.Blob, f.Size, f.Uploaded = key, n, true
		return nil
	})
	if errors.Is(err, errFilled) {
		err = nil
	}
	if _, refused := problem.As(err); refused { // only then it is certain that no description names them
		err = errors.Join(err, s.blobs.Delete(of(ctx, scope.organization), key))
	}
	return f, err
}

// OpenFile opens the bytes of a file; the caller closes them. It returns a problem of kind NotFound when file or bytes
// do not exist, Forbidden, or blob.ErrMissing.
func (s *Store) OpenFile(ctx context.Context, scope Scope, id string) (io.ReadCloser, error) {
	e, err := s.File(ctx, scope, id)
	if err != nil {
		return nil, err
	}
	if !e.Value.Uploaded {
		return nil, problem.Missing("the content of file " + id)
	}
	return s.blobs.Get(ctx, e.Value.BlobPrefix())
}

// fileReference is the item by which a run or a parked message holds a file.
type fileReference struct{}

const referencePrefix = "file/"

func referenceKey(run, file string) table.Key {
	return table.Key{Part: runPart(run), Sort: referencePrefix + file}
}

// putReference writes that a run holds a file. A row of the file has the owner of the run's chat and its agent.
func (tx *Tx) putReference(organization, run, file string, of lifecycle.Whose) {
	put(tx, Fresh(fileReference{}), table.Item{Key: referenceKey(run, file), Owner: organization})
	tx.putHolder(organization, file, of)
}

// holdersOf is the partition with these rows. They stay until the file is deleted.
func holdersOf(file string) string { return "holders/" + file }

func (tx *Tx) putHolder(organization, file string, of lifecycle.Whose) {
	if of.Owner != "" {
		key := table.Key{Part: holdersOf(file), Sort: of.Owner + "/" + of.Agent}
		putIf(tx, table.Always(), Fresh(struct{}{}), table.Item{Key: key, Owner: organization})
	}
}

// HeldFor lists the agents, at most 64, whose runs have held a file in the chats of a user. noted is false for a file
// that only runs of earlier versions have held: then the list is empty.
func (s *Store) HeldFor(ctx context.Context, file, user string) (agents []string, noted bool, err error) {
	of := table.Range{Part: holdersOf(file), Prefix: user + "/", Limit: maxFileAgents}
	rows, err := s.query(ctx, of)
	for _, row := range rows {
		agents = append(agents, strings.TrimPrefix(row.Sort, of.Prefix))
	}
	if err == nil && len(rows) == 0 {
		rows, err = s.query(ctx, table.Range{Part: of.Part, Limit: 1})
	}
	return agents, len(rows) > 0, err
}

// NoFile is the error if a file to be held does not exist, or was deleted.
type NoFile struct{ ID string }

func (e *NoFile) Error() string { return "file " + e.ID + " does not exist" }

// maxFileAgents bounds how many agents a file names.
const maxFileAgents = 64

// with returns the file with one more agent.
func (f File) with(agent string) File {
	if len(f.Agents) < maxFileAgents && !slices.Contains(f.Agents, agent) {
		f.Agents = append(slices.Clip(f.Agents), agent)
	}
	return f
}

// ReferenceFiles makes a run, or the parked message that will be one, hold files; of is its [lifecycle.Run.Whose].
// Files that it holds already are skipped. The unit of work fails with [NoFile] if a file does not exist.
func (tx *Tx) ReferenceFiles(
	ctx context.Context, organization string, of lifecycle.Whose, run string, files []FileRef,
) {
	if tx.err != nil {
		return
	}
	var keys []table.Key
	seen := map[string]bool{}
	for _, f := range files {
		if !seen[f.FileID] {
			keys = append(keys, resourceKey("file", f.FileID), referenceKey(run, f.FileID))
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
		if e.Value.References == 0 && e.Value.Due.IsZero() {
			e.Value.References++ // stored before holds were counted: others may need it, so it stays
		}
		// else the file was held before files named agents, so these are unknown
		if e.Value.References == 0 || len(e.Value.Agents) > 0 {
			e.Value = e.Value.with(of.Agent)
		}
		e.Value.References++
		e.Value.Due = time.Time{}
		PutResource(tx, e)
		tx.putReference(organization, run, e.Value.ID, of)
	}
}

// NewHeldFile writes the description of a file that a run makes and holds. The commit requires that the run is as it
// was read, because a file of an ended run would never be deleted. It fails as [Store.CreateFile] does.
func (tx *Tx) NewHeldFile(ctx context.Context, f File, run RunEntity) {
	f.References, f.Due, f.Agents, f.Made = 1, time.Time{}, []string{run.Value.Agent}, true
	tx.newFile(ctx, f)
	tx.putReference(f.Organization, run.Value.ID(), f.ID, run.Value.Whose())
	tx.add(table.Check(RunKey(run.Value.ID()), table.VersionIs(run.version)))
}

// release ends a run's hold of a file; it does nothing when the run does not hold it.
func (tx *Tx) release(ctx context.Context, run, file string) {
	if tx.err != nil {
		return
	}
	items, err := tx.store.read(ctx, referenceKey(run, file), resourceKey("file", file))
	if err != nil {
		tx.fail(err)
		return
	}
	if items[0] == nil {
		return
	}
	tx.delete(referenceKey(run, file), table.VersionIs(items[0].Version))
	if items[1] == nil {
		return // deleted with its organization
	}
	e, err := decode[File](items[1])
	tx.fail(err)
	if e.Value.References--; e.Value.References <= 0 {
		e.Value = e.Value.tombstone(tx.store.host.Now())
	}
	PutResource(tx, e)
}

// releases ends the holds of a parked message, which has at most as many files as a commit takes.
func (tx *Tx) releases(ctx context.Context, run string) {
	if tx.err != nil {
		return
	}
	items, err := tx.store.query(ctx, table.Range{Part: runPart(run), Prefix: referencePrefix, Limit: table.MaxOps})
	tx.fail(err)
	for _, item := range items {
		tx.release(ctx, run, strings.TrimPrefix(item.Sort, referencePrefix))
	}
}

// tombstone is the file in the state in which it cannot be read any more and is being deleted.
func (f File) tombstone(now time.Time) File {
	f.Removed, f.Due = true, now
	return f
}

// ReleaseFile ends a run's hold of a file; it does nothing when the run does not hold it. The errors are those of
// [DespiteConflicts].
func (s *Store) ReleaseFile(ctx context.Context, run, file string) error {
	_, err := DespiteConflicts(ctx, s, func() (struct{}, error) {
		tx := s.Begin(s.host.NewID())
		tx.release(ctx, run, file)
		return struct{}{}, tx.Commit(ctx)
	})
	return err
}

// releaseAll ends all holds of a run, each in its own commit.
func (s *Store) releaseAll(ctx context.Context, run string) error {
	for item, err := range s.items(ctx, table.Range{Part: runPart(run), Prefix: referencePrefix, Limit: 100}) {
		if err == nil {
			err = s.ReleaseFile(ctx, run, strings.TrimPrefix(item.Sort, referencePrefix))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// errWanted is the error for a file that must not be deleted.
var errWanted = errors.New("record: the file is wanted")

// removalTime is how long a file is left to the process that has begun to delete it.
const removalTime = 30 * time.Second

// RemoveFile deletes a file with all bytes that were ever sent for it, unless wanted returns true. It first makes the
// file unreadable, then deletes the bytes, then the description. So an interrupted deletion can be repeated. It returns
// nil for a file that does not exist; the errors are those of [Change] and of the blob store.
func (s *Store) RemoveFile(ctx context.Context, id string, wanted func(File) bool) error {
	return s.removeFile(ctx, id, func(f File, _ *Tx) bool { return wanted(f) })
}

// DeleteFile is [Store.RemoveFile] for a user's request, with an entry of the audit log.
func (s *Store) DeleteFile(ctx context.Context, id string, wanted func(File) bool) error {
	return s.removeFile(ctx, id, func(f File, tx *Tx) bool {
		tx.Frees()
		tx.AuditDeed(ctx, f.Organization, "file", f.ID)
		return wanted(f)
	})
}

func (s *Store) removeFile(ctx context.Context, id string, wanted func(File, *Tx) bool) error {
	e, err := Change(ctx, s, System(), id, 0, func(f *File, tx *Tx) error {
		if !f.Removed && wanted(*f, tx) {
			return errWanted
		}
		*f = f.tombstone(s.host.Now().Add(removalTime))
		return nil
	})
	if err == nil {
		owner := e.Value.Organization
		err = errors.Join(s.dropBlobs(ctx, owner, fileBlobs(id)),
			s.EraseBlob(ctx, owner, File{ID: id}.BlobPrefix()),
			s.erase(ctx, table.Range{Part: holdersOf(id)}))
	}
	if err == nil && e.Value.OpenUntil.After(s.host.Now()) { // bytes may still come: again when the address has expired
		_, err = Change(ctx, s, System(), id, 0, func(f *File, _ *Tx) error {
			f.Due = f.OpenUntil
			return nil
		})
	} else if err == nil {
		_, err = Remove(ctx, s, System(), id, func(e Entity[File], tx *Tx) error {
			tx.countFile(ctx, e.Value, FileUse{-1, -e.Value.Size})
			return nil
		})
	}
	if errors.Is(err, errWanted) || problem.Is(err, "not_found") {
		return nil
	}
	return err
}

// FileWakeupID is the id of a wakeup on the job queue for a file.
func FileWakeupID(id string) string { return "file/" + id }

// FileOfWakeup returns the file's id of such a message; is is false for messages about jobs.
func FileOfWakeup(id string) (file string, is bool) { return strings.CutPrefix(id, "file/") }

// RecheckFile moves a file's due time. The errors are those of [Tx.Commit].
func (s *Store) RecheckFile(ctx context.Context, e Entity[File], at time.Time) error {
	tx := s.Begin(s.host.NewID())
	e.Value.Due = at
	PutResource(tx, e)
	return tx.Commit(ctx)
}

// dropBlobs deletes all blobs of an owner with a prefix that ends with a slash.
func (s *Store) dropBlobs(ctx context.Context, owner, below string) error {
	if err := s.blobs.DeleteAll(of(ctx, owner), below); err != nil {
		return fmt.Errorf("record: the values below %s: %w", below, err)
	}
	return nil
}
