package bedrockembedding_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/embedding"
	"agentplatform/internal/ai/embedding/bedrockembedding"
	"agentplatform/internal/ai/embedding/embeddingtest"
)

const token = "IQoJb3JpZ2luX2VjEOURS//////////wEaCXVzLWVhc3QtMSJHMEUCIQ"

func account(address string) aws.Config {
	return aws.Config{Region: "eu-central-1", BaseEndpoint: &address,
		Credentials: credentials.NewStaticCredentialsProvider("AKIDOURS12345", "secret", token)}
}

func open(address string) embedding.Model { return bedrockembedding.New(account(address)) }

// read checks the members that all requests have, and decodes the body into a structure that has all of its members.
func read(t testing.TB, model string, r *http.Request, body []byte, into any) {
	path, err := url.PathUnescape(r.URL.EscapedPath())
	assert.NoError(t, err)
	assert.Equal(t, "POST /model/"+model+"/invoke", r.Method+" "+path)
	assert.Contains(t, r.Header.Get("Authorization"), "AWS4-HMAC-SHA256")
	assert.Equal(t, "application/json", r.Header.Get("Content-Type"))
	assert.Equal(t, "application/json", r.Header.Get("Accept"))
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.DisallowUnknownFields()
	assert.NoError(t, d.Decode(into))
}

const titanName = "amazon.titan-embed-text-v2:0"

// https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-titan-embed-text.html
var titan = embeddingtest.Protocol{
	Name: titanName, Dimensions: 256, Usual: 1024, Texts: 1, Characters: 50_000, Counts: true, Secret: token,
	Open: open,
	Read: func(t testing.TB, r *http.Request, body []byte) ([]string, int) {
		var request struct {
			Text       string   `json:"inputText"`
			Dimensions int      `json:"dimensions"`
			Normalize  bool     `json:"normalize"`
			Types      []string `json:"embeddingTypes"`
		}
		read(t, titanName, r, body, &request)
		assert.Contains(t, []int{0, 256, 512, 1024}, request.Dimensions)
		return []string{request.Text}, request.Dimensions
	},
	Write: func(vectors []string, tokens int64) string {
		vector := strings.Join(vectors[:min(len(vectors), 1)], "")
		if vector == "" {
			return fmt.Sprintf(`{"inputTextTokenCount":%d}`, tokens)
		}
		return fmt.Sprintf(`{"embedding":%s,"inputTextTokenCount":%d,"embeddingsByType":{"float":%s}}`, vector, tokens,
			vector)
	},
}

// cohere is the protocol of a Cohere model.
// https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-embed-v3.html and -v4.html
func cohere(name, truncate string, characters, usual, dimensions int) embeddingtest.Protocol {
	return embeddingtest.Protocol{
		Name: name, Dimensions: dimensions, Usual: usual, Texts: 96, Characters: characters, Secret: token, Open: open,
		Read: func(t testing.TB, r *http.Request, body []byte) ([]string, int) {
			var request struct {
				Texts     []string `json:"texts"`
				Purpose   string   `json:"input_type"`
				Truncate  string   `json:"truncate"`
				Types     []string `json:"embedding_types"`
				Dimension int      `json:"output_dimension"`
			}
			read(t, name, r, body, &request)
			want := "search_document"
			if len(request.Texts) == 1 && request.Texts[0] == "What is it?" { // the only query of the suite
				want = "search_query"
			}
			assert.Equal(t, want, request.Purpose)
			assert.Equal(t, truncate, request.Truncate)
			assert.Equal(t, []string{"float"}, request.Types)
			if usual == dimensions {
				assert.Zero(t, request.Dimension, "version 3 has no such parameter")
			}
			return request.Texts, request.Dimension
		},
		Write: func(vectors []string, _ int64) string {
			return `{"id":"1","texts":["x"],"response_type":"embeddings_by_type","embeddings":{"float":[` +
				strings.Join(vectors, ",") + `]}}`
		},
	}
}

var (
	cohere3 = cohere("cohere.embed-multilingual-v3", "END", 2048, 1024, 1024)
	cohere4 = cohere("eu.cohere.embed-v4:0", "RIGHT", 100_000, 1536, 256)
)

