package removal_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/proof/faulttable"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
)

// former converts all stored items to the form of earlier versions: without the listings by user.
func (o *office) former() {
	var ops []table.Op
	o.items.All(func(i *table.Item) {
		kind, _, _ := strings.Cut(i.Part, "/")
		was := *i
		switch kind {
		case "runs-of", "guests-of", "holders":
			ops = append(ops, table.Delete(i.Key, table.Always()))
			return
		case "chat", "hook":
			was.Lists = i.Lists[:min(1, len(i.Lists))]
		}
		var body map[string]any
		require.NoError(o, json.Unmarshal(i.Body, &body))
		for _, later := range []string{"chat_user_id", "owner_id", "listed_by_user"} {
			delete(body, later)
		}
		var err error
		was.Body, err = json.Marshal(body)
		require.NoError(o, err)
		ops = append(ops, table.Put(was, table.VersionIs(i.Version)))
	})
	for n, op := range ops {
		if op.Kind == table.PutOp && op.Item.Version == 1 { // an item that was written without a condition
			op.If = table.Always()
		}
		require.NoError(o, o.items.Commit(o.Context(), fmt.Sprint("former", n), op))
	}
}

// listed is the content of the listings by user for a user's chats.
func (o *office) listed(organization, user string) (runs, chats, deliveries []string) {
	scope := record.Of(organization)
	for after, more := "", true; more; more = after != "" {
		page, err := o.store.RunsOfUser(o.Context(), scope, user, after, 100)
		require.NoError(o, err)
		for _, e := range page.Rows {
			assert.Equal(o, user, e.Value.Owner())
		}
		runs, after = append(runs, page.Positions...), page.Next
	}
	c, err := o.store.ChatsOfUser(o.Context(), scope, user, "", 1000)
	require.NoError(o, err)
	for _, e := range c.Rows {
		chats = append(chats, e.Value.ID)
	}
	h, err := o.store.DeliveriesOfUser(o.Context(), scope, user, "", 1000)
	require.NoError(o, err)
	for _, e := range h.Rows {
		deliveries = append(deliveries, e.Value.DeliveryID)
	}
	return runs, chats, deliveries
}

func (o *office) isListed(organization string) bool {
	e, err := record.Resource[catalog.Organization](o.Context(), o.store, record.System(), organization)
	require.NoError(o, err)
	return e.Value.ListedByUser
}

// Runs, chats and deliveries of earlier versions are listed by user when their organization makes chats private, or by
// the daily job. The listing of runs includes those that others have sent. It is done again after an hour, for rows
// that an earlier version has written in between.
func TestWhatEarlierVersionsStoredIsListedByUser(t *testing.T) {
	for name, begin := range map[string]func(e *estate){
		"chats become their user's own": func(e *estate) {
			_, err := record.Change(t.Context(), e.store, record.System(), e.ours.organization, 0,
				func(o *catalog.Organization, _ *record.Tx) error { o.ChatVisibility = catalog.SeesOwn; return nil })
			require.NoError(e, err)
			for _, id := range []string{e.ours.organization, e.ours.organization, e.hers.organization} {
				_, err = e.tenants.EditOrganization(t.Context(), tenant.Platform(), id, 0, tenant.OrganizationEdit{})
				require.NoError(e, err)
			}
			assert.Zero(t, e.job(record.DerivedID("listing", e.hers.organization)), "it shares its chats")
		},
		"a day has passed": func(e *estate) { e.ahead += 25 * time.Hour },
	} {
		t.Run(name, func(t *testing.T) {
			e := newEstate(t)
			lost := e.accept(&e.ours.a) // it is stored without a row while the job continues
			for _, m := range []*member{&e.ours.a, &e.ours.b} {
				e.end(m.run) // the parked message of the other in the chat is a run now
			}
			guest := e.ours.b.parkedByOther
			h := record.Delivery{DeliveryID: record.DeliveryID(guest, 1), RunID: guest,
				Organization: e.ours.organization, User: e.ours.a.User, Sequence: 1, State: record.DeliveryFailed}
			tx := e.store.Begin("delivery")
			tx.NewDelivery(t.Context(), h)
			require.NoError(t, tx.Commit(t.Context()))
			e.former()
			runs, chats, deliveries := e.listed(e.ours.organization, e.ours.b.User)
			require.Empty(t, runs)
			require.Empty(t, chats)
			require.Empty(t, deliveries)

			begin(e)
			e.all()
			runs, chats, deliveries = e.listed(e.ours.organization, e.ours.b.User)
			require.Len(t, runs, 3)
			assert.Equal(t, []string{e.ours.b.parkedByOther, e.ours.b.run}, runs[:2])
			assert.Equal(t, []string{e.ours.b.chat}, chats)
			assert.Equal(t, []string{h.DeliveryID}, deliveries)
			agents, noted, err := e.store.HeldFor(t.Context(), e.ours.lent.ID, e.ours.b.User)
			require.NoError(t, err)
			assert.True(t, noted)
			assert.Equal(t, []string{e.ours.agent}, agents)
			runs, chats, deliveries = e.listed(e.ours.organization, e.ours.a.User)
			assert.ElementsMatch(t, []string{e.ours.a.parkedByOther, e.ours.a.run, e.ours.old.RunID, lost}, runs)
			assert.ElementsMatch(t, []string{e.ours.a.chat, "late-" + lost}, chats)
			assert.Empty(t, deliveries)
			active, err := e.store.ActiveRunsOfUser(t.Context(), e.ours.b.Scope(), e.ours.b.User)
			require.NoError(t, err)
			assert.Contains(t, active, e.ours.b.parkedByOther)

			require.False(t, e.isListed(e.ours.organization), "not before the second time")
			key, known := record.UserRunKey(lifecycle.Run{Turn: 1, RunSpec: lifecycle.RunSpec{
				RunID: lost, Organization: e.ours.organization, User: e.ours.a.User}})
			require.True(t, known)
			require.NoError(t, e.items.Commit(t.Context(), "lost", table.Delete(key, table.Always())))
			for range 6 {
				e.all()
			}
			assert.True(t, e.isListed(e.ours.organization))
			assert.Zero(t, e.job(record.DerivedID("listing", e.ours.organization)), "the job has ended")
			runs, _, _ = e.listed(e.ours.organization, e.ours.a.User)
			assert.Contains(t, runs, lost)
		})
	}
}

