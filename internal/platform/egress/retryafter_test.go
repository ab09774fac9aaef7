package egress_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"agentplatform/internal/platform/egress"
)

func TestRetryAfterIsANumberOrADate(t *testing.T) {
	now := time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"7": 7 * time.Second, "0": 0, "-1": 0, "": 0, "soon": 0, "1.5": 0,
		now.Add(time.Minute).Format(http.TimeFormat):  time.Minute,
		now.Add(time.Minute).Format(time.RFC850):      time.Minute,
		now.Add(-time.Minute).Format(http.TimeFormat): -time.Minute,
	} {
		assert.Equal(t, want, egress.RetryAfter(value, now), value)
	}
	assert.Greater(t, egress.RetryAfter("9000000000000000", now), time.Hour)
}
