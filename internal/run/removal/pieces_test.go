package removal_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/proof/faulttable"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/run/webhook"
	"agentplatform/internal/store/record"
)

// The size of a piece of a job: ten pages of 50.
const piece = 500

// A removal of more than one piece continues where the last piece ended, also in its second pass. After that pass the
// job ends.
func TestLargeRemovalIsDoneInPieces(t *testing.T) {
	o := newOffice(t)
	for n := range piece + 1 {
		put(o, catalog.User{ID: fmt.Sprintf("user%04d", n), Organization: "o", GroupIDs: []string{"g", "other"}})
	}
	job := o.begin(record.Job{Kind: record.RemoveGroup, Subject: "g"})
	var pieces []time.Duration
	for again := time.Millisecond; again > 0; {
		again = o.handle(job)
		pieces = append(pieces, again)
		o.ahead += again
	}
	assert.Equal(t, []time.Duration{time.Millisecond, time.Minute, time.Millisecond, 0}, pieces)
	for _, n := range []int{0, 1, piece - 1, piece} {
		u, err := record.Resource[catalog.User](t.Context(), o.store, record.Of("o"), fmt.Sprintf("user%04d", n))
		require.NoError(t, err)
		assert.Equal(t, []string{"other"}, u.Value.GroupIDs)
	}
	assert.False(t, o.is(job))
}

// A removal that waits for a worker continues at the page of its run, not at its beginning.
func TestARemovalThatWaitsKeepsItsPlace(t *testing.T) {
	o := newOffice(t)
	put(o, catalog.Organization{ID: "o"})
	now := o.Now()
	o.old("run0000", now, time.Time{})
	for n := range 60 {
		o.old(fmt.Sprintf("run1%03d", n), now, now)
	}
	report := func(e lifecycle.Event) {
		_, err := o.shell.Do(t.Context(), record.System(), "run0000",
			func(record.Run, *record.Tx) (transition.Change, error) { return transition.Change{Event: e}, nil })
		require.NoError(t, err)
	}
	report(lifecycle.Claim{Holder: "w", Until: now.Add(time.Hour)})
	job := o.begin(record.Job{Kind: record.RemoveOrganization, Subject: "o"})
	for range 2 {
		assert.Equal(t, 2*time.Second, o.handle(job))
		assert.Equal(t, "run1010", o.job(job).Cursor, "the last run of the first page")
		assert.Equal(t, "yes no no", o.are("run0000", "run1000", "run1059"))
	}
	report(lifecycle.Fail{Work: lifecycle.Work{Attempt: 1}})
	assert.Equal(t, time.Minute, o.handle(job))
	assert.Equal(t, "no", o.are("run0000"))
}

// More than a page of each kind of resource of a user or organization is deleted. API keys are deleted first.
func TestMoreThanAPageOfEachKindIsDeleted(t *testing.T) {
	const many = 51
	for kind, subject := range map[record.JobKind]string{record.RemoveUser: "u", record.RemoveOrganization: "o"} {
		o := newOffice(t)
		put(o, catalog.Organization{ID: "o"})
		for n := range many {
			id := fmt.Sprintf("%s%04d", kind, n)
			put(o, catalog.APIKey{ID: id, Public: id, Organization: "o", UserID: "u"})
			put(o, catalog.KeyPointer{Public: id, Organization: "o", KeyID: id})
			put(o, catalog.APIKey{ID: "a" + id, Public: "a" + id, Organization: "o", UserID: "another"})
			put(o, record.File{ID: id, Organization: "o", UserID: "u"})
			chat := lifecycle.Chat{ID: id, Organization: "o", User: "u", Title: "mine"}
			tx := o.store.Begin(id)
			tx.PutChat(record.Fresh(chat))
			require.NoError(t, tx.Commit(t.Context()))
		}
		job := o.begin(record.Job{Kind: kind, Subject: subject})
		assert.Equal(t, time.Minute, o.handle(job))
		assert.Equal(
			t,
			map[record.JobKind]int{record.RemoveUser: many}[kind],
			count[catalog.APIKey](o),
			"those of another",
		)
		assert.Zero(t, count[record.File](o), kind)
		chats, err := o.store.Chats(t.Context(), record.Of("o"), "", 100)
		require.NoError(t, err)
		for _, c := range chats.Rows {
			assert.Empty(t, c.Value.Title)
		}
		assert.Equal(t, kind == record.RemoveUser, len(chats.Rows) == many)
		o.ahead += time.Minute
		assert.Zero(t, o.handle(job))
		assert.False(t, o.is(job))
	}
}

