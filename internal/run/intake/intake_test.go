package intake_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/proof/faulttable"
	"agentplatform/internal/run/intake"
	"agentplatform/internal/run/stream"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/store/blob/memblob"
	"agentplatform/internal/store/queue/localqueue"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
	"agentplatform/internal/store/table/memtable"
)

// contested is a table in which another writer is always faster.
type contested struct {
	table.Table

	commits int
}

func (c *contested) Commit(context.Context, string, ...table.Op) error {
	c.commits++
	return &table.Refused{Conflicts: []table.Conflict{{}}}
}

// hasty is a host that does not wait.
type hasty struct{ host.Host }

func (hasty) Sleep(ctx context.Context, _ time.Duration) error { return ctx.Err() }

// world is an organization with the demo agent and a user.
type world struct {
	*intake.Intake

	t     *testing.T
	items *faulttable.Table
	who   tenant.Principal
	agent string
}

func newWorld(t *testing.T) *world {
	h := hasty{host.System()}
	w := &world{t: t, items: &faulttable.Table{Inner: memtable.New(h.Now)}}
	store := record.New(w.items, &memblob.Store{}, h)
	tenants := tenant.New(store, store.Cached(), h,
		tenant.Defaults{UserCap: 5, OrganizationCap: 5, RateLimit: 1, RateBurst: 1, ActiveLimit: time.Minute}, nil)
	first, err := tenants.Bootstrap(t.Context())
	require.NoError(t, err)
	shared := catalog.SeesAll
	_, err = tenants.EditOrganization(t.Context(), tenant.Platform(), first.Organization.ID, 0,
		tenant.OrganizationEdit{Visibility: &shared})
	require.NoError(t, err)
	w.who, err = tenants.Authenticate(t.Context(), first.Key)
	require.NoError(t, err)
	w.agent = first.Agent.ID
	wakeups := localqueue.New()
	w.Intake = &intake.Intake{
		Executor: &transition.Executor{
			Store: store, Host: h, Log: slog.New(slog.DiscardHandler), Caps: tenants.Caps, StartDeadline: time.Minute,
			Notifier: stream.NewLocalNotifier(), Queue: wakeups,
		},
		Store: store, Host: h, Tenants: tenants,
	}
	return w
}

// An idempotency key whose run was deleted is free. Its record is deleted a little later, perhaps while a message with
// the key is decided.
func TestKeyOfDeletedRunIsFree(t *testing.T) {
	w := newWorld(t)
	message := intake.Message{AgentID: w.agent, Text: "x", ChatID: "c", Key: "k"}
	first, err := w.Post(t.Context(), w.who, message)
	require.NoError(t, err)
	_, err = w.DeleteChat(t.Context(), w.who, "c")
	require.NoError(t, err)
	name := record.IdempotencyName(w.who.Organization, w.who.User, "k")
	w.items.Overtake(func() {
		key := table.Key{Part: "idem/" + name, Sort: "head"}
		require.NoError(t, w.items.Inner.Commit(t.Context(), "removed", table.Delete(key, table.Always())))
	})
	message.ChatID = "d"
	second, err := w.Post(t.Context(), w.who, message)
	require.NoError(t, err)
	assert.NotEqual(t, first.Run.ID(), second.Run.ID())
	again, err := w.Post(t.Context(), w.who, message)
	require.NoError(t, err)
	assert.Equal(t, second.Run.ID(), again.Run.ID())
}

// A chat may be created again under its id while the first one's runs are still being removed. Both count turns from 1.
// The pages of each have only its own runs.
func TestRecreatedChatHasItsOwnRuns(t *testing.T) {
	w := newWorld(t)
	var chats [2]lifecycle.Chat
	var wanted [2][]string
	for i := range chats {
		for range 3 {
			posted, err := w.Post(t.Context(), w.who, intake.Message{AgentID: w.agent, Text: "x", ChatID: "c"})
			require.NoError(t, err)
			_, err = w.Cancel(t.Context(), w.who, posted.Run.ID(), "")
			require.NoError(t, err)
			wanted[i] = append(wanted[i], posted.Run.ID())
		}
		e, err := w.Store.Chat(t.Context(), w.who.Scope(), "c")
		require.NoError(t, err)
		chats[i] = e.Value
		if i == 0 {
			_, err = w.DeleteChat(t.Context(), w.who, "c")
			require.NoError(t, err)
		}
	}
	for i, chat := range chats {
		var newest, oldest []string
		for after := ""; ; {
			page, err := w.Store.RunsOfChat(t.Context(), record.System(), chat, after, 1)
			require.NoError(t, err)
			newest = append(newest, idsOf(page.Rows)...)
			if after = page.Next; after == "" {
				break
			}
		}
		for turn := 0; ; {
			runs, next, err := w.Store.TurnsOfChat(t.Context(), record.System(), chat, turn, 1)
			require.NoError(t, err)
			oldest = append(oldest, idsOf(runs)...)
			if turn = next; turn == 0 {
				break
			}
		}
		assert.Equal(t, wanted[i], oldest)
		slices.Reverse(newest)
		assert.Equal(t, wanted[i], newest)
	}
}

func idsOf(runs []record.RunEntity) (ids []string) {
	for _, e := range runs {
		ids = append(ids, e.Value.ID())
	}
	return ids
}

func TestConflictIsRetriedAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := host.System()
		items := memtable.New(h.Now)
		store := record.New(items, &memblob.Store{}, h)
		defaults := tenant.Defaults{
			UserCap: 1, OrganizationCap: 1, RateLimit: 1, RateBurst: 1, ActiveLimit: time.Minute,
		}
		first, err := tenant.New(store, store.Cached(), h, defaults, nil).Bootstrap(t.Context())
		require.NoError(t, err)
		who, err := tenant.New(store, store.Cached(), h, defaults, nil).Authenticate(t.Context(), first.Key)
		require.NoError(t, err)
		tx := store.Begin("made")
		tx.PutChat(record.Fresh(lifecycle.Chat{
			ID: "c", OwnID: true, Organization: who.Organization, User: "u", CreatedAt: h.Now(), UpdatedAt: h.Now(),
		}))
		require.NoError(t, tx.Commit(t.Context()))
		fought := &contested{Table: items}
		store = record.New(fought, &memblob.Store{}, h)
		in := &intake.Intake{
			Executor: &transition.Executor{Store: store, Host: h, Log: slog.New(slog.DiscardHandler)}, Store: store,
			Host:    h,
			Tenants: tenant.New(store, store.Cached(), h, defaults, nil),
		}
		began := time.Now()
		_, err = in.DeleteChat(t.Context(), who, "c")
		assert.True(t, problem.Is(err, "unavailable"), "%v", err)
		assert.Greater(t, fought.commits, 10)
		assert.Greater(t, time.Since(began), time.Duration(fought.commits)*time.Millisecond)
	})
}
