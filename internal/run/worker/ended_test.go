package worker_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/run/intake"
)

// A chat continues after turns with every kind of end. The next turn has the user's message of each, and a line about
// the end. A message that a provider has refused is not sent again.
func TestAChatGoesOnBehindTurnsWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, local)
		var shown []model.Request
		s.converse = func(_ context.Context, r model.Request, emit func(string)) (model.Reply, error) {
			shown = append(shown, r)
			for _, m := range r.Messages { // like a provider that refuses the same message each time
				switch {
				case strings.Contains(m.Text, "forbidden"):
					return model.Reply{}, model.Fail(model.Refused, "the content is refused by the filter of gpt-x")
				case strings.Contains(m.Text, "odd"):
					return model.Reply{}, model.Fail(model.BadRequest, "the provider answered 400")
				}
			}
			emit("done")
			return model.Reply{Text: "done", Finish: "stop"}, nil
		}
		post := func(text string) lifecycle.Status {
			run := s.send(intake.Message{Text: text, ChatID: "c"}).Run.ID()
			s.drive()
			return s.run(run).Status
		}
		require.Equal(t, lifecycle.Completed, post("first"))
		require.Equal(t, lifecycle.Failed, post("forbidden"))
		waits := s.send(intake.Message{Text: "never began", ChatID: "c"}).Run.ID()
		_, err := s.intake.Cancel(t.Context(), s.who, waits, "by mistake")
		require.NoError(t, err)
		s.drive()
		require.Equal(t, lifecycle.Failed, post("odd"))
		shown = nil
		require.Equal(t, lifecycle.Completed, post("and now?"))
		require.Len(t, shown, 2, "one call with the turn that was a bad request, and one without the turns that failed")
		text := func(role model.Role, words string) model.Message { return model.Message{Role: role, Text: words} }
		assert.Equal(t, []model.Message{
			text(model.User, "first"), text(model.Assistant, "done"),
			text(model.User, "[This message is left out: the model's provider refused it.]"),
			text(model.Assistant, "[This turn failed and has no answer.]"),
			text(model.User, "never began"), text(model.Assistant, "[This turn was cancelled and has no answer.]"),
			text(model.User, "odd"), text(model.Assistant, "[This turn failed and has no answer.]"),
			text(model.User, "and now?"),
		}, shown[0].Messages)
		assert.Equal(t, []model.Message{
			text(model.User, "first"), text(model.Assistant, "done"), text(model.User, "and now?"),
		}, shown[1].Messages)
	})
}