// The first piece deletes API keys, before all other data.
func TestCredentialsAreDeletedFirst(t *testing.T) {
	for kind, subject := range map[record.JobKind]string{record.RemoveUser: "u", record.RemoveOrganization: "o"} {
		o := newOffice(t)
		put(o, catalog.APIKey{ID: "k", Public: "p", Organization: "o", UserID: "u"})
		o.handle(o.begin(record.Job{Kind: kind, Subject: subject}))
		assert.Zero(t, count[catalog.APIKey](o), kind)
	}
}

// Runs beyond the retention are deleted daily. Active ones and those that ended lately stay, and do not prevent the
// deletion of later ones. The next day begins with the oldest again, wherever this one has ended.
func TestRetentionDeletesRunsThatAreTooOld(t *testing.T) {
	for _, young := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			o := newOffice(t)
			put(o, catalog.Organization{ID: "o", RetentionDays: 1})
			now := o.Now()
			o.old("run0000", now.Add(-3*daily), now.Add(-2*daily))
			for n := range piece - 1 {
				o.old(fmt.Sprintf("run1%03d", n), now.Add(-3*daily), time.Time{}) // still active
			}
			o.old("run2000", now.Add(-3*daily), now.Add(-daily+time.Millisecond)) // ended less than a day ago
			o.old("run3000", now.Add(-3*daily), now.Add(-daily))
			o.old("run4000", now.Add(-daily), now.Add(-daily))
			if young {
				o.old("run5000", now.Add(-daily+time.Millisecond), now.Add(-daily))
			}
			job := o.begin(record.Job{Kind: record.Retention, Subject: "o"})
			assert.Equal(t, time.Millisecond, o.handle(job))
			assert.Equal(t, "no yes yes yes yes", o.are("run0000", "run1000", "run2000", "run3000", "run4000"))
			assert.Zero(t, o.handle(job))
			assert.Equal(t, "no yes yes no no", o.are("run0000", "run1000", "run2000", "run3000", "run4000"))
			if young {
				assert.Equal(t, "yes", o.are("run5000"))
			}
			assert.Empty(t, o.job(job).Cursor)
			assert.Equal(t, now.Add(daily), o.job(job).Due)
		})
	}
}

const daily = 24 * time.Hour

// Deliveries whose last attempt is older than the retention are deleted daily, with large bodies, also if runs are
// kept. Pending ones stay, and do not prevent the deletion of later ones.
func TestRetentionDeletesDeliveriesThatAreTooOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		put(o, catalog.Organization{ID: "o"})
		o.remover.DeliveryDays = 90
		now := o.Now()
		at := func(days int) time.Time { return now.AddDate(0, 0, -days) }
		made := uint64(0)
		deliver := func(
			organization string, began time.Time, h record.Delivery, attempts ...time.Time,
		) record.Delivery {
			made++
			h.RunID, h.Sequence, h.Organization = host.FormatID(began, made), 1, organization
			h.DeliveryID = record.DeliveryID(h.RunID, 1)
			for _, at := range attempts {
				h.Attempts = append(h.Attempts, record.DeliveryAttempt{At: at})
			}
			tx := o.store.Begin(o.NewID())
			tx.NewDelivery(t.Context(), h)
			require.NoError(t, tx.Commit(t.Context()))
			return h
		}
		const ended = record.DeliveryDelivered
		large := strings.Repeat("x", 9<<10)
		pending := record.Delivery{State: record.DeliveryPending, Body: large, NextAttempt: now.Add(time.Hour)}
		again := record.Delivery{State: ended, Redeliver: true, NextAttempt: now.Add(time.Hour)}
		kept := []record.Delivery{
			deliver("another", at(100), record.Delivery{State: ended}, at(100)),
			deliver("o", at(100), record.Delivery{State: ended}, at(100), at(90).Add(time.Second)),
			deliver("o", at(100), pending, at(100)),
			deliver("o", at(100), again, at(100)),
			deliver("o", at(89), record.Delivery{State: ended}, at(89)),
		}
		var gone []record.Delivery
		for range piece {
			gone = append(gone, deliver("o", at(92), record.Delivery{State: ended}, at(91)))
		}
		gone = append(gone, deliver("o", at(92), record.Delivery{State: record.DeliveryFailed, Body: large}, at(91)))
		require.Len(t, o.blobs.Keys(), 2)
		job := o.begin(record.Job{Kind: record.Retention, Subject: "o"})
		assert.Equal(t, time.Millisecond, o.handle(job))
		assert.Zero(t, o.handle(job))
		assert.Empty(t, o.job(job).Cursor)
		o.drain()
		for _, h := range append(kept, gone...) {
			_, found, err := o.store.DeliveryAt(t.Context(), h.RunID, h.Sequence)
			require.NoError(t, err)
			stays := slices.ContainsFunc(kept, func(k record.Delivery) bool { return k.RunID == h.RunID })
			assert.Equal(t, stays, found)
		}
		require.Len(t, o.blobs.Keys(), 1)
		assert.Contains(t, o.blobs.Keys()[0], kept[2].RunID)
		o.remover.DeliveryDays, o.ahead = 0, 1000*daily
		assert.Zero(t, o.handle(job))
		_, found, err := o.store.DeliveryAt(t.Context(), kept[4].RunID, 1)
		require.NoError(t, err)
		assert.True(t, found, "0 is for ever")
	})
}

