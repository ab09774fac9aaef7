package embeddingtest

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/embedding"
	"agentplatform/internal/ai/providerhttp"
)

// RunEndpoint checks the guarantees of an endpoint's adapter, for any behaviour of the endpoint.
func RunEndpoint(t *testing.T, p Protocol) {
	t.Run("of a proper endpoint", func(t *testing.T) {
		m, _ := p.open(t, nil)
		Run(t, Harness{Model: m, Name: p.Name, Dimensions: p.Dimensions})
	})
	t.Run("batches", p.testBatches)
	t.Run("too much", p.testTooMuch)
	t.Run("refusals", p.testRefusals)
	t.Run("false replies", p.testFalseReplies)
	t.Run("tokens", p.testTokens)
	t.Run("secrets", p.testSecrets)
	t.Run("endless replies", p.testEndless)
	t.Run("broken connections", p.testBroken)
	t.Run("cancel", p.testCancel)
}

func (p Protocol) request(texts ...string) embedding.Request {
	return embedding.Request{Name: p.Name, Dimensions: p.Dimensions, Purpose: embedding.ForDocument, Texts: texts}
}

func (p Protocol) testBatches(t *testing.T) {
	m, s := p.open(t, nil)
	texts := Texts(2*p.Texts + 1)
	reply, err := m.Embed(t.Context(), p.request(texts...))
	require.NoError(t, err)
	require.Len(t, reply.Vectors, len(texts))
	for i, text := range texts {
		Wants(t, text, reply.Vectors[i])
	}
	assert.Equal(t, 3, s.count(), "calls")
	_, err = m.Embed(t.Context(), p.request("one", " \t\n", "three"))
	assert.Equal(t, embedding.BadRequest, embedding.KindOf(err), "%v", err)
	assert.Equal(t, 3, s.count(), "a blank text is not sent")
}

func (p Protocol) testTooMuch(t *testing.T) {
	t.Run("a text that is too long for the model is cut", func(t *testing.T) {
		m, s := p.open(t, func(a call) *answer {
			for _, text := range a.texts {
				if len([]rune(text)) > 1200 {
					return &answer{status: http.StatusBadRequest,
						body: `{"message":"This model's maximum context length is 300 tokens, you sent 400."}`}
				}
			}
			return nil
		})
		texts := append(Texts(5), strings.Repeat("ä", 1900))
		reply, err := m.Embed(t.Context(), p.request(texts...))
		require.NoError(t, err)
		for i, text := range texts[:5] {
			Wants(t, text, reply.Vectors[i])
		}
		Wants(t, strings.Repeat("ä", 950), reply.Vectors[5])
		assert.LessOrEqual(t, s.count(), 12)
	})
	t.Run("a batch that is too large is halved", func(t *testing.T) {
		m, _ := p.open(t, func(a call) *answer {
			if len(a.texts) > 2 {
				return &answer{status: http.StatusRequestEntityTooLarge, body: "<html>too large</html>"}
			}
			return nil
		})
		texts := Texts(7)
		reply, err := m.Embed(t.Context(), p.request(texts...))
		require.NoError(t, err)
		for i, text := range texts {
			Wants(t, text, reply.Vectors[i])
		}
	})
	t.Run("whatever is called too long, it ends", func(t *testing.T) {
		m, s := p.open(t, func(call) *answer { return &answer{status: http.StatusRequestEntityTooLarge} })
		texts := append([]string{strings.Repeat("word ", 100_000)}, Texts(p.Texts-1)...)
		_, err := m.Embed(t.Context(), p.request(texts...))
		assert.Equal(t, embedding.TooLong, embedding.KindOf(err), "%v", err)
		assert.LessOrEqual(t, s.count(), 20)
	})
}

