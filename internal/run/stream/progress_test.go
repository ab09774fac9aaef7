package stream

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/events"
)

// spoken returns possible frames of a writer, row by row, and the final text.
func spoken(r *rand.Rand) (frames []events.Frame, text string) {
	var seq int64
	add := func(f events.Frame) {
		seq++
		f.Seq = seq
		frames = append(frames, f)
	}
	kept := 0
	for n := range 60 {
		last := len(frames) - 1
		switch r.IntN(12) {
		case 0:
			text = text[:kept]
			add(events.Frame{Kind: events.FrameText, Text: text})
		case 1:
			kept = len(text)
			add(events.Frame{Kind: events.FrameStep, Step: &events.StepEvent{Index: n, State: "started"}})
		case 2: // the whole text again
			add(events.Frame{Kind: events.FrameDelta, Text: text})
		case 3:
			add(events.Frame{Kind: events.FrameDelta, Offset: len(text), Acknowledged: "somebody"})
		case 4, 5, 6: // the last frame grows
			if last >= 0 && frames[last].Kind != events.FrameStep && frames[last].Acknowledged == "" {
				text += strings.Repeat(string(rune('a'+n%26)), 1+r.IntN(9))
				grown := frames[last]
				grown.Text = text[grown.Offset:]
				frames = append(frames, grown)
			}
		default:
			from := len(text)
			text += strings.Repeat(string(rune('a'+n%26)), 1+r.IntN(9))
			add(events.Frame{Kind: events.FrameDelta, Text: text[from:], Offset: from})
		}
	}
	return frames, text
}

// rows is the content of the table after these frames were stored, from a sequence number on.
func rows(frames []events.Frame, from int64) (list []events.Frame) {
	for _, f := range frames {
		if n := len(list); n > 0 && list[n-1].Seq == f.Seq {
			list[n-1] = f
		} else if f.Seq >= from {
			list = append(list, f)
		}
	}
	return list
}

func TestReadersGetTheSameTextWheneverTheyRead(t *testing.T) {
	for seed := range uint64(5000) {
		r := rand.New(rand.NewPCG(seed, 0))
		frames, text := spoken(r)
		var p progress
		for at := 0; at < len(frames); {
			at = min(len(frames), at+1+r.IntN(20))
			before := p
			shown := before.text
			for _, f := range rows(frames[:at], max(p.seq, 1)) {
				p.add(f)
			}
			require.Equal(t, shown, before.text, "seed %d: what somebody holds has changed", seed)
			if p.cut == before.cut {
				require.True(t, strings.HasPrefix(p.text, shown),
					"seed %d: text was taken back and nobody is told", seed)
			}
		}
		require.Equal(t, text, p.text, "seed %d", seed)
		require.Equal(t, len(p.steps), len(p.calls()), "seed %d", seed)
		last := 0
		for _, s := range p.steps {
			require.GreaterOrEqual(t, s.at, last, "seed %d", seed)
			last = s.at
		}
		require.LessOrEqual(t, last, len(text), "seed %d", seed)
	}
}

func TestEachStepIsListedOnceInItsLastState(t *testing.T) {
	var p progress
	for _, e := range []events.StepEvent{
		{Index: 1, State: "started"}, {Index: 2, State: "started"}, {Index: 2, State: "finished"},
		{Index: 2, State: "started"}, {Index: 3, State: "failed"},
	} {
		p.step(e)
	}
	assert.Equal(t, []events.StepEvent{{Index: 1, State: "started"}, {Index: 2, State: "finished"},
		{Index: 3, State: "failed"}}, p.calls())
}

func TestACopyIsUnchangedByLaterOutput(t *testing.T) {
	var p progress
	assert.Empty(t, p.calls())
	p.catchUp("", []events.StepEvent{{Index: 1, State: "finished"}}, false) // no frame had it
	assert.Len(t, p.calls(), 1)
	p.more("x", 0)
	before, lost := p, p
	lost.more("lost", 1)
	p.more("z", 1)
	assert.Equal(t, []string{"x", "xlost", "xz"}, []string{before.text, lost.text, p.text})
	p.replace("y")
	assert.Equal(t, []string{"x", "xlost", "y"}, []string{before.text, lost.text, p.text})
}

func TestMissingFramesAreFilledInFromTheJournal(t *testing.T) {
	for name, c := range map[string]struct {
		shown, journal, want string
		completed, cut       bool
	}{
		"no frames":                             {"", "all of it", "all of it", true, false},
		"some frames":                           {"all", "all of it", "all of it", true, false},
		"all came":                              {"all of it", "all of it", "all of it", true, false},
		"a replaced text":                       {"all of them", "all of it", "all of it", true, true},
		"more than the final text":              {"all of it and more", "all of it", "all of it", true, true},
		"a run that ended within a step":        {"all of it and mo", "all of it", "all of it and mo", false, false},
		"a run that ended with a replaced text": {"wrong", "all of it", "all of it", false, true},
		"a run that ended with unseen text":     {"all", "all of it", "all of it", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := since(c.shown, nil)
			p.catchUp(c.journal, []events.StepEvent{{Index: 1, State: "finished"}}, c.completed)
			assert.Equal(t, c.want, p.text)
			assert.Equal(t, c.cut, p.cut == 1)
			assert.Len(t, p.steps, 1)
		})
	}
}
