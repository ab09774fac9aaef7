package waiting_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"agentplatform/internal/platform/waiting"
)

func TestTimeIsCountedOnceHoweverManyWait(t *testing.T) {
	var now time.Duration
	ctx, clock := waiting.New(t.Context(), func() time.Duration { return now })
	now += time.Second // its own
	first := waiting.Start(ctx)
	now += time.Second
	second := waiting.Start(ctx)
	now += time.Second
	first()
	first() // ends nothing of another
	now += time.Second
	assert.Equal(t, 3*time.Second, clock.Total(), "one still waits")
	second()
	now += time.Second
	third := waiting.Start(ctx)
	now += time.Second
	third()
	assert.Equal(t, 4*time.Second, clock.Total())
}

func TestNobodyCounts(t *testing.T) {
	assert.NotPanics(t, waiting.Start(t.Context()))
}

func TestAWaitAsksForHowLongItMayGoOn(t *testing.T) {
	ctx, clock := waiting.New(t.Context(), func() time.Duration { return 0 })
	assert.Greater(t, waiting.Left(ctx, time.Minute), time.Hour, "there is no limit")
	clock.Limit(func(lasted time.Duration) time.Duration { return 3*time.Second - lasted })
	assert.Equal(t, 2*time.Second, waiting.Left(ctx, time.Second))
	assert.Zero(t, waiting.Left(ctx, 3*time.Second))
	assert.Greater(t, waiting.Left(t.Context(), time.Minute), time.Hour, "there is no clock")
}
