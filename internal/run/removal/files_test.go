package removal_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/events"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/run/removal"
	"agentplatform/internal/run/sweep"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/store/blob/memblob"
	"agentplatform/internal/store/queue"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table/memtable"
)

// office is a store with its sweeper and remover. The test moves its clock.
type office struct {
	*testing.T
	host.Host
	ahead   time.Duration
	items   *troubled
	blobs   *memblob.Store
	store   *record.Store
	shell   *transition.Executor
	remover *removal.Remover
	sent    *kept
}

func (o *office) Now() time.Time { return o.Host.Now().Add(o.ahead) }

// Go runs f immediately, so that parallel work has the same order each time.
func (o *office) Go(f func()) (wait func()) {
	died := host.Catch(f)
	return died.Again
}

// kept is a queue that keeps the ids of jobs.
type kept struct{ ids []string }

func (k *kept) Send(_ context.Context, m queue.Message) error {
	if m.Wakeup.Kind == events.WakeupJob {
		k.ids = append(k.ids, m.Wakeup.ID)
	}
	return nil
}

func (k *kept) take() []string {
	ids := k.ids
	k.ids = nil
	return ids
}

type silent struct{}

func (silent) Notify(string)              {}
func (silent) NotifyEnd(record.RunEntity) {}

func newOffice(t *testing.T) *office {
	o := &office{T: t, Host: host.System(), blobs: &memblob.Store{}, sent: &kept{}}
	o.items = &troubled{Table: memtable.New(o.Now)}
	o.store = record.New(o.items, stuck{o.blobs, o.items}, o)
	o.shell = &transition.Executor{
		Store: o.store, Queue: o.sent, Notifier: silent{}, Host: o, Log: slog.New(slog.DiscardHandler),
		StartDeadline: time.Hour,
	}
	o.remover = &removal.Remover{Executor: o.shell, Store: o.store, Host: o}
	return o
}

// drain sweeps and handles jobs until a sweep sends no wakeup.
func (o *office) drain() {
	sweeper := &sweep.Sweeper{Executor: o.shell, Store: o.store, Queue: o.sent, Host: o, Log: o.shell.Log}
	for range 10 {
		require.NoError(o, sweeper.Sweep(o.Context()))
		ids := o.sent.take()
		for _, id := range ids {
			for again := time.Millisecond; again > 0 && again <= time.Second; {
				var err error
				again, err = o.remover.Handle(o.Context(), id)
				require.NoError(o, err)
			}
		}
	}
}

func (o *office) file(content string) record.File {
	f := o.store.NewFile("o", "u", "a.txt", "text/plain")
	_, err := record.Create(o.Context(), o.store, f, f.ID)
	require.NoError(o, err)
	f, err = o.store.FillFile(o.Context(), record.Of("o"), f.ID, strings.NewReader(content), 100)
	require.NoError(o, err)
	return f
}

// run starts a run with files, and ends it.
func (o *office) run(chat string, files ...record.File) record.RunEntity {
	input := record.Input{Message: "look"}
	for _, f := range files {
		input.Files = append(input.Files, f.Ref())
	}
	spec := lifecycle.RunSpec{RunID: o.NewID(), Organization: "o", User: "u", Agent: "a", Chat: chat, OwnChatID: true}
	tx := o.store.Begin(spec.RunID)
	tx.ReferenceFiles(o.Context(), "o", lifecycle.Whose{Agent: spec.Agent, Owner: "u"}, spec.RunID, input.Files)
	_, err := o.shell.Accept(o.Context(), tx, transition.Acceptance{
		Spec: spec, Input: input,
		Chat:  record.Fresh(lifecycle.Chat{ID: chat, OwnID: true, Organization: "o", User: "u", CreatedAt: o.Now()}),
		Slots: lifecycle.Slots{User: "over/" + spec.RunID, Organization: "over/" + spec.RunID},
	})
	require.NoError(o, err)
	_, err = o.shell.Do(o.Context(), record.System(), spec.RunID, func(
		record.Run, *record.Tx,
	) (transition.Change, error) {
		return transition.Change{Event: lifecycle.Remove{}}, nil
	})
	require.NoError(o, err)
	e, err := o.store.Run(o.Context(), record.System(), spec.RunID)
	require.NoError(o, err)
	return e
}