func TestTitan(t *testing.T)   { embeddingtest.RunEndpoint(t, titan) }
func TestCohere3(t *testing.T) { embeddingtest.RunEndpoint(t, cohere3) }
func TestCohere4(t *testing.T) { embeddingtest.RunEndpoint(t, cohere4) }

func fuzz(f *testing.F, p embeddingtest.Protocol) {
	embeddingtest.FuzzReply(f, p, func(c *http.Client) embedding.Model {
		a := account("http://bedrock.example")
		a.HTTPClient = c
		return bedrockembedding.New(a)
	})
}

func FuzzTitan(f *testing.F)  { fuzz(f, titan) }
func FuzzCohere(f *testing.F) { fuzz(f, cohere4) }

// Version 3 sends a plain list where no types were requested. Some gateways always do so.
func TestCohereMaySendAPlainList(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Amzn-Bedrock-Input-Token-Count", "5")
		_, _ = w.Write([]byte(`{"embeddings":[[-3,4],[1,0]],"response_type":"embeddings_floats"}`))
	}))
	defer server.Close()
	reply, err := open(server.URL).Embed(t.Context(),
		embedding.Request{Name: "cohere.embed-english-v3", Texts: []string{"a", "b"}})
	require.NoError(t, err)
	assert.Equal(t, [][]float32{{-0.6, 0.8}, {1, 0}}, reply.Vectors)
	assert.EqualValues(t, 5, reply.Tokens, "the header says it, as the body does not")
}

// Errors are built as Bedrock sends them.
func TestBedrocksErrorsHaveAKind(t *testing.T) {
	for kind, c := range map[string]struct {
		status int
		text   string
		want   embedding.Kind
	}{
		"ValidationException": {400, "400 Bad Request: Too many input tokens. Max input tokens: 8192, request input " +
			"token count: 9000", embedding.TooLong},
		"ValidationException ": {400, "Malformed input request: #/texts: expected maximum item count: 96, found: 97, " +
			"please reformat your input and try again.", embedding.TooLong},
		"ValidationException  ":     {400, "The provided model identifier is invalid.", embedding.BadRequest},
		"AccessDeniedException":     {403, "You don't have access to the model.", embedding.BadRequest},
		"ResourceNotFoundException": {404, "Could not resolve the foundation model.", embedding.BadRequest},
		"ThrottlingException":       {429, "Too many tokens, please wait before trying again.", embedding.Throttled},
		"ModelNotReadyException":    {429, "The model is not ready for inference.", embedding.Throttled},
		"ServiceQuotaExceededException": {400, "Your request exceeds the service quota for your account.",
			embedding.Throttled},
		"ModelTimeoutException":       {408, "The model timed out.", embedding.Retryable},
		"ServiceUnavailableException": {503, "Bedrock is unable to process your request.", embedding.Retryable},
	} {
		t.Run(kind, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("X-Amzn-Errortype", strings.TrimSpace(kind))
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(`{"message":"` + c.text + `"}`))
			}))
			defer server.Close()
			_, err := open(server.URL).Embed(t.Context(),
				embedding.Request{Name: "cohere.embed-english-v3", Texts: []string{"x"}})
			assert.Equal(t, c.want, embedding.KindOf(err), "%v", err)
			assert.ErrorContains(t, err, c.text)
		})
	}
}

func TestModelsAndDimensionsThatBedrockLacksAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		dimensions int
		want       embedding.Kind
	}{
		titanName: {300, embedding.BadRequest}, "cohere.embed-english-v3": {512, embedding.BadRequest},
		"cohere.embed-v4:0": {100, embedding.BadRequest}, "anthropic.claude": {0, embedding.BadRequest},
		"": {0, embedding.BadRequest},
	} {
		_, err := open("http://127.0.0.1:1").Embed(t.Context(),
			embedding.Request{Name: name, Dimensions: c.dimensions, Texts: []string{"x"}})
		assert.Equal(t, c.want, embedding.KindOf(err), "%s: %v", name, err)
	}
}
