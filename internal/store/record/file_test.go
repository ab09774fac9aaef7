package record_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/proof/faulttable"
	"agentplatform/internal/store/blob"
	"agentplatform/internal/store/blob/memblob"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
	"agentplatform/internal/store/table/memtable"
)

// A file that was stored before holds were counted stays: runs that have no item for it may need it.
func TestFileStoredBeforeHoldsWereCountedStays(t *testing.T) {
	h := host.System()
	blobs := &memblob.Store{}
	s := record.New(memtable.New(h.Now), blobs, h)
	id, run := h.NewID(), h.NewID()
	f := record.File{ID: id, Organization: "o", UserID: "u", Name: "a.txt", Size: 5, Uploaded: true, CreatedAt: h.Now()}
	require.NoError(t, blob.PutBytes(t.Context(), blobs, f.BlobPrefix(), []byte("hello")))
	_, err := record.Create(t.Context(), s, f, id)
	require.NoError(t, err)
	ops, err := opsOf(s, "holding",
		func(tx *record.Tx) {
			tx.ReferenceFiles(t.Context(), "o", lifecycle.Whose{Agent: "a"}, run, []record.FileRef{f.Ref()})
		})
	require.NoError(t, err)
	require.NoError(t, commitOps(t.Context(), s, "holding", ops...))

	ops, err = opsOf(s, "letting go", func(tx *record.Tx) { record.Release(tx, t.Context(), run, id) })
	require.NoError(t, err)
	require.NoError(t, commitOps(t.Context(), s, "letting go", ops...))
	_, err = s.File(t.Context(), record.Of("o"), id)
	require.NoError(t, err, "whoever else needs it finds it")

	require.NoError(t, s.RemoveFile(t.Context(), id, func(record.File) bool { return false }))
	_, err = blob.GetBytes(t.Context(), blobs, f.BlobPrefix())
	require.ErrorIs(t, err, blob.ErrMissing, "and its bytes go with it, where they always were")
}

// A duplicate wakeup does not end the wait for bytes that may still be sent to a file's presigned address.
func TestDeletionWaitsForThePresignedAddressToExpire(t *testing.T) {
	h := host.System()
	blobs := &memblob.Store{}
	s := record.New(memtable.New(h.Now), blobs, h)
	f := s.NewFile("o", "u", "a.txt", "text/plain")
	f.Size, f.Blob, f.OpenUntil = 5, f.DirectBlob(), h.Now().Add(time.Hour)
	_, err := record.Create(t.Context(), s, f, f.ID)
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, s.RemoveFile(t.Context(), f.ID, func(record.File) bool { return false }))
		_, err = s.File(t.Context(), record.Of("o"), f.ID)
		assert.True(t, problem.Is(err, "not_found"))
		e, err := record.Resource[record.File](t.Context(), s, record.System(), f.ID)
		require.NoError(t, err, "what may come is still some file's")
		assert.Equal(t, f.OpenUntil, e.Value.Due)
	}
}

// A file without bytes is kept for a day.
func TestNewFileIsKeptForADay(t *testing.T) {
	e := newEstate(t)
	f := e.NewFile("o", "u", "a.txt", "text/plain")
	assert.Equal(t, record.File{
		ID: f.ID, Organization: "o", UserID: "u", Name: "a.txt", ContentType: "text/plain",
		CreatedAt: e.now, Due: e.now.Add(24 * time.Hour),
	}, f)
	assert.True(t, host.ValidID(f.ID))
}

// Name and type come from a browser, a client or a server of tools, and are sent to others in headers.
func TestFileNameAndTypeFitIntoHeaders(t *testing.T) {
	e := newEstate(t)
	const unknown = "application/octet-stream"
	for given, want := range map[string]string{
		"text/plain": "text/plain", "text/plain; charset=utf-8": "text/plain; charset=utf-8",
		"image/svg+xml": "image/svg+xml", "": unknown, "6": unknown, "text": unknown, "text/": unknown,
		"/plain":       unknown,
		"text/plain/x": unknown, "text/plain; x": unknown, "te xt/plain": unknown, "text/pl\x00ain": unknown,
		"text/plain; a=\"\x01\"": unknown, "text/plain\r\nX-A: b": unknown, "text/plain; a=\"ä\"": unknown,
		"text/" + strings.Repeat("x", 200): unknown,
	} {
		assert.Equal(t, want, e.NewFile("o", "u", "a", given).ContentType, "%q", given)
	}
	for given, want := range map[string]string{
		"a.txt": "a.txt", "": "file", "a\r\nb\x7f.txt": "ab.txt", "Übersicht.pdf": "Übersicht.pdf",
		"a\xffb":                       "a\uFFFDb",
		strings.Repeat("x", 300):       strings.Repeat("x", 255),
		"x" + strings.Repeat("ä", 200): "x" + strings.Repeat("ä", 127),
	} {
		assert.Equal(t, want, e.NewFile("o", "u", given, "a/b").Name, "%q", given)
	}
}

