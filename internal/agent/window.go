package agent

import (
	"fmt"
	"slices"
	"strings"

	"agentplatform/internal/model"
	"agentplatform/internal/record"
)

// What does not fit the model's window is left out, one thing after the other: the oldest turns of the history, half of
// them each time, then the middles of long results of this run. Each step of the model notes what it was not shown;
// the next ones, and those of an attempt that takes over, begin with that.
const (
	longest  = 16 << 10 // bytes to which long results are cut first
	shortest = 1 << 10  // and last
)

// begin notes what the last call of the model was not shown.
func (s *session) begin(step *record.Step) {
	if last := s.lastOfModel; last != nil {
		step.LeftOut, step.Shortened = last.LeftOut, last.Shortened
	}
}

// leaveOut leaves more of a conversation out. It returns false if nothing is left that may go.
func (s *session) leaveOut(step *record.Step, whole []model.Message) bool {
	from := s.turnAt(step.LeftOut)
	if left := len(s.History) - from; left >= 2 && step.Tries < modelTries {
		step.LeftOut = s.turnAt(from + (left+1)/2)
		return true
	}
	for most := longest; most >= shortest; most /= 4 {
		if (step.Shortened == 0 || most < step.Shortened) && s.hasLonger(whole, most) {
			step.Shortened = most
			return true
		}
	}
	return false
}

// fitted is a conversation without the oldest messages of its history that a step leaves out, or more: it begins with a
// turn. The history may be another than the one of which they were left out, as turns are removed. Of long results of
// this run it has their beginnings and ends, where the step says so.
func (s *session) fitted(whole []model.Message, step record.Step) []model.Message {
	from := s.turnAt(step.LeftOut)
	if step.Shortened == 0 || !s.hasLonger(whole, step.Shortened) {
		return whole[from:]
	}
	shown := slices.Clone(whole[from:])
	for i := max(s.before()-from, 0); i < len(shown); i++ {
		shown[i].Results = slices.Clone(shown[i].Results)
		for n, r := range shown[i].Results {
			shown[i].Results[n].Text = shortened(r, step.Shortened)
		}
	}
	return shown
}

// before is how many messages of the conversation stand before this run's.
func (s *session) before() int { return len(s.History) + len(s.Before) }

func (s *session) hasLonger(whole []model.Message, most int) bool {
	return slices.ContainsFunc(whole[s.before():], func(m model.Message) bool {
		return slices.ContainsFunc(m.Results, func(r model.Result) bool { return len(r.Text) > most })
	})
}

// shortened is the text of a result in about so many bytes: its beginning and its end, or the first passages of a
// search, which stay whole, as each is fenced.
func shortened(r model.Result, most int) string {
	if len(r.Text) <= most {
		return r.Text
	}
	if r.Name == model.Search {
		passages := strings.Split(r.Text, "\n")
		n, room := 0, most
		for n < len(passages) && len(passages[n]) < room {
			room -= len(passages[n]) + 1
			n++
		}
		return strings.Join(append(passages[:n:n], fmt.Sprintf(
			"[%d more passages do not fit the context window]", len(passages)-n)), "\n")
	}
	begins := strings.ToValidUTF8(r.Text[:most/2], "")
	ends := strings.ToValidUTF8(r.Text[len(r.Text)-most/2:], "")
	return fmt.Sprintf("%s\n[%d bytes of this result are left out here: they do not fit the context window]\n%s",
		begins, len(r.Text)-len(begins)-len(ends), ends)
}

// turnAt is the index of the first turn of the history that begins at n or behind it.
func (s *session) turnAt(n int) int {
	n = min(n, len(s.History))
	for n > 0 && n < len(s.History) && s.History[n].Role != model.User { // a turn may have more than two
		n++
	}
	return n
}
