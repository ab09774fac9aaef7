package removal_test

import (
	"context"
	"errors"
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
	"agentplatform/internal/platform/share"
	"agentplatform/internal/run/intake"
	"agentplatform/internal/run/sweep"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/store/blob/memblob"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
	"agentplatform/internal/store/table/memtable"
)

// estate is two organizations, each with one item of every kind.
type estate struct {
	*office

	tenants *tenant.Tenants
	intake  *intake.Intake
	ours    *household
	hers    *household
	late    string // a run that was accepted while the removal was under way
}

type household struct {
	organization, group, agent, toolkit string
	a, b                                member
	c, d                                string        // more users of the group, and one in no group
	lent                                record.File   // of a; b's run refers to it
	old                                 lifecycle.Run // of a, ended
}

// member has a key, a file that no run refers to, a file of its own run, and an active run. A message of the other
// member is parked on that run.
type member struct {
	tenant.Principal

	key           string
	unheld, held  record.File
	chat          string
	run           string
	parkedByOther string
}

func (o *office) Sleep(ctx context.Context, _ time.Duration) error { return ctx.Err() }

func newEstate(t *testing.T) *estate {
	o := newOffice(t)
	e := &estate{office: o}
	e.tenants = tenant.New(o.store, o.store.Cached(), o,
		tenant.Defaults{UserCap: 9, OrganizationCap: 9, ActiveLimit: time.Minute}, nil)
	o.shell.StartDeadline, o.shell.Caps = 1000*time.Hour, e.tenants.Caps
	e.intake = &intake.Intake{Executor: o.shell, Store: o.store, Tenants: e.tenants, Host: o}
	e.ours, e.hers = e.household("ours"), e.household("hers")
	return e
}

func must[T any](e *estate) func(T, error) T {
	return func(v T, err error) T {
		e.Helper()
		require.NoError(e, err)
		return v
	}
}

func (e *estate) household(name string) *household {
	ctx := e.Context()
	h, visibility := &household{}, catalog.SeesAll
	o := must[record.Entity[catalog.Organization]](e)(e.tenants.CreateOrganization(ctx,
		tenant.OrganizationEdit{Name: &name, Visibility: &visibility}))
	h.organization = o.Value.ID
	h.group = must[record.Entity[catalog.Group]](e)(e.tenants.CreateGroup(ctx, h.organization,
		tenant.GroupEdit{Name: &name})).Value.ID
	k := catalog.Toolkit{ID: e.NewID(), Organization: h.organization}
	h.toolkit = must[record.Entity[catalog.Toolkit]](e)(record.Create(ctx, e.store, k, k.ID)).Value.ID
	spec := e.tenants.DefaultSpec(h.organization)
	spec.Name, spec.GroupIDs = "agent", []string{h.group}
	h.agent = must[record.Entity[catalog.Agent]](e)(e.tenants.CreateAgent(ctx, h.organization, spec, true)).Value.ID
	must[[]string](e)(e.tenants.ToolNames(ctx, h.organization, []catalog.Agent{{ID: h.agent, Spec: spec}}))
	gone := must[record.Entity[catalog.Agent]](e)(e.tenants.CreateAgent(ctx, h.organization, spec, true)).Value.ID
	for _, m := range []*member{&h.a, &h.b} {
		email, role := name+string(rune('a'+len(h.a.key)%25))+"@example.com", string(tenant.Admin)
		groups := []string{h.group}
		user := must[record.Entity[catalog.User]](e)(e.tenants.CreateUser(ctx, tenant.Platform(), h.organization,
			tenant.UserEdit{Email: &email, Role: &role, GroupIDs: &groups})).Value.ID
		_, text, err := e.tenants.CreateKey(ctx, tenant.Platform(), record.Of(h.organization),
			tenant.NewKey{Name: "k", UserID: user, Level: tenant.LevelAdmin})
		require.NoError(e, err)
		m.key = text
		m.Principal = must[tenant.Principal](e)(e.tenants.Authenticate(ctx, text))
	}
	for _, of := range []struct {
		user   *string
		groups []string
	}{{&h.c, []string{h.group}}, {&h.d, []string{}}} {
		email, role := name+e.NewID()+"@example.com", string(tenant.Member)
		*of.user = must[record.Entity[catalog.User]](e)(e.tenants.CreateUser(ctx, tenant.Platform(), h.organization,
			tenant.UserEdit{Email: &email, Role: &role, GroupIDs: &of.groups})).Value.ID
	}
	require.NoError(e, e.tenants.RemoveAgent(ctx, h.a.Principal, gone))
	post := func(m *member, chat, text string, files ...record.FileRef) intake.Posted {
		message := intake.Message{AgentID: h.agent, ChatID: chat, Text: text, Enqueue: true, Files: files}
		return must[intake.Posted](e)(e.intake.Post(ctx, m.Principal, message))
	}
	for i, m := range []*member{&h.a, &h.b} {
		m.unheld, m.held, m.chat = e.fileOf(m, "unheld"), e.fileOf(m, "held"), "chat of "+string(rune('a'+i))
		m.chat = strings.ReplaceAll(m.chat, " ", "-")
		held := []record.FileRef{m.held.Ref()}
		if i == 1 {
			h.lent = e.fileOf(&h.a, "lent")
			held = append(held, h.lent.Ref())
		}
		ended := post(m, m.chat, "the title", held...).Run.Run
		e.end(ended.RunID)
		if i == 0 {
			h.old = ended
		}
		m.run = post(m, m.chat, "active").Run.ID()
	}
	h.a.parkedByOther = post(&h.b, h.a.chat, "parked").Parked.ParkedID
	h.b.parkedByOther = post(&h.a, h.b.chat, "parked").Parked.ParkedID
	return h
}