// A file that was stored with an unchecked type is read with a valid one.
func TestFileStoredWithInvalidTypeHasAValidOne(t *testing.T) {
	e := newEstate(t)
	f := e.NewFile(e.organization, e.user, "a", "")
	f.ContentType = "6"
	_, err := record.Create(t.Context(), e.Store, f, f.ID)
	require.NoError(t, err)
	got, err := e.File(t.Context(), e.scope(), f.ID)
	require.NoError(t, err)
	assert.Equal(t, "application/octet-stream", got.Value.ContentType)
}

// Bytes are read as they were sent, under any key; a file without bytes is an error.
func TestFileBytesAreReadAsSent(t *testing.T) {
	ctx, e := t.Context(), newEstate(t)
	read := func(id string) (string, error) {
		r, err := e.OpenFile(ctx, e.scope(), id)
		if err != nil {
			return "", err
		}
		b, err := io.ReadAll(r)
		require.NoError(t, err)
		return string(b), r.Close()
	}
	got, err := read(e.plain)
	require.NoError(t, err)
	assert.Equal(t, "bytes of "+e.plain, got)
	_, err = read(e.empty)
	require.True(t, problem.Is(err, "not_found"), "%v", err)
	assert.ErrorContains(t, err, "the content of file "+e.empty)

	old := record.File{ID: "old", Organization: e.organization, Uploaded: true}
	assert.Equal(t, "files/old", old.BlobPrefix(), "where files of older programs are")
	assert.Equal(t, "files/old/direct", old.DirectBlob())
	e.must("seed", func(tx *record.Tx) { record.PutResource(tx, record.Fresh(old)) })
	_, err = read("old")
	require.ErrorIs(t, err, blob.ErrMissing)
	require.NoError(t, blob.PutBytes(ctx, e.blobs, "files/old", []byte("hello")))
	got, err = read("old")
	require.NoError(t, err)
	assert.Equal(t, "hello", got)

	require.NoError(t, e.RecheckFile(ctx, e.fileEntity("old"), e.now.Add(time.Minute)))
	assert.Equal(t, e.now.Add(time.Minute), e.file("old").Due)
	assert.Equal(t, record.FileRef{FileID: "f", Name: "n", ContentType: "t", Size: 3},
		record.File{ID: "f", Name: "n", ContentType: "t", Size: 3}.Ref())
	id, is := record.FileOfWakeup(record.FileWakeupID("f"))
	assert.Equal(t, []any{"f", true}, []any{id, is})
	_, is = record.FileOfWakeup("f")
	assert.False(t, is)
}

// A file has the bytes that came first. Bytes that come second, are too large or come too late are refused and not
// kept.
func TestFirstBytesOfAFileWin(t *testing.T) {
	ctx, e := t.Context(), newEstate(t)
	fill := func(id, content string) (record.File, error) {
		return e.FillFile(ctx, e.scope(), id, strings.NewReader(content), 5)
	}
	before := e.stored()
	_, err := fill(e.empty, "123456")
	require.ErrorIs(t, err, blob.ErrTooLarge)
	assert.Equal(t, before, e.stored())

	f, err := fill(e.empty, "12345")
	require.NoError(t, err)
	assert.Equal(t, f, e.file(e.empty))
	assert.Equal(t, []any{true, int64(5)}, []any{f.Uploaded, f.Size})
	before = e.stored()
	_, err = fill(e.empty, "54321")
	assert.True(t, problem.Is(err, "conflict"), "%v", err)
	_, err = fill("nothing", "12345")
	assert.True(t, problem.Is(err, "not_found"), "%v", err)
	_, err = e.FillFile(ctx, record.Of("another"), e.empty, strings.NewReader("1"), 5)
	assert.True(t, problem.Is(err, "outside_organization"), "%v", err)
	assert.Equal(t, before, e.stored())
	b, err := blob.GetBytes(ctx, e.blobs, f.BlobPrefix())
	require.NoError(t, err)
	assert.Equal(t, "12345", string(b))
}

