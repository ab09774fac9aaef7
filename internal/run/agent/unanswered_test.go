package agent_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/model"
)

// strict is a model that refuses requests with a certain word, in one way.
type strict struct {
	kind  model.Kind
	word  string
	calls []turn // the next one is made when it does not refuse
	shown []model.Request
}

func (s *strict) Converse(_ context.Context, r model.Request, _ func(string)) (model.Reply, error) {
	s.shown = append(s.shown, r)
	for _, m := range r.Messages {
		if strings.Contains(m.FullText(), s.word) {
			return model.Reply{}, model.Fail(s.kind, "refused")
		}
	}
	if len(s.calls) > 0 {
		next := s.calls[0]
		s.calls = s.calls[1:]
		return next(r)
	}
	return model.Reply{Text: "done", Finish: "stop"}, nil
}

// talk is a history of turns, each of two messages; those whose texts have an exclamation mark have no answer.
func talk(turns ...string) (messages []model.Message, unanswered []int) {
	for i, text := range turns {
		messages = append(messages, model.Message{Role: model.User, Text: text},
			model.Message{Role: model.Assistant, Text: "a"})
		if strings.HasSuffix(text, "!") {
			unanswered = append(unanswered, 2*i, 2*i+1)
		}
	}
	return messages, unanswered
}

func texts(r model.Request) (list []string) {
	for _, m := range r.Messages {
		if m.Role == model.User {
			list = append(list, m.Text)
		}
	}
	return list
}

// A turn that failed does not make later turns fail. If a provider accepts no request with it, it is left out before
// any other part, for the rest of the run.
func TestAFailedTurnDoesNotMakeTheNextFail(t *testing.T) {
	for name, c := range map[string]struct {
		kind    model.Kind
		history []string
		shown   [][]string // to each call of the model
		fails   bool
		without bool // its step records that turns were left out
	}{
		"a bad request": {model.BadRequest, []string{"one", "bad!", "two"},
			[][]string{{"one", "bad!", "two", "do it"}, {"one", "two", "do it"}}, false, true},
		"refused content": {model.Refused, []string{"one", "bad!", "two"},
			[][]string{{"one", "bad!", "two", "do it"}, {"one", "two", "do it"}}, false, true},
		"too long": {model.TooLong, []string{"one", "fine!", "two", "bad!"},
			[][]string{{"one", "fine!", "two", "bad!", "do it"}, {"one", "two", "do it"}}, false, true},
		"an older turn is too long": {model.TooLong, []string{"bad", "fine!", "two"},
			[][]string{{"bad", "fine!", "two", "do it"}, {"bad", "two", "do it"}, {"two", "do it"}}, false, true},
		"only failed turns, and the message is bad": {model.TooLong, []string{"fine!", "fine!", "fine!", "fine!"},
			[][]string{{"fine!", "fine!", "fine!", "fine!", "do it, bad"}, {"do it, bad"}}, true, false},
		"the message is bad": {model.BadRequest, []string{"one", "fine!"},
			[][]string{{"one", "fine!", "do it, bad"}, {"one", "do it, bad"}}, true, false},
		"a bad request, and no failed turn": {model.BadRequest, []string{"bad"},
			[][]string{{"bad", "do it"}}, true, false},
		"nothing is refused": {model.BadRequest, []string{"one", "fine!"},
			[][]string{{"one", "fine!", "do it"}}, false, false},
		"the provider is busy": {model.Retryable, []string{"fine!"}, nil, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := &strict{kind: c.kind, word: "bad"}
			s := newStage(m, nil)
			s.Host = &ticking{Host: s.Host}
			s.task.History, s.task.Unanswered = talk(c.history...)
			if c.fails && name != "a bad request, and no failed turn" {
				s.task.Message.Text = "do it, bad"
			}
			r := s.work(t)
			assert.Equal(t, c.fails, r.Failure != "")
			if c.kind == model.Retryable {
				for _, one := range m.shown {
					assert.Equal(t, []string{"fine!", "do it, bad"}, texts(one), "the same call is made again")
				}
				return
			}
			var shown [][]string
			for _, one := range m.shown {
				shown = append(shown, texts(one))
			}
			assert.Equal(t, c.shown, shown)
			if !c.fails {
				assert.Equal(t, c.without, r.All[0].AnsweredOnly)
			}
		})
	}
}

// Turns that were left out once stay left out in the run, also for a later attempt. Results are still cut.
func TestFailedTurnsStayLeftOut(t *testing.T) {
	m := &strict{kind: model.BadRequest, word: "bad",
		calls: []turn{calls("a", "act", `{"n":1}`), fails(model.TooLong)}}
	s := newStage(m, gives(strings.Repeat("x", 100_000)))
	s.task.History, s.task.Unanswered = talk("one", "bad!", "two", "fine!")
	r := s.work(t)
	require.NotNil(t, r.Answer, r.Failure)
	require.Len(t, m.shown, 4)
	assert.Equal(t, []string{"one", "two", "do it"}, texts(m.shown[2]))
	assert.Equal(t, []string{"two", "do it"}, texts(m.shown[3]), "half of the turns that were shown")
	again := &strict{kind: model.BadRequest, word: "bad"}
	takes := newStage(again, gives(""))
	takes.task.History, takes.task.Unanswered, takes.task.Steps = s.task.History, s.task.Unanswered, r.All[:2]
	require.NotNil(t, takes.work(t).Answer)
	assert.Equal(t, m.shown[2].Messages, again.shown[0].Messages)
	small := &window{maxBytes: 30_000, calls: []string{"act"}} // where a result is to be cut, too
	cut := newStage(small, gives(strings.Repeat("x", 100_000)))
	cut.task.History, cut.task.Unanswered = talk("one", strings.Repeat("y", 20_000)+"!", "two")
	r = cut.work(t)
	require.NotNil(t, r.Answer, r.Failure)
	end := small.shown[len(small.shown)-1].Messages
	assert.Contains(t, end[len(end)-1].Results[0].Text, "bytes of this result are left out here")
	assert.Equal(t, 16<<10, r.All[len(r.All)-1].Shortened)
}

// Only a message that the provider refused at the run's first call counts as refused.
func TestRefusalIsOfTheMessageOrOfWhatCameLater(t *testing.T) {
	for name, c := range map[string]struct {
		replies []turn
		refused bool
	}{
		"the message":         {[]turn{fails(model.Refused)}, true},
		"a bad request":       {[]turn{fails(model.BadRequest)}, false},
		"a result":            {[]turn{calls("a", "act", `{"n":1}`), fails(model.Refused)}, false},
		"an overlong message": {[]turn{fails(model.TooLong)}, false},
	} {
		s := newStage(&script{replies: c.replies}, gives("ok"))
		r := s.work(t)
		require.NotEmpty(t, r.Failure, name)
		assert.Equal(t, c.refused, r.Refused, name)
	}
	// Also if it used tokens.
	s := newStage(&script{replies: []turn{func(model.Request) (model.Reply, error) {
		return model.Reply{Text: "half", OutputTokens: 3}, model.Fail(model.Refused, "no")
	}}}, nil)
	assert.True(t, s.work(t).Refused)
}
