package rollup

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"github.com/DataDog/sketches-go/ddsketch"
	"github.com/DataDog/sketches-go/ddsketch/mapping"
	"github.com/DataDog/sketches-go/ddsketch/store"
)

// Bins are a distribution of times in milliseconds: how many fell into each bin, by index. The bins are those of
// DDSketch. They are so narrow that a percentile is within [Accuracy] of a real time, and they merge by addition.
//
// They are kept here and not as a sketch of the library, since most rows have one or two. And their bytes must be the
// same whenever the same entries are rolled up.
type Bins []Bin

// Bin is how many times fell into a bin.
type Bin struct {
	Index int32
	Count int64
}

// Accuracy is the relative error of percentiles. Whole milliseconds are rounded in addition.
const Accuracy = 0.01

// none is the index of the bin for times of nothing.
const none = math.MinInt32

var binning = sync.OnceValue(func() *mapping.LogarithmicMapping {
	m, err := mapping.NewLogarithmicMapping(Accuracy)
	if err != nil {
		panic(err) // the accuracy is a constant
	}
	return m
})

func binOf(ms int64) int32 {
	if ms <= 0 {
		return none
	}
	return int32(binning().Index(float64(ms))) //nolint:gosec // an int64 has fewer than 4,400 bins
}

// merged adds counts of bins in the order of their indexes. It may change a, and does not keep b.
func merged(a, b Bins) Bins {
	switch len(b) {
	case 0:
		return a
	case 1: // an entry
		at, there := slices.BinarySearchFunc(a, b[0].Index,
			func(bin Bin, index int32) int { return cmp.Compare(bin.Index, index) })
		if !there {
			return slices.Insert(a, at, b[0])
		}
		a[at].Count += b[0].Count
		return a
	}
	return interleaved(a, b, func(a, b Bin) int { return cmp.Compare(a.Index, b.Index) },
		func(a, b Bin) Bin { return Bin{a.Index, a.Count + b.Count} })
}

// interleaved has the elements of two lists in their order, and one for two that are equal.
func interleaved[T any](a, b []T, compare func(a, b T) int, both func(a, b T) T) []T {
	all := make([]T, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		switch order := compare(a[0], b[0]); {
		case order < 0:
			all, a = append(all, a[0]), a[1:]
		case order > 0:
			all, b = append(all, b[0]), b[1:]
		default:
			all, a, b = append(all, both(a[0], b[0])), a[1:], b[1:]
		}
	}
	return append(append(all, a...), b...)
}

// Quantiles are the times at these quantiles, in whole milliseconds; nil if there are no times.
func (b Bins) Quantiles(q ...float64) []int64 {
	if len(b) == 0 {
		return nil
	}
	positive := store.NewDenseStore()
	sketch := ddsketch.NewDDSketch(binning(), positive, store.NewDenseStore())
	for _, bin := range b {
		if bin.Index != none {
			positive.AddWithCount(int(bin.Index), float64(bin.Count))
		} else if err := sketch.AddWithCount(0, float64(bin.Count)); err != nil {
			return nil // a count below nothing, which no entry gives
		}
	}
	values, err := sketch.GetValuesAtQuantiles(q)
	if err != nil {
		return nil
	}
	times := make([]int64, 0, len(values))
	for _, v := range values {
		times = append(times, int64(math.Round(v)))
	}
	return slices.Clip(times)
}
