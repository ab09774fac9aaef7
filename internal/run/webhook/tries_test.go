package webhook_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/proof/faulttable"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
)

// A delivery has 8 attempts. The waits double from 5 s up to 30 min, each with jitter. A later attempt is made when it
// is due.
func TestDeliveryIsTriedEightTimesWithBackOff(t *testing.T) {
	for _, least := range []bool{false, true} {
		s := newStage(t)
		s.status, s.clock.least = http.StatusServiceUnavailable, least
		for attempt := 1; attempt < 8; attempt++ {
			longest := 5 * time.Second << (attempt - 1)
			want := 100*time.Millisecond + longest - 1
			if least {
				want = 100 * time.Millisecond
			}
			assert.Equal(t, want, s.handle(t), attempt)
			h := s.now(t)
			assert.Equal(t, []any{record.DeliveryPending, s.clock.now.Add(want)}, []any{h.State, h.NextAttempt})
			assert.Len(t, h.Attempts, attempt)
			s.clock.now = s.clock.now.Add(time.Second / 20)
			assert.Equal(t, want-time.Second/20, s.handle(t), "it is not due yet")
			s.clock.now = h.NextAttempt
		}
		assert.Zero(t, s.handle(t))
		h := s.now(t)
		assert.Equal(
			t,
			[]any{record.DeliveryFailed, time.Time{}, 8, 8},
			[]any{h.State, h.NextAttempt, len(h.Attempts), s.posts},
		)
		assert.Zero(t, s.handle(t))
		assert.Equal(t, 8, s.posts, "what has failed is left alone")
	}
}

// Retry-After may be in seconds or a date, and counts up to 30 minutes. A time in the past is ignored.
func TestRetryAfterIsHonoured(t *testing.T) {
	s := newStage(t)
	now := s.clock.now.Truncate(time.Second)
	const own = 100*time.Millisecond + 5*time.Second - 1
	for wish, want := range map[string]time.Duration{
		"1": time.Second, "7": 7 * time.Second, "1800": 30 * time.Minute, "1801": 30 * time.Minute,
		"9000000000000000000": 30 * time.Minute,
		"0":                   own, "-1": own, "-9000000000000000000": own, "": own, "soon": own, "1.5": own,
		now.Add(time.Minute).Format(http.TimeFormat): time.Minute,
		now.Add(time.Hour).Format(http.TimeFormat):   30 * time.Minute,
		now.Format(http.TimeFormat):                  own, now.Add(-time.Minute).Format(http.TimeFormat): own,
	} {
		s := newStage(t)
		s.clock.now = now
		s.edit(t, func(h *record.Delivery) { h.NextAttempt = now })
		s.status, s.header = http.StatusTooManyRequests, http.Header{"Retry-After": {wish}}
		assert.Equal(t, want, s.handle(t), wish)
	}
}

// An attempt that became due while the outcome was being stored is made soon, not never.
func TestTryDueMeanwhileIsMadeSoon(t *testing.T) {
	s := newStage(t)
	s.status, s.header = http.StatusServiceUnavailable, http.Header{"Retry-After": {"1"}}
	s.meanwhile = func() {
		s.items.Overtake(func() { s.clock.now = s.clock.now.Add(time.Hour) })
	}
	assert.Equal(t, time.Millisecond, s.handle(t))
}

