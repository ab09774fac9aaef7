package transition_test

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/run/view"
	"agentplatform/internal/store/blob"
	"agentplatform/internal/store/record"
)

// counting counts the values that are read.
type counting struct {
	blob.Store

	gets int
}

func (c *counting) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	c.gets++
	return c.Store.Get(ctx, key)
}

// paused is a run that waits for input after these steps.
func (w *world) paused(steps ...record.Step) (run string) {
	w.t.Helper()
	run = w.accept("u")
	w.claim(run)
	for _, s := range steps {
		w.journals(run, s)
	}
	pausing := w.pausing()
	pause := pausing.Event.(lifecycle.Pause)
	pause.Steps = len(steps)
	pausing.Event = pause
	w.do(run, plainly(pausing))
	return run
}

// large is a tool's step that has its bytes in the blob store.
func large(index int) record.Step {
	s := step(index, record.ToolStep, "")
	s.Output = strings.Repeat("x", 20_000)
	return s
}

// A cancel opens the text of the run, but not the results of its tools. The text is read once, also if the run changes
// at the same time.
func TestACancelReadsOnlyTheText(t *testing.T) {
	w := newWorld(t)
	blobs := &counting{Store: w.blobs}
	w.Store = record.New(w.items, blobs, w.clock)
	long := strings.Repeat("word.", 10_000)
	steps := []record.Step{calls(step(0, record.ModelStep, long))}
	for n := range 30 {
		steps = append(steps, large(n+1))
	}
	run := w.paused(steps...)
	blobs.gets = 0
	conflicts := 0
	after, err := w.Do(t.Context(), record.System(), run,
		func(record.Run, *record.Tx) (transition.Change, error) {
			if conflicts < 5 {
				conflicts++
				tx := w.Store.Begin(w.clock.NewID())
				tx.PutRun(w.entity(run))
				require.NoError(t, tx.Commit(t.Context()))
			}
			return transition.Change{Event: lifecycle.Cancel{}}, nil
		})
	require.NoError(t, err)
	require.Equal(t, lifecycle.Cancelled, after.Status)
	assert.Equal(t, 1, blobs.gets)
	p, err := view.PartialOf(t.Context(), w.Store, after)
	require.NoError(t, err)
	assert.Equal(t, long, p.Answer)
}

// A run whose journal cannot be read still ends, without its text.
func TestARunIsCancelledThoughItsTextIsLost(t *testing.T) {
	for name, event := range map[string]lifecycle.Event{
		"a cancel": lifecycle.Cancel{}, "expiry": lifecycle.Expire{Pause: 1},
	} {
		w := newWorld(t)
		run := w.paused(calls(step(0, record.ModelStep, strings.Repeat("word.", 10_000))))
		require.NoError(t, w.blobs.DeleteAll(t.Context(), "documents/"))
		w.clock.now = w.run(run).ExpiresAt
		after := w.do(run, plainly(transition.Change{Event: event}))
		require.Equal(t, lifecycle.Cancelled, after.Status, name)
		p, err := view.PartialOf(t.Context(), w.Store, after)
		require.NoError(t, err)
		assert.Nil(t, p, name)
		assert.Nil(t, w.lastPush(after).Partial, name)
		assert.Contains(t, w.log.String(), "level=WARN", name)
		assert.Contains(t, w.log.String(), run, name)
	}
}

// A lost result of a tool does not remove text.
func TestALostResultTakesNothingFromTheText(t *testing.T) {
	w := newWorld(t)
	run := w.paused(calls(step(0, record.ModelStep, "hello")), large(1))
	require.NoError(t, w.blobs.DeleteAll(t.Context(), "documents/"))
	after := w.do(run, plainly(transition.Change{Event: lifecycle.Cancel{}}))
	p, err := view.PartialOf(t.Context(), w.Store, after)
	require.NoError(t, err)
	require.NotNil(t, p)
	assert.Equal(t, "hello", p.Answer)
}
