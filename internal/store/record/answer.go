package record

import (
	"strings"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/platform/paragraph"
)

// Answer is the text of a run, put together from its steps in their order. Every text that readers get is an Answer.
//
// Each text begins after a blank line. Blank texts are left out. A step without calls is an answer. If another step of
// the model follows, it replaces that answer: the model had to give a better one. The same holds for a call of the
// model that was cut short: if the run goes on, another call takes its place. An answer that was withdrawn has no text,
// though no other has come.
type Answer struct {
	kept strings.Builder // texts of the steps with calls
	last string          // of the step without
}

// Add adds a step.
func (a *Answer) Add(step Step) {
	if !step.Kind.ofModel() {
		return
	}
	a.last = ""
	if paragraph.Blank(step.Text) || step.Withdrawn {
		return
	}
	gap, text := a.Next(step.Text)
	if len(step.Calls) == 0 {
		a.last = gap + text
		return
	}
	a.kept.WriteString(gap)
	a.kept.WriteString(text)
}

// Next returns the addition of the next step's text to [Answer.Kept]. gap is a break, if there is text before it, and
// own the text itself.
func (a *Answer) Next(text string) (gap, own string) {
	if a.kept.Len() == 0 {
		return "", text
	}
	return paragraph.Break(a.kept.String()), paragraph.Begin(text)
}

// Kept is the text of the steps with calls. No later step replaces it.
func (a *Answer) Kept() string { return a.kept.String() }

// String is the text if no step follows.
func (a *Answer) String() string { return a.kept.String() + a.last }

// TextOf is the text of a run with these steps and this status. If the run has ended, the text of its last reply
// belongs to it; else another reply may replace it. The same holds for a call that was cut short, except in a completed
// run, which has an answer.
func TextOf(steps []Step, status lifecycle.Status) string {
	var answer Answer
	for _, step := range steps {
		if status != lifecycle.Completed || step.Kind != CutStep {
			answer.Add(step)
		}
	}
	if status.Terminal() {
		return answer.String()
	}
	return answer.Kept()
}

// Behind is the text of a run after that of its first steps, without the break between them. In texts of earlier
// versions no breaks join the steps.
func Behind(text string, steps []Step) string {
	first := TextOf(steps, lifecycle.Running)
	if rest, found := strings.CutPrefix(text, first); found {
		if first != "" {
			rest = paragraph.Begin(rest)
		}
		return rest
	}
	for _, step := range steps {
		if step.Kind == ModelStep {
			text = strings.TrimPrefix(text, step.Text)
		}
	}
	return text
}