func (e *estate) fileOf(m *member, content string) record.File {
	f := e.store.NewFile(m.Organization, m.User, content+".txt", "text/plain")
	must[record.Entity[record.File]](e)(record.Create(e.Context(), e.store, f, f.ID))
	return must[record.File](e)(e.store.FillFile(e.Context(), record.Of(m.Organization), f.ID,
		strings.NewReader(content), 100))
}

func (e *estate) end(run string) {
	_, err := e.shell.Do(e.Context(), record.System(), run, func(record.Run, *record.Tx) (transition.Change, error) {
		return transition.Change{Event: lifecycle.Remove{KeepParked: true}}, nil
	})
	require.NoError(e, err)
}

// owned returns the items of an organization, by the kind of their keys.
func (e *estate) owned(organization string) map[string]int {
	kinds := map[string]int{}
	e.items.All(func(i *table.Item) {
		if i.Owner == organization || strings.Contains(i.Part+i.Sort+string(i.Body), organization) {
			kind, _, _ := strings.Cut(i.Part, "/")
			kinds[kind]++
		}
	})
	return kinds
}

// all runs a removal to its end, sweep by sweep. A failed call is made again.
func (e *estate) all() {
	sweeper := &sweep.Sweeper{Executor: e.shell, Store: e.store, Queue: e.sent, Host: e, Log: e.shell.Log}
	for range 10 {
		e.ahead += 2 * time.Minute
		_ = sweeper.Sweep(e.Context())
		for _, id := range e.sent.take() {
			for again, n := time.Millisecond, 0; again > 0 && again <= time.Second && n < 50; n++ {
				var err error
				if again, err = e.remover.Handle(e.Context(), id); err != nil {
					again = time.Millisecond
				}
			}
		}
	}
}

func (e *estate) run(id string) (record.Run, bool) {
	r, err := e.store.LiveRun(e.Context(), record.System(), id)
	if problem.Is(err, "not_found") {
		return record.Run{}, false
	}
	require.NoError(e, err)
	return r.Value, true
}

func (e *estate) hasFile(f record.File) bool {
	_, err := record.Resource[record.File](e.Context(), e.store, record.System(), f.ID)
	return err == nil && slices.Contains(e.blobs.Keys(), f.Blob)
}

func (e *estate) good(key string) bool {
	_, err := e.tenants.Authenticate(e.Context(), key)
	return err == nil
}

func (e *estate) user(id string) record.Entity[catalog.User] {
	read := must[record.Entity[catalog.User]](e)
	return read(record.Resource[catalog.User](e.Context(), e.store, record.System(), id))
}

