package tenant_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/table/faulttable"
	"agentplatform/internal/tenant"
)

// A key's last use costs at most one write a minute and delays no request: the request is served whatever becomes of
// it.
func TestFailedWriteOfKeyUseIsNotRetried(t *testing.T) {
	w := newWorld(t)
	user, _ := w.person("somebody@example.com", tenant.Member, tenant.LevelRun)
	_, text, err := w.CreateKey(t.Context(), tenant.Platform(), w.home,
		tenant.NewKey{Name: "k", UserID: user.User.ID, Level: tenant.LevelRun})
	require.NoError(t, err)
	commits := 0
	w.items.Before = func(c faulttable.Call) faulttable.Fault {
		if !c.Commit {
			return faulttable.None
		}
		commits++
		return faulttable.Throttled
	}
	for range 3 {
		_, err = w.Authenticate(t.Context(), text)
		require.NoError(t, err)
	}
	assert.Equal(t, 1, commits)
}
