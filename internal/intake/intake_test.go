package intake_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/blob/memblob"
	"agentplatform/internal/host"
	"agentplatform/internal/intake"
	"agentplatform/internal/lifecycle"
	"agentplatform/internal/move"
	"agentplatform/internal/problem"
	"agentplatform/internal/record"
	"agentplatform/internal/table"
	"agentplatform/internal/table/memtable"
	"agentplatform/internal/tenant"
)

// contested is a table in which somebody else is always faster.
type contested struct {
	table.Table

	commits int
}

func (c *contested) Commit(context.Context, string, ...table.Op) error {
	c.commits++
	return &table.Refused{Conflicts: []table.Conflict{{}}}
}

func TestWhatKeepsChangingIsTriedAgainAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := host.System()
		items := memtable.New(h.Now)
		store := record.New(items, &memblob.Store{}, h)
		defaults := tenant.Defaults{UserCap: 1, OrganizationCap: 1, RateLimit: 1, RateBurst: 1, ActiveLimit: time.Minute}
		first, err := tenant.New(store, store, h, defaults, nil).Bootstrap(t.Context())
		require.NoError(t, err)
		who, err := tenant.New(store, store, h, defaults, nil).Authenticate(t.Context(), first.Key)
		require.NoError(t, err)
		op, err := record.PutChat(record.Fresh(lifecycle.Chat{ID: "c", OwnID: true, Organization: who.Organization.ID, User: "u", CreatedAt: h.Now(), UpdatedAt: h.Now()}), "made")
		require.NoError(t, err)
		require.NoError(t, store.Commit(t.Context(), "made", op))
		fought := &contested{Table: items}
		store = record.New(fought, &memblob.Store{}, h)
		in := &intake.Intake{Shell: &move.Shell{Store: store, Host: h, Log: slog.New(slog.DiscardHandler)}, Store: store, Host: h, Tenants: tenant.New(store, store, h, defaults, nil)}
		began := time.Now()
		_, err = in.DeleteChat(t.Context(), who, "c")
		assert.True(t, problem.Is(err, "unavailable"), "%v", err)
		assert.Greater(t, fought.commits, 10)
		assert.Greater(t, time.Since(began), time.Duration(fought.commits)*time.Millisecond)
	})
}
