package tenant_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
)

// few is a world in which a user may have 3 keys and an organization 5, and users of it.
func few(t *testing.T, users ...string) (w *world, ids []string) {
	w = newWorld(t)
	w.Tenants = w.with(tenant.Defaults{UserKeys: 3, OrganizationKeys: 5, RateLimit: 100, RateBurst: 10}, plain{})
	for _, email := range users {
		u, err := w.CreateUser(t.Context(), tenant.Platform(), w.name, tenant.UserEdit{Email: &email})
		require.NoError(t, err)
		ids = append(ids, u.Value.ID)
	}
	return w, ids
}

// newKey creates a key that ends after some time; 0: never.
func (w *world) newKey(user string, after time.Duration) (record.Entity[catalog.APIKey], error) {
	k := tenant.NewKey{Name: "k", UserID: user, Level: tenant.LevelRun}
	if after > 0 {
		k.ExpiresAt = w.clock.Now().Add(after)
	}
	e, _, err := w.CreateKey(w.Context(), tenant.Platform(), w.home, k)
	return e, err
}

// refusedFor asserts that a scope has as many keys as it may have.
func refusedFor(t *testing.T, err error, scope string, most int64) {
	t.Helper()
	p, is := problem.As(err)
	require.True(t, is, "%v", err)
	assert.Equal(t, "share_exceeded", p.Code)
	assert.Equal(t, map[string]any{"limit": "api_keys", "scope": scope, "max": most, "used": most}, p.Extras)
	assert.NotZero(t, p.RetryAfter)
}

func TestKeysOfAUserAndOfAnOrganizationAreLimited(t *testing.T) {
	w, ids := few(t, "a@example.com", "b@example.com")
	var first record.Entity[catalog.APIKey]
	for range 3 {
		e, err := w.newKey(ids[0], 0)
		require.NoError(t, err)
		first = e
	}
	_, err := w.newKey(ids[0], 0)
	refusedFor(t, err, "user", 3)
	_, _, err = w.RotateKey(t.Context(), tenant.Platform(), w.home, first.Value.ID, time.Hour)
	require.NoError(t, err, "a rotation makes no further key")
	for range 2 {
		_, err = w.newKey(ids[1], 0)
		require.NoError(t, err)
	}
	_, err = w.newKey(ids[1], 0)
	refusedFor(t, err, "organization", 5)
	require.NoError(t, w.RevokeKey(t.Context(), tenant.Platform(), w.home, first.Value.ID))
	_, err = w.newKey(ids[1], 0)
	require.NoError(t, err, "a revoked key makes room at once")
	_, err = w.newKey(ids[0], 0)
	refusedFor(t, err, "organization", 5)
}

// Keys that are created at the same moment pass no limit, and as many are created as may be.
func TestKeysCreatedConcurrentlyPassNoLimit(t *testing.T) {
	w, ids := few(t, "a@example.com", "b@example.com")
	var made atomic.Int64
	var all sync.WaitGroup
	for n := range 12 {
		all.Go(func() {
			if _, err := w.newKey(ids[n%2], 0); err == nil {
				made.Add(1)
			} else {
				assert.True(t, problem.Is(err, "share_exceeded"), "%v", err)
			}
		})
	}
	all.Wait()
	assert.EqualValues(t, 5, made.Load())
}

// A key that has expired makes room, and takes it again when its end is moved.
func TestExpiredKeysDoNotCount(t *testing.T) {
	w, ids := few(t, "a@example.com")
	var ended record.Entity[catalog.APIKey]
	for range 3 {
		e, err := w.newKey(ids[0], time.Hour)
		require.NoError(t, err)
		ended = e
	}
	_, err := w.newKey(ids[0], 0)
	refusedFor(t, err, "user", 3)
	w.clock.later = 2 * time.Hour
	for range 3 {
		_, err = w.newKey(ids[0], 0)
		require.NoError(t, err)
	}
	never := time.Time{}
	_, err = w.EditKey(t.Context(), tenant.Platform(), w.home, ended.Value.ID, 0, tenant.KeyEdit{ExpiresAt: &never})
	refusedFor(t, err, "user", 3)
	_, err = w.EditKey(t.Context(), tenant.Platform(), w.home, ended.Value.ID, 0, tenant.KeyEdit{Name: to("renamed")})
	require.NoError(t, err)
}

