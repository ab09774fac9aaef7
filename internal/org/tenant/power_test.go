package tenant_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/proof/faulttable"
	"agentplatform/internal/store/blob/memblob"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/seal"
	"agentplatform/internal/store/table/memtable"
)

var (
	levels = []tenant.Level{
		tenant.LevelRead, tenant.LevelRun, tenant.LevelManage, tenant.LevelAdmin, tenant.LevelOperator,
	}
	roles = []tenant.Role{tenant.Member, tenant.Manager, tenant.Admin}
)

func forbidden(err error) bool { return problem.Is(err, "insufficient_permission") }

// Every level tries to manage every level, with its key and with a run token. It takes at least an admin, and no level
// reaches above itself.
func TestMayManageNeedsAdminAndAtLeastTheSameLevel(t *testing.T) {
	for has, level := range levels {
		for stands, wanted := range append(levels, "", "archangel") {
			may := has >= 3 && stands <= has // admins begin at 3; an unknown level is above all
			p := tenant.Principal{Level: level}
			assert.Equal(t, may, p.MayManage("it", wanted) == nil, "%s over %q", level, wanted)
			p.Run = "a run"
			assert.Error(t, p.MayManage("it", wanted), "a run's token of %s over %q", level, wanted)
		}
	}
}

// machine is a host that does not wait and whose clocks stand still until the test puts them forward.
type machine struct {
	host.Host
	began time.Time
	later time.Duration
}

func (m *machine) Now() time.Time { return m.began.Add(m.later) }

func (m *machine) Elapsed() time.Duration { return m.later }

func (*machine) Sleep(ctx context.Context, _ time.Duration) error { return ctx.Err() }

// plain is a sealer that does not encrypt.
type plain struct{}

func (plain) Seal(_ context.Context, owner, text string) (string, error) {
	return "sealed for " + owner + ": " + text, nil
}

func (plain) Open(_ context.Context, owner, sealed string) (string, error) {
	return strings.TrimPrefix(sealed, "sealed for "+owner+": "), nil
}

var errNoModel = problem.InvalidField("body.model.name", "there is no such model")

// models knows all models but one, which is accepted only with skipCheck.
func models(_ context.Context, _, name string, skip bool) error {
	if name == "none" && !skip {
		return errNoModel
	}
	return nil
}

// world is an organization in its own store.
type world struct {
	*testing.T
	*tenant.Tenants

	clock *machine
	items *faulttable.Table
	store *record.Store
	home  record.Scope
	name  string // of the organization
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, clock: &machine{Host: host.System(), began: host.System().Now()}}
	w.items = &faulttable.Table{Inner: memtable.New(w.clock.Host.Now)} // expired items stay readable for a while
	w.store = record.New(w.items, &memblob.Store{}, w.clock)
	w.Tenants = tenant.New(w.store, w.store.Cached(), w.clock, tenant.Defaults{
		UserCap: 5, OrganizationCap: 50, RateLimit: 100, RateBurst: 10, ActiveLimit: time.Minute, CheckModel: models,
	}, plain{})
	o, err := w.CreateOrganization(t.Context(), tenant.OrganizationEdit{
		Name: to("home"), Visibility: to(catalog.SeesAll),
	})
	require.NoError(t, err)
	w.name, w.home = o.Value.ID, record.Of(o.Value.ID)
	return w
}

// another is a second organization in the same store.
func (w *world) another() *world {
	o, err := w.CreateOrganization(w.Context(), tenant.OrganizationEdit{Name: to("another")})
	require.NoError(w, err)
	other := *w
	other.name, other.home = o.Value.ID, record.Of(o.Value.ID)
	return &other
}

// with is the use case on the same store, with other settings.
func (w *world) with(d tenant.Defaults, sealer seal.Sealer) *tenant.Tenants {
	return tenant.New(w.store, w.store.Cached(), w.clock, d, sealer)
}

// person makes a user with a key of a level.
func (w *world) person(email string, role tenant.Role, level tenant.Level) (p tenant.Principal, key string) {
	w.Helper()
	as := string(role)
	u, err := w.CreateUser(w.Context(), tenant.Platform(), w.name, tenant.UserEdit{Email: &email, Role: &as})
	require.NoError(w, err)
	return w.key(u.Value.ID, level)
}

