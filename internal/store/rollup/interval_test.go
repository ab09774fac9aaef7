package rollup_test

import (
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"agentplatform/internal/store/rollup"
)

// zones have clocks of every kind: far ahead and behind, half and quarter hours, changes at midnight and by half an
// hour. One zone left a day out.
var zones = []string{"UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Asia/Kathmandu", "Pacific/Chatham",
	"Australia/Lord_Howe", "America/Sao_Paulo", "Asia/Beirut", "Africa/Cairo", "America/Havana", "Pacific/Kiritimati",
	"Pacific/Apia", "Pacific/Pago_Pago", "Antarctica/Troll"}

func zone(t require.TestingT, name string) *time.Location {
	z, err := time.LoadLocation(name)
	require.NoError(t, err)
	return z
}

// The steps of a series cover its range without a gap. Each begins at a quarter of an hour. By the zone's clocks a step
// is within one day or hour, and the next one in another.
func TestStepsCoverTheirRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		z := zone(t, rapid.SampledFrom(zones).Draw(t, "zone"))
		from := time.Unix(rapid.Int64Range(1293840000, 1893456000).Draw(t, "from"), // 2011 to 2030
			rapid.Int64Range(0, 999).Draw(t, "ms")*1e6).UTC()
		to := from.Add(time.Duration(rapid.Int64Range(1, 10*24*3600).Draw(t, "seconds")) * time.Second)
		for _, interval := range []rollup.Interval{rollup.Hour, rollup.Day} {
			steps := interval.Steps(from, to, z, 100_000)
			require.False(t, steps[0].After(from))
			require.True(t, steps[len(steps)-1].Before(to))
			for n, at := range steps {
				require.Equal(t, at, at.Truncate(rollup.Quarter))
				end := to
				if n+1 < len(steps) {
					end = steps[n+1]
				}
				require.True(t, end.After(at))
				for q := at; q.Before(end) && q.Before(to); q = q.Add(rollup.Quarter) {
					require.Equal(t, n, rollup.StepOf(steps, q))
					require.Equal(t, n, rollup.StepOf(steps, q.Add(rollup.Quarter-1)))
					require.Equal(t, label(interval, at.In(z)), label(interval, q.In(z)), "%s %s", interval, z)
				}
				if interval == rollup.Day && n > 0 {
					require.NotEqual(t, label(interval, at.Add(-1).In(z)), label(interval, at.In(z)))
				}
			}
			require.True(t, steps[0].After(from.Add(-49*time.Hour)), "the first one has %s in it", from)
		}
	})
}

func label(i rollup.Interval, at time.Time) string {
	if i == rollup.Day {
		return at.Format(time.DateOnly)
	}
	return at.Format("2006-01-02 15")
}

func TestDaysAndHoursOfAZone(t *testing.T) {
	at := func(text string) time.Time {
		parsed, err := time.Parse(time.RFC3339, text)
		require.NoError(t, err)
		return parsed.UTC()
	}
	for _, c := range []struct {
		zone     string
		interval rollup.Interval
		from, to string
		want     []string
	}{
		{"UTC", rollup.Day, "2026-03-01T00:00:00Z", "2026-03-03T00:00:00Z",
			[]string{"2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z"}},
		{"UTC", rollup.Hour, "2026-03-01T00:30:00Z", "2026-03-01T02:00:01Z",
			[]string{"2026-03-01T00:00:00Z", "2026-03-01T01:00:00Z", "2026-03-01T02:00:00Z"}},
		// a day of 23 hours, and one of 25
		{"Europe/Berlin", rollup.Day, "2026-03-28T12:00:00Z", "2026-03-30T12:00:00Z",
			[]string{"2026-03-27T23:00:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"}},
		{"Europe/Berlin", rollup.Day, "2026-10-24T22:00:00Z", "2026-10-26T00:00:00Z",
			[]string{"2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"}},
		// the hour that comes twice is two
		{"Europe/Berlin", rollup.Hour, "2026-10-25T00:00:00Z", "2026-10-25T02:00:00Z",
			[]string{"2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z"}},
		{"Asia/Kathmandu", rollup.Hour, "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z",
			[]string{"2025-12-31T23:15:00Z", "2026-01-01T00:15:00Z"}},
		// the day that Samoa left out
		{"Pacific/Apia", rollup.Day, "2011-12-29T10:00:00Z", "2011-12-31T10:00:00Z",
			[]string{"2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z"}},
		// midnight did not come
		{"America/Sao_Paulo", rollup.Day, "2018-11-03T12:00:00Z", "2018-11-04T12:00:00Z",
			[]string{"2018-11-03T03:00:00Z", "2018-11-04T03:00:00Z"}},
	} {
		var got []string
		for _, s := range c.interval.Steps(at(c.from), at(c.to), zone(t, c.zone), 100) {
			got = append(got, s.Format(time.RFC3339))
		}
		assert.Equal(t, c.want, got, "%s %s from %s", c.zone, c.interval, c.from)
	}
	long := rollup.Hour.Steps(at("2026-01-01T00:00:00Z"), at("2027-01-01T00:00:00Z"), time.UTC, 50)
	assert.Len(t, long, 51, "one more than there may be")
	assert.Panics(t, func() { rollup.Day.Steps(at("2026-01-01T00:00:00Z"), at("2026-01-01T00:00:00Z"), time.UTC, 9) })
}
