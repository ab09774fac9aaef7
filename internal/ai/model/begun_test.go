package model_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/providerhttp"
)

// A provider may bill a call without a reply, if it got the request and did not refuse it.
func TestAFailureIsMarkedWhereTheProviderHadBegun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	answers := func(f http.HandlerFunc) *httptest.Server {
		s := httptest.NewServer(f)
		t.Cleanup(s.Close)
		return s
	}
	status := func(code int, body string) *httptest.Server {
		return answers(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			_, _ = w.Write([]byte(body))
		})
	}
	gone := status(200, "")
	gone.Close()
	foreign := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(foreign.Close)
	for name, c := range map[string]struct {
		server *httptest.Server
		begun  bool
	}{
		"nobody listens":               {gone, false},
		"its certificate is not known": {foreign, false},
		"it is overloaded":             {status(503, "busy"), false},
		"it refuses":                   {status(400, `{"error":{"message":"no"}}`), false},
		"it refuses with status 200":   {status(200, `{"error":{"message":"no"}}`), false},
		"it refuses in its first event": {status(200, "event: error\ndata: {\"error\":{\"message\":\"no\",\"type\":"+
			"\"invalid_request_error\"}}\n\n"), false},
		"it refuses later": {status(200, "data: {}\n\nevent: error\ndata: {\"error\":{\"message\":\"no\",\"type\":"+
			"\"invalid_request_error\"}}\n\n"), true},
		"it breaks off":                {status(200, "data: broken\n\n"), true},
		"what it sends cannot be read": {status(200, "data: {\n\n"), true},
		"it sends nothing":             {status(200, ""), true},
		"it hangs up before its answer": {answers(func(http.ResponseWriter, *http.Request) {
			panic(http.ErrAbortHandler)
		}), true},
		"it hangs up within its answer": {answers(func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}), true},
		"the caller goes": {answers(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			cancel()
			<-r.Context().Done()
		}), true},
	} {
		t.Run(name, func(t *testing.T) {
			within := t.Context()
			if name == "the caller goes" {
				within = ctx
			}
			e := providerhttp.Endpoint{URL: c.server.URL, Client: &http.Client{Transport: &http.Transport{}}}
			_, err := model.Stream(within, e, 1, func(data []byte) (bool, error) {
				if string(data) == "broken" {
					return false, model.BrokeOff(providerhttp.NewTrouble("overloaded"))
				}
				return true, model.Decode(data, new(struct{}))
			})
			if err == nil {
				_, err = (&model.Draft{}).Done(nil)
			}
			require.Error(t, err)
			assert.Equal(t, c.begun, model.Begun(err), err)
			assert.Equal(t, c.begun, model.Begun(model.Redact(err, c.server.URL, nil)), "it is not forgotten")
		})
	}
	refused := &model.Draft{Stop: "stop", Refusal: "no"}
	_, err := refused.Done(nil)
	assert.True(t, model.Begun(err))
	assert.False(t, model.Begun(net.ErrClosed))
	assert.True(t, model.Begun(model.Unreachable(context.DeadlineExceeded)))
}