func (w *world) key(user string, level tenant.Level) (tenant.Principal, string) {
	w.Helper()
	_, text, err := w.CreateKey(w.Context(), tenant.Platform(), w.home,
		tenant.NewKey{Name: "k", UserID: user, Level: level})
	require.NoError(w, err)
	p, err := w.Authenticate(w.Context(), text)
	require.NoError(w, err)
	return p, text
}

// attempts are all operations on a key and its user, by name.
func (w *world) attempts(by, on tenant.Principal) map[string]func() error {
	ctx := w.Context()
	name, zero := "other", 1
	edit := func(e tenant.UserEdit) func() error {
		return func() error { _, err := w.EditUser(ctx, by, w.home, on.User, 0, e); return err }
	}
	role := string(tenant.Member)
	return map[string]func() error{
		"rotate the key": func() error { _, _, err := w.RotateKey(ctx, by, w.home, on.Key, 0); return err },
		"edit the key": func() error {
			_, err := w.EditKey(ctx, by, w.home, on.Key, 0, tenant.KeyEdit{Name: &name})
			return err
		},
		"revoke the key": func() error { return w.RevokeKey(ctx, by, w.home, on.Key) },
		"name the user":  edit(tenant.UserEdit{Name: &name}),
		"demote it":      edit(tenant.UserEdit{Role: &role}),
		"cap it":         edit(tenant.UserEdit{Cap: &zero}),
		"remove it":      func() error { _, err := w.RemoveUser(ctx, by, w.home, on.User); return err },
		"make a key for it": func() error {
			_, _, err := w.CreateKey(ctx, by, w.home,
				tenant.NewKey{Name: "k", UserID: on.User, Level: tenant.LevelRead})
			return err
		},
	}
}

// Every key of every user tries everything on every other key: the outcome follows from the levels alone.
func TestLevelsDecideWhoManagesKeysAndUsers(t *testing.T) {
	ofKey := map[string]bool{"rotate the key": true, "edit the key": true, "revoke the key": true}
	at := func(l tenant.Level) int {
		for i, level := range levels {
			if level == l {
				return i
			}
		}
		return -1
	}
	both := func(f func(role tenant.Role, level tenant.Level)) {
		for _, role := range roles {
			for _, level := range levels {
				if role.Most().Covers(level) {
					f(role, level)
				}
			}
		}
	}
	both(func(hisRole tenant.Role, his tenant.Level) {
		both(func(herRole tenant.Role, her tenant.Level) {
			for _, name := range []string{
				"rotate the key", "edit the key", "revoke the key", "name the user", "demote it", "cap it", "remove it",
				"make a key for it",
			} {
				w := newWorld(t)
				by, _ := w.person("a@example.com", hisRole, his)
				on, _ := w.person("b@example.com", herRole, her)
				stands := at(her)
				if !ofKey[name] { // a key below its user's role does not lower the user
					stands = max(at(herRole.Level()), stands)
				}
				err := w.attempts(by, on)[name]()
				what := []any{"%s %s: %s of a %s's %s", hisRole, his, name, herRole, her}
				if at(his) >= 3 && at(his) >= stands {
					assert.NoError(t, err, what...)
				} else {
					assert.True(t, forbidden(err), what...)
				}
			}
		})
	})
}

// The user gets an operator key between the check and the write.
func TestUserPromotedDuringTheCheckIsNotManaged(t *testing.T) {
	for _, name := range []string{"name the user", "demote it", "cap it", "remove it", "make a key for it"} {
		w := newWorld(t)
		admin, _ := w.person("a@example.com", tenant.Admin, tenant.LevelAdmin)
		on, _ := w.person("b@example.com", tenant.Admin, tenant.LevelRead)
		w.items.Overtake(func() { w.key(on.User, tenant.LevelOperator) })
		assert.True(t, forbidden(w.attempts(admin, on)[name]()), name)
		_, err := record.Resource[catalog.User](t.Context(), w.store, w.home, on.User)
		require.NoError(t, err, name)
	}
}

