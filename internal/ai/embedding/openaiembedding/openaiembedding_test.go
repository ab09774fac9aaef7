package openaiembedding_test

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/embedding"
	"agentplatform/internal/ai/embedding/embeddingtest"
	"agentplatform/internal/ai/embedding/openaiembedding"
	"agentplatform/internal/wiring/broker"
)

const key = "sk-embedding-OURS-1234567890"

var straight = &http.Client{
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// protocol is that of https://platform.openai.com/docs/api-reference/embeddings
var protocol = embeddingtest.Protocol{
	Name: "some-model", Dimensions: 256, Usual: 384, Texts: 32, Characters: 32_000, Counts: true, Secret: key,
	Open: func(address string) embedding.Model { return openaiembedding.New(address+"/v1", key, straight) },
	Read: func(t testing.TB, r *http.Request, body []byte) ([]string, int) {
		var request struct {
			Model      string   `json:"model"`
			Input      []string `json:"input"`
			Format     string   `json:"encoding_format"`
			Dimensions int      `json:"dimensions"`
		}
		d := json.NewDecoder(strings.NewReader(string(body)))
		d.DisallowUnknownFields()
		assert.NoError(t, d.Decode(&request))
		assert.Equal(t, "POST /v1/embeddings", r.Method+" "+r.URL.Path)
		assert.Equal(t, "Bearer "+key, r.Header.Get("Authorization"))
		assert.Equal(t, "application/json", r.Header.Get("Content-Type"))
		assert.Equal(t, "some-model", request.Model)
		assert.Equal(t, "float", request.Format)
		return request.Input, request.Dimensions
	},
	// The vectors come last first: their index gives the order.
	Write: func(vectors []string, tokens int64) string {
		var items []string
		for i, v := range vectors {
			items = append([]string{fmt.Sprintf(`{"object":"embedding","index":%d,"embedding":%s}`, i, v)}, items...)
		}
		return fmt.Sprintf(`{"object":"list","data":[%s],"model":"some-model","usage":{"prompt_tokens":%d,`+
			`"total_tokens":%d}}`, strings.Join(items, ","), tokens, tokens)
	},
}

func TestContract(t *testing.T) { embeddingtest.RunEndpoint(t, protocol) }

// A broker, which has the key, behaves like the model itself.
func TestContractThroughABroker(t *testing.T) {
	through := protocol
	through.Open = func(address string) embedding.Model {
		b := &broker.Broker{Log: slog.New(slog.DiscardHandler), Embeddings: map[string]embedding.Model{
			"openai": protocol.Open(address),
		}}
		return &broker.Embedding{Client: &broker.Client{Broker: b}, Provider: "openai"}
	}
	embeddingtest.RunEndpoint(t, through)
	embeddingtest.RunRecordings(t, through.Open)
}

func TestRecordings(t *testing.T) { embeddingtest.RunRecordings(t, protocol.Open) }

func FuzzReply(f *testing.F) {
	embeddingtest.FuzzReply(f, protocol,
		func(c *http.Client) embedding.Model { return openaiembedding.New("", "", c) })
}

// ask sends two texts to an endpoint that answers with a body.
func ask(t *testing.T, body string) (embedding.Reply, error) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Empty(t, r.Header.Get("Authorization"), "without a key none is sent")
		_, _ = io.WriteString(w, body)
	}))
	defer server.Close()
	return openaiembedding.New(server.URL, "", straight).Embed(t.Context(),
		embedding.Request{Name: "m", Texts: []string{"a", "b"}})
}

func TestVectorsAreReadAsEndpointsSendThem(t *testing.T) {
	raw := binary.LittleEndian.AppendUint32(nil, math.Float32bits(-3))
	raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(4))
	encoded := base64.StdEncoding.EncodeToString(raw)
	for name, data := range map[string]string{
		"in any order":     `{"index":1,"embedding":[-3,4]},{"index":0,"embedding":[1,0]}`,
		"without indexes":  `{"embedding":[1,0]},{"embedding":[-3,4]}`,
		"in base64":        `{"index":0,"embedding":[1,0]},{"index":1,"embedding":"` + encoded + `"}`,
		"of whole numbers": `{"index":0,"embedding":[ 1 , 0 ]},{"index":1,"embedding":[-300,4e2]}`,
		"with more":        `{"index":0,"embedding":[1,0],"text":"a"},{"index":1,"embedding":[-3,4],"x":{"y":[null]}}`,
	} {
		reply, err := ask(t, `{"data":[`+data+`]}`)
		require.NoError(t, err, name)
		assert.Equal(t, [][]float32{{1, 0}, {-0.6, 0.8}}, reply.Vectors, name)
	}
}