func (p Protocol) testRefusals(t *testing.T) {
	soon := http.Header{"Retry-After": {"7"}}
	dated := http.Header{"Date": {"Sun, 29 Nov 2026 10:00:00 GMT"}, "Retry-After": {"Sun, 29 Nov 2026 10:00:40 GMT"}}
	for _, c := range []struct {
		status int
		header http.Header
		words  string
		want   embedding.Kind
		wait   time.Duration
	}{
		{429, soon, "slow down", embedding.Throttled, 7 * time.Second},
		{429, nil, "too many tokens, please wait", embedding.Throttled, 0},
		{503, soon, "overloaded", embedding.Retryable, 7 * time.Second},
		{429, dated, "slow down", embedding.Throttled, 40 * time.Second},
		{429, nil, "Please try again in 1.5s.", embedding.Throttled, 1500 * time.Millisecond},
		{429, nil, "You exceeded your current quota, check your plan", embedding.BadRequest, 0},
		{402, nil, "Insufficient Balance", embedding.BadRequest, 0},
		{425, nil, "too early", embedding.Retryable, 0},
		{500, nil, "image input is not supported", embedding.BadRequest, 0},
		{500, nil, "it took too long", embedding.Retryable, 0},
		{502, nil, "bad gateway", embedding.Retryable, 0},
		{408, nil, "timeout", embedding.Retryable, 0},
		{401, nil, "wrong key", embedding.BadRequest, 0},
		{403, nil, "you may not", embedding.BadRequest, 0},
		{404, nil, "there is none", embedding.BadRequest, 0},
		{400, nil, "The provided model identifier is invalid.", embedding.BadRequest, 0},
		{400, nil, "temperature is no parameter", embedding.BadRequest, 0},
		{400, nil, "The max number of requests per minute is 3", embedding.Throttled, 0},
		{400, nil, "The max allowed value of dimensions is 1024", embedding.BadRequest, 0},
		{400, nil, "dimensions must be at most 1024", embedding.BadRequest, 0},
		{400, nil, "The maximum allowed value of top_k is 8", embedding.BadRequest, 0},
		{400, nil, "Too many inputs. The max number of inputs is 1.", embedding.TooLong, 0},
		{400, nil, "The maximum number of input texts is 96", embedding.TooLong, 0},
		{400, nil, "The max allowed tokens per submitted batch is 120000.", embedding.TooLong, 0},
		{400, nil, "Single text cannot exceed 8194 tokens. 9000 tokens given.", embedding.TooLong, 0},
		{400, nil, "Token length 3000 exceeds max length 2048", embedding.TooLong, 0},
		{400, nil, "input数组最大不得超过64条", embedding.TooLong, 0},
		{301, http.Header{"Location": {"/elsewhere"}}, "gone", embedding.Retryable, 0},
	} {
		t.Run(http.StatusText(c.status)+" "+c.words, func(t *testing.T) {
			m, s := p.open(t, func(call) *answer {
				return &answer{status: c.status, header: c.header, body: `{"message":"` + c.words + `"}`}
			})
			_, err := m.Embed(t.Context(), p.request("x"))
			var failure *embedding.Error
			require.ErrorAs(t, err, &failure)
			assert.Equal(t, c.want, failure.Kind, "%v", err)
			assert.Equal(t, c.wait, failure.Wait)
			if c.status >= 400 {
				assert.Contains(t, err.Error(), c.words)
			}
			assert.Equal(t, 1, s.count(), "a refusal is not asked for again")
		})
	}
}

