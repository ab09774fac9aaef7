package anthropicmodel_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/model/anthropicmodel"
	"agentplatform/internal/ai/model/modeltest"
)

func TestACancelClosesTheConnection(t *testing.T) {
	modeltest.RunCancel(t, "text/event-stream",
		func(address string) model.Model { return anthropicmodel.New(address, "k", http.DefaultClient) })
}

func TestAFailedCallReturnsItsUsage(t *testing.T) {
	event := func(data string) string { return "data: " + data + "\n\n" }
	modeltest.RunSpent(t, "text/event-stream",
		func(address string) model.Model { return anthropicmodel.New(address, "k", http.DefaultClient) },
		[]byte(event(`{"type":"message_start","message":{"usage":{"input_tokens":200,"cache_read_input_tokens":800,`+
			`"output_tokens":7}}}`)+
			event(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`)+
			event(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}`)),
		map[string][]byte{
			"it ends": nil,
			"an error": []byte(event(
				`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`)),
			"what cannot be read": []byte(event("{")),
			"the model refuses":   []byte(event(`{"type":"message_delta","delta":{"stop_reason":"refusal"}}`)),
		})
}

func TestRecordings(t *testing.T) {
	modeltest.RunRecordings(t,
		func(address string) model.Model { return anthropicmodel.New(address, "k", http.DefaultClient) })
}

func TestACallOfAnotherTimeIsDeclared(t *testing.T) {
	modeltest.RunDeclared(t, func(address string) model.Model {
		return anthropicmodel.New(address, "k", http.DefaultClient)
	}, func(body []byte) (names []string) {
		var sent struct{ Tools []struct{ Name string } }
		require.NoError(t, json.Unmarshal(body, &sent))
		for _, one := range sent.Tools {
			names = append(names, one.Name)
		}
		return names
	})
}

func TestAnswersOfServers(t *testing.T) {
	modeltest.RunAnswers(t, modeltest.Provider{
		API: "anthropic", Reports: []string{`"error":`},
		Open: func(c *http.Client) model.Model { return anthropicmodel.New("", "sk-key-of-ours", c) },
	})
}

func TestNoBlankTextIsSent(t *testing.T) {
	type block struct {
		Type    string
		Text    string
		Content []struct{ Type, Text string }
	}
	modeltest.RunTexts(t, func(address string) model.Model {
		return anthropicmodel.New(address, "k", http.DefaultClient)
	}, func(t *testing.T, body []byte) (texts, authors []string) {
		var sent struct {
			System   []block
			Messages []struct {
				Role    string
				Content []block
			}
		}
		require.NoError(t, json.Unmarshal(body, &sent))
		blocks := sent.System
		for _, m := range sent.Messages {
			role := m.Role
			require.NotEmpty(t, m.Content)
			if m.Content[0].Type == "tool_result" {
				role = "tool"
			}
			authors, blocks = append(authors, role), append(blocks, m.Content...)
		}
		for _, b := range blocks {
			if b.Type == "text" {
				texts = append(texts, b.Text)
			}
			for _, inner := range b.Content {
				texts = append(texts, inner.Text)
			}
		}
		return texts, authors
	})
}

func TestEachToolHasASchemaThatIsTaken(t *testing.T) {
	open := func(address string) model.Model { return anthropicmodel.New(address, "k", http.DefaultClient) }
	names := regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)
	modeltest.RunSchemas(t, open, names, func(t *testing.T, body []byte) (schemas []json.RawMessage) {
		var sent struct {
			Tools []struct {
				Schema json.RawMessage `json:"input_schema"`
			}
		}
		require.NoError(t, json.Unmarshal(body, &sent))
		for _, one := range sent.Tools {
			schemas = append(schemas, one.Schema)
		}
		return schemas
	})
}

// Newer models refuse a temperature beside top_p.
func TestOptionsAreSent(t *testing.T) {
	modeltest.RunOptions(t, func(address string) model.Model {
		return anthropicmodel.New(address, "k", http.DefaultClient)
	}, []string{"tool_choice", "top_p", "temperature"}, map[string]string{
		"none": `{}`, "any tool": `{"tool_choice":{"type":"any"}}`,
		"one tool":           `{"tool_choice":{"type":"tool","name":"f"}}`,
		"one call":           `{"tool_choice":{"type":"auto","disable_parallel_tool_use":true}}`,
		"one call of a tool": `{"tool_choice":{"type":"tool","name":"f","disable_parallel_tool_use":true}}`,
		"without tools":      `{}`, "top_p": `{"top_p":0.25}`, "top_p and warmth": `{"top_p":0.25}`, "effort": `{}`,
		"a tool of a request": `{}`,
	})
}
