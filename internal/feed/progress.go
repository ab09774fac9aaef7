package feed

import (
	"bytes"
	"slices"

	"agentplatform/events"
)

// progress is what a run has said and done so far, as its journal and its worker's frames tell it. A copy stays as it
// is: what comes later is appended behind the ends of its slices.
type progress struct {
	cut   int // how often something was taken back: who was shown what was there before must be told all of it anew
	text  []byte
	steps []placed
	seq   int64  // of the last frame
	asked string // by whom the worker's last answer was asked for
}

// since makes the progress that a journal tells.
func since(text string, calls []events.StepEvent) progress {
	p := progress{text: []byte(text)}
	for _, call := range calls {
		p.step(call)
	}
	return p
}

// restart is another attempt's beginning.
func (p *progress) restart(text string, calls []events.StepEvent) {
	cut := p.cut + 1
	*p = since(text, calls)
	p.cut = cut
}

// add takes a frame in. The last one may come again, with more text than it had.
func (p *progress) add(frame events.Frame) {
	again := frame.Seq == p.seq
	p.seq = frame.Seq
	if frame.Asked != "" {
		p.asked = frame.Asked
	}
	switch frame.Kind {
	case events.FrameStep:
		p.step(*frame.Step)
	case events.FrameText:
		if !again && !bytes.HasPrefix([]byte(frame.Text), p.text) {
			p.take(frame.Text)
		}
		p.more(frame.Text, 0)
	case events.FrameDelta:
		p.more(frame.Text, frame.Offset)
	}
}

// take takes back all text but this.
func (p *progress) take(text string) {
	p.cut++
	p.text = []byte(text)
	p.steps = slices.Clone(p.steps)
	for i := range p.steps {
		p.steps[i].at = min(p.steps[i].at, len(p.text))
	}
}

// more adds what is new of a piece of the text. Where one is missing before it, the next that is told from further
// back, or the journal in the end, brings it.
func (p *progress) more(piece string, offset int) {
	if have := len(p.text); offset <= have && offset+len(piece) > have {
		p.text = append(p.text, piece[have-offset:]...)
	}
}

// step adds a step, unless it is there, or began what is there as ended.
func (p *progress) step(e events.StepEvent) {
	if !slices.ContainsFunc(p.steps, func(s placed) bool { return s.Index == e.Index && (s.State == e.State || s.State != started) }) {
		p.steps = append(p.steps, placed{e, len(p.text)})
	}
}

const started = "started"

// settle makes good what no frame has brought, of a run that goes on no more for now. Said is what its journal has; of
// one that completed, that is all that counts.
func (p *progress) settle(said string, calls []events.StepEvent, completed bool) {
	for _, call := range calls {
		p.step(call)
	}
	switch {
	case bytes.HasPrefix([]byte(said), p.text):
		p.more(said, 0)
	case completed || !bytes.HasPrefix(p.text, []byte(said)):
		p.take(said)
	}
}

// calls are the steps, each once and as it was last.
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
