package openaimodel_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/model/modeltest"
	"agentplatform/internal/ai/model/openaimodel"
)

func TestACancelClosesTheConnection(t *testing.T) {
	modeltest.RunCancel(t, "text/event-stream",
		func(address string) model.Model { return openaimodel.New(address, "k", http.DefaultClient) })
}

func TestAFailedCallReturnsItsUsage(t *testing.T) {
	modeltest.RunSpent(t, "text/event-stream",
		func(address string) model.Model { return openaimodel.New(address, "k", http.DefaultClient) },
		[]byte(`data: {"choices":[{"delta":{"content":"a"}}],`+
			`"usage":{"prompt_tokens":1000,"completion_tokens":7,"total_tokens":1007}}`+"\n\n"),
		map[string][]byte{
			"it ends": nil, "an error": []byte(`data: {"error":{"message":"Overloaded"}}` + "\n\n"),
			"what cannot be read": []byte("data: {\n\n"),
			"content is filtered": []byte(`data: {"choices":[{"delta":{},"finish_reason":"content_filter"}]}` + "\n\n"),
		})
}

// Some proxies reset the connection when the answer has ended. Once, eight calls were paid for such a reply.
func TestAReplyIsWholeWhereTheConnectionBreaksAfterItsEnd(t *testing.T) {
	for end, kind := range map[string]model.Kind{
		`"finish_reason":"stop"`: "", `"finish_reason":null`: model.Retryable,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `data: {"choices":[{"delta":{"content":"Hi"},`+end+"}]}\n\n")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}))
		reply, err := openaimodel.New(server.URL, "k", http.DefaultClient).Converse(t.Context(),
			model.Request{Name: "m"}, func(string) {})
		server.Close()
		assert.Equal(t, kind, model.KindOf(err), "%v", err)
		if kind == "" {
			assert.Equal(t, "Hi", reply.Text)
		}
	}
}

func TestRecordings(t *testing.T) {
	modeltest.RunRecordings(t,
		func(address string) model.Model { return openaimodel.New(address+"/v1", "k", http.DefaultClient) })
}

func TestAnswersOfServers(t *testing.T) {
	modeltest.RunAnswers(t, modeltest.Provider{
		API: "openai", Reports: []string{`"error":`, `"object":"error"`},
		Open: func(c *http.Client) model.Model { return openaimodel.New("", "sk-key-of-ours", c) },
	})
}

func TestNoBlankTextIsSent(t *testing.T) {
	modeltest.RunTexts(t, func(address string) model.Model { return openaimodel.New(address, "k", http.DefaultClient) },
		func(t *testing.T, body []byte) (texts, authors []string) {
			var sent struct {
				Messages []struct {
					Role    string
					Content any
					Calls   []struct{ Function struct{ Arguments string } } `json:"tool_calls"`
				}
			}
			require.NoError(t, json.Unmarshal(body, &sent))
			for _, m := range sent.Messages {
				authors = append(authors, m.Role)
				switch content := m.Content.(type) {
				case nil:
					assert.NotEmpty(t, m.Calls, "only a call needs no content: %s", body)
				case string:
					texts = append(texts, content)
				case []any:
					for _, one := range content {
						if part := one.(map[string]any); part["type"] == "text" {
							text, _ := part["text"].(string)
							texts = append(texts, text)
						}
					}
				}
				for _, c := range m.Calls {
					assert.JSONEq(t, `{}`, c.Function.Arguments)
				}
			}
			return texts, authors
		})
}

func TestEachToolHasASchemaThatIsTaken(t *testing.T) {
	open := func(address string) model.Model { return openaimodel.New(address, "k", http.DefaultClient) }
	modeltest.RunSchemas(t, open, nil, func(t *testing.T, body []byte) (schemas []json.RawMessage) {
		var sent struct {
			Tools []struct {
				Function struct{ Parameters json.RawMessage }
			}
		}
		require.NoError(t, json.Unmarshal(body, &sent))
		for _, one := range sent.Tools {
			schemas = append(schemas, one.Function.Parameters)
		}
		return schemas
	})
}

func TestOptionsAreSent(t *testing.T) {
	const one = `{"type":"function","function":{"name":"f"}}`
	modeltest.RunOptions(t, func(address string) model.Model {
		return openaimodel.New(address, "k", http.DefaultClient)
	}, []string{"tool_choice", "parallel_tool_calls", "top_p", "temperature", "reasoning_effort"}, map[string]string{
		"none": `{}`, "any tool": `{"tool_choice":"required"}`, "one tool": `{"tool_choice":` + one + `}`,
		"one call":           `{"parallel_tool_calls":false}`,
		"one call of a tool": `{"parallel_tool_calls":false,"tool_choice":` + one + `}`,
		"without tools":      `{}`, "top_p": `{"top_p":0.25}`, "top_p and warmth": `{"top_p":0.25,"temperature":0.5}`,
		"effort": `{"reasoning_effort":"low"}`, "a tool of a request": `{}`,
	})
}