func (o *office) there(f record.File) bool {
	_, err := o.store.File(o.Context(), record.Of("o"), f.ID)
	if problem.Is(err, "not_found") {
		return false
	}
	require.NoError(o, err)
	r, err := o.store.OpenFile(o.Context(), record.Of("o"), f.ID)
	require.NoError(o, err)
	return r.Close() == nil
}

func TestUnusedFileIsDeletedAfterADay(t *testing.T) {
	o := newOffice(t)
	unused, used := o.file("unused"), o.file("used")
	o.run("chat", used)
	announced := o.store.NewFile("o", "u", "never.txt", "text/plain")
	_, err := record.Create(t.Context(), o.store, announced, announced.ID)
	require.NoError(t, err)
	o.ahead = 23 * time.Hour
	o.drain()
	assert.True(t, o.there(unused))
	o.ahead = 25 * time.Hour
	o.drain()
	assert.False(t, o.there(unused))
	assert.True(t, o.there(used))
	_, err = record.Resource[record.File](t.Context(), o.store, record.System(), announced.ID)
	assert.True(t, problem.Is(err, "not_found"), "%v", err)
	assert.Equal(t, []string{used.Blob}, o.blobs.Keys())
}

func TestFileIsDeletedWithTheLastRunThatHoldsIt(t *testing.T) {
	o := newOffice(t)
	tx := o.store.Begin("made")
	keeper := catalog.Organization{ID: "o", Name: "o", RetentionDays: 10, CreatedAt: o.Now()}
	record.PutResource(tx, record.Fresh(keeper))
	job := record.Job{
		ID: o.NewID(), Organization: "o", Kind: record.Retention, Subject: "o", Due: o.Now().Add(24 * time.Hour),
	}
	tx.PutJob(record.Fresh(job))
	require.NoError(t, tx.Commit(t.Context()))
	shared := o.file("shared")
	alone := o.file("alone")
	o.run("old", shared, alone)
	o.ahead = 9 * 24 * time.Hour
	o.run("young", shared)
	o.ahead = 11 * 24 * time.Hour
	o.drain()
	assert.False(t, o.there(alone))
	assert.True(t, o.there(shared), "the younger chat uses it")
	o.ahead = 21 * 24 * time.Hour
	o.drain()
	assert.False(t, o.there(shared))
	assert.Empty(t, o.blobs.Keys())
}

// A removal that is interrupted after the file became unreachable continues. Bytes that arrive in between are dropped.
func TestBytesUploadedDuringRemovalAreDropped(t *testing.T) {
	o := newOffice(t)
	f := o.store.NewFile("o", "u", "a.txt", "text/plain")
	_, err := record.Create(t.Context(), o.store, f, f.ID)
	require.NoError(t, err)
	late := &whenRead{Reader: bytes.NewReader([]byte("late")), first: func() {
		require.NoError(t, o.store.RemoveFile(t.Context(), f.ID, func(record.File) bool { return false }))
	}}
	_, err = o.store.FillFile(t.Context(), record.Of("o"), f.ID, late, 100)
	assert.True(t, problem.Is(err, "not_found"), "%v", err)
	assert.Empty(t, o.blobs.Keys())
}

// A worker may learn late that its run was deleted. Files of its tools must then not refer to the run, as nothing would
// delete them.
func TestDeletedRunHoldsNoFile(t *testing.T) {
	o := newOffice(t)
	run := o.run("chat")
	tx := o.store.Begin("late")
	tx.NewHeldFile(t.Context(), o.store.NewFile("o", "u", "made.txt", "text/plain"), run)
	require.NoError(t, o.store.EraseRun(t.Context(), run, o.NewID(), false))
	require.ErrorIs(t, tx.Commit(t.Context()), record.ErrConflict)
}