// The bytes stay when the client disconnects after sending them, also when a call must be repeated.
func TestBytesStayWhenTheClientDisconnects(t *testing.T) {
	e := newEstate(t)
	ctx, leave := context.WithCancel(t.Context())
	faults := &faulttable.Table{Inner: estateTable{e}}
	store := record.New(faults, estateBlobs{e}, e)
	throttled := false
	faults.Before = func(faulttable.Call) faulttable.Fault {
		if leave(); throttled {
			return faulttable.None
		}
		throttled = true
		return faulttable.Throttled
	}
	_, err := store.FillFile(ctx, e.scope(), e.empty, strings.NewReader("bytes"), 9)
	require.NoError(t, err)
	assert.True(t, e.file(e.empty).Uploaded)
}

// Bytes are kept when it is not known whether a description names them. The upload has succeeded when one does, though
// its response was lost and another write came since.
func TestBytesAreKeptAfterALostAnswer(t *testing.T) {
	for _, fault := range []faulttable.Fault{faulttable.AppliedUnknown, faulttable.LostUnknown} {
		e := newEstate(t)
		faults := &faulttable.Table{Inner: estateTable{e}}
		store := record.New(faults, estateBlobs{e}, e)
		commits := 0
		faults.Before = func(c faulttable.Call) faulttable.Fault {
			if !c.Commit {
				return faulttable.None
			}
			if commits++; commits == 2 && fault == faulttable.AppliedUnknown {
				e.touch(table.Key{Part: "file/" + e.empty, Sort: "head"})
			}
			return fault
		}
		values := len(e.blobs.Keys())
		f, err := store.FillFile(t.Context(), e.scope(), e.empty, strings.NewReader("bytes"), 9)
		assert.Len(t, e.blobs.Keys(), values+1, fault)
		assert.Equal(t, fault == faulttable.AppliedUnknown, err == nil, "%s: %v", fault, err)
		if err == nil {
			assert.Equal(t, e.file(e.empty), f)
			assert.True(t, f.Uploaded)
			assert.Equal(t, 2, commits, "they are not written once more")
		}
	}
}

// A file that is being deleted cannot be read or changed.
func TestRemovedFileCannotBeReadOrChanged(t *testing.T) {
	ctx, e := t.Context(), newEstate(t)
	gone := e.fileEntity(e.plain)
	gone.Value.Removed = true
	e.must("seed", func(tx *record.Tx) { record.PutResource(tx, gone) })
	before := e.stored()
	_, err := e.File(ctx, e.scope(), e.plain)
	assert.True(t, problem.Is(err, "not_found"), "%v", err)
	_, err = e.OpenFile(ctx, e.scope(), e.plain)
	assert.True(t, problem.Is(err, "not_found"), "%v", err)
	_, err = e.ChangeFile(ctx, e.scope(), e.plain, func(*record.File) error { return nil })
	assert.True(t, problem.Is(err, "not_found"), "%v", err)
	_, err = e.ChangeFile(ctx, e.scope(), e.held, func(*record.File) error { return errAway })
	require.ErrorIs(t, err, errAway, "an edit that is not made says why")
	assert.Equal(t, before, e.stored())
}

// A hold of a file of another organization, or of a missing one, fails with an error that names the file. Nothing is
// held then.
func TestMissingFileCannotBeHeld(t *testing.T) {
	ctx, e := t.Context(), newEstate(t)
	gone := e.fileEntity(e.plain)
	gone.Value.Removed = true
	e.must("seed", func(tx *record.Tx) { record.PutResource(tx, gone) })
	e.must("seed", func(tx *record.Tx) {
		record.PutResource(tx, record.Fresh(record.File{ID: "hers", Organization: "another", Uploaded: true}))
	})
	for _, id := range []string{"nothing", "hers", e.plain, e.empty} {
		ops, err := opsOf(e.Store, "m", func(tx *record.Tx) {
			of := lifecycle.Whose{Agent: e.agent}
			tx.ReferenceFiles(ctx, e.organization, of, "run", []record.FileRef{{FileID: e.held}, {FileID: id}})
		})
		var no *record.NoFile
		require.ErrorAs(t, err, &no)
		assert.Equal(t, id, no.ID)
		assert.Equal(t, "file "+id+" does not exist", no.Error())
		assert.Empty(t, ops)
	}
	r := record.Fresh(e.runOf("run"))
	ops, err := opsOf(e.Store, "m",
		func(tx *record.Tx) { tx.NewHeldFile(ctx, record.File{ID: "f", Organization: e.organization}, r) })
	require.NoError(t, err)
	require.ErrorIs(t, commitOps(ctx, e.Store, "m", ops...), record.ErrConflict, "the run is not there")
}

