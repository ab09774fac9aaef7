package waiting_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"agentplatform/internal/waiting"
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
