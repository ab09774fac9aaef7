package demomodel_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/model/demomodel"
	"agentplatform/internal/platform/host"
)

func TestASearchCitesEachPassageInALineOfItsOwn(t *testing.T) {
	long := strings.Repeat("é", 100)
	one, gone := `{"n":1,"title":"T","text":"a"}`, `{"n":7,"state":"deleted"}`
	for output, want := range map[string]string{
		`{"n":1,"title":"T","text":"a\nb"}`:         "search → [1] T: a b",
		one + "\n" + gone:                           "search → [1] T: a\nsearch → [7] (deleted)",
		`{"n":2,"title":"T","text":"` + long + `"}`: "search → [2] T: " + long[:160],
		"nothing was found":                         "search → nothing was found",
	} {
		m := demomodel.New(host.System())
		reply, err := m.Converse(t.Context(), model.Request{Messages: []model.Message{
			{Role: model.User, Text: "/search a"},
			{Role: model.Assistant, Calls: []model.Call{{ID: "1", Name: "search"}}},
			{Role: model.Tool, Results: []model.Result{
				{CallID: "1", Name: "search", Outcome: model.Succeeded, Text: output},
			}},
		}}, func(string) {})
		require.NoError(t, err)
		assert.Equal(t, want, reply.Text)
	}
}

func TestAnAnswerEndsWithTheSourcesThatCameWithItsMessage(t *testing.T) {
	m := demomodel.New(host.System())
	passages := `{"n":1,"title":"T","text":"a"}` + "\n" + `{"n":2,"title":"U","text":"b"}`
	message := model.Message{Role: model.User, Text: "hello", Passages: passages, Texts: []model.Text{
		{Name: "notes.txt", Text: `{"n":9}`},
	}}
	reply, err := m.Converse(t.Context(), model.Request{Messages: []model.Message{message}}, func(string) {})
	require.NoError(t, err)
	assert.Equal(t, "You said: hello\nSources: [1] [2]", reply.Text)
	message.Text = "/tool echo {}"
	reply, err = m.Converse(t.Context(), model.Request{Messages: []model.Message{message}}, func(string) {})
	require.NoError(t, err)
	assert.Empty(t, reply.Text, "the answer goes on after the call")
}