// Redelivery is for failed deliveries, and for others if forced. It is one attempt with the same bytes and id, with any
// outcome. A pending delivery continues as before.
func TestRedeliveryIsOneTryOfTheSameBytes(t *testing.T) {
	for _, state := range []record.DeliveryState{record.DeliveryPending, record.DeliveryDelivered,
		record.DeliveryFailed} {
		for _, force := range []bool{false, true} {
			for _, status := range []int{200, 400, 503} {
				s := newStage(t)
				s.edit(t, func(h *record.Delivery) {
					h.State, h.NextAttempt = state,
						map[bool]time.Time{true: h.NextAttempt}[state == record.DeliveryPending]
					h.CountedAttempts = 3
				})
				before := s.now(t)
				h, err := s.sender.Redeliver(t.Context(), record.Of(record.NoOrganization), s.hook.DeliveryID, force)
				if !force && state != record.DeliveryFailed {
					p, ok := problem.As(err)
					require.True(t, ok, "%s: %v", state, err)
					assert.Equal(
						t,
						[]any{"conflict", problem.Conflict, state},
						[]any{p.Code, p.Kind, p.Extras["state"]},
					)
					assert.Equal(t, before, s.now(t))
					continue
				}
				require.NoError(t, err)
				assert.Equal(t, s.now(t), h)
				assert.Equal(t, []any{true, s.clock.now, state}, []any{h.Redeliver, h.NextAttempt, h.State})
				s.status = status
				again := s.handle(t)
				assert.Equal(t, []string{s.hook.DeliveryID, "{}"}, []string{s.request.Header.Get("Webhook-Id"), s.body})
				h = s.now(t)
				want := map[int]record.DeliveryState{200: record.DeliveryDelivered, 400: state, 503: state}[status]
				if state == record.DeliveryPending && status == 400 {
					want = record.DeliveryFailed
				}
				assert.Equal(t, want, h.State, "%s, then %d", state, status)
				assert.Len(t, h.Attempts, 1)
				assert.False(t, h.Redeliver)
				assert.Equal(t, h.State == record.DeliveryPending, again > 0, "%s, then %d", state, status)
			}
		}
	}
}

// A refused redelivery returns the reason and changes nothing.
func TestRefusedRedeliveryChangesNothing(t *testing.T) {
	code := func(err error) string {
		if p, ok := problem.As(err); ok {
			return p.Code
		}
		return ""
	}
	s := newStage(t)
	before := s.now(t)
	ask := func() error {
		_, err := s.sender.Redeliver(t.Context(), record.Of(record.NoOrganization), s.hook.DeliveryID, true)
		return err
	}
	_, err := s.sender.Redeliver(t.Context(), record.Of("o"), s.hook.DeliveryID, true)
	assert.Equal(t, "outside_organization", code(err))
	_, err = s.sender.Redeliver(t.Context(), record.Of(record.NoOrganization), s.clock.NewID(), true)
	assert.Equal(t, "not_found", code(err))
	for fails := range 3 { // it is listed, read and written
		calls := 0
		s.fails = func() bool { calls++; return calls > fails }
		err := ask()
		s.fails = nil
		assert.Equal(t, "unavailable", code(err), "call %d: %v", fails, err)
		assert.Equal(t, before, s.now(t))
	}
	s.items.Before = func(c faulttable.Call) faulttable.Fault {
		if c.Commit {
			s.edit(t, func(h *record.Delivery) { h.CountedAttempts++ })
		}
		return faulttable.None
	}
	assert.Equal(t, "unavailable", code(ask()), "somebody else is always faster")
	assert.False(t, s.now(t).Redeliver)
	s.items.Overtake(func() { s.edit(t, func(h *record.Delivery) { h.CountedAttempts++ }) })
	require.NoError(t, ask(), "once is nothing")
	assert.True(t, s.now(t).Redeliver)
}

// The last 50 attempts are kept.
func TestLastFiftyTriesAreKept(t *testing.T) {
	s := newStage(t)
	for n := range 52 {
		s.answer = string(rune('A' + n))
		_, err := s.sender.Redeliver(t.Context(), record.Of(record.NoOrganization), s.hook.DeliveryID, true)
		require.NoError(t, err)
		s.handle(t)
		attempts := s.now(t).Attempts
		require.Len(t, attempts, min(n+1, 50))
		assert.Equal(t, s.answer, attempts[len(attempts)-1].ResponseExcerpt)
	}
	assert.Equal(t, "C", s.now(t).Attempts[0].ResponseExcerpt)
}