// Bytes that a client may still send directly to the blob store are deleted after the presigned address has expired.
func TestBytesSentDirectlyAfterRemovalAreDeleted(t *testing.T) {
	o := newOffice(t)
	f := o.store.NewFile("o", "u", "a.txt", "text/plain")
	f.Blob, f.OpenUntil = f.DirectBlob(), o.Now().Add(time.Hour)
	_, err := record.Create(t.Context(), o.store, f, f.ID)
	require.NoError(t, err)
	require.NoError(t, o.store.RemoveFile(t.Context(), f.ID, func(record.File) bool { return false }))
	assert.False(t, o.there(f))
	_, err = o.blobs.Put(t.Context(), f.Blob, strings.NewReader("late"), 100)
	require.NoError(t, err)
	o.ahead = time.Hour + time.Minute
	o.drain()
	assert.Empty(t, o.blobs.Keys())
	_, err = record.Resource[record.File](t.Context(), o.store, record.System(), f.ID)
	assert.True(t, problem.Is(err, "not_found"), "%v", err)
}

// The large body of a message that did not become a run is deleted, unless the write that makes it a run comes first.
func TestBodyOfMessageThatBecameNoRunIsDeleted(t *testing.T) {
	o := newOffice(t)
	spec := lifecycle.RunSpec{RunID: o.NewID(), Organization: "o", User: "u", Agent: "a", Chat: "c", OwnChatID: true}
	put := func(writeID string) *record.Tx {
		tx := o.store.Begin(writeID)
		tx.PutInput(t.Context(), spec, record.Input{Message: strings.Repeat("long ", 5000)}, o.Now())
		require.NoError(t, tx.Err())
		return tx
	}
	late := put("move")
	assert.NotEmpty(t, o.blobs.Keys())
	o.ahead = time.Minute
	o.drain()
	assert.Empty(t, o.blobs.Keys())
	require.ErrorIs(t, late.Commit(t.Context()), record.ErrConflict, "its body is gone")
	_, err := o.blobs.Put(t.Context(), "documents/run/"+spec.RunID+"/input/move",
		strings.NewReader("of a process that stood still"), 100)
	require.NoError(t, err)
	o.ahead = time.Hour + 2*time.Minute
	o.drain()
	assert.Empty(t, o.blobs.Keys(), "the place is looked at once more")
	require.NoError(t, put("again").Commit(t.Context()))
	o.ahead = 3 * time.Hour
	o.drain()
	assert.NotEmpty(t, o.blobs.Keys())
	require.NoError(t, o.store.EraseParked(t.Context(), spec.RunID))
	o.drain()
	assert.Empty(t, o.blobs.Keys())
}

// Data that a stalled worker wrote after its run was deleted is deleted, too.
func TestLateBodyOfDeletedRunIsDeleted(t *testing.T) {
	for name, links := range map[string]bool{"with its chat": false, "with its user": true} {
		t.Run(name, func(t *testing.T) {
			o := newOffice(t)
			spec := lifecycle.RunSpec{
				RunID: o.NewID(), Organization: "o", User: "u", Agent: "a", Chat: "c", OwnChatID: true, LimitMS: 1000,
			}
			run := record.Run{
				Run:   lifecycle.Accept(spec, lifecycle.ChatPosition{Turn: 1}, o.Now(), o.Now().Add(time.Minute)),
				Input: &record.Input{Message: "m"},
			}
			run.Status, run.Attempt = lifecycle.Completed, 1
			tx := o.store.Begin("made")
			tx.PutRun(record.Fresh(run))
			require.NoError(t, tx.Commit(t.Context()))
			e, err := o.store.Run(t.Context(), record.System(), spec.RunID)
			require.NoError(t, err)
			require.NoError(t, o.store.EraseRun(t.Context(), e, "gone", links))
			for _, key := range []string{
				"documents/run/" + spec.RunID + "/step/000001/late", "documents/hook/" + spec.RunID + "/1/late",
			} {
				_, err := o.blobs.Put(t.Context(), key, strings.NewReader("late"), 100)
				require.NoError(t, err)
			}
			o.drain()
			// A duplicate wakeup.
			_, err = o.remover.Handle(t.Context(), record.DerivedID("body", spec.RunID))
			require.NoError(t, err)
			assert.Len(t, o.blobs.Keys(), 2, "not yet")
			o.ahead = time.Hour + time.Minute
			o.drain()
			assert.Empty(t, o.blobs.Keys())
		})
	}
}

// whenRead calls a function at the first read.
type whenRead struct {
	*bytes.Reader
	first func()
}

func (r *whenRead) Read(p []byte) (int, error) {
	if r.first != nil {
		r.first()
		r.first = nil
	}
	return r.Reader.Read(p)
}
