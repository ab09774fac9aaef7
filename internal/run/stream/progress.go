package stream

import (
	"slices"
	"strings"

	"agentplatform/events"
)

// progress is the output of a run so far, from its journal and its worker's frames. A copy does not change: later
// output is appended after the ends of its text and its steps.
type progress struct {
	cut          int              // number of replacements of the text; after one, readers need a new init event
	text         string           // the content of grows, or a prefix of it
	grows        *strings.Builder // nil: nothing was appended
	steps        []placed
	seq          int64  // sequence number of the last frame
	acknowledged string // the id that the worker acknowledged last
}

// placed is a step with its position in the text.
type placed struct {
	events.StepEvent

	at int // offset in the text
}

// since is the progress from a journal.
func since(text string, calls []events.StepEvent) progress {
	p := progress{text: text}
	for _, call := range calls {
		p.step(call)
	}
	return p
}

// restart begins the progress of another attempt.
func (p *progress) restart(text string, calls []events.StepEvent) {
	cut := p.cut + 1
	*p = since(text, calls)
	p.cut = cut
}

// add adds a frame. The last frame may be added again when it has grown.
func (p *progress) add(frame events.Frame) {
	again := frame.Seq == p.seq
	p.seq = frame.Seq
	if frame.Acknowledged != "" {
		p.acknowledged = frame.Acknowledged
	}
	switch frame.Kind {
	case events.FrameStep:
		p.step(*frame.Step)
	case events.FrameText:
		if !again && !strings.HasPrefix(frame.Text, p.text) {
			p.replace(frame.Text)
		}
		p.more(frame.Text, 0)
	case events.FrameDelta:
		p.more(frame.Text, frame.Offset)
	}
}

// replace replaces the text.
func (p *progress) replace(text string) {
	p.cut++
	p.text, p.grows = text, nil
	p.steps = slices.Clone(p.steps)
	for i := range p.steps {
		p.steps[i].at = min(p.steps[i].at, len(p.text))
	}
}

// more appends the new part of a piece of the text. If an earlier piece is missing, a later frame with a smaller
// offset, or the journal, fills the gap.
func (p *progress) more(piece string, offset int) {
	have := len(p.text)
	if offset > have || offset+len(piece) <= have {
		return
	}
	if p.grows == nil || p.grows.Len() != have { // there is none, or another copy has more
		p.grows = &strings.Builder{}
		p.grows.WriteString(p.text)
	}
	p.grows.WriteString(piece[have-offset:])
	p.text = p.grows.String()
}

// step adds a step, unless it is known, or known as finished.
func (p *progress) step(e events.StepEvent) {
	if !slices.ContainsFunc(p.steps,
		func(s placed) bool { return s.Index == e.Index && (s.State == e.State || s.State != started) }) {
		p.steps = append(p.steps, placed{e, len(p.text)})
	}
}

const started = "started"

// catchUp adds the output that no frame had, when the run has ended or waits for a person. text is that of the journal;
// if the run completed, it is the whole text.
func (p *progress) catchUp(text string, calls []events.StepEvent, completed bool) {
	for _, call := range calls {
		p.step(call)
	}
	switch {
	case strings.HasPrefix(text, p.text):
		p.more(text, 0)
	case completed || !strings.HasPrefix(p.text, text):
		p.replace(text)
	}
}

// calls lists the steps, each once in its last state.
func (p progress) calls() []events.StepEvent {
	list := []events.StepEvent{}
	for _, s := range p.steps {
		if at := slices.IndexFunc(list, func(e events.StepEvent) bool { return e.Index == s.Index }); at >= 0 {
			list[at] = s.StepEvent
		} else {
			list = append(list, s.StepEvent)
		}
	}
	return list
}