// A client that requests a redelivery while old deliveries are deleted gets it.
func TestARedeliveryIsFasterThanTheRetention(t *testing.T) {
	o := newOffice(t)
	put(o, catalog.Organization{ID: "o"})
	o.remover.DeliveryDays = 1
	run := host.FormatID(o.Now().Add(-3*daily), 1)
	tx := o.store.Begin("made")
	tx.NewDelivery(t.Context(), record.Delivery{DeliveryID: record.DeliveryID(run, 1), RunID: run, Sequence: 1,
		Organization: "o", State: record.DeliveryFailed,
		Attempts: []record.DeliveryAttempt{{At: o.Now().Add(-2 * daily)}}})
	require.NoError(t, tx.Commit(t.Context()))
	job := o.begin(record.Job{Kind: record.Retention, Subject: "o"})
	items := &faulttable.Table{Inner: o.items}
	o.remover.Store = record.New(items, o.blobs, o)
	items.Overtake(func() {
		sender := &webhook.Sender{Store: o.store, Host: o}
		_, err := sender.Redeliver(t.Context(), record.Of("o"), record.DeliveryID(run, 1), false)
		require.NoError(t, err)
	})
	o.handle(job)
	for range 2 {
		e, found, err := o.store.DeliveryAt(t.Context(), run, 1)
		require.NoError(t, err)
		require.True(t, found && e.Value.Redeliver)
		o.handle(job)
	}
}

// A duplicate wakeup does not do a daily job twice; that of a sweep is valid for the next hour.
func TestRetentionRunsOnceADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		put(o, catalog.Organization{ID: "o", RetentionDays: 1})
		job := o.begin(record.Job{Kind: record.Retention, Subject: "o"})
		assert.Zero(t, o.handle(job))
		o.old("run", o.Now().Add(-3*daily), o.Now().Add(-3*daily))
		o.ahead = daily - time.Hour - time.Millisecond
		assert.Zero(t, o.handle(job))
		assert.Equal(t, "yes", o.are("run"))
		o.ahead += time.Millisecond
		assert.Zero(t, o.handle(job))
		assert.Equal(t, "no", o.are("run"))
	})
}

// work is the daily work.
type work func(organization string) (behind bool, err error)

func (w work) Daily(_ context.Context, organization string) (bool, error) { return w(organization) }

func (work) Erase(context.Context, string, string) (string, error) { return "", nil }

