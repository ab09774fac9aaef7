package openaimodel_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/model/openaimodel"
)

// picky is a server that refuses some members of a request, with these words. It keeps the members of each request.
type picky struct {
	refuses map[string]string // status and body, by member
	sent    []map[string]any
	mu      sync.Mutex
}

func (p *picky) RoundTrip(r *http.Request) (*http.Response, error) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var members map[string]any
	if err := json.Unmarshal(raw, &members); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent = append(p.sent, members)
	status, body := http.StatusOK, `data: {"choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}]}`+"\n\n"
	for name, refusal := range p.refuses {
		if _, there := members[name]; there {
			if _, err := fmt.Sscan(refusal, &status); err != nil {
				return nil, err
			}
			_, body, _ = strings.Cut(refusal, " ")
		}
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Request: r,
		Body: io.NopCloser(strings.NewReader(body))}, nil
}

// names are the names of the limit of tokens that were sent, one for each request.
func (p *picky) names() (names []string) {
	for _, members := range p.sent {
		for _, name := range []string{"max_tokens", "max_completion_tokens"} {
			if members[name] == float64(5) {
				names = append(names, name)
			}
		}
	}
	return names
}

func limited(name string) model.Request {
	five := 5
	return model.Request{Name: name, MaxTokens: &five}
}

// Servers refuse a name in these words: OpenAI (opencode#37964), Azure before September 2024
// (openai-python#1724), Mistral (eca#231, openclaude#739), vLLM of 2024 (MaxKB#2912).
const (
	notMaxTokens = `400 {"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. ` +
		`Use 'max_completion_tokens' instead.","type":"invalid_request_error","param":"max_tokens",` +
		`"code":"unsupported_parameter"}}`
	unrecognized = `400 {"error":{"message":"Unrecognized request argument supplied: max_completion_tokens",` +
		`"type":"invalid_request_error","param":null,"code":null}}`
	forbidden = `422 {"object":"error","message":{"detail":[{"type":"extra_forbidden","loc":["body",` +
		`"max_completion_tokens"],"msg":"Extra inputs are not permitted","input":5}]},"type":"invalid_request_error"}`
	forbiddenDetail = `422 {"detail":[{"type":"extra_forbidden","loc":["body","store"],"msg":"Extra inputs are not ` +
		`permitted"},{"type":"extra_forbidden","loc":["body","max_completion_tokens"],"msg":"Extra inputs are not ` +
		`permitted"}]}`
	forbiddenWords = `400 {"object":"error","message":"[{'type': 'extra_forbidden', 'loc': ('body', ` +
		`'max_completion_tokens'), 'msg': 'Extra inputs are not permitted', 'input': 5}]","type":"BadRequestError",` +
		`"param":null,"code":400}`
	tooLarge = `400 {"error":{"message":"max_tokens is too large: 5. This model supports at most 4 completion ` +
		`tokens, whereas you provided 5.","type":"invalid_request_error","param":"max_tokens","code":"invalid_value"}}`
)

func TestTheLimitOfTokensHasTheNameThatTheServerReads(t *testing.T) {
	const tokens, completion = "max_tokens", "max_completion_tokens"
	for name, c := range map[string]struct {
		address string
		refuses map[string]string
		first   []string // the names that the first call sends
		later   string   // that of each later one
	}{
		"OpenAI":                   {"", nil, []string{completion}, completion},
		"OpenAI in Europe":         {"https://eu.api.openai.com/v1", nil, []string{completion}, completion},
		"Azure":                    {"https://a.openai.azure.com/openai/v1", nil, []string{completion}, completion},
		"Ollama":                   {"http://127.0.0.1:11434/v1", nil, []string{tokens}, tokens},
		"an address like OpenAI's": {"https://api.openai.com.example.org/v1", nil, []string{tokens}, tokens},
		"a model of OpenAI's behind a gateway": {"http://gateway/v1", map[string]string{tokens: notMaxTokens},
			[]string{tokens, completion}, completion},
		"older Azure": {"https://a.openai.azure.com/openai/v1", map[string]string{completion: unrecognized},
			[]string{completion, tokens}, tokens},
		"Mistral behind OpenAI's name": {"", map[string]string{completion: forbidden},
			[]string{completion, tokens}, tokens},
		"a detail": {"", map[string]string{completion: forbiddenDetail}, []string{completion, tokens}, tokens},
		"words":    {"", map[string]string{completion: forbiddenWords}, []string{completion, tokens}, tokens},
	} {
		t.Run(name, func(t *testing.T) {
			server := &picky{refuses: c.refuses}
			m := openaimodel.New(c.address, "k", &http.Client{Transport: server})
			for range 2 {
				reply, err := m.Converse(t.Context(), limited("m"), func(string) {})
				require.NoError(t, err)
				assert.Equal(t, "Hi", reply.Text)
			}
			assert.Equal(t, append(c.first, c.later), server.names())
		})
	}
}

