package removal_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
)

// If any call of the store fails permanently, in any piece of a removal, Handle returns an error and the job is
// unchanged. The piece, done again, has the same result as without the failure.
func TestFailedStoreCallIsReportedAndThePieceRetried(t *testing.T) {
	pieces := maps.Clone(moreRemovals)
	maps.Copy(pieces, removals)
	for name, r := range pieces {
		t.Run(name, func(t *testing.T) {
			e := newEstate(t)
			job, err := r.begin(e)
			require.NoError(t, err)
			for pieces, again := 0, time.Millisecond; again > 0; pieces++ {
				require.Less(t, pieces, 10)
				if e.job(job).Cursor == "second:" {
					e.late = e.accept(&e.ours.a) // by a request that was authenticated before the removal
				}
				before, was := e.items.Table, e.job(job)
				e.items.Table = before.Copy(e.Now)
				again, err = e.remover.Handle(t.Context(), job)
				require.NoError(t, err)
				want, after := e.keys(), e.items.Table
				for fails, failed := 0, -1; failed != 0; fails++ {
					require.Less(t, fails, 1000)
					e.items.Table = before.Copy(e.Now)
					calls := 0
					failed = 0
					e.items.before = func() error {
						if calls++; calls > fails && failed < patience {
							failed++
							return &table.Error{Kind: table.Down, Err: errors.New("away")}
						}
						return nil
					}
					_, err := e.remover.Handle(t.Context(), job)
					e.items.before = nil
					require.Equal(t, failed > 0, err != nil, "call %d of piece %d: %v", fails, pieces, err)
					if failed > 0 {
						require.Equal(t, was, e.job(job), "call %d of piece %d", fails, pieces)
						next, err := e.remover.Handle(t.Context(), job)
						require.NoError(t, err)
						require.Equal(t, again, next)
					}
					require.Equal(t, want, e.keys(), "call %d of piece %d", fails, pieces)
				}
				e.items.Table = after
				e.ahead += again
				if cursor := e.job(job).Cursor; (cursor == record.BodiesRemoved || cursor == "late:") && again == 0 {
					// It has one more piece.
					e.ahead += record.LateWrites
					again = time.Millisecond
				}
			}
			e.all()
			r.then(e)
			if e.late != "" {
				_, there := e.run(e.late)
				assert.Equal(t, name == "a chat" || name == "a group", there)
				e.items.All(func(i *table.Item) {
					if !there && strings.HasPrefix(i.Part, "active/") {
						assert.NotContains(t, i.Sort+string(i.Body), e.late, "it has given back its slots")
					}
				})
			}
		})
	}
}

