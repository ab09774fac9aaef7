package bedrockmodel_test

import (
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/model/bedrockmodel"
	"agentplatform/internal/ai/model/modeltest"
)

func open(address string) model.Model {
	account := aws.Config{Region: "eu-central-1", BaseEndpoint: &address,
		Credentials: credentials.NewStaticCredentialsProvider("id", "secret", "")}
	return bedrockmodel.New(account, bedrockmodel.Guardrail{ID: "g", Version: "1"})
}

func TestACancelClosesTheConnection(t *testing.T) {
	modeltest.RunCancel(t, "application/vnd.amazon.eventstream", open)
}

// The recorded mock sends no error type, but Bedrock does: errors are built here as Bedrock sends them.
func TestBedrocksErrorsHaveAKind(t *testing.T) {
	for kind, c := range map[string]struct {
		status int
		text   string
		want   model.Kind
	}{
		"ValidationException": {400, "Too many input tokens. Max input tokens: 128000, request input token count: 140",
			model.TooLong},
		"AccessDeniedException": {403, "You don't have access to the model with the specified model ID.",
			model.BadRequest},
		"ThrottlingException":         {429, "Too many requests, please wait before trying again.", model.Throttled},
		"ModelNotReadyException":      {429, "The model is not ready for inference.", model.Throttled},
		"ModelTimeoutException":       {408, "The model timed out.", model.Retryable},
		"ServiceUnavailableException": {503, "Bedrock is unable to process your request.", model.Retryable},
	} {
		t.Run(kind, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("X-Amzn-Errortype", kind)
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, `{"message":"`+c.text+`"}`)
			}))
			defer server.Close()
			_, err := open(server.URL).Converse(t.Context(),
				model.Request{Name: "m", Messages: []model.Message{{Role: model.User, Text: "x"}}}, func(string) {})
			var failure *model.Error
			require.ErrorAs(t, err, &failure)
			assert.Equal(t, c.want, failure.Kind)
			assert.Contains(t, err.Error(), c.text)
		})
	}
}

// frame is a message of an event stream, of a kind: event or exception.
func frame(kind, name, body string) []byte {
	var headers []byte
	for _, h := range [][2]string{{":" + kind + "-type", name}, {":content-type", "application/json"},
		{":message-type", kind}} {
		headers = append(append(headers, byte(len(h[0]))), h[0]...)
		headers = append(binary.BigEndian.AppendUint16(append(headers, 7), uint16(len(h[1]))), h[1]...) // 7: a string
	}
	frame := binary.BigEndian.AppendUint32(nil, uint32(16+len(headers)+len(body)))
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(headers)))
	frame = binary.BigEndian.AppendUint32(frame, crc32.ChecksumIEEE(frame))
	frame = append(append(frame, headers...), body...)
	return binary.BigEndian.AppendUint32(frame, crc32.ChecksumIEEE(frame))
}

// exception is a frame that reports a failure.
func exception(name, text string) []byte { return frame("exception", name, `{"message":"`+text+`"}`) }