// The daily work follows the retention: again immediately while there is more, else once a day, and again after an
// error.
func TestDailyWorkFollowsTheRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		put(o, catalog.Organization{ID: "o"})
		pieces, failing := 2, errors.New("the store is away")
		o.remover.Rollups = work(func(organization string) (bool, error) {
			assert.Equal(t, "o", organization)
			if failing != nil {
				return false, failing
			}
			pieces--
			return pieces > 0, nil
		})
		job := o.begin(record.Job{Kind: record.Retention, Subject: "o"})
		_, err := o.remover.Handle(t.Context(), job)
		require.ErrorIs(t, err, failing)
		failing = nil
		assert.Positive(t, o.handle(job), "there is more")
		assert.Zero(t, o.handle(job))
		assert.Zero(t, pieces)
		assert.Zero(t, o.handle(job))
		assert.Zero(t, pieces, "not before the next day")
		o.ahead += daily
		assert.Zero(t, o.handle(job))
		assert.Equal(t, -1, pieces)
	})
}

// The job of an organization without a retention is due again the next day. That of a deleted organization ends.
func TestRetentionJobEndsWithItsOrganization(t *testing.T) {
	for name, c := range map[string]struct {
		organization catalog.Organization
		ends         bool
	}{
		"it keeps all":  {catalog.Organization{ID: "o"}, false},
		"it is deleted": {catalog.Organization{ID: "o", RetentionDays: 1, Deleted: true}, true},
		"it is gone":    {catalog.Organization{ID: "another"}, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			o := newOffice(t)
			put(o, c.organization)
			o.old("run", o.Now().Add(-3*daily), o.Now().Add(-3*daily))
			job := o.begin(record.Job{Kind: record.Retention, Subject: "o", Cursor: "a"})
			assert.Zero(t, o.handle(job))
			assert.Equal(t, "yes", o.are("run"))
			assert.Equal(t, c.ends, !o.is(job), name)
			if !c.ends {
				assert.Equal(t, o.Now().Add(daily), o.job(job).Due)
				assert.Empty(t, o.job(job).Cursor)
			}
		})
	}
}

// The second deletion of a body waits until no worker can write it any more. It does not wait longer for a sweep that
// is a little early.
func TestBodyIsDeletedAgainAfterLateWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		job := o.begin(record.Job{Kind: record.RemoveBody, Subject: "run"})
		assert.Equal(t, time.Millisecond, o.handle(job), "first it is said that the body goes")
		assert.Zero(t, o.handle(job))
		o.ahead = record.LateWrites/2 - time.Millisecond
		assert.Zero(t, o.handle(job))
		assert.True(t, o.is(job))
		o.ahead += time.Millisecond
		assert.Zero(t, o.handle(job))
		assert.False(t, o.is(job))
	})
}

// The body of a run or message that exists is not deleted.
func TestBodyOfExistingRunStays(t *testing.T) {
	o := newOffice(t)
	o.old("run", o.Now(), time.Time{})
	job := o.begin(record.Job{Kind: record.RemoveBody, Subject: "run"})
	assert.Zero(t, o.handle(job))
	assert.False(t, o.is(job))
}

// A job of a kind that a newer version has made is left to that version.
func TestJobOfUnknownKindIsLeftAlone(t *testing.T) {
	o := newOffice(t)
	job := o.begin(record.Job{Kind: "unheard of", Cursor: "here"})
	before := o.job(job)
	assert.Zero(t, o.handle(job))
	assert.Equal(t, before, o.job(job))
}

// A file is deleted when no run refers to it, and a day after it was announced.
func TestFileIsDeletedUnlessHeldOrNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		for name, c := range map[string]struct {
			references int
			age        time.Duration
			goes       bool
		}{
			"held":     {1, 2 * daily, false},
			"shared":   {2, 2 * daily, false},
			"young":    {0, daily - time.Millisecond, false},
			"a day":    {0, daily, true},
			"very old": {0, 9 * daily, true},
		} {
			put(o, record.File{ID: name, Organization: "o", References: c.references, CreatedAt: o.Now().Add(-c.age)})
			assert.Zero(t, o.handle(record.FileWakeupID(name)))
			_, err := record.Resource[record.File](t.Context(), o.store, record.System(), name)
			assert.Equal(t, c.goes, err != nil, name)
		}
	})
}

