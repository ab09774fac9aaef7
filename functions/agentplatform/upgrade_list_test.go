package main

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/run/removal"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/store/blob/memblob"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table/disktable"
)

// clock is a host whose time a test moves forward.
type clock struct {
	host.Host

	ahead time.Duration
}

func (c *clock) Now() time.Time { return c.Host.Now().Add(c.ahead) }

// All runs of a store of each format are listed by user once its organization has made chats private.
func TestAStoreOfEachFormatIsListedByUser(t *testing.T) {
	files, err := filepath.Glob(stores + "*.tar.gz")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			dir := t.TempDir()
			unpack(t, file, dir)
			log := slog.New(slog.DiscardHandler)
			items, err := disktable.Open(filepath.Join(dir, "store"), disktable.Options{Log: log})
			require.NoError(t, err)
			defer func() { require.NoError(t, items.Close()) }()
			c := &clock{Host: host.System()}
			s := record.New(items, &memblob.Store{}, c)
			listByUser(t, s, c)
			isListed(t, s)
		})
	}
}

// listByUser makes the chats of all organizations private, and does the jobs that follow.
func listByUser(t *testing.T, s *record.Store, c *clock) {
	ctx := t.Context()
	r := &removal.Remover{Executor: &transition.Executor{Store: s, Host: c}, Store: s, Host: c}
	for o, err := range record.All[catalog.Organization](ctx, s, record.System(), 10) {
		require.NoError(t, err)
		_, err := record.Change(ctx, s, record.System(), o.Value.ID, 0, func(
			o *catalog.Organization, tx *record.Tx,
		) error {
			o.ChatVisibility = catalog.SeesOwn
			tx.BeginListing(ctx, o.ID)
			return tx.Err()
		})
		require.NoError(t, err)
		for range 2 {
			for again := time.Millisecond; again > 0; {
				again, err = r.Handle(ctx, record.DerivedID("listing", o.Value.ID))
				require.NoError(t, err)
			}
			c.ahead += record.LateWrites
		}
	}
}

// isListed checks that each run and each chat is in the list of its user and in no other.
func isListed(t *testing.T, s *record.Store) {
	ctx, listed := t.Context(), 0
	for o, err := range record.All[catalog.Organization](ctx, s, record.System(), 10) {
		require.NoError(t, err)
		assert.True(t, o.Value.ListedByUser)
		scope := record.Of(o.Value.ID)
		chats, err := s.Chats(ctx, scope, "", 100)
		require.NoError(t, err)
		runsOf, chatsOf := map[string][]string{"another": nil}, map[string][]string{"another": nil}
		for _, chat := range chats.Rows {
			runs, err := s.RunsOfChat(ctx, scope, chat.Value, "", 100)
			require.NoError(t, err)
			user := chat.Value.User
			chatsOf[user] = append(chatsOf[user], chat.Value.ID)
			for _, run := range runs.Rows {
				assert.Equal(t, user, run.Value.Owner())
				runsOf[user] = append(runsOf[user], run.Value.ID())
			}
		}
		for user, want := range runsOf {
			runs, err := s.RunsOfUser(ctx, scope, user, "", 100)
			require.NoError(t, err)
			assert.ElementsMatch(t, want, runs.Positions)
			page, err := s.ChatsOfUser(ctx, scope, user, "", 100)
			require.NoError(t, err)
			var ids []string
			for _, chat := range page.Rows {
				ids = append(ids, chat.Value.ID)
			}
			assert.Equal(t, chatsOf[user], ids)
			listed += len(want)
		}
	}
	assert.Positive(t, listed)
}
