package tenant_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/org/tenant"
	"agentplatform/internal/proof/faulttable"
)

// A key's last use costs at most one write a minute and delays no request: the request is served even if the write
// fails.
func TestFailedWriteOfKeyUseIsNotRetried(t *testing.T) {
	w := newWorld(t)
	user, _ := w.person("somebody@example.com", tenant.Member, tenant.LevelRun)
	_, text, err := w.CreateKey(t.Context(), tenant.Platform(), w.home,
		tenant.NewKey{Name: "k", UserID: user.User, Level: tenant.LevelRun})
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

func TestKeyUseIsWrittenAtMostOnceAMinute(t *testing.T) {
	w := newWorld(t)
	_, text := w.person("a@example.com", tenant.Member, tenant.LevelRun)
	commits := 0
	w.items.After = func(c faulttable.Call) {
		if c.Commit {
			commits++
		}
	}
	for _, c := range []struct {
		later time.Duration
		want  int
	}{{0, 0}, {time.Minute - time.Millisecond, 0}, {time.Minute, 1}, {61 * time.Second, 1}, {3 * time.Minute, 2}} {
		w.clock.later = c.later
		_, err := w.Authenticate(t.Context(), text)
		require.NoError(t, err)
		assert.Equal(t, c.want, commits, c.later)
	}
}
