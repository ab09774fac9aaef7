package tenant_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/proof/faulttable"
	"agentplatform/internal/store/record"
)

// Agents of one name differ by the time when they got it: only an edit of the name moves that time, published or not.
func TestRenamingAnAgentNotesWhenAndOtherEditsDoNot(t *testing.T) {
	type edit struct {
		name, description string
		publish           bool
		named             int // the hour of the last renaming, 0: none; edits are made at 1 o'clock, 2 o'clock, …
	}
	by := func(w *world) tenant.Principal {
		return tenant.Principal{Organization: w.name, Level: tenant.LevelAdmin}
	}
	for what, edits := range map[string][]edit{
		"renamed at once":     {{"B", "", true, 1}, {"B", "edited", true, 1}},
		"edited, renamed":     {{"A", "edited", true, 0}, {"B", "edited", true, 2}, {"B", "again", true, 2}},
		"renamed in a draft":  {{"B", "", false, 1}, {"B", "edited", true, 1}},
		"its first name back": {{"B", "", true, 1}, {"A", "", true, 2}},
	} {
		w := newWorld(t)
		began := w.clock.Now()
		created, err := w.CreateAgent(t.Context(), w.name, w.spec(func(*catalog.AgentSpec) {}), true)
		require.NoError(t, err)
		assert.True(t, created.Value.NamedAt.IsZero(), "%s: it has its first name", what)
		for i, e := range edits {
			w.clock.later = time.Duration(i+1) * time.Hour
			a, err := w.EditAgent(t.Context(), by(w), created.Value.ID, 0, true, e.publish,
				func(s catalog.AgentSpec) (catalog.AgentSpec, error) {
					s.Name, s.Description = e.name, e.description
					return s, nil
				})
			require.NoError(t, err)
			var want time.Time
			if e.named > 0 {
				want = began.Add(time.Duration(e.named) * time.Hour)
			}
			assert.Equal(t, want, a.Value.NamedAt, "%s: edit %d", what, i+1)
		}
	}
}

// Each of the 43 characters of a key's secret is drawn: none is the same in all keys.
func TestEachCharacterOfAKeysSecretIsDrawn(t *testing.T) {
	const begin, size = len("ap_01234567_"), 43
	w := newWorld(t)
	p, _ := w.person("a@example.com", tenant.Member, tenant.LevelRun)
	var seen [size]map[byte]bool
	for range 40 {
		_, text, err := w.RotateKey(t.Context(), tenant.Platform(), w.home, p.Key, 0)
		require.NoError(t, err)
		for i := range size {
			if seen[i] == nil {
				seen[i] = map[byte]bool{}
			}
			seen[i][text[begin+i]] = true
		}
	}
	for i := range size {
		assert.Greater(t, len(seen[i]), 1, "character %d", i)
	}
}

// A key is refused when its user belongs to another organization than the key.
func TestKeyOfAnotherOrganizationsUserIsRefused(t *testing.T) {
	w := newWorld(t)
	p, text := w.person("a@example.com", tenant.Admin, tenant.LevelAdmin)
	token, _, err := w.RunToken(t.Context(), p, "a run", time.Hour)
	require.NoError(t, err)
	outsider, _ := w.another().person("b@example.com", tenant.Admin, tenant.LevelAdmin)
	key, err := record.Resource[catalog.APIKey](t.Context(), w.store, w.home, p.Key)
	require.NoError(t, err)
	key.Value.UserID = outsider.User
	tx := w.store.Begin("moved")
	record.PutResource(tx, key)
	require.NoError(t, tx.Commit(t.Context()))
	for _, bearer := range []string{text, token} {
		_, err = w.Authenticate(t.Context(), bearer)
		assert.True(t, bad(err), "%v", err)
	}
}

// deaf is a sealer whose key service cannot be reached.
type deaf struct{ plain }

var errDeaf = errors.New("the key service does not answer")

func (deaf) Seal(context.Context, string, string) (string, error) { return "", errDeaf }