func TestAFailedCallReturnsItsUsage(t *testing.T) {
	begun := slices.Concat(
		frame("event", "metadata", `{"usage":{"inputTokens":1000,"outputTokens":7,"totalTokens":1007}}`),
		frame("event", "contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":"a"}}`))
	modeltest.RunSpent(t, "application/vnd.amazon.eventstream", open, begun, map[string][]byte{
		"it ends": nil, "an error": exception("throttlingException", "Too many requests"),
		"what cannot be read": []byte("x"),
		"a guardrail":         frame("event", "messageStop", `{"stopReason":"guardrail_intervened"}`),
	})
}

// A model may fail after the stream has begun. Once, every such failure was retryable.
func TestAnExceptionWithinTheStreamHasAKind(t *testing.T) {
	for _, c := range []struct {
		kind, text string
		want       model.Kind
	}{
		{"validationException", "Input is too long for requested model.", model.TooLong},
		{"modelStreamErrorException", "prompt is too long: 213462 tokens > 200000 maximum", model.TooLong},
		{"throttlingException", "Too many tokens, please wait before trying again.", model.Throttled},
		{"internalServerException", "The system encountered an unexpected error.", model.Retryable},
	} {
		t.Run(c.kind, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/vnd.amazon.eventstream")
				_, _ = w.Write(exception(c.kind, c.text))
			}))
			defer server.Close()
			_, err := open(server.URL).Converse(t.Context(),
				model.Request{Name: "m", Messages: []model.Message{{Role: model.User, Text: "x"}}}, func(string) {})
			require.ErrorContains(t, err, c.text)
			assert.Equal(t, c.want, model.KindOf(err), "%v", err)
		})
	}
}

func TestAnswersOfServers(t *testing.T) {
	modeltest.RunAnswers(t, modeltest.Provider{
		API: "bedrock",
		Open: func(c *http.Client) model.Model {
			return bedrockmodel.New(aws.Config{Region: "eu-central-1", HTTPClient: c,
				Credentials: credentials.NewStaticCredentialsProvider("id", "secret", "")}, bedrockmodel.Guardrail{})
		},
		Event: func(event json.RawMessage) []byte { // a kind, a name and a body
			var parts []json.RawMessage
			require.NoError(t, json.Unmarshal(event, &parts))
			var kind, name string
			require.NoError(t, json.Unmarshal(parts[0], &kind))
			require.NoError(t, json.Unmarshal(parts[1], &name))
			return frame(kind, name, string(parts[2]))
		},
	})
}

// Bedrock reports a wrong signature by repeating the string that was signed.
func TestBedrocksErrorTextShowsNoCredentials(t *testing.T) {
	const token = "IQoJb3JpZ2luX2VjEOURS//////////wEaCXVzLWVhc3QtMSJHMEUCIQ"
	for kind, status := range map[string]int{"InvalidSignatureException": 403, "ThrottlingException": 429,
		"ValidationException": 400} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Amzn-Errortype", kind)
			w.WriteHeader(status)
			words, _ := json.Marshal(map[string]string{
				"message": "it should have been host:" + r.Host + " token:" + r.Header.Get("X-Amz-Security-Token") +
					" " + r.Header.Get("Authorization") +
					" User: arn:aws:iam::123456789012:user/ours is not authorized",
			})
			_, _ = w.Write(words)
		}))
		account := aws.Config{Region: "eu-central-1", BaseEndpoint: &server.URL,
			Credentials: credentials.NewStaticCredentialsProvider("AKIDOURS12345", "secret", token)}
		m := bedrockmodel.New(account, bedrockmodel.Guardrail{})
		_, err := m.Converse(t.Context(),
			model.Request{Name: "m", Messages: []model.Message{{Role: model.User, Text: "x"}}}, func(string) {})
		server.Close()
		require.ErrorContains(t, err, "it should have been")
		for _, part := range []string{token, token[:20], "AKIDOURS", "127.0.0.1", "123456789012"} {
			assert.NotContains(t, err.Error(), part, kind)
		}
		for _, part := range []string{token, token[:20], "AKIDOURS"} {
			assert.NotContains(t, model.Unredacted(err), part, kind)
		}
	}
}

func TestRecordings(t *testing.T) {
	modeltest.RunRecordings(t, func(address string) model.Model {
		account := aws.Config{Region: "eu-central-1", BaseEndpoint: &address,
			Credentials: credentials.NewStaticCredentialsProvider("id", "secret", "")}
		return bedrockmodel.New(account, bedrockmodel.Guardrail{})
	})
}

func TestACallOfAnotherTimeIsDeclared(t *testing.T) {
	modeltest.RunDeclared(t, open, func(body []byte) (names []string) {
		var sent struct {
			ToolConfig struct {
				Tools []struct{ ToolSpec struct{ Name string } }
			}
		}
		require.NoError(t, json.Unmarshal(body, &sent))
		for _, one := range sent.ToolConfig.Tools {
			names = append(names, one.ToolSpec.Name)
		}
		return names
	})
}

func TestNoBlankTextIsSent(t *testing.T) {
	modeltest.RunTexts(t, open, func(t *testing.T, body []byte) (texts, authors []string) {
		var sent struct {
			System   []struct{ Text *string }
			Messages []struct {
				Role    string
				Content []struct {
					Text       *string
					ToolResult *struct{ Content []struct{ Text *string } }
				}
			}
		}
		require.NoError(t, json.Unmarshal(body, &sent))
		addText := func(text *string) {
			if text != nil {
				texts = append(texts, *text)
			}
		}
		for _, s := range sent.System {
			addText(s.Text)
		}
		for _, m := range sent.Messages {
			authors = append(authors, m.Role)
			require.NotEmpty(t, m.Content)
			for _, c := range m.Content {
				if addText(c.Text); c.ToolResult != nil {
					for _, inner := range c.ToolResult.Content {
						addText(inner.Text)
					}
				}
			}
		}
		return texts, authors
	})
}

func TestEachToolHasASchemaThatIsTaken(t *testing.T) {
	names := regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)
	modeltest.RunSchemas(t, open, names, func(t *testing.T, body []byte) (schemas []json.RawMessage) {
		var sent struct {
			ToolConfig struct {
				Tools []struct {
					ToolSpec struct {
						InputSchema struct{ JSON json.RawMessage }
					}
				}
			}
		}
		require.NoError(t, json.Unmarshal(body, &sent))
		for _, one := range sent.ToolConfig.Tools {
			schemas = append(schemas, one.ToolSpec.InputSchema.JSON)
		}
		return schemas
	})
}

func TestOptionsAreSent(t *testing.T) {
	const tools = `"tools":[{"toolSpec":{"name":"f","description":"f",` +
		`"inputSchema":{"json":{"type":"object","properties":{}}}}}]`
	none := `{"toolConfig":{` + tools + `}}`
	one := `{"toolConfig":{` + tools + `,"toolChoice":{"tool":{"name":"f"}}}}`
	modeltest.RunOptions(t, open, []string{"toolConfig", "inferenceConfig"}, map[string]string{
		"none": none, "any tool": `{"toolConfig":{` + tools + `,"toolChoice":{"any":{}}}}`, "one tool": one,
		"one call": none, "one call of a tool": one, "without tools": `{}`,
		"top_p":            `{"inferenceConfig":{"topP":0.25}}`,
		"top_p and warmth": `{"inferenceConfig":{"topP":0.25,"temperature":0.5}}`, "effort": `{}`,
		"a tool of a request": none,
	})
}
