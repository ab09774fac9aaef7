package embedding_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/embedding"
	"agentplatform/internal/ai/embedding/embeddingtest"
	"agentplatform/internal/ai/providerhttp"
)

var limits = embedding.Limits{Texts: 3, Bytes: 100, Characters: 40, Calls: 1, Timeout: time.Minute}

// endpoint answers properly and notes what it was asked.
type endpoint struct {
	mu    sync.Mutex
	calls [][]string
}

func (e *endpoint) call(_ context.Context, r embedding.Request) (embedding.Reply, error) {
	e.mu.Lock()
	e.calls = append(e.calls, r.Texts)
	e.mu.Unlock()
	reply := embedding.Reply{Tokens: int64(len(r.Texts))}
	for _, text := range r.Texts {
		reply.Vectors = append(reply.Vectors, embeddingtest.VectorOf(text, 8))
	}
	return reply, nil
}

func request(texts ...string) embedding.Request { return embedding.Request{Name: "m", Texts: texts} }

func TestBatchesKeepWithinTheLimits(t *testing.T) {
	long := strings.Repeat("ä", 50)
	cut := strings.Repeat("ä", 40) // 80 bytes
	for name, c := range map[string]struct {
		texts []string
		want  [][]string
	}{
		"none":           {nil, nil},
		"one":            {[]string{"a"}, [][]string{{"a"}}},
		"by count":       {[]string{"a", "b", "c", "d"}, [][]string{{"a", "b", "c"}, {"d"}}},
		"by bytes":       {[]string{"a", long, "b", long}, [][]string{{"a", cut, "b"}, {cut}}},
		"as many as fit": {[]string{"a", "b", "c", "d", "e", "f"}, [][]string{{"a", "b", "c"}, {"d", "e", "f"}}},
	} {
		var e endpoint
		reply, err := embedding.InBatches(t.Context(), request(c.texts...), limits, e.call)
		require.NoError(t, err, name)
		assert.Equal(t, c.want, e.calls, name)
		assert.EqualValues(t, len(c.texts), reply.Tokens, name)
		for i, v := range reply.Vectors {
			embeddingtest.Wants(t, embedding.Cut(c.texts[i], 40), v)
		}
	}
	var e endpoint
	larger := embedding.Limits{Texts: 3, Bytes: 10, Characters: 40, Timeout: time.Minute}
	_, err := embedding.InBatches(t.Context(), request("a", long, "b"), larger, e.call)
	require.NoError(t, err)
	assert.Equal(t, [][]string{{"a"}, {cut}, {"b"}}, e.calls, "a text that alone exceeds a batch is one")
}

func TestCutKeepsWholeCharacters(t *testing.T) {
	for text, want := range map[string]string{"": "", "abc": "abc", "abcd": "abc", "äöü": "äöü", "äöüß": "äöü",
		"日本語文": "日本語", "a\xff\xff\xffb": "a\xff\xff"} {
		assert.Equal(t, want, embedding.Cut(text, 3), "%q", text)
	}
	assert.Empty(t, embedding.Cut("x", 0))
}

func TestCallsRunConcurrentlyUpToTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := embedding.Limits{Texts: 1, Bytes: 1 << 20, Characters: 100, Calls: 4, Timeout: time.Minute}
		var e endpoint
		running, most := 0, 0
		began := time.Now()
		texts := embeddingtest.Texts(10)
		reply, err := embedding.InBatches(t.Context(), request(texts...), l,
			func(ctx context.Context, r embedding.Request) (embedding.Reply, error) {
				e.mu.Lock()
				running++
				most = max(most, running)
				e.mu.Unlock()
				time.Sleep(time.Second)
				e.mu.Lock()
				running--
				e.mu.Unlock()
				return e.call(ctx, r)
			})
		require.NoError(t, err)
		for i, v := range reply.Vectors {
			embeddingtest.Wants(t, texts[i], v)
		}
		assert.Equal(t, 4, most)
		assert.Equal(t, 3*time.Second, time.Since(began), "ten calls, four at once")
	})
}

func TestTheFirstFailureEndsAllCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := embedding.Limits{Texts: 1, Bytes: 1 << 20, Characters: 100, Calls: 4, Timeout: time.Minute}
		began := time.Now()
		calls := 0
		var mu sync.Mutex
		_, err := embedding.InBatches(t.Context(), request(embeddingtest.Texts(100)...), l,
			func(ctx context.Context, r embedding.Request) (embedding.Reply, error) {
				mu.Lock()
				calls++
				mu.Unlock()
				if r.Texts[0] == embeddingtest.Texts(2)[1] {
					time.Sleep(time.Second)
					return embedding.Reply{}, embedding.Fail(embedding.BadRequest, "no")
				}
				<-ctx.Done()
				return embedding.Reply{}, embedding.Unreachable(ctx.Err())
			})
		assert.Equal(t, embedding.BadRequest, embedding.KindOf(err), "%v", err)
		assert.Equal(t, 4, calls)
		assert.Equal(t, time.Second, time.Since(began))
	})
}

func TestEachCallHasABoundOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		hang := func(ctx context.Context, _ embedding.Request) (embedding.Reply, error) {
			<-ctx.Done()
			return embedding.Reply{}, embedding.Unreachable(ctx.Err())
		}
		_, err := embedding.InBatches(t.Context(), request("x"), limits, hang)
		assert.Equal(t, embedding.Retryable, embedding.KindOf(err), "%v", err)
		assert.EqualError(t, err, "the embedding model cannot be reached: no answer came in time")
		assert.Equal(t, time.Minute, time.Since(began))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = embedding.InBatches(ctx, request("x"), limits, hang)
		assert.Equal(t, context.DeadlineExceeded, err, "the caller's deadline is the caller's own error")
		assert.Equal(t, time.Minute+time.Second, time.Since(began))
	})
}

func TestAPanicOfACallIsTheCallers(t *testing.T) {
	for _, calls := range []int{1, 4} {
		l := limits
		l.Calls = calls
		assert.Panics(t, func() {
			_, _ = embedding.InBatches(t.Context(), request(embeddingtest.Texts(10)...), l,
				func(context.Context, embedding.Request) (embedding.Reply, error) { panic("a bug") })
		})
	}
}

func TestWhatWasPaidForCountsThoughALaterCallFails(t *testing.T) {
	var e endpoint
	reply, err := embedding.InBatches(t.Context(), request("a", "b", "c", "d"), limits,
		func(ctx context.Context, r embedding.Request) (embedding.Reply, error) {
			if r.Texts[0] == "d" {
				return embedding.Reply{}, embedding.Fail(embedding.Retryable, "gone")
			}
			return e.call(ctx, r)
		})
	require.EqualError(t, err, "gone")
	assert.Empty(t, reply.Vectors)
	assert.EqualValues(t, 3, reply.Tokens)
}

// However an endpoint refuses, the number of calls for so many texts is bounded.
func TestAnEndpointThatCallsEverythingTooLongIsLeftSoon(t *testing.T) {
	l := embedding.Limits{Texts: 64, Bytes: 1 << 20, Characters: 100_000, Timeout: time.Minute}
	texts := make([]string, 64)
	for i := range texts {
		texts[i] = strings.Repeat("word ", 2000)
	}
	for name, takes := range map[string]int{"nothing": 0, "one short text": 200, "one text": 5000} {
		calls := 0
		var e endpoint
		_, err := embedding.InBatches(t.Context(), request(texts...), l,
			func(ctx context.Context, r embedding.Request) (embedding.Reply, error) {
				calls++
				if len(r.Texts) > 1 || len(r.Texts[0]) > takes {
					return embedding.Reply{}, embedding.Fail(embedding.TooLong, "too much")
				}
				return e.call(ctx, r)
			})
		if takes == 0 {
			assert.Equal(t, embedding.TooLong, embedding.KindOf(err), name)
			assert.LessOrEqual(t, calls, 20, name)
		} else {
			require.NoError(t, err, name)
			assert.LessOrEqual(t, calls, 64*10, name)
		}
	}
}

func TestFailuresReportWhetherTheyAreRetryable(t *testing.T) {
	for kind, want := range map[embedding.Kind]bool{
		embedding.Retryable: true, embedding.Throttled: true, embedding.Malformed: true, embedding.TooLong: false,
		embedding.BadRequest: false,
	} {
		after, ok := embedding.MayRetry(&embedding.Error{Kind: kind, Wait: time.Second, Err: errors.New("x")})
		assert.Equal(t, want, ok, kind)
		assert.Equal(t, want, after == time.Second, kind)
	}
	_, ok := embedding.MayRetry(context.Canceled)
	assert.False(t, ok)
	assert.Empty(t, embedding.KindOf(context.Canceled))
}

// The words of endpoints in use.
func TestAProvidersErrorResponseHasAKind(t *testing.T) {
	for _, c := range []struct {
		status int
		words  string
		want   embedding.Kind
	}{
		// OpenAI
		{400, "This model's maximum context length is 8192 tokens, however you requested 9000", embedding.TooLong},
		{400, "Invalid 'input': maximum request size is 300000 tokens per request.", embedding.TooLong},
		{400, "'$.input' is invalid. Please check the API reference", embedding.BadRequest},
		{404, "The model `x` does not exist or you do not have access to it.", embedding.BadRequest},
		{429, "Request too large for text-embedding-3-small: Limit 40000, Requested 60000.", embedding.Throttled},
		// text-embeddings-inference
		{422, "batch size 64 > maximum allowed batch size 32", embedding.TooLong},
		{413, "Input validation error: `inputs` must have less than 512 tokens", embedding.TooLong},
		// llama.cpp
		{500, "input is too large to process. increase the physical batch size", embedding.TooLong},
		{400, "input (812 tokens) is larger than the max context size (512 tokens). skipping; context length",
			embedding.TooLong},
		// Ollama
		{400, "the input length exceeds the context length", embedding.TooLong},
		{404, `model "x" not found, try pulling it first`, embedding.BadRequest},
		// LiteLLM
		{400, "litellm.BadRequestError: Invalid model name passed in model=x", embedding.BadRequest},
		{504, "the upstream took too long", embedding.Retryable},
	} {
		err := embedding.FromHTTP(c.status, providerhttp.NewTrouble(c.words))
		assert.Equal(t, c.want, embedding.KindOf(err), "%d %s", c.status, c.words)
		assert.ErrorContains(t, err, c.words)
	}
	assert.EqualError(t, embedding.FromHTTP(502, providerhttp.Trouble{}),
		"the embedding model's provider answered 502: Bad Gateway")
}
