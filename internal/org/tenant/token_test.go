package tenant_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/table"
	"agentplatform/internal/store/table/memtable"
)

// A reader of the store gets no token and nothing to make one from. That holds for today's tokens and for those of
// earlier versions, which stored the signing key unencrypted.
func TestStoredDataYieldsNoRunToken(t *testing.T) {
	w := newWorld(t)
	p, key := w.person("a@example.com", tenant.Admin, tenant.LevelRun)
	token, _, err := w.RunToken(t.Context(), p, "a run", time.Hour)
	require.NoError(t, err)
	of, err := w.Authenticate(t.Context(), token)
	require.NoError(t, err)
	assert.Equal(t, "a run", of.Run)

	secret := []byte("what an earlier program signed with")
	body, err := json.Marshal(map[string]any{"bytes": secret, "created_at": "2020-01-01T00:00:00Z"})
	require.NoError(t, err)
	old := table.Key{Part: "deployment", Sort: "secret"}
	require.NoError(t, w.items.Commit(t.Context(), "old", table.Put(table.Item{
		Key: old, Owner: "-", WriteID: "old", Schema: 1, Body: body,
	}, table.Absent())))
	claims := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil,
		`{"run":"a run","key":%q,"end":4102444800}`, p.Key))
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("run token " + claims))
	_, err = w.Authenticate(t.Context(), "rt_"+claims+"."+base64.RawURLEncoding.EncodeToString(mac.Sum(nil)))
	assert.True(t, problem.Is(err, "invalid_api_key"), "%v", err)

	for range 2 {
		require.NoError(t, w.store.EnsureDeployment(t.Context()))
	}
	scanned, began := 0, false
	w.items.Inner.(*memtable.Table).All(func(i *table.Item) {
		scanned++
		assert.NotEqual(t, old, i.Key, "an earlier program that comes back must not sign with what is left of a secret")
		began = began || i.Part == "deployment" && strings.Contains(string(i.Body), "2020-01-01")
		for _, text := range []string{token, key, base64.StdEncoding.EncodeToString(secret)} {
			assert.NotContains(t, i.Part+i.Sort+string(i.Body), text)
		}
		for _, hash := range strings.Split(i.Part, "/") {
			_, err := w.Authenticate(t.Context(), "rt_"+hash)
			assert.Error(t, err)
		}
	})
	assert.Greater(t, scanned, 3)
	assert.True(t, began, "when the deployment began is still known")
}

// A token ends with the text of the key that requested it, however the key is rotated.
func TestRunTokenEndsWithItsKeyText(t *testing.T) {
	w := newWorld(t)
	admin, _ := w.person("a@example.com", tenant.Admin, tenant.LevelAdmin)
	ask := func(by tenant.Principal) string {
		token, _, err := w.RunToken(t.Context(), by, "a run", time.Hour)
		require.NoError(t, err)
		return token
	}
	good := func(token string) bool {
		_, err := w.Authenticate(t.Context(), token)
		return err == nil
	}
	rotate := func(overlap time.Duration) tenant.Principal {
		_, text, err := w.RotateKey(t.Context(), admin, w.home, admin.Key, overlap)
		require.NoError(t, err)
		p, err := w.Authenticate(t.Context(), text)
		require.NoError(t, err)
		return p
	}
	first := ask(admin)
	second := ask(rotate(time.Hour))
	assert.True(t, good(first), "during the overlap")
	third := ask(rotate(time.Hour))
	assert.True(t, good(first), "its overlap lasts")
	assert.True(t, good(second))
	rotate(0)
	assert.False(t, good(first))
	assert.False(t, good(second))
	assert.False(t, good(third))
}