// If any call fails permanently, an error is returned, or the delivery has a failed attempt. No delivery is lost: once
// calls succeed again and the claim has ended, it is delivered.
func TestFailedCallLosesNoDelivery(t *testing.T) {
	const patience = 8 // attempts of a call of the store
	for fails, done := 0, false; !done; fails++ {
		require.Less(t, fails, 20)
		s := newStage(t)
		o := catalog.Organization{ID: s.clock.NewID()}
		_, err := record.Create(t.Context(), s.store, o, "made")
		require.NoError(t, err)
		s.due(
			t,
			record.Delivery{Organization: o.ID, CallbackURL: "https://example.com/", Body: string(make([]byte,
				10_000))},
		)
		calls, failed := 0, 0
		s.fails = func() bool {
			if calls++; calls > fails && failed < patience {
				failed++
				return true
			}
			return false
		}
		_, err = s.sender.Handle(t.Context(), s.hook.WakeupID())
		s.fails = nil
		if done = failed == 0; !done && err == nil {
			require.Len(t, s.now(t).Attempts, 1, "call %d", fails)
			assert.Contains(t, s.now(t).Attempts[0].Error, "could not be read")
			assert.Zero(t, s.posts)
		}
		if err != nil {
			assert.True(t, problem.Is(err, "unavailable"), "call %d: %v", fails, err)
			assert.Empty(t, s.now(t).Attempts)
		}
		s.clock.now = s.clock.now.Add(30 * time.Second)
		s.handle(t)
		assert.Equal(t, record.DeliveryDelivered, s.now(t).State, "call %d", fails)
	}
}

// Other senders leave a claimed delivery alone until the claim or its process ends. If only one process runs, the
// claims of earlier process ids are void.
func TestClaimedDeliveryIsLeftAlone(t *testing.T) {
	for _, c := range []struct {
		boot, by string
		left     time.Duration
		posts    int
	}{{"", "", 1, 0}, {"", "", 0, 1}, {"b", "b", 1, 0}, {"b", "a", 1, 1}, {"b", "b", 0, 1}} {
		s := newStage(t)
		s.sender.ProcessID = c.boot
		s.edit(t, func(h *record.Delivery) {
			h.Claim, h.ProcessID, h.ClaimUntil = "another", c.by, s.clock.now.Add(c.left)
		})
		s.meanwhile = func() { assert.Equal(t, c.boot, s.now(t).ProcessID) }
		assert.Zero(t, s.handle(t))
		assert.Equal(t, c.posts, s.posts, c)
	}
}

// A delivery that does not exist, or whose run was deleted, is not sent.
func TestDeliveryOfDeletedRunIsNotSent(t *testing.T) {
	s := newStage(t)
	for _, id := range []string{
		"", "x", s.hook.RunID, s.hook.RunID + "/x", s.hook.RunID + "/2", s.clock.NewID() + "/1",
	} {
		again, err := s.sender.Handle(t.Context(), id)
		require.NoError(t, err, id)
		assert.Zero(t, again, id)
	}
	drop := table.Delete(record.RunKey(s.hook.RunID), table.Always())
	require.NoError(t, s.items.Inner.Commit(t.Context(), "gone", drop))
	assert.Zero(t, s.handle(t))
	assert.Zero(t, s.posts, "its run has been deleted")
	assert.Empty(t, s.now(t).Attempts)
}