// A user stored before operator keys were counted has them counted at the next check.
func TestOperatorKeysOfEarlierStoresAreCounted(t *testing.T) {
	w := newWorld(t)
	admin, _ := w.person("a@example.com", tenant.Admin, tenant.LevelAdmin)
	boss, _ := w.person("b@example.com", tenant.Admin, tenant.LevelOperator)
	second, _ := w.key(boss.User, tenant.LevelOperator)
	forget := func() {
		user, err := record.Resource[catalog.User](t.Context(), w.store, w.home, boss.User)
		require.NoError(t, err)
		user.Value.OperatorKeys = nil
		tx := w.store.Begin("forget")
		record.PutResource(tx, user)
		require.NoError(t, tx.Commit(context.WithoutCancel(t.Context())))
	}
	forget()
	assert.True(t, forbidden(w.attempts(admin, boss)["demote it"]()))
	forget()
	require.NoError(t, w.RevokeKey(t.Context(), tenant.Platform(), w.home, boss.Key))
	assert.True(t, forbidden(w.attempts(admin, boss)["remove it"]()), "one is left")
	require.NoError(t, w.RevokeKey(t.Context(), tenant.Platform(), w.home, second.Key))
	assert.NoError(t, w.attempts(admin, boss)["remove it"]())
}

// No key is above its user's role, and no level below admin creates users.
func TestKeyAboveItsUsersRoleIsRefused(t *testing.T) {
	for _, role := range roles {
		w := newWorld(t)
		u, _ := w.person("a@example.com", role, tenant.LevelRead)
		for _, level := range levels {
			k := tenant.NewKey{Name: "k", UserID: u.User, Level: level}
			_, text, err := w.CreateKey(t.Context(), tenant.Platform(), w.home, k)
			if !role.Most().Covers(level) {
				assert.True(t, forbidden(err), "%s of a %s: %v", level, role, err)
				continue
			}
			require.NoError(t, err)
			p, err := w.Authenticate(t.Context(), text)
			require.NoError(t, err)
			assert.Equal(t, level, p.Level)
			email := "new@example.com"
			_, err = w.CreateUser(t.Context(), p, w.name, tenant.UserEdit{Email: &email})
			assert.Equal(t, !level.Covers(tenant.LevelAdmin), forbidden(err), "%s: %v", level, err)
		}
		lower := string(tenant.Member)
		_, err := w.EditUser(t.Context(), tenant.Platform(), w.home, u.User, 0, tenant.UserEdit{Role: &lower})
		require.NoError(t, err)
		page, err := record.Resources[catalog.APIKey](t.Context(), w.store, w.home, "", 100)
		require.NoError(t, err)
		for _, e := range page.Rows {
			_, text, err := w.RotateKey(t.Context(), tenant.Platform(), w.home, e.Value.ID, 0)
			require.NoError(t, err)
			p, err := w.Authenticate(t.Context(), text)
			require.NoError(t, err)
			assert.True(t, tenant.LevelRun.Covers(p.Level), "a %s's %s after its fall", role, e.Value.Level)
		}
	}
}

// An operator key raises its user's level while it exists, while any other keys are created and revoked. A revoked key
// leaves nothing behind.
func TestOperatorKeyRaisesItsUserUntilRevoked(t *testing.T) {
	w := newWorld(t)
	admin, _ := w.person("a@example.com", tenant.Admin, tenant.LevelAdmin)
	user, _ := w.person("b@example.com", tenant.Admin, tenant.LevelRead)
	keys := func() (n int) {
		for k := range w.stored() {
			if !strings.HasPrefix(k.Part, "audit") {
				n++
			}
		}
		return n
	}
	before := keys()
	boss, _ := w.key(user.User, tenant.LevelOperator)
	other, _ := w.key(user.User, tenant.LevelRun)
	require.NoError(t, w.RevokeKey(t.Context(), tenant.Platform(), w.home, other.Key))
	assert.True(t, forbidden(w.attempts(admin, user)["name the user"]()))
	assert.True(t, forbidden(w.RevokeKey(t.Context(), admin, w.home, boss.Key)))
	require.NoError(t, w.RevokeKey(t.Context(), tenant.Platform(), w.home, boss.Key))
	assert.NoError(t, w.attempts(admin, user)["name the user"]())
	assert.Equal(t, before, keys())

	boss, _ = w.key(user.User, tenant.LevelOperator)
	_, err := w.RemoveUser(t.Context(), tenant.Platform(), w.home, user.User)
	require.NoError(t, err)
	assert.NoError(t, w.RevokeKey(t.Context(), tenant.Platform(), w.home, boss.Key), "whose user is gone")
}
