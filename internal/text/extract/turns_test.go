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

// The first file of a group does not wait for earlier files of other groups, and a waiter that gives up holds no
// place.
func TestGroupsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(2, 1)
		var in []string // in the order of their turns
		leave := map[string]func(){}
		join := func(ctx context.Context, group string) {
			go func() {
				if left, err := take(ctx, turns, group); err == nil {
					in, leave[group] = append(in, group), left
				}
			}()
			synctest.Wait()
		}
		next := func(group string) {
			leave[group]()
			synctest.Wait()
		}
		much, stop := context.WithCancel(t.Context())
		for range 100 {
			join(much, "much")
		}
		join(t.Context(), "little")
		assert.Equal(t, []string{"much", "little"}, in, "one group does not have all places")
		join(t.Context(), "third")
		join(t.Context(), "little")
		next("much")
		assert.Equal(t, "third", in[2], "a group that has had its turn stands behind the others")
		next("third")
		assert.Equal(t, "much", in[3], "one of the group little is in already")
		next("much")
		assert.Equal(t, "much", in[4], "nobody else waits for this place")
		next("little")
		assert.Equal(t, "little", in[5])
		stop()
		synctest.Wait()
		next("much")
		next("little")
		assert.Len(t, in, 6, "who gave up has no turn")
		assert.Zero(t, turns.Held(), "all places are free")
	})
}

func TestWaitForATurnTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(1, 1)
		leave, err := take(t.Context(), turns, "a")
		require.NoError(t, err)
		_, err = take(t.Context(), turns, "b")
		assert.Equal(t, ErrBusy, err)
		gone, stop := context.WithCancel(t.Context())
		stop()
		_, err = take(gone, turns, "b")
		assert.ErrorIs(t, err, context.Canceled)
		leave()
		leave, err = take(t.Context(), turns, "b")
		require.NoError(t, err, "who gave up is not in the way")
		leave()
	})
}

// For any order of arrivals, departures and cancellations: no more readers than allowed, and none in the end.
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
			if leave, err := take(ctx, turns, group); err == nil {
				count(group, 1)
				count(group, -1)
				leave()
			}
		})
	}
	all.Wait()
	assert.Zero(t, turns.Held(), "all places are free")
}

// While documents of one group are being read or wait, the first document of another group is read.
func TestDocumentsOfOneGroupDoNotDelayAnother(t *testing.T) {
	const many = 8
	started, let := make(chan struct{}, many), make(chan struct{})
	var all sync.WaitGroup
	for range many {
		opened := 0
		slow := File{Name: "a.html", Open: func(context.Context) (io.ReadCloser, error) {
			if opened++; opened > 1 { // it is opened first to recognize its format
				started <- struct{}{}
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
		return reading.Held() == 1 && reading.Waiting() == many-1
	}, time.Minute, time.Millisecond)
	got, err := Text(t.Context(), "little", File{Name: "a.html", Open: func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader("<p>Dear all")), nil
	}})
	assert.NoError(t, err)
	assert.Equal(t, "Dear all", got)
	assert.LessOrEqual(t, len(started), atOnceGroup, "the others have not come in")
	close(let)
	all.Wait()
	assert.Len(t, started, many)
}