func (p Protocol) testFalseReplies(t *testing.T) {
	d := p.Dimensions
	good, encoded := List(VectorOf("x", d)), base64.StdEncoding.EncodeToString
	numbers := func(n int, last string) string { return "[" + strings.Repeat("0.5,", n-1) + last + "]" }
	wrong := map[string]string{
		"no numbers":                  "[]",
		"a dimension too few":         numbers(d-1, "1"),
		"a dimension too many":        numbers(d+1, "1"),
		"far too many dimensions":     numbers(embedding.MaxDimensions+1, "1"),
		"null as a number":            numbers(d, "null"),
		"text as a number":            numbers(d, `"1"`),
		"a list as a number":          numbers(d, "[1]"),
		"a number too large":          numbers(d, "1e39"),
		"a number far too large":      numbers(d, "1e400"),
		"what is no number":           numbers(d, "NaN"),
		"nothing but zeros":           "[" + strings.Repeat("0,", d-1) + "-0.0]",
		"an object":                   "{}",
		"null":                        "null",
		"true":                        "true",
		"base64 of nothing":           `""`,
		"base64 that is none":         `"äöü"`,
		"base64 of half a number":     `"AAA="`,
		"base64 of what is no number": `"` + encoded(bytes.Repeat([]byte{0, 0, 0xc0, 0x7f}, d)) + `"`,
		"base64 without an end":       `"` + strings.Repeat("AAAA", 10_000) + `"`,
	}
	replies := map[string][]string{"no vector": {}}
	for name, vector := range wrong {
		replies[name] = []string{vector, vector}[:min(p.Texts, 2)]
	}
	if p.Texts > 1 {
		replies["a vector too few"] = []string{good}
		replies["a vector too many"] = []string{good, good, good}
		replies["one good vector"] = []string{good, "[1]"}
	}
	for name, vectors := range replies {
		t.Run(name, func(t *testing.T) {
			m, _ := p.open(t, func(call) *answer { return &answer{vectors: vectors} })
			reply, err := m.Embed(t.Context(), p.request("x", "y"))
			assert.Equal(t, embedding.Malformed, embedding.KindOf(err), "%v", err)
			assert.Empty(t, reply.Vectors)
		})
	}
	t.Run("other dimensions in another call", func(t *testing.T) {
		m, s := p.open(t, nil)
		s.behave = func(a call) *answer {
			if a.texts[0] == Texts(1)[0] {
				return nil
			}
			return &answer{vectors: slices.Repeat([]string{numbers(7, "1")}, len(a.texts))}
		}
		r := p.request(Texts(p.Texts + 1)...)
		r.Dimensions = 0
		_, err := m.Embed(t.Context(), r)
		assert.Equal(t, embedding.Malformed, embedding.KindOf(err), "%v", err)
	})
	p.testFalseBodies(t)
}

func (p Protocol) testFalseBodies(t *testing.T) {
	for name, body := range map[string]string{
		"nothing": "", "no JSON": "<html></html>", "cut JSON": `{"data":[{"embedding":[0.1,`, "a list": "[]",
		"null": "null", "a text": `"hello"`, "deep": strings.Repeat("[", 100_000), "no members": "{}",
		"members of other types": `{"data":7,"embedding":"x","embeddings":true,"usage":[]}`,
		"many values": `{"data":[` + strings.Repeat("{},", 60_000) + `{}],"embeddings":[` +
			strings.Repeat("[],", 60_000) + `[]],"embedding":[` + strings.Repeat("0,", 60_000) + `0]}`,
	} {
		t.Run("a body of "+name, func(t *testing.T) {
			m, _ := p.open(t, func(call) *answer { return &answer{body: body} })
			_, err := m.Embed(t.Context(), p.request("x"))
			assert.Equal(t, embedding.Malformed, embedding.KindOf(err), "%v", err)
		})
	}
}

func (p Protocol) testTokens(t *testing.T) {
	if !p.Counts {
		t.Skip("replies of this model do not say them")
	}
	for claim, want := range map[int64]int64{7: 7, -5: 0, 1 << 62: 3 + 16} {
		m, _ := p.open(t, func(a call) *answer { return &answer{vectors: p.vectors(a), tokens: claim} })
		reply, err := m.Embed(t.Context(), p.request("abc"))
		require.NoError(t, err)
		assert.Equal(t, want, reply.Tokens, "a claim of %d tokens for three letters", claim)
	}
}

