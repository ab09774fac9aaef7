package model_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/providerhttp"
)

// provider answers with a given response.
type provider struct {
	status  int
	header  http.Header
	body    io.Reader
	request *http.Request
}

func (p *provider) RoundTrip(r *http.Request) (*http.Response, error) {
	p.request = r
	if p.status == 0 {
		return nil, fmt.Errorf("dial tcp: %s refused", r.URL.Host)
	}
	return &http.Response{StatusCode: p.status, Header: p.header, Body: closing(p.body), Request: r}, nil
}

// closing is a body; closing it closes what it reads, if that can be closed.
func closing(body io.Reader) io.ReadCloser {
	if c, is := body.(io.ReadCloser); is {
		return c
	}
	return io.NopCloser(body)
}

func stream(t *testing.T, p *provider, event func(data []byte) (bool, error)) error {
	t.Helper()
	e := providerhttp.Endpoint{
		URL: providerhttp.Join("https://provider.internal:8443/v1/", "/chat"), Header: http.Header{"X-Key": {"secret"}},
		Client: &http.Client{Transport: p},
	}
	_, err := model.Stream(t.Context(), e, map[string]int{"n": 1}, event)
	return err
}

func TestEventsAreDeliveredInOrderUntilTheStop(t *testing.T) {
	p := &provider{status: 200,
		body: strings.NewReader(": a comment\n\nevent: x\ndata: one\n\r\ndata: tw\ndata: o\n\ndata:three\n\nid: " +
			"1\n\ndata:\n\ndata: four\n\ndata: fi")}
	var got []string
	require.NoError(t, stream(t, p, func(data []byte) (bool, error) {
		got = append(got, string(data))
		return string(data) != "four", nil
	}))
	assert.Equal(t, []string{"one", "tw\no", "three", "four"}, got)
	assert.Equal(t, "https://provider.internal:8443/v1/chat", p.request.URL.String())
	assert.Equal(t, "secret", p.request.Header.Get("X-Key"))
	sent, err := io.ReadAll(p.request.Body)
	require.NoError(t, err)
	assert.JSONEq(t, `{"n":1}`, string(sent))
}

func TestEveryFailureHasAKindAndShowsNoAddress(t *testing.T) {
	for name, c := range map[string]struct {
		provider provider
		kind     model.Kind
		text     string
	}{
		"an object": {provider{status: 400, body: strings.NewReader(`{"error":{"message":"no such model"}}`)},
			model.BadRequest, "answered 400: no such model"},
		"a text": {provider{status: 401, body: strings.NewReader(`{"error":"wrong key"}`)}, model.BadRequest,
			"answered 401: wrong key"},
		"a message": {provider{status: 422, body: strings.NewReader(`{"object":"error","message":"bad"}`)},
			model.BadRequest, "answered 422: bad"},
		"a list": {provider{status: 400,
			body: strings.NewReader(`[{"error":{"code":400,"message":"the prompt is too long"}}]`)}, model.TooLong,
			"answered 400: the prompt is too long"},
		"a detail": {provider{status: 404, body: strings.NewReader(`{"detail":"Not Found, friend"}`)},
			model.BadRequest, "answered 404: Not Found, friend"},
		"a page": {provider{status: 502, body: strings.NewReader("<html>")}, model.Retryable,
			"answered 502: Bad Gateway"},
		"a redirect": {provider{status: 304, body: strings.NewReader("")}, model.Retryable, "answered 304"},
		"too long": {provider{status: 400,
			body: strings.NewReader(`{"error":{"message":"exceeds the maximum context length"}}`)}, model.TooLong,
			"context length"},
		"endless words": {provider{status: 500, body: strings.NewReader(`{"error":"` + strings.Repeat("x", 1<<20))},
			model.Retryable, "Internal Server Error"},
		"nobody is there": {provider{}, model.Retryable, "cannot be reached"},
		"an event too long": {provider{status: 200,
			body: strings.NewReader("data: " + strings.Repeat("x", 9<<20) + "\n\n")}, model.Retryable,
			"cannot be reached"},
	} {
		t.Run(name, func(t *testing.T) {
			err := stream(t, &c.provider, func([]byte) (bool, error) { return true, nil })
			assert.Equal(t, c.kind, model.KindOf(err), "%v", err)
			require.ErrorContains(t, err, c.text)
			assert.NotContains(t, err.Error(), "provider.internal")
			assert.Less(t, len(err.Error()), 1000)
		})
	}
	throttled := &provider{status: 429, header: http.Header{"Retry-After": {"7"}}, body: strings.NewReader("")}
	after, again := model.MayRetry(stream(t, throttled, nil))
	assert.True(t, again)
	assert.Equal(t, 7*time.Second, after)
}

// trickle returns a few bytes per read, as a network does, and counts the reads.
type trickle struct{ left, reads int }

func (r *trickle) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, io.EOF
	}
	r.reads++
	n := copy(p, strings.Repeat("x", min(len(p), 1400)))
	r.left -= n
	return n, nil
}

func TestAnEventWithoutAnEndFails(t *testing.T) {
	endless := &trickle{left: 1 << 30}
	err := stream(t, &provider{status: 200, body: endless}, func([]byte) (bool, error) { return true, nil })
	assert.Equal(t, model.Retryable, model.KindOf(err))
	assert.LessOrEqual(t, endless.reads*1400, 9<<20)
}

func TestAConnectionIsReusedAfterAStream(t *testing.T) {
	var opened atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "data: last\n\n")
		_ = http.NewResponseController(w).Flush()
		_, _ = io.WriteString(w, ": and a word behind it\n\n")
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	e := providerhttp.Endpoint{URL: server.URL, Client: server.Client()}
	for range 10 {
		_, err := model.Stream(t.Context(), e, nil, func([]byte) (bool, error) { return false, nil })
		require.NoError(t, err)
	}
	assert.LessOrEqual(t, opened.Load(), int64(3), "where the end comes at once")
}

func TestValuesOfUnexpectedTypesAreRead(t *testing.T) {
	for raw, want := range map[string]model.Arguments{`"{\"a\":1}"`: `{"a":1}`, "null": "", `{"a": 1}`: `{"a": 1}`,
		`"{\"a"`: `{"a`} {
		var c struct{ A model.Arguments }
		require.NoError(t, json.Unmarshal([]byte(`{"A":`+raw+`}`), &c), raw)
		assert.Equal(t, want, c.A, raw)
	}
	for raw, want := range map[string]string{`null`: "", `{"message":"m"}`: "m", `"m"`: "m",
		`{}`: "no reason given", `[1]`: "no reason given"} {
		var c struct{ E providerhttp.Trouble }
		require.NoError(t, json.Unmarshal([]byte(`{"E":`+raw+`}`), &c), raw)
		assert.Equal(t, want != "", c.E.There, raw)
		assert.ErrorContains(t, model.BrokeOff(c.E), want, raw)
	}
}

// A provider that sends nothing more does not keep a run forever.
func TestAStreamThatFallsSilentEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body, provide := io.Pipe()
		go func() { _, _ = io.WriteString(provide, "data: {}\n\n") }()
		began := time.Now()
		events := 0
		err := stream(t, &provider{status: http.StatusOK, body: body}, func([]byte) (bool, error) {
			events++
			return true, nil
		})
		require.ErrorContains(t, err, "the model cannot be reached")
		assert.Equal(t, 1, events)
		assert.Equal(t, model.MaxSilence, time.Since(began), "of the clock of the test")
	})
}