// The outcome of an attempt is stored even if the caller has gone and others write at the same time. It is not stored
// if the delivery was deleted or claimed by another sender. An outcome that cannot be stored is an error.
func TestOutcomeIsStoredDespiteConflicts(t *testing.T) {
	lost := errors.New("an error")
	for name, c := range map[string]struct {
		meanwhile func(s *stage)
		wrong     error
		state     record.DeliveryState // "": it does not exist
	}{
		"whoever asked has gone": {func(*stage) {}, nil, record.DeliveryDelivered},
		"once another was faster": {func(s *stage) {
			s.items.Overtake(func() { s.edit(t, func(h *record.Delivery) { h.CheckAt = s.clock.now }) })
		}, nil, record.DeliveryDelivered},
		"another was faster, and a look fails once": {func(s *stage) {
			s.items.Overtake(func() {
				s.edit(t, func(h *record.Delivery) { h.CheckAt = s.clock.now })
				s.items.Before = func(c faulttable.Call) faulttable.Fault {
					if c.Commit {
						return faulttable.None
					}
					s.items.Before = nil
					return faulttable.Down
				}
			})
		}, nil, record.DeliveryDelivered},
		"another is always faster": {func(s *stage) {
			s.items.Before = func(c faulttable.Call) faulttable.Fault {
				if c.Commit {
					s.edit(t, func(h *record.Delivery) { h.CheckAt = s.clock.now })
				}
				return faulttable.None
			}
		}, lost, record.DeliveryPending},
		"it has gone": {func(s *stage) {
			require.NoError(t, s.store.EraseDeliveries(t.Context(), s.hook.Organization, s.hook.RunID))
		}, nil, ""},
		"it is another's": {func(s *stage) {
			s.edit(t, func(h *record.Delivery) { h.Claim = "another" })
		}, nil, record.DeliveryPending},
		"nothing can be written": {func(s *stage) {
			s.fails = func() bool { return true }
		}, lost, record.DeliveryPending},
		"another was faster, and nothing can be read": {func(s *stage) {
			s.items.Overtake(func() {
				s.edit(t, func(h *record.Delivery) { h.CheckAt = s.clock.now })
				s.items.Before = s.plain
				s.fails = func() bool { return true }
			})
			s.fails = nil
		}, lost, record.DeliveryPending},
	} {
		s := newStage(t)
		gone, cancel := context.WithCancel(t.Context())
		s.meanwhile = func() {
			cancel()
			c.meanwhile(s)
		}
		again, err := s.sender.Handle(gone, s.hook.WakeupID())
		s.items.Before, s.fails = nil, nil
		assert.Equal(t, c.wrong != nil, err != nil, "%s: %v", name, err)
		assert.Zero(t, again, name)
		assert.Equal(t, 1, s.posts, name)
		e, found, err := s.store.DeliveryAt(t.Context(), s.hook.RunID, 1)
		require.NoError(t, err)
		assert.Equal(t, c.state != "", found, name)
		assert.Equal(t, c.state, e.Value.State, name)
		assert.Equal(t, map[bool]int{true: 1}[c.state == record.DeliveryDelivered], len(e.Value.Attempts), name)
	}
}

// A delivery in a state of a newer version is left alone.
func TestDeliveryOfNewerVersionIsLeftAlone(t *testing.T) {
	s := newStage(t)
	items, err := s.items.Inner.Get(t.Context(), record.DeliveryKey(s.hook.RunID, 1))
	require.NoError(t, err)
	newer := *items[0]
	newer.Schema++
	require.NoError(t, s.items.Inner.Commit(t.Context(), "newer", table.Put(newer, table.Always())))
	_, err = s.sender.Handle(t.Context(), s.hook.WakeupID())
	require.ErrorContains(t, err, "newer schema")
	assert.Zero(t, s.posts)
	_, err = s.sender.Redeliver(t.Context(), record.Of(record.NoOrganization), s.hook.DeliveryID, true)
	require.ErrorContains(t, err, "newer schema")
}

// A redelivery and its entry in the audit log are one commit: if any call of the store fails, either both exist or
// neither.
func TestARedeliveryIsAskedForTogetherWithItsAuditEntry(t *testing.T) {
	s := newStage(t)
	s.edit(t, func(h *record.Delivery) { h.State, h.NextAttempt = record.DeliveryFailed, time.Time{} })
	before := s.now(t)
	entries := func() int {
		page, err := record.Resources[record.AuditEntry](t.Context(), s.store, record.Of(record.NoOrganization), "", 9)
		require.NoError(t, err)
		return len(page.Rows)
	}
	author := record.Author{Organization: record.NoOrganization, UserID: "u", Operation: "redeliver"}
	ctx := record.By(t.Context(), author)
	for reached := 0; ; reached++ {
		require.Less(t, reached, 20)
		calls := 0
		s.fails = func() bool { calls++; return calls > reached }
		h, err := s.sender.Redeliver(ctx, record.Of(record.NoOrganization), s.hook.DeliveryID, false)
		s.fails = nil
		if err == nil {
			assert.Equal(t, s.now(t), h)
			break
		}
		assert.Equal(t, before, s.now(t), "after %d calls", reached)
		assert.Zero(t, entries(), "after %d calls", reached)
	}
	assert.True(t, s.now(t).Redeliver)
	assert.Equal(t, 1, entries())
}