// Once keys that have expired are left out of the count, their revocations make no further room.
func TestRevokedKeysThatHaveExpiredMakeNoRoomTwice(t *testing.T) {
	w, ids := few(t, "a@example.com")
	ended := map[string]bool{}
	for range 3 {
		e, err := w.newKey(ids[0], time.Hour)
		require.NoError(t, err)
		ended[e.Value.ID] = true
	}
	w.clock.later = 2 * time.Hour
	for range 3 {
		_, err := w.newKey(ids[0], 0)
		require.NoError(t, err)
	}
	for id := range ended {
		require.NoError(t, w.RevokeKey(t.Context(), tenant.Platform(), w.home, id))
	}
	_, err := w.newKey(ids[0], 0)
	refusedFor(t, err, "user", 3)
	w.clock.later += time.Hour // counting again finds the same
	_, err = w.newKey(ids[0], 0)
	refusedFor(t, err, "user", 3)
}

// An edit that lets a key live on may be under way, and clocks differ. So a key counts for a minute after its end.
func TestAKeyCountsForAMinuteAfterItsEnd(t *testing.T) {
	w, ids := few(t, "a@example.com")
	for range 3 {
		_, err := w.newKey(ids[0], time.Hour)
		require.NoError(t, err)
	}
	w.clock.later = time.Hour + 30*time.Second
	_, err := w.newKey(ids[0], 0)
	refusedFor(t, err, "user", 3)
	w.clock.later += time.Minute
	_, err = w.newKey(ids[0], 0)
	require.NoError(t, err)
}

// An organization and a user of earlier versions have no count. The count is made of the keys that they have. Until
// then keys are created and revoked as before.
func TestAnOrganizationWithoutACountIsCounted(t *testing.T) {
	w, ids := few(t, "a@example.com", "b@example.com")
	var keys []record.Entity[catalog.APIKey]
	for n := range 4 {
		e, err := w.newKey(ids[n%2], 0)
		require.NoError(t, err)
		keys = append(keys, e)
	}
	for _, id := range []string{w.name, ids[0], ids[1]} {
		w.uncount(id)
	}
	require.NoError(t, w.RevokeKey(t.Context(), tenant.Platform(), w.home, keys[0].Value.ID))
	_, err := record.Resource[catalog.KeyCount](t.Context(), w.store, w.home, w.name)
	require.True(t, problem.Is(err, "not_found"), "%v", err)
	for range 2 {
		_, err = w.newKey(ids[0], 0)
		require.NoError(t, err)
	}
	_, err = w.newKey(ids[1], 0)
	refusedFor(t, err, "organization", 5)
}

// uncount deletes the count of a user or an organization.
func (w *world) uncount(id string) {
	e, err := record.Resource[catalog.KeyCount](w.Context(), w.store, w.home, id)
	require.NoError(w, err)
	tx := w.store.Begin(w.clock.NewID())
	record.DeleteResource(tx, e)
	require.NoError(w, tx.Commit(w.Context()))
}

// The keys of a user who is deleted meanwhile are not counted.
func TestKeysOfADeletedUserAreNotCounted(t *testing.T) {
	w, ids := few(t, "a@example.com")
	w.uncount(ids[0])
	w.items.Overtake(func() {
		_, err := w.RemoveUser(t.Context(), tenant.Platform(), w.home, ids[0])
		require.NoError(t, err)
	})
	_, err := w.newKey(ids[0], 0)
	assert.True(t, problem.Is(err, "invalid_request"), "%v", err)
	_, err = record.Resource[catalog.KeyCount](t.Context(), w.store, w.home, ids[0])
	assert.True(t, problem.Is(err, "not_found"), "%v", err)
}