// A large organization is listed in pieces. No piece lists a run again.
func TestALargeOrganizationIsListedInPieces(t *testing.T) {
	o := newOffice(t)
	put(o, catalog.Organization{ID: "o"})
	for n := range piece + 1 {
		o.old(fmt.Sprintf("run%04d", n), o.Now(), o.Now())
	}
	o.former()
	job := o.begin(record.Job{Kind: record.ListByUser, Subject: "o"})
	var pieces []time.Duration
	for again := time.Millisecond; again > 0; {
		again = o.handle(job)
		pieces = append(pieces, again)
	}
	assert.Equal(t, []time.Duration{time.Millisecond, 0}, pieces)
	runs, _, _ := o.listed("o", "u")
	assert.Len(t, runs, piece+1)
	assert.Zero(t, o.handle(job), "a wake-up message that comes again")
	assert.False(t, o.isListed("o"))
	o.ahead += record.LateWrites
	assert.Equal(t, time.Millisecond, o.handle(job))
	assert.Zero(t, o.handle(job))
	assert.True(t, o.isListed("o"))
	assert.False(t, o.is(job))
}

// A run that is deleted, or continues, while it is being listed has a row exactly as long as it has a head.
func TestARunThatChangesMeanwhileIsListedByTheNextTry(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(s *record.Store, e record.RunEntity) error
		want      int
	}{
		"deleted": {func(s *record.Store, e record.RunEntity) error {
			return s.EraseRun(t.Context(), e, "gone", false)
		}, 0},
		"deleted with its user": {func(s *record.Store, e record.RunEntity) error {
			return s.EraseRun(t.Context(), e, "gone", true)
		}, 0},
		"changed": {func(s *record.Store, e record.RunEntity) error {
			tx := s.Begin("changed")
			tx.PutRun(e)
			return tx.Commit(t.Context())
		}, 1},
	} {
		o := newOffice(t)
		put(o, catalog.Organization{ID: "o"})
		o.old("run", o.Now(), o.Now())
		o.former()
		items := &faulttable.Table{Inner: o.items}
		store := record.New(items, o.blobs, o)
		o.remover.Store, o.remover.Executor.Store = store, store
		job := o.begin(record.Job{Kind: record.ListByUser, Subject: "o"})
		e, err := o.store.Run(t.Context(), record.System(), "run")
		require.NoError(t, err)
		items.Overtake(func() { require.NoError(t, c.meanwhile(o.store, e)) })
		o.handle(job)
		assert.Equal(t, "", o.job(job).Cursor, "%s: the page is tried again", name)
		for range 2 {
			o.handle(job)
			o.ahead += record.LateWrites
		}
		assert.True(t, o.isListed("o"), name)
		rows := 0
		o.items.All(func(i *table.Item) {
			if strings.HasPrefix(i.Part, "runs-of/") {
				rows++
			}
		})
		assert.Equal(t, c.want, rows, name)
	}
}