// moreRemovals are those that no client requests: because of age, or because nothing refers to the item.
var moreRemovals = map[string]removalOf{
	"what is too old": {func(e *estate) (string, error) {
		days := 1
		_, err := e.tenants.EditOrganization(e.Context(), tenant.Platform(), e.ours.organization, 0,
			tenant.OrganizationEdit{RetentionDays: &days})
		e.ahead += 25 * time.Hour
		return record.DerivedID("retention", e.ours.organization), err
	}, func(e *estate) {
		for _, m := range []member{e.ours.a, e.ours.b} {
			_, there := e.run(m.run)
			assert.True(e, there, "it is at work")
			assert.False(e, e.hasFile(m.held))
		}
		_, err := e.store.Run(e.Context(), record.System(), e.ours.old.RunID)
		assert.True(e, problem.Is(err, "not_found"))
		_, err = e.store.Run(e.Context(), record.System(), e.hers.old.RunID)
		assert.NoError(e, err)
	}},
	"a chat whose client wants nothing stored": {func(e *estate) (string, error) {
		e.late = e.accept(&e.ours.a)
		e.end(e.late)
		e.ahead += record.ForgetAfter
		return e.begin(record.Job{Kind: record.ForgetChat, Subject: e.late}), nil
	}, func(e *estate) {
		_, err := e.store.Link(e.Context(), e.late)
		assert.True(e, problem.Is(err, "not_found"))
	}},
	"deliveries that are too old": {func(e *estate) (string, error) {
		tx := e.store.Begin("deliveries")
		for n := range 2 {
			tx.NewDelivery(e.Context(), record.Delivery{RunID: e.ours.old.RunID, Sequence: 900 + n,
				DeliveryID: record.DeliveryID(e.ours.old.RunID, 900+n), Organization: e.ours.organization,
				State: record.DeliveryFailed, Body: strings.Repeat("x", 9<<10*n),
				Attempts: []record.DeliveryAttempt{{At: e.Now()}}})
		}
		e.remover.DeliveryDays, e.ahead = 1, e.ahead+25*time.Hour
		return record.DerivedID("retention", e.ours.organization), tx.Commit(e.Context())
	}, func(e *estate) {
		rows, err := e.store.DeliveriesOfRun(e.Context(), record.System(), e.ours.old.RunID)
		require.NoError(e, err)
		assert.Empty(e, rows)
		assert.False(e, e.hasBlobs("documents/hook/"))
		_, there := e.run(e.ours.old.RunID)
		assert.True(e, there, "its run is kept")
	}},
	"no listing by user": {func(e *estate) (string, error) {
		e.end(e.ours.b.run) // the parked message of the other in the chat is a run now
		e.former()
		tx := e.store.Begin("begin")
		tx.BeginListing(e.Context(), e.ours.organization)
		return record.DerivedID("listing", e.ours.organization), tx.Commit(e.Context())
	}, func(e *estate) {
		runs, chats, _ := e.listed(e.ours.organization, e.ours.b.User)
		assert.Len(e, runs, 3)
		assert.Equal(e, []string{e.ours.b.chat}, chats)
		assert.True(e, e.isListed(e.ours.organization))
		assert.False(e, e.isListed(e.hers.organization))
	}},
	"a file that nobody has taken hold of": {func(e *estate) (string, error) {
		e.ahead += 25 * time.Hour
		return record.FileWakeupID(e.ours.a.unheld.ID), nil
	}, func(e *estate) { assert.False(e, e.hasFile(e.ours.a.unheld)) }},
	"the body of a message that is no run": {func(e *estate) (string, error) {
		spec := lifecycle.RunSpec{
			RunID:        e.NewID(),
			Organization: e.ours.organization,
			User:         "u",
			Agent:        "a",
			Chat:         "c",
		}
		tx := e.store.Begin("move")
		tx.PutInput(e.Context(), spec, record.Input{Message: strings.Repeat("long ", 5000)}, e.Now())
		e.ahead += time.Minute
		return record.DerivedID("body", spec.RunID), tx.Err()
	}, func(e *estate) {
		assert.False(e, e.hasBlobs("documents/"))
	}},
	"what a toolkit kept": {func(e *estate) (string, error) {
		k := catalog.Toolkit{ID: e.ours.toolkit, Organization: e.ours.organization}
		tx := e.store.Begin("begin")
		tx.PutBlob(e.Context(), k, "tools", []byte("{}"))
		tx.DropBlobs(k, record.RemoveToolkit)
		return record.DerivedID("toolkit", k.ID), tx.Commit(e.Context())
	}, func(e *estate) {
		assert.False(e, e.hasBlobs("toolkits/"))
		assert.Zero(e, e.job(record.DerivedID("toolkit", e.ours.toolkit)), "the job is done")
	}},
	"a value that no toolkit came to name": {func(e *estate) (string, error) {
		k := catalog.Toolkit{ID: e.ours.toolkit, Organization: e.ours.organization}
		tx := e.store.Begin("begin")
		key := tx.PutBlob(e.Context(), k, "tools", []byte("{}"))
		e.ahead += 15 * time.Minute
		return record.DerivedID("blob", key), tx.Err()
	}, func(e *estate) { assert.False(e, e.hasBlobs("toolkits/")) }},
}

// patience is the number of attempts of a call of the store.
const patience = 8

// job returns the stored job; the zero value when it has ended.
func (e *estate) job(id string) record.Job {
	j, _, err := e.store.Job(e.Context(), id)
	require.NoError(e, err)
	return j.Value
}

// counts returns the keys of all stored items. Slots have random numbers, and entries of the ledger have times in their
// keys, so both are only counted.
func (e *estate) keys() map[string]int {
	counts := map[string]int{}
	e.items.All(func(i *table.Item) {
		if strings.HasPrefix(i.Part, "active/") || strings.HasPrefix(i.Part, "ledger/") {
			counts[i.Part]++
		} else {
			counts[i.String()]++
		}
	})
	return counts
}

func (e *estate) hasBlobs(below string) bool {
	return slices.ContainsFunc(e.blobs.Keys(), func(key string) bool { return strings.HasPrefix(key, below) })
}

// accept starts a run of a member in its own chat, also when the member has been deleted.
func (e *estate) accept(m *member) (run string) {
	id := e.NewID()
	spec := lifecycle.RunSpec{
		RunID:        id,
		Organization: m.Organization,
		User:         m.User,
		APIKey:       m.Key,
		Agent:        e.ours.agent,
		AgentVersion: 1,
		Chat:         "late-" + id,
		OwnChatID:    true,
		LimitMS:      1000,
	}
	chat := lifecycle.Chat{
		ID: spec.Chat, OwnID: true, Organization: spec.Organization, User: spec.User, CreatedAt: e.Now(),
	}
	_, err := e.shell.Accept(e.Context(), e.store.Begin(id), transition.Acceptance{
		Spec: spec, Input: record.Input{Message: "late"}, Chat: record.Fresh(chat),
		Slots: lifecycle.Slots{User: "over/" + id, Organization: "over/" + id},
	})
	require.NoError(e, err)
	return id
}
