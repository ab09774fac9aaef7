package feed

import (
	"strings"

	"agentplatform/events"
)

// joined are the same frames in as few as can be: pieces of text become one, what is told again is told once, and what was
// taken back is left out. Whoever has read some of them reads on as if nothing had happened.
func joined(frames []events.Frame) []events.Frame {
	var j joiner
	for _, frame := range frames {
		switch frame.Kind {
		case events.FrameDelta:
			j.piece(frame)
		case events.FrameText:
			j.whole(frame)
		default:
			j.add(frame)
		}
	}
	j.settle()
	return j.out
}

type joiner struct {
	out  []events.Frame
	open *strings.Builder // the text of the last of out, when that is a piece which grows
}

func (j *joiner) settle() {
	if j.open == nil {
		return
	}
	last := &j.out[len(j.out)-1]
	last.Text, j.open = j.open.String(), nil
	for n := len(j.out) - 1; n > 0; n-- { // pieces before it that it tells again
		before, last := j.out[n-1], j.out[n]
		if before.Kind != events.FrameDelta || before.Offset < last.Offset || before.Offset+len(before.Text) > last.Offset+len(last.Text) {
			return
		}
		j.out = append(j.out[:n-1], last)
	}
}

func (j *joiner) add(frame events.Frame) {
	j.settle()
	j.out = append(j.out, frame)
}

func (j *joiner) piece(frame events.Frame) {
	if j.open != nil {
		last := &j.out[len(j.out)-1]
		if last.Offset+j.open.Len() == frame.Offset {
			j.open.WriteString(frame.Text)
			last.Seq = frame.Seq
			return
		}
	}
	j.add(frame)
	j.open = &strings.Builder{}
	j.open.WriteString(frame.Text)
}

// whole takes text back. Who has read more than was ever left of it must be told so: the least that was left stands first.
func (j *joiner) whole(frame events.Frame) {
	j.settle()
	rest := frame
	var kept []events.Frame
	for _, before := range j.out {
		switch before.Kind {
		case events.FrameText:
			frame.Text = frame.Text[:min(len(frame.Text), len(before.Text))]
		case events.FrameStep:
			kept = append(kept, before)
		case events.FrameDelta:
		}
	}
	kept = append(kept, frame)
	j.out = kept
	if n := len(frame.Text); n < len(rest.Text) {
		j.piece(events.Frame{Attempt: frame.Attempt, Seq: frame.Seq, Kind: events.FrameDelta, Text: rest.Text[n:], Offset: n})
	}
}
