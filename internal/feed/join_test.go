package feed

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/events"
)

// read is what a reader has after these frames, as a follower reads them.
func read(text string, steps int, frames []events.Frame) (string, int) {
	for _, f := range frames {
		switch {
		case f.Kind == events.FrameStep:
			steps++
		case f.Kind == events.FrameText && len(f.Text) < len(text):
			text = f.Text
		case f.Kind == events.FrameText:
			text += f.Text[len(text):]
		case f.Offset <= len(text) && f.Offset+len(f.Text) > len(text):
			text += f.Text[len(text)-f.Offset:]
		}
	}
	return text, steps
}

// spoken is what a writer may store, and the text in the end.
func spoken(r *rand.Rand) (frames []events.Frame, text string) {
	add := func(f events.Frame) {
		f.Seq = int64(len(frames) + 1)
		frames = append(frames, f)
	}
	delta := func(from int) { add(events.Frame{Kind: events.FrameDelta, Text: text[from:], Offset: from}) }
	kept := 0
	for n := range 60 {
		switch r.IntN(12) {
		case 0:
			text = text[:kept]
			add(events.Frame{Kind: events.FrameText, Text: text})
		case 1:
			kept = len(text)
			add(events.Frame{Kind: events.FrameStep, Step: &events.StepEvent{Index: n, State: "started"}})
		case 2: // all of it again
			delta(0)
		default:
			from := len(text)
			text += strings.Repeat(string(rune('a'+n%26)), 1+r.IntN(9))
			delta(from)
		}
	}
	return frames, text
}

func TestWhoeverReadsJoinedFramesReadsTheSame(t *testing.T) {
	for seed := range uint64(5000) {
		r := rand.New(rand.NewPCG(seed, 0))
		frames, text := spoken(r)
		some := r.IntN(len(frames) + 1)
		list := joined(append(joined(frames[:some]), frames[some:]...))
		whole, steps := read("", 0, frames)
		require.Equal(t, text, whole)
		for seen := range len(frames) {
			before, stepsBefore := read("", 0, frames[:seen])
			after, all := read(before, stepsBefore, found{frames: list}.after(0, int64(seen)))
			require.Equal(t, text, after, "seed %d, seen %d", seed, seen)
			require.Equal(t, steps, all, "seed %d, seen %d", seed, seen)
		}
	}
}

func TestManyPiecesBecomeOne(t *testing.T) {
	var frames []events.Frame
	for n := range 100_000 {
		frames = append(frames, events.Frame{Seq: int64(n + 1), Kind: events.FrameDelta, Text: "x", Offset: n})
	}
	list := joined(frames)
	require.Len(t, list, 1)
	assert.Len(t, list[0].Text, 100_000)
	assert.EqualValues(t, 100_000, list[0].Seq)
}
