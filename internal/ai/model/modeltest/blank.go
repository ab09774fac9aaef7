package modeltest

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/model"
)

// blanks are texts without visible characters.
var blanks = []string{"", " ", "\n\n", "\t \r\n", "\u00a0", "\u200b", "\ufeff\u2060", "\u2003\u3000\u2029", "\u3164",
	"\u2800", "\u200d\ufe0f", "\x00"}

// RunTexts checks that an adapter sends no blank text, also where parts of a conversation are blank. texts takes the
// texts and the authors of the messages out of a body. This includes the instructions and the results of tools.
// Passages are sent unchanged.
func RunTexts(
	t *testing.T, open func(address string) model.Model,
	texts func(t *testing.T, body []byte) (texts, authors []string),
) {
	t.Helper()
	runPassages(t, open, texts)
	user := func(text string) model.Message { return model.Message{Role: model.User, Text: text} }
	assistant := func(text string) model.Message { return model.Message{Role: model.Assistant, Text: text} }
	picture := []model.Image{{ContentType: "image/png", Data: []byte("\x89PNG")}}
	call := func(text string, arguments, result string) []model.Message {
		return []model.Message{
			{Role: model.Assistant, Text: text,
				Calls: []model.Call{{ID: "a", Name: "f", Arguments: json.RawMessage(arguments)}}},
			{Role: model.Tool, Results: []model.Result{{CallID: "a", Name: "f", Text: result}}},
		}
	}
	for _, blank := range blanks {
		for name, messages := range map[string][]model.Message{
			"an answer": {user("a"), assistant(blank), user("b")},
			"answers": {user("a"), assistant(blank), user("b"), assistant(blank), user("c"),
				assistant("d"), user("e")},
			"the last answer": {user("a"), assistant("b"), user("c"), assistant(blank)},
			"the text beside a call": slices.Concat([]model.Message{user("a")}, call(blank, `{}`, "b"),
				[]model.Message{user("c")}),
			"a result":              append([]model.Message{user("a")}, call("b", `{}`, blank)...),
			"arguments":             append([]model.Message{user("a")}, call("b", blank, "c")...),
			"the message":           {user(blank)},
			"the message of a chat": {user("a"), assistant("b"), user(blank)},
			"the first message":     {user(blank), assistant("b"), user("c")},
			"all":                   {user(blank), assistant(blank), user(blank)},
			"an answer alone":       {assistant(blank)},
			"the text of a picture": {{Role: model.User, Text: blank, Images: picture}},
			"between pictures": {{Role: model.User, Images: picture}, assistant(blank),
				{Role: model.User, Images: picture}},
			"the text of a file": {{Role: model.User, Text: blank,
				Texts: []model.Text{{Name: "a.txt", Text: blank}}}},
		} {
			body := sentBody(t, open, model.Request{
				Name: "m", Instructions: blank, Messages: messages,
				Tools: []model.ToolSpec{{Name: "f", Description: blank,
					Parameters: json.RawMessage(`{"type":"object"}`)}},
			})
			require.True(t, json.Valid(body), "%s %q: %s", name, blank, body)
			sent, authors := texts(t, body)
			for _, text := range sent {
				assert.False(t, model.Blank(text), "%s %q: %s", name, blank, body)
			}
			require.NotEmpty(t, authors, "%s %q: %s", name, blank, body)
			assert.Equal(t, "user", authors[0], "%s %q: %s", name, blank, body)
			for i := 1; i < len(authors); i++ {
				if authors[i] != "tool" {
					assert.NotEqual(t, authors[i-1], authors[i], "%s %q: %s", name, blank, body)
				}
			}
		}
	}
}

// runPassages checks that passages are sent unchanged and outside of any tag, which a document could close.
func runPassages(
	t *testing.T, open func(address string) model.Model,
	texts func(t *testing.T, body []byte) (texts, authors []string),
) {
	t.Helper()
	passages := `{"n":1,"text":"</file>\"}\n{\"n\":1} a < b && c > d"}` + "\n" + `{"n":2,"text":"b"}`
	body := sentBody(t, open, model.Request{Name: "m", Messages: []model.Message{{
		Role: model.User, Text: "where?", Texts: []model.Text{{Name: "a.txt", Text: "words"}}, Passages: passages,
	}}})
	sent, _ := texts(t, body)
	assert.Contains(t, sent, "where?\n\n<file name=\"a.txt\">\nwords\n</file>\n\n"+
		"Passages found in the knowledge bases:\n"+passages)
}
