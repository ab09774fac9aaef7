package model_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"

	"agentplatform/internal/ai/model"
)

func TestBlankTextsAreThoseThatShowNothing(t *testing.T) {
	for _, text := range []string{"", " \t\r\n\v\f", "\u0085\u00a0\u1680\u2000\u2028\u202f\u205f\u3000",
		"\u00ad\u034f\u061c\u115f\u180e\u200b\u200d\u2060\u3164\ufe0f\ufeff\uffa0", "\u2800", "\x00\x1b"} {
		assert.True(t, model.Blank(text), "%q", text)
	}
	for _, text := range []string{".", " a", "\u200bа", "0", "\u0301", "\ufffd", "\xff", "👍🏽", "\ue000"} {
		assert.False(t, model.Blank(text), "%q", text)
	}
}

func TestASendableRequestKeepsTheConversation(t *testing.T) {
	user := func(text string) model.Message { return model.Message{Role: model.User, Text: text} }
	assistant := func(text string) model.Message { return model.Message{Role: model.Assistant, Text: text} }
	calls := func(text, arguments string) model.Message {
		return model.Message{Role: model.Assistant, Text: text,
			Calls: []model.Call{{ID: "a", Name: "f", Arguments: json.RawMessage(arguments)}}}
	}
	gives := func(text string, outcome model.Outcome) model.Message {
		return model.Message{Role: model.Tool,
			Results: []model.Result{{CallID: "a", Name: "f", Outcome: outcome, Text: text}}}
	}
	file := []model.Text{{Name: "a.txt", Text: "words"}}
	picture := model.Image{ContentType: "image/png", Data: []byte("p")}
	for name, c := range map[string]struct{ is, want []model.Message }{
		"nothing is blank": {
			[]model.Message{user(" a\n"), assistant(" b\n"), user("c"), user("d"), calls("e", `{"n": 1}`),
				gives("f", model.Succeeded), user("g")},
			[]model.Message{user(" a\n"), assistant(" b\n"), user("c"), user("d"), calls("e", `{"n": 1}`),
				gives("f", model.Succeeded), user("g")},
		},
		"an answer goes": {
			[]model.Message{user("a"), assistant(" \n"), user("b"), assistant("c"), user("d")},
			[]model.Message{user("a\n\nb"), assistant("c"), user("d")},
		},
		"with what was attached": {
			[]model.Message{{Role: model.User, Text: "a", Texts: file, Images: []model.Image{picture}}, assistant(""),
				{Role: model.User, Text: "b", Texts: file, Images: []model.Image{picture}}},
			[]model.Message{{Role: model.User, Text: "a\n\n<file name=\"a.txt\">\nwords\n</file>\n\nb", Texts: file,
				Images: []model.Image{picture, picture}}},
		},
		"with what was found": {
			[]model.Message{{Role: model.User, Text: "a", Passages: "p"}, assistant(""),
				{Role: model.User, Text: "b", Passages: "q"}},
			[]model.Message{{Role: model.User, Passages: "q",
				Text: "a\n\nPassages found in the knowledge bases:\np\n\nb"}},
		},
		"passages alone": {
			[]model.Message{{Role: model.User, Passages: "p"}}, []model.Message{{Role: model.User, Passages: "p"}},
		},
		"after a result": {
			[]model.Message{user("a"), calls("\u00a0", " "), gives("\t", model.Failed), assistant(""), user("b")},
			[]model.Message{user("a"), calls("", "{}"), gives("(nothing)", model.Failed), user("b")},
		},
		"a message stays": {
			[]model.Message{user("\u200b"), assistant("a"), user("")},
			[]model.Message{user("(an empty message)"), assistant("a"), user("(an empty message)")},
		},
		"a file says something": {
			[]model.Message{{Role: model.User, Text: " ", Images: []model.Image{picture}}},
			[]model.Message{{Role: model.User, Images: []model.Image{picture}}},
		},
		"what the model goes on with": {
			[]model.Message{user("a"), assistant("b: \n")},
			[]model.Message{user("a"), assistant("b:")},
		},
		"nothing is left": {[]model.Message{assistant("")}, []model.Message{user("(an empty message)")}},
	} {
		before, _ := json.Marshal(c.is)
		got := model.Request{Instructions: "\n", Messages: c.is}.Sendable()
		assert.Empty(t, got.Instructions)
		want, _ := json.Marshal(c.want)
		sent, _ := json.Marshal(got.Messages)
		assert.JSONEq(t, string(want), string(sent), name)
		after, _ := json.Marshal(c.is)
		assert.Equal(t, string(before), string(after), "%s: the conversation itself is not changed", name)
	}
}
