package rollup

import (
	"slices"
	"time"
)

// Quarter is the span of the smallest rollup. The time zones of our days are whole quarters apart.
const Quarter = 15 * time.Minute

// Interval is the length of a step of a series.
type Interval string

// The intervals.
const (
	Hour Interval = "hour"
	Day  Interval = "day"
)

// begins reports whether an interval begins at a quarter of an hour, by the clocks of the zone. Changes of the clocks
// make hours and days longer and shorter; an hour that comes twice is two.
func (i Interval) begins(at time.Time, zone *time.Location) bool {
	here, before := at.In(zone), at.Add(-Quarter).In(zone)
	if i == Day {
		return here.YearDay() != before.YearDay() || here.Year() != before.Year()
	}
	return here.Hour() != before.Hour() || here.Minute() < before.Minute()
}

// longest is how many quarters a day may have. The longest day has a change of the clocks, or was left out by a zone
// and then taken back.
const longest = 4 * 49

// Steps are the begins of the intervals of a series over [from, to). The first interval contains from. There are at
// most most and one more, which means that there are too many. It panics if to is not after from.
func (i Interval) Steps(from, to time.Time, zone *time.Location, most int) []time.Time {
	if !to.After(from) {
		panic("rollup: a series over nothing")
	}
	first := from.UTC().Truncate(Quarter)
	for n := 0; n < longest && !i.begins(first, zone); n++ {
		first = first.Add(-Quarter)
	}
	steps := []time.Time{first}
	if zone == time.UTC { // the same, without clocks: forty times faster
		step := time.Hour
		if i == Day {
			step = 24 * time.Hour
		}
		for at := first.Add(step); at.Before(to) && len(steps) <= most; at = at.Add(step) {
			steps = append(steps, at)
		}
		return steps
	}
	for at := first.Add(Quarter); at.Before(to) && len(steps) <= most; at = at.Add(Quarter) {
		if i.begins(at, zone) {
			steps = append(steps, at)
		}
	}
	return steps
}

// StepOf is the number of the step that contains a time; the time must not be before the first step.
func StepOf(steps []time.Time, at time.Time) int {
	n, exact := slices.BinarySearchFunc(steps, at, time.Time.Compare)
	if exact {
		return n
	}
	return n - 1
}