func (p Protocol) testSecrets(t *testing.T) {
	for _, status := range []int{200, 400, 401, 403, 404, 413, 429, 500} {
		m, _ := p.open(t, func(a call) *answer {
			words := a.request.Header.Get("Authorization") + " " + a.request.Header.Get("X-Amz-Security-Token") +
				" was sent to http://" + a.request.Host + a.request.URL.Path + " at 10.1.2.3:8000"
			words = strings.ReplaceAll(words, `"`, "")
			return &answer{status: status, body: `{"message":"` + words + `","error":{"message":"` + words + `"}}`}
		})
		_, err := m.Embed(t.Context(), p.request("x"))
		require.Error(t, err)
		for _, text := range []string{err.Error(), providerhttp.Unredacted(err)} {
			assert.NotContains(t, text, p.Secret)
		}
		for _, part := range []string{"127.0.0.1", "10.1.2.3", "http://"} {
			assert.NotContains(t, err.Error(), part)
		}
	}
	listening := httptest.NewServer(nil)
	address := listening.URL
	listening.Close()
	_, err := p.Open(address).Embed(t.Context(), p.request("x"))
	assert.Equal(t, embedding.Retryable, embedding.KindOf(err), "%v", err)
	assert.NotContains(t, err.Error(), "127.0.0.1")
	assert.Contains(t, err.Error(), "the connection was refused")
}

// The test counts the bytes that the server sends; the network may buffer some megabytes of them.
func (p Protocol) testEndless(t *testing.T) {
	const most = 32 << 20
	for name, start := range map[string]string{"of blanks": " ", "of numbers": `{"embedding":[`, "of a refusal": "x"} {
		t.Run(name, func(t *testing.T) {
			sent := make(chan int, 1)
			listening := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				if name == "of a refusal" {
					w.WriteHeader(http.StatusBadRequest)
				}
				_, _ = io.WriteString(w, start)
				total, piece := 0, []byte(strings.Repeat("0, ", 10_000))
				for total <= 2*most {
					n, err := w.Write(piece)
					if total += n; err != nil {
						break
					}
				}
				sent <- total
			}))
			defer listening.Close()
			_, err := p.Open(listening.URL).Embed(t.Context(), p.request("x"))
			assert.NotEmpty(t, embedding.KindOf(err), "%v", err)
			assert.LessOrEqual(t, <-sent, most)
		})
	}
}

func (p Protocol) testBroken(t *testing.T) {
	for name, start := range map[string]string{"before the answer": "", "in the answer": `{"embedding":[0.1,`} {
		t.Run(name, func(t *testing.T) {
			listening := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if start != "" {
					w.Header().Set("Content-Length", "1000")
					_, _ = io.WriteString(w, start)
					_ = http.NewResponseController(w).Flush()
				}
				panic(http.ErrAbortHandler)
			}))
			defer listening.Close()
			_, err := p.Open(listening.URL).Embed(t.Context(), p.request("x"))
			assert.Equal(t, embedding.Retryable, embedding.KindOf(err), "%v", err)
			assert.NotContains(t, err.Error(), "127.0.0.1")
		})
	}
}

// The server waits until its request ends, which is when the client closes the connection.
func (p Protocol) testCancel(t *testing.T) {
	for name, start := range map[string]string{"before the answer": "", "in the answer": `{"embedding":[0.1,`} {
		t.Run(name, func(t *testing.T) {
			arrived, gone := make(chan struct{}, 1), make(chan struct{})
			listening := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				if start != "" {
					_, _ = io.WriteString(w, start)
					_ = http.NewResponseController(w).Flush()
				}
				arrived <- struct{}{}
				<-r.Context().Done()
				close(gone)
			}))
			defer listening.Close()
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-arrived
				cancel()
			}()
			_, err := p.Open(listening.URL).Embed(ctx, p.request("x"))
			require.ErrorIs(t, err, context.Canceled)
			<-gone
		})
	}
}