// Each text of a key, and each webhook secret, keeps the time that its rotation promised. If that needs too many of
// them, a rotation is refused and changes nothing. A rotation without an overlap ends all of them.
func TestNoRotationTakesPromisedTime(t *testing.T) {
	w := newWorld(t)
	p, text := w.person("a@example.com", tenant.Manager, tenant.LevelManage)
	texts, secrets := []string{text}, []string{}
	rotate := func(overlap time.Duration) error {
		secret, _, err := w.RotateWebhookSecret(t.Context(), w.name, overlap)
		_, text, other := w.RotateKey(t.Context(), tenant.Platform(), w.home, p.Key, overlap)
		require.Equal(t, problem.Code(err), problem.Code(other))
		if err == nil {
			texts, secrets = append(texts, text), append(secrets, "sealed for "+w.name+": "+secret)
		}
		return err
	}
	good := func() (valid []bool) {
		for _, text := range texts {
			_, err := w.Authenticate(t.Context(), text)
			valid = append(valid, err == nil)
		}
		return valid
	}
	require.NoError(t, rotate(time.Hour)) // the organization's first secret, and the key's second text
	require.NoError(t, rotate(3*time.Hour))
	require.NoError(t, rotate(2*time.Hour))
	o, err := w.ReadOrganization(t.Context(), w.name)
	require.NoError(t, err)
	assert.Equal(t, []string{secrets[2], secrets[1], secrets[0]},
		[]string{o.Value.Secret, o.Value.PreviousSecret, o.Value.EarlierSecrets[0].Value})
	assert.Equal(t, []bool{true, true, true, true}, good())
	w.clock.later = 90 * time.Minute
	assert.Equal(t, []bool{false, true, true, true}, good())
	w.clock.later = 150 * time.Minute
	assert.Equal(t, []bool{false, true, false, true}, good())
	refused := 0
	for range 12 {
		if err := rotate(time.Hour); err != nil {
			assert.True(t, problem.Is(err, "conflict"), "%v", err)
			refused++
		}
	}
	assert.Equal(t, 5, refused)
	assert.NotContains(t, good()[3:], false, "none of them has lost its time")
	require.NoError(t, rotate(0))
	assert.Equal(t, len(texts)-1, slices.Index(good(), true), "the newest alone is good")
	require.NoError(t, rotate(time.Hour))
}

// An upload token is valid for its file alone, for an hour, as long as its key is. Its level is at most run.
func TestAnUploadTokenIsGoodForItsFileAlone(t *testing.T) {
	w := newWorld(t)
	for level, want := range map[tenant.Level]tenant.Level{
		tenant.LevelAdmin: tenant.LevelRun, tenant.LevelRun: tenant.LevelRun, tenant.LevelRead: tenant.LevelRead,
	} {
		w.clock.later = 0
		p, key := w.person("a"+string(level)+"@example.com", tenant.Admin, level)
		token, err := w.UploadToken(t.Context(), p, "a file")
		require.NoError(t, err)
		sender, err := w.Uploader(t.Context(), token, "a file")
		require.NoError(t, err)
		assert.Equal(t, []string{p.User, p.Key, string(want), ""},
			[]string{sender.User, sender.Key, string(sender.Level), sender.Run})
		run, _, err := w.RunToken(t.Context(), p, "a file", time.Hour)
		require.NoError(t, err)
		for _, other := range []string{"rt_", key, run} {
			_, err := w.Uploader(t.Context(), other, "a file")
			assert.True(t, bad(err), other)
		}
		_, err = w.Uploader(t.Context(), token, "another file")
		assert.True(t, bad(err))
		holder, err := w.Authenticate(t.Context(), token)
		require.NoError(t, err)
		require.Error(t, holder.Authorize(tenant.LevelRead))
		require.Error(t, holder.MayTouch("a file", tenant.LevelRead))
		w.clock.later = time.Hour + time.Second
		_, err = w.Uploader(t.Context(), token, "a file")
		assert.True(t, bad(err))
	}
	p, _ := w.person("gone@example.com", tenant.Admin, tenant.LevelRun)
	w.clock.later = 0
	token, err := w.UploadToken(t.Context(), p, "a file")
	require.NoError(t, err)
	require.NoError(t, w.RevokeKey(t.Context(), tenant.Platform(), p.Scope(), p.Key))
	_, err = w.Uploader(t.Context(), token, "a file")
	assert.True(t, bad(err))
}
