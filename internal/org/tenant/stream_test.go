package tenant_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/proof/faulttable"
	"agentplatform/internal/store/record"
)

// checks counts the reads of the store from now on; no read succeeds while *down is set.
func (w *world) checks() (reads *int, down *bool) {
	reads, down = new(int), new(bool)
	w.items.Before = func(c faulttable.Call) faulttable.Fault {
		if !c.Commit {
			*reads++
		}
		if *down {
			return faulttable.Down
		}
		return faulttable.None
	}
	return reads, down
}

// expires sets when a key ends.
func (w *world) expires(key string, after time.Duration) {
	_, err := w.EditKey(w.Context(), tenant.Platform(), w.home, key, 0,
		tenant.KeyEdit{ExpiresAt: to(w.clock.Now().Add(after))})
	require.NoError(w, err)
}

// restrict makes an agent one of a group's members alone.
func (w *world) restrict(agent, group string) {
	by := tenant.Principal{Organization: w.name, Level: tenant.LevelAdmin}
	_, err := w.EditAgent(w.Context(), by, agent, 0, true, true, func(s catalog.AgentSpec) (catalog.AgentSpec, error) {
		s.GroupIDs = []string{group}
		return s, nil
	})
	require.NoError(w, err)
}

// A stream ends when its reader is refused, for any reason. It does not end because the store cannot be reached.
func TestAStreamsRightEndsWhenItsReaderIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		then  func(w *world, p tenant.Principal, agent string)
		lasts bool
	}{
		"nothing happens": {func(*world, tenant.Principal, string) {}, true},
		"the store is away": {func(w *world, _ tenant.Principal, _ string) {
			_, down := w.checks()
			*down = true
		}, true},
		"the agent is edited": {func(w *world, _ tenant.Principal, agent string) { w.edit(agent, true) }, true},
		"the agent is deleted": {func(w *world, p tenant.Principal, agent string) {
			require.NoError(w, w.RemoveAgent(w.Context(), p, agent))
		}, true},
		"the agent is deleted with its versions": {func(w *world, p tenant.Principal, agent string) {
			require.NoError(w, w.RemoveAgent(w.Context(), p, agent))
			require.NoError(w, record.EraseVersions[catalog.Agent](w.Context(), w.store, agent))
		}, false},
		"the agent is given to a group": {func(w *world, _ tenant.Principal, agent string) {
			w.restrict(agent, w.group())
		}, false},
		"the key is revoked": {func(w *world, p tenant.Principal, _ string) {
			require.NoError(w, w.RevokeKey(w.Context(), tenant.Platform(), w.home, p.Key))
		}, false},
		"the user is removed": {func(w *world, p tenant.Principal, _ string) {
			_, err := w.RemoveUser(w.Context(), tenant.Platform(), w.home, p.User)
			require.NoError(w, err)
		}, false},
	} {
		w := newWorld(t)
		agent := w.agent(func(*catalog.AgentSpec) {})
		p, _ := w.person("a@example.com", tenant.Member, tenant.LevelRun)
		right := w.RightTo(&p, lifecycle.Whose{Agent: agent})
		require.True(t, right.Lasts(t.Context()), name)
		c.then(w, p, agent)
		w.Change(p)
		assert.Equal(t, c.lasts, right.Lasts(t.Context()), name)
		assert.Equal(t, c.lasts, right.Lasts(t.Context()), "%s: asked again", name)
	}
}

// A reader who lost the agent and gets it back needs a new stream.
func TestAnEndedRightStaysEndedWhenAccessReturns(t *testing.T) {
	w := newWorld(t)
	group := w.group()
	agent := w.agent(func(s *catalog.AgentSpec) { s.GroupIDs = []string{group} })
	p, _ := w.person("a@example.com", tenant.Member, tenant.LevelRun)
	belongs := func(member bool) {
		_, err := w.SetMember(t.Context(), tenant.Platform(), w.home, group, p.User, member)
		require.NoError(t, err)
		w.Change(p)
	}
	belongs(true)
	right := w.RightTo(&p, lifecycle.Whose{Agent: agent})
	require.True(t, right.Lasts(t.Context()))
	belongs(false)
	require.False(t, right.Lasts(t.Context()))
	belongs(true)
	w.clock.later = time.Hour
	assert.False(t, right.Lasts(t.Context()))
	assert.True(t, w.RightTo(&p, lifecycle.Whose{Agent: agent}).Lasts(t.Context()), "a new one")
}