// After a conflict the piece is done again later with the data stored then. Data that was deleted in between needs no
// work.
func TestConflictRetriesThePiece(t *testing.T) {
	for at, done := 0, false; !done; at++ {
		require.Less(t, at, 100)
		o := newOffice(t)
		for _, id := range []string{"a", "b", "c", "d"} {
			put(o, catalog.User{ID: id, Organization: "o", GroupIDs: []string{"g"}})
		}
		job := o.begin(record.Job{Kind: record.RemoveGroup, Subject: "g"})
		calls := 0
		o.items.before = func() error {
			if calls++; calls > at {
				o.items.before = nil
				_, err := record.Remove[catalog.User](t.Context(), o.store, record.Of("o"), "b", nil)
				require.NoError(t, err)
			}
			return nil
		}
		assert.Equal(t, time.Minute, o.handle(job), "call %d", at)
		done = o.items.before != nil
		for _, id := range []string{"a", "c", "d"} {
			u, err := record.Resource[catalog.User](t.Context(), o.store, record.Of("o"), id)
			require.NoError(t, err)
			assert.Empty(t, u.Value.GroupIDs, "call %d", at)
		}
	}
	o := newOffice(t)
	run := o.run("c")
	job := o.begin(record.Job{Kind: record.RemoveChat, Subject: "c", OwnID: true})
	before, calls := o.job(job), 0
	o.items.before = func() error { // another writer changes the run before each call
		calls++
		before := o.items.before
		o.items.before = nil
		e, err := o.store.Run(t.Context(), record.System(), run.Value.ID())
		if err == nil {
			tx := o.store.Begin(o.NewID())
			tx.PutRun(e)
			require.NoError(t, tx.Commit(t.Context()))
		}
		o.items.before = before
		return nil
	}
	assert.Zero(t, o.handle(job))
	o.items.before = nil
	assert.Equal(t, before, o.job(job), "its time stands, so that the sweeper comes back")
	assert.Equal(t, "yes", o.are(run.Value.ID()))
	assert.Equal(t, time.Minute, o.handle(job))
	assert.Equal(t, "no", o.are(run.Value.ID()))
}

// begin stores a job that is due.
func (o *office) begin(j record.Job) (id string) {
	j.ID, j.Organization, j.Due = o.NewID(), "o", o.Now()
	tx := o.store.Begin(j.ID)
	tx.PutJob(record.Fresh(j))
	require.NoError(o, tx.Commit(o.Context()))
	return j.ID
}

func (o *office) handle(job string) time.Duration {
	o.Helper()
	again, err := o.remover.Handle(o.Context(), job)
	require.NoError(o, err)
	return again
}

// is reports whether the job exists.
func (o *office) is(job string) bool {
	_, found, err := o.store.Job(o.Context(), job)
	require.NoError(o, err)
	return found
}

func (o *office) job(id string) record.Job {
	e, found, err := o.store.Job(o.Context(), id)
	require.NoError(o, err)
	require.True(o, found)
	return e.Value
}

func put[T record.Resourceful](o *office, v T) {
	o.Helper()
	_, err := record.Create(o.Context(), o.store, v, o.NewID())
	require.NoError(o, err)
}

// count returns the number of resources of a kind.
func count[T record.Resourceful](o *office) int {
	page, err := record.Resources[T](o.Context(), o.store, record.Of("o"), "", 1000)
	require.NoError(o, err)
	return len(page.Rows)
}

// old stores a run of this age that has ended at finished or, with the zero time, is active.
func (o *office) old(id string, created, finished time.Time) {
	spec := lifecycle.RunSpec{RunID: id, Organization: "o", User: "u", Agent: "a", Chat: "c", LimitMS: 1000}
	r := record.Run{Run: lifecycle.Accept(spec, lifecycle.ChatPosition{Turn: 1}, created, created),
		Input: &record.Input{}}
	if r.Status = lifecycle.Running; !finished.IsZero() {
		r.Status, r.FinishedAt = lifecycle.Completed, finished
	}
	tx := o.store.Begin(o.NewID())
	tx.PutRun(record.Fresh(r))
	require.NoError(o, tx.Commit(o.Context()))
}

// are reports for each run whether it exists.
func (o *office) are(runs ...string) string {
	there := make([]string, 0, len(runs))
	for _, id := range runs {
		_, err := o.store.Run(o.Context(), record.System(), id)
		there = append(there, map[bool]string{true: "yes", false: "no"}[err == nil])
	}
	return strings.Join(there, " ")
}
