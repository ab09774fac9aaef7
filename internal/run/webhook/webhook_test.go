package webhook_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/store/record"
)

func TestSweepLeavesClaimedDeliveryAlone(t *testing.T) {
	s := newStage(t)
	s.meanwhile = func() { require.NoError(t, s.sweeper.Adopt(t.Context())) }
	again, err := s.sender.Handle(t.Context(), s.hook.WakeupID())
	require.NoError(t, err)
	assert.Zero(t, again)
	assert.Equal(t, record.DeliveryDelivered, s.now(t).State)
	assert.Len(t, s.now(t).Attempts, 1)
}

// The sweeper's wakeup arrives before the sweeper's own write, which moves the due time forward by half a minute.
func TestConflictWithSweepIsRetriedSoon(t *testing.T) {
	s := newStage(t)
	s.items.Overtake(func() { require.NoError(t, s.sweeper.Sweep(t.Context())) })
	again, err := s.sender.Handle(t.Context(), s.hook.WakeupID())
	require.NoError(t, err)
	assert.Zero(t, s.posts)
	require.Positive(t, again, "else nobody looks before the sweeper does")
	assert.LessOrEqual(t, again, time.Second)
	_, err = s.sender.Handle(t.Context(), s.hook.WakeupID())
	require.NoError(t, err)
	assert.Equal(t, record.DeliveryDelivered, s.now(t).State)
}

func TestWakeUpMessagesOfAWaitingDeliveryBackOff(t *testing.T) {
	s := newStage(t)
	s.edit(t, func(h *record.Delivery) { h.NextAttempt = s.clock.now.Add(-10 * time.Minute) })
	require.NoError(t, s.sweeper.Sweep(t.Context()))
	assert.WithinDuration(t, s.clock.now.Add(10*time.Minute), s.now(t).CheckAt, time.Minute)
	_, err := s.sender.Handle(t.Context(), s.hook.WakeupID())
	require.NoError(t, err)
	assert.Zero(t, s.now(t).CheckAt, "a try that fails is looked at when the next is due")
}

func TestRedeliveryDuringATryKeepsItsOutcome(t *testing.T) {
	s := newStage(t)
	s.meanwhile = func() {
		s.meanwhile = nil
		_, err := s.sender.Redeliver(t.Context(), record.Of(record.NoOrganization), s.hook.DeliveryID, true)
		require.NoError(t, err)
	}
	_, err := s.sender.Handle(t.Context(), s.hook.WakeupID())
	require.NoError(t, err)
	assert.Equal(t, record.DeliveryDelivered, s.now(t).State)
	assert.Len(t, s.now(t).Attempts, 1)
	assert.True(t, s.now(t).Redeliver, "the try that was asked for is still to come")

	_, err = s.sender.Handle(t.Context(), s.hook.WakeupID())
	require.NoError(t, err)
	assert.Len(t, s.now(t).Attempts, 2)
	assert.False(t, s.now(t).Redeliver)
	assert.Equal(t, 2, s.posts)
}

func TestPanicIsAFailedTry(t *testing.T) {
	s := newStage(t)
	s.meanwhile = func() { panic("oops") }
	again, err := s.sender.Handle(t.Context(), s.hook.WakeupID())
	require.NoError(t, err)
	assert.Positive(t, again, "it is tried again with back-off")
	h := s.now(t)
	assert.Equal(t, record.DeliveryPending, h.State)
	require.Len(t, h.Attempts, 1)
	assert.Equal(t, "the service failed to send the delivery", h.Attempts[0].Error)
	assert.Empty(t, h.Claim, "and the claim is given back")
}
