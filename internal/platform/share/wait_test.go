package share_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/platform/share"
)

// Organizations take turns, then users. A waiter that gives up has no turn.
func TestThoseWhoWaitTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := share.New(share.Limits{All: 3, Reserve: 1, Organization: 2})
		var held, mu = []*share.Part{}, sync.Mutex{}
		var order []string
		wait := func(ctx context.Context, name, organization, user string) {
			part := p.Part(share.Holder{Organization: organization, User: user})
			go func() {
				err := part.Wait(ctx)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					name += " gave up"
				} else {
					held = append(held, part)
				}
				order = append(order, name)
			}()
			synctest.Wait()
		}
		given, giveUp := context.WithCancel(t.Context())
		for _, name := range []string{"1", "2", "3", "4", "5"} {
			wait(t.Context(), "hog"+name, "a", "hog")
		}
		wait(given, "impatient", "a", "impatient")
		wait(t.Context(), "colleague", "a", "colleague")
		require.Equal(t, []string{"hog1", "hog2"}, order, "the organization has its limit")
		wait(t.Context(), "other", "b", "u")
		require.Equal(t, "other", order[2], "the reserve is for others")
		assert.True(t, held[0].Wanted())
		assert.False(t, held[2].Wanted(), "nobody who waits could have it: the organization has its limit")
		giveUp()
		synctest.Wait()
		for n := range 4 {
			held[n+n/2].Give() // never that of the other organization
			synctest.Wait()
		}
		assert.Equal(t, []string{
			"hog1", "hog2", "other", "impatient gave up", "colleague", "hog3", "hog4", "hog5",
		}, order)
	})
}

// A turn that comes while its waiter gives up is not lost.
func TestNoTurnIsLost(t *testing.T) {
	p := share.New(share.Limits{All: 1})
	for range 500 {
		first := p.Part(share.Holder{Organization: "a"})
		require.NoError(t, first.Wait(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		second := p.Part(share.Holder{Organization: "b"})
		wait := second.Ask()
		var both sync.WaitGroup
		both.Go(cancel)
		both.Go(first.Give)
		if wait(ctx) == nil {
			second.Give()
		}
		both.Wait()
		require.Zero(t, p.Held())
	}
}