// A hold counts once, removes the file's due time and notes the run's agent. At most 64 agents are noted, each once,
// unless earlier ones are unknown.
func TestHoldCountsOnceAndNotesTheAgent(t *testing.T) {
	ctx, e := t.Context(), newEstate(t)
	addReference := func(agent, run, file string) record.File {
		require.NoError(t, committed(ctx, e.Store, run+agent, func(tx *record.Tx) {
			of := lifecycle.Whose{Agent: agent, Owner: "o"}
			tx.ReferenceFiles(ctx, e.organization, of, run, []record.FileRef{{FileID: file}, {FileID: file}})
		}))
		return e.file(file)
	}
	assert.Equal(t, e.now.Add(24*time.Hour), e.file(e.plain).Due)
	f := addReference("a", "r1", e.plain)
	assert.Equal(t, []any{1, time.Time{}, []string{"a"}}, []any{f.References, f.Due, f.Agents})
	f = addReference("a", "r1", e.plain)
	assert.Equal(t, 1, f.References, "it holds it already")
	f = addReference("a", "r2", e.plain)
	assert.Equal(t, []any{2, []string{"a"}}, []any{f.References, f.Agents})
	f = addReference("b", "r3", e.plain)
	assert.Equal(t, []any{3, []string{"a", "b"}}, []any{f.References, f.Agents})
	for n := range 70 {
		f = addReference(fmt.Sprint("agent", n), fmt.Sprint("run", n), e.plain)
		assert.Len(t, f.Agents, min(2+n+1, 64))
	}
	assert.Equal(t, 73, f.References)

	for name, c := range map[string]struct {
		before, after record.File
	}{
		"of before agents were noted":  {record.File{References: 1}, record.File{References: 2}},
		"of before holds were counted": {record.File{}, record.File{References: 2}},
		"that was kept for a day": {
			record.File{Due: e.now}, record.File{References: 1, Agents: []string{"a"}},
		},
		"of one agent": {
			record.File{UserID: "u", References: 1, Agents: []string{"z"}},
			record.File{UserID: "u", References: 2, Agents: []string{"z", "a"}},
		},
	} {
		c.before.ID, c.before.Organization, c.before.Uploaded = e.NewID(), e.organization, true
		c.after.ID, c.after.Organization, c.after.Uploaded = c.before.ID, e.organization, true
		e.must("seed", func(tx *record.Tx) { record.PutResource(tx, record.Fresh(c.before)) })
		assert.Equal(t, c.after, addReference("a", "r1", c.before.ID), "a file %s", name)
	}

	r, err := e.Store.Run(ctx, e.scope(), e.run)
	require.NoError(t, err)
	made := record.File{ID: "made", Organization: e.organization, Due: e.now, Uploaded: true}
	require.NoError(t, committed(ctx, e.Store, "making", func(tx *record.Tx) { tx.NewHeldFile(ctx, made, r) }))
	made.References, made.Due, made.Agents, made.Made, made.Counted = 1, time.Time{}, []string{e.agent}, true, true
	assert.Equal(t, made, e.file("made"))
}

// Each holder ends its hold once. After the last one the file cannot be read and is due immediately.
func TestFileIsRemovedWithItsLastHold(t *testing.T) {
	ctx, e := t.Context(), newEstate(t)
	for range 2 {
		require.NoError(t,
			committed(ctx, e.Store, "first", func(tx *record.Tx) { record.Release(tx, ctx, e.run, e.held) }))
		f := e.file(e.held)
		assert.Equal(t, []any{1, false, time.Time{}}, []any{f.References, f.Removed, f.Due})
	}
	require.NoError(t,
		committed(ctx, e.Store, "last", func(tx *record.Tx) { record.EstateReleases(tx, ctx, e.parked) }))
	f := e.file(e.held)
	assert.Equal(t, []any{0, true, e.now}, []any{f.References, f.Removed, f.Due})
}

