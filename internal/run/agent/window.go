package agent

import (
	"fmt"
	"slices"
	"strings"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/store/citation"
	"agentplatform/internal/store/record"
)

// A conversation that does not fit the model's window loses parts in this order:
//
// 1. The turns of the history without an answer, as one of them may be the reason.
// 2. The oldest turns of the history, half of them each time.
// 3. The middles of long results of this run, and the last of the passages that it found.
//
// Each step of the model records the parts that were left out. The next steps, and those of a later attempt, begin with
// that.
const (
	longest  = 16 << 10 // bytes to which long results are cut first
	shortest = 1 << 10  // and last
)

// begin copies the list of left-out parts from the last model call to a step.
func (s *session) begin(step *record.Step) {
	if last := s.lastOfModel; last != nil {
		step.LeftOut, step.AnsweredOnly, step.Shortened = last.LeftOut, last.AnsweredOnly, last.Shortened
	}
}

// leaveOutFor leaves out more of a conversation after a failure of this kind. It returns false if there is no more to
// leave out. If a provider refuses the content of a request, an earlier failed turn may be the cause.
func (s *session) leaveOutFor(kind model.Kind, step *record.Step, whole []model.Message) bool {
	switch kind {
	case model.TooLong:
		return !s.Whole && (s.leaveOutUnanswered(step) || s.leaveOut(step, whole))
	case model.BadRequest, model.Refused:
		return s.leaveOutUnanswered(step)
	default:
		return false
	}
}

func (s *session) leaveOutUnanswered(step *record.Step) bool {
	from := s.turnAt(step.LeftOut)
	shown := slices.ContainsFunc(s.Unanswered, func(i int) bool { return i >= from })
	if step.AnsweredOnly || step.ModelAttempts >= modelAttempts || !shown {
		return false
	}
	step.AnsweredOnly = true
	return true
}

// isLeftOut reports whether a step leaves out the message at i of the conversation, though it has older ones.
func (s *session) isLeftOut(step record.Step, i int) bool {
	_, unanswered := slices.BinarySearch(s.Unanswered, i)
	return step.AnsweredOnly && unanswered
}

func (s *session) leaveOut(step *record.Step, whole []model.Message) bool {
	from := s.turnAt(step.LeftOut)
	for from < len(s.History) && s.isLeftOut(*step, from) {
		from++
	}
	if left := len(s.History) - from; left >= 2 && step.ModelAttempts < modelAttempts {
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

// fitted is a conversation without the messages that a step leaves out. It begins with a turn, so that it may leave out
// more of the oldest messages. The history may have changed since, as turns are removed. Long texts of this run are
// shortened if the step requires it.
func (s *session) fitted(whole []model.Message, step record.Step) []model.Message {
	from := s.turnAt(step.LeftOut)
	shorter := step.Shortened > 0 && s.hasLonger(whole, step.Shortened)
	if !shorter && !step.AnsweredOnly {
		return whole[from:]
	}
	var shown []model.Message
	for i, m := range whole[from:] {
		if !s.isLeftOut(step, from+i) {
			shown = append(shown, m)
		}
	}
	if !shorter {
		return shown
	}
	from = len(whole) - len(shown) // all that is left out is before this run
	for i := max(s.before()-from, 0); i < len(shown); i++ {
		shown[i].Results = slices.Clone(shown[i].Results)
		for n, r := range shown[i].Results {
			shown[i].Results[n].Text = shortened(r.Text, step.Shortened, r.Name == model.Search && s.Search != nil)
		}
		shown[i].Passages = shortened(shown[i].Passages, step.Shortened, true)
	}
	return shown
}

// before is the number of messages before those of this run.
func (s *session) before() int { return len(s.History) + len(s.Before) }

// hasLonger reports whether a text of this run is longer than most bytes.
func (s *session) hasLonger(whole []model.Message, most int) bool {
	for _, m := range whole[s.before():] {
		if len(m.Passages) > most ||
			slices.ContainsFunc(m.Results, func(r model.Result) bool { return len(r.Text) > most }) {
			return true
		}
	}
	return false
}

// shortened is a text in about most bytes: its beginning and its end, or the first passages of a search. Passages stay
// whole, as each is fenced.
func shortened(text string, most int, search bool) string {
	if len(text) <= most {
		return text
	}
	if passages := firstPassages(text, most); search && passages != "" {
		return passages
	}
	begins := strings.ToValidUTF8(text[:most/2], "")
	ends := strings.ToValidUTF8(text[len(text)-most/2:], "")
	return fmt.Sprintf("%s\n[%d bytes of this result are left out here: they do not fit the context window]\n%s",
		begins, len(text)-len(begins)-len(ends), ends)
}

// firstPassages are the first passages of a search that fit into most bytes. If not even one fits, it is the beginning
// of the first. It is "" if the text has no passages.
func firstPassages(text string, most int) string {
	passages := strings.Split(text, "\n")
	n, room := 0, most
	for n < len(passages) && len(passages[n]) < room {
		room -= len(passages[n]) + 1
		n++
	}
	shown := passages[:n:n]
	if n == 0 {
		one := citation.Shorter(passages[0], most)
		if one == "" {
			return ""
		}
		n, shown = 1, []string{one}
	}
	if left := len(passages) - n; left > 0 {
		shown = append(shown, fmt.Sprintf("[%d more passages do not fit the context window]", left))
	}
	return strings.Join(shown, "\n")
}

// turnAt is the index of the first turn of the history that begins at n or after it.
func (s *session) turnAt(n int) int {
	n = min(n, len(s.History))
	for n > 0 && n < len(s.History) && s.History[n].Role != model.User { // a turn may have more than two
		n++
	}
	return n
}