func (e *estate) title(m member) string {
	c, err := e.store.Chat(e.Context(), m.Scope(), m.chat)
	require.NoError(e, err)
	return c.Value.Title
}

// removalOf is a removal, and the checks of its result.
type removalOf struct {
	begin func(e *estate) (job string, err error)
	then  func(e *estate)
}

var removals = map[string]removalOf{
	"a user": {func(e *estate) (string, error) {
		return e.tenants.RemoveUser(e.Context(), tenant.Platform(), e.ours.a.Scope(), e.ours.a.User)
	}, func(e *estate) {
		a, b := e.ours.a, e.ours.b
		for _, id := range []string{a.run, e.ours.old.RunID, b.parkedByOther} {
			_, there := e.run(id)
			assert.False(e, there)
		}
		run, there := e.run(b.run)
		require.True(e, there)
		assert.Empty(e, run.Parked, "what the user had parked with others is withdrawn")
		next, there := e.run(a.parkedByOther)
		require.True(e, there, "what others had parked with the user goes on")
		assert.Equal(e, lifecycle.Queued, next.Status)
		assert.Equal(e, []bool{false, true}, []bool{e.good(a.key), e.good(b.key)})
		assert.Equal(e, []bool{false, false, true, true, true},
			[]bool{
				e.hasFile(a.unheld), e.hasFile(a.held), e.hasFile(b.unheld), e.hasFile(b.held), e.hasFile(e.ours.lent),
			})
		assert.Equal(e, []string{"", "the title"}, []string{e.title(a), e.title(b)})
		list := must[record.Page[record.Entity[catalog.APIKey]]](e)
		keys := list(record.Resources[catalog.APIKey](e.Context(), e.store, a.Scope(), "", 10))
		assert.Len(e, keys.Rows, 1)
	}},
	"a group": {func(e *estate) (string, error) {
		return e.tenants.RemoveGroup(e.Context(), e.ours.a.Scope(), e.ours.group)
	}, func(e *estate) {
		for _, h := range []*household{e.ours, e.hers} {
			for _, user := range []string{h.a.User, h.b.User, h.c} {
				assert.Equal(e, h == e.hers, len(e.user(user).Value.GroupIDs) == 1)
			}
			assert.EqualValues(e, 1, e.user(h.d).Version(), "who was in no group is not written")
		}
		agent := must[record.Entity[catalog.Agent]](e)(record.Resource[catalog.Agent](e.Context(), e.store,
			e.ours.a.Scope(), e.ours.agent))
		assert.Equal(e, []string{e.ours.group}, agent.Value.Spec.GroupIDs, "an agent stays closed")
	}},
	"a chat": {func(e *estate) (string, error) {
		return e.intake.DeleteChat(e.Context(), e.ours.a.Principal, e.ours.a.chat)
	}, func(e *estate) {
		for _, id := range []string{e.ours.a.run, e.ours.old.RunID, e.ours.a.parkedByOther} {
			_, there := e.run(id)
			assert.False(e, there)
			_, err := e.store.Run(e.Context(), record.System(), id)
			assert.True(e, problem.Is(err, "not_found"))
		}
		_, there := e.run(e.ours.b.run)
		assert.True(e, there)
		assert.Equal(e, []bool{true, false}, []bool{e.hasFile(e.ours.a.unheld), e.hasFile(e.ours.a.held)})
	}},
	"an organization": {func(e *estate) (string, error) {
		return e.tenants.RemoveOrganization(e.Context(), e.ours.organization)
	}, func(e *estate) {
		left := e.owned(e.ours.organization)
		for kind := range left {
			assert.Contains(e, []string{"ledger", "charge", "organization", "audit", "job", "retention"}, kind, "%v",
				left)
		}
		for _, m := range []member{e.ours.a, e.ours.b} {
			assert.False(e, e.good(m.key))
			assert.False(e, e.hasFile(m.unheld))
			assert.False(e, e.hasFile(m.held))
		}
		assert.Len(e, e.blobs.Keys(), 5, "hers")
		o, err := record.Resource[catalog.Organization](e.Context(), e.store, record.System(), e.ours.organization)
		require.NoError(e, err)
		assert.Empty(e, o.Value.Name)
		assert.True(e, o.Value.Deleted)
	}},
}

