package host_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/platform/host"
)

func TestPanicIsRaisedInTheOwnerOfTheGoroutine(t *testing.T) {
	h := host.System()
	wait := h.Go(func() { panic("oops") })
	died := host.Catch(wait)
	require.NotNil(t, died)
	assert.Equal(t, "oops", died.Value)
	assert.Contains(t, string(died.Stack), "host_test.go", "where it was, not who waited")
	assert.Nil(t, host.Catch(h.Go(func() {})))
}

func TestAllWaitsForTheOthersIfOnePanics(t *testing.T) {
	h := host.System()
	begun, goOn, ended := make(chan struct{}), make(chan struct{}), false
	died := host.Catch(func() {
		host.All(h, func() {
			<-begun
			defer close(goOn)
			panic(errors.New("oops"))
		}, func() {
			close(begun)
			<-goOn
			ended = true
		})
	})
	require.NotNil(t, died)
	assert.EqualError(t, died, "panic: oops")
	assert.True(t, ended, "who made them has waited for all")
}

func TestAnIDCanEndAsAnother(t *testing.T) {
	h := host.System()
	one, other := h.NewID(), h.NewID()
	after := host.After(one, other)
	assert.True(t, host.ValidID(after))
	assert.Equal(t, host.TimeOf(one), host.TimeOf(after))
	assert.Equal(t, other[12:], after[12:])
	for _, none := range []string{"", "x", other + "0"} {
		assert.Equal(t, one, host.After(one, none))
	}
}

func TestCaughtPanicKeepsItsValueAndStack(t *testing.T) {
	inner := host.Catch(func() { panic(1) })
	assert.Same(t, inner, host.Catch(inner.Again))
	var none *host.Panic
	assert.NotPanics(t, none.Again)
}

// endingContext is a context whose parent ends while it is checked.
type endingContext struct {
	context.Context

	then func()
}

func (a endingContext) Err() error {
	a.then()
	return a.Context.Err()
}

func TestAContextIsOutOfTimeByItsOwnLimitAlone(t *testing.T) {
	outer, end := context.WithCancel(t.Context())
	late, cancel := host.System().WithTimeout(outer, -time.Second)
	defer cancel()
	limited, cancel := host.System().WithTimeout(outer, time.Hour)
	defer cancel()
	assert.True(t, host.OutOfTime(late, outer))
	assert.False(t, host.OutOfTime(limited, outer))
	assert.False(t, host.OutOfTime(endingContext{limited, end}, outer), "the outer one ends at this moment")
	assert.False(t, host.OutOfTime(limited, outer), "the outer one has ended")
}
