package stream

import (
	"slices"
	"strings"
	"unicode/utf8"

	"agentplatform/events"
)

const (
	fullFrame      = 1 << 10  // bytes of text at which a frame stops growing
	maxFrameText   = 32 << 10 // maximal bytes of text in a frame
	framesInCommit = 20
	waitingSteps   = 256 // steps that wait to be stored; readers get older ones from the journal
)

// encoder makes frames of the output of one attempt.
type encoder struct {
	attempt int
	grows   bool // the last frame may be stored again with more text, see tail

	text  strings.Builder
	from  int      // no frame has the text after this offset
	reach int      // length of the text that readers may have, of this or of a replaced text
	back  bool     // some of that text was replaced, after from
	steps []placed // no frame has them
	open  []placed // steps that are running; new readers get them
	ask   string   // the id to acknowledge next
	acked string   // the id acknowledged last
	seq   int64    // of the last frame; without gaps, as a reader finds the next one by its number
	tail  tail
}

// tail is the last frame, while it has text and is not full. If frames do not collect the output of a time, it is
// stored again with the next text. So the number of frames depends on the length of the text, not on the number of
// deltas.
type tail struct {
	kind     events.FrameKind
	seq      int64
	from, to int // of the text
}

// newEncoder makes an encoder of the output after text, which is in the journal.
func newEncoder(attempt int, text string, grows bool) *encoder {
	e := &encoder{attempt: attempt, grows: grows, from: len(text), reach: len(text)}
	e.text.WriteString(text)
	return e
}

// waiting reports whether there is output for a frame.
func (e *encoder) waiting() bool {
	return e.waitingText() > 0 || e.back || len(e.steps) > 0 || e.ask != ""
}

// waitingText is the number of bytes of text for a frame.
func (e *encoder) waitingText() int { return e.text.Len() - e.from }

// replace cuts the text to its beginning, and reports whether that changed it.
func (e *encoder) replace(text string) bool {
	n := len(text)
	if e.text.Len() == n {
		return false
	}
	e.text.Reset()
	e.text.WriteString(text)
	e.from, e.back = min(e.from, n), e.back || e.reach > n
	for _, list := range [][]placed{e.steps, e.open} {
		for i := range list {
			list[i].at = min(list[i].at, n)
		}
	}
	return true
}

// step adds a step. If watched is set, a frame will have it, because there are readers.
func (e *encoder) step(s events.StepEvent, watched bool) {
	e.open = slices.DeleteFunc(e.open, func(other placed) bool { return other.Index == s.Index })
	at := placed{s, e.text.Len()}
	if s.State == started && len(e.open) < waitingSteps {
		e.open = append(e.open, at)
	}
	if !watched {
		return
	}
	if len(e.steps) == waitingSteps {
		e.steps = e.steps[1:]
	}
	e.steps = append(e.steps, at)
}

// restart puts the text from an offset on, and the steps that are running, into the next frames, for new readers.
func (e *encoder) restart(from int) {
	e.from, e.tail = min(from, e.text.Len()), tail{}
	e.steps = append(slices.DeleteFunc(slices.Clone(e.open), func(s placed) bool {
		return slices.ContainsFunc(e.steps, func(other placed) bool { return other.Index == s.Index })
	}), e.steps...)
}

// next makes frames of the waiting output, in its order, at most as many as fit into a commit.
func (e *encoder) next() []events.Frame {
	b := &batch{encoder: e}
	if e.back {
		b.addText(events.FrameText, 0, e.from)
		e.back, e.reach = false, 0 // readers have no other text now
	}
	b.addSteps()
	if len(e.steps) == 0 {
		b.addText(events.FrameDelta, e.from, e.text.Len())
	}
	b.acknowledge()
	e.reach = max(e.reach, e.from)
	return b.frames
}

// batch is the frames of a commit.
type batch struct {
	*encoder

	frames []events.Frame
}

func (b *batch) isFull() bool { return len(b.frames) == framesInCommit }

func (b *batch) add(frame events.Frame) {
	b.seq++
	frame.Attempt, frame.Seq = b.attempt, b.seq
	b.frames = append(b.frames, frame)
}

// addText adds frames of a part of the text. Frames of the kind text replace the text of the readers.
func (b *batch) addText(kind events.FrameKind, from, to int) {
	for !b.isFull() && (from < to || kind == events.FrameText) {
		t := b.tail
		if kind == events.FrameDelta && b.tailGrows(from) {
			b.seq--
		} else {
			t = tail{kind: kind, from: from}
		}
		piece := cut(b.text.String()[t.from:to], maxFrameText)
		b.add(events.Frame{Kind: t.kind, Text: piece, Offset: t.from})
		from, kind = t.from+len(piece), events.FrameDelta
		t.seq, t.to = b.seq, from
		b.tail = t
	}
	b.from = from
}

// tailGrows reports whether the last frame is stored again with the text after an offset.
func (b *batch) tailGrows(from int) bool {
	t := b.tail
	return b.grows && len(b.frames) == 0 && t.seq > 0 && t.seq == b.seq && t.to == from && t.to-t.from < fullFrame
}

// addSteps adds frames of the waiting steps, each with the text before it.
func (b *batch) addSteps() {
	for !b.isFull() && len(b.steps) > 0 {
		s := b.steps[0]
		if b.addText(events.FrameDelta, b.from, s.at); b.from < s.at || b.isFull() {
			return
		}
		b.add(events.Frame{Kind: events.FrameStep, Step: &s.StepEvent, Offset: b.from})
		b.steps = b.steps[1:]
	}
}

// acknowledge sets the id that the readers ask for in the last frame, once all waiting output is in frames.
func (b *batch) acknowledge() {
	if b.ask == "" || len(b.steps) > 0 || b.waitingText() > 0 || b.isFull() {
		return
	}
	if len(b.frames) == 0 || b.grows { // the last frame may grow, and is then a different one
		b.add(events.Frame{Kind: events.FrameDelta, Offset: b.from})
	}
	b.frames[len(b.frames)-1].Acknowledged = b.ask
	b.acked, b.ask = b.ask, ""
}

// cut is the beginning of a text, at most n bytes, without a partial character.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for at := n; at > max(0, n-utf8.UTFMax); at-- {
		if utf8.RuneStart(text[at]) {
			return text[:at]
		}
	}
	return text[:n] // only if the text is not UTF-8
}