// Keys of earlier versions were not counted: all of them stay valid, and are counted with the next one.
func TestKeysThatWereNeverCountedStayGood(t *testing.T) {
	w, ids := few(t, "a@example.com")
	limited := w.Tenants
	w.Tenants = w.with(tenant.Defaults{RateLimit: 100, RateBurst: 10}, plain{})
	var texts []string
	for range 6 {
		_, text := w.key(ids[0], tenant.LevelRun)
		texts = append(texts, text)
	}
	w.Tenants = limited
	for _, text := range texts {
		_, err := w.Authenticate(t.Context(), text)
		require.NoError(t, err)
	}
	_, err := w.newKey(ids[0], 0)
	p, is := problem.As(err)
	require.True(t, is, "%v", err)
	assert.EqualValues(t, 6, p.Extras["used"])
}

// A key changes nothing that the organization or the user shows. So an edit of them that was read before it succeeds.
func TestKeysLeaveTheVersionsOfUserAndOrganization(t *testing.T) {
	w, ids := few(t, "a@example.com")
	first, err := w.newKey(ids[0], time.Hour)
	require.NoError(t, err)
	user, err := record.Resource[catalog.User](t.Context(), w.store, w.home, ids[0])
	require.NoError(t, err)
	organization, err := record.Resource[catalog.Organization](t.Context(), w.store, w.home, w.name)
	require.NoError(t, err)
	_, err = w.newKey(ids[0], 0)
	require.NoError(t, err)
	w.clock.later = 2 * time.Hour
	never := time.Time{}
	_, err = w.EditKey(t.Context(), tenant.Platform(), w.home, first.Value.ID, 0, tenant.KeyEdit{ExpiresAt: &never})
	require.NoError(t, err)
	require.NoError(t, w.RevokeKey(t.Context(), tenant.Platform(), w.home, first.Value.ID))
	_, err = w.EditUser(t.Context(), tenant.Platform(), w.home, ids[0], record.Match(user.Version()),
		tenant.UserEdit{Name: to("A")})
	require.NoError(t, err)
	_, err = w.EditOrganization(t.Context(), tenant.Platform(), w.name, record.Match(organization.Version()),
		tenant.OrganizationEdit{Name: to("B")})
	require.NoError(t, err)
}

// The entry of the audit log is of the key, not of the counts in the same commit.
func TestTheAuditLogNamesTheKeyThatIsGoodAgain(t *testing.T) {
	w, ids := few(t, "a@example.com")
	k, err := w.newKey(ids[0], time.Hour)
	require.NoError(t, err)
	w.clock.later = 2 * time.Hour
	never := time.Time{}
	ctx := record.By(t.Context(), record.Author{Organization: w.name, Operation: "update-api-key"})
	_, err = w.EditKey(ctx, tenant.Platform(), w.home, k.Value.ID, 0, tenant.KeyEdit{ExpiresAt: &never})
	require.NoError(t, err)
	page, err := record.Resources[record.AuditEntry](t.Context(), w.store, w.home, "", 9)
	require.NoError(t, err)
	require.Len(t, page.Rows, 1)
	entry := page.Rows[0].Value
	assert.Equal(t, []string{"api_key", k.Value.ID, "expires_at"},
		append([]string{entry.Kind, entry.Subject}, entry.Changed...))
}

// Keys that are created while there is no limit count as soon as there is one.
func TestKeysCountAlsoWhileThereIsNoLimit(t *testing.T) {
	w, ids := few(t, "a@example.com")
	_, err := w.newKey(ids[0], 0)
	require.NoError(t, err)
	limited := w.Tenants
	w.Tenants = w.with(tenant.Defaults{RateLimit: 100, RateBurst: 10}, plain{})
	for range 5 {
		_, err = w.newKey(ids[0], 0)
		require.NoError(t, err)
	}
	w.Tenants = limited
	_, err = w.newKey(ids[0], 0)
	p, is := problem.As(err)
	require.True(t, is, "%v", err)
	assert.EqualValues(t, 6, p.Extras["used"])
}
