package reclaim

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestMemoryIsGivenBackWhenTheProcessHasBecomeQuiet(t *testing.T) {
	const mb = 1 << 20
	for name, c := range map[string]struct {
		started   uint64 // allocated before the first look
		live      uint64
		allocates []uint64 // from each look to the next
		given     []int    // at which looks memory is given back
	}{
		"after the start, once":    {started: 3 * mb, allocates: []uint64{0, 0, 0, 0}, given: []int{1}},
		"not while it works":       {started: 3 * mb, allocates: []uint64{90 * mb, 90 * mb, 90 * mb}},
		"after each piece of work": {allocates: []uint64{90 * mb, 1 * mb, 0, 90 * mb, 0, 0}, given: []int{2, 5}},
		"not for a little":         {allocates: []uint64{0, 1 * mb, 1 * mb, 1 * mb, 1 * mb}, given: []int{1}},
		"when little has added up": {
			allocates: []uint64{0, 4 * mb, 4 * mb, 4 * mb, 3 * mb, 1 * mb, 0}, given: []int{1, 6},
		},
		"of a large heap with care": {live: 80 * mb, allocates: []uint64{11 * mb, 10 * mb, 0}, given: []int{2}},
		"of a large heap no more often than it is collected": {
			live: 40 * mb, allocates: []uint64{5 * mb, 5 * mb, 5 * mb, 5 * mb, 5 * mb, 5 * mb, 5 * mb, 5 * mb, 5 * mb},
			given: []int{1, 9},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				looks := func() int { return int(time.Since(began) / lookEvery) }
				var given []int
				ctx, stop := context.WithTimeout(t.Context(), lookEvery*time.Duration(len(c.allocates))+time.Second)
				defer stop()
				watch(ctx, func() state {
					allocated := c.started
					for _, n := range c.allocates[:looks()] {
						allocated += n
					}
					return state{allocated, c.live}
				}, func() { given = append(given, looks()) })
				assert.Equal(t, c.given, given)
			})
		})
	}
}
