package extract

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func isIn(let chan struct{}) bool {
	select {
	case <-let:
		return true
	default:
		return false
	}
}

// The first file of a group does not wait for earlier files of other groups, and a waiter that gives up holds no
// place.
func TestGroupsTakeTurns(t *testing.T) {
	turns := newTurns(2, 1)
	var much []chan struct{}
	for range 100 {
		much = append(much, turns.join("much"))
	}
	assert.True(t, isIn(turns.join("little")), "one group does not have all places")
	assert.False(t, isIn(much[1]))
	third, again := turns.join("third"), turns.join("little")
	turns.leave("much")
	assert.False(t, isIn(third), "there are ninety-nine, but it was the turn of the group that waited for longer")
	assert.True(t, isIn(much[1]))
	turns.leave("much")
	assert.True(t, isIn(third), "a group that has had its turn stands behind the others")
	turns.leave("third")
	assert.True(t, isIn(much[2]), "one of the group is in already")
	turns.leave("little")
	assert.True(t, isIn(again))

	assert.False(t, turns.giveUp("much", much[2]), "it is in")
	for _, one := range much[3:] {
		assert.True(t, turns.giveUp("much", one))
	}
	turns.leave("much")
	turns.leave("little")
	nobodyIsIn(t, turns)
}

func nobodyIsIn(t *testing.T, turns *turns) {
	t.Helper()
	assert.Zero(t, turns.taken)
	assert.Empty(t, turns.held)
	assert.Empty(t, turns.waiting)
	assert.Empty(t, turns.order)
}

func TestWaitForATurnTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(1, 1)
		leave, err := turns.take(t.Context(), "a")
		require.NoError(t, err)
		_, err = turns.take(t.Context(), "b")
		assert.Equal(t, ErrBusy, err)
		gone, stop := context.WithCancel(t.Context())
		stop()
		_, err = turns.take(gone, "b")
		assert.ErrorIs(t, err, context.Canceled)
		leave()
		leave, err = turns.take(t.Context(), "b")
		require.NoError(t, err, "who gave up is not in the way")
		leave()
	})
}

// Whatever the order of arrivals, departures and cancellations: no more readers than allowed, and none in the end.
func TestConcurrentReadsStayWithinTheLimit(t *testing.T) {
	turns := newTurns(3, 2)
	var mu sync.Mutex
	in, of := 0, map[string]int{}
	count := func(group string, n int) {
		mu.Lock()
		defer mu.Unlock()
		in, of[group] = in+n, of[group]+n
		assert.LessOrEqual(t, in, 3)
		assert.LessOrEqual(t, of[group], 2)
	}
	var all sync.WaitGroup
	for n := range 200 {
		all.Go(func() {
			group := string(rune('a' + n%5))
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			if n%3 == 0 {
				go stop()
			}
			if leave, err := turns.take(ctx, group); err == nil {
				count(group, 1)
				count(group, -1)
				leave()
			}
		})
	}
	all.Wait()
	nobodyIsIn(t, turns)
}

// While documents of one group are being read or wait, the first document of another group is read.
func TestDocumentsOfOneGroupDoNotDelayAnother(t *testing.T) {
	const many = 8
	asked, let := make(chan struct{}, many), make(chan struct{})
	var all sync.WaitGroup
	for range many {
		opened := 0
		slow := File{Name: "a.html", Open: func(context.Context) (io.ReadCloser, error) {
			if opened++; opened > 1 { // it is opened first to recognize its format
				asked <- struct{}{}
				<-let
			}
			return io.NopCloser(strings.NewReader("<p>" + strings.Repeat("word ", MaxText))), nil
		}}
		all.Go(func() {
			_, err := Text(t.Context(), "much", slow)
			assert.NoError(t, err)
		})
	}
	assert.Eventually(t, func() bool {
		reading.mu.Lock()
		defer reading.mu.Unlock()
		return reading.held["much"]+len(reading.waiting["much"]) == many
	}, time.Minute, time.Millisecond)
	got, err := Text(t.Context(), "little", File{Name: "a.html", Open: func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader("<p>Dear all")), nil
	}})
	assert.NoError(t, err)
	assert.Equal(t, "Dear all", got)
	assert.LessOrEqual(t, len(asked), atOnceGroup, "the others have not come in")
	close(let)
	all.Wait()
	assert.Len(t, asked, many)
}