func TestVectorsThatBelongToNoTextAreRefused(t *testing.T) {
	for name, indexes := range map[string][2]string{
		"one twice": {"1", "1"}, "one that no text has": {"0", "2"}, "a negative one": {"0", "-1"},
		"only some": {"0", "null"}, "no number": {"0", `"1"`}, "a fraction": {"0", "0.5"}, "huge": {"0", "1e30"},
	} {
		_, err := ask(t, fmt.Sprintf(`{"data":[{"index":%s,"embedding":[1,0]},{"index":%s,"embedding":[0,1]}]}`,
			indexes[0], indexes[1]))
		assert.Equal(t, embedding.Malformed, embedding.KindOf(err), "%s: %v", name, err)
	}
}

func TestAnErrorInAProperAnswerIsAFailure(t *testing.T) {
	_, err := ask(t, `{"error":{"message":"the backend is gone"},"data":[]}`)
	assert.Equal(t, embedding.Retryable, embedding.KindOf(err), "%v", err)
	assert.ErrorContains(t, err, "the backend is gone")
}

// Voyage refuses encoding_format float, and LiteLLM refuses the parameter for models of Gemini (hindsight#925). Others,
// such as DeepInfra, refuse a request without it (hindsight#434).
func TestAFormatThatIsRefusedIsLeftOut(t *testing.T) {
	for _, refusal := range []string{
		`{"detail":"The request body is not valid JSON, or some arguments were not specified properly. In ` +
			`particular, Value 'float' supplied for argument 'encoding_format' is not valid -- accepted values ` +
			`are 'base64'"}`,
		`{"error":{"message":"litellm.UnsupportedParamsError: gemini does not support parameters: ` +
			`{'encoding_format': 'float'}, for model=m.","type":"None","param":null,"code":"400"}}`,
		`{"error":{"message":"Extra inputs are not permitted","param":"encoding_format","code":"extra_forbidden"}}`,
	} {
		var formats []string
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var request map[string]any
			assert.NoError(t, json.NewDecoder(r.Body).Decode(&request))
			format, there := request["encoding_format"]
			formats = append(formats, fmt.Sprint(request["model"], format))
			if there && request["model"] == "picky" {
				w.WriteHeader(http.StatusBadRequest)
				_, _ = io.WriteString(w, refusal)
				return
			}
			_, _ = io.WriteString(w, `{"data":[{"index":0,"embedding":[1,0]}]}`)
		}))
		m := openaiembedding.New(server.URL, "", straight)
		for _, name := range []string{"picky", "picky", "other"} {
			_, err := m.Embed(t.Context(), embedding.Request{Name: name, Texts: []string{"a"}})
			require.NoError(t, err)
		}
		assert.Equal(t, []string{"pickyfloat", "picky<nil>", "picky<nil>", "otherfloat"}, formats)
		server.Close()
	}
}

// A refusal may repeat a text that has the parameter's name. It refuses the format only if a request without it
// succeeds.
func TestAFormatIsLeftOutLaterOnlyWhereThatHelped(t *testing.T) {
	for status, want := range map[int]embedding.Kind{
		http.StatusBadRequest: embedding.BadRequest, http.StatusServiceUnavailable: embedding.Retryable,
	} {
		var formats []any
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var request map[string]any
			assert.NoError(t, json.NewDecoder(r.Body).Decode(&request))
			formats = append(formats, request["encoding_format"])
			switch {
			case request["encoding_format"] == nil:
				http.Error(w, `{"error":{"message":"the format is required"}}`, status)
			case strings.Contains(fmt.Sprint(request["input"]), "bad"):
				http.Error(w, `{"error":{"message":"bad text: 'encoding_format'"}}`, http.StatusBadRequest)
			default:
				_, _ = io.WriteString(w, `{"data":[{"index":0,"embedding":[1,0]}]}`)
			}
		}))
		m := openaiembedding.New(server.URL, "", straight)
		_, err := m.Embed(t.Context(), embedding.Request{Name: "m", Texts: []string{"bad encoding_format"}})
		assert.Equal(t, want, embedding.KindOf(err), "%v", err)
		if want == embedding.BadRequest {
			require.ErrorContains(t, err, "bad text", "the first refusal names the cause")
		}
		_, err = m.Embed(t.Context(), embedding.Request{Name: "m", Texts: []string{"good"}})
		require.NoError(t, err)
		assert.Equal(t, []any{"float", nil, "float"}, formats)
		server.Close()
	}
}

func TestAnAddressThatIsNoneIsAFailure(t *testing.T) {
	_, err := openaiembedding.New("http://[bad", "", straight).Embed(t.Context(),
		embedding.Request{Name: "m", Texts: []string{"a"}})
	assert.EqualError(t, err, "the embedding model cannot be reached: the request failed")
}
