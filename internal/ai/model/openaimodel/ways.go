package openaimodel

import (
	"net/url"
	"strings"
	"sync"

	"agentplatform/internal/ai/model"
)

// way is one of the forms in which endpoints accept a request. The zero value is the form that most accept.
//
// Only some of OpenAI's own models refuse max_tokens. Ollama, TGI and LM Studio read nothing else, and Mistral refuses
// max_completion_tokens. llama.cpp, vLLM, SGLang, LiteLLM, Groq, OpenRouter, xAI, Gemini and DeepSeek read max_tokens
// as well. Azure has models of both kinds.
type way struct {
	completion bool // the limit of tokens is max_completion_tokens
	otherName  bool // the endpoint has refused the name of the limit with which we began
	noOptions  bool // stream_options are refused
	parallel   bool // parallel_tool_calls is refused
	// whole makes a request without a stream. Servers on Starlette, such as llama-cpp-python, begin a stream before
	// they read the request. They break the stream off if they refuse the request. Without a stream they answer with
	// the reason.
	whole bool
}

// firstWay is the first way that a call of an endpoint uses.
func firstWay(address string) way {
	u, err := url.Parse(address)
	if err != nil {
		return way{}
	}
	host := "." + strings.ToLower(u.Hostname())
	return way{completion: strings.HasSuffix(host, ".api.openai.com") || strings.HasSuffix(host, ".openai.azure.com")}
}

// tuned sets the parameters of a request by its way.
func (b *request) tuned(r model.Request, w way) {
	b.MaxTokens, b.MaxCompletion = r.MaxTokens, nil
	b.Stream, b.StreamOptions = !w.whole, &streamOptions{true}
	if w.completion {
		b.MaxTokens, b.MaxCompletion = nil, r.MaxTokens
	}
	if w.noOptions || w.whole {
		b.StreamOptions = nil
	}
	if w.parallel { // the loop drops further calls
		b.Parallel = nil
	}
}

// limit is the name of the limit of tokens.
func (w way) limit() string {
	if w.completion {
		return "max_completion_tokens"
	}
	return "max_tokens"
}

// without returns the way without the parameter that an endpoint has refused. There is none if the endpoint has refused
// another parameter, or each name of the limit.
func (w way) without(err error) (other way, is bool) {
	switch {
	case model.KindOf(err) != model.BadRequest:
	case !w.otherName && model.Refuses(err, w.limit()):
		w.completion, w.otherName, is = !w.completion, true, true
	case !w.noOptions && model.Refuses(err, "stream_options"):
		w.noOptions, is = true, true
	case !w.parallel && model.Refuses(err, "parallel_tool_calls"):
		w.parallel, is = true, true
	}
	return w, is
}

// ways caches the ways of the models of an endpoint, for this process.
type ways struct {
	first way

	mu    sync.Mutex
	known map[string]way // by the name of the model, where it is not the first
}

// maxKnown limits the models that are remembered. Users who make agents name them.
const maxKnown = 1000

func (l *ways) of(name string) way {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known, is := l.known[name]; is {
		return known
	}
	return l.first
}

// keep remembers the way of a call, also of one that was refused in the end.
func (l *ways) keep(name string, w way) {
	w.otherName = false
	l.mu.Lock()
	defer l.mu.Unlock()
	if known, is := l.known[name]; is && known == w || !is && w == l.first {
		return
	}
	if l.known == nil || len(l.known) >= maxKnown {
		l.known = map[string]way{}
	}
	l.known[name] = w
}