// A removal deletes all data of its subject and no other data. Its job ends.
func TestRemovalDeletesAllOfItsSubjectAndNothingElse(t *testing.T) {
	for name, r := range removals {
		t.Run(name, func(t *testing.T) {
			e := newEstate(t)
			hers := e.owned(e.hers.organization)
			jobs := e.owned("job/")
			_, err := r.begin(e)
			require.NoError(t, err)
			e.all()
			r.then(e)
			assert.Equal(t, hers, e.owned(e.hers.organization))
			assert.Equal(t, jobs, e.owned("job/"))
			for _, m := range []member{e.hers.a, e.hers.b} {
				run, there := e.run(m.run)
				assert.True(t, there && len(run.Parked) == 1)
				assert.True(t, e.good(m.key))
			}
		})
	}
}

// troubled is a table in which each call may fail before it has an effect.
type troubled struct {
	*memtable.Table

	before func() error
}

func (s *troubled) call() error {
	if s.before == nil {
		return nil
	}
	return s.before()
}

func (s *troubled) Get(ctx context.Context, keys ...table.Key) ([]*table.Item, error) {
	if err := s.call(); err != nil {
		return nil, err
	}
	return s.Table.Get(ctx, keys...)
}

func (s *troubled) Query(ctx context.Context, r table.Range) ([]*table.Item, error) {
	if err := s.call(); err != nil {
		return nil, err
	}
	return s.Table.Query(ctx, r)
}

func (s *troubled) List(ctx context.Context, index table.Index, r table.Range) ([]table.Entry, error) {
	if err := s.call(); err != nil {
		return nil, err
	}
	return s.Table.List(ctx, index, r)
}

func (s *troubled) Commit(ctx context.Context, token string, ops ...table.Op) error {
	if err := s.call(); err != nil {
		return err
	}
	return s.Table.Commit(ctx, token, ops...)
}

// stuck is a blob store in which deletions fail while calls fail. They also fail if the owner of the bytes is not
// known, as a disk returns the space to their organization.
type stuck struct {
	*memblob.Store
	calls *troubled
}

func (s stuck) call(ctx context.Context) error {
	if share.Of(ctx).Organization == "" {
		return errors.New("nobody has the room back")
	}
	return s.calls.call()
}

func (s stuck) Delete(ctx context.Context, key string) error {
	if err := s.call(ctx); err != nil {
		return err
	}
	return s.Store.Delete(ctx, key)
}

func (s stuck) DeleteAll(ctx context.Context, below string) error {
	if err := s.call(ctx); err != nil {
		return err
	}
	return s.Store.DeleteAll(ctx, below)
}

// A run of a deleted chat, or of a deleted user, stays until its worker has ended it. The tokens of its call under way
// are counted.
func TestARemovalWaitsForTheWorkerOfARun(t *testing.T) {
	for _, what := range []string{"a chat", "a user", "an organization"} {
		e := newEstate(t)
		run := e.ours.a.run
		does := func(event lifecycle.Event) {
			_, err := e.shell.Do(t.Context(), record.System(), run,
				func(record.Run, *record.Tx) (transition.Change, error) { return transition.Change{Event: event}, nil })
			require.NoError(t, err, what)
		}
		does(lifecycle.Claim{Holder: "w", Until: e.Now().Add(time.Hour)})
		_, err := removals[what].begin(e)
		require.NoError(t, err)
		e.all()
		going, err := e.store.Run(t.Context(), record.System(), run)
		require.NoError(t, err, what)
		require.Equal(t, []any{lifecycle.Running, true}, []any{going.Value.Status, going.Value.CancelRequested}, what)
		does(lifecycle.Fail{Work: lifecycle.Work{Attempt: 1, Usage: lifecycle.Usage{InputTokens: 7}}})
		tokens := int64(0)
		for entry, err := range e.store.Through(t.Context(), record.Of(going.Value.Organization),
			e.Now().Add(-time.Hour), e.Now().Add(time.Hour)) {
			require.NoError(t, err)
			tokens += entry.InputTokens
		}
		assert.EqualValues(t, 7, tokens, what)
		e.all()
		_, err = e.store.Run(t.Context(), record.System(), run)
		assert.True(t, problem.Is(err, "not_found"), "%s: %v", what, err)
	}
}