func TestARefusalThatNoOtherNameMendsIsTheFailure(t *testing.T) {
	for name, c := range map[string]struct {
		refuses map[string]string
		calls   int
		text    string
	}{
		"a limit that is too large": {map[string]string{"max_tokens": tooLarge}, 1, "is too large"},
		"each name": {map[string]string{"max_tokens": notMaxTokens, "max_completion_tokens": unrecognized}, 2,
			"max_completion_tokens"},
		"another parameter": {
			map[string]string{"stream": strings.ReplaceAll(unrecognized, "max_completion_tokens", "stream")}, 1,
			"stream",
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := &picky{refuses: c.refuses}
			m := openaimodel.New("http://gateway/v1", "k", &http.Client{Transport: server})
			_, err := m.Converse(t.Context(), limited("m"), func(string) {})
			assert.Equal(t, model.BadRequest, model.KindOf(err))
			require.ErrorContains(t, err, c.text)
			assert.Len(t, server.sent, c.calls)
		})
	}
}

// Models of one endpoint differ: a gateway may have some of OpenAI's and others.
func TestWhatAModelRefusesIsRememberedForThatModel(t *testing.T) {
	server := &picky{refuses: map[string]string{"max_tokens": notMaxTokens}}
	m := openaimodel.New("http://gateway/v1", "k", &http.Client{Transport: server})
	_, err := m.Converse(t.Context(), limited("o3"), func(string) {})
	require.NoError(t, err)
	server.refuses = nil
	for _, name := range []string{"qwen3", "o3"} {
		_, err = m.Converse(t.Context(), limited(name), func(string) {})
		require.NoError(t, err)
	}
	assert.Equal(t, []string{"max_tokens", "max_completion_tokens", "max_tokens", "max_completion_tokens"},
		server.names())
}

// The loop drops further calls of a reply, so a request may do without parallel_tool_calls. o3-mini refuses this
// parameter (llama_index#20865), and so does LiteLLM for its models (github-copilot-llm-gateway#79).
func TestARefusedParameterThatIsNotNeededIsLeftOut(t *testing.T) {
	server := &picky{refuses: map[string]string{
		"stream_options": strings.ReplaceAll(forbiddenDetail, "max_completion_tokens", "stream_options"),
		"parallel_tool_calls": `400 {"error":{"message":"litellm.UnsupportedParamsError: ollama does not support ` +
			`parameters: ['parallel_tool_calls'], for model=m.","type":"None","param":null,"code":"400"}}`,
		"max_tokens": notMaxTokens,
	}}
	m := openaimodel.New("http://gateway/v1", "k", &http.Client{Transport: server})
	r := limited("m")
	r.Options.OneCall, r.Tools = true, []model.ToolSpec{{Name: "f", Parameters: json.RawMessage(`{}`)}}
	for range 2 {
		_, err := m.Converse(t.Context(), r, func(string) {})
		require.NoError(t, err)
	}
	last := server.sent[len(server.sent)-1]
	assert.NotContains(t, last, "stream_options")
	assert.NotContains(t, last, "parallel_tool_calls")
	assert.Equal(t, float64(5), last["max_completion_tokens"])
	assert.Len(t, server.sent, 5)
}

func TestWaysAreLearnedByManyAtOnce(t *testing.T) {
	server := &picky{refuses: map[string]string{"max_tokens": notMaxTokens}}
	m := openaimodel.New("http://gateway/v1", "k", &http.Client{Transport: server})
	var all sync.WaitGroup
	for n := range 16 {
		all.Go(func() {
			_, err := m.Converse(t.Context(), limited(fmt.Sprint("m", n%4)), func(string) {})
			assert.NoError(t, err)
		})
	}
	all.Wait()
}