// A webhook secret that cannot be sealed is not stored, and the caller gets an error.
func TestSecretThatCannotBeSealedIsReportedAndChangesNothing(t *testing.T) {
	w := newWorld(t)
	_, _, err := w.RotateWebhookSecret(t.Context(), w.name, time.Hour)
	require.NoError(t, err)
	before, tenants := w.stored(), w.with(tenant.Defaults{}, deaf{})
	for name, do := range map[string]func() error{
		"make an organization": func() error {
			return second(tenants.CreateOrganization(t.Context(),
				tenant.OrganizationEdit{Name: to("other"), Secret: to("mine")}))
		},
		"set the secret": func() error {
			return second(tenants.EditOrganization(t.Context(), tenant.Platform(), w.name, 0,
				tenant.OrganizationEdit{Secret: to("mine")}))
		},
		"rotate the secret": func() error {
			secret, _, err := tenants.RotateWebhookSecret(t.Context(), w.name, time.Hour)
			assert.Empty(t, secret)
			return err
		},
	} {
		assert.ErrorIs(t, do(), errDeaf, name)
		assert.Equal(t, before, w.stored(), name)
	}
}

// If neither operators nor the deployment have set a ceiling, an admin sets any cap.
func TestWithoutACeilingAnAdminSetsAnyCap(t *testing.T) {
	w := newWorld(t)
	admin, _ := w.person("a@example.com", tenant.Admin, tenant.LevelAdmin)
	u, err := w.with(tenant.Defaults{}, plain{}).EditUser(t.Context(), admin, w.home, admin.User, 0,
		tenant.UserEdit{Cap: to(1_000_000)})
	require.NoError(t, err)
	assert.Equal(t, 1_000_000, u.Value.Cap)
}

// A creation that has a conflict at each attempt is given up: nothing is made, and the client may try again.
func TestCreationThatConflictsEachTimeIsGivenUp(t *testing.T) {
	const wanted = "new@example.com"
	for name, c := range map[string]struct {
		do           func(w *world, user string) error
		before, then func(w *world, user string) // the write, and the next try
	}{
		"a key, whose user keeps changing": {
			do: func(w *world, user string) error {
				_, text, err := w.CreateKey(w.Context(), tenant.Platform(), w.home,
					tenant.NewKey{Name: "k", UserID: user, Level: tenant.LevelRun})
				assert.Empty(w, text)
				return err
			},
			before: func(w *world, user string) {
				_, err := w.EditUser(w.Context(), tenant.Platform(), w.home, user, 0, tenant.UserEdit{Name: to("N")})
				require.NoError(w, err)
			},
			then: func(*world, string) {},
		},
		"a user, whose address keeps changing hands": {
			do: func(w *world, _ string) error {
				return second(w.CreateUser(w.Context(), tenant.Platform(), w.name, tenant.UserEdit{Email: to(wanted)}))
			},
			before: func(w *world, user string) {
				_, err := w.EditUser(w.Context(), tenant.Platform(), w.home, user, 0,
					tenant.UserEdit{Email: to(wanted)})
				require.NoError(w, err)
			},
			then: func(w *world, user string) {
				_, err := w.EditUser(w.Context(), tenant.Platform(), w.home, user, 0,
					tenant.UserEdit{Email: to("a@example.com")})
				require.NoError(w, err)
			},
		},
	} {
		w := newWorld(t)
		u, err := w.CreateUser(t.Context(), tenant.Platform(), w.name, tenant.UserEdit{Email: to("a@example.com")})
		require.NoError(t, err)
		attempts, others, committed := 0, false, false
		w.items.Before = func(call faulttable.Call) faulttable.Fault {
			if others {
				return faulttable.None
			}
			others = true
			if call.Commit {
				attempts++
				c.before(w, u.Value.ID)
			} else if committed {
				c.then(w, u.Value.ID)
			}
			others, committed = false, call.Commit
			return faulttable.None
		}
		err = c.do(w, u.Value.ID)
		assert.True(t, problem.Is(err, "unavailable"), "%s: %v", name, err)
		assert.Greater(t, attempts, 1, name)
		w.items.Before = nil
		keys, err := record.Resources[catalog.APIKey](t.Context(), w.store, w.home, "", 9)
		require.NoError(t, err)
		users, err := record.Resources[catalog.User](t.Context(), w.store, w.home, "", 9)
		require.NoError(t, err)
		assert.Equal(t, []int{0, 1}, []int{len(keys.Rows), len(users.Rows)}, name)
	}
}