// A check that is given up, as its stream moves elsewhere, does not count: the next caller checks.
func TestACheckThatIsGivenUpIsNone(t *testing.T) {
	w := newWorld(t)
	agent := w.agent(func(*catalog.AgentSpec) {})
	p, _ := w.person("a@example.com", tenant.Member, tenant.LevelRun)
	right := w.RightTo(&p, lifecycle.Whose{Agent: agent})
	require.True(t, right.Lasts(t.Context()))
	_, down := w.checks()
	require.NoError(t, w.RevokeKey(t.Context(), tenant.Platform(), w.home, p.Key))
	w.Change(p)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	*down = true // the response of a store to a context that has ended
	assert.True(t, right.Lasts(ctx))
	*down = false
	assert.False(t, right.Lasts(t.Context()))
}

// Rights that another process changes are seen within 20 seconds, and those that this one changes immediately. Between
// the checks a stream costs no reads, even while the store is away.
func TestARightIsCheckedAgainAfter20SecondsOrAChange(t *testing.T) {
	w := newWorld(t)
	agent := w.agent(func(*catalog.AgentSpec) {})
	p, _ := w.person("a@example.com", tenant.Member, tenant.LevelRun)
	elsewhere := tenant.Principal{Organization: "another", Level: tenant.LevelAdmin}
	right := w.RightTo(&p, lifecycle.Whose{Agent: agent})
	reads, down := w.checks()
	const second, blink = time.Second, time.Millisecond
	for _, c := range []struct {
		what    string
		later   time.Duration
		changes []tenant.Principal // who changes rights before the write
		down    bool
		checked bool
	}{
		{what: "the first write", checked: true},
		{what: "the next one"},
		{what: "just before the time", later: 20*second - blink},
		{what: "at the time", later: 20 * second, checked: true},
		{what: "after that", later: 20 * second},
		{what: "just before the next time", later: 40*second - blink},
		{what: "a change", later: 40*second - blink, changes: []tenant.Principal{p}, checked: true},
		{what: "none since", later: 40*second - blink},
		{what: "20 seconds after another check", later: 40 * second},
		{what: "a change of another organization", later: 41 * second, changes: []tenant.Principal{elsewhere}},
		{
			what: "an operator's change", later: 41 * second, changes: []tenant.Principal{tenant.Platform()},
			checked: true,
		},
		{what: "the store is away", later: 70 * second, down: true, checked: true},
		{what: "it is still away", later: 71 * second, down: true},
		{what: "it is back", later: 90*second - blink},
		{what: "20 seconds after it was away", later: 90 * second, checked: true},
	} {
		w.clock.later, *down = c.later, c.down
		for _, by := range c.changes {
			w.Change(by)
		}
		before := *reads
		assert.True(t, right.Lasts(t.Context()), c.what)
		assert.Equal(t, c.checked, *reads > before, c.what)
	}
	*down = false
	require.NoError(t, w.RevokeKey(t.Context(), tenant.Platform(), w.home, p.Key))
	w.clock.later = 110*second - blink
	assert.True(t, right.Lasts(t.Context()), "another process has revoked the key")
	w.clock.later = 110 * second
	assert.False(t, right.Lasts(t.Context()), "seen")
}

// If no other process changes rights, a stream checks its own after a change, and seldom without one.
func TestARightIsCheckedAfterAChangeWhereNoOtherProcessMakesAny(t *testing.T) {
	w := newWorld(t)
	w.Tenants = w.with(tenant.Defaults{Alone: true}, nil)
	agent := w.agent(func(*catalog.AgentSpec) {})
	p, _ := w.person("a@example.com", tenant.Member, tenant.LevelRun)
	right := w.RightTo(&p, lifecycle.Whose{Agent: agent})
	reads, down := w.checks()
	const blink = time.Millisecond
	for _, c := range []struct {
		later         time.Duration
		change, down  bool
		checked, ends bool
	}{
		{checked: true},
		{later: 10*time.Minute - blink},
		{later: 10 * time.Minute, checked: true},
		{later: 11 * time.Minute, change: true, down: true, checked: true},
		{later: 11*time.Minute + 20*time.Second - blink},
		{later: 11*time.Minute + 20*time.Second, checked: true},
		{later: 21*time.Minute + 20*time.Second - blink},
		{later: 21*time.Minute + 20*time.Second - blink, change: true, checked: true, ends: true},
	} {
		w.clock.later, *down = c.later, c.down
		if c.ends {
			require.NoError(t, w.RevokeKey(t.Context(), tenant.Platform(), w.home, p.Key))
		}
		if c.change {
			w.Change(p)
		}
		before := *reads
		assert.Equal(t, !c.ends, right.Lasts(t.Context()), c.later)
		assert.Equal(t, c.checked, *reads > before, c.later)
	}
}