// A run ends its holds of all its files, however many they are.
func TestRunReleasesAllItsFiles(t *testing.T) {
	for _, n := range []int{0, 1, 100, 101} {
		e := newEstate(t)
		for i := range n {
			f := record.File{ID: fmt.Sprint("f", i), Organization: e.organization, Uploaded: true, Due: e.now}
			e.must("seed", func(tx *record.Tx) { record.PutResource(tx, record.Fresh(f)) })
			require.NoError(t, e.addReferences(t.Context(), "run", f.ID))
		}
		require.NoError(t, record.EstateReleaseAll(e.Store, t.Context(), "run"))
		for i := range n {
			assert.True(t, e.file(fmt.Sprint("f", i)).Removed)
		}
		assert.NotContains(t, strings.Join(e.keys(), " "), "run/run ")
	}
}

// An unwanted file is deleted with all bytes that were ever sent for it. While one process deletes it, others leave it
// alone for half a minute.
func TestFileIsDeletedWithAllItsBytes(t *testing.T) {
	ctx, e := t.Context(), newEstate(t)
	for _, key := range []string{"files/" + e.plain, "files/" + e.plain + "/direct", "files/" + e.plain + "/lost"} {
		require.NoError(t, blob.PutBytes(ctx, e.blobs, key, []byte("x")))
	}
	before := e.stored()
	calls := 0
	require.NoError(t, e.RemoveFile(ctx, e.plain, func(f record.File) bool { calls++; return f.ID == e.plain }))
	require.NoError(t, e.RemoveFile(ctx, "nothing", func(record.File) bool { calls++; return true }))
	assert.Equal(t, before, e.stored(), "it is wanted")
	assert.Equal(t, 1, calls)

	e.calls, e.failAt = 0, 3 // the deletion of the bytes
	require.ErrorIs(t, e.RemoveFile(ctx, e.plain, estateUnwanted), errAway)
	require.Contains(t, e.failing, "delete all")
	f := e.file(e.plain)
	assert.Equal(t, []any{true, e.now.Add(30 * time.Second)}, []any{f.Removed, f.Due})
	e.failing = ""
	wanted := func(record.File) bool { return true }
	require.NoError(t, e.RemoveFile(ctx, e.plain, wanted), "nobody is asked about it any more")
	assert.NotContains(t, strings.Join(e.keys(), " "), "PLAIN")
}

// A file is deleted finally when its presigned address has expired.
func TestFileWithExpiredAddressIsDeleted(t *testing.T) {
	e := newEstate(t)
	_, err := e.ChangeFile(t.Context(), e.scope(), e.empty, func(f *record.File) error {
		f.OpenUntil = e.now
		return nil
	})
	require.NoError(t, err)
	require.NoError(t, e.RemoveFile(t.Context(), e.empty, estateUnwanted))
	assert.NotContains(t, strings.Join(e.keys(), " "), "EMPTY")
}

// A file has a row for each owner and agent of the runs that have held it, however many, until it is deleted.
func TestAFileHasItsHoldersUntilItIsDeleted(t *testing.T) {
	ctx, e := t.Context(), newEstate(t)
	_, noted, err := e.HeldFor(ctx, e.plain, "u")
	require.NoError(t, err)
	assert.False(t, noted)
	for n := range 70 {
		of := lifecycle.Whose{Agent: fmt.Sprint("a", n%2), Owner: fmt.Sprint("u", n/2)}
		e.must(fmt.Sprint("hold", n), func(tx *record.Tx) {
			tx.ReferenceFiles(ctx, e.organization, of, fmt.Sprint("run", n), []record.FileRef{{FileID: e.plain}})
		})
	}
	for user, want := range map[string][]string{"u0": {"a0", "a1"}, "u34": {"a0", "a1"}, "u": nil, "": nil} {
		agents, noted, err := e.HeldFor(ctx, e.plain, user)
		require.NoError(t, err)
		assert.Equal(t, want, agents, user)
		assert.True(t, noted)
	}
	require.NoError(t, e.RemoveFile(ctx, e.plain, func(record.File) bool { return false }))
	_, noted, err = e.HeldFor(ctx, e.plain, "u0")
	require.NoError(t, err)
	assert.False(t, noted)
}
