package tenant_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
)

// alike are addresses that people read as the same.
var alike = [][]string{
	{"s@example.com", "S@example.com", "ſ@example.com", "s\u00ad@example.com", "s\u200b@example.com"},
	{"σ@example.com", "ς@example.com", "Σ@example.com"},
	{"caf\u00e9@example.com", "cafe\u0301@example.com", "CAFE\u0301@example.com", "CAF\u00c9@EXAMPLE.com"},
	{"a@example.com", "\uff41@example.com", "\uff21@example.com", "A@EXAMPLE.COM", "a@ｅxample.com"},
	{"strasse@example.com", "straße@example.com", "STRASSE@example.com", "straẞe@example.com"},
	{"kelvin@example.com", "\u212aelvin@example.com"},
	{"office@example.com", "oﬃce@example.com"},
	{"heart\u2764@example.com", "heart\u2764\ufe0f@example.com", "he\u034fart\u2764@example.com"},
	{"\u01c6@example.com", "\u01c5@example.com", "\u01c4@example.com"},
}

func TestAddressesThatReadAlikeAreTheSame(t *testing.T) {
	create := func(w *world, email string) (record.Entity[catalog.User], error) {
		return w.CreateUser(t.Context(), tenant.Platform(), w.name, tenant.UserEdit{Email: &email})
	}
	for _, group := range alike {
		for _, first := range group {
			w := newWorld(t)
			u, err := create(w, first)
			require.NoError(t, err, first)
			assert.Equal(t, first, u.Value.Email, "shown as it was given")
			for _, other := range group {
				_, err := create(w, other)
				assert.True(t, problem.Is(err, "conflict"), "%q stands beside %q", other, first)
				_, err = w.EditUser(
					t.Context(),
					tenant.Platform(),
					w.home,
					u.Value.ID,
					0,
					tenant.UserEdit{Email: &other},
				)
				require.NoError(t, err, "it is one's own: %q, %q", first, other)
				_, err = create(w, first)
				assert.True(t, problem.Is(err, "conflict"), "%q stands beside %q", first, other)
			}
			_, err = w.RemoveUser(t.Context(), tenant.Platform(), w.home, u.Value.ID)
			require.NoError(t, err)
			_, err = create(w, group[len(group)-1])
			require.NoError(t, err, "free again: %q", first)
		}
	}
}

// userOfEarlierVersion stores a user as versions did that compared letters' case alone.
func (w *world) userOfEarlierVersion(email string) (id string) {
	now := w.clock.Now()
	u := catalog.User{
		ID: w.clock.NewID(), Organization: w.name, Email: email, Role: "member", OperatorKeys: new(int), CreatedAt: now,
		UpdatedAt: now,
	}
	tx := w.store.Begin(u.ID)
	record.PutResource(tx,
		record.Fresh(catalog.Email{Address: strings.ToLower(email), Organization: w.name, UserID: u.ID}))
	record.PutResource(tx, record.Fresh(u))
	require.NoError(w, tx.Commit(w.Context()))
	return u.ID
}

// Two users may have addresses that an earlier version took for different. They keep them, and can be edited otherwise.
func TestEditThatKeepsAnAddressLikeAnothersIsAccepted(t *testing.T) {
	w := newWorld(t)
	long, short := w.userOfEarlierVersion("ſ@example.com"), w.userOfEarlierVersion("s@example.com")
	for _, id := range []string{long, short} {
		u, err := w.EditUser(t.Context(), tenant.Platform(), w.home, id, 0, tenant.UserEdit{Name: to("N")})
		require.NoError(t, err)
		assert.Equal(t, "N", u.Value.Name)
	}
	_, err := w.EditUser(t.Context(), tenant.Platform(), w.home, long, 0, tenant.UserEdit{Email: to("S@example.com")})
	assert.True(t, problem.Is(err, "conflict"), "another's: %v", err)
}

// Addresses that were stored under the form of earlier versions are still found.
func TestAddressStoredByEarlierVersionIsFound(t *testing.T) {
	const of, other, unlike = "ſ@example.com", "s@example.com", "t@example.com"
	for name, then := range map[string]func(w *world, id string) (free bool){
		"nothing": func(*world, string) bool { return false },
		"another spelling": func(w *world, id string) bool {
			_, err := w.EditUser(t.Context(), tenant.Platform(), w.home, id, 0, tenant.UserEdit{Email: to(other)})
			require.NoError(t, err)
			return false
		},
		"another name": func(w *world, id string) bool {
			_, err := w.EditUser(t.Context(), tenant.Platform(), w.home, id, 0, tenant.UserEdit{Name: to("N")})
			require.NoError(t, err)
			return false
		},
		"another address": func(w *world, id string) bool {
			_, err := w.EditUser(t.Context(), tenant.Platform(), w.home, id, 0, tenant.UserEdit{Email: to(unlike)})
			require.NoError(t, err)
			return true
		},
		"removed": func(w *world, id string) bool {
			_, err := w.RemoveUser(t.Context(), tenant.Platform(), w.home, id)
			require.NoError(t, err)
			return true
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			free := then(w, w.userOfEarlierVersion(of))
			email := of
			_, err := w.CreateUser(t.Context(), tenant.Platform(), w.name, tenant.UserEdit{Email: &email})
			assert.Equal(t, free, err == nil, "%v", err)
		})
	}
}