// A stream ends at the moment when its key expires, without a notification and without a read before.
func TestAStreamsRightEndsInTheMomentItsKeyExpires(t *testing.T) {
	const blink = time.Millisecond
	for _, ends := range []time.Duration{5 * time.Second, 20 * time.Second, 33 * time.Second} {
		w := newWorld(t)
		agent := w.agent(func(*catalog.AgentSpec) {})
		p, _ := w.person("a@example.com", tenant.Member, tenant.LevelRun)
		w.expires(p.Key, ends)
		right := w.RightTo(&p, lifecycle.Whose{Agent: agent})
		reads, _ := w.checks()
		for at := time.Duration(0); at < ends-blink; at += 20 * time.Second {
			w.clock.later = at
			require.True(t, right.Lasts(t.Context()), "%s of %s", at, ends)
		}
		before := *reads
		w.clock.later = ends - blink
		assert.True(t, right.Lasts(t.Context()), ends)
		assert.Equal(t, before, *reads, ends)
		w.clock.later = ends
		assert.False(t, right.Lasts(t.Context()), ends)
	}
}

// A key may expire while the machine sleeps, which the clock of the process does not see. It then ends the stream
// immediately.
func TestAStreamsRightEndsWithItsKeyWhenTheMachineHasSlept(t *testing.T) {
	for _, alone := range []bool{false, true} {
		w := newWorld(t)
		w.Tenants = w.with(tenant.Defaults{Alone: alone}, nil)
		agent := w.agent(func(*catalog.AgentSpec) {})
		p, _ := w.person("a@example.com", tenant.Member, tenant.LevelRun)
		w.expires(p.Key, time.Hour)
		right := w.RightTo(&p, lifecycle.Whose{Agent: agent})
		require.True(t, right.Lasts(t.Context()))
		require.Positive(t, right.Due())
		w.clock.began = w.clock.began.Add(2 * time.Hour)
		assert.Zero(t, right.Due(), alone)
		assert.False(t, right.Lasts(t.Context()), alone)
	}
}

// To spend in the name of a principal with unknown budgets panics.
func TestASenderHasNoAccountToGoBy(t *testing.T) {
	w := newWorld(t)
	p, _ := w.person("a@example.com", tenant.Member, tenant.LevelRun)
	assert.Equal(t, p.User, p.Account().User.ID)
	sender, err := w.Sender(t.Context(), w.name, p.User, p.Key)
	require.NoError(t, err)
	assert.Panics(t, func() { _, _ = w.Limits(t.Context(), sender, catalog.Agent{}) })
}

// A right that has ended is always due. So a caller that checks before each write never takes it for a lasting one.
func TestARightThatHasEndedIsAlwaysDue(t *testing.T) {
	w := newWorld(t)
	p, _ := w.person("a@example.com", tenant.Member, tenant.LevelRun)
	w.expires(p.Key, time.Second)
	right := w.RightTo(&p, lifecycle.Whose{})
	require.True(t, right.Lasts(t.Context()))
	w.clock.later += time.Second
	require.False(t, right.Lasts(t.Context()))
	assert.Zero(t, right.Due())
	w.clock.later = 0 // the clock was put back
	assert.Zero(t, right.Due())
	assert.False(t, right.Lasts(t.Context()))
}

// A watcher of a right waits until the next check, and not at all when rights have changed since the last one.
func TestAWatchedRightIsDueAtItsNextCheck(t *testing.T) {
	const second = time.Second
	for name, c := range map[string]struct {
		ends    time.Duration // of the key; 0: never
		later   time.Duration // since the check
		changed bool
		due     time.Duration
	}{
		"just checked":                   {due: 20 * second},
		"a while ago":                    {later: 5 * second, due: 15 * second},
		"as long ago as may be":          {later: 20 * second},
		"of a key that ends before":      {ends: 8 * second, due: 8 * second},
		"of a key that ends before, now": {ends: 8 * second, later: 8 * second},
		"of a key that ends after":       {ends: 50 * second, later: second, due: 19 * second},
		"rights have changed since":      {later: second, changed: true},
	} {
		w := newWorld(t)
		agent := w.agent(func(*catalog.AgentSpec) {})
		p, _ := w.person("a@example.com", tenant.Member, tenant.LevelRun)
		w.clock.later = time.Hour
		if c.ends > 0 {
			w.expires(p.Key, c.ends)
		}
		right := w.RightTo(&p, lifecycle.Whose{Agent: agent})
		assert.Zero(t, right.Due(), "%s: before the first check", name)
		require.True(t, right.Lasts(t.Context()), name)
		w.clock.later += c.later
		if c.changed {
			w.Change(p)
		}
		assert.Equal(t, c.due, right.Due(), name)
	}
}
