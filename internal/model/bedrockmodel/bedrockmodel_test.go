package bedrockmodel_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/model"
	"agentplatform/internal/model/bedrockmodel"
	"agentplatform/internal/model/modeltest"
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
		"ValidationException": {400, "Input is too long for requested model.", model.TooLong},
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
